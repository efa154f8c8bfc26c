// Package ttstest checks that a synthesizer keeps the contract of package tts.
// Its suite runs on a Virtual clock and on a Real one inside a testing/synctest
// bubble, for models as for clients of a service (with a fake server inside the
// bubble).
package ttstest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/trace"
	"firstsound/tts"
)

// A Subject is what the suite examines, and what it may expect of it.
type Subject struct {
	// New returns a synthesizer on c that speaks English. It is called for each
	// check, inside the bubble; what it starts has to end when Close returns, if
	// that is set.
	New   func(t testing.TB, c clocks.Clock) tts.Synthesizer
	Close func(tts.Synthesizer)

	// NewFailing returns one whose service fails each time. Nil: not checked.
	NewFailing func(t testing.TB, c clocks.Clock) tts.Synthesizer

	OnlyReal bool          // it waits for more than clocks: no Virtual clock
	Repeats  bool          // a new one speaks the same text in the same sound
	Words    bool          // it tells when the words begin
	Bound    time.Duration // how soon it has to end when told to; 0: 100 ms
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
	if c.failing {
		if b.make = s.NewFailing; b.make == nil {
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
	make  func(testing.TB, clocks.Clock) tts.Synthesizer
	s     tts.Synthesizer
}

// renew takes a new synthesizer.
func (b *bench) renew() {
	b.close()
	b.s = b.make(b.t, b.clock)
}

func (b *bench) close() {
	if b.s != nil && b.Close != nil {
		b.Close(b.s)
	}
	b.s = nil
}

// pieces are what the suite has spoken.
var pieces = []string{"Sure!", "We are open from ten until six today.", "Is there anything else that I can do for you?"}

// ready yields texts that are there from the beginning.
func ready(texts ...string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range texts {
			if !yield(t) {
				return
			}
		}
	}
}

// A speech is what a synthesizer said.
type speech struct {
	began  time.Duration
	chunks []tts.Chunk
	err    error
	ended  time.Duration // when the iteration returned
}

var first = trace.ID{Session: 1, Turn: 1}

// listen reads chunks until stop says so, and checks what holds for all.
func (b *bench) listen(ctx context.Context, id trace.ID, text iter.Seq[string], stop func(tts.Chunk) bool) (speech, error) {
	req := tts.Request{ID: id, RequestID: fmt.Sprintf("ttstest-%d-%d", id.Session, id.Turn), Attempt: 1, Language: "en"}
	s := speech{began: b.clock.Now()}
	last := s.began
	var wrong error
	fault := func(format string, args ...any) {
		if wrong == nil {
			wrong = fmt.Errorf(format, args...)
		}
	}
	over, rate := false, 0
	b.s.Speak(ctx, req, text)(func(c tts.Chunk, err error) bool {
		now := b.clock.Now()
		sound := len(c.Sound.PCM)
		switch {
		case over:
			fault("it yields more after the iteration was stopped: %s, %v", show(c), err)
			return false
		case s.err != nil:
			fault("it yields more after its error %q: %s, %v", s.err, show(c), err)
			return false
		case err != nil:
			if c.At != 0 || c.Connected || c.Last || sound > 0 {
				fault("it yields a chunk with its error: %s, %v", show(c), err)
			}
			s.err = err
			return true
		case c.At > now:
			fault("a chunk is of %v, but it is %v", c.At, now)
		case c.At < s.began:
			fault("a chunk is of %v, before the request at %v", c.At, s.began)
		case c.At < last:
			fault("a chunk of %v comes after one of %v", c.At, last)
		case c.Connected && len(s.chunks) > 0:
			fault("Connected is not the first chunk")
		case c.Connected && (sound > 0 || c.Last):
			fault("there is sound with Connected: %s", show(c))
		case !c.Connected && !c.Last && sound == 0:
			fault("a chunk has nothing in it: %s", show(c))
		case sound > 0 && audio.CheckRate(c.Sound.Rate) != nil:
			fault("%w", audio.CheckRate(c.Sound.Rate))
		case sound > 0 && rate != 0 && c.Sound.Rate != rate:
			fault("a chunk is at %d samples a second after one at %d", c.Sound.Rate, rate)
		}
		for _, w := range c.Words {
			if w.Start < 0 || w.Start > c.Sound.Duration() {
				fault("the word %q begins at %v of a chunk of %v", w.Text, w.Start, c.Sound.Duration())
			}
		}
		if sound > 0 {
			rate = c.Sound.Rate
		}
		last = c.At
		s.chunks = append(s.chunks, c)
		over = stop != nil && stop(c)
		return !over
	})
	s.ended = b.clock.Now()
	return s, wrong
}

func show(c tts.Chunk) string {
	return fmt.Sprintf("{at %v, connected %v, %d samples, last %v}", c.At, c.Connected, len(c.Sound.PCM), c.Last)
}

// lasts returns how many pieces were spoken to their end.
func (s speech) lasts() (n int) {
	for _, c := range s.chunks {
		if c.Last {
			n++
		}
	}
	return n
}

// sound returns the samples of all chunks that had arrived by the time at.
func (s speech) sound(at time.Duration) (all audio.Frame) {
	for _, c := range s.chunks {
		if c.At <= at && len(c.Sound.PCM) > 0 {
			all.Rate = c.Sound.Rate
			all.PCM = append(all.PCM, c.Sound.PCM...)
		}
	}
	return all
}

const always = time.Duration(1<<63 - 1)

// whole checks what holds for n pieces that were not disturbed.
func (b *bench) whole(s speech, n int) error {
	words := 0
	for _, c := range s.chunks {
		words += len(c.Words)
	}
	switch {
	case s.err != nil:
		return fmt.Errorf("it fails: %w", s.err)
	case s.lasts() != n:
		return fmt.Errorf("%d chunks are the last of their piece, of %d pieces", s.lasts(), n)
	case !s.chunks[len(s.chunks)-1].Last:
		return errors.New("the last chunk does not say that it is")
	case b.Words && words == 0:
		return errors.New("there are no words")
	}
	sound := s.sound(always)
	if len(sound.PCM) == 0 {
		return errors.New("there is no sound")
	}
	_, found, err := audio.FirstAudible(sound)
	if err == nil && !found {
		err = fmt.Errorf("nothing can be heard in %v of sound", sound.Duration())
	}
	return err
}

func (b *bench) speak(id trace.ID) (speech, error) {
	s, err := b.listen(b.ctx, id, ready(pieces...), nil)
	if err == nil {
		err = b.whole(s, len(pieces))
	}
	return s, err
}

var errCancelled = errors.New("cancelled by the suite")

// cancelled speaks, and ends the context some time after that.
func (b *bench) cancelled(after time.Duration, text func(context.Context) iter.Seq[string], n int) (speech, error) {
	ctx, cancel := clocks.WithCancel(b.ctx, b.clock)
	defer cancel(nil)
	at := b.clock.Now() + after
	alarm := b.clock.At(at, func() { cancel(errCancelled) })
	defer alarm.Stop()
	if after == 0 {
		cancel(errCancelled)
	}
	s, err := b.listen(ctx, first, text(ctx), nil)
	if err != nil {
		return s, err
	}
	if s.err == nil && s.lasts() == n && s.ended <= at {
		return s, nil // it was done before
	}
	if s.err != nil && !errors.Is(s.err, errCancelled) {
		return s, fmt.Errorf("after the context ended it fails with %q, which is not the context's cause", s.err)
	}
	if late := s.ended - at; late > b.Bound {
		return s, fmt.Errorf("it returns %v after the context ended; %v are allowed", late, b.Bound)
	}
	for _, c := range s.chunks {
		if c.At > at {
			return s, fmt.Errorf("it tells of %s, which arrived after the context had ended at %v", show(c), at)
		}
	}
	return s, nil
}

type check struct {
	name    string
	failing bool // it needs a synthesizer whose service fails
	run     func(*bench) error
}

var checks = []check{
	{name: "order", run: func(b *bench) error { _, err := b.speak(first); return err }},
	{name: "no text", run: (*bench).noText},
	{name: "flush", run: (*bench).flush},
	{name: "early stop", run: (*bench).early},
	{name: "ended before", run: (*bench).endedBefore},
	{name: "cancel", run: (*bench).cancel},
	{name: "cancel without text", run: (*bench).cancelWaiting},
	{name: "same sound", run: (*bench).same},
	{name: "twice", run: (*bench).twice},
	{name: "at once", run: (*bench).atOnce},
	{name: "failure", failing: true, run: (*bench).failure},
}

func (b *bench) noText() error {
	s, err := b.listen(b.ctx, first, ready(), nil)
	switch {
	case err != nil:
		return err
	case s.err != nil:
		return fmt.Errorf("it fails: %w", s.err)
	case len(s.sound(always).PCM) > 0 || s.lasts() > 0:
		return errors.New("it speaks without a text")
	}
	return nil
}

// flush hands over each piece 100 ms after the one before has been spoken to its
// end: who waits for more text never gets it.
func (b *bench) flush() error {
	const patience = time.Minute
	spoken := clocks.NewQueue[time.Duration](b.clock, "the end of a piece")
	handed := make([]time.Duration, 0, len(pieces))
	stuck := -1
	text := func(yield func(string) bool) {
		for i, p := range pieces {
			if i > 0 {
				ctx, cancel := clocks.WithTimeout(b.ctx, b.clock, patience, errors.New("no patience"))
				at, ok := spoken.Get(ctx)
				cancel()
				if !ok {
					stuck = i
					return
				}
				b.clock.SleepUntil(b.ctx, at+100*time.Millisecond)
			}
			handed = append(handed, b.clock.Now())
			if !yield(p) {
				return
			}
		}
	}
	piece := 0
	var early error
	s, err := b.listen(b.ctx, first, text, func(c tts.Chunk) bool {
		if len(c.Sound.PCM) > 0 && early == nil && (piece >= len(handed) || c.At < handed[piece]) {
			early = fmt.Errorf("the sound of piece %d comes at %v, before its text", piece+1, c.At)
		}
		if c.Last {
			piece++
			spoken.Put(b.clock.Now())
		}
		return false
	})
	switch {
	case err != nil:
		return err
	case stuck > 0:
		return fmt.Errorf("piece %d is not spoken to its end within %v while it waits for piece %d", stuck, patience, stuck+1)
	case early != nil:
		return early
	}
	return b.whole(s, len(pieces))
}

// early stops after each of the chunks, and sees whether text is taken after.
func (b *bench) early() error {
	for n := 1; n <= 40; n++ {
		b.renew()
		var at time.Duration
		var seen atomic.Int64 // the text may be taken by another goroutine
		var after atomic.Bool
		text := func(yield func(string) bool) {
			for _, p := range pieces {
				if seen.Load() >= int64(n) {
					after.Store(true)
				}
				if !yield(p) {
					return
				}
			}
		}
		s, err := b.listen(b.ctx, first, text, func(tts.Chunk) bool {
			at = b.clock.Now()
			return seen.Add(1) == int64(n)
		})
		switch {
		case err != nil:
			return fmt.Errorf("stopped at chunk %d: %w", n, err)
		case s.err != nil:
			return fmt.Errorf("stopped at chunk %d: it fails: %w", n, s.err)
		case seen.Load() < int64(n):
			return nil
		case s.ended-at > b.Bound:
			return fmt.Errorf("it returns %v after it was stopped at chunk %d; %v are allowed", s.ended-at, n, b.Bound)
		case after.Load():
			return fmt.Errorf("it takes more text after it was stopped at chunk %d", n)
		}
	}
	return nil
}

func fixed(texts ...string) func(context.Context) iter.Seq[string] {
	return func(context.Context) iter.Seq[string] { return ready(texts...) }
}

func (b *bench) endedBefore() error {
	s, err := b.cancelled(0, fixed(pieces...), len(pieces))
	if err == nil && len(s.chunks) > 0 {
		err = fmt.Errorf("it yields %s although the context had ended", show(s.chunks[0]))
	}
	return err
}

// cancel ends the context at several times from the request to the last chunk.
func (b *bench) cancel() error {
	s, err := b.speak(first)
	if err != nil {
		return err
	}
	whole := s.ended - s.began
	for i := 1; i < 10; i++ {
		b.renew()
		after := whole * time.Duration(i) / 10
		if _, err := b.cancelled(after, fixed(pieces...), len(pieces)); err != nil {
			return fmt.Errorf("cancel after %v: %w", after, err)
		}
	}
	return nil
}

// cancelWaiting ends the context while the synthesizer waits for text.
func (b *bench) cancelWaiting() error {
	queue := clocks.NewQueue[string](b.clock, "text")
	queue.Put(pieces[0])
	s, err := b.cancelled(time.Minute, queue.All, -1)
	if err == nil && s.lasts() != 1 {
		err = fmt.Errorf("%d pieces are spoken, of 1 that there was", s.lasts())
	}
	return err
}

func (b *bench) same() error {
	if !b.Repeats {
		return nil
	}
	s, err := b.speak(first)
	if err != nil {
		return err
	}
	b.renew()
	u, err := b.speak(first)
	if err != nil {
		return err
	}
	x, y := s.sound(always), u.sound(always)
	if x.Rate != y.Rate || len(x.PCM) != len(y.PCM) {
		return fmt.Errorf("the same text makes %v of sound first and %v then", x.Duration(), y.Duration())
	}
	for i := range x.PCM {
		if x.PCM[i] != y.PCM[i] {
			return fmt.Errorf("the same text makes another sound from sample %d on", i)
		}
	}
	return nil
}

func (b *bench) twice() error {
	for i := range 2 {
		if _, err := b.speak(trace.ID{Session: 1, Turn: i + 1}); err != nil {
			return fmt.Errorf("use %d: %w", i+1, err)
		}
	}
	return nil
}

func (b *bench) atOnce() error {
	g, ctx := clocks.NewGroup(b.ctx, b.clock)
	for i := range 4 {
		g.Go("speak", func() error {
			s, err := b.listen(ctx, trace.ID{Session: 1 + i/2, Turn: 1 + i%2}, ready(pieces...), nil)
			if err != nil {
				return err
			}
			return b.whole(s, len(pieces))
		})
	}
	return g.Wait()
}

func (b *bench) failure() error {
	s, err := b.listen(b.ctx, first, ready(pieces...), nil)
	if err != nil {
		return err
	}
	if s.err == nil {
		return errors.New("the service failed, and there is no error")
	}
	if s.err.Error() == "" {
		return errors.New("the error has no text")
	}
	return nil
}
