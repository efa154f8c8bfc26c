package netsim

import (
	"slices"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
	"firstsound/clocks"
)

// A downlink is the way back: a sender that paces, the network, and the playout
// buffer at the caller. Its fields are guarded by the line's mutex.
//
// All that is known so far is worked out at once, up to the future. Stop takes
// back what has not been sent by then: it works the answers out again, from the
// last moment at which the line was idle. What had happened before stays as it
// was, since a packet cannot change what came before it was sent.
type downlink struct {
	*Line
	way    *way
	travel time.Duration // of a packet, without its jitter

	state             // after all packets so far
	idle    state     // as it was when players was empty
	players []*player // since then, in order of play
	answers count
	flight  []flying // with reordering: packets that another one may still overtake, by arrival
	events  []event  // not told yet, in order of time
	redoing bool     // what lies before redone has been told
	redone  time.Duration
	spare   struct { // the memory of an answer that is over
		spans   []playout.Span
		batches []batch
	}

	alarm   clocks.Alarm
	alarmAt time.Duration
	armed   bool
	telling bool
	bringIt func() // bring, bound once
}

// A state is how far the packets have come.
type state struct {
	buffer  playout.Buffer
	seq     int           // packets sent so far
	sentAt  time.Duration // when the packet before was sent
	media   time.Duration // its place on the sender's time line
	arrived time.Duration // the latest arrival so far
	silent  time.Duration // what is played ends then, as far as decided
}

func (s *state) copyFrom(from *state) {
	s.buffer.CopyFrom(&from.buffer)
	s.seq, s.sentAt, s.media, s.arrived, s.silent = from.seq, from.sentAt, from.media, from.arrived, from.silent
}

// A flying is a packet, or the end of an answer, on its way.
type flying struct {
	playout.Packet
	end bool
}

func (d *downlink) init(l *Line, w *way) {
	d.Line, d.way, d.travel = l, w, l.o.CodecDelay+w.delay
	d.buffer, d.idle.buffer = *playout.New(l.o.Playout), *playout.New(l.o.Playout)
	d.bringIt = d.bring
	d.spare.spans = make([]playout.Span, 0, 32) // enough for most answers
}

// A batch is n packets, sent from at on, every step.
type batch struct {
	n        int
	at, step time.Duration
}

// flush sends all packets that may be sent, and works out what follows.
func (d *downlink) flush() {
	now := d.clock.Now()
	d.send(now)
	d.settle(now)
	d.arm(now)
}

// send makes packets of the sound that has been handed over. An answer is sent
// once those before it have been handed over whole.
func (d *downlink) send(now time.Duration) {
	blocked := false
	for _, p := range d.players {
		if p.ended || blocked && !(p.stopped && p.packets == 0) {
			continue
		}
		if !p.stopped {
			n := int(p.total / d.o.Packet)
			if p.closed && p.total%d.o.Packet > 0 {
				n++
			}
			if n > p.packets {
				p.add(n-p.packets, now)
			}
			if !p.closed {
				blocked = true
				continue
			}
		}
		p.ended = true
		p.endAt = max(now, d.sentAt) + d.travel // with the last packet, or on its own
		d.end(p)
	}
}

// add sends n packets of p.
func (p *player) add(n int, now time.Duration) {
	d := p.d
	b := batch{n: n, at: now}
	if d.o.Pacing == Realtime {
		b.step = d.o.Packet
		if d.seq > 0 {
			b.at = max(now, d.sentAt+d.o.Packet)
		}
	}
	if k := len(p.batches) - 1; k >= 0 && p.batches[k].at+time.Duration(p.batches[k].n)*b.step == b.at {
		p.batches[k].n += n
	} else {
		p.batches = append(p.batches, b)
	}
	d.transmit(p, b)
}

