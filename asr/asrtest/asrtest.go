// Package asrtest checks that a recognizer keeps the contract of package asr.
// Its suite runs on a Virtual clock and on a Real one inside a testing/synctest
// bubble, for models as for clients of a service (with a fake server inside the
// bubble).
package asrtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/trace"
)

// A Subject is what the suite examines, and what it may expect of it.
type Subject struct {
	// New returns a recognizer on c. It is called for each check, inside the
	// bubble; what it starts has to end when Close returns, if that is set.
	New   func(t testing.TB, c clocks.Clock) asr.Recognizer
	Close func(asr.Recognizer)

	// NewFailing returns one whose service fails each time. Nil: not checked.
	NewFailing func(t testing.TB, c clocks.Clock) asr.Recognizer

	OnlyReal  bool          // it waits for more than clocks: no Virtual clock
	Partials  bool          // it yields partials of the utterance of the suite
	Text      bool          // its Finals make up the text of the utterance, letter by letter
	Finalizes bool          // its last Final comes only after Request.Finalize has returned
	Bound     time.Duration // how soon it has to end when told to; 0: 100 ms

	// Utterance is what it hears. Nil: 2.2 s of tones with a pause, in silence,
	// which say "please tell me when you are open today".
	Utterance *audio.Utterance
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
	if s.Utterance == nil {
		s.Utterance = spoken()
	}
	b := &bench{Subject: s, ctx: ctx, clock: clock, make: s.New}
	if c.failing {
		if s.NewFailing == nil {
			return nil
		}
		b.make = s.NewFailing
	}
	b.r = b.make(t, clock)
	if s.Close != nil {
		defer s.Close(b.r)
	}
	return c.run(b)
}

// spoken is the utterance of the suite.
func spoken() *audio.Utterance {
	const rate = 16000
	u := &audio.Utterance{
		ID: "asrtest", Language: "en", Text: "please tell me when you are open today",
		Start: 200 * time.Millisecond, End: 2400 * time.Millisecond, Bounds: audio.BoundsAnnotated,
		Sound: audio.Frame{Rate: rate, PCM: make([]int16, 3*rate)},
	}
	for i := range u.Sound.PCM {
		at := audio.Span(i, rate)
		pause := at >= 1200*time.Millisecond && at < 1600*time.Millisecond
		if at >= u.Start && at < u.End && !pause {
			u.Sound.PCM[i] = int16(i%100-50) * 100 // a sawtooth of 160 Hz
		}
	}
	return u
}

// A Speech replays an utterance on a clock in frames of 20 ms, with no line in
// between: the sound up to an offset has arrived so long after the beginning.
type Speech struct {
	clock  clocks.Clock
	u      *audio.Utterance
	began  time.Duration
	broken time.Duration
	err    error
}

// NewSpeech returns a Speech of u that begins now.
func NewSpeech(c clocks.Clock, u *audio.Utterance) *Speech {
	return &Speech{clock: c, u: u, began: c.Now(), broken: 1<<63 - 1}
}

// Break makes the line break once it has carried offset: Frames and Await then
// return err. It is called before the Speech is used.
func (s *Speech) Break(offset time.Duration, err error) { s.broken, s.err = offset, err }

// Utterance implements audio.Speech.
func (s *Speech) Utterance() *audio.Utterance { return s.u }

// Await implements audio.Speech.
func (s *Speech) Await(ctx context.Context, offset time.Duration) (time.Duration, error) {
	if offset > s.broken {
		if err := s.clock.SleepUntil(ctx, s.began+s.broken); err != nil {
			return 0, err
		}
		return 0, s.err
	}
	at := s.began + offset
	if at <= s.clock.Now() && ctx.Err() == nil {
		return at, nil
	}
	return at, s.clock.SleepUntil(ctx, at)
}

