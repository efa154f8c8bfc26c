package live

import (
	"math"
	"os"
	"testing"
	"time"

	"firstsound/audio"
)

// tone is what the files of testdata were made of: 80 ms of silence, then half a
// second and 20 ms of 440 Hz, which begins at its height.
func tone(rate int) audio.Frame {
	f := audio.Frame{Rate: rate, PCM: make([]int16, rate*60/100)}
	for i := rate * 8 / 100; i < len(f.PCM); i++ {
		f.PCM[i] = int16(8000 * math.Cos(2*math.Pi*440*float64(i)/float64(rate)))
	}
	return f
}

// The first audible sample of what real encoders made lies where it was, and what
// a decoder without their tags cannot know behind it: 576 samples of LAME's delay
// and 529 of every decoder's (LAME's technical FAQ). Opus says its delay itself.
//
//	lame -t -b 48 --cbr tone24000.wav tone-24k.mp3
//	lame -b 64 tone44100.wav tone-44k-info.mp3
//	opusenc --bitrate 24 tone48000.wav tone.opus
func TestAudible(t *testing.T) {
	for _, test := range []struct {
		file, encoding string
		rate, delay    int // in samples
	}{
		{"tone-24k.mp3", MP3, 24000, 576 + 529},
		{"tone-44k-info.mp3", MP3, 44100, 576 + 529}, // its first frame has a tag in place of sound
		{"tone.opus", Opus, 48000, 0},
	} {
		data, err := os.ReadFile("testdata/" + test.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range []int{1, 100, 1 << 20} {
			got, err := decode(t, mustDecoder(t, test.encoding, 0), data, piece)
			if err != nil || got.Rate != test.rate {
				t.Fatalf("%s: %v, at %d", test.file, err, got.Rate)
			}
			was, _, _ := audio.FirstAudible(tone(test.rate))
			is, found, err := audio.FirstAudible(got)
			off := audio.Span(is, test.rate) - audio.Span(was+test.delay, test.rate)
			t.Logf("%s in pieces of %d: %v of sound, audible at %v, off by %v", test.file, piece, got.Duration(), audio.Span(is, test.rate), off)
			if err != nil || !found || off.Abs() > 2*time.Millisecond {
				t.Errorf("%s: audible %v at %v, which is off by %v; %v", test.file, found, audio.Span(is, test.rate), off, err)
			}
			if test.encoding == Opus && got.Duration() != 600*time.Millisecond {
				t.Errorf("%s has %v of sound", test.file, got.Duration())
			}
		}
	}
}
