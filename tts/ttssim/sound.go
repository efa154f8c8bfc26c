package ttssim

import (
	"math"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"firstsound/audio"
)

const (
	loop    = time.Second     // the voice repeats after this
	longest = 4 * time.Second // no frame is longer
)

// sounds are the samples that all frames of a rate are slices of. Nobody may
// change them.
type sounds struct {
	rate           int
	silence, voice []int16
}

// A tone of 150 Hz with overtones that fall off as those of a voice do, four
// syllables a second. Its phases start such that the first 10 ms are as loud as
// the others, so that the speech is audible from its first sample on.
const (
	pitch     = 150.0 // Hz: a whole number of them fits into loop
	syllables = 4.0   // a second: likewise
	overtones = 8
	depth     = 0.4  // how much softer it is between two syllables: 0 … 1
	loudness  = -20. // dBFS RMS
)

// sharedSounds are made once for each rate: they are constants, only too long
// to be written down.
var sharedSounds sync.Map // rate → *sounds

func soundsAt(rate int) *sounds {
	if s, ok := sharedSounds.Load(rate); ok {
		return s.(*sounds)
	}
	s, _ := sharedSounds.LoadOrStore(rate, makeSounds(rate))
	return s.(*sounds)
}

func makeSounds(rate int) *sounds {
	period := audio.Samples(loop, rate)
	most := audio.Samples(longest, rate)
	wave := make([]float64, period)
	sum := 0.0
	for i := range wave {
		t := float64(i) / float64(rate)
		x := 0.0
		for k := 1.0; k <= overtones && k*pitch < float64(rate)/2; k++ {
			x += math.Cos(2*math.Pi*k*pitch*t+k*k) / k
		}
		x *= 1 - depth*(0.5-0.5*math.Cos(2*math.Pi*syllables*t))
		wave[i] = x
		sum += x * x
	}
	gain := 32768 * math.Pow(10, loudness/20) / math.Sqrt(sum/float64(period))
	s := &sounds{rate: rate, silence: make([]int16, most), voice: make([]int16, period+most)}
	for i := range s.voice {
		s.voice[i] = int16(math.Round(gain * wave[i%period]))
	}
	return s
}

// speech returns n samples of voice that follow the first said ones.
func (s *sounds) speech(said, n int) audio.Frame {
	from := said % audio.Samples(loop, s.rate)
	return audio.Frame{Rate: s.rate, PCM: s.voice[from : from+n : from+n]}
}

func (s *sounds) quiet(n int) audio.Frame {
	return audio.Frame{Rate: s.rate, PCM: s.silence[:n:n]}
}

// length returns how long o speaks text, without LeadSilence and TailSilence.
// Space around the text takes no time.
func (o *Options) length(text string) time.Duration {
	text = strings.TrimSpace(text)
	han, others := 0, len(text)
	if !isASCII(text) {
		others = 0
		for _, c := range text {
			if unicode.Is(unicode.Han, c) {
				han++
			} else {
				others++
			}
		}
	}
	seconds := float64(float64(han)/o.RateHan) + float64(float64(others)/o.Rate)
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
