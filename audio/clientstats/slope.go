package clientstats

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
	Pairs int      `json:"pairs"`
}

// Slope is Sen's slope with the interval that goes with it (P. K. Sen, Estimates of
// the regression coefficient based on Kendall's tau, JASA 63, 1968): one turn that
// is far off does not move it. Turns are compared within their call, and the
// variances of the calls add up, as in the seasonal Kendall test (Hirsch, Slack and
// Smith 1982).
func Slope(points []Point) Trend {
	calls := map[int]int{}
	var slopes []float64
	for i, p := range points {
		calls[p.Call]++
		for _, q := range points[:i] {
			if q.Call == p.Call && q.X != p.X {
				slopes = append(slopes, (p.Y-q.Y)/(p.X-q.X))
			}
		}
	}
	t := Trend{Pairs: len(slopes)}
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
	variance := 0.0
	for _, k := range calls {
		k := float64(k)
		variance += k * (k - 1) * (2*k + 5) / 18
	}
	c := 1.96 * math.Sqrt(variance)
	if low, high := (n-c)/2, (n+c)/2+1; low >= 1 && high <= n {
		t.Low, t.High = at(low), at(high)
	}
	return t
}
