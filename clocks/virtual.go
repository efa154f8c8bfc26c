package clocks

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// A Virtual clock runs its goroutines one at a time. When all of them wait, it
// jumps to the earliest time that one of them sleeps until. What is due at the
// same time runs in the order in which it was asked for.
//
// A Virtual belongs to the goroutine that calls Run.
type Virtual struct {
	*room                  // whose goroutines run now
	rooms    []*room       // all of them; the first one is there from the beginning
	until    time.Duration // no room goes so far before the others have
	outboxes []outbox
	seq      uint64
	events   uint64
	running  *process
	spare    []*target // of callbacks that are over
	told     bool      // the goroutines, that the context of Run has ended
	released bool
	tops     []*scope   // contexts that may end from outside the clock
	live     int        // processes that have not ended
	all      []*process // all there ever were: they are used again
	idle     []*process // ended ones
}

// NewVirtual returns a clock that stands at 0.
func NewVirtual() *Virtual {
	r := &room{}
	return &Virtual{room: r, rooms: []*room{r}, until: never}
}

// A target is what a timer wakes: a process, or a callback.
type target struct {
	seq uint64 // of the timer that counts; an older one in the heap is stale
	set origin // of that
	p   *process
	f   func()
}

// A process is a goroutine of a Virtual clock. It is a coroutine: making one
// costs more than running it, so an ended process waits for its next function.
type process struct {
	target
	room   *room
	name   string
	f      func()
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	queued bool // in ready

	// While it is parked:
	parked bool
	on     string // what it waits for
	ctx    context.Context
	scope  *scope // the part of ctx that wakes it
	place  int    // in scope.parked
}

// Now returns the virtual time.
func (v *Virtual) Now() time.Duration { return v.now }

// Events returns how many timers have fired: what the clock has done so far.
func (v *Virtual) Events() uint64 { return v.events }

// Go makes f ready to run. It runs once its turn comes in Run.
func (v *Virtual) Go(name string, f func()) {
	var p *process
	if n := len(v.idle); n > 0 {
		p, v.idle = v.idle[n-1], v.idle[:n-1]
	} else {
		p = v.newProcess()
	}
	p.name, p.f, p.room = name, f, v.room
	v.live++
	v.inside++
	v.makeReady(p)
}

