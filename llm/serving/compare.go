package serving

import (
	"math"
	"slices"

	"firstsound/clocks/random"
)

// Compared sets a simulated sample against a measured one. Errors are signed:
// +0.1 says that the simulation is 10 % above.
type Compared struct {
	Name                string
	Measured, Simulated int // how many values
	Mean                Error
	Quantiles           []Error // p50, p90, p95, p99
	KS                  float64 // largest distance of the two distribution functions
	W1                  float64 // mean distance between equal ranks, in parts of the measured mean
}

// An Error is one figure of both samples.
type Error struct {
	P                   float64 // the quantile; 0 of the mean
	Measured, Simulated float64
	Relative            float64 // (simulated − measured) / measured
	Low, High           float64 // 95 % bootstrap interval of the measured figure
}

// Inside says whether the simulated figure lies in the measured one's interval,
// widened by a share of it on both sides.
func (e Error) Inside(share float64) bool {
	return e.Simulated >= e.Low*(1-share) && e.Simulated <= e.High*(1+share)
}

// resamples returns how many the bootstrap of n values draws: 1,000, and fewer where
// that would take minutes: the ends of an interval from 200 are still good to about
// 5 per cent of its width, which is small there.
func resamples(n int) int { return max(200, min(1000, 100_000_000/n)) }

// Compare compares two samples. The intervals are those of the percentile
// bootstrap, drawn with seed; they take the values as independent of each other,
// which waits in one queue are not, so they are too narrow rather than too wide.
func Compare(name string, measured, simulated []float64, seed uint64) Compared {
	c := Compared{Name: name, Measured: len(measured), Simulated: len(simulated)}
	if len(measured) == 0 || len(simulated) == 0 {
		return c
	}
	m, s := slices.Sorted(slices.Values(measured)), slices.Sorted(slices.Values(simulated))
	ps := []float64{.5, .9, .95, .99}
	drawn := bootstrap(m, ps, seed)
	c.Mean = newError(0, mean(m), mean(s), drawn[len(ps)])
	for i, p := range ps {
		c.Quantiles = append(c.Quantiles, newError(p, Quantile(m, p), Quantile(s, p), drawn[i]))
	}
	c.KS, c.W1 = distances(m, s)
	c.W1 /= mean(m)
	return c
}

func newError(p, m, s float64, drawn []float64) Error {
	slices.Sort(drawn)
	return Error{p, m, s, (s - m) / m, Quantile(drawn, .025), Quantile(drawn, .975)}
}

// bootstrap returns what each figure of ps, and last the mean, came to in every
// resample of a sorted sample.
func bootstrap(sorted, ps []float64, seed uint64) [][]float64 {
	src := random.New(seed, "serving.bootstrap")
	out := make([][]float64, len(ps)+1)
	n := len(sorted)
	again := make([]float64, n)
	count := make([]int, n)
	for range resamples(n) {
		clear(count)
		for range n {
			count[src.Below(n)]++
		}
		again = again[:0]
		for i, k := range count { // stays sorted
			for range k {
				again = append(again, sorted[i])
			}
		}
		for i, p := range ps {
			out[i] = append(out[i], Quantile(again, p))
		}
		out[len(ps)] = append(out[len(ps)], mean(again))
	}
	return out
}

// Quantile returns the p-quantile of a sorted sample, between two values in
// proportion (type 7 of Hyndman and Fan).
func Quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	x := p * float64(len(sorted)-1)
	i := int(x)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (sorted[i+1]-sorted[i])*(x-float64(i))
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// distances returns the largest vertical and the total horizontal distance of
// the distribution functions of two sorted samples.
func distances(a, b []float64) (ks, w1 float64) {
	i, j, x := 0, 0, min(a[0], b[0])
	for i < len(a) || j < len(b) {
		next := math.Inf(1)
		if i < len(a) {
			next = a[i]
		}
		if j < len(b) {
			next = min(next, b[j])
		}
		d := math.Abs(float64(i)/float64(len(a)) - float64(j)/float64(len(b)))
		ks = max(ks, d)
		w1 += d * (next - x)
		x = next
		for i < len(a) && a[i] == x {
			i++
		}
		for j < len(b) && b[j] == x {
			j++
		}
	}
	return ks, w1
}