// Frames implements audio.Speech.
func (s *Speech) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		const step = 20 * time.Millisecond
		rate, pcm := s.u.Sound.Rate, s.u.Sound.PCM
		for at := step; at < s.u.Sound.Duration()+step; at += step {
			if _, err := s.Await(ctx, at); err != nil {
				yield(audio.Frame{}, err)
				return
			}
			from, to := audio.Samples(at-step, rate), min(audio.Samples(at, rate), len(pcm))
			if !yield(audio.Frame{Rate: rate, PCM: pcm[from:to]}, nil) {
				return
			}
		}
	}
}

// bench is one check at work.
type bench struct {
	Subject
	ctx   context.Context
	clock clocks.Clock
	make  func(testing.TB, clocks.Clock) asr.Recognizer
	r     asr.Recognizer
}

// heard is what a recognizer said.
type heard struct {
	results []asr.Result
	err     error
	ended   time.Duration // when the iteration returned
}

// listen reads results until stop says so, and checks what holds for all.
func (b *bench) listen(ctx context.Context, id trace.ID, speech audio.Speech, change func(*asr.Request), stop func(asr.Result) bool) (heard, error) {
	req := asr.Request{ID: id, RequestID: fmt.Sprintf("asrtest-%d-%d", id.Session, id.Turn), Attempt: 1, Language: b.Utterance.Language}
	if b.Finalizes {
		// The listener believes that the speech is over 200 ms after its end.
		over := b.clock.Now() + b.Utterance.End + 200*time.Millisecond
		req.Finalize = func(ctx context.Context) error { return b.clock.SleepUntil(ctx, over) }
	}
	if change != nil {
		change(&req)
	}
	began := b.clock.Now()
	last := began
	var h heard
	var wrong error
	fault := func(format string, args ...any) {
		if wrong == nil {
			wrong = fmt.Errorf(format, args...)
		}
	}
	over := false
	b.r.Recognize(ctx, req, speech)(func(r asr.Result, err error) bool {
		now := b.clock.Now()
		switch {
		case over:
			fault("it yields more after the iteration was stopped: %+v, %v", r, err)
			return false
		case h.err != nil:
			fault("it yields more after its error %q: %+v, %v", h.err, r, err)
			return false
		case err != nil:
			if r != (asr.Result{}) {
				fault("it yields a result with its error: %+v, %v", r, err)
			}
			h.err = err
			return true
		case r.At > now:
			fault("a result is of %v, but it is %v", r.At, now)
		case r.At < began:
			fault("a result is of %v, before the recognition began at %v", r.At, began)
		case r.At < last:
			fault("a result of %v comes after one of %v", r.At, last)
		case r.Kind != asr.Partial && r.Kind != asr.Final && r.Kind != asr.Endpoint:
			fault("a result has kind %d, which is none", r.Kind)
		case r.Kind == asr.Endpoint && r.Text != "":
			fault("an Endpoint has the text %q", r.Text)
		case r.Kind == asr.Partial && r.Text == "":
			fault("a Partial is empty")
		case r.Stability < 0 || r.Stability > 1:
			fault("a stability is %g", r.Stability)
		}
		last = r.At
		h.results = append(h.results, r)
		over = stop != nil && stop(r)
		return !over
	})
	h.ended = b.clock.Now()
	return h, wrong
}

// text returns what the Finals say together. Between English words is a space.
func (h heard) text() string {
	var parts []string
	for _, r := range h.results {
		if r.Kind == asr.Final && r.Text != "" {
			parts = append(parts, strings.TrimSpace(r.Text))
		}
	}
	return strings.Join(parts, " ")
}

// whole checks what holds for a recognition that was not disturbed.
func (b *bench) whole(h heard) error {
	last, partials := -1, 0
	for i, r := range h.results {
		switch r.Kind {
		case asr.Final:
			last = i
		case asr.Partial:
			partials++
		}
	}
	switch {
	case h.err != nil:
		return fmt.Errorf("it fails: %w", h.err)
	case last < 0:
		return errors.New("there is no Final")
	case b.Partials && partials == 0:
		return errors.New("there are no Partials")
	case b.Text && h.text() != b.Utterance.Text:
		return fmt.Errorf("the Finals say %q, but %q was said", h.text(), b.Utterance.Text)
	}
	for _, r := range h.results[last:] {
		if r.Kind == asr.Partial {
			return fmt.Errorf("a Partial, %q, comes after the last Final", r.Text)
		}
	}
	return nil
}

