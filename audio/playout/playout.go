// Package playout is the buffer between the network and the ear, as a pure
// model: packets go in with the time at which they arrive, and out comes what
// the playback device plays when, where it ran empty, and what it had to make
// up. It has no clock and draws nothing, so the same packets give the same
// answer in a simulation, in a test, and for the packets of a real call.
//
// One small type, [Buffer], has three faces:
//
//   - [Ideal] plays every packet as soon as it can. It never waits longer than
//     for the packet itself, so it starts first and runs empty most often.
//   - [Fixed] waits until so much sound is there, as players on WebSocket lines
//     do, and waits again after it ran empty.
//   - [Adaptive] does what NetEq of WebRTC does: it learns how late packets are,
//     and stretches or squeezes the sound towards that delay.
package playout

import (
	"fmt"
	"slices"
	"time"
)

// A Mode is how a Buffer decides when to play.
type Mode string

// The modes.
const (
	Ideal    Mode = "ideal"
	Fixed    Mode = "fixed"
	Adaptive Mode = "adaptive"
)

// Options are the settings of a Buffer, as a scenario writes them.
type Options struct {
	Mode Mode `yaml:"mode"` // ideal, fixed or adaptive

	// Prebuffer is, for Fixed, how much sound has to be there before it plays.
	// The other modes have no use for it.
	Prebuffer time.Duration `yaml:"prebuffer"`

	// Minimum is, for Adaptive, the lowest target that it may learn: NetEq's
	// base minimum delay, which a page sets as jitterBufferTarget. It is only a
	// floor. The other modes have no use for it.
	Minimum time.Duration `yaml:"minimum"`
}

// Defaults returns an adaptive buffer, which every WebRTC client has. The
// Prebuffer, which counts once the mode is fixed, is 100 ms: five packets, an
// illustrative value of the kind that players on WebSocket lines use.
func Defaults() Options { return Options{Mode: Adaptive, Prebuffer: 100 * time.Millisecond} }

// Check says what is wrong with o.
func (o Options) Check() error {
	switch {
	case o.Mode != Ideal && o.Mode != Fixed && o.Mode != Adaptive:
		return fmt.Errorf("mode: %q is not ideal, fixed or adaptive", string(o.Mode))
	case o.Prebuffer < 0:
		return fmt.Errorf("prebuffer: %v is negative", o.Prebuffer)
	case o.Minimum < 0 || o.Minimum > maxMinimum:
		return fmt.Errorf("minimum: %v does not lie between 0 and %v", o.Minimum, maxMinimum)
	}
	return nil
}

// A Packet is a piece of a stream of sound. Times are on one clock, whatever it
// counts from, except that Media may count from anywhere.
type Packet struct {
	Seq      int           // counts the packets of the stream, from 0, in the order in which they were sent
	Media    time.Duration // the place of its first sample on the sender's time line (an RTP timestamp); only Adaptive looks at it
	Arrival  time.Duration
	Duration time.Duration // of its sound; above zero

	// First marks the first packet of an answer (a talkspurt: RTP's marker).
	// The silence before it is not an underrun.
	First bool

	// Lost says that the packet never comes. A model that knows this pushes
	// the packet all the same, with the time at which it should have come as
	// its Arrival. For a real stream the gap in Seq says so.
	Lost bool

	// Silent says that its samples are all zero, as between the answers of an
	// agent that goes on sending. Adaptive is then slower to change its delay.
	Silent bool
}

// Forward makes p the packet that is sent n packets after it, without a pause
// between them. Its Arrival and Lost stay as they are.
func (p *Packet) Forward(n int) {
	p.Seq, p.Media = p.Seq+n, p.Media+time.Duration(n)*p.Duration
	p.First = p.First && n == 0
}

// A Kind says what a Span tells.
type Kind uint8

// The kinds of spans.
const (
	// Sound was played.
	Sound Kind = iota

	// Concealed sound was made up, because its packets were lost or had not
	// come when it was their turn. The Length is zero where there was nothing
	// to go on from: at the beginning of an answer and after an Empty.
	Concealed

	// Empty says that the buffer ran empty at At, within an answer. The silence
	// lasts until the next span that is Sound. Its Length and Sound are zero.
	Empty
)

