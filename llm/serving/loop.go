package serving

import (
	"time"

	"firstsound/clocks"
)

// A Loop is a clock for models that only call back: replays, capacity searches,
// benchmarks. It calls what is due, in the order of time and then of asking, and
// knows no goroutines. The zero Loop stands at 0. It serves one goroutine.
type Loop struct {
	now   time.Duration
	seq   uint64
	calls []call // a binary heap
}

type call struct {
	at  time.Duration
	seq uint64
	f   func()
}

func (c call) before(d call) bool { return c.at < d.at || c.at == d.at && c.seq < d.seq }

// Now returns the time of the call under way.
func (l *Loop) Now() time.Duration { return l.now }

// At calls f at t, or next if that is past. The Alarm cannot be stopped.
func (l *Loop) At(t time.Duration, f func()) clocks.Alarm {
	l.seq++
	c := call{max(t, l.now), l.seq, f}
	h := append(l.calls, c)
	l.calls = h
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
	return clocks.Alarm{}
}

// Run makes calls until there are none left, or the next is after end.
func (l *Loop) Run(end time.Duration) {
	for len(l.calls) > 0 && l.calls[0].at <= end {
		c := l.pop()
		l.now = c.at
		c.f()
	}
}

func (l *Loop) pop() call {
	h := l.calls
	top, n := h[0], len(h)-1
	c := h[n]
	h[n] = call{}
	h = h[:n]
	l.calls = h
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(c) {
			break
		}
		h[i] = h[down]
		i = down
	}
	if n > 0 {
		h[i] = c
	}
	return top
}

// forever is later than any run lasts.
const forever = time.Duration(1<<63 - 1)
