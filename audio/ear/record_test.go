package ear

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-audio/wav"

	"firstsound/audio"
)

func TestRecording(t *testing.T) {
	var r Recording
	if err := r.Write(filepath.Join(t.TempDir(), "a.wav")); err == nil {
		t.Error("a recording without sound is written")
	}
	tens := func(rate, n int, v int16) audio.Frame {
		f := audio.Frame{Rate: rate}
		for range n {
			f.PCM = append(f.PCM, v)
		}
		return f
	}
	for _, err := range []error{
		r.Add(Caller, 10*ms, tens(8000, 80, 100)),
		r.Add(Caller, 15*ms, tens(8000, 80, 200)), // overlaps: comes after
		r.Add(Agent, 50*ms, tens(8000, 80, 300)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		r.Add(Caller, 0, tens(16000, 1, 1)), r.Add(Agent, -1, tens(8000, 1, 1)),
		r.Add(Agent, MaxRecording, tens(8000, 1, 1)), r.Add(Agent, 0, tens(1, 1, 1)),
	} {
		if err == nil {
			t.Error("taken")
		}
	}
	r.Mark(50*ms, 60*ms, "first\tsound\n1")
	r.Mark(30*ms, 30*ms, "speech_end")
	path := filepath.Join(t.TempDir(), "call.wav")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf, err := wav.NewDecoder(f).FullPCMBuffer()
	if err != nil || buf.Format.NumChannels != 2 || buf.Format.SampleRate != 8000 || len(buf.Data) != 2*480 {
		t.Fatalf("%v %v", err, buf)
	}
	for at, want := range map[time.Duration][2]int{0: {0, 0}, 10 * ms: {100, 0}, 19 * ms: {100, 0}, 20 * ms: {200, 0}, 29 * ms: {200, 0}, 30 * ms: {0, 0}, 50 * ms: {0, 300}} {
		i := audio.Samples(at, 8000)
		if got := [2]int{buf.Data[2*i], buf.Data[2*i+1]}; got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	labels, err := os.ReadFile(strings.TrimSuffix(path, ".wav") + ".txt")
	if want := "0.030000\t0.030000\tspeech_end\n0.050000\t0.060000\tfirst sound 1\n"; err != nil || string(labels) != want {
		t.Errorf("labels %q %v, want %q", labels, err, want)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 2 {
		t.Errorf("%d files", len(left))
	}
}
