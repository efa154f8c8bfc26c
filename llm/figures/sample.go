package figures

import (
	"math"
	"math/rand/v2"
	"slices"

	"firstsound/clocks/quantile"
)

// A sample keeps up to keep values, each of those that were added with the same
// chance (Vitter's algorithm R).
type sample struct {
	values []int64
	n      int64
	rand   *rand.Rand
}

const (
	keep      = 4_000
	resamples = 1_000 // of a bootstrap; Efron and Tibshirani ask for that many for an interval
)

// newSample returns an empty sample. The draws are the same in every run over
// the same records.
func newSample() *sample { return &sample{rand: rand.New(rand.NewPCG(3, 9))} }

func (s *sample) add(v int64) {
	s.n++
	if len(s.values) < keep {
		s.values = append(s.values, v)
	} else if i := s.rand.Int64N(s.n); i < keep {
		s.values[i] = v
	}
}

// sorted returns the values in order.
func (s *sample) sorted() []int64 { return slices.Sorted(slices.Values(s.values)) }

// A bootstrap draws samples again, with replacement, out of sorted values.
type bootstrap struct {
	values, drawn []int64
	counts        []int32
}

func newBootstrap(sorted []int64) *bootstrap {
	return &bootstrap{sorted, make([]int64, len(sorted)), make([]int32, len(sorted))}
}

// draw returns a sample in order, good until the next one. How often each value
// is drawn is counted, so that nothing needs to be sorted.
func (b *bootstrap) draw(r *rand.Rand) []int64 {
	clear(b.counts)
	n := uint32(len(b.values))
	for range n {
		b.counts[r.Uint32N(n)]++
	}
	at := 0
	for i, c := range b.counts {
		for range c {
			b.drawn[at] = b.values[i]
			at++
		}
	}
	return b.drawn
}

// between95 returns, for each quantile of qs, the bounds of 95 % of how(that of b,
// that of a) over bootstrap samples of both (the percentile method of Efron and
// Tibshirani, An Introduction to the Bootstrap, chapter 13). Neither may be empty.
func between95(a, b []int64, qs []float64, how func(b, a int64) int64) (low, high []int64) {
	r := rand.New(rand.NewPCG(11, 5))
	from, to := newBootstrap(a), newBootstrap(b)
	all := make([][]int64, len(qs))
	for range resamples {
		x, y := from.draw(r), to.draw(r)
		for i, q := range qs {
			before, _ := quantile.Of(x, q)
			after, _ := quantile.Of(y, q)
			all[i] = append(all[i], how(after, before))
		}
	}
	for _, v := range all {
		slices.Sort(v)
		l, _ := quantile.Of(v, 0.025)
		h, _ := quantile.Of(v, 0.975)
		low, high = append(low, l), append(high, h)
	}
	return low, high
}

// millionths returns b/a in millionths: a ratio as a whole number.
func millionths(b, a int64) int64 {
	if a == 0 {
		return math.MaxInt64
	}
	return int64(math.Round(float64(b) / float64(a) * 1e6))
}

// A line gathers points for a line of least squares through them. The sums are
// Welford's: they do not lose their digits.
type line struct {
	n                           int64
	meanX, meanY, sxx, sxy, syy float64
}

func (l *line) add(x, y float64) {
	l.n++
	dx, dy := x-l.meanX, y-l.meanY
	l.meanX += dx / float64(l.n)
	l.meanY += dy / float64(l.n)
	l.sxx += dx * (x - l.meanX)
	l.sxy += dx * (y - l.meanY)
	l.syy += dy * (y - l.meanY)
}

// minPoints is how many points a slope's interval needs: below 10 degrees of
// freedom the series of t975 is not exact to a thousandth.
const minPoints = 12

// slope returns the slope and half its 95 % interval. ok is false if there are
// too few points, or all are at one x.
func (l *line) slope() (at, half float64, ok bool) {
	if l.n < minPoints || l.sxx == 0 {
		return 0, 0, false
	}
	at = l.sxy / l.sxx
	free := float64(l.n - 2)
	left := max(0, l.syy-at*l.sxy) // of points on a line the rounding may leave less than nothing
	return at, t975(free) * math.Sqrt(left/free/l.sxx), true
}

// t975 returns the quantile 0.975 of Student's t for v degrees of freedom, by
// its series around the normal quantile (Abramowitz and Stegun, 26.7.5).
func t975(v float64) float64 {
	const z = 1.959963985
	z3, z5, z7 := z*z*z, z*z*z*z*z, z*z*z*z*z*z*z
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}
