package clocks

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Timers come out in order, at the same time in that of their arrival, also after
// many have come and gone.
func TestHeapOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h timerHeap
	seq := uint64(0)
	push := func(now time.Duration) {
		seq++
		delays := [3]time.Duration{10, 1000, 1_000_000} // as of packets, of answers, and of limits
		h.push(timer{at: now + time.Duration(r.ExpFloat64()*float64(delays[r.IntN(3)])), seq: seq})
	}
	push(0)
	var last timer
	for range 300_000 {
		if len(h) == 0 || r.IntN(2) == 0 {
			push(last.at)
			continue
		}
		if _, ok := h.popBefore(last.at); ok {
			t.Fatalf("after the timer %+v comes one that was due before", last)
		}
		next, ok := h.popBefore(never)
		if !ok || next.before(last) {
			t.Fatalf("after the timer %+v comes %+v", last, next)
		}
		last = next
	}
}
