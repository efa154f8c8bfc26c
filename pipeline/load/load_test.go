package load

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"
)

func first(n int, calls iter.Seq[Call]) []Call {
	var s []Call
	for c := range calls {
		if len(s) == n {
			break
		}
		s = append(s, c)
	}
	return s
}

func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan Plan
		want string
	}{
		{"whole calls", Plan{Arrival: Closed, Sessions: 2, Turns: 8, PerCall: 4},
			"[{1 0 0s 4 0} {2 1 0s 4 0}]"},
		{"the last one is short", Plan{Arrival: Closed, Sessions: 2, Turns: 9, PerCall: 4},
			"[{1 0 0s 4 0} {2 1 0s 4 0} {3 0 0s 1 0}]"},
		{"warm-up on top", Plan{Arrival: Closed, Sessions: 2, Turns: 5, Warmup: 5, PerCall: 4},
			"[{1 0 0s 4 4} {2 1 0s 4 1} {3 0 0s 2 0}]"},
		{"one turn", Plan{Arrival: Closed, Sessions: 20, Turns: 1, PerCall: 4},
			"[{1 0 0s 1 0}]"},
		{"constant", Plan{Arrival: Constant, Rate: 3, Turns: 4, PerCall: 1},
			"[{1 0 0s 1 0} {2 0 333.333333ms 1 0} {3 0 666.666667ms 1 0} {4 0 1s 1 0}]"},
		{"constant, until the duration", Plan{Arrival: Constant, Rate: 2, Duration: time.Second, PerCall: 3, Warmup: 1},
			"[{1 0 0s 3 1} {2 0 500ms 3 0}]"},
		{"whichever comes first", Plan{Arrival: Constant, Rate: 2, Duration: time.Hour, Turns: 4, PerCall: 3},
			"[{1 0 0s 3 0} {2 0 500ms 1 0}]"},
		{"no end in sight", Plan{Arrival: Closed, Sessions: 1, Duration: time.Second, PerCall: 3},
			"[{1 0 0s 3 0} {2 0 0s 3 0} {3 0 0s 3 0} {4 0 0s 3 0}]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := fmt.Sprint(first(4, tt.plan.Calls()))
			if got != tt.want {
				t.Errorf("calls\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// What is asked does not depend on how many ask at the same time.
func TestCallsDoNotDependOnSessions(t *testing.T) {
	plan := Plan{Arrival: Closed, Sessions: 1, Turns: 101, Warmup: 7, PerCall: 4}
	one := slices.Collect(plan.Calls())
	for _, sessions := range []int{1, 2, 3, 20, 1000} {
		plan.Sessions = sessions
		var all []Call
		for s := range plan.Slots() {
			var prev int
			for c := range plan.Slot(s) {
				if c.Slot != s || prev > 0 && c.Number != prev+sessions {
					t.Errorf("%d sessions: call %d after call %d in slot %d", sessions, c.Number, prev, s)
				}
				prev = c.Number
				all = append(all, c)
			}
		}
		slices.SortFunc(all, func(a, b Call) int { return a.Number - b.Number })
		turns, warmup := 0, 0
		for i := range all {
			turns += all[i].Turns
			warmup += all[i].Warmup
			all[i].Slot = 0
		}
		if turns != 108 || warmup != 7 || !slices.Equal(all, one) {
			t.Errorf("%d sessions: %d turns, %d of them warm-up, in %v", sessions, turns, warmup, all)
		}
		if n, known := plan.Count(); n != len(one) || !known {
			t.Errorf("Count() = %d, %v, and there are %d", n, known, len(one))
		}
	}
}

func TestPoisson(t *testing.T) {
	plan := Plan{Arrival: Poisson, Rate: 5, Turns: 40000, PerCall: 2, Seed: 1}
	calls := slices.Collect(plan.Calls())
	if !slices.Equal(calls, slices.Collect(plan.Calls())) {
		t.Error("two arrivals of the same plan differ")
	}
	var sum, squares float64
	var at time.Duration
	for _, c := range calls {
		gap := (c.At - at).Seconds()
		at = c.At
		sum += gap
		squares += gap * gap
	}
	n := float64(len(calls))
	mean := sum / n
	cv := math.Sqrt(squares/n-mean*mean) / mean
	if math.Abs(mean-0.2) > 4*0.2/math.Sqrt(n) || math.Abs(cv-1) > 4/math.Sqrt(n)*math.Sqrt2 {
		t.Errorf("mean gap %.4f s, coefficient of variation %.3f; want 0.2 and 1", mean, cv)
	}

	// The same callers come twice as soon at twice the rate.
	plan.Rate = 10
	for i, c := range first(100, plan.Calls()) {
		if d := c.At - calls[i].At/2; d < -time.Microsecond || d > time.Microsecond {
			t.Fatalf("call %d comes at %v at rate 10, and at %v at rate 5", c.Number, c.At, calls[i].At)
		}
	}

	// A duration only cuts off.
	plan = Plan{Arrival: Poisson, Rate: 5, Duration: time.Minute, PerCall: 2, Seed: 1}
	short := slices.Collect(plan.Calls())
	if len(short) < 250 || len(short) > 350 || short[len(short)-1].At >= time.Minute {
		t.Errorf("%d calls in a minute at 5 a second, the last at %v", len(short), short[len(short)-1].At)
	}
	for i := range short {
		if short[i].At != calls[i].At {
			t.Fatalf("call %d comes at %v with a duration, and at %v without", i+1, short[i].At, calls[i].At)
		}
	}
}

func TestRareCallsDoNotOverflow(t *testing.T) {
	for _, a := range []Arrival{Poisson, Constant} {
		plan := Plan{Arrival: a, Rate: 1e-300, Turns: 3, PerCall: 1}
		for c := range plan.Calls() {
			if c.At < 0 {
				t.Errorf("%s: call %d comes at %v", a, c.Number, c.At)
			}
		}
	}
}

// Gaps of gamma arrivals have the mean and the coefficient of variation asked for.
func TestGamma(t *testing.T) {
	for _, cv := range []float64{0.3, 1, 2.5} {
		plan := Plan{Arrival: Gamma, Rate: 5, CV: cv, Turns: 40_000, PerCall: 1, Seed: 1}
		var sum, squares, n float64
		var at time.Duration
		for c := range plan.Calls() {
			gap := (c.At - at).Seconds()
			at = c.At
			sum, squares, n = sum+gap, squares+gap*gap, n+1
		}
		mean := sum / n
		got := math.Sqrt(squares/n-mean*mean) / mean
		// The variance of a sample's CV of a gamma distribution is about cv²(1+2cv²+...)/2n.
		if math.Abs(mean-0.2) > 4*0.2*cv/math.Sqrt(n) || math.Abs(got-cv) > 6*cv*(1+cv*cv)/math.Sqrt(2*n) {
			t.Errorf("CV %g: mean gap %.4f s, coefficient of variation %.3f", cv, mean, got)
		}
	}
}

// Calls of a trace begin when its own did, and no others come.
func TestTrace(t *testing.T) {
	plan := Plan{Arrival: Trace, Times: []time.Duration{0, 5, 5, 90}, PerCall: 2}
	if got := fmt.Sprint(slices.Collect(plan.Calls())); got != "[{1 0 0s 2 0} {2 0 5ns 2 0} {3 0 5ns 2 0} {4 0 90ns 2 0}]" {
		t.Error(got)
	}
	if n, known := plan.Count(); n != 4 || !known {
		t.Errorf("%d, %v", n, known)
	}
	plan.Turns = 3
	if n, _ := plan.Count(); n != 2 || len(slices.Collect(plan.Calls())) != 2 {
		t.Errorf("%d calls hold 3 turns", n)
	}
}

// Lengths of calls are spread around their mean, and do not depend on how many go
// on at the same time.
func TestSpread(t *testing.T) {
	plan := Plan{Arrival: Closed, Sessions: 1, Turns: 40_000, Warmup: 7, PerCall: 4, Spread: true, Seed: 3}
	one := slices.Collect(plan.Calls())
	turns, single := 0, 0
	for _, c := range one {
		if turns += c.Turns; c.Turns == 1 {
			single++
		}
	}
	// Geometric: mean 4, and a quarter of all calls have one turn.
	if n := float64(len(one)); turns != 40_007 || math.Abs(float64(turns)/n-4) > 4*math.Sqrt(12/n) || math.Abs(float64(single)/n-0.25) > 4*math.Sqrt(0.1875/n) {
		t.Errorf("%d turns in %d calls, %d of one turn", turns, len(one), single)
	}
	if n, known := plan.Count(); n != len(one) || !known {
		t.Errorf("Count() = %d, %v, and there are %d", n, known, len(one))
	}
	plan.Sessions = 7
	var all []Call
	for s := range plan.Slots() {
		all = slices.AppendSeq(all, plan.Slot(s))
	}
	slices.SortFunc(all, func(a, b Call) int { return a.Number - b.Number })
	for i := range all {
		all[i].Slot = 0
	}
	if !slices.Equal(all, one) {
		t.Error("seven sessions have other calls than one")
	}
}
