package quantile

import (
	"math"
	"slices"
)

// A Point is a value of one turn of a call.
type Point struct {
	Call int
	X, Y float64
}

// A Trend is by how much a value grows from turn to turn.
type Trend struct {
	Slope *float64 `json:"slope,omitempty"` // the median over all pairs of turns of one call; nil without a pair
	Low   *float64 `json:"low,omitempty"`   // its 95 % interval; nil if there are too few turns for one
	High  *float64 `json:"high,omitempty"`
	Turns int      `json:"turns"` // that were looked at
	Pairs int      `json:"pairs"`

	// P is the chance of a trend as strong as this one, in either direction, where
	// there is none; nil without a pair.
	P *float64 `json:"p,omitempty"`
}

// mostTurns bounds the pairs, which are two millions. Of a call with more turns, or of
// many calls, each second (third …) one is looked at.
const mostTurns = 2000

// Slope is Sen's slope with the interval that goes with it (P. K. Sen, Estimates of
// the regression coefficient based on Kendall's tau, JASA 63, 1968): one turn that
// is far off does not move it. P is by the test of Mann and Kendall, with the normal
// distribution. Turns are compared within their call: that calls differ from each
// other is no trend. What calls say is added up, scores and variances, as in the
// seasonal Kendall test (Hirsch, Slack and Smith 1982).
func Slope(points []Point) Trend {
	calls := map[int][]Point{}
	for _, p := range points {
		calls[p.Call] = append(calls[p.Call], p)
	}
	var t Trend
	var slopes []float64
	score, variance, tied := 0, 0, 0 // the variances times 18: whole numbers have the same sum in any order
	most := max(4, int(mostTurns/math.Sqrt(float64(len(calls)))))
	for _, all := range calls {
		some := all[:0]
		for step, i := (len(all)+most-1)/most, 0; i < len(all); i += step {
			some = append(some, all[i])
		}
		t.Turns += len(some)
		ties := map[float64]int{}
		for i, p := range some {
			ties[p.Y]++
			for _, q := range some[:i] {
				if p.X == q.X {
					continue
				}
				slope := (p.Y - q.Y) / (p.X - q.X)
				slopes = append(slopes, slope)
				switch {
				case slope > 0:
					score++
				case slope < 0:
					score--
				}
			}
		}
		variance += pairVariance(len(some))
		for _, n := range ties {
			tied += pairVariance(n)
		}
	}
	t.Pairs = len(slopes)
	if len(slopes) == 0 {
		return t
	}
	slices.Sort(slopes)
	at := func(rank float64) *float64 { // from 1, between two ranks in a straight line
		i := int(math.Floor(rank)) - 1
		v := slopes[i]
		if i+1 < len(slopes) {
			v += (rank - math.Floor(rank)) * (slopes[i+1] - slopes[i])
		}
		return &v
	}
	n := float64(len(slopes))
	t.Slope = at((n + 1) / 2)
	// Without regard to ties, which would make the interval of three turns certain.
	c := 1.96 * math.Sqrt(float64(variance)/18)
	if low, high := (n-c)/2, (n+c)/2+1; low >= 1 && high <= n {
		t.Low, t.High = at(low), at(high)
	}
	p := 1.0
	if score != 0 && variance > tied {
		// A score moves in steps of two, so half a step is taken off.
		p = math.Erfc((math.Abs(float64(score)) - 1) / math.Sqrt(float64(variance-tied)/18) / math.Sqrt2)
	}
	t.P = &p
	return t
}

// pairVariance is 18 times the variance of Kendall's score of n values in any order.
func pairVariance(n int) int { return n * (n - 1) * (2*n + 5) }
