// Package impair makes a network worse than it is, in a way that can be computed: a
// model draws from a seed what happens to each packet, and writes it down. A relay
// does it to datagrams between two peers of a WebRTC call, and a proxy to the bytes
// of a TCP connection.
//
// The kernel could do it too (tc netem), but not every kernel has that, it needs
// privileges, and it does not say what it has drawn.
package impair

import (
	"fmt"
	"math"
	"time"

	"firstsound/clocks/random"
)

// A Model says what happens to packets in one direction. The zero Model lets all of
// them pass at once.
type Model struct {
	Delay  time.Duration // of every packet
	Jitter Dist          // comes on top, drawn for each packet
	Trace  []time.Duration

	// Reorder lets packets overtake each other. Without it a late packet holds up
	// those behind it, as on most paths.
	Reorder bool

	Loss Loss
	Drop []Range // packets that are lost whatever Loss says, counted from 0
	Cut  []Span  // when nothing passes at all, not even ICE; a stream waits

	// Rate is a limit in bits a second, 0 for none: a token bucket that holds Burst
	// bytes. A packet waits for its tokens, behind those before it; one that would
	// wait for more than Queue is dropped.
	Rate  int64
	Burst int
	Queue time.Duration

	STUN bool // impair the packets of ICE as well
	DTLS bool // and those of the handshake and of data channels
}

// What ParseModel assumes: a bucket of ten packets of the usual MTU, and the queue
// of an access line of the better kind. Illustrative.
const (
	DefaultBurst = 15000
	DefaultQueue = 200 * time.Millisecond
)

// A Range is a run of packets, First and Last included.
type Range struct{ First, Last int }

// A Span is a time from From until before To, counted from the first packet of the
// call, in whichever direction that was.
type Span struct{ From, To time.Duration }

// A Loss is the model of Gilbert (1960) and Elliott (1963), a chain of two states:
// after each packet it goes from good to bad with probability P, and back with R. A
// packet is lost with probability Bad in the bad state (1−h), and Good in the good
// one (1−k). It begins in its steady state.
type Loss struct{ P, R, Bad, Good float64 }

// Random returns a Loss whose packets are lost independently.
func Random(mean float64) Loss { return Loss{P: mean, R: 1 - mean, Bad: 1} }

// Bursts returns a Loss with a mean share, in bursts of so many packets on average:
// Gilbert's chain with R = 1/burst and P = R·mean/(1−mean).
func Bursts(mean, burst float64) Loss {
	r := 1 / burst
	return Loss{P: r * mean / (1 - mean), R: r, Bad: 1}
}

// Mean returns the share of packets that are lost.
func (l Loss) Mean() float64 {
	bad := l.steady()
	return bad*l.Bad + (1-bad)*l.Good
}

// steady returns the share of time in the bad state.
func (l Loss) steady() float64 {
	if l.P == 0 {
		return 0
	}
	return l.P / (l.P + l.R)
}

func (l Loss) check() error {
	for _, v := range []struct {
		name string
		p    float64
	}{{"p", l.P}, {"r", l.R}, {"1-h", l.Bad}, {"1-k", l.Good}} {
		if !(v.p >= 0 && v.p <= 1) {
			return fmt.Errorf("loss: %s is %v, which is not a probability: with a mean loss L in bursts of B packets p is L/(B·(1−L)), and r is 1/B", v.name, v.p)
		}
	}
	if m := l.Mean(); m >= 1 {
		return fmt.Errorf("loss: every packet is lost")
	}
	return nil
}

