package clocks

import (
	"context"
	"time"
)

// A scope is a context that can be cancelled, on a Virtual clock. It knows who
// waits with it, so that a cancel wakes them and looks at nobody else.
type scope struct {
	context.Context
	v        *Virtual
	cancel   context.CancelCauseFunc
	up       *scope
	children []*scope
	place    int // in up.children
	parked   []*process
	ended    bool
}

type scopeKey struct{}

func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// scopeOf returns the scope that ctx ends with, or nil if it never ends.
func scopeOf(ctx context.Context) *scope {
	if ctx.Done() == nil { // of context.WithoutCancel, the scope is not its own
		return nil
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

func (s *scope) end(cause error) {
	if s.ended {
		return
	}
	s.cancel(cause)
	if s.up != nil {
		last := s.up.children[len(s.up.children)-1]
		s.up.children[s.place], last.place = last, s.place
		s.up.children = s.up.children[:len(s.up.children)-1]
	}
	s.wake()
}

func (s *scope) wake() {
	s.ended = true
	for len(s.parked) > 0 {
		s.v.makeReady(s.parked[0])
	}
	for _, c := range s.children {
		c.up = nil
		c.wake()
	}
	s.children = nil
}

// WithCancel is context.WithCancelCause for goroutines that wait on c. On a
// Virtual clock contexts have to be made by this package (or by
// context.WithValue), and cancelled by goroutines or callbacks of the clock.
func WithCancel(ctx context.Context, c Clock) (context.Context, context.CancelCauseFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	v, ok := c.(*Virtual)
	if !ok {
		return inner, cancel
	}
	s := &scope{Context: inner, v: v, cancel: cancel, up: scopeOf(ctx)}
	if s.up != nil {
		if s.up.ended {
			s.up, s.ended = nil, true
		} else {
			s.place = len(s.up.children)
			s.up.children = append(s.up.children, s)
		}
	}
	return s, s.end
}

// WithTimeout is context.WithTimeoutCause by the clock c.
func WithTimeout(ctx context.Context, c Clock, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := WithCancel(ctx, c)
	alarm := c.At(c.Now()+d, func() { cancel(cause) })
	return ctx, func() {
		alarm.Stop()
		cancel(context.Canceled)
	}
}