// A Span is a stretch of what the device plays.
type Span struct {
	Kind    Kind
	Seq     int           // its first packet; of an Empty, the packet that was missing
	Packets int           // how many there are in it, those that were skipped included
	At      time.Duration // when its first sample leaves the buffer
	Length  time.Duration // how long it takes
	Sound   time.Duration // how much sound that is: other than Length where Adaptive stretches
}

// When returns when the sound at offset into s leaves the buffer.
func (s Span) When(offset time.Duration) time.Duration {
	if s.Length == s.Sound {
		return s.At + offset
	}
	return s.At + time.Duration(int64(offset)*int64(s.Length)/int64(s.Sound))
}

// A Buffer is one playout buffer. It lasts for a whole call: what Adaptive has
// learned in one answer counts for the next.
//
// Packets are pushed in the order in which they arrive. [Buffer.Advance] says
// that time has passed without one. What is known of the playback by then
// stands in Out.
type Buffer struct {
	// Out is what has been decided since the owner last emptied it, in order.
	// It may reach into the future: what is in the buffer plays unless more is
	// pushed that changes it, and nothing that is pushed ever does.
	Out []Span

	o     Options
	adapt *neteq // of Adaptive

	queue []Packet // by Seq, from head on; all of them have arrived by now
	head  int
	next  int           // the Seq whose turn it is
	now   time.Duration // what has not been pushed arrives at this time or later
	came  time.Duration // when the packet pushed last arrived
	end   time.Duration // what has been decided plays until then
	media time.Duration // the Media that comes next if the sender made no pause

	playing  bool          // sound follows sound; otherwise the buffer waits to start
	begun    bool          // there has been a packet at all
	heard    bool          // something has been played
	fresh    bool          // the next packet is the first one after a silence
	inside   bool          // an answer has begun to play and is not known to be over
	last     int           // the Seq after the last packet of the answer whose End is known
	over     bool          // last is valid
	overAt   time.Duration // when the End came
	buffered time.Duration // sound in the queue, up to its last packet that is not lost; while it waits
	trailing time.Duration // lost sound after that
}

// New returns an empty Buffer. The options have to be good: see Options.Check.
func New(o Options) *Buffer {
	b := &Buffer{o: o}
	if o.Mode == Adaptive {
		b.adapt = newNetEQ(o.Minimum)
	}
	return b
}

// CopyFrom makes b what from is, Out excepted, which becomes empty. The two do
// not share anything afterwards.
func (b *Buffer) CopyFrom(from *Buffer) {
	out, queue, adapt := b.Out[:0], b.queue[:0], b.adapt
	*b = *from
	b.Out = out
	b.queue = append(queue, from.queue[from.head:]...)
	b.head = 0
	if from.adapt != nil {
		if adapt == nil {
			adapt = new(neteq)
		}
		adapt.copyFrom(from.adapt)
	}
	b.adapt = adapt
}

// Target returns the delay that Adaptive aims at now, and 0 in other modes.
func (b *Buffer) Target() time.Duration {
	if b.adapt == nil {
		return 0
	}
	return b.adapt.target
}

// Waiting returns the sound that is in the buffer and not yet decided about.
func (b *Buffer) Waiting() time.Duration {
	var d time.Duration
	for _, p := range b.queue[b.head:] {
		d += p.Duration
	}
	return d
}

// Push takes a packet, and does not keep p. Its Arrival must not lie before that
// of the packet pushed last, nor before the time of the last Advance. A packet
// whose turn has passed is dropped, since its place has been concealed, and so is
// one that is there already: Push then returns false.
func (b *Buffer) Push(p *Packet) bool {
	if !b.begun {
		b.begun, b.media = true, p.Media
		b.now, b.end = p.Arrival, p.Arrival
	}
	b.Advance(p.Arrival)
	b.came = p.Arrival
	if b.adapt != nil && !p.Lost {
		b.adapt.arrived(p.Media, p.Arrival, p.Duration)
	}
	if p.Seq < b.next || !b.insert(p) {
		return false
	}
	if !b.playing {
		b.trailing += p.Duration
		if !p.Lost {
			b.buffered, b.trailing = b.buffered+b.trailing, 0
		}
	}
	if b.adapt == nil { // it decides nothing before the time has come
		b.decide()
	}
	return true
}

