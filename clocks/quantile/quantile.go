// Package quantile holds many values of one kind, such as times in nanoseconds, and
// tells their quantiles with intervals, as far as the sample bears them.
package quantile

import (
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/montanaflynn/stats"
)

// SketchError is the relative error of quantiles beyond the exact limit, as
// DDSketch guarantees it (Masson, Rim and Lee, VLDB 2019): half a per cent.
const SketchError = 0.005

// Of returns the quantile q, from 0 to 1, of sorted values by linear
// interpolation between closest ranks (Hyndman and Fan's type 7, NumPy's
// default), rounded to a whole number. ok is false if there are no values.
//
// stats.Percentile of montanaflynn agrees (a test says so), but it copies and
// sorts floating-point numbers at every call, and knows no quantile 0.
func Of(sorted []int64, q float64) (v int64, ok bool) {
	if len(sorted) == 0 {
		return 0, false
	}
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low >= len(sorted)-1 {
		return sorted[len(sorted)-1], true
	}
	a, b := sorted[low], sorted[low+1]
	return a + int64(math.Round((at-float64(low))*float64(b-a))), true
}

// Resolves returns whether n values are enough to tell the quantile q: at least
// 1/(1−q) of them.
func Resolves(n int64, q float64) bool { return float64(n)*(1-q) > 1-1e-9 }

// Ranks returns the ranks, from 1, between which the quantile q of the whole
// population lies with 95 % confidence: np ± 1.96·√(np(1−p)), rounded outwards
// (Le Boudec, Performance Evaluation of Computer and Communication Systems,
// section 2.2). A rank below 1 or above n says that n is too small for it.
func Ranks(n int64, q float64) (low, high int64) {
	np := float64(n) * q
	d := 1.96 * math.Sqrt(np*(1-q))
	return int64(math.Floor(np - d)), int64(math.Ceil(np+d)) + 1
}

// A Figure is a quantile with its 95 % confidence interval from order
// statistics, widened by the sketch's error where it comes from one. What the
// sample cannot bear is nil.
type Figure struct {
	Value *int64 `json:"value,omitempty"`
	Low   *int64 `json:"low,omitempty"`
	High  *int64 `json:"high,omitempty"`
	// Absent says why there is no value: too few values to tell this quantile.
	Absent string `json:"absent,omitempty"`
}

// A Distribution is what many values of one metric come to. Its numbers are
// whole, in the metric's unit.
type Distribution struct {
	N    int64  `json:"n"`
	Mean *int64 `json:"mean,omitempty"`
	SD   *int64 `json:"sd,omitempty"` // of the sample (n−1); nil for fewer than two values
	Min  *int64 `json:"min,omitempty"`
	P50  Figure `json:"p50"`
	P95  Figure `json:"p95"`
	P99  Figure `json:"p99"`
	Max  *int64 `json:"max,omitempty"`
	// RelativeError is that of the quantiles if they come from a sketch: nil
	// if they are exact.
	RelativeError *float64 `json:"relative_error,omitempty"`
}

// A Series gathers values. Up to a limit they are kept one by one and quantiles
// are exact; beyond it they come from a sketch (SketchError).
type Series struct {
	limit    int
	exact    []int64 // until there are more than limit
	sketch   *ddsketch.DDSketch
	n        int64
	min, max int64
	// Of what is in the sketch, less shift, which is one of the values: so the
	// difference of the two sums does not lose its digits.
	shift, sum, squares float64
	sorted              bool
}

// New returns a Series that keeps up to limit values one by one.
func New(limit int) *Series { return &Series{limit: limit} }

// Limit returns how many values are kept one by one.
func (s *Series) Limit() int { return s.limit }

// N returns how many values there are.
func (s *Series) N() int64 { return s.n }

// Max returns the greatest of the values, of which there is one.
func (s *Series) Max() int64 { return s.max }

// Exact returns whether all values are kept one by one.
func (s *Series) Exact() bool { return s.sketch == nil }

// Add takes one value.
func (s *Series) Add(v int64) {
	if s.n == 0 || v < s.min {
		s.min = v
	}
	if s.n == 0 || v > s.max {
		s.max = v
	}
	s.n++
	if s.sketch == nil && len(s.exact) < s.limit {
		s.exact, s.sorted = append(s.exact, v), false
		return
	}
	if s.sketch == nil {
		s.overflow()
	}
	s.intoSketch(v)
}

// overflow moves the values into a sketch.
func (s *Series) overflow() {
	m, err := mapping.NewCubicallyInterpolatedMapping(SketchError) // without a logarithm for each value
	if err != nil {
		panic("quantile: the sketch's constant error is refused: " + err.Error())
	}
	s.sketch = ddsketch.NewDDSketchFromStoreProvider(m, store.DenseStoreConstructor)
	s.shift = float64(s.exact[0])
	for _, v := range s.exact {
		s.intoSketch(v)
	}
	s.exact = nil
}

