package clocks

import (
	"context"
	"slices"
	"time"
)

// A scope is a context that can be cancelled, on a Virtual clock. It knows who
// waits with it, and what is to be called, so that a cancel wakes them and looks
// at nobody else.
//
// It is written out because a turn needs half a dozen of them, and one of package
// context that knows of its parent and its children takes six allocations. It has
// no lock: it ends, as all on its clock, one step at a time.
type scope struct {
	parent   context.Context // for its values and its deadline
	v        *Virtual
	up       *scope // nil: parent ends from outside the clock, or never
	children []*scope
	place    int // in up.children, or in v.tops
	parked   []*process
	space    struct { // for these: most have few
		children [2]*scope
		parked   [2]*process
	}
	endings []*Ending
	cause   error         // nil: it has not ended
	done    chan struct{} // nil: nobody has asked for it
}

type scopeKey struct{}

// Deadline is that of the parent.
func (s *scope) Deadline() (time.Time, bool) { return s.parent.Deadline() }

// Value returns the value of the parent, and the scope itself for scopeKey.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.parent.Value(key)
}

// Err returns the cause, so that context.Cause, which does not know this kind of
// context, finds it.
func (s *scope) Err() error { return s.cause }

// Done is for code that does not wait by the clock.
func (s *scope) Done() <-chan struct{} {
	if s.done == nil {
		s.done = make(chan struct{})
		if s.cause != nil {
			close(s.done)
		}
	}
	return s.done
}

// scopeOf returns the scope that ctx ends with, or nil if it never ends.
func scopeOf(ctx context.Context) *scope {
	if s, ok := ctx.(*scope); ok {
		return s
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	if s == nil || ctx.Done() == nil { // of context.WithoutCancel, the scope is not its own
		return nil
	}
	return s
}

// cancel ends the scope, and those below it.
func (s *scope) cancel(cause error) {
	if s.cause != nil {
		return
	}
	if cause == nil {
		cause = context.Canceled
	}
	siblings := &s.v.tops
	if s.up != nil {
		siblings = &s.up.children
	}
	last := (*siblings)[len(*siblings)-1]
	(*siblings)[s.place], last.place = last, s.place
	(*siblings)[len(*siblings)-1] = nil
	*siblings = (*siblings)[:len(*siblings)-1]
	s.end(cause)
}

func (s *scope) end(cause error) {
	s.cause = cause
	if s.done != nil {
		close(s.done)
	}
	for len(s.parked) > 0 {
		s.v.makeReady(s.parked[0])
	}
	children, endings := s.children, s.endings
	s.children, s.endings = nil, nil
	for _, c := range children {
		c.end(cause)
	}
	room := s.v.room
	for _, e := range endings {
		if e.scope != nil { // it may have been stopped by one before it
			e.scope = nil
			s.v.room = e.room // whoever cancels may be outside
			e.f()
		}
	}
	s.v.room = room
}

// WithCancel is context.WithCancelCause for goroutines that wait on c. On a
// Virtual clock contexts have to be made by this package (or by
// context.WithValue), and cancelled by goroutines or callbacks of the clock; their
// Err is their cause.
func WithCancel(ctx context.Context, c Clock) (context.Context, context.CancelCauseFunc) {
	v, ok := c.(*Virtual)
	if !ok {
		return context.WithCancelCause(ctx)
	}
	s := &scope{parent: ctx, v: v, up: scopeOf(ctx)}
	s.children, s.parked = s.space.children[:0], s.space.parked[:0]
	if s.cause = context.Cause(ctx); s.cause == nil {
		siblings := &v.tops
		if s.up != nil {
			siblings = &s.up.children
		}
		s.place = len(*siblings)
		*siblings = append(*siblings, s)
	}
	return s, s.cancel
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
	e := &Ending{f: f, scope: scopeOf(ctx), room: v.room}
	if e.scope != nil {
		e.scope.endings = append(e.scope.endings, e)
	}
	return e
}

// An Ending is a call that OnEnd has arranged.
type Ending struct {
	f     func()
	scope *scope // of a Virtual clock, as long as it is to call f
	room  *room  // where that belongs
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
