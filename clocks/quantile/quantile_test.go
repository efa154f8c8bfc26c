package quantile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/montanaflynn/stats"
)

func TestOf(t *testing.T) {
	// The right values are NumPy's: numpy.quantile([...], q).
	tests := []struct {
		values []int64
		q      float64
		want   int64
	}{
		{[]int64{7}, 0.95, 7},
		{[]int64{10, 20}, 0.5, 15},
		{[]int64{1000, 2000, 3000, 4000}, 0.25, 1750},
		{[]int64{1000, 2000, 3000, 4000, 5000}, 0.95, 4800},
		{[]int64{-400, -200, 0, 200}, 0.5, -100},
		{[]int64{0, 10}, 1, 10},
		{[]int64{0, 10}, 0, 0},
	}
	for _, test := range tests {
		if got, ok := Of(test.values, test.q); !ok || got != test.want {
			t.Errorf("quantile %g of %v is %d, want %d", test.q, test.values, got, test.want)
		}
	}
	if _, ok := Of(nil, 0.5); ok {
		t.Error("no values have a quantile")
	}
}

// TestQuantileIsMontanaflynns holds our few lines, which work on whole
// numbers, against stats.Percentile, which is type 7 as well (version 0.14).
func TestQuantileIsMontanaflynns(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		data := make(stats.Float64Data, 1+r.IntN(300))
		values := make([]int64, len(data))
		for i := range data {
			values[i] = r.Int64N(1e12) - 1e11
			data[i] = float64(values[i])
		}
		slices.Sort(values)
		for _, percent := range []float64{1, 50, 95, 99, 100} {
			theirs, err := stats.Percentile(data, percent)
			ours, _ := Of(values, percent/100)
			if err != nil || math.Abs(theirs-float64(ours)) > 1 {
				t.Fatalf("P%g of %d values: %g (%v) and %d", percent, len(data), theirs, err, ours)
			}
		}
	}
}

func TestResolves(t *testing.T) {
	for _, test := range []struct {
		q     float64
		least int64
	}{{0.5, 2}, {0.95, 20}, {0.99, 100}} {
		if Resolves(test.least-1, test.q) || !Resolves(test.least, test.q) {
			t.Errorf("the quantile %g needs %d values", test.q, test.least)
		}
	}
}

func TestRanks(t *testing.T) {
	// n = 100, p = 0.5: 50 ± 9.8, so the ranks 40 and 61 (Le Boudec, table A.1).
	if low, high := Ranks(100, 0.5); low != 40 || high != 61 {
		t.Errorf("got %d and %d, want 40 and 61", low, high)
	}
	if low, _ := Ranks(5, 0.5); low >= 1 {
		t.Errorf("5 values have a lower bound at rank %d", low)
	}
}

// TestRanksCover draws many samples of a known population: the interval must
// hold the true quantile in about 95 % of them.
func TestRanksCover(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const n, draws = 200, 2000
	within := 0
	for range draws {
		s := Series{limit: n}
		for range n {
			s.Add(r.Int64N(1_000_001))
		}
		if f := s.figure(0.5, ""); *f.Low <= 500_000 && 500_000 <= *f.High {
			within++
		}
	}
	if share := float64(within) / draws; share < 0.94 || share > 0.985 {
		t.Errorf("the interval holds the median in %.3f of the samples", share)
	}
}

func TestSketch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	exact, sketch := Series{limit: 1 << 20}, Series{limit: 1000}
	for range 50_000 {
		v := int64(math.Exp(r.NormFloat64()+20)) - 100_000_000 // some are negative
		exact.Add(v)
		sketch.Add(v)
	}
	a, b := exact.Distribution(), sketch.Distribution()
	if b.RelativeError == nil || a.RelativeError != nil || sketch.exact != nil {
		t.Error("the sketch does not tell its error, or keeps the values")
	}
	for _, f := range [][2]Figure{{a.P50, b.P50}, {a.P95, b.P95}, {a.P99, b.P99}} {
		if e := math.Abs(float64(*f[0].Value-*f[1].Value)) / math.Abs(float64(*f[0].Value)); e > SketchError+0.001 {
			t.Errorf("%d and %d differ by %.4f", *f[0].Value, *f[1].Value, e)
		}
	}
	if *a.Max != *b.Max || *a.Min != *b.Min || distance(*a.Mean, *b.Mean) > 1 || distance(*a.SD, *b.SD) > 10 {
		t.Errorf("mean %d, %d; sd %d, %d", *a.Mean, *b.Mean, *a.SD, *b.SD)
	}
}

func TestFewValues(t *testing.T) {
	s := Series{limit: 10}
	if d := s.Distribution(); d.Mean != nil || d.P50.Value != nil || d.P50.Absent == "" {
		t.Errorf("%+v", d)
	}
	s.Add(5)
	if d := s.Distribution(); *d.Mean != 5 || d.SD != nil || d.P50.Value != nil || *d.Max != 5 {
		t.Errorf("%+v", d)
	}
}

func distance(a, b int64) int64 { return max(a, b) - min(a, b) }
