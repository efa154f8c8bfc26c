// Package llmtest checks that a model keeps the contract of package llm. Its
// suite runs on a Virtual clock and on a Real one inside a testing/synctest
// bubble, for simulations as for clients of a service (with a fake server inside
// the bubble).
package llmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/trace"
	"firstsound/llm"
)

// A Subject is what the suite examines, and what it may expect of it.
type Subject struct {
	// New returns a model on c that answers a request with content. It is called
	// for each check, inside the bubble; what it starts has to end when Close
	// returns, if that is set.
	New   func(t testing.TB, c clocks.Clock) llm.Model
	Close func(llm.Model)

	// NewFailing returns one whose service fails each time. Nil: not checked.
	NewFailing func(t testing.TB, c clocks.Clock) llm.Model

	// NewCalling returns one that calls a tool if it is offered one and has not
	// been told the result yet. Nil: not checked.
	NewCalling func(t testing.TB, c clocks.Clock) llm.Model

	OnlyReal  bool          // it waits for more than clocks: no Virtual clock
	Repeats   bool          // a new one answers the same request in the same words at the same pace
	MaxTokens bool          // it keeps to Params.MaxTokens, and its answer is longer than 3 tokens
	Usage     bool          // it tells how many tokens there were
	Bound     time.Duration // how soon it has to end when told to; 0: 100 ms
}

