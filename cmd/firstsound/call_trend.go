package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A callTrend says whether a figure grows or falls over the turns of a call. Calls
// are looked at one by one, and what they say is added up: that they differ from each
// other is no trend.
type callTrend struct {
	N     int           `json:"n"`        // turns
	Slope time.Duration `json:"slope_ns"` // a turn: the median over all pairs of turns (Sen, 1968)

	// P is the chance of a trend as strong as this one, in either direction, where
	// there is none: the test of Mann and Kendall, added up over calls (Hirsch and
	// Slack, 1984), by the normal distribution.
	P float64 `json:"p"`
}

// trendSure is the chance below which a trend is told. The test is made for two views
// in each report, so it is stricter than usual.
const trendSure = 0.01

// A turnFigure is a figure of one turn.
type turnFigure struct {
	call, turn int
	value      time.Duration
}

// trendOf returns the trend of figures, or nil if no call has four turns: with fewer,
// nothing would be told from chance.
func trendOf(figures []turnFigure) *callTrend {
	calls := map[int][]turnFigure{}
	for _, f := range figures {
		calls[f.call] = append(calls[f.call], f)
	}
	t := &callTrend{}
	score, variance := 0, 0.0
	var slopes []float64
	for _, c := range calls {
		n := len(c)
		if n < 4 {
			continue
		}
		t.N += n
		ties := map[time.Duration]int{}
		for i, b := range c {
			ties[b.value]++
			for _, a := range c[:i] {
				slopes = append(slopes, float64(b.value-a.value)/float64(b.turn-a.turn))
				switch {
				case b.value > a.value:
					score++
				case b.value < a.value:
					score--
				}
			}
		}
		variance += float64(n*(n-1)*(2*n+5)) / 18
		for _, k := range ties {
			variance -= float64(k*(k-1)*(2*k+5)) / 18
		}
	}
	if t.N == 0 {
		return nil
	}
	slices.Sort(slopes)
	middle := (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
	t.Slope, t.P = time.Duration(middle), 1
	if score != 0 && variance > 0 {
		// A score moves in steps of two, so half a step is taken off.
		z := (math.Abs(float64(score)) - 1) / math.Sqrt(variance)
		t.P = math.Erfc(z / math.Sqrt2)
	}
	return t
}

// String is the trend in words.
func (t *callTrend) String() string {
	what := "no trend"
	switch {
	case t.P >= trendSure:
	case t.Slope > 0:
		what = "it grows"
	case t.Slope < 0:
		what = "it falls"
	}
	return fmt.Sprintf("%+.2f ms a turn (p %.2g): %s", float64(t.Slope)/1e6, t.P, what)
}
