package liveline

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// slack is how much later than the sound before it sound may be said without
// counting as a stall: a sample or two of rounding.
const slack = 2 * time.Millisecond

// A player is one answer. It is said once those before it are over.
type player struct {
	line  *Line
	on    func(audio.PlayEvent)
	guard *clocks.Ending
	done  chan struct{} // closed when its end has been told

	// Guarded by line.mu:
	waiting  []audio.Frame // until its turn comes
	active   bool          // it is
	rate     int
	resample *audio.Resampler
	runs     []run // as it is said
	total    time.Duration
	end      time.Duration // of what is said by now
	closed   bool
	over     bool            // its end is decided
	told     bool            // or about to be
	watches  []time.Duration // of what was not said yet
	stalls   int
	stalled  time.Duration
}

// A run is sound that is said without a pause.
type run struct {
	offset, at, length time.Duration
}

// Answer opens the way back for one answer. When ctx ends, that is a Stop.
func (l *Line) Answer(ctx context.Context, id trace.ID, on func(audio.PlayEvent)) audio.Player {
	p := &player{line: l, on: on, done: make(chan struct{})}
	l.mu.Lock()
	if s := l.turns[id.Turn]; s != nil && s.live && !s.answering {
		s.answering = true
		l.wake()
	}
	l.voices = append(l.voices, p)
	p.active = len(l.voices) == 1
	l.mu.Unlock()
	p.guard = clocks.OnEnd(ctx, l.o.Clock, p.Stop)
	return p
}

// Play says f, or keeps it until the answers before it are over.
func (p *player) Play(f audio.Frame) {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	switch {
	case p.closed || p.over:
	case p.active:
		p.speak(f)
	default:
		p.waiting = append(p.waiting, f)
	}
}

// speak says f, at the line's rate.
func (p *player) speak(f audio.Frame) {
	if f.Rate != p.rate {
		p.flush()
		p.rate, p.resample = f.Rate, nil
		if f.Rate != p.line.o.Rate {
			r, err := audio.NewResampler(f.Rate, p.line.o.Rate)
			if err != nil {
				p.conclude(audio.PlayStopped, p.line.o.Clock.Now(), 0)
				return
			}
			p.resample = r
		}
	}
	if p.resample != nil {
		var err error
		if f, err = p.resample.Push(f); err != nil {
			p.conclude(audio.PlayStopped, p.line.o.Clock.Now(), 0)
			return
		}
	}
	p.say(f)
}

func (p *player) flush() {
	if p.resample != nil {
		p.say(p.resample.Flush())
	}
}

// say hands f to the port.
func (p *player) say(f audio.Frame) {
	if len(f.PCM) == 0 || p.over {
		return
	}
	l := p.line
	at, err := l.o.Port.Speak(f)
	if err != nil { // the call is over
		p.conclude(audio.PlayStopped, l.o.Clock.Now(), 0)
		return
	}
	switch {
	case len(p.runs) == 0:
		l.tell.put(event{audio.PlayEvent{Kind: audio.PlayQueued, At: l.o.Clock.Now()}, p})
		l.tell.put(event{audio.PlayEvent{Kind: audio.PlayStarted, At: at + l.o.Packet, Setting: "packet=" + l.o.Packet.String()}, p})
		p.runs = append(p.runs, run{0, at, 0})
	case at > p.end+slack:
		p.stalls++
		p.stalled += at - p.end
		for _, e := range []audio.PlayEvent{{Kind: audio.PlayStalled, At: p.end + l.o.Packet}, {Kind: audio.PlayResumed, At: at + l.o.Packet}} {
			e.Playback = audio.Playback{Played: p.total, Underruns: p.stalls, Stalled: p.stalled}
			l.tell.put(event{e, p})
		}
		p.runs = append(p.runs, run{p.total, at, 0})
	}
	r := &p.runs[len(p.runs)-1]
	r.length += f.Duration()
	p.total = r.offset + r.length
	p.end = r.at + r.length
	p.watches = slices.DeleteFunc(p.watches, p.reach)
}

// reach arranges to tell when offset is heard, if that is known.
func (p *player) reach(offset time.Duration) bool {
	for _, r := range p.runs {
		if offset >= r.offset && offset < r.offset+r.length {
			at := r.at + offset - r.offset + p.line.o.Packet
			p.line.tell.put(event{audio.PlayEvent{Kind: audio.PlayReached, At: at}, p})
			return true
		}
	}
	return false
}

// Watch asks for a PlayReached.
func (p *player) Watch(offset time.Duration) {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if !p.over && !p.reach(offset) {
		p.watches = append(p.watches, offset)
	}
}

