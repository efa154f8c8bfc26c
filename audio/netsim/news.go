package netsim

import (
	"slices"
	"time"

	"firstsound/audio"
)

// An event is news of an answer, to be told at its time.
type event struct {
	audio.PlayEvent
	to     *player
	offset time.Duration // of a PlayReached
}

// event puts an event among those to be told.
func (d *downlink) event(p *player, kind audio.PlayKind, at time.Duration) {
	d.insert(event{audio.PlayEvent{Kind: kind, At: at}, p, 0})
}

func (d *downlink) reach(p *player, offset, at time.Duration) {
	d.insert(event{audio.PlayEvent{Kind: audio.PlayReached, At: at}, p, offset})
}

func (d *downlink) insert(e event) {
	if d.redoing && e.At <= d.redone || e.to.done {
		return // it has been told, or will be
	}
	i := len(d.events)
	for i > 0 && d.events[i-1].At > e.At {
		i--
	}
	d.events = slices.Insert(d.events, i, e)
}

// arm sets the alarm for the next thing that may happen.
func (d *downlink) arm(now time.Duration) {
	at, ok := d.next()
	if !ok {
		return
	}
	at = max(at, now)
	if d.armed {
		if d.alarmAt <= at {
			return // it will look again
		}
		d.alarm.Stop()
	}
	d.armed, d.alarmAt = true, at
	d.alarm = d.clock.At(at, d.bringIt)
}

// next returns when to look again: at the next event, or when one may come to
// light.
func (d *downlink) next() (at time.Duration, ok bool) {
	if len(d.events) > 0 {
		at, ok = d.events[0].At, true
	}
	if len(d.flight) > 0 && (!ok || d.flight[0].Arrival < at) {
		at, ok = d.flight[0].Arrival, true
	}
	for _, p := range d.players {
		if p.played.over {
			continue
		}
		decision, open := d.buffer.Next()
		if !open {
			return at, ok
		}
		// What is in the buffer lasts for a while, however it is squeezed: three
		// quarters at most, with NetEq's fast acceleration.
		ahead := d.buffer.Waiting()
		if !p.played.started || p.played.empty {
			ahead = 0
		} else if len(p.watches) > 0 {
			ahead = min(ahead, p.watches[0]-p.played.sound)
		}
		decision += ahead / 4
		if d.travel == 0 {
			decision++ // a packet could still be sent, and arrive, at that time
		}
		if !ok || decision < at {
			at = decision
		}
		return at, true
	}
	return at, ok
}

// bring tells the events that are due. It runs as a callback of the clock. On a
// Real clock two of them may overlap: the one that tells goes on until nothing
// is due.
func (d *downlink) bring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed && d.alarmAt <= d.clock.Now() {
		d.armed = false
	}
	if d.telling {
		return
	}
	d.telling = true
	for {
		now := d.clock.Now()
		d.settle(now)
		if len(d.events) == 0 || d.events[0].At > now {
			d.telling = false
			d.arm(now)
			return
		}
		e := d.events[0]
		d.events = slices.Delete(d.events, 0, 1)
		e.Playback = e.to.playback(e.Kind, e.At)
		d.mu.Unlock()
		e.to.on(e.PlayEvent)
		d.mu.Lock()
		if e.Kind == audio.PlayEnded || e.Kind == audio.PlayStopped {
			d.leave(e.to)
		}
	}
}

// leave lets those go who wait for p, and forgets the answers so far if it was
// the last one open.
func (d *downlink) leave(p *player) {
	p.done = true
	if p.waiting != nil {
		p.waiting.Close()
	}
	p.guard.Stop()
	for _, q := range d.players {
		if !q.done {
			return
		}
	}
	d.spare.spans, p.played.spans = p.played.spans, nil
	d.spare.batches, p.batches = p.batches, nil
	clear(d.players)
	d.players = d.players[:0]
}
