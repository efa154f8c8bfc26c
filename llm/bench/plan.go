// Package bench measures a language model over the wire: a plan of parts, each
// with its own way to send requests, prompts with the shape of a voice agent's,
// and a record of each attempt.
//
// All that waits does so by a clocks.Clock, so a run that takes minutes on the
// computer's clock takes none in a test.
package bench

import (
	"fmt"
	"math"
	"time"

	"firstsound/llm/record"
)

// The numbers of requests that a plan takes where nobody says otherwise.
const (
	DefaultWarmup = 5   // requirement R32
	DefaultSingle = 30  // requirement R30
	HoldP95       = 130 // two-sided 99 % bounds on P95 need them (llm-stream.md)
	IdleRequests  = 5   // after each pause: the pauses are long, and the effect is large
)

// DefaultLevels are the levels of concurrency of the default plan.
var DefaultLevels = []int{1, 5, 10, 20}

// Options say what a plan is made of. A part whose option is empty is left out.
type Options struct {
	Warmup   int           // requests at the head of each part that are left out
	Single   int           // requests one at a time
	Levels   []int         // requests at once, each level for Duration or Requests
	Rates    []float64     // requests per second that do not wait for answers
	Arrivals Arrivals      // of Rates
	Duration time.Duration // of each level and rate
	Requests int           // of each level and rate, in place of Duration

	PromptTokens   []int           // one at a time at each of these lengths
	Turns          int             // of each growing conversation
	NewConnections bool            // one at a time, each over a connection of its own
	Idle           []time.Duration // one at a time, after each of these pauses
}

// Plan returns the parts, in the order in which they are run. A level is warmed
// up at its own concurrency: with at least as many requests as it has at once,
// so that no request of its start-up wave is measured.
func (o Options) Plan() []record.Part {
	var parts []record.Part
	samples := o.Single
	if samples == 0 {
		samples = DefaultSingle
	}
	if o.Single > 0 {
		parts = append(parts, record.Part{Phase: record.Single, Level: 1, Warmup: o.Warmup, Requests: o.Single})
	}
	length := record.Part{Duration: o.Duration}
	if o.Requests > 0 {
		length = record.Part{Requests: o.Requests}
	}
	for _, n := range o.Levels {
		p := length
		p.Phase, p.Level = record.Level, n
		if o.Warmup > 0 {
			p.Warmup = max(o.Warmup, n)
		}
		parts = append(parts, p)
	}
	for _, r := range o.Rates {
		p := length
		p.Phase, p.AskedRate, p.Arrivals, p.Warmup = record.Rate, r, o.Arrivals.String(), o.Warmup
		parts = append(parts, p)
	}
	for _, n := range o.PromptTokens {
		parts = append(parts, record.Part{Phase: record.PromptSize, Level: 1, PromptTarget: n, Warmup: o.Warmup, Requests: samples})
	}
	if o.Turns > 0 {
		p := record.Part{Phase: record.Conversation, Level: 1, Requests: (samples + o.Turns - 1) / o.Turns * o.Turns}
		if o.Warmup > 0 {
			p.Warmup = o.Turns // a whole conversation
		}
		parts = append(parts, p)
	}
	if o.NewConnections {
		parts = append(parts, record.Part{Phase: record.NewConn, Level: 1, Warmup: o.Warmup, Requests: samples})
	}
	for _, d := range o.Idle {
		// No warm-up: a pause is what undoes it.
		parts = append(parts, record.Part{Phase: record.IdleGap, Level: 1, Pause: d, Requests: IdleRequests})
	}
	return parts
}

// Estimate returns how long p will take if a request takes each.
func Estimate(p record.Part, each time.Duration) time.Duration {
	if p.Phase == record.Rate {
		arrivals := float64(p.Warmup+p.Requests) / p.AskedRate
		return p.Duration + each + time.Duration(math.Min(arrivals*float64(time.Second), math.MaxInt64/4))
	}
	level := max(p.Level, 1)
	warmup := time.Duration((p.Warmup+level-1)/level) * each
	if p.Duration > 0 {
		return warmup + p.Duration + each
	}
	return time.Duration((p.Warmup+p.Requests+level-1)/level)*each + time.Duration(p.Requests)*p.Pause
}

// Peak returns how many requests the parts have at once at most, and false if an
// open loop without a bound leaves that to the service.
func Peak(parts []record.Part, bound int) (n int, known bool) {
	known = true
	for _, p := range parts {
		n = max(n, p.Level)
		if p.Phase == record.Rate {
			n, known = max(n, bound), known && bound > 0
		}
	}
	return n, known
}

// Streams returns how many requests the parts will have at once if a request takes
// each: of an open loop twice the mean, rate times each, and not more than bound,
// if that is not 0.
func Streams(parts []record.Part, bound int, each time.Duration) int {
	n, _ := Peak(parts, bound)
	for _, p := range parts {
		if p.Phase == record.Rate && bound == 0 {
			n = max(n, int(math.Min(math.Ceil(2*p.AskedRate*each.Seconds()), math.MaxInt32)))
		}
	}
	return n
}

// Name says in a few words what p is.
func Name(p record.Part) string {
	switch p.Phase {
	case record.Single:
		return "one at a time"
	case record.Level:
		return fmt.Sprintf("%d at once", p.Level)
	case record.Rate:
		return fmt.Sprintf("%g a second, %s", p.AskedRate, p.Arrivals)
	case record.PromptSize:
		return fmt.Sprintf("prompts of %d tokens", p.PromptTarget)
	case record.Conversation:
		return "growing conversations"
	case record.NewConn:
		return "new connections"
	case record.IdleGap:
		return fmt.Sprintf("after %v without traffic", p.Pause)
	}
	return string(p.Phase)
}
