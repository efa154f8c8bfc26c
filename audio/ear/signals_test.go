package ear

import (
	"math"
	"time"

	"firstsound/audio"
	"firstsound/clocks/random"
)

const (
	ms   = time.Millisecond
	rate = 16000
)

// A made is a signal that is being made.
type made struct {
	rate int
	x    []float64 // in full scales
}

func make0(rate int, d time.Duration) *made {
	return &made{rate, make([]float64, audio.Samples(d, rate))}
}

func (m *made) at(d time.Duration) int { return audio.Samples(d, m.rate) }

// noise adds white noise of a level from one time on.
func (m *made) noise(seed uint64, from time.Duration, level float64) *made {
	s := random.New(seed, "ear.noise")
	for i := m.at(from); i < len(m.x); i++ {
		m.x[i] += s.Normal() * math.Pow(10, level/20)
	}
	return m
}

// vowel adds harmonics of 120 Hz with two formants and a slow wobble, at -20 dBFS,
// with a linear rise.
func (m *made) vowel(from, d, rise time.Duration) *made {
	var y []float64
	sum := 0.0
	n := audio.Samples(d, m.rate)
	phase := 0.0
	var gains [25]float64
	for i := range n {
		t := float64(i) / float64(m.rate)
		if i%(m.rate/200) == 0 { // the formants move slowly
			second := 1200 + 400*math.Sin(2*math.Pi*1.1*t)
			for h := range gains {
				a, b := (120*float64(h)-600)/120, (120*float64(h)-second)/150
				gains[h] = 1/(1+a*a) + 0.5/(1+b*b)
			}
		}
		phase += 2 * math.Pi * (120 + 25*math.Sin(2*math.Pi*1.7*t)) / float64(m.rate)
		v := 0.0
		for h := 1; h <= 24; h++ {
			v += gains[h] * math.Sin(phase*float64(h)+float64(h*h))
		}
		v *= 1 + 0.5*math.Sin(2*math.Pi*4*t)
		y = append(y, v)
		sum += v * v
	}
	gain := 0.1 / math.Sqrt(sum/float64(n))
	for i, v := range y {
		up := 1.0
		if at := audio.Span(i, m.rate); at < rise {
			up = float64(at) / float64(rise)
		}
		m.x[m.at(from)+i] += gain * v * up
	}
	return m
}

// tone adds a sine of an amplitude.
func (m *made) tone(from, d time.Duration, hz, amplitude float64) *made {
	for i := range audio.Samples(d, m.rate) {
		m.x[m.at(from)+i] += amplitude * math.Sin(2*math.Pi*hz*float64(i)/float64(m.rate))
	}
	return m
}

// burst adds noise that dies away: a pop, or a key.
func (m *made) burst(seed uint64, from, d time.Duration, level float64) *made {
	s := random.New(seed, "ear.burst")
	n := audio.Samples(d, m.rate)
	for i := range n {
		m.x[m.at(from)+i] += s.Normal() * math.Pow(10, level/20) * math.Exp(-3*float64(i)/float64(n))
	}
	return m
}

func (m *made) add(v float64) *made {
	for i := range m.x {
		m.x[i] += v
	}
	return m
}

func (m *made) frame() audio.Frame {
	f := audio.Frame{Rate: m.rate, PCM: make([]int16, len(m.x))}
	for i, v := range m.x {
		f.PCM[i] = int16(math.RoundToEven(max(-32768, min(32767, v*32768))))
	}
	return f
}

// packets cuts f into packets of 20 ms that arrive without delay: the sound at an
// offset is on the wire at 20 ms more.
func packets(f audio.Frame) []Packet {
	var out []Packet
	n := audio.Samples(20*ms, f.Rate)
	for i := 0; (i+1)*n <= len(f.PCM); i++ {
		out = append(out, Packet{
			Index: int64(i), Timestamp: 4_000_000_000 + uint32(i)*960, Arrived: time.Duration(i+1) * 20 * ms,
			Sound: audio.Frame{Rate: f.Rate, PCM: f.PCM[i*n : (i+1)*n]},
		})
	}
	return out
}