// transmit lets the packets of b travel to the buffer.
func (d *downlink) transmit(p *player, b batch) {
	if p.packets == 0 {
		p.played.first = d.seq
	}
	// The time line goes on through a pause. Within a batch there is none.
	media := d.media + d.o.Packet
	if media < b.at || d.seq == 0 {
		media = b.at
	}
	packet := playout.Packet{Seq: d.seq, Media: media, Duration: d.o.Packet, First: p.packets == 0}
	if d.o.Downlink.Reorder {
		d.scatter(p, b, packet)
	} else {
		d.file(p, b, packet)
	}
	d.seq += b.n
	d.media = media + time.Duration(b.n-1)*d.o.Packet
	d.sentAt = b.at + time.Duration(b.n-1)*b.step
	p.packets += b.n
}

// file lets the packets of b, beginning with packet, travel in single file: a
// late one holds up those behind it. Those between two losses go to the buffer
// together.
func (d *downlink) file(p *player, b batch, packet playout.Packet) {
	var arrivals [64]time.Duration // of a part of them
	for i := 0; i < b.n; {
		at := b.at + time.Duration(i)*b.step + d.travel
		n := d.way.loss.spares(p.stream, p.packets+i, min(b.n-i, len(arrivals)))
		if n > 0 {
			d.arrived = d.way.arrivals(arrivals[:n], p.stream, p.packets+i, at, b.step, d.arrived)
			if d.buffer.PushRun(&packet, arrivals[:n]) {
				d.queued(p, arrivals[0])
			}
		} else { // a lost one is missed at the earliest time, and holds up nobody
			n = 1
			d.arrived = max(d.arrived, at)
			packet.Arrival, packet.Lost = d.arrived, true
			d.buffer.Push(&packet)
			packet.Lost = false
		}
		packet.Forward(n)
		i += n
	}
}

// scatter lets the packets of b, beginning with packet, overtake each other.
// Each is kept until its arrival is near.
func (d *downlink) scatter(p *player, b batch, packet playout.Packet) {
	for i, at := p.packets, b.at+d.travel; i < p.packets+b.n; i, at = i+1, at+b.step {
		packet.Arrival, packet.Lost = at, d.way.loss.lost(p.stream, i)
		if !packet.Lost {
			packet.Arrival += d.way.jitterOf(p.stream, i)
		}
		d.arrived = max(d.arrived, packet.Arrival)
		d.board(flying{Packet: packet})
		packet.Forward(1)
	}
}

// queued tells that p begins to enter the buffer.
func (d *downlink) queued(p *player, at time.Duration) {
	if !p.played.queued {
		p.played.queued = true
		d.event(p, audio.PlayQueued, at)
	}
}

// end lets the word travel that no more of p comes. It has no jitter of its own.
func (d *downlink) end(p *player) {
	if p.packets == 0 {
		return
	}
	at := max(p.endAt, d.arrived)
	if d.o.Downlink.Reorder {
		d.board(flying{Packet: playout.Packet{Arrival: at}, end: true})
	} else {
		d.buffer.End(at)
	}
}

// board puts f among what is on its way.
func (d *downlink) board(f flying) {
	i := len(d.flight)
	for i > 0 && d.flight[i-1].Arrival > f.Arrival {
		i--
	}
	d.flight = slices.Insert(d.flight, i, f)
}

// settle moves the buffer on to the time before which nothing arrives that has
// not been sent, and takes over what it has decided by then.
func (d *downlink) settle(now time.Duration) {
	horizon := now
	if d.o.Pacing == Realtime && d.seq > 0 {
		horizon = max(now, d.sentAt+d.o.Packet)
	}
	horizon += d.travel
	for len(d.flight) > 0 && d.flight[0].Arrival <= horizon {
		f := d.flight[0]
		d.flight = slices.Delete(d.flight, 0, 1)
		if f.end {
			d.buffer.End(f.Arrival)
		} else if d.buffer.Push(&f.Packet) && !f.Lost {
			d.queued(d.owner(f.Seq), f.Arrival)
		}
	}
	d.buffer.Advance(horizon)
	for i := range d.buffer.Out {
		d.take(&d.buffer.Out[i])
	}
	d.buffer.Out = d.buffer.Out[:0]
	for i, p := range d.players {
		d.conclude(p, i == 0 || d.players[i-1].played.over, now)
	}
}

// owner returns whose packet seq is.
func (d *downlink) owner(seq int) *player {
	for _, p := range d.players {
		if p.packets > 0 && seq < p.played.first+p.packets {
			return p
		}
	}
	return nil
}

