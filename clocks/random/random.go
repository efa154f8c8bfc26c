// Package random draws what a model cannot know: seeded, and the same for the
// same seed whatever else is drawn.
//
// Each draw comes from a [Source] named after the seed, what it is for, and
// whom it is for. A change in one stage leaves the draws of the others alone,
// so two scenarios with one seed stay comparable draw by draw (common random
// numbers).
package random

import (
	"math"
	"math/bits"
	"time"
)

// A Source yields one stream of random numbers: splitmix64 (Steele, Lea and
// Flood 2014). It is a value: a copy goes on from the same place.
type Source struct{ state uint64 }

// golden is 2⁶⁴ divided by the golden ratio, the increment of splitmix64.
const golden = 0x9e3779b97f4a7c15

// New returns the source of a purpose ("asr", "llm.ttft") and of an entity (a
// session, a turn, an attempt: numbers in an order that the caller keeps to).
func New(seed uint64, purpose string, entity ...int) Source {
	h := mix(seed + golden)
	for i := 0; i < len(purpose); i++ { // FNV-1a would do as well; this one stays in registers
		h = (h ^ uint64(purpose[i])) * 0x100000001b3
	}
	h = mix(h)
	for _, e := range entity {
		h = mix(h + golden*(uint64(e)+1))
	}
	return Source{h}
}

// mix is the finalizer of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 returns 64 random bits.
func (s *Source) Uint64() uint64 {
	s.state += golden
	return mix(s.state)
}

// Float returns a number in the open interval (0, 1): the middle of one of 2⁵³
// equal parts, so that neither end is ever drawn.
func (s *Source) Float() float64 {
	return (float64(s.Uint64()>>11) + 0.5) / (1 << 53)
}

// Chance returns true with probability p. It draws once, whatever p is.
func (s *Source) Chance(p float64) bool { return s.Float() < p }

// Below returns a whole number from 0 up to n−1; n must be positive.
func (s *Source) Below(n int) int {
	hi, _ := bits.Mul64(s.Uint64(), uint64(n)) // bias below n/2⁶⁴
	return int(hi)
}

// Normal returns a draw of the standard normal distribution, by inversion: one
// uniform number for one draw, so that streams stay in step.
func (s *Source) Normal() float64 { return normalQuantile(s.Float()) }

// Exp returns a draw of the exponential distribution with the given mean.
func (s *Source) Exp(mean time.Duration) time.Duration {
	return time.Duration(math.Round(-math.Log(s.Float()) * float64(mean)))
}

// Gamma returns a draw of the gamma distribution with the given shape, above 0,
// and scale 1: its mean is shape, its coefficient of variation 1/√shape (Marsaglia
// and Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000).
// How many numbers it takes from s depends on them.
func (s *Source) Gamma(shape float64) float64 {
	if shape < 1 {
		return s.Gamma(shape+1) * math.Pow(s.Float(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := s.Normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(s.Float()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
