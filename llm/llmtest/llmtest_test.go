package llmtest

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/llmsim"
)

type yieldFunc = func(llm.Delta, error) bool

// A broken model spoils what a good one says.
type broken struct {
	llm.Model
	clock clocks.Clock
	busy  atomic.Bool
	spoil func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc)
}

func (b *broken) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) { b.spoil(b, ctx, req, yield) }
}

// each passes on what the good one says, changed by f.
func each(f func(b *broken, d *llm.Delta) (drop bool)) func(*broken, context.Context, llm.Request, yieldFunc) {
	return func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
		for d, err := range b.Model.Generate(ctx, req) {
			if err == nil && f(b, &d) {
				continue
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

func drop(kind llm.Kind) func(*broken, context.Context, llm.Request, yieldFunc) {
	return each(func(_ *broken, d *llm.Delta) bool { return d.Kind == kind })
}

// TestSuiteCatches has one broken model for each thing that the suite must see,
// with a check that sees it.
func TestSuiteCatches(t *testing.T) {
	for _, c := range []struct {
		name, check string
		spoil       func(*broken, context.Context, llm.Request, yieldFunc)
		real        bool // only on a Real clock
	}{
		{name: "no content", check: "order", spoil: drop(llm.Content)},
		{name: "no finish", check: "order", spoil: drop(llm.Finish)},
		{name: "no usage", check: "order", spoil: drop(llm.Usage)},
		{name: "no call", check: "tool call", spoil: drop(llm.Call)},
		{name: "from the future", check: "order", spoil: each(func(_ *broken, d *llm.Delta) bool { d.At += time.Second; return false })},
		{name: "from before", check: "order", spoil: each(func(_ *broken, d *llm.Delta) bool { d.At = -1; return false })},
		{name: "backwards", check: "order", spoil: each(func(_ *broken, d *llm.Delta) bool { d.At = time.Second - d.At; return false })},
		{name: "empty content", check: "order", spoil: each(func(_ *broken, d *llm.Delta) bool { d.Text = ""; return false })},
		{name: "counts twice", check: "order", spoil: each(func(_ *broken, d *llm.Delta) bool {
			if d.Kind == llm.Content {
				d.Tokens *= 2
			}
			return false
		})},
		{name: "late headers", check: "order", spoil: each(func(_ *broken, d *llm.Delta) bool {
			if d.Kind == llm.Usage {
				d.Kind = llm.Headers
			}
			return false
		})},
		{name: "content after the finish", check: "order", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			for d, err := range b.Model.Generate(ctx, req) {
				if !yield(d, err) || d.Kind == llm.Finish && !yield(llm.Delta{At: d.At, Kind: llm.Content, Text: "And"}, nil) {
					return
				}
			}
		}},
		{name: "does not stop", check: "early stop", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			for d, err := range b.Model.Generate(ctx, req) {
				yield(d, err)
			}
		}},
		{name: "stops slowly", check: "early stop", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			for d, err := range b.Model.Generate(ctx, req) {
				if !yield(d, err) {
					b.clock.Sleep(ctx, time.Second)
					return
				}
			}
		}},
		{name: "deaf to its context", check: "cancel", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			b.Model.Generate(context.Background(), req)(yield)
		}},
		{name: "begins although its context has ended", check: "ended before", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			yield(llm.Delta{At: b.clock.Now(), Kind: llm.Connected}, nil)
		}},
		{name: "hides the cause", check: "cancel", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			for d, err := range b.Model.Generate(ctx, req) {
				if err != nil {
					err = errors.New("something went wrong")
				}
				if !yield(d, err) {
					return
				}
			}
		}},
		{name: "forgets what it held back", check: "held back", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			b.Model.Generate(ctx, req)(func(d llm.Delta, err error) bool {
				return d.At < b.clock.Now() && d.Kind == llm.Content || yield(d, err)
			})
		}},
		{name: "holds all back", check: "matters", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			if req.Matters != nil {
				req.Matters = func(string) bool { return false }
			}
			b.Model.Generate(ctx, req)(yield)
		}},
		{name: "other words if not all matters", check: "matters", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			if req.Matters != nil {
				req.ID.Turn++
			}
			b.Model.Generate(ctx, req)(yield)
		}},
		{name: "works once", check: "twice", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			if b.busy.Swap(true) {
				yield(llm.Delta{}, errors.New("closed"))
				return
			}
			b.Model.Generate(ctx, req)(yield)
		}},
		{name: "one at a time", check: "at once", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			if b.busy.Swap(true) {
				yield(llm.Delta{}, errors.New("busy"))
				return
			}
			b.Model.Generate(ctx, req)(yield)
			b.busy.Store(false)
		}},
		{name: "no limit", check: "max tokens", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			req.Params.MaxTokens = 0
			b.Model.Generate(ctx, req)(yield)
		}},
		{name: "calls what there is not", check: "tool call", spoil: each(func(_ *broken, d *llm.Delta) bool {
			if d.Kind == llm.Call {
				d.Call.Name = "weather"
			}
			return false
		})},
		{name: "calls again and again", check: "tool call", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			req.Messages = req.Messages[:2]
			b.Model.Generate(ctx, req)(yield)
		}},
		{name: "silent about its failure", check: "failure", spoil: func(*broken, context.Context, llm.Request, yieldFunc) {}},
		{name: "goes on after its error", check: "failure", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			_ = yield(llm.Delta{}, errors.New("oh")) && yield(llm.Delta{}, errors.New("oh"))
		}},
		{name: "panics", check: "order", spoil: func(*broken, context.Context, llm.Request, yieldFunc) { panic("oh") }},
		{name: "waits for ever", check: "order", spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			clocks.NewQueue[int](b.clock, "nothing").Get(ctx)
		}},
		{name: "leaves a goroutine", check: "order", real: true, spoil: func(b *broken, ctx context.Context, req llm.Request, yield yieldFunc) {
			b.clock.Go("left over", func() { b.clock.Sleep(context.Background(), time.Hour) })
			b.Model.Generate(ctx, req)(yield)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := llmsim.Defaults()
			subject := Subject{
				New: func(_ testing.TB, clock clocks.Clock) llm.Model {
					return &broken{Model: llmsim.New(clock, 1, o), clock: clock, spoil: c.spoil}
				},
				Repeats: true, MaxTokens: true, Usage: true,
			}
			subject.NewFailing = subject.New
			subject.NewCalling = func(_ testing.TB, clock clocks.Clock) llm.Model {
				calling := o
				calling.ToolCall = 1
				return &broken{Model: llmsim.New(clock, 1, calling), clock: clock, spoil: c.spoil}
			}
			for _, check := range checks {
				if check.name != c.check {
					continue
				}
				if err := subject.onReal(t, check); err == nil {
					t.Error("the suite passes it on a Real clock")
				}
				if c.real {
					return
				}
				err := subject.onVirtual(t, check)
				if err == nil {
					t.Error("the suite passes it on a Virtual clock")
				}
				t.Log(err)
				return
			}
			t.Errorf("there is no check %q", c.check)
		})
	}
}
