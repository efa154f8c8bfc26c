// Package vadtest checks that a voice activity detector keeps the contract of
// pipeline.VAD, on a Virtual clock and on a Real one inside a testing/synctest
// bubble, and measures how well detectors do over recordings with known bounds.
package vadtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/trace"
)

// A VAD is what the suite examines: pipeline.VAD, which is above this package.
type VAD interface {
	Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error]
}

// A Subject is a detector, and what the suite may expect of it.
type Subject struct {
	// New returns a detector on c whose judgements cost nothing.
	New func(t testing.TB, c clocks.Clock) VAD

	// Utterance is what it hears: speech with a true end, and silence behind it
	// that lasts longer than the hangover.
	Utterance *audio.Utterance

	Stop      time.Duration // its hangover
	Tolerance time.Duration // how far from Utterance.End the last stop may place the end
	OnlyKnown bool          // it hears recordings only, no live caller
}

// Run checks s.
func Run(t *testing.T, s Subject) {
	for _, c := range []struct {
		name string
		run  func(s Subject, t testing.TB, ctx context.Context, clock clocks.Clock) error
	}{
		{"order", Subject.order}, {"leaves", Subject.leaves}, {"ends", Subject.ends}, {"breaks", Subject.breaks}, {"together", Subject.together},
	} {
		t.Run(c.name+"/virtual", func(t *testing.T) {
			err := clockstest.Virtual(func(ctx context.Context, clock clocks.Clock) error { return c.run(s, t, ctx, clock) })
			if err != nil {
				t.Error(err)
			}
		})
		t.Run(c.name+"/real", func(t *testing.T) {
			err := clockstest.Real(t, func(ctx context.Context, clock clocks.Clock) error { return c.run(s, t, ctx, clock) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("same", s.same)
	t.Run("cut off", s.cutOff)
	t.Run("rates", s.rates)
}

// hear returns all that v says of sp.
func hear(ctx context.Context, v VAD, sp audio.Speech) (all []audio.Activity, err error) {
	for a, err := range v.Listen(ctx, trace.ID{}, sp) {
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

// order: beginnings and stops take turns, none is told before it can be known,
// and the last one is a stop near the true end.
func (s Subject) order(t testing.TB, ctx context.Context, clock clocks.Clock) error {
	if err := clock.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	began := clock.Now()
	all, err := hear(ctx, s.New(t, clock), NewSpeech(clock, s.Utterance))
	if err != nil {
		return err
	}
	if len(all) == 0 || len(all)%2 != 0 {
		return fmt.Errorf("%d activities: there has to be a stop behind each beginning", len(all))
	}
	for i, a := range all {
		if a.Speech != (i%2 == 0) {
			return fmt.Errorf("activity %d is %+v: beginnings and stops take turns", i, a)
		}
		known := a.Offset
		if !a.Speech {
			known += s.Stop
			if a.Setting != "vad.stop="+s.Stop.String() {
				return fmt.Errorf("the stop %d is owned by %q", i, a.Setting)
			}
		}
		if a.At < began+known {
			return fmt.Errorf("activity %d is told %v after the beginning, and could be known after %v", i, a.At-began, known)
		}
		if late := a.At - began - known; late > 200*time.Millisecond {
			return fmt.Errorf("activity %d is told %v after it could be known", i, late)
		}
		if i > 0 && (a.Offset < all[i-1].Offset || a.At < all[i-1].At) {
			return fmt.Errorf("activity %d at %v comes after one at %v", i, a.Offset, all[i-1].Offset)
		}
	}
	if last := all[len(all)-1]; (last.Offset - s.Utterance.End).Abs() > s.Tolerance {
		return fmt.Errorf("the last stop is at %v, the true end at %v", last.Offset, s.Utterance.End)
	}
	return nil
}

// leaves: nothing goes on when the caller stops the iteration.
func (s Subject) leaves(t testing.TB, ctx context.Context, clock clocks.Clock) error {
	for range s.New(t, clock).Listen(ctx, trace.ID{}, NewSpeech(clock, s.Utterance)) {
		at := clock.Now()
		if at >= s.Utterance.End {
			return fmt.Errorf("the first activity comes at %v", at)
		}
		break
	}
	return nil
}

var errHangUp, errLine = errors.New("hang up"), errors.New("the line broke")

// ends: the cause of the context's end is yielded last, at once.
func (s Subject) ends(t testing.TB, ctx context.Context, clock clocks.Clock) error {
	ctx, cancel := clocks.WithCancel(ctx, clock)
	at := s.Utterance.Start + 10*time.Millisecond
	alarm := clock.At(at, func() { cancel(errHangUp) })
	defer alarm.Stop()
	_, err := hear(ctx, s.New(t, clock), NewSpeech(clock, s.Utterance))
	if !errors.Is(err, errHangUp) || clock.Now() != at {
		return fmt.Errorf("ended at %v with %v, told to at %v", clock.Now(), err, at)
	}
	return nil
}

// breaks: the line's error is yielded last.
func (s Subject) breaks(t testing.TB, ctx context.Context, clock clocks.Clock) error {
	sp := NewSpeech(clock, s.Utterance)
	sp.Break(s.Utterance.Start+10*time.Millisecond, errLine)
	if _, err := hear(ctx, s.New(t, clock), sp); !errors.Is(err, errLine) {
		return fmt.Errorf("the line broke, and the detector ended with %v", err)
	}
	return nil
}

// together: calls at the same time do not hear each other.
func (s Subject) together(t testing.TB, ctx context.Context, clock clocks.Clock) error {
	v := s.New(t, clock)
	alone, err := hear(ctx, v, NewSpeech(clock, s.Utterance))
	if err != nil {
		return err
	}
	g, ctx := clocks.NewGroup(ctx, clock)
	for i := range 3 {
		g.Go("call", func() error {
			if err := clock.Sleep(ctx, time.Duration(i)*170*time.Millisecond); err != nil {
				return err
			}
			all, err := hear(ctx, v, NewSpeech(clock, s.Utterance))
			if err != nil {
				return err
			}
			return equal(all, alone)
		})
	}
	return g.Wait()
}

// equal compares what is said of the sound, not when.
func equal(a, b []audio.Activity) error {
	same := len(a) == len(b)
	for i := range min(len(a), len(b)) {
		same = same && a[i].Speech == b[i].Speech && a[i].Offset == b[i].Offset
	}
	if !same {
		return fmt.Errorf("%+v and %+v", a, b)
	}
	return nil
}

// on returns what the detector says of sp, made by make, on a clock.
func (s Subject) on(t *testing.T, virtual bool, make func(clock clocks.Clock) audio.Speech) (all []audio.Activity) {
	t.Helper()
	f := func(ctx context.Context, clock clocks.Clock) (err error) {
		all, err = hear(ctx, s.New(t, clock), make(clock))
		return err
	}
	var err error
	if virtual {
		err = clockstest.Virtual(f)
	} else {
		err = clockstest.Real(t, f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same: both clocks, all cuts of the sound, and a live caller give the same
// activities; a frame may make them known later by its length.
func (s Subject) same(t *testing.T) {
	want := s.on(t, true, func(clock clocks.Clock) audio.Speech { return NewSpeech(clock, s.Utterance) })
	for _, frame := range []time.Duration{7 * time.Millisecond, 20 * time.Millisecond, 45 * time.Millisecond} {
		for _, live := range []bool{false, true} {
			if live && s.OnlyKnown {
				continue
			}
			got := s.on(t, false, func(clock clocks.Clock) audio.Speech {
				sp := NewSpeech(clock, s.Utterance)
				sp.frame, sp.live = frame, live
				return sp
			})
			if err := equal(got, want); err != nil {
				t.Errorf("frames of %v: %v", frame, err)
				continue
			}
			for i := range got {
				// A resampler gives in blocks: 10 ms of slack.
				if late := got[i].At - want[i].At; late < 0 || late > frame+10*time.Millisecond {
					t.Errorf("frames of %v: activity %d at %v, in virtual time at %v", frame, i, got[i].At, want[i].At)
				}
			}
		}
	}
}

// cutOff: a line that ends within the hangover is taken to go on in silence, and
// the stop is told when that has lasted long enough.
func (s Subject) cutOff(t *testing.T) {
	const frame = 20 * time.Millisecond
	u := *s.Utterance
	u.Sound.PCM = u.Sound.PCM[:audio.Samples((u.End/frame+2)*frame, u.Sound.Rate)]
	line := func(live bool) func(clock clocks.Clock) audio.Speech {
		return func(clock clocks.Clock) audio.Speech {
			sp := NewSpeech(clock, &u)
			sp.quiet, sp.live = 0, live
			return sp
		}
	}
	want := s.on(t, true, line(false))
	if n := len(want); n == 0 || want[n-1].Speech || want[n-1].At < want[n-1].Offset+s.Stop {
		t.Fatalf("%+v", want)
	}
	for _, live := range []bool{false, true} {
		if live && s.OnlyKnown {
			continue
		}
		got := s.on(t, false, line(live))
		last := len(want) - 1
		if err := equal(got, want); err != nil {
			t.Error(err)
		} else if late := got[last].At - want[last].At; late < 0 || late > frame {
			t.Errorf("the stop is told at %v, in virtual time at %v", got[last].At, want[last].At)
		}
	}
}

// rates: a line at another rate moves the activities a little at most.
func (s Subject) rates(t *testing.T) {
	const slack = 70 * time.Millisecond // two frames of the coarsest model
	want := s.on(t, true, func(clock clocks.Clock) audio.Speech { return NewSpeech(clock, s.Utterance) })
	for _, rate := range []int{24000, 48000} {
		u := *s.Utterance
		u.Sound = audio.Resample(u.Sound, rate)
		got := s.on(t, true, func(clock clocks.Clock) audio.Speech { return NewSpeech(clock, &u) })
		if len(got) == 0 || (got[len(got)-1].Offset-want[len(want)-1].Offset).Abs() > slack || (got[0].Offset-want[0].Offset).Abs() > slack {
			t.Errorf("at %d: %+v, at %d: %+v", rate, got, s.Utterance.Sound.Rate, want)
		}
	}
}
