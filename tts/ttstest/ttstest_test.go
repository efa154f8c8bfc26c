package ttstest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/ttssim"
)

type yieldFunc = func(tts.Chunk, error) bool

// A broken synthesizer spoils what a good one says.
type broken struct {
	tts.Synthesizer
	clock clocks.Clock
	busy  atomic.Bool
	spoil func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc)
}

func (b *broken) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) { b.spoil(b, ctx, req, text, yield) }
}

// each passes on what the good one says, changed by f.
func each(f func(b *broken, c *tts.Chunk) (drop bool)) func(*broken, context.Context, tts.Request, iter.Seq[string], yieldFunc) {
	return func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
		for c, err := range b.Synthesizer.Speak(ctx, req, text) {
			if err == nil && f(b, &c) {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// TestSuiteCatches has one broken synthesizer for each thing that the suite must
// see, with a check that sees it.
func TestSuiteCatches(t *testing.T) {
	for _, c := range []struct {
		name, check string
		spoil       func(*broken, context.Context, tts.Request, iter.Seq[string], yieldFunc)
		real        bool // only on a Real clock
	}{
		{name: "no sound", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool { c.Sound.PCM = nil; return !c.Last })},
		{name: "nothing to hear", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool {
			c.Sound.PCM = make([]int16, len(c.Sound.PCM))
			return false
		})},
		{name: "no end", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool { c.Last = false; return len(c.Sound.PCM) == 0 && !c.Connected })},
		{name: "two rates", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool {
			if c.Last {
				c.Sound.Rate = 16000
			}
			return false
		})},
		{name: "from the future", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool { c.At += time.Second; return false })},
		{name: "from before", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool { c.At = -1; return false })},
		{name: "backwards", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool { c.At = time.Second - c.At; return false })},
		{name: "sound with the connection", check: "order", spoil: each(func(_ *broken, c *tts.Chunk) bool { c.Connected = true; return false })},
		{name: "speaks without a text", check: "no text", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			b.Synthesizer.Speak(ctx, req, ready("Hm."))(yield)
		}},
		{name: "waits for the whole text", check: "flush", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			b.Synthesizer.Speak(ctx, req, slices.Values(slices.Collect(text)))(yield)
		}},
		{name: "does not stop", check: "early stop", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			for c, err := range b.Synthesizer.Speak(ctx, req, text) {
				yield(c, err)
			}
		}},
		{name: "takes text after it was stopped", check: "early stop", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			for c, err := range b.Synthesizer.Speak(ctx, req, text) {
				if !yield(c, err) {
					for range text {
					}
					return
				}
			}
		}},
		{name: "stops slowly", check: "early stop", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			for c, err := range b.Synthesizer.Speak(ctx, req, text) {
				if !yield(c, err) {
					b.clock.Sleep(ctx, time.Second)
					return
				}
			}
		}},
		{name: "deaf to its context", check: "cancel", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			b.Synthesizer.Speak(context.Background(), req, text)(yield)
		}},
		{name: "begins although its context has ended", check: "ended before", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			yield(tts.Chunk{At: b.clock.Now(), Connected: true}, nil)
		}},
		{name: "hides the cause", check: "cancel", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			for c, err := range b.Synthesizer.Speak(ctx, req, text) {
				if err != nil {
					err = errors.New("something went wrong")
				}
				if !yield(c, err) {
					return
				}
			}
		}},
		{name: "does not speak until it has all", check: "cancel without text", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			b.Synthesizer.Speak(ctx, req, slices.Values(slices.Collect(text)))(yield)
		}},
		{name: "never the same", check: "same sound", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			if now := b.clock.Now(); now > 0 {
				text = ready("Well.", "We are open.", "Anything else?")
			}
			b.Synthesizer.Speak(ctx, req, text)(yield)
		}},
		{name: "works once", check: "twice", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			if b.busy.Swap(true) {
				yield(tts.Chunk{}, errors.New("closed"))
				return
			}
			b.Synthesizer.Speak(ctx, req, text)(yield)
		}},
		{name: "one at a time", check: "at once", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			if b.busy.Swap(true) {
				yield(tts.Chunk{}, errors.New("busy"))
				return
			}
			b.Synthesizer.Speak(ctx, req, text)(yield)
			b.busy.Store(false)
		}},
		{name: "silent about its failure", check: "failure", spoil: func(*broken, context.Context, tts.Request, iter.Seq[string], yieldFunc) {}},
		{name: "goes on after its error", check: "failure", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			_ = yield(tts.Chunk{}, errors.New("oh")) && yield(tts.Chunk{}, errors.New("oh"))
		}},
		{name: "panics", check: "order", spoil: func(*broken, context.Context, tts.Request, iter.Seq[string], yieldFunc) { panic("oh") }},
		{name: "waits for ever", check: "order", spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			clocks.NewQueue[int](b.clock, "nothing").Get(ctx)
		}},
		{name: "leaves a goroutine", check: "order", real: true, spoil: func(b *broken, ctx context.Context, req tts.Request, text iter.Seq[string], yield yieldFunc) {
			b.clock.Go("left over", func() { b.clock.Sleep(context.Background(), time.Hour) })
			b.Synthesizer.Speak(ctx, req, text)(yield)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			subject := Subject{
				New: func(_ testing.TB, clock clocks.Clock) tts.Synthesizer {
					return &broken{Synthesizer: ttssim.New(clock, 1, ttssim.Defaults()), clock: clock, spoil: c.spoil}
				},
				Repeats: true,
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
