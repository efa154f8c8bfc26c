package clocks

import (
	"context"
	"iter"
	"time"
)

// Ticks yields a time every d, the first after d, until ctx ends. The times are
// exact multiples of d after the start, so that lateness does not add up.
func Ticks(ctx context.Context, c Clock, d time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for next := c.Now() + d; ; next += d {
			if c.SleepUntil(ctx, next) != nil || !yield(next) {
				return
			}
		}
	}
}
