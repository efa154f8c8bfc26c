package netsim

import (
	"sync"
	"time"

	"firstsound/clocks/random"
)

// A way is a Way made ready for drawing.
type way struct {
	delay  time.Duration
	jitter *table
	loss   loss
}

func newWay(w Way) *way {
	return &way{delay: w.Delay, jitter: tableOf(w.Jitter), loss: newLoss(w.Loss, w.Burst)}
}

// A stream draws the fate of the packets of one utterance or answer. Packet i
// has 64 random bits of its own: the upper ones choose its jitter, the lower
// ones whether it is lost.
type stream struct{ base uint64 }

func newStream(seed uint64, purpose string, entity ...int) stream {
	s := random.New(seed, purpose, entity...)
	return stream{s.Uint64()}
}

// bits is splitmix64, which package random uses too, at its i-th step: the only
// difference is that it need not be drawn in order.
func (s stream) bits(i int) uint64 {
	z := s.base + 0x9e3779b97f4a7c15*uint64(i)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// jitter returns the jitter of packet i.
func (w *way) jitterOf(s stream, i int) time.Duration {
	return w.jitter.delay[s.bits(i)>>(64-tableBits)&w.jitter.mask]
}

// arrivals fills in when packets arrive, from number i on, that do not overtake
// each other, and returns the last arrival. Without its jitter the first one would
// arrive at the time at, and the others step later each; what was sent before
// them has arrived at before.
func (w *way) arrivals(out []time.Duration, s stream, i int, at, step, before time.Duration) time.Duration {
	delay, mask := w.jitter.delay, w.jitter.mask
	for j := range out {
		before = max(before, at+delay[s.bits(i+j)>>(64-tableBits)&mask])
		out[j] = before
		at += step
	}
	return before
}

// tableBits: a table has 2^12 = 4,096 entries.
const tableBits = 12

// A table holds delays that are all equally likely: a packet then costs a
// look-up, where the logarithms of a draw would cost as much as all the rest of
// a turn. It has one draw out of each 4,096th part of the distribution, so that
// a mean or a quantile up to P99.9 is that of the distribution. Its highest
// entry stands for everything above P99.976.
type table struct {
	delay []time.Duration
	mask  uint64
	most  time.Duration // the highest entry
}

// tables keeps the tables of all distributions so far, by their text: all calls
// of a run have the same few. They depend on nothing else.
var tables sync.Map

func tableOf(d random.Dist) *table {
	if v, ok := d.Constant(); ok {
		return &table{delay: []time.Duration{v}, most: v}
	}
	if t, ok := tables.Load(d.String()); ok {
		return t.(*table)
	}
	t := &table{delay: make([]time.Duration, 1<<tableBits), mask: 1<<tableBits - 1}
	var have [1 << tableBits]bool
	for i, missing := 0, len(t.delay); missing > 0; i++ {
		s := random.New(0, "netsim.jitter", i)
		peek := s // goes on from the same place: these are the bits that Draw will use
		part := peek.Uint64() >> (64 - tableBits)
		if !have[part] {
			have[part] = true
			t.delay[part] = d.Draw(&s)
			t.most = max(t.most, t.delay[part])
			missing--
		}
	}
	shared, _ := tables.LoadOrStore(d.String(), t)
	return shared.(*table)
}

// A loss says which packets are lost: those in the bad state of a chain of two
// states (Gilbert 1960). With a mean loss L in bursts of B packets on average,
// the chain goes from bad to good with r = 1/B, and from good to bad with
// p = r·L/(1 − L). Independent losses are the chain with p = L, r = 1 − L.
//
// A packet draws one number u, and the state after it follows from u and the
// state before: from good it is bad if u < p, from bad it is bad if u < 1 − r.
// Where both say the same, the packet's state does not depend on the past, which
// is how the state of any packet is found without going through all before it:
// back to the nearest such one. The answer is exact, and begins in the steady
// state.
type loss struct {
	p, q uint64 // p and 1 − r, in 1/2^lossBits
}

const lossBits = 64 - tableBits

func newLoss(mean, burst float64) loss {
	p, q := mean, mean
	if burst > 0 {
		r := 1 / burst
		p, q = r*mean/(1-mean), 1-r
	}
	return loss{uint64(p * (1 << lossBits)), uint64(q * (1 << lossBits))}
}

// spares returns how many packets in a row, from number i on and n at most, are
// not lost.
func (l loss) spares(s stream, i, n int) int {
	if l.p == 0 {
		return n
	}
	for j := range n {
		if l.lost(s, i+j) {
			return j
		}
	}
	return n
}

// lost says whether packet i is lost.
func (l loss) lost(s stream, i int) bool {
	if l.p == 0 {
		return false
	}
	flipped := false
	for ; ; i-- {
		u := s.bits(i) & (1<<lossBits - 1)
		fromGood, fromBad := u < l.p, u < l.q
		if fromGood == fromBad {
			return fromGood != flipped
		}
		if fromGood {
			flipped = !flipped // bad after good, and good after bad
		}
	}
}
