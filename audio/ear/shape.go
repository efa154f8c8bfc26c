package ear

import (
	"math"
	"slices"
	"time"

	"firstsound/audio"
)

// How a beep and a line's noise are told from speech. The limits lie between what
// made tones and noises give, and what vowels do, with room on both sides.
const (
	shapeRate  = 8000 // at which the spectrum is looked at, about
	shapeTime  = 60 * time.Millisecond
	binTime    = 60.0 / 1000 // the distance of two bins is its inverse, 16.7 Hz
	bins       = 230         // up to 3.8 kHz
	toneShare  = 0.97        // of the power, that one or two frequencies have in a tone
	toneRange  = 2.0         // dB between the loudest and the softest 10 ms of a tone
	noiseFlat  = 0.6         // geometric by arithmetic mean over bands of 250 Hz; white noise has 0.95
	noiseRange = 3.0         // dB between the loudest and the softest 20 ms of noise
)

// take returns d of the sound from frame i on, at about 8 kHz, without its mean; nil
// if there is less, or if there is a packet missing or made up within.
func (s *Stream) take(i int, d time.Duration) (x []float64, rate float64) {
	want := audio.Samples(d, s.rate)
	p, from := int(s.frames[i].packet), int(s.frames[i].from)
	var pcm []int16
	for k := p; k < len(s.packets) && len(pcm) < want; k++ {
		if s.packets[k].Kind != Decoded || k > p && s.packets[k].Index != s.packets[k-1].Index+1 {
			return nil, 0
		}
		pcm = append(pcm, s.packets[k].Sound.PCM[from:]...)
		from = 0
	}
	if len(pcm) < want {
		return nil, 0
	}
	every := max(1, s.rate/shapeRate)
	mean := 0.0
	for at := 0; at+every <= want; at += every {
		v := 0.0
		for _, y := range pcm[at : at+every] {
			v += float64(y)
		}
		x = append(x, v/float64(every))
		mean += v / float64(every)
	}
	mean /= float64(len(x))
	for i := range x {
		x[i] -= mean
	}
	return x, float64(s.rate) / float64(every)
}

// spectrum returns the power in each bin, seen through a Hann window.
func spectrum(x []float64, rate float64) []float64 {
	out := make([]float64, bins)
	for k := range out {
		w := 2 * math.Pi * float64(k) / binTime / rate
		c := 2 * math.Cos(w) // Goertzel
		var a, b float64
		for i, v := range x {
			v *= 1 - math.Cos(2*math.Pi*(float64(i)+0.5)/float64(len(x)))
			a, b = v+c*a-b, a
		}
		out[k] = a*a + b*b - c*a*b
	}
	return out
}

// steps returns the difference in dB between the loudest and the softest of the
// pieces of x, n of them.
func steps(x []float64, n int) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for k := range n {
		sum := 0.0
		for _, v := range x[k*len(x)/n : (k+1)*len(x)/n] {
			sum += v * v
		}
		low, high = min(low, sum), max(high, sum)
	}
	return 10 * math.Log10(high/low)
}

// tonal says whether the 60 ms from frame i on are one or two steady frequencies.
func (s *Stream) tonal(i int) bool {
	x, rate := s.take(i, shapeTime)
	if x == nil || !(steps(x, 6) <= toneRange) {
		return false
	}
	power := spectrum(x, rate)
	total := 0.0
	for _, p := range power {
		total += p
	}
	found := 0.0
	for range 2 {
		top := slices.Index(power, slices.Max(power))
		for k := max(0, top-3); k <= min(len(power)-1, top+3); k++ {
			found += power[k]
			power[k] = 0
		}
	}
	return found >= toneShare*total
}

// steadyNoise says whether the 200 ms from frame i on are noise that does not
// change, as a line has it.
func (s *Stream) steadyNoise(i int) bool {
	if i+speechFrames > len(s.frames) {
		return false
	}
	x, rate := s.take(i, speechFrames*frameTime)
	if x == nil || !(steps(x, 10) <= noiseRange) {
		return false
	}
	// Three stretches of 60 ms: the bands of a single one scatter.
	power := make([]float64, bins)
	n := len(x) * int(shapeTime) / int(speechFrames*frameTime)
	for at := 0; at+n <= len(x); at += n {
		for k, p := range spectrum(x[at:at+n], rate) {
			power[k] += p
		}
	}
	logs, sum, bands := 0.0, 0.0, 0
	for k := 15; k+15 <= bins; k += 15 {
		band := 0.0
		for _, p := range power[k : k+15] {
			band += p
		}
		logs, sum, bands = logs+math.Log(band), sum+band, bands+1
	}
	return math.Exp(logs/float64(bands))/(sum/float64(bands)) >= noiseFlat
}
