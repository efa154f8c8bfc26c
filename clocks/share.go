package clocks

import (
	"context"
	"sync"
	"time"
)

// Share has items worked on by n workers at a time, each of which takes the next one
// when it is done with one. Worker i begins i/n of spread after the first, so that
// what they do at regular times does not fall together. begin makes a worker: what
// it does with an item, and what ends it. Each result is passed to keep, one after
// the other. The error is keep's, or the cause of ctx.
func Share[T, R any](ctx context.Context, c Clock, n int, spread time.Duration, items []T,
	begin func(ctx context.Context) (work func(T) R, end func()), keep func(R) error) error {
	queue := NewQueue[T](c, "an item")
	for _, x := range items {
		queue.Put(x)
	}
	queue.Close()
	g, ctx := NewGroup(ctx, c)
	began := c.Now()
	var one sync.Mutex
	for i := range n {
		g.Go("a worker", func() error {
			if err := c.SleepUntil(ctx, began+spread*time.Duration(i)/time.Duration(n)); err != nil {
				return err
			}
			work, end := begin(ctx)
			defer end()
			for x := range queue.All(ctx) {
				if ctx.Err() != nil { // what is in the queue comes all the same
					break
				}
				r := work(x)
				one.Lock()
				err := keep(r)
				one.Unlock()
				if err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return g.Wait()
}