// insert puts p in its place in the queue, unless it is there already.
func (b *Buffer) insert(p *Packet) bool {
	i := len(b.queue)
	for i > b.head && b.queue[i-1].Seq > p.Seq {
		i--
	}
	switch {
	case i > b.head && b.queue[i-1].Seq == p.Seq:
		return false
	case i < len(b.queue):
		b.queue = slices.Insert(b.queue, i, *p)
		return true
	case b.head == len(b.queue):
		b.queue, b.head = b.queue[:0], 0
	case len(b.queue) == cap(b.queue) && b.head > len(b.queue)/2:
		b.queue, b.head = b.queue[:copy(b.queue, b.queue[b.head:])], 0
	}
	n := len(b.queue)
	if n == cap(b.queue) {
		b.queue = slices.Grow(b.queue, 16)
	}
	b.queue = b.queue[:n+1]
	// Field by field: p has just been written so, and to read it in wider pieces
	// would have to wait for the processor's store buffer.
	q := &b.queue[n]
	q.Seq, q.Media, q.Arrival, q.Duration, q.First, q.Lost, q.Silent = p.Seq, p.Media, p.Arrival, p.Duration, p.First, p.Lost, p.Silent
	return true
}

// End says that the packet pushed last was the last one of its answer, and that
// the buffer learns this at the time at: what is there is played then, without
// waiting for more, and to run empty after it is not an underrun.
func (b *Buffer) End(at time.Duration) {
	b.over, b.overAt, b.last = true, at, b.next
	if n := len(b.queue); b.head < n {
		b.last = b.queue[n-1].Seq + 1
	}
	b.decide()
}

// Advance says that no packet arrives before to that has not been pushed.
func (b *Buffer) Advance(to time.Duration) {
	if b.begun && to > b.now {
		b.now = to
		b.decide()
	}
}

// Next returns when the buffer will decide what to do next if no more packets
// come, and false if it will not before a packet comes or the answer ends.
func (b *Buffer) Next() (time.Duration, bool) {
	if b.playing {
		return b.end, b.head < len(b.queue) || !b.isOver()
	}
	if b.head < len(b.queue) {
		return b.start()
	}
	return 0, false
}

// isOver says whether all of the answer has been decided about.
func (b *Buffer) isOver() bool { return !b.inside || b.over && b.next == b.last }

// decide decides all that does not depend on packets still to come.
func (b *Buffer) decide() {
	for {
		if !b.playing {
			if b.head == len(b.queue) {
				return
			}
			at, ok := b.start()
			if !ok || b.adapt != nil && at >= b.now {
				return
			}
			if !b.begin(at) {
				return
			}
			continue
		}
		if b.head == len(b.queue) {
			if b.end < b.now {
				b.runEmpty()
				continue
			}
			return
		}
		p := &b.queue[b.head]
		expected := p.Seq == b.next
		if b.end >= b.now && (!expected || b.adapt != nil) {
			return // a packet that comes before then may change it
		}
		if !expected {
			b.conceal(p)
			continue
		}
		if b.adapt != nil && p.Media > b.media && !p.Lost {
			b.runEmpty() // the sender made a pause here
			continue
		}
		b.head++
		b.play(p)
	}
}

// runEmpty stops playing, with nothing left whose turn it is.
func (b *Buffer) runEmpty() {
	b.playing = false
	b.buffered, b.trailing = 0, 0
	for i := range b.queue[b.head:] {
		b.trailing += b.queue[b.head+i].Duration
		if !b.queue[b.head+i].Lost {
			b.buffered, b.trailing = b.buffered+b.trailing, 0
		}
	}
	if b.head < len(b.queue) && b.queue[b.head].First || b.isOver() {
		b.inside = false
		return
	}
	b.Out = append(b.Out, Span{Kind: Empty, Seq: b.next, At: b.end})
}

