// Package clocks lets the same code run on the computer's clock and on a
// virtual one that jumps from event to event.
//
// Code that keeps to this package for everything that waits (Sleep, Go, At,
// Queue, Group, WithTimeout) runs unchanged on both. On a [Virtual] clock it
// also runs in the same order every time. Goroutines that have nothing to do with
// each other run there much faster if they say so: see [GoApart].
//
// A moment is a time.Duration: integer nanoseconds since the clock began. There
// is no wall clock in it, so a step of the computer's date moves nothing.
package clocks

import (
	"context"
	"time"
)

// A Clock tells the time, waits, and starts goroutines that may wait.
//
// It is implemented by [Real] and [Virtual] only.
type Clock interface {
	// Now returns the time since the clock began.
	Now() time.Duration

	// Sleep waits for d, or until ctx ends, and then returns its cause. A d
	// that is not positive lets others who are due now go first.
	Sleep(ctx context.Context, d time.Duration) error

	// SleepUntil waits until the clock shows t, or until ctx ends, and then
	// returns its cause. Pace with it: the lateness of one wait does not add
	// to the next.
	SleepUntil(ctx context.Context, t time.Duration) error

	// Go runs f in a goroutine of its own. The name is for messages. On a
	// Virtual clock f may wait through this package only.
	Go(name string, f func())

	// At calls f once the clock shows t, unless the Alarm is stopped before. f
	// must not wait: it is for models that need no control flow of their own. On
	// a Real clock it runs in a goroutine of its own, so it locks what it shares.
	At(t time.Duration, f func()) Alarm

	// newWaiter returns what Queue and Group wait with: space, on a Virtual clock.
	// The name is for messages.
	newWaiter(name string, space *virtualWaiter) waiter
}

// An Alarm is a call that At has arranged. The zero Alarm was never set.
type Alarm struct {
	virtual *target
	seq     uint64 // of virtual, which may have been used again since
	real    *time.Timer
	bell    *bell // of real; nil: none
}

// Stop drops the call if it has not begun. It may be called more than once.
func (a Alarm) Stop() {
	if a.virtual != nil && a.virtual.seq == a.seq {
		a.virtual.seq, a.virtual.f = 0, nil
	}
	if a.real != nil && a.real.Stop() {
		a.bell.rest()
	}
}

// A waiter parks one goroutine at a time until it is woken. A wake that comes
// while nobody waits is kept for the next wait.
type waiter interface {
	wait(ctx context.Context) error
	wake()
}
