package playout

import (
	"time"
)

// PushRun pushes packets that were sent one after the other without a pause, of
// which none is lost and none is overtaken: p, and those that follow it, as many
// as there are arrivals, of which the first is that of p. It comes to the same as
// a Push for each of them, in a fraction of the time, and returns what that of p
// would. It keeps neither p nor arrivals.
func (b *Buffer) PushRun(p *Packet, arrivals []time.Duration) bool {
	packet := *p
	kept := true
	for i := 0; i < len(arrivals); {
		n := b.follow(&packet, arrivals[i:])
		if n == 0 {
			n = 1
			packet.Arrival = arrivals[i]
			if !b.Push(&packet) && i == 0 {
				kept = false
			}
		}
		packet.Forward(n)
		i += n
	}
	return kept
}

// follow takes packets of a run for as long as each of them just follows what is
// played: nothing is missing, nothing waits for a start, and the buffer does not
// run empty. It returns how many it has taken.
//
// Nearly all packets of a call come here. They are all alike, so it is enough to
// count those that have arrived and those that are played; the packets that are
// left in the end go to the queue.
func (b *Buffer) follow(p *Packet, arrivals []time.Duration) int {
	queued := len(b.queue) - b.head
	if !b.follows(p, queued) {
		return 0
	}
	var taken, played int
	if b.adapt == nil {
		taken = b.followAtOnce(p, arrivals)
		played = taken
	} else {
		taken, played = b.followAdaptive(p, arrivals, queued)
	}
	b.next += played
	b.media += time.Duration(played) * p.Duration
	b.head += min(played, queued)
	if taken == 0 {
		return 0
	}
	b.came = arrivals[taken-1]
	b.now = max(b.now, b.came)
	packet := *p
	packet.Forward(max(0, played-queued))
	for _, packet.Arrival = range arrivals[max(0, played-queued):taken] {
		b.insert(&packet)
		packet.Forward(1)
	}
	return taken
}

// follows says whether all that is queued, and p behind it, just follows what is
// played.
func (b *Buffer) follows(p *Packet, queued int) bool {
	if !b.playing || b.fresh || p.First || p.Seq != b.next+queued {
		return false
	}
	if b.adapt == nil {
		return queued == 0 // it plays what it can
	}
	media := b.media
	for i := range b.queue[b.head:] {
		q := &b.queue[b.head+i]
		if q.Media != media || q.Duration != p.Duration || q.Silent != p.Silent || q.Lost || q.First {
			return false
		}
		media += p.Duration
	}
	return p.Media == media
}

// followAtOnce is follow for a buffer that plays each packet that comes.
func (b *Buffer) followAtOnce(p *Packet, arrivals []time.Duration) int {
	n, end := 0, b.end
	for n < len(arrivals) && arrivals[n] <= end {
		end += p.Duration
		n++
	}
	b.emitSteady(p.Seq, n, p.Duration)
	return n
}

// followAdaptive is follow for an Adaptive, with so many packets waiting.
func (b *Buffer) followAdaptive(p *Packet, arrivals []time.Duration, waiting int) (taken, played int) {
	n, length := b.adapt, p.Duration
	end, media := b.end, b.media
	steady := 0 // of the packets that are played, the last ones: not stretched, and not emitted yet
	for taken < len(arrivals) {
		// Those that teach nothing new leave the delay of the playback as it is,
		// and so each of them is played as it is if the first one is.
		if n.steady(end, media) {
			coming := p.Media + time.Duration(taken)*length
			if k := n.calm(arrivals[taken:], coming, length, end-media); k > 0 {
				taken += k
				due := 0
				if last := arrivals[taken-1]; last > end {
					due = int((last - end + length - 1) / length) // begin before the last one came
				}
				played += due
				steady += due
				waiting += k - due
				end += time.Duration(due) * length
				media += time.Duration(due) * length
				continue
			}
		}
		arrival := arrivals[taken]
		for ; end < arrival && waiting > 0; waiting-- {
			more := n.stretch(end, media, length, p.Silent)
			if more == 0 {
				steady++
			} else {
				b.emitSteady(b.next+played-steady, steady, length)
				b.emit(Sound, b.next+played, 1, length+more, length, false)
				steady = 0
			}
			end += length + more
			media += length
			played++
		}
		if end < arrival {
			break // it runs empty
		}
		n.arrived(p.Media+time.Duration(taken)*length, arrival, length)
		taken++
		waiting++
	}
	b.emitSteady(b.next+played-steady, steady, length)
	return taken, played
}
