package clocks

import (
	"math"
	"slices"
	"time"
)

// A room is a part of a Virtual clock whose goroutines and callbacks have nothing
// to do with those of other rooms, so that they need not run in one order with
// them: a room runs for a while, and then the next. With a thousand calls on one
// clock a turn takes a third of the time so, because what a call needs stays in
// the processor's cache.
type room struct {
	now    time.Duration
	from   origin // of the timer that is being served
	timers timerHeap
	ready  []*process // run queue, from head on
	head   int
	inside int // processes that have not ended
}

// An origin says when a timer was set, and when the timer that was being served
// then had been set, and so on: the latest first. Of two timers that are due at the
// same time, the one with the earlier origin is the one that was asked for first.
type origin [8]time.Duration

// then returns the origin of a timer that is set at the time now, while one with
// the origin o is being served.
func (o *origin) then(now time.Duration) (next origin) {
	next[0] = now
	copy(next[1:], o[:])
	return next
}

// Lead is how far one room may be ahead of another. A model that serves goroutines
// of several rooms must not take it for news what lies less than that in the past.
const Lead = 20 * time.Second

// GoApart is Clock.Go for a goroutine that shares nothing with those outside: no
// Queue, no model in which one has to wait for another. Only its end may be
// waited for, with a Group, and who does may learn of it up to Lead late. What it
// puts into an Outbox comes out in order of time. What it starts belongs to it.
//
// On a Virtual clock such goroutines are up to Lead apart in time, and so many of
// them are simulated faster than with Go. On a Real clock it is the same as Go.
func GoApart(c Clock, name string, f func()) {
	v, ok := c.(*Virtual)
	if !ok {
		c.Go(name, f)
		return
	}
	outside := v.room
	v.room = &room{now: outside.now, from: outside.from}
	v.rooms = append(v.rooms, v.room)
	v.until = min(v.until, outside.now+Lead)
	v.Go(name, f)
	v.room = outside
}

// next returns when the room r goes on, or later than never if it does not.
func (v *Virtual) next(r *room) time.Duration {
	if r.head < len(r.ready) {
		return r.now
	}
	for len(r.timers) > 0 {
		t := r.timers[0]
		if t.to.seq == t.seq {
			return t.at
		}
		r.timers.popBefore(math.MaxInt64)
		v.recycle(t.to)
	}
	return math.MaxInt64
}

// begin sets how far the rooms may go next, and returns when the first of them
// goes on.
func (v *Virtual) begin() time.Duration {
	first := time.Duration(math.MaxInt64)
	for _, r := range v.rooms {
		first = min(first, v.next(r))
	}
	v.until = never
	if len(v.rooms) > 1 && first < never-Lead {
		v.until = first + Lead
	}
	return first
}

// latest returns how far the rooms have come.
func (v *Virtual) latest() time.Duration {
	t := v.now
	for _, r := range v.rooms {
		t = max(t, r.now)
	}
	return t
}

// settle ends a round of all rooms: those in which nothing is left are closed.
func (v *Virtual) settle() {
	v.room = v.rooms[0]
	if len(v.rooms) > 1 {
		v.rooms = slices.DeleteFunc(v.rooms, func(r *room) bool { return r != v.room && r.inside == 0 && v.next(r) == math.MaxInt64 })
	}
	for _, o := range v.outboxes {
		o.flush()
	}
}

// leaveRooms leaves the first room alone.
func (v *Virtual) leaveRooms() {
	v.settle()
	clear(v.rooms[1:])
	v.rooms = v.rooms[:1]
	v.inside = 0
}
