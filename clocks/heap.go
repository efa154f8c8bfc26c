package clocks

import "time"

// A timer says when to wake a target, unless that has been armed again since.
type timer struct {
	at  time.Duration
	seq uint64
	to  *target
}

// A timerHeap is a min-heap by time, then by order of arrival, with four
// children to a node: it is shallower than a binary one, and the four lie in
// neighbouring cache lines. It is written out because container/heap would
// allocate for every push and pop.
type timerHeap []timer

func (t timer) before(u timer) bool {
	return t.at < u.at || t.at == u.at && t.seq < u.seq
}

func (h *timerHeap) push(t timer) {
	s := append(*h, t)
	*h = s
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !t.before(s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = t
}

// popBefore returns the first timer, if that is due before t.
func (h *timerHeap) popBefore(t time.Duration) (timer, bool) {
	s := *h
	if len(s) == 0 || s[0].at >= t {
		return timer{}, false
	}
	top, n := s[0], len(s)-1
	last := s[n]
	s[n] = timer{}
	s = s[:n]
	*h = s
	i := 0
	for {
		down := 4*i + 1
		if down >= n {
			break
		}
		for c, end := down+1, min(down+4, n); c < end; c++ { // down moves
			if s[c].before(s[down]) {
				down = c
			}
		}
		if !s[down].before(last) {
			break
		}
		s[i] = s[down]
		i = down
	}
	if n > 0 {
		s[i] = last
	}
	return top, true
}