var errCancelled = errors.New("cancelled by the suite")

// afterCancel checks what holds once ctx has ended at the time at.
func (b *bench) afterCancel(h heard, at time.Duration) error {
	if h.err != nil && !errors.Is(h.err, errCancelled) {
		return fmt.Errorf("after the context ended it fails with %q, which is not the context's cause", h.err)
	}
	if late := h.ended - at; late > b.Bound {
		return fmt.Errorf("it returns %v after the context ended; %v are allowed", late, b.Bound)
	}
	for _, r := range h.results {
		if r.At > at {
			return fmt.Errorf("it tells of %+v, which arrived after the context had ended at %v", r, at)
		}
	}
	return nil
}

type check struct {
	name    string
	failing bool // it needs a recognizer whose service fails
	run     func(*bench) error
}

var checks = []check{
	{name: "order", run: (*bench).order},
	{name: "early stop", run: (*bench).early},
	{name: "ended before", run: (*bench).endedBefore},
	{name: "cancel", run: (*bench).cancel},
	{name: "twice", run: (*bench).twice},
	{name: "at once", run: (*bench).atOnce},
	{name: "broken line", run: (*bench).brokenLine},
	{name: "finalize", run: (*bench).finalize},
	{name: "failure", failing: true, run: (*bench).failure},
}

func (b *bench) order() error {
	h, err := b.listen(b.ctx, trace.ID{Session: 1, Turn: 1}, NewSpeech(b.clock, b.Utterance), nil, nil)
	if err != nil {
		return err
	}
	return b.whole(h)
}

// early stops after the first result, and after the first Final.
func (b *bench) early() error {
	for turn, final := range []bool{false, true} {
		var at time.Duration
		stop := func(r asr.Result) bool {
			at = b.clock.Now()
			return !final || r.Kind == asr.Final
		}
		h, err := b.listen(b.ctx, trace.ID{Session: 1, Turn: turn + 1}, NewSpeech(b.clock, b.Utterance), nil, stop)
		if err != nil {
			return err
		}
		if h.err != nil {
			return fmt.Errorf("it fails: %w", h.err)
		}
		if late := h.ended - at; late > b.Bound {
			return fmt.Errorf("it returns %v after it was stopped; %v are allowed", late, b.Bound)
		}
	}
	return nil
}

func (b *bench) endedBefore() error {
	ctx, cancel := clocks.WithCancel(b.ctx, b.clock)
	cancel(errCancelled)
	at := b.clock.Now()
	h, err := b.listen(ctx, trace.ID{Session: 1, Turn: 1}, NewSpeech(b.clock, b.Utterance), nil, nil)
	if err != nil {
		return err
	}
	if len(h.results) > 0 {
		return fmt.Errorf("it yields %+v although the context had ended", h.results[0])
	}
	return b.afterCancel(h, at)
}

// cancel ends the context before, in, and just after the speech, and between
// the last results.
func (b *bench) cancel() error {
	u := b.Utterance
	for i, after := range []time.Duration{
		0, u.Start / 2, (u.Start + u.End) / 2, u.End - time.Millisecond, u.End, u.End + time.Millisecond, u.End + 50*time.Millisecond,
		u.End + 160*time.Millisecond,
	} {
		ctx, cancel := clocks.WithCancel(b.ctx, b.clock)
		at := b.clock.Now() + after
		alarm := b.clock.At(at, func() { cancel(errCancelled) })
		finals := 0
		h, err := b.listen(ctx, trace.ID{Session: 1, Turn: i + 1}, NewSpeech(b.clock, u), nil, func(r asr.Result) bool {
			if r.Kind == asr.Final {
				finals++
			}
			return false
		})
		alarm.Stop()
		cancel(nil)
		if err != nil {
			return fmt.Errorf("cancel after %v: %w", after, err)
		}
		if h.ended < at && h.err == nil && finals > 0 {
			continue // it was done before
		}
		if err := b.afterCancel(h, at); err != nil {
			return fmt.Errorf("cancel after %v: %w", after, err)
		}
	}
	return nil
}