// start returns when a buffer that waits begins to play what it holds.
func (b *Buffer) start() (time.Duration, bool) {
	over := b.over && b.queue[len(b.queue)-1].Seq < b.last
	if b.adapt != nil && b.buffered > 0 {
		// Not before the packet that came last: until then the buffer had waited.
		return max(b.end, b.adapt.start(b), b.came), true
	}
	switch {
	case b.buffered > 0 && (b.o.Mode == Ideal || b.buffered >= b.o.Prebuffer):
		return b.came, true
	case over:
		return max(b.came, b.overAt), true
	}
	return 0, false
}

// begin plays again. Lost packets at the front are skipped: there is no sound
// to go on from. It returns false if there was nothing else.
func (b *Buffer) begin(at time.Duration) bool {
	var sound time.Duration
	seq := b.next
	for b.head < len(b.queue) {
		p := &b.queue[b.head]
		if p.Seq > b.next {
			sound += time.Duration(p.Seq-b.next) * p.Duration
			b.next = p.Seq
		}
		if !p.Lost {
			break
		}
		sound += p.Duration
		b.next++
		b.head++
	}
	if b.next > seq {
		b.Out = append(b.Out, Span{Kind: Concealed, Seq: seq, Packets: b.next - seq, At: at, Sound: sound})
	}
	if b.head == len(b.queue) {
		b.buffered, b.trailing = 0, 0
		return false
	}
	b.media = b.queue[b.head].Media
	b.playing, b.inside, b.heard, b.fresh, b.end = true, true, true, true, at
	return true
}

// play plays p, whose turn it is.
func (b *Buffer) play(p *Packet) {
	kind, length := Sound, p.Duration
	if p.Lost {
		kind = Concealed
	} else if b.adapt != nil && !b.fresh {
		length += b.adapt.stretch(b.end, p.Media, p.Duration, p.Silent)
	}
	b.inside, b.fresh = true, false
	b.next = p.Seq + 1
	b.media = p.Media + p.Duration
	b.emit(kind, p.Seq, 1, length, p.Duration, p.First)
}

// conceal makes up what should come before p and has not come.
func (b *Buffer) conceal(p *Packet) {
	n := p.Seq - b.next
	d := time.Duration(n) * p.Duration
	b.emit(Concealed, b.next, n, d, d, false)
	b.next = p.Seq
	b.media += d
}

// emit appends a span that begins when what has been played ends, or lengthens
// that one.
func (b *Buffer) emit(kind Kind, seq, packets int, length, sound time.Duration, first bool) {
	at := b.end
	b.end += length
	if n := len(b.Out); n > 0 && !first && length == sound {
		l := &b.Out[n-1]
		if l.Kind == kind && l.Length == l.Sound && l.Length > 0 && l.At+l.Length == at {
			l.Packets += packets
			l.Length += length
			l.Sound += sound
			return
		}
	}
	b.Out = append(b.Out, Span{kind, seq, packets, at, length, sound})
}

// emitSteady emits n packets of sound from seq on that are played as they are.
func (b *Buffer) emitSteady(seq, n int, length time.Duration) {
	if n > 0 {
		all := time.Duration(n) * length
		b.emit(Sound, seq, n, all, all, false)
	}
}

// Play runs all packets of one answer, in order of arrival, through a Buffer
// and returns what is played. It is for streams that are known as a whole; the
// answer ends with its last packet.
func Play(b *Buffer, packets []Packet) []Span {
	for i := range packets {
		b.Push(&packets[i])
	}
	if n := len(packets); n > 0 {
		b.End(packets[n-1].Arrival)
	}
	for at, ok := b.Next(); ok; at, ok = b.Next() {
		b.Advance(at + 1)
	}
	out := slices.Clone(b.Out)
	b.Out = b.Out[:0]
	return out
}
