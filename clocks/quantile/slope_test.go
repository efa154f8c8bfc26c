package quantile

import (
	"fmt"
	"math"
	"testing"
)

func TestSlope(t *testing.T) {
	points := func(call int, ys ...float64) (ps []Point) {
		for i, y := range ys {
			ps = append(ps, Point{call, float64(i + 1), y})
		}
		return ps
	}
	show := func(tr Trend) string {
		s := ""
		for _, v := range []*float64{tr.Low, tr.Slope, tr.High} {
			if v == nil {
				s += "- "
			} else {
				s += fmt.Sprintf("%.3f ", *v)
			}
		}
		return s
	}
	for _, c := range []struct {
		name   string
		points []Point
		want   string
	}{
		{"no point", nil, "- - - "},
		{"two", points(1, 1, 4), "- 3.000 - "},
		{"five are too few for an interval", points(1, 10, 12, 11, 15, 14), "- 1.250 - "},
		{"three that are the same are too few as well", points(1, 30, 30, 30), "- 0.000 - "},
		{"a line", points(1, 5, 7, 9, 11, 13, 15), "2.000 2.000 2.000 "},
		// By hand: the slopes are the sums i+j of 0 to 5; of the 15, the variance is
		// 28.33, so the ranks of the interval are 2.284 and 13.716.
		{"squares", points(1, 0, 1, 4, 9, 16, 25), "2.284 5.000 7.716 "},
		{"one that is far off", points(1, 1, 2, 3, 100, 5, 6, 7, 8), "1.000 1.000 1.000 "}, // 21 of 28 slopes are 1
		// Calls that begin at different levels are not compared with each other.
		{"two calls", append(points(1, 1, 2, 3, 4, 5), points(2, 101, 102, 103, 104, 105)...), "1.000 1.000 1.000 "},
	} {
		if got := show(Slope(c.points)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// A long call is thinned out, and so its pairs are bounded.
	var long []Point
	for i := range 10 * mostTurns {
		long = append(long, Point{1, float64(i), 3 * float64(i)})
	}
	if got := Slope(long); got.Pairs != mostTurns*(mostTurns-1)/2 || *got.Slope != 3 || *got.P > 1e-9 {
		t.Errorf("a long call: %d pairs, slope %v, p %v", got.Pairs, *got.Slope, *got.P)
	}
	var many []Point
	for i := range 100 * 400 {
		many = append(many, Point{i / 400, float64(i % 400), float64(i % 400)})
	}
	if got := Slope(many); got.Turns != 100*200 || got.Pairs != 100*200*199/2 {
		t.Errorf("many calls: %d turns, %d pairs", got.Turns, got.Pairs)
	}
	// By hand: the score is 8, and its variance (300 - 2 x 18) / 18.
	tied := points(1, 1, 1, 2, 2, 3)
	if got := Slope(tied); math.Abs(*got.P-0.0676) > 0.0001 {
		t.Errorf("with ties: p %v", *got.P)
	}
	// The same bytes each time, in whatever order the calls come.
	for i := range 5 {
		tied = append(tied, points(2+i, 1, 3, 2, 2.5, 0.1*float64(i))...)
	}
	first := *Slope(tied).P
	for range 50 {
		if p := *Slope(tied).P; p != first {
			t.Errorf("p %v, and then %v", first, p)
		}
	}
}
