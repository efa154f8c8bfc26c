package main

import (
	"fmt"
	"time"

	"firstsound/clocks/quantile"
)

// A callTrend says whether a figure grows or falls over the turns of a call
// (quantile.Slope).
type callTrend struct {
	N     int           `json:"n"`        // turns
	Slope time.Duration `json:"slope_ns"` // a turn
	P     float64       `json:"p"`
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
	turns := map[int]int{}
	for _, f := range figures {
		turns[f.call]++
	}
	var points []quantile.Point
	for _, f := range figures {
		if turns[f.call] >= 4 {
			points = append(points, quantile.Point{Call: f.call, X: float64(f.turn), Y: float64(f.value)})
		}
	}
	trend := quantile.Slope(points)
	if trend.Slope == nil {
		return nil
	}
	return &callTrend{N: trend.Turns, Slope: time.Duration(*trend.Slope), P: *trend.P}
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