func (s *Series) intoSketch(v int64) {
	d := float64(v) - s.shift
	s.sum += d
	s.squares += d * d
	if err := s.sketch.Add(float64(v)); err != nil {
		panic("quantile: a whole number is beyond the sketch: " + err.Error())
	}
}

// Of returns the quantile q of the values so far, of which there is one.
func (s *Series) Of(q float64) int64 {
	if s.sketch == nil {
		if !s.sorted {
			slices.Sort(s.exact)
			s.sorted = true
		}
		v, _ := Of(s.exact, q)
		return v
	}
	at := q * float64(s.n-1)
	low := math.Floor(at)
	a := s.inSketch(int64(low) + 1)
	b := s.inSketch(min(int64(low)+2, s.n))
	return min(max(int64(math.Round(a+(at-low)*(b-a))), s.min), s.max)
}

// inSketch returns the sketch's value of a rank from 1, which is off by at most
// SketchError of the true one. (GetValueAtQuantile takes no rank, and the way
// from a rank to a quantile and back loses one at times.)
func (s *Series) inSketch(rank int64) float64 {
	i := float64(rank - 1)
	below, zero := s.sketch.GetNegativeValueStore(), s.sketch.GetZeroCount()
	n := below.TotalCount()
	switch {
	case i < n:
		return -s.sketch.Value(below.KeyAtRank(n - 1 - i))
	case i < n+zero:
		return 0
	}
	return s.sketch.Value(s.sketch.GetPositiveValueStore().KeyAtRank(i - zero - n))
}

// bounds returns between which values that of a rank from 1 lies: what the sketch
// says, widened by its error.
func (s *Series) bounds(rank int64) (low, high int64) {
	v := s.inSketch(rank)
	a, b := v/(1+SketchError), v/(1-SketchError) // |v − x| ≤ error·|x|
	low, high = int64(math.Floor(min(a, b)))-1, int64(math.Ceil(max(a, b)))+1
	return min(max(low, s.min), s.max), min(max(high, s.min), s.max)
}

// figure returns the quantile q with its interval.
func (s *Series) figure(q float64, absent string) Figure {
	if !Resolves(s.n, q) {
		return Figure{Absent: absent}
	}
	v := s.Of(q)
	f := Figure{Value: &v}
	low, high := Ranks(s.n, q)
	if low >= 1 && s.n > 1 {
		v, _ := s.rank(low)
		f.Low = &v
	}
	if high <= s.n && s.n > 1 {
		_, v := s.rank(high)
		f.High = &v
	}
	return f
}

// rank returns between which values that of a rank from 1 lies: they are one and
// the same unless they come from the sketch.
func (s *Series) rank(r int64) (low, high int64) {
	if s.sketch != nil {
		return s.bounds(r)
	}
	s.Of(0) // sorts
	return s.exact[r-1], s.exact[r-1]
}

// Distribution returns what the values come to.
func (s *Series) Distribution() Distribution {
	d := Distribution{N: s.n}
	d.P50 = s.figure(0.50, "fewer than 2 values")
	d.P95 = s.figure(0.95, "fewer than 20 values")
	d.P99 = s.figure(0.99, "fewer than 100 values")
	if s.n == 0 {
		return d
	}
	lowest, highest := s.min, s.max
	d.Min, d.Max = &lowest, &highest
	mean, sd := s.moments()
	d.Mean = &mean
	if s.n > 1 {
		d.SD = &sd
	}
	if s.sketch != nil {
		e := SketchError
		d.RelativeError = &e
	}
	return d
}

// moments returns mean and standard deviation of at least one value, rounded.
func (s *Series) moments() (mean, sd int64) {
	if s.sketch != nil {
		n := float64(s.n)
		around := max(0, s.squares-s.sum*s.sum/n) // of equal values the rounding may leave less than nothing
		return int64(math.Round(s.shift + s.sum/n)), int64(math.Round(math.Sqrt(around / (n - 1))))
	}
	data := make(stats.Float64Data, len(s.exact))
	for i, v := range s.exact {
		data[i] = float64(v)
	}
	m, err := data.Mean()
	if err != nil {
		panic("quantile: mean of values: " + err.Error())
	}
	if s.n < 2 {
		return int64(math.Round(m)), 0
	}
	d, err := data.StandardDeviationSample()
	if err != nil {
		panic("quantile: standard deviation of values: " + err.Error())
	}
	return int64(math.Round(m)), int64(math.Round(d))
}
