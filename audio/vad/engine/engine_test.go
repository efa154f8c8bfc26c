package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
)

const ms = time.Millisecond

// level is a model whose probability is the first sample of a frame, in
// hundredths: frames of 10 ms at 8 kHz.
type level struct{ open *int }

func (level) Name() string { return "level" }
func (level) Rate() int    { return 8000 }
func (level) Frame() int   { return 80 }
func (l level) Open() (Stream, error) {
	if l.open != nil {
		*l.open++
	}
	return levelStream(l), nil
}

type levelStream struct{ open *int }

var errModel = errors.New("the model is out of order")

func (levelStream) Speech(pcm []int16) (float64, error) {
	if pcm[0] < 0 {
		return 0, errModel
	}
	return float64(pcm[0]) / 100, nil
}

func (l levelStream) Close() {
	if l.open != nil {
		*l.open--
	}
}

// sound has a frame of 10 ms for each number.
func sound(levels ...int16) audio.Frame {
	f := audio.Frame{Rate: 8000}
	for _, l := range levels {
		f.PCM = append(f.PCM, slices.Repeat([]int16{l}, 80)...)
	}
	return f
}

func TestNotices(t *testing.T) {
	o := Options{Stop: 30 * ms, Start: 20 * ms, On: 0.5, Off: 0.35}
	for _, c := range []struct {
		name string
		o    Options
		f    audio.Frame
		want []Notice
	}{
		{"silence", o, sound(0, 0, 0, 0), nil},
		{"one frame is none", o, sound(0, 90, 0, 90, 0, 0, 0), nil},
		{"speech", o, sound(0, 50, 90, 90, 0, 0, 0, 0), []Notice{{true, 10 * ms, 30 * ms}, {false, 40 * ms, 70 * ms}}},
		{"goes on at off", o, sound(60, 60, 35, 35, 34, 0, 0), []Notice{{true, 0, 20 * ms}, {false, 40 * ms, 70 * ms}}},
		{"a pause below the hangover", o, sound(60, 60, 0, 0, 60, 0, 0, 0), []Notice{{true, 0, 20 * ms}, {false, 50 * ms, 80 * ms}}},
		{"a pause as long as the hangover", o, sound(60, 60, 0, 0, 0, 60, 60, 0, 0, 0), []Notice{{true, 0, 20 * ms}, {false, 20 * ms, 50 * ms}, {true, 50 * ms, 70 * ms}, {false, 70 * ms, 100 * ms}}},
		{"cut off", o, sound(0, 60, 60), []Notice{{true, 10 * ms, 30 * ms}, {false, 30 * ms, 60 * ms}}},
		{"cut off in the hangover", o, sound(60, 60, 0), []Notice{{true, 0, 20 * ms}, {false, 20 * ms, 50 * ms}}},
		{"a hangover between frames", Options{Stop: 25 * ms, Start: 0, On: 0.5, Off: 0.5}, sound(60, 0, 0, 0, 0), []Notice{{true, 0, 10 * ms}, {false, 10 * ms, 40 * ms}}},
		{"a beginning between frames", Options{Stop: 25 * ms, Start: 11 * ms, On: 0.5, Off: 0.5}, sound(60, 60, 0, 0, 0), []Notice{{true, 0, 20 * ms}, {false, 20 * ms, 50 * ms}}},
	} {
		got, err := Notices(level{}, c.o, c.f)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var levels []int16
	for range 300 {
		levels = append(levels, slices.Repeat([]int16{int16(r.IntN(100))}, 1+r.IntN(8))...)
	}
	f := sound(levels...)
	o := Options{Stop: 30 * ms, Start: 20 * ms, On: 0.5, Off: 0.35}
	open := 0
	want, err := Notices(level{&open}, o, f)
	if err != nil || len(want) < 20 || open != 0 {
		t.Fatalf("%d notices, %v, %d streams left open", len(want), err, open)
	}
	d, err := NewDetector(level{}, o, f.Rate)
	if err != nil {
		t.Fatal(err)
	}
	var got []Notice
	for rest := f.PCM; len(rest) > 0; {
		n := min(len(rest), r.IntN(300))
		notices, err := d.Push(audio.Frame{Rate: f.Rate, PCM: rest[:n]})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, notices...)
		rest = rest[n:]
	}
	if stop, ok := d.Rest(); ok {
		got = append(got, stop)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, in one piece %v", got, want)
	}
}

func TestRefused(t *testing.T) {
	good := Options{Stop: 30 * ms, On: 0.5, Off: 0.35}
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) { o.Stop = 0 }, "stop: 0s"}, {func(o *Options) { o.Start = -1 }, "start: -1ns"},
		{func(o *Options) { o.On = 1.5 }, "on: 1.5"}, {func(o *Options) { o.Off = 0.6 }, "off: 0.6"}, {func(o *Options) { o.Off = 0 }, "off: 0"},
	} {
		o := good
		c.change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", o, err, c.want)
		}
		if _, err := NewDetector(level{}, o, 8000); err == nil {
			t.Errorf("%+v: a Detector was made", o)
		}
	}
	if err := Defaults().Check(); err != nil {
		t.Error(err)
	}
	if _, err := NewDetector(level{}, good, 7); err == nil {
		t.Error("rate 7 was taken")
	}
	d, _ := NewDetector(level{}, good, 8000)
	if _, err := d.Push(audio.Frame{Rate: 16000}); err == nil || !strings.Contains(err.Error(), "16000") {
		t.Errorf("another rate: %v", err)
	}
	if _, err := Notices(level{}, good, sound(-1)); !errors.Is(err, errModel) || !strings.HasPrefix(err.Error(), "vad: level: ") {
		t.Errorf("%v", err)
	}
}
