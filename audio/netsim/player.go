package netsim

import (
	"context"
	"slices"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// A player is one answer on its way back.
type player struct {
	d      *downlink
	on     func(audio.PlayEvent)
	stream stream

	rate    int
	samples int           // at this rate
	before  time.Duration // sound at other rates before
	total   time.Duration // all sound so far
	closed  bool
	stopped bool
	stopAt  time.Duration

	batches []batch // its packets, as they are sent
	packets int
	endAt   time.Duration // when the caller's end learns that no more comes
	ended   bool          // endAt is valid

	played  played
	watches []time.Duration // not reached as far as decided, in order
	done    bool            // the end has been told
	waiting *clocks.Queue[struct{}]
	guard   *clocks.Ending // stops it with its context
}

// A played is how an answer is played, as far as that is decided.
type played struct {
	first   int  // its first packet, as the buffer counts them
	queued  bool // the first arrival is known
	started bool
	empty   bool // the last span is Empty
	over    bool // all is decided
	spans   []playout.Span
	decided int           // packets in them
	sound   time.Duration // sound in them
}

// Answer opens the way back for one answer. When ctx ends, that is a Stop.
//
// The events come from callbacks of the clock, in order of time, one at a time.
// One that becomes known only after its time comes at once: the end of an answer
// that had been played before Close was called, for example, or a Watch of what
// has been heard already. Its At is the true one.
//
// An answer that is open when its last sound so far has been played is told as
// PlayStalled. If nothing follows, that was its end: PlayEnded then comes with
// the same time, and its Playback does not count that stall. PlayStopped comes
// with the time of Stop where the line had been silent before.
func (l *Line) Answer(ctx context.Context, id trace.ID, on func(audio.PlayEvent)) audio.Player {
	d := &l.down
	l.mu.Lock()
	p := &player{d: d, on: on, stream: newStream(l.seed, "downlink", l.session, id.Turn, d.answers.next(id.Turn))}
	p.played.spans, d.spare.spans = d.spare.spans[:0], nil
	p.batches, d.spare.batches = d.spare.batches[:0], nil
	if len(d.players) == 0 {
		d.idle.copyFrom(&d.state)
	}
	d.players = append(d.players, p)
	p.guard = clocks.OnEnd(ctx, l.clock, p.Stop)
	l.mu.Unlock()
	return p
}

// Play cuts f into packets, with what was left over of the frame before.
func (p *player) Play(f audio.Frame) {
	l := p.d.Line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.closed || p.stopped {
		return
	}
	if f.Rate != p.rate {
		p.before, p.samples, p.rate = p.total, 0, f.Rate
	}
	p.samples += len(f.PCM)
	p.total = p.before + audio.Span(p.samples, p.rate)
	p.d.flush()
}

// Close says that no more sound comes. What is left over makes a last packet,
// filled up with silence.
func (p *player) Close() {
	l := p.d.Line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.closed || p.stopped {
		return
	}
	p.closed = true
	p.d.flush()
}

// Watch asks for a PlayReached. Sound that was lost is reached when what was
// made up for it is; sound that is never played is never reached.
func (p *player) Watch(offset time.Duration) {
	l := p.d.Line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.done {
		return
	}
	if at, ok := p.when(offset); ok {
		p.d.insert(event{audio.PlayEvent{Kind: audio.PlayReached, At: at}, p, offset})
	} else {
		p.watch(offset)
	}
	p.d.arm(l.clock.Now())
}

func (p *player) watch(offset time.Duration) {
	i, _ := slices.BinarySearch(p.watches, offset)
	p.watches = slices.Insert(p.watches, i, offset)
}

// Stop drops what has not been sent. What has been sent arrives and is played.
func (p *player) Stop() {
	l := p.d.Line
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if p.done || p.stopped || p.played.over && p.end() <= now {
		return
	}
	p.d.settle(now)
	p.stopped, p.stopAt = true, now
	p.d.redo(p, now)
	p.d.flush()
}

// Wait waits until PlayEnded or PlayStopped has been told.
func (p *player) Wait(ctx context.Context) error {
	l := p.d.Line
	l.mu.Lock()
	if p.done {
		l.mu.Unlock()
		return nil
	}
	if p.waiting == nil {
		p.waiting = clocks.NewQueue[struct{}](l.clock, "the end of an answer")
	}
	waiting := p.waiting
	l.mu.Unlock()
	waiting.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.done {
		return nil
	}
	return context.Cause(ctx)
}

// length returns how much sound of p is sent, without what fills up the last
// packet.
func (p *player) length() time.Duration {
	return min(p.total, time.Duration(p.packets)*p.d.o.Packet)
}

// end returns when the last sound of p has left the buffer.
func (p *player) end() time.Duration {
	var at, offset time.Duration
	for _, s := range p.played.spans {
		if s.Kind == playout.Empty {
			continue
		}
		at = s.At
		if s.Length > 0 {
			at = s.When(min(s.Sound, p.length()-offset))
		}
		offset += s.Sound
	}
	return at
}

// when returns when the sound at offset leaves the buffer, if that is decided.
func (p *player) when(offset time.Duration) (time.Duration, bool) {
	if offset >= p.length() || offset >= p.played.sound {
		return 0, false
	}
	for _, s := range p.played.spans {
		if offset < s.Sound {
			if s.Length == 0 {
				return s.At, true
			}
			return s.When(offset), true
		}
		offset -= s.Sound
	}
	return 0, false
}

// playback returns how p has been played up to the time to, which comes with an
// event of the kind.
func (p *player) playback(kind audio.PlayKind, to time.Duration) audio.Playback {
	var b audio.Playback
	var offset time.Duration
	var emptyAt time.Duration
	empty := false
	for _, s := range p.played.spans {
		if s.At > to {
			break
		}
		if s.Kind == playout.Empty {
			empty, emptyAt = true, s.At
			b.Underruns++
			continue
		}
		if empty && s.Kind == playout.Sound {
			empty = false
			b.Stalled += s.At - emptyAt
		}
		sound := min(s.Sound, p.length()-offset)
		offset += s.Sound
		if s.Length > 0 && s.When(sound) > to { // in the middle of it
			sound = time.Duration(int64(to-s.At) * int64(s.Sound) / int64(s.Length))
		}
		if s.Kind == playout.Sound {
			b.Played += sound
		} else {
			b.Concealed += sound
		}
	}
	switch {
	case empty && (kind == audio.PlayEnded || kind == audio.PlayStopped):
		b.Underruns-- // nothing came after it: it was the end
	case empty:
		b.Stalled += to - emptyAt
	}
	return b
}