func (b *bench) twice() error {
	var texts [2]string
	for i := range texts {
		h, err := b.listen(b.ctx, trace.ID{Session: 1, Turn: 1}, NewSpeech(b.clock, b.Utterance), nil, nil)
		if err != nil {
			return fmt.Errorf("use %d: %w", i+1, err)
		}
		if err := b.whole(h); err != nil {
			return fmt.Errorf("use %d: %w", i+1, err)
		}
		texts[i] = h.text()
	}
	if b.Text && texts[0] != texts[1] {
		return fmt.Errorf("the same speech was %q first and %q then", texts[0], texts[1])
	}
	return nil
}

func (b *bench) atOnce() error {
	g, ctx := clocks.NewGroup(b.ctx, b.clock)
	for i := range 4 {
		g.Go("listen", func() error {
			h, err := b.listen(ctx, trace.ID{Session: 1 + i/2, Turn: 1 + i%2}, NewSpeech(b.clock, b.Utterance), nil, nil)
			if err != nil {
				return err
			}
			return b.whole(h)
		})
	}
	return g.Wait()
}

func (b *bench) brokenLine() error {
	line := errors.New("the line broke")
	speech := NewSpeech(b.clock, b.Utterance)
	at := (b.Utterance.Start + b.Utterance.End) / 2
	speech.Break(at, line)
	at += b.clock.Now()
	h, err := b.listen(b.ctx, trace.ID{Session: 1, Turn: 1}, speech, nil, nil)
	if err != nil {
		return err
	}
	if !errors.Is(h.err, line) {
		return fmt.Errorf("the line broke, and the recognizer's error is %v", h.err)
	}
	if late := h.ended - at; late > b.Bound {
		return fmt.Errorf("it returns %v after the line broke; %v are allowed", late, b.Bound)
	}
	return nil
}

func (b *bench) finalize() error {
	if !b.Finalizes {
		return nil
	}
	wait := b.Utterance.End + 700*time.Millisecond
	asked := b.clock.Now() + wait
	h, err := b.listen(b.ctx, trace.ID{Session: 1, Turn: 1}, NewSpeech(b.clock, b.Utterance), func(r *asr.Request) {
		r.Finalize = func(ctx context.Context) error { return b.clock.SleepUntil(ctx, asked) }
	}, nil)
	if err != nil {
		return err
	}
	if err := b.whole(h); err != nil {
		return err
	}
	for _, r := range h.results {
		if r.Kind == asr.Final && r.At < asked {
			return fmt.Errorf("a Final comes at %v, but it was asked for at %v", r.At, asked)
		}
	}
	refused := errors.New("the listener gave up")
	h, err = b.listen(b.ctx, trace.ID{Session: 1, Turn: 2}, NewSpeech(b.clock, b.Utterance), func(r *asr.Request) {
		r.Finalize = func(ctx context.Context) error { return refused }
	}, nil)
	if err != nil {
		return err
	}
	if !errors.Is(h.err, refused) {
		return fmt.Errorf("Finalize failed, and the recognizer's error is %v", h.err)
	}
	return nil
}

func (b *bench) failure() error {
	h, err := b.listen(b.ctx, trace.ID{Session: 1, Turn: 1}, NewSpeech(b.clock, b.Utterance), nil, nil)
	if err != nil {
		return err
	}
	switch {
	case h.err == nil:
		return errors.New("the service failed, and there is no error")
	case h.err.Error() == "":
		return errors.New("the error has no text")
	}
	return nil
}