// Close says that no more sound comes.
func (p *player) Close() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.closed || p.over {
		return
	}
	p.closed = true
	if p.active {
		p.finish()
	}
}

// finish ends an answer that is complete, once it has been heard.
func (p *player) finish() {
	p.flush()
	at := p.line.o.Clock.Now()
	if len(p.runs) > 0 {
		at = max(at, p.end+p.line.o.Packet)
	}
	p.line.tell.put(event{audio.PlayEvent{Kind: audio.PlayEnded, At: at, Playback: p.playback(p.total)}, p})
}

func (p *player) playback(played time.Duration) audio.Playback {
	return audio.Playback{Played: played, Underruns: p.stalls, Stalled: p.stalled}
}

// Stop drops what has not been said.
func (p *player) Stop() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.over {
		return
	}
	now := p.line.o.Clock.Now()
	if len(p.runs) == 0 {
		p.conclude(audio.PlayStopped, now, 0)
		return
	}
	if p.closed && p.end+p.line.o.Packet <= now {
		return // it has been heard to its end
	}
	cut := p.line.o.Port.Hush()
	p.conclude(audio.PlayStopped, now+p.line.o.Packet, p.total-min(cut, p.total))
}

// conclude decides the end of an answer: nothing else that lies behind it happens.
func (p *player) conclude(kind audio.PlayKind, at, played time.Duration) {
	p.line.tell.drop(p, at)
	p.over = true
	p.line.tell.put(event{audio.PlayEvent{Kind: kind, At: at, Playback: p.playback(played)}, p})
}

// ends says that the end of an answer is about to be told, which happens once: a Stop
// that comes while it is told finds the answer over.
func (p *player) ends() bool {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	first := !p.told
	p.told, p.over = true, true
	return first
}

// ended is called when the end of an answer has been told.
func (p *player) ended() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	close(p.done)
	p.guard.Stop()
	l.voices = slices.DeleteFunc(l.voices, func(q *player) bool { return q == p })
	if len(l.voices) == 0 || l.voices[0].active {
		return
	}
	next := l.voices[0]
	next.active = true
	for _, f := range next.waiting {
		next.speak(f)
	}
	next.waiting = nil
	if next.closed {
		next.finish()
	}
}

// Wait waits until the end of the answer has been told.
func (p *player) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// An event is to be told to a player's owner.
type event struct {
	audio.PlayEvent
	to *player
}

// A teller tells events in order of time, one at a time.
type teller struct {
	clock  clocks.Clock
	mu     sync.Mutex
	events events
	count  int
	woken  chan struct{}
	closed bool
	gone   chan struct{}
}

// events is a heap by time, and by order where that is the same.
type events []numbered

type numbered struct {
	event
	n int
}

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].At < h[j].At || h[i].At == h[j].At && h[i].n < h[j].n
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(numbered)) }
func (h *events) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (t *teller) init(c clocks.Clock) {
	t.clock, t.woken, t.gone = c, make(chan struct{}, 1), make(chan struct{})
}

func (t *teller) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

func (t *teller) put(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	heap.Push(&t.events, numbered{e, t.count})
	t.wake()
}

// drop forgets what would happen to p after a time.
func (t *teller) drop(p *player, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = slices.DeleteFunc(t.events, func(e numbered) bool {
		return e.to == p && (e.At > after || e.Kind == audio.PlayEnded)
	})
	heap.Init(&t.events)
}

// close lets run end once all has been told.
func (t *teller) close() {
	t.mu.Lock()
	t.closed = true
	t.wake()
	t.mu.Unlock()
	<-t.gone
}

func (t *teller) run() {
	defer close(t.gone)
	for {
		t.mu.Lock()
		now := t.clock.Now()
		var next time.Duration
		var due *event
		switch {
		case len(t.events) == 0:
			if t.closed {
				t.mu.Unlock()
				return
			}
			next = now + time.Hour
		case t.events[0].At <= now:
			e := heap.Pop(&t.events).(numbered).event
			due = &e
		default:
			next = t.events[0].At
		}
		t.mu.Unlock()
		if due != nil {
			end := due.Kind == audio.PlayEnded || due.Kind == audio.PlayStopped
			if end && !due.to.ends() {
				continue
			}
			due.to.on(due.PlayEvent)
			if end {
				due.to.ended()
			}
			continue
		}
		at := make(chan struct{})
		alarm := t.clock.At(next, func() { close(at) })
		select {
		case <-at:
		case <-t.woken:
		}
		alarm.Stop()
	}
}