// Run checks s on both clocks.
func Run(t *testing.T, s Subject) {
	for _, c := range checks {
		if !s.OnlyReal {
			t.Run(c.name+"/virtual", func(t *testing.T) {
				if err := s.onVirtual(t, c); err != nil {
					t.Error(err)
				}
			})
		}
		t.Run(c.name+"/real", func(t *testing.T) {
			if err := s.onReal(t, c); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s Subject) onVirtual(t *testing.T, c check) error {
	return clockstest.Virtual(func(ctx context.Context, clock clocks.Clock) error { return s.check(ctx, t, clock, c) })
}

func (s Subject) onReal(t *testing.T, c check) error {
	return clockstest.Real(t, func(ctx context.Context, clock clocks.Clock) error { return s.check(ctx, t, clock, c) })
}

func (s Subject) check(ctx context.Context, t *testing.T, clock clocks.Clock, c check) error {
	if s.Bound == 0 {
		s.Bound = 100 * time.Millisecond
	}
	b := &bench{Subject: s, t: t, ctx: ctx, clock: clock, make: s.New}
	if c.subject != nil {
		if b.make = c.subject(s); b.make == nil {
			return nil
		}
	}
	defer b.close()
	b.renew()
	return c.run(b)
}

// bench is one check at work.
type bench struct {
	Subject
	t     testing.TB
	ctx   context.Context
	clock clocks.Clock
	make  func(testing.TB, clocks.Clock) llm.Model
	m     llm.Model
}

// renew takes a new model.
func (b *bench) renew() {
	b.close()
	b.m = b.make(b.t, b.clock)
}

func (b *bench) close() {
	if b.m != nil && b.Close != nil {
		b.Close(b.m)
	}
	b.m = nil
}

// request is what the suite asks for.
func request(id trace.ID) llm.Request {
	return llm.Request{
		ID: id, RequestID: fmt.Sprintf("llmtest-%d-%d", id.Session, id.Turn), Attempt: 1, Language: "en",
		Messages: []llm.Message{
			{Role: llm.System, Content: "You are the voice of a shop. Answer in one or two sentences."},
			{Role: llm.User, Content: "Hello, when are you open today?"},
		},
		PromptTokens: 30,
	}
}

var first = trace.ID{Session: 1, Turn: 1}

// An answer is what a model said.
type answer struct {
	began  time.Duration
	deltas []llm.Delta
	err    error
	ended  time.Duration // when the iteration returned
}

// read reads deltas until stop says so, and checks what holds for all.
func (b *bench) read(ctx context.Context, req llm.Request, stop func(llm.Delta) bool) (answer, error) {
	a := answer{began: b.clock.Now()}
	last := a.began
	var wrong error
	fault := func(format string, args ...any) {
		if wrong == nil {
			wrong = fmt.Errorf(format, args...)
		}
	}
	over, finished := false, false
	var seen [llm.Finish + 1]bool
	b.m.Generate(ctx, req)(func(d llm.Delta, err error) bool {
		now := b.clock.Now()
		switch {
		case over:
			fault("it yields more after the iteration was stopped: %+v, %v", d, err)
			return false
		case a.err != nil:
			fault("it yields more after its error %q: %+v, %v", a.err, d, err)
			return false
		case err != nil:
			if d != (llm.Delta{}) {
				fault("it yields a delta with its error: %+v, %v", d, err)
			}
			a.err = err
			return true
		case d.At > now:
			fault("a delta is of %v, but it is %v", d.At, now)
		case d.At < a.began:
			fault("a delta is of %v, before the request at %v", d.At, a.began)
		case d.At < last:
			fault("a delta of %v comes after one of %v", d.At, last)
		case d.Kind < llm.Connected || d.Kind > llm.Finish:
			fault("a delta has kind %d, which is none", d.Kind)
		case finished && d.Kind != llm.Usage && d.Kind != llm.Timings:
			fault("after Finish comes %+v", d)
		case d.Kind == llm.Connected && len(a.deltas) > 0:
			fault("Connected is not the first delta")
		case d.Kind == llm.Headers && (seen[llm.Headers] || seen[llm.Empty] || seen[llm.Reasoning] || seen[llm.Content] || seen[llm.Call]):
			fault("Headers come twice, or after the body began")
		case (d.Kind == llm.Content || d.Kind == llm.Reasoning) && d.Text == "":
			fault("a delta of kind %d has no text", d.Kind)
		case d.Kind == llm.Empty && d.Text != "":
			fault("an Empty delta has the text %q", d.Text)
		case d.Kind == llm.Call && (d.Call.Name == "" || d.Call.ID == ""):
			fault("a Call has no name or no ID: %+v", d.Call)
		case d.Kind == llm.Finish && d.Text == "":
			fault("Finish has no reason")
		case d.Tokens < 0 || d.Prompt < 0:
			fault("a delta has a negative count: %+v", d)
		}
		if d.Kind >= llm.Connected && d.Kind <= llm.Finish {
			seen[d.Kind] = true
		}
		last = d.At
		finished = finished || d.Kind == llm.Finish
		a.deltas = append(a.deltas, d)
		over = stop != nil && stop(d)
		return !over
	})
	a.ended = b.clock.Now()
	return a, wrong
}

// text returns the content that had arrived so long after the request.
func (a answer) text(after time.Duration) string {
	var text strings.Builder
	for _, d := range a.deltas {
		if d.Kind == llm.Content && d.At-a.began <= after {
			text.WriteString(d.Text)
		}
	}
	return text.String()
}

const always = time.Duration(1<<63 - 1)

// find returns the first delta of a kind.
func (a answer) find(kind llm.Kind) (llm.Delta, bool) {
	for _, d := range a.deltas {
		if d.Kind == kind {
			return d, true
		}
	}
	return llm.Delta{}, false
}

// whole checks what holds for an answer that was not disturbed.
func (b *bench) whole(a answer) error {
	_, finished := a.find(llm.Finish)
	usage, told := a.find(llm.Usage)
	switch {
	case a.err != nil:
		return fmt.Errorf("it fails: %w", a.err)
	case a.text(always) == "":
		return errors.New("there is no content")
	case !finished:
		return errors.New("there is no Finish")
	case b.Usage && (!told || usage.Tokens == 0):
		return errors.New("there is no Usage, or it tells of no tokens")
	}
	tokens := 0
	for _, d := range a.deltas {
		if d.Kind == llm.Content {
			tokens += d.Tokens
		}
	}
	if told && tokens > usage.Tokens {
		return fmt.Errorf("the content has %d tokens, but Usage tells of %d", tokens, usage.Tokens)
	}
	return nil
}

// ask is read for a request of the suite as it is.
func (b *bench) ask(id trace.ID) (answer, error) {
	a, err := b.read(b.ctx, request(id), nil)
	if err == nil {
		err = b.whole(a)
	}
	return a, err
}

var errCancelled = errors.New("cancelled by the suite")

// cancelled asks, and ends the context some time after that.
func (b *bench) cancelled(after time.Duration, matters func(string) bool) (answer, error) {
	ctx, cancel := clocks.WithCancel(b.ctx, b.clock)
	defer cancel(nil)
	at := b.clock.Now() + after
	alarm := b.clock.At(at, func() { cancel(errCancelled) })
	defer alarm.Stop()
	if after == 0 {
		cancel(errCancelled)
	}
	req := request(first)
	req.Matters = matters
	a, err := b.read(ctx, req, nil)
	if err != nil {
		return a, err
	}
	if _, finished := a.find(llm.Finish); finished && a.err == nil && a.ended <= at {
		return a, nil // it was done before
	}
	if a.err != nil && !errors.Is(a.err, errCancelled) {
		return a, fmt.Errorf("after the context ended it fails with %q, which is not the context's cause", a.err)
	}
	if late := a.ended - at; late > b.Bound {
		return a, fmt.Errorf("it returns %v after the context ended; %v are allowed", late, b.Bound)
	}
	for _, d := range a.deltas {
		if d.At > at {
			return a, fmt.Errorf("it tells of %+v, which arrived after the context had ended at %v", d, at)
		}
	}
	return a, nil
}

type check struct {
	name    string
	subject func(Subject) func(testing.TB, clocks.Clock) llm.Model // nil: New
	run     func(*bench) error
}

var checks = []check{
	{name: "order", run: func(b *bench) error { _, err := b.ask(first); return err }},
	{name: "early stop", run: (*bench).early},
	{name: "ended before", run: (*bench).endedBefore},
	{name: "cancel", run: (*bench).cancel},
	{name: "matters", run: (*bench).mattering},
	{name: "held back", run: (*bench).heldBack},
	{name: "twice", run: (*bench).twice},
	{name: "at once", run: (*bench).atOnce},
	{name: "max tokens", run: (*bench).maxTokens},
	{name: "failure", run: (*bench).failure, subject: func(s Subject) func(testing.TB, clocks.Clock) llm.Model { return s.NewFailing }},
	{name: "tool call", run: (*bench).toolCall, subject: func(s Subject) func(testing.TB, clocks.Clock) llm.Model { return s.NewCalling }},
}

// early stops after each of the deltas.
func (b *bench) early() error {
	for n := 1; n <= 40; n++ {
		b.renew()
		var at time.Duration
		seen := 0
		a, err := b.read(b.ctx, request(first), func(llm.Delta) bool {
			at = b.clock.Now()
			seen++
			return seen == n
		})
		switch {
		case err != nil:
			return fmt.Errorf("stopped at delta %d: %w", n, err)
		case a.err != nil:
			return fmt.Errorf("stopped at delta %d: it fails: %w", n, a.err)
		case seen < n:
			return nil
		case a.ended-at > b.Bound:
			return fmt.Errorf("it returns %v after it was stopped at delta %d; %v are allowed", a.ended-at, n, b.Bound)
		}
	}
	return nil
}

func (b *bench) endedBefore() error {
	a, err := b.cancelled(0, nil)
	if err == nil && len(a.deltas) > 0 {
		err = fmt.Errorf("it yields %+v although the context had ended", a.deltas[0])
	}
	return err
}

// cancel ends the context at several times from the request to the last delta.
func (b *bench) cancel() error {
	a, err := b.ask(first)
	if err != nil {
		return err
	}
	whole := a.ended - a.began
	for i := 1; i < 10; i++ {
		b.renew()
		after := whole * time.Duration(i) / 10
		if _, err := b.cancelled(after, nil); err != nil {
			return fmt.Errorf("cancel after %v: %w", after, err)
		}
	}
	return nil
}

// mattering compares an answer in which everything matters with one in which
// only some does.
func (b *bench) mattering() error {
	if !b.Repeats {
		return nil
	}
	plain, err := b.ask(first)
	if err != nil {
		return err
	}
	b.renew()
	req := request(first)
	asked := ""
	matters := func(text string) bool { return strings.ContainsAny(text, "ae.!?") }
	req.Matters = func(text string) bool {
		asked += text
		return matters(text)
	}
	joined, err := b.read(b.ctx, req, nil)
	if err == nil {
		err = b.whole(joined)
	}
	if err != nil {
		return err
	}
	if p, j := plain.text(always), joined.text(always); p != j {
		return fmt.Errorf("it says %q if all matters, and %q if not", p, j)
	}
	if asked != "" && !strings.HasPrefix(plain.text(always), asked) {
		return fmt.Errorf("it asked whether %q matters, but said %q", asked, plain.text(always))
	}
	p, _ := plain.find(llm.Content)
	j, _ := joined.find(llm.Content)
	if p.Text != j.Text || p.At-plain.began != j.At-joined.began {
		return fmt.Errorf("the first content is %q after %v if all matters, and %q after %v if not", p.Text, p.At-plain.began, j.Text, j.At-joined.began)
	}
	// At the time of each delta that matters, and at the end, all is there.
	for i, d := range plain.deltas {
		if d.Kind != llm.Content || !matters(d.Text) && i < len(plain.deltas)-1 {
			continue
		}
		at := d.At - plain.began
		if p, j := plain.text(at), joined.text(at); p != j {
			return fmt.Errorf("after %v it has said %q if all matters, and %q if only some does", at, p, j)
		}
	}
	return nil
}

// heldBack ends the context of an answer in which nothing matters: what had
// arrived by then has to be told.
func (b *bench) heldBack() error {
	if !b.Repeats {
		return nil
	}
	plain, err := b.ask(first)
	if err != nil {
		return err
	}
	whole := plain.ended - plain.began
	for i := 1; i < 10; i++ {
		b.renew()
		after := whole * time.Duration(i) / 10
		a, err := b.cancelled(after, func(string) bool { return false })
		if err != nil {
			return fmt.Errorf("cancel after %v: %w", after, err)
		}
		if got, want := a.text(always), plain.text(after); got != want {
			return fmt.Errorf("cancelled after %v it has told %q, but %q had arrived", after, got, want)
		}
	}
	return nil
}

func (b *bench) twice() error {
	for i := range 2 {
		if _, err := b.ask(trace.ID{Session: 1, Turn: i + 1}); err != nil {
			return fmt.Errorf("use %d: %w", i+1, err)
		}
	}
	return nil
}

func (b *bench) atOnce() error {
	g, ctx := clocks.NewGroup(b.ctx, b.clock)
	for i := range 4 {
		g.Go("ask", func() error {
			a, err := b.read(ctx, request(trace.ID{Session: 1 + i/2, Turn: 1 + i%2}), nil)
			if err != nil {
				return err
			}
			return b.whole(a)
		})
	}
	return g.Wait()
}

func (b *bench) maxTokens() error {
	if !b.MaxTokens {
		return nil
	}
	req := request(first)
	req.Params.MaxTokens = 3
	a, err := b.read(b.ctx, req, nil)
	if err == nil {
		err = b.whole(a)
	}
	if err != nil {
		return err
	}
	if f, _ := a.find(llm.Finish); f.Text != "length" {
		return fmt.Errorf("with max_tokens 3 it finishes for %q, not for %q", f.Text, "length")
	}
	if u, told := a.find(llm.Usage); told && u.Tokens > 3 {
		return fmt.Errorf("with max_tokens 3 it has %d tokens", u.Tokens)
	}
	return nil
}

func (b *bench) failure() error {
	a, err := b.read(b.ctx, request(first), nil)
	if err != nil {
		return err
	}
	if a.err == nil {
		return errors.New("the service failed, and there is no error")
	}
	if a.err.Error() == "" {
		return errors.New("the error has no text")
	}
	if _, finished := a.find(llm.Finish); finished {
		return errors.New("it fails and it finishes")
	}
	return nil
}

func (b *bench) toolCall() error {
	req := request(first)
	req.Tools = []llm.Tool{{
		Name: "opening_hours", Description: "when the shop is open",
		Parameters: `{"type":"object","properties":{"query":{"type":"string"}}}`,
	}}
	a, err := b.read(b.ctx, req, nil)
	if err != nil {
		return err
	}
	call, called := a.find(llm.Call)
	finish, _ := a.find(llm.Finish)
	switch {
	case a.err != nil:
		return fmt.Errorf("it fails: %w", a.err)
	case !called:
		return errors.New("it was offered a tool, and there is no Call")
	case call.Call.Name != "opening_hours":
		return fmt.Errorf("it calls %q, which it was not offered", call.Call.Name)
	case finish.Text != "tool_calls":
		return fmt.Errorf("it calls a tool and finishes for %q", finish.Text)
	}
	// With the result it answers.
	req.Attempt = 2
	req.Messages = append(req.Messages,
		llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call.Call}},
		llm.Message{Role: llm.Result, ToolCallID: call.Call.ID, Content: "10:00 to 18:00"})
	a, err = b.read(b.ctx, req, nil)
	if err != nil {
		return fmt.Errorf("with the result: %w", err)
	}
	if err := b.whole(a); err != nil {
		return fmt.Errorf("with the result: %w", err)
	}
	return nil
}
