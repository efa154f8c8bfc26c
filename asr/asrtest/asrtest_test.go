package asrtest

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrsim"
	"firstsound/audio"
	"firstsound/clocks"
)

// A broken recognizer spoils what a good one says.
type broken struct {
	asr.Recognizer
	clock clocks.Clock
	busy  atomic.Bool
	spoil func(b *broken, ctx context.Context, req asr.Request, speech audio.Speech, yield func(asr.Result, error) bool)
}

func (b *broken) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) { b.spoil(b, ctx, req, speech, yield) }
}

// each passes on what the good one says, changed by f.
func each(f func(b *broken, r *asr.Result) (drop bool)) func(*broken, context.Context, asr.Request, audio.Speech, func(asr.Result, error) bool) {
	return func(b *broken, ctx context.Context, req asr.Request, speech audio.Speech, yield func(asr.Result, error) bool) {
		for r, err := range b.Recognizer.Recognize(ctx, req, speech) {
			if err == nil && f(b, &r) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// TestSuiteCatches has one broken recognizer for each thing that the suite must
// see, with a check that sees it.
func TestSuiteCatches(t *testing.T) {
	type spoil = func(*broken, context.Context, asr.Request, audio.Speech, func(asr.Result, error) bool)
	for _, c := range []struct {
		name, check string
		spoil       spoil
		real        bool // only on a Real clock
	}{
		{name: "no final", check: "order", spoil: each(func(_ *broken, r *asr.Result) bool { return r.Kind == asr.Final })},
		{name: "no partials", check: "order", spoil: each(func(_ *broken, r *asr.Result) bool { return r.Kind == asr.Partial })},
		{name: "wrong text", check: "order", spoil: each(func(_ *broken, r *asr.Result) bool { r.Text += "?"; return false })},
		{name: "from the future", check: "order", spoil: each(func(_ *broken, r *asr.Result) bool { r.At += time.Second; return false })},
		{name: "from before", check: "at once", spoil: each(func(_ *broken, r *asr.Result) bool { r.At = -1; return false })},
		{name: "backwards", check: "order", spoil: each(func(_ *broken, r *asr.Result) bool { r.At = 5*time.Second - r.At; return false })},
		{name: "unstable", check: "order", spoil: each(func(_ *broken, r *asr.Result) bool { r.Stability = 2; return false })},
		{name: "a partial after the final", check: "order", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(ctx, req, s) {
				if !yield(r, err) || r.Kind == asr.Final && !yield(asr.Result{At: b.clock.Now(), Text: "and"}, nil) {
					return
				}
			}
		}},
		{name: "does not stop", check: "early stop", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(ctx, req, s) {
				yield(r, err)
			}
		}},
		{name: "stops slowly", check: "early stop", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(ctx, req, s) {
				if !yield(r, err) {
					b.clock.Sleep(ctx, time.Second)
					return
				}
			}
		}},
		{name: "deaf to its context", check: "cancel", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(context.Background(), req, s) {
				if !yield(r, err) {
					return
				}
			}
		}},
		{name: "begins although its context has ended", check: "ended before", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			yield(asr.Result{At: b.clock.Now(), Text: "hm"}, nil)
		}},
		{name: "hides the cause", check: "cancel", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(ctx, req, s) {
				if err != nil {
					err = errors.New("something went wrong")
				}
				if !yield(r, err) {
					return
				}
			}
		}},
		{name: "deaf to the line", check: "broken line", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(ctx, req, s) {
				if err != nil || !yield(r, err) {
					return
				}
			}
		}},
		{name: "goes on after its error", check: "broken line", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			for r, err := range b.Recognizer.Recognize(ctx, req, s) {
				if !yield(r, err) || err != nil && !yield(asr.Result{}, err) {
					return
				}
			}
		}},
		{name: "works once", check: "twice", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			if b.busy.Swap(true) {
				yield(asr.Result{}, errors.New("closed"))
				return
			}
			b.Recognizer.Recognize(ctx, req, s)(yield)
		}},
		{name: "one at a time", check: "at once", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			if b.busy.Swap(true) {
				yield(asr.Result{}, errors.New("busy"))
				return
			}
			b.Recognizer.Recognize(ctx, req, s)(yield)
			b.busy.Store(false)
		}},
		{name: "does not wait for Finalize", check: "finalize", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			req.Finalize = nil
			b.Recognizer.Recognize(ctx, req, s)(yield)
		}},
		{name: "silent about its failure", check: "failure", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
		}},
		{name: "panics", check: "order", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			panic("oh")
		}},
		{name: "waits for ever", check: "order", spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			clocks.NewQueue[int](b.clock, "nothing").Get(ctx)
		}},
		{name: "leaves a goroutine", check: "order", real: true, spoil: func(b *broken, ctx context.Context, req asr.Request, s audio.Speech, yield func(asr.Result, error) bool) {
			b.clock.Go("left over", func() { b.clock.Sleep(context.Background(), time.Hour) })
			b.Recognizer.Recognize(ctx, req, s)(yield)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := asrsim.Defaults()
			o.WaitForFinalize = true
			subject := Subject{
				New: func(_ testing.TB, clock clocks.Clock) asr.Recognizer {
					return &broken{Recognizer: asrsim.New(clock, 1, o), clock: clock, spoil: c.spoil}
				},
				Partials: true, Text: true, Finalizes: true,
			}
			subject.NewFailing = subject.New
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
