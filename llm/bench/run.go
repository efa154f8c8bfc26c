package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// An Asker makes one attempt at a request, measures it, and calls see with each
// piece of the answer as it is read. It fills all of the Attempt but what the
// attempt belongs to. Of a context that ends with wire.ErrRunEnded it makes an
// unfinished attempt.
type Asker interface {
	Do(ctx context.Context, req llm.Request, see func(llm.Delta)) record.Attempt
}

// maxReply bounds how much of a reply is kept to be sent back.
const maxReply = 1 << 20

// A Runner runs the parts of a plan, one after the other.
type Runner struct {
	Clock   clocks.Clock
	Asker   Asker         // over connections that are used again
	Fresh   Asker         // over a new connection for each request; for the parts that want it
	Parts   []record.Part // their Began and Ended are set
	Prompts *Prompts
	Params  llm.Params
	RunID   string // the head of every request ID
	Seed    uint64 // of the arrivals
	// Arrivals are those of the open loops.
	Arrivals Arrivals
	Turns    int // of a growing conversation
	// MaxConcurrency bounds the open requests of an open loop; 0: no bound. What
	// is due beyond it waits, and the wait counts from when it was due.
	MaxConcurrency int
	// Tools says whether requests declare the tools of their conversation.
	Tools bool
	// Grace is how long requests may go on when the run is told to end.
	Grace time.Duration

	// Begin is called when a part begins, if it is not nil, and Keep with each
	// attempt as it ends, by several goroutines. An error of Keep ends the run.
	Begin func(part int)
	Keep  func(part int, a *record.Attempt) error

	mu      sync.Mutex
	open    int
	peak    int
	number  int
	ok, all int // measured attempts
	late    int // requests that were due and never sent
	failed  error
	fail    context.CancelCauseFunc
	asking  context.Context
}

// A Result is how a run ended.
type Result struct {
	State        record.State
	Reason       string
	End          time.Duration
	OK, Measured int // attempts, warm-up apart
	PeakInFlight int
	NotSent      int // requests of an open loop that were due when the run was told to end
}

// InFlight returns how many requests are open. It may be called at any time.
func (r *Runner) InFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// Run runs all parts, or those that it gets to until ctx ends: then it sends
// nothing more, gives the open requests the time of Grace, and cancels what is
// left, which is recorded as unfinished. It is called in a goroutine of the
// clock, once.
func (r *Runner) Run(ctx context.Context) Result {
	ctx, r.fail = clocks.WithCancel(ctx, r.Clock)
	defer r.fail(context.Canceled)
	var giveUp context.CancelCauseFunc
	r.asking, giveUp = clocks.WithCancel(context.WithoutCancel(ctx), r.Clock)
	defer giveUp(context.Canceled)
	var mu sync.Mutex
	var alarm clocks.Alarm
	ending := clocks.OnEnd(ctx, r.Clock, func() {
		mu.Lock()
		defer mu.Unlock()
		alarm = r.Clock.At(r.Clock.Now()+r.Grace, func() { giveUp(wire.ErrRunEnded) })
	})
	for i := range r.Parts {
		if ctx.Err() != nil {
			break
		}
		if r.Begin != nil {
			r.Begin(i)
		}
		r.part(ctx, i)
	}
	stopped := ctx.Err() != nil
	ending.Stop()
	mu.Lock()
	alarm.Stop()
	mu.Unlock()
	res := Result{State: record.Complete, End: r.Clock.Now(), OK: r.ok, Measured: r.all, PeakInFlight: r.peak, NotSent: r.late}
	switch {
	case r.failed != nil:
		res.State, res.Reason = record.Failed, r.failed.Error()
	case stopped:
		res.State, res.Reason = record.Interrupted, "interrupted"
	}
	return res
}

// part runs a part, up to its end or that of ctx.
func (r *Runner) part(ctx context.Context, i int) {
	p := &r.Parts[i]
	switch p.Phase {
	case record.Rate:
		r.openLoop(ctx, i)
	case record.Conversation:
		r.converse(ctx, i)
	default:
		r.closedLoop(ctx, i)
	}
	if p.Began != nil {
		now := r.Clock.Now()
		p.Ended = &now
	}
}

// closedLoop keeps as many requests open as the part's level says. The measured
// requests begin while the last of the warm-up are still open: a level that was
// drained in between would start with a wave again.
func (r *Runner) closedLoop(ctx context.Context, i int) {
	p := &r.Parts[i]
	issued := 0 // under r.mu
	take := func() (n int, ok bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if ctx.Err() != nil || !more(p, issued, r.Clock.Now()) {
			return 0, false
		}
		issued++
		return issued - 1, true
	}
	g, _ := clocks.NewGroup(ctx, r.Clock)
	for range p.Level {
		g.Go("client", func() error {
			failures := 0
			for n, ok := take(); ok; n, ok = take() {
				if p.Pause > 0 && r.Clock.Sleep(ctx, p.Pause) != nil {
					break
				}
				a, _ := r.ask(i, n, r.prompt(p, n), func(a *record.Attempt) { a.Pause = p.Pause })
				failures = r.rest(ctx, a, failures)
			}
			return nil
		})
	}
	g.Wait() // the clients return no errors
}