// Check says what is wrong with m, beginning with the key.
func (m Model) Check() error {
	if err := m.Loss.check(); err != nil {
		return err
	}
	switch {
	case m.Delay < 0:
		return fmt.Errorf("delay: %v is negative", m.Delay)
	case len(m.Trace) > 0 && !m.Jitter.zero():
		return fmt.Errorf("trace: there is a jitter besides: choose one")
	case m.Rate < 0:
		return fmt.Errorf("rate: %d bits a second is negative", m.Rate)
	case m.Rate > 0 && (m.Rate < minRate || m.Rate > maxRate):
		return fmt.Errorf("rate: %d bits a second does not lie between 1kbit and 100gbit", m.Rate)
	case m.Rate > 0 && (m.Burst < 1 || m.Burst > maxBurst):
		return fmt.Errorf("bucket: %d bytes do not lie between 1 and %d", m.Burst, maxBurst)
	case m.Rate > 0 && m.Queue < 0:
		return fmt.Errorf("queue: %v is negative", m.Queue)
	}
	for _, d := range m.Trace {
		if d < 0 {
			return fmt.Errorf("trace: %v is negative", d)
		}
	}
	for i, r := range m.Drop {
		if r.First < 0 || r.Last < r.First || i > 0 && r.First <= m.Drop[i-1].Last {
			return fmt.Errorf("drop: %d-%d is not a run of packets behind those before it", r.First, r.Last)
		}
	}
	for i, c := range m.Cut {
		if c.From < 0 || c.To <= c.From || i > 0 && c.From < m.Cut[i-1].To {
			return fmt.Errorf("cut: %v-%v is not a time behind those before it", c.From, c.To)
		}
	}
	return nil
}

// Bounds within which nothing overflows.
const (
	minRate  = 1000
	maxRate  = 100_000_000_000
	maxBurst = 1 << 28
)

// CheckStream says whether m can be applied to a stream of bytes, from which nothing
// may be missing and in which nothing is overtaken.
func (m Model) CheckStream() error {
	switch {
	case m.Loss != Loss{} || len(m.Drop) > 0:
		return fmt.Errorf("loss: TCP sends again what is lost: use a delay")
	case m.Reorder:
		return fmt.Errorf("reorder: TCP keeps the order")
	}
	return m.Check()
}

// A Reason says why a packet was lost.
type Reason string

// The reasons.
const (
	Kept    Reason = ""
	ByLoss  Reason = "loss"  // drawn
	ByList  Reason = "drop"  // on the list
	ByCut   Reason = "cut"   // nothing passed at that time
	ByQueue Reason = "queue" // it would have waited too long for the rate
	ByRelay Reason = "relay" // the relay held too many packets already
)

// A Fate is what the model says about one packet. Out is In and the three waits
// together, for a packet that is not lost; for one that is, it is not set, and Drawn
// is what its delay would have been.
type Fate struct {
	N      int           `json:"n"` // counts the packets of the direction from 0: the media, and the rest apart
	In     time.Duration `json:"in_ns"`
	Size   int           `json:"bytes"`
	Lost   Reason        `json:"lost,omitempty"`
	Queued time.Duration `json:"queued_ns,omitempty"` // for the rate
	Drawn  time.Duration `json:"drawn_ns"`            // the delay
	Held   time.Duration `json:"held_ns,omitempty"`   // behind those before it, and in a stream by a cut
	Out    time.Duration `json:"out_ns,omitempty"`
}

// A Way applies a Model to the packets of one direction. It serves one goroutine.
type Way struct {
	m     Model
	seed  uint64
	way   int
	flows [2]flow
	began *time.Duration // the first packet; nil: none has come
	hold  bool           // a cut holds packets up instead of losing them: of a stream

	left time.Duration // when the last packet left the bucket
	full time.Duration // when the bucket is full again
}

// A flow is what counts for the media or for the rest.
type flow struct {
	n    int
	bad  bool
	drop []Range
	last time.Duration // the latest Out
}

// NewWay returns a Way of m, which has to be good (Model.Check). The draws of packet
// n depend on the seed, the way (a number for each direction and call) and n, and on
// nothing else: the loss of one packet does not move the delay of another.
func NewWay(m Model, seed uint64, way int) *Way {
	w := &Way{m: m, seed: seed, way: way}
	w.flows[0].drop = m.Drop
	for i := range w.flows {
		s := random.New(seed, "impair.state", way, i)
		w.flows[i].bad = s.Chance(m.Loss.steady())
	}
	return w
}

