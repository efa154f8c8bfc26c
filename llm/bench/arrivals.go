package bench

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/random"
)

// Arrivals say how the requests of an open loop are spread.
type Arrivals struct {
	// CV is the coefficient of variation of the gaps: 0 for gaps that are all
	// the same, 1 for those of a Poisson process, more for bursts. Gaps are
	// gamma distributed, as in the benchmarks of vLLM, whose burstiness is 1/CV².
	CV float64
}

// The usual arrivals.
var (
	Constant = Arrivals{CV: 0}
	Poisson  = Arrivals{CV: 1}
)

// ParseArrivals reads "constant", "poisson" or "gamma:CV".
func ParseArrivals(s string) (Arrivals, error) {
	switch s {
	case "constant":
		return Constant, nil
	case "poisson":
		return Poisson, nil
	}
	if number, ok := strings.CutPrefix(s, "gamma:"); ok {
		cv, err := strconv.ParseFloat(number, 64)
		if err == nil && cv > 0 && cv <= 100 {
			return Arrivals{cv}, nil
		}
	}
	return Arrivals{}, fmt.Errorf("arrivals are constant, poisson or gamma:CV with a CV above 0 and up to 100, such as gamma:2 for bursts, not %q", s)
}

// String returns what ParseArrivals reads.
func (a Arrivals) String() string {
	switch a {
	case Constant:
		return "constant"
	case Poisson:
		return "poisson"
	}
	return "gamma:" + strconv.FormatFloat(a.CV, 'g', -1, 64)
}

// Times yields when requests are due, since the first could be, without end. The
// same seed and part give the same times. They are a schedule: a request that is
// late moves none of the next.
func (a Arrivals) Times(rate float64, seed uint64, part int) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		at := 0.0 // in gaps of the mean length, so that no rounding adds up
		for n := 0; ; n++ {
			if a.CV > 0 {
				source := random.New(seed, "bench.arrival", part, n)
				at += source.Gamma(1/(a.CV*a.CV)) * a.CV * a.CV
			} else {
				at = float64(n)
			}
			ns := at / rate * float64(time.Second)
			if ns >= math.MaxInt64/2 || !yield(time.Duration(math.Round(ns))) {
				return
			}
		}
	}
}
