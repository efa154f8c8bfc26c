package clocks

import (
	"context"
	"sync"
	"time"
)

// Real is the computer's monotonic clock. It begins when NewReal is called.
type Real struct {
	began time.Time
	bells bells

	mu   sync.Mutex
	late []time.Duration
	n    int
}

// NewReal returns a clock that shows 0 now.
func NewReal() *Real { return &Real{began: time.Now()} }

// Now returns the time since the clock began.
func (r *Real) Now() time.Duration { return time.Since(r.began) }

// Epoch returns what the wall clock showed when the clock was at 0: for people and
// for other programs on this machine, not for durations.
func (r *Real) Epoch() time.Time { return r.began }

// Go runs f in a goroutine.
func (r *Real) Go(_ string, f func()) { go f() }

// Sleep waits for d, or until ctx ends.
func (r *Real) Sleep(ctx context.Context, d time.Duration) error {
	return r.SleepUntil(ctx, r.Now()+d)
}

// SleepUntil waits until t, or until ctx ends.
func (r *Real) SleepUntil(ctx context.Context, t time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d := t - r.Now()
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	defer r.bells.ring(d).rest()
	select {
	case <-timer.C:
		r.woke(r.Now() - t)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// At calls f in a goroutine of its own at t.
func (r *Real) At(t time.Duration, f func()) Alarm {
	d := t - r.Now()
	b := r.bells.ring(d)
	return Alarm{real: time.AfterFunc(d, func() {
		r.woke(r.Now() - t)
		b.rest()
		f()
	}), bell: b}
}

// keepLate is how many waits Lateness remembers; with more, the oldest go.
const keepLate = 1 << 16

func (r *Real) woke(late time.Duration) {
	r.mu.Lock()
	if len(r.late) < keepLate {
		r.late = append(r.late, late)
	} else {
		r.late[r.n%keepLate] = late
	}
	r.n++
	r.mu.Unlock()
}

// Lateness returns by how much the last waits (up to 65,536) ended later than
// they should have: what the computer's timers add to every figure of a run.
func (r *Real) Lateness() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Duration(nil), r.late...)
}

func (r *Real) newWaiter(string, *virtualWaiter) waiter { return make(realWaiter, 1) }

type realWaiter chan struct{}

func (w realWaiter) wake() {
	select {
	case w <- struct{}{}:
	default: // one is kept already
	}
}

func (w realWaiter) wait(ctx context.Context) error {
	select {
	case <-w:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