// Begin says that the call began at a moment, from which on Model.Cut counts; without
// it that is the first packet. Only the first call counts.
func (w *Way) Begin(at time.Duration) {
	if w.began == nil {
		w.began = &at
	}
}

// cut says whether nothing passes now, and until when.
func (w *Way) cut(now time.Duration) (until time.Duration, is bool) {
	w.Begin(now)
	for _, c := range w.m.Cut {
		if at := now - *w.began; at >= c.From && at < c.To {
			return *w.began + c.To, true
		}
	}
	return 0, false
}

// Pass returns what happens to a packet of size bytes that comes at now, which must
// not lie before that of the packet before.
func (w *Way) Pass(now time.Duration, size int) Fate { return w.pass(0, now, size) }

// Control is Pass for a packet that is no media, such as RTCP. Those are sent when
// the computer finds the time, so they have numbers, draws and an order of their own,
// and what happens to the media does not depend on them: they only take from the same
// rate. Model.Drop does not count them.
func (w *Way) Control(now time.Duration, size int) Fate { return w.pass(1, now, size) }

func (w *Way) pass(which int, now time.Duration, size int) Fate {
	flow := &w.flows[which]
	f := Fate{N: flow.n, In: now, Size: size}
	flow.n++
	if w.lose(flow, which, f.N) {
		f.Lost = ByLoss
	}
	for len(flow.drop) > 0 && flow.drop[0].Last < f.N {
		flow.drop = flow.drop[1:]
	}
	if len(flow.drop) > 0 && flow.drop[0].First <= f.N {
		f.Lost = ByList
	}
	f.Drawn = w.m.Delay
	if n := len(w.m.Trace); n > 0 {
		f.Drawn += w.m.Trace[f.N%n]
	} else {
		s := random.New(w.seed, "impair.delay", w.way, which, f.N)
		f.Drawn += w.m.Jitter.draw(&s)
	}
	from := now
	if until, is := w.cut(now); is {
		if w.hold {
			from, f.Held = until, until-now
		} else {
			f.Lost = ByCut
		}
	}
	if f.Lost != Kept {
		return f
	}
	if w.m.Rate > 0 && !w.bucket(&f, from) {
		return f
	}
	f.Out = from + f.Queued + f.Drawn
	if !w.m.Reorder && f.Out < flow.last {
		f.Held += flow.last - f.Out
		f.Out = flow.last
	}
	flow.last = max(flow.last, f.Out)
	return f
}

// lose draws whether packet n is lost, and the state after it.
func (w *Way) lose(flow *flow, which, n int) bool {
	if w.m.Loss == (Loss{}) {
		return false
	}
	s := random.New(w.seed, "impair.loss", w.way, which, n)
	lost, turns := s.Float(), s.Float()
	if flow.bad {
		flow.bad = turns >= w.m.Loss.R
		return lost < w.m.Loss.Bad
	}
	flow.bad = turns < w.m.Loss.P
	return lost < w.m.Loss.Good
}

// bucket takes the tokens of a packet from a moment on, and says whether it was not
// dropped. The
// bucket is kept as the time when it will be full: it holds Burst less the tokens
// that flow in until then. A packet that is larger than the bucket leaves when it is
// full, and those behind it wait until it is paid for.
func (w *Way) bucket(f *Fate, from time.Duration) bool {
	need := w.tokens(min(f.Size, w.m.Burst)) - w.tokens(w.m.Burst)
	at := max(from, w.left, w.full+need)
	if at-from > w.m.Queue {
		f.Lost = ByQueue
		return false
	}
	f.Queued = at - from
	w.left = at
	w.full = max(w.full, at) + w.tokens(f.Size)
	return true
}

// tokens returns how long n bytes of tokens take.
func (w *Way) tokens(n int) time.Duration {
	return time.Duration(math.Round(float64(n) * 8 * float64(time.Second) / float64(w.m.Rate)))
}