// more says whether request n of p, from 0, is to be sent now, and notes when
// the first measured one is.
func more(p *record.Part, n int, now time.Duration) bool {
	if n < p.Warmup {
		return true
	}
	if p.Began == nil {
		p.Began = &now
	}
	if p.Requests > 0 {
		return n < p.Warmup+p.Requests
	}
	return now-*p.Began < p.Duration
}

// rest waits after an attempt that was not answered, longer from one to the
// next and at most a second: a service that refuses at once would be asked
// thousands of times a second, and no caller does that. A longer Retry-After is
// not waited for: the load is what is measured, and not how it is avoided. It
// returns how many failed in a row.
func (r *Runner) rest(ctx context.Context, a record.Attempt, failures int) int {
	switch a.Class {
	case record.HTTPError, record.ConnectError, record.StreamError, record.Truncated:
	default:
		return 0
	}
	r.Clock.Sleep(ctx, min(time.Second, 100*time.Millisecond<<min(failures, 4))) // an end is seen by the next take
	return failures + 1
}

// openLoop sends requests when they are due, whatever has become of those before.
func (r *Runner) openLoop(ctx context.Context, i int) {
	p := &r.Parts[i]
	start := r.Clock.Now()
	g, _ := clocks.NewGroup(ctx, r.Clock)
	ended := clocks.NewQueue[struct{}](r.Clock, "the end of a request")
	running, n := 0, 0
	for at := range r.Arrivals.Times(p.AskedRate, r.Seed, i) {
		due := start + at
		if !more(p, n, due) {
			break
		}
		if r.Clock.SleepUntil(ctx, due) != nil {
			break
		}
		if r.MaxConcurrency > 0 && running == r.MaxConcurrency {
			if _, ok := ended.Get(ctx); !ok {
				r.notSent(p, i, n, start)
				break
			}
			running--
		}
		number := n
		n++
		running++
		prompt := r.prompt(p, number)
		g.Go("request", func() error {
			r.ask(i, number, prompt, func(a *record.Attempt) { a.Due = &due })
			if r.MaxConcurrency > 0 {
				ended.Put(struct{}{})
			}
			return nil
		})
	}
	g.Wait() // the requests return no errors
}

// notSent counts the requests of an open loop from number n on that are due by
// now.
func (r *Runner) notSent(p *record.Part, part, n int, start time.Duration) {
	k, now := 0, r.Clock.Now()
	for at := range r.Arrivals.Times(p.AskedRate, r.Seed, part) {
		if start+at > now || !more(p, k, start+at) {
			return
		}
		if k++; k > n {
			r.late++
		}
	}
}

// converse holds conversations that grow turn by turn: each reply goes back as
// it came. One whose turn has no reply ends there.
func (r *Runner) converse(ctx context.Context, i int) {
	p := &r.Parts[i]
	failures := 0
	for n, number := 0, 1; ; number++ {
		s := r.Prompts.Session(number)
		for turn := 1; turn <= r.Turns; turn++ {
			if ctx.Err() != nil || !more(p, n, r.Clock.Now()) {
				return
			}
			a, reply := r.ask(i, n, s.Next(), func(a *record.Attempt) { a.Session, a.Turn = number, turn })
			n++
			failures = r.rest(ctx, a, failures)
			if a.Class != record.OK {
				break
			}
			s.Reply(reply)
		}
	}
}

// prompt returns what request n of p asks. Every part asks the same, in the same
// order, so that they can be compared.
func (r *Runner) prompt(p *record.Part, n int) Prompt {
	if p.PromptTarget > 0 {
		return r.Prompts.Sized(p.PromptTarget, n)
	}
	return r.Prompts.Natural(n)
}

// ask makes the attempt at request n of a part, keeps it, and returns it with the
// content of the reply. set completes what it belongs to.
func (r *Runner) ask(part, n int, prompt Prompt, set func(*record.Attempt)) (record.Attempt, string) {
	p := &r.Parts[part]
	asker := r.Asker
	if p.Phase == record.NewConn {
		asker = r.Fresh
	}
	r.mu.Lock()
	r.number++
	number := r.number
	r.open++
	open := r.open
	r.peak = max(r.peak, open)
	r.mu.Unlock()
	req := llm.Request{
		ID: trace.ID{Session: number, Turn: 1}, RequestID: fmt.Sprintf("%s-%d", r.RunID, number), Attempt: 1,
		Language: prompt.Language, Params: r.Params, Messages: r.Prompts.head(prompt, number), PromptTokens: prompt.Tokens,
	}
	if r.Tools {
		req.Tools = prompt.Tools
	}
	var reply strings.Builder
	a := asker.Do(r.asking, req, func(d llm.Delta) {
		if d.Kind == llm.Content && p.Phase == record.Conversation && reply.Len() < maxReply {
			reply.WriteString(d.Text)
		}
	})
	a.RequestID, a.Number = req.RequestID, 1
	a.Phase, a.Level, a.AskedRate, a.PromptTarget = p.Phase, p.Level, p.AskedRate, p.PromptTarget
	a.Warmup, a.Language, a.InFlight = n < p.Warmup, prompt.Language, open
	set(&a)
	r.mu.Lock()
	r.open--
	if !a.Warmup {
		r.all++
		if a.Class == record.OK {
			r.ok++
		}
	}
	r.mu.Unlock()
	if err := r.Keep(part, &a); err != nil {
		r.mu.Lock()
		if r.failed == nil {
			r.failed = err
		}
		r.mu.Unlock()
		r.fail(err)
	}
	return a, reply.String()
}