// take takes over what the buffer has decided to play.
func (d *downlink) take(s *playout.Span) {
	if s.Kind == playout.Empty { // the packet before it was the last there was
		p := d.owner(s.Seq - 1)
		if p == nil {
			// The end of the last answer has been told. Only the word of it is still
			// on its way, behind a packet that came too late.
			return
		}
		p.played.empty = true
		p.played.spans = append(p.played.spans, *s)
		d.event(p, audio.PlayStalled, s.At)
		return
	}
	p := d.owner(s.Seq)
	n := p.played.first + p.packets - s.Seq
	if s.Packets <= n {
		d.play(p, s)
		return
	}
	// It is concealed into the next answer.
	sound := time.Duration(n) * d.o.Packet
	length := min(s.Length, sound)
	d.play(p, &playout.Span{Kind: s.Kind, Seq: s.Seq, Packets: n, At: s.At, Length: length, Sound: sound})
	d.take(&playout.Span{Kind: s.Kind, Seq: s.Seq + n, Packets: s.Packets - n, At: s.At + length, Length: s.Length - length, Sound: s.Sound - sound})
}

// play takes over a span of p that is played or concealed.
func (d *downlink) play(p *player, s *playout.Span) {
	q := &p.played
	q.spans = append(q.spans, *s)
	q.decided += s.Packets
	q.sound += s.Sound
	d.silent = s.At + s.Length
	if s.Kind == playout.Sound {
		if q.empty {
			q.empty = false
			d.event(p, audio.PlayResumed, s.At)
		}
		if !q.started {
			q.started = true
			d.insert(event{audio.PlayEvent{Kind: audio.PlayStarted, At: s.At, Setting: d.prebuffer}, p, 0})
		}
	}
	for len(p.watches) > 0 {
		at, ok := p.when(p.watches[0])
		if !ok {
			break
		}
		d.reach(p, p.watches[0], at)
		p.watches = p.watches[1:]
	}
}

// conclude ends p if all of it has been decided, and all before it.
func (d *downlink) conclude(p *player, first bool, now time.Duration) {
	if p.played.over || !p.ended || p.played.decided < p.packets {
		return
	}
	at := p.end()
	if p.packets == 0 {
		at = max(now, d.silent)
		if p.stopped {
			at, first = p.stopAt, true
		}
	}
	if !first {
		return
	}
	p.played.over = true
	if p.stopped {
		d.event(p, audio.PlayStopped, max(at, p.stopAt))
	} else {
		d.event(p, audio.PlayEnded, at)
	}
}

// redo works out again all since the line was idle, after cut has been stopped
// now: what cut has not sent is dropped, and the answers after it go in its place.
func (d *downlink) redo(cut *player, now time.Duration) {
	kept := d.events[:0]
	for _, e := range d.events {
		if e.At <= now {
			kept = append(kept, e)
		} else if e.Kind == audio.PlayReached {
			e.to.watch(e.offset)
		}
	}
	clear(d.events[len(kept):])
	d.events = kept
	d.flight = d.flight[:0]
	d.state.copyFrom(&d.idle)
	d.redoing, d.redone = true, now
	after := false
	for _, p := range d.players {
		batches := p.batches
		switch {
		case p == cut:
			var n int
			batches, n = sent(batches, now)
			after = n < p.packets || !p.ended
		case after:
			batches = batches[:0]
		}
		p.batches, p.packets = batches, 0
		p.played = played{spans: p.played.spans[:0]}
		for _, b := range batches {
			d.transmit(p, b)
		}
		if after {
			p.ended = false
		} else if p.ended {
			d.end(p)
		}
	}
	d.settle(now)
	d.redoing = false
}

// sent returns the part of batches that has been sent by now, and how many
// packets that is.
func sent(batches []batch, now time.Duration) ([]batch, int) {
	packets := 0
	for i := range batches {
		b := &batches[i]
		if b.at > now {
			return batches[:i], packets
		}
		if b.step > 0 {
			b.n = min(b.n, int((now-b.at)/b.step)+1)
		}
		packets += b.n
	}
	return batches, packets
}
