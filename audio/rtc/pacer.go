package rtc

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

// slot is the step of the pacer; a packet's due times are whole multiples of it.
// The system's timers are no finer: Go waits in whole milliseconds.
const slot = time.Millisecond

const slots = int(codec.Frame / slot)

// A pacer tells its senders when packets are due: each every 20 ms, at the slot
// that it was given, which is one that few others have. It has one goroutine,
// which sleeps by absolute times and catches up when it was held up.
type pacer struct {
	clock clocks.Clock
	ctx   context.Context
	group *clocks.Group
	wake  *clocks.Queue[struct{}]

	mu    sync.Mutex
	wheel [slots][]*sender // a slice is never changed, but replaced
	n     int
	next  int64 // the slot that comes next, counted from the beginning of the clock
}

func newPacer(c clocks.Clock) *pacer {
	p := &pacer{clock: c, wake: clocks.NewQueue[struct{}](c, "senders to pace")}
	p.group, p.ctx = clocks.NewGroup(context.Background(), c)
	p.group.Go("rtc pacer", p.run)
	return p
}

func (p *pacer) close() {
	p.group.Cancel(context.Canceled)
	p.wake.Close()
	p.group.Wait()
}

// add begins to pace s: its first packet is due 20 to 40 ms from now.
func (p *pacer) add(s *sender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := int64(p.clock.Now()/slot) + int64(slots) + 1
	best, fewest := first, math.MaxInt
	for at := first; at < first+int64(slots); at++ {
		if n := len(p.wheel[at%int64(slots)]); n < fewest {
			best, fewest = at, n
		}
	}
	s.begin(time.Duration(best) * slot)
	w := &p.wheel[best%int64(slots)]
	*w = append(slices.Clone(*w), s)
	if p.n++; p.n == 1 {
		p.next = best
		p.wake.Put(struct{}{})
	}
}

func (p *pacer) remove(s *sender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.wheel {
		if j := slices.Index(w, s); j >= 0 {
			p.wheel[i] = slices.Delete(slices.Clone(w), j, j+1)
			p.n--
		}
	}
}

// due returns the slot that comes next, and who is in it.
func (p *pacer) due() (at time.Duration, who []*sender, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 {
		return 0, nil, false
	}
	for len(p.wheel[p.next%int64(slots)]) == 0 {
		p.next++
	}
	at, who = time.Duration(p.next)*slot, p.wheel[p.next%int64(slots)]
	p.next++
	return at, who, true
}

func (p *pacer) run() error {
	for {
		at, who, ok := p.due()
		if !ok {
			if _, ok := p.wake.Get(p.ctx); !ok {
				return nil
			}
			continue
		}
		if p.clock.SleepUntil(p.ctx, at) != nil {
			return nil
		}
		for _, s := range who {
			s.tick(at)
		}
	}
}
