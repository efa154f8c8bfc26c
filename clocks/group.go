package clocks

import (
	"context"
	"sync"
)

// A Group runs goroutines that belong together. The first error ends them all.
type Group struct {
	clock  Clock
	ctx    context.Context
	cancel context.CancelCauseFunc
	w      waiter
	space  virtualWaiter // for w
	mu     sync.Mutex
	n      int
	err    error
}

// NewGroup returns a Group, and the context that its goroutines should use.
// Wait has to be called, or the context stays with its parent.
func NewGroup(ctx context.Context, c Clock) (*Group, context.Context) {
	ctx, cancel := WithCancel(ctx, c)
	g := &Group{clock: c, ctx: ctx, cancel: cancel}
	g.w = c.newWaiter("the goroutines of its group", &g.space)
	return g, ctx
}

// Go runs f in a goroutine of the group. The name is for messages.
func (g *Group) Go(name string, f func() error) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	g.clock.Go(name, func() { g.ended(f()) })
}

// GoApart is Go by way of the function GoApart.
func (g *Group) GoApart(name string, f func() error) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	GoApart(g.clock, name, func() { g.ended(f()) })
}

func (g *Group) ended(err error) {
	g.mu.Lock()
	g.n--
	first := err != nil && g.err == nil
	if first {
		g.err = err
	}
	g.mu.Unlock()
	if first {
		g.cancel(err)
	}
	g.w.wake()
}

// Cancel ends the context of the goroutines. It is not an error of the group.
func (g *Group) Cancel(cause error) { g.cancel(cause) }

// Wait waits until all goroutines have ended and returns the first error.
func (g *Group) Wait() error {
	for {
		g.mu.Lock()
		n, err := g.n, g.err
		g.mu.Unlock()
		if n == 0 {
			g.cancel(context.Canceled)
			return err
		}
		// Whoever ends, ends by itself or because the context tells it to: the
		// wait itself must not end before.
		g.w.wait(context.Background())
	}
}
