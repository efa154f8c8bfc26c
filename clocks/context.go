package clocks

import (
	"context"
	"slices"
	"time"
)

// A scope is a context that can be cancelled, on a Virtual clock. It knows who
// waits with it, and what is to be called, so that a cancel wakes them and looks
// at nobody else.
type scope struct {
	context.Context
	v        *Virtual
	cancel   context.CancelCauseFunc
	up       *scope
	children []*scope
	place    int // in up.children
	parked   []*process
	endings  []*Ending
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
	children, endings := s.children, s.endings
	s.children, s.endings = nil, nil
	for _, c := range children {
		c.up = nil
	}
	for _, c := range children {
		c.wake()
	}
	for _, e := range endings {
		if e.scope != nil { // it may have been stopped by one before it
			e.scope = nil
			e.f()
		}
	}
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

// OnEnd calls f once ctx ends, unless the Ending is stopped before: it is
// context.AfterFunc for code that runs on c. Where a goroutine would do nothing
// but wait for the end of ctx, this costs a small part of one.
//
// f must not wait. On a Virtual clock the goroutine or callback that cancels ctx
// calls it, before the cancel returns, so what that holds locked f must not lock;
// only the ends count that WithCancel knows of. On a Real clock f runs in a
// goroutine of its own, so it locks what it shares. If ctx has ended already, f
// is called on both like a callback that is due now, and not by OnEnd itself.
func OnEnd(ctx context.Context, c Clock, f func()) *Ending {
	v, ok := c.(*Virtual)
	if !ok {
		return &Ending{real: context.AfterFunc(ctx, f)}
	}
	if ctx.Err() != nil {
		return &Ending{alarm: v.At(v.now, f)}
	}
	e := &Ending{f: f, scope: scopeOf(ctx)}
	if e.scope != nil {
		e.scope.endings = append(e.scope.endings, e)
	}
	return e
}

// An Ending is a call that OnEnd has arranged.
type Ending struct {
	f     func()
	scope *scope // of a Virtual clock, as long as it is to call f
	alarm Alarm  // of a Virtual clock, if ctx had ended before
	real  func() bool
}

// Stop drops the call if it has not begun. It may be called more than once.
func (e *Ending) Stop() {
	if e.real != nil {
		e.real()
	}
	e.alarm.Stop()
	if s := e.scope; s != nil {
		e.scope = nil
		if i := slices.Index(s.endings, e); i >= 0 {
			s.endings = slices.Delete(s.endings, i, i+1)
		}
	}
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