func (v *Virtual) newProcess() *process {
	p := &process{}
	p.target.p = p
	p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		for {
			p.f()
			p.f = nil
			v.live--
			v.inside--
			v.rooms[0].now = max(v.rooms[0].now, v.now) // those outside may have waited for it
			v.idle = append(v.idle, p)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	v.all = append(v.all, p)
	return p
}

// never is the end of time, 292 years after the beginning: Run does not go there.
const never = time.Duration(math.MaxInt64 - 1)

// Sleep waits until the clock has moved on by d, or until ctx ends.
func (v *Virtual) Sleep(ctx context.Context, d time.Duration) error {
	t := v.now + d
	if d > 0 && t < v.now {
		t = never
	}
	return v.SleepUntil(ctx, t)
}

// SleepUntil waits until the clock shows t, or until ctx ends.
func (v *Virtual) SleepUntil(ctx context.Context, t time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := v.current()
	v.arm(&p.target, t)
	return v.park(p, ctx, "a timer")
}

// At calls f once the clock shows t.
func (v *Virtual) At(t time.Duration, f func()) Alarm {
	var a *target
	if n := len(v.spare); n > 0 {
		a, v.spare = v.spare[n-1], v.spare[:n-1]
	} else {
		a = new(target)
	}
	a.f = f
	v.arm(a, t)
	return Alarm{virtual: a, seq: a.seq}
}

func (v *Virtual) arm(a *target, t time.Duration) {
	v.seq++
	a.seq, a.set = v.seq, v.from.then(v.now)
	v.timers.push(timer{min(max(t, v.now), never), v.seq, a})
}

func (v *Virtual) current() *process {
	if v.released {
		panic(abandoned{}) // a deferred wait of a process that is being unwound
	}
	if v.running == nil {
		panic("clocks: a goroutine waits that Virtual.Go did not start")
	}
	return v.running
}

// park gives the turn back to Run until something makes p ready again.
func (v *Virtual) park(p *process, ctx context.Context, on string) error {
	p.parked, p.on, p.ctx = true, on, ctx
	p.scope = scopeOf(ctx)
	if p.scope != nil {
		p.place = len(p.scope.parked)
		p.scope.parked = append(p.scope.parked, p)
	}
	if !p.yield(struct{}{}) {
		// Run was given up with this process still waiting: unwind it.
		panic(abandoned{})
	}
	return context.Cause(ctx)
}

// abandoned unwinds a process that is left over when Run ends.
type abandoned struct{}

// makeReady queues p to run, and makes every other wake of it stale.
func (v *Virtual) makeReady(p *process) {
	if p.queued {
		return
	}
	p.queued = true
	p.parked, p.ctx = false, nil
	p.target.seq = 0
	if s := p.scope; s != nil {
		last := s.parked[len(s.parked)-1]
		s.parked[p.place], last.place = last, p.place
		s.parked = s.parked[:len(s.parked)-1]
		p.scope = nil
	}
	p.room.ready = append(p.room.ready, p)
}

// Run runs until every goroutine has ended. It returns the cause of ctx if that
// ended first: the goroutines that wait with it are then woken, so that they
// can end too. If goroutines are left that nothing can wake, the error names
// them and what they wait for. A panic of a goroutine is a panic of Run.
func (v *Virtual) Run(ctx context.Context) error {
	defer v.release()
	v.told = false
	for {
		first := v.begin()
		switch {
		case v.live == 0:
			return context.Cause(ctx)
		case !v.told && ctx.Err() != nil:
			v.told = true
			v.wakeEnded()
		case first > never:
			return v.stuck()
		case first == never:
			return fmt.Errorf("clocks: after %v all that is left to wait for is further away than the clock can count", v.now)
		}
		for i := 0; i < len(v.rooms); i++ { // some may be added
			v.room = v.rooms[i]
			v.runRoom(ctx)
		}
		v.settle()
	}
}

// runRoom runs what is due in the room before v.until. It stops early when no
// goroutine is left in any room, or ctx has ended.
func (v *Virtual) runRoom(ctx context.Context) {
	for n := 0; ; n++ {
		for v.head < len(v.ready) {
			p := v.ready[v.head]
			v.head++
			p.queued = false
			v.running = p
			p.resume()
		}
		v.ready, v.head, v.running = v.ready[:0], 0, nil
		if v.live == 0 || !v.told && n%64 == 0 && ctx.Err() != nil {
			return
		}
		t, ok := v.timers.popBefore(v.until)
		if !ok {
			return
		}
		a := t.to
		if a.seq != t.seq { // stopped, or its process was woken by something else
			v.recycle(a)
			continue
		}
		v.now, v.from = max(v.now, t.at), a.set // later, where those of other rooms have ended since
		v.events++
		if a.p != nil {
			v.makeReady(a.p)
			continue
		}
		f := a.f
		a.seq, a.f = 0, nil
		v.recycle(a)
		f()
		if v.told { // the clock stops soon, and not before what f has done
			v.rooms[0].now = max(v.rooms[0].now, v.now)
		}
	}
}

// recycle keeps the target of a callback for the next one. A callback has one
// timer in the heap, and that has just left it.
func (v *Virtual) recycle(a *target) {
	if a.p == nil {
		v.spare = append(v.spare, a)
	}
}

// wakeEnded wakes all whose context has ended from outside the clock.
func (v *Virtual) wakeEnded() {
	for _, s := range slices.Clone(v.tops) {
		if cause := context.Cause(s.parent); cause != nil {
			s.cancel(cause)
		}
	}
	for _, p := range v.all {
		if p.parked && p.ctx.Err() != nil {
			v.makeReady(p)
		}
	}
}

// release ends the coroutines, so that no goroutine outlives Run.
func (v *Virtual) release() {
	v.released = true
	for _, p := range v.all {
		p.end()
	}
	v.leaveRooms()
	v.all, v.idle, v.ready, v.head, v.live, v.running = nil, nil, nil, 0, 0, nil
	v.released = false
}

// end stops p's coroutine; what it was in the middle of is unwound.
func (p *process) end() {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(abandoned); !ok {
				panic(r)
			}
		}
	}()
	p.stop()
}

func (v *Virtual) stuck() error {
	counts := map[string]int{}
	for _, p := range v.all {
		if p.parked {
			counts[fmt.Sprintf("%s waits for %s", p.name, p.on)]++
		}
	}
	var lines []string
	for line, n := range counts {
		if n > 1 {
			line = fmt.Sprintf("%d × %s", n, line)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return fmt.Errorf("clocks: at %v nothing is left that could wake anybody: %s", v.latest(), strings.Join(lines, "; "))
}

func (v *Virtual) newWaiter(name string, space *virtualWaiter) waiter {
	*space = virtualWaiter{v: v, name: name}
	return space
}

type virtualWaiter struct {
	v    *Virtual
	name string
	p    *process // who waits, or nil
	kept bool
}

func (w *virtualWaiter) wake() {
	if w.p == nil {
		w.kept = true
		return
	}
	if hall := w.v.rooms[0]; w.p.room != w.v.room && w.p.room != hall && w.v.room != hall {
		panic("clocks: " + w.p.name + " waits for " + w.name + ", which comes from a goroutine that GoApart has put elsewhere")
	}
	w.v.makeReady(w.p)
	w.p = nil
}

func (w *virtualWaiter) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.kept {
		w.kept = false
		return nil
	}
	p := w.v.current()
	w.p = p
	err := w.v.park(p, ctx, w.name)
	if w.p == p { // and not the next one, if this one's context has ended
		w.p = nil
	}
	return err
}
