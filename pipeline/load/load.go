// Package load says when calls come in, and how many turns each of them has.
//
// What calls there are is a matter of pure functions: the same [Plan] gives the
// same calls every time, and they and their turns do not depend on how many run
// at once, so that a run with one session and a run with twenty ask the same
// questions. Drive lets them happen.
package load

import (
	"iter"
	"math"
	"time"

	"firstsound/clocks/random"
)

// An Arrival says what a new call waits for.
type Arrival string

const (
	Closed   Arrival = "closed"   // the end of another call: a fixed number go on at the same time
	Poisson  Arrival = "poisson"  // nothing: the gaps between calls are random, as with many independent callers
	Constant Arrival = "constant" // nothing: the gaps between calls are all the same
	Gamma    Arrival = "gamma"    // nothing: the gaps are random with a coefficient of variation (CV); above 1 calls come in bursts
	Trace    Arrival = "trace"    // nothing: they come when those of a recorded trace came
)

// A Plan says how much load there is. A limit of 0 does not apply; PerCall, and
// Sessions or Rate, are above zero.
type Plan struct {
	Arrival  Arrival
	Sessions int             // of Closed: how many calls go on at the same time
	Rate     float64         // of Poisson, Constant and Gamma: new calls a second
	CV       float64         // of Gamma: the gaps' standard deviation by their mean, above 0
	Times    []time.Duration // of Trace: when each call begins, in order
	Turns    int             // how many turns are measured, over all calls
	Warmup   int             // how many turns come before these, over all calls
	PerCall  int             // how many turns a whole call has
	Spread   bool            // PerCall is only the mean: after each turn a call goes on with the same probability
	Duration time.Duration   // no call begins at or after it
	Seed     uint64

	// Apart says that the calls have nothing to do with each other, so that a
	// Virtual clock may play them faster: see clocks.GoApart. An error then ends
	// the others later.
	Apart bool
}

// A Call is a call of a plan.
type Call struct {
	Number int           // from 1
	Slot   int           // of Closed: which of the sessions it belongs to, from 0
	At     time.Duration // of the others: when it begins
	Turns  int           // how many turns it has
	Warmup int           // how many of these, at its head, are warm-up
}

// Count returns how many calls p has, and false if only Duration ends them and
// nobody can tell. Where both are given, Count is the most there can be.
func (p Plan) Count() (n int, known bool) {
	switch {
	case p.Turns > 0 && !p.Spread:
		n, known = (p.Turns+p.Warmup+p.PerCall-1)/p.PerCall, true
	case p.Turns > 0:
		for before := 0; before < p.Turns+p.Warmup; n++ {
			before += p.length(n + 1)
		}
		known = true
	}
	if p.Arrival == Trace && (!known || n > len(p.Times)) {
		n, known = len(p.Times), true
	}
	return n, known
}

// Calls yields the calls of p in order. It does not end if p has neither Turns
// nor Times nor, with an arrival other than Closed, a Duration; a Closed plan ends
// by Duration only where it is run, since nobody knows here how long calls take.
func (p Plan) Calls() iter.Seq[Call] {
	return func(yield func(Call) bool) {
		var at time.Duration
		before := 0 // turns in the calls before
		for n := 1; ; n++ {
			c := p.call(n, before)
			if c.Turns <= 0 || p.Arrival == Trace && n > len(p.Times) {
				return
			}
			if p.Arrival != Closed {
				at = p.due(n, at)
				if p.Duration > 0 && at >= p.Duration {
					return
				}
				c.At = at
			}
			if !yield(c) {
				return
			}
			before += p.length(n)
		}
	}
}

// Slots returns how many calls of a Closed plan may go on at the same time: no
// more than there are.
func (p Plan) Slots() int {
	if n, known := p.Count(); known {
		return min(n, p.Sessions)
	}
	return p.Sessions
}

// Slot yields the calls that belong to slot s of a Closed plan. Each begins
// when the one before has ended.
func (p Plan) Slot(s int) iter.Seq[Call] {
	return func(yield func(Call) bool) {
		before, known := 0, 0 // turns in the calls up to known
		for n := s + 1; ; n += p.Sessions {
			if p.Spread {
				for ; known < n-1; known++ {
					before += p.length(known + 1)
				}
			} else {
				before = (n - 1) * p.PerCall
			}
			c := p.call(n, before)
			if c.Turns <= 0 || !yield(c) {
				return
			}
		}
	}
}

// length returns how many turns the whole call n has. With Spread they are
// geometrically distributed: a hang-up is as likely after every turn.
func (p Plan) length(n int) int {
	if !p.Spread || p.PerCall == 1 {
		return p.PerCall
	}
	source := random.New(p.Seed, "call.length", n)
	return 1 + int(math.Log(source.Float())/math.Log1p(-1/float64(p.PerCall)))
}

// call returns call n but for its time. It has no turns if there is none.
func (p Plan) call(n, before int) Call {
	turns := p.length(n)
	c := Call{Number: n, Turns: turns, Warmup: min(max(p.Warmup-before, 0), turns)}
	if p.Turns > 0 {
		c.Turns = min(c.Turns, p.Turns+p.Warmup-before)
	}
	if p.Arrival == Closed {
		c.Slot = (n - 1) % p.Sessions
	}
	return c
}

// due returns when call n begins if the one before began at prev.
func (p Plan) due(n int, prev time.Duration) time.Duration {
	switch p.Arrival {
	case Constant: // from the beginning, so that nothing adds up
		return saturate(float64(n-1) / p.Rate * float64(time.Second))
	case Trace:
		return p.Times[n-1]
	}
	source := random.New(p.Seed, "arrival", n)
	unit := float64(source.Exp(time.Second))
	if p.Arrival == Gamma {
		shape := 1 / (p.CV * p.CV)
		unit = source.Gamma(shape) / shape * float64(time.Second)
	}
	gap := saturate(unit / p.Rate)
	return prev + min(gap, math.MaxInt64-prev)
}

// saturate rounds ns to a Duration, the longest there is at most.
func saturate(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Round(ns))
}
