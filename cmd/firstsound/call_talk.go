package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/ear"
	"firstsound/audio/rtc"
	"firstsound/clocks"
	"firstsound/pipeline/report"
)

// A voiceLine is a call to an agent, at the caller's end.
type voiceLine interface {
	// speak plays f as the microphone from now on, and returns when its first
	// sample is said.
	speak(f audio.Frame) (time.Duration, error)
	codec() codec.Codec
	// announce tells the agent, if it is ours, that a recording begins at a moment.
	announce(ctx context.Context, requestID, utterance string, at time.Duration)
	// sends returns what has been sent so far.
	sends() *sendLog
	// track says whether the agent has said that it will send sound.
	track() bool
	close()
}

// A sendLog says when packets left.
type sendLog struct {
	due, at []time.Duration
}

func (l *sendLog) add(due, at time.Duration) { l.due, l.at = append(l.due, due), append(l.at, at) }

// left returns when the packet with the sample that is said at a moment left: a
// packet that is due at D has the sound from D - 20 ms to D.
func (l *sendLog) left(said time.Duration) (time.Duration, bool) {
	i, _ := slices.BinarySearch(l.due, said)
	if i == len(l.due) || l.due[i]-said >= codec.Frame {
		return 0, false
	}
	return l.at[i], true
}

// late returns by how much packets left later than they were due.
func (l *sendLog) late() []time.Duration {
	late := make([]time.Duration, len(l.due))
	for i := range late {
		late[i] = l.at[i] - l.due[i]
	}
	return late
}

// A talk is one call.
type talk struct {
	c      *caller
	number int
	line   voiceLine

	connected time.Duration // when it was, on the run's clock

	mu      sync.Mutex
	packets []ear.Packet
	heard   time.Duration   // of sound in them
	loud    []time.Duration // when packets with sound came
	rows    map[string]*report.TurnRow
	offset  *time.Duration // of the agent's clock to ours
	least   time.Duration  // the round trip that offset comes from
	ended   error          // why nothing more comes
	track   bool
}

// A turnAsked is what was said in a turn.
type turnAsked struct {
	ear.Turn
	id        string
	utterance *audio.Utterance
	left      *time.Duration // when the packet with the end of speech left; nil: it never did
	frame     audio.Frame
	began     time.Duration
	barged    bool // it was spoken into the answer before
}

// audibleGate is the level of a packet that counts as sound while the call goes on.
// What the report says comes from package ear; this decides only when to go on.
const audibleGate = -50.0 // dBFS

// What an agent may send: answers that come as fast as they are made, and packets of
// 2 ms, but no flood.
const (
	maxAhead    = 5 * time.Minute
	mostPackets = 10_000
)

// hear takes a packet of the agent.
func (t *talk) hear(p ear.Packet) {
	loud := audio.RMS(p.Sound) > audibleGate
	t.mu.Lock()
	defer t.mu.Unlock()
	t.track = true
	t.heard += p.Sound.Duration()
	since := p.Arrived - t.connected
	if t.heard > since+maxAhead || len(t.packets) > mostPackets+int(since/(2*time.Millisecond)) {
		if t.ended == nil {
			t.ended = fmt.Errorf("the agent has sent %v of sound in %d packets within %v: more than anybody can hear", t.heard.Round(time.Second), len(t.packets), since.Round(time.Second))
		}
		return
	}
	t.packets = append(t.packets, p)
	if loud {
		t.loud = append(t.loud, p.Arrived)
	}
}

// sounds returns the first and the last packet with sound after a time.
func (t *talk) sounds(after time.Duration) (first, last time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.loud) - 1; i >= 0 && t.loud[i] > after; i-- {
		first, ok = t.loud[i], true
	}
	if ok {
		last = t.loud[len(t.loud)-1]
	}
	return first, last, ok
}

func (t *talk) broken() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// pause waits a little for news of the call. It returns why nothing more comes, if
// that is so.
func (t *talk) pause(ctx context.Context) error {
	if err := t.broken(); err != nil {
		return err
	}
	return t.c.clock.Sleep(ctx, codec.Frame) // news come with packets
}

func (t *talk) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		if err == nil {
			err = errors.New("the agent hung up")
		}
		t.ended = err
	}
}

// A callResult is what a call came to.
type callResult struct {
	number    int
	talk      *talk // nil: it was not connected
	err       error
	connected *time.Duration // from the offer to the connection
	stage     ear.Stage      // reached
	codec     codec.Codec
	asked     []turnAsked
	heard     []ear.Report
	rows      map[string]*report.TurnRow
	offset    *time.Duration
	roundTrip time.Duration
	late      []time.Duration
	drift     *float64
	driftWhy  string
	lost      int
	kernel    bool
	known     bool // the answers were compared with what they should be
}

// call makes a call and plays its turns. done is called after each.
func (c *caller) call(ctx context.Context, number int, done func()) *callResult {
	r := &callResult{number: number, stage: ear.Nothing}
	t := &talk{c: c, number: number, rows: map[string]*report.TurnRow{}}
	began := c.clock.Now()
	var err error
	if c.protocol == "ws" || c.protocol == "twilio" {
		err = c.dialSocket(ctx, t)
	} else {
		err = c.dialPeer(ctx, t)
	}
	if err != nil {
		r.err = err
		c.log.keep(number, 1, t, nil, err)
		return r
	}
	connected := t.connected - began
	r.connected, r.stage, r.codec = &connected, ear.Connected, t.line.codec()
	for n := 1; n <= c.turns && ctx.Err() == nil; n++ {
		a, err := t.turn(ctx, n, r.asked)
		if a != nil {
			r.asked = append(r.asked, *a)
		}
		c.log.keep(number, n, t, a, err)
		done()
		if err != nil {
			r.err = err
			break
		}
	}
	c.clock.Sleep(ctx, 100*time.Millisecond) // for the agent's last marks
	log := t.line.sends()
	r.late = log.late()
	for i := range r.asked {
		if at, ok := log.left(r.asked[i].End + r.codec.Delay); ok {
			r.asked[i].left = &at
		}
	}
	t.line.close()
	r.talk = t
	return r
}

// turn plays one recording and waits for the answer's end, or for the moment to
// speak into it.
func (t *talk) turn(ctx context.Context, n int, before []turnAsked) (*turnAsked, error) {
	c := t.c
	u := c.recordings[(t.number-1+n-1)%len(c.recordings)]
	f := c.sound(u, t.line.codec().Rate)
	a := &turnAsked{id: c.requestID(t.number, n), utterance: u, frame: f}
	at, err := t.line.speak(f)
	if err != nil {
		return nil, err
	}
	t.line.announce(ctx, a.id, u.ID, at)
	a.began, a.Start, a.End = at, at+u.Start, at+u.End
	if len(before) > 0 {
		_, last, ok := t.sounds(before[len(before)-1].End)
		a.barged = ok && last > at-60*time.Millisecond
	}
	err = t.listen(ctx, a)
	a.Until = max(c.clock.Now(), a.End)
	return a, err
}

// listen waits until the turn is over.
func (t *talk) listen(ctx context.Context, a *turnAsked) error {
	c := t.c
	whole := a.began + a.frame.Duration()
	for {
		if err := t.pause(ctx); err != nil {
			return err
		}
		now := c.clock.Now()
		first, last, ok := t.sounds(a.End)
		switch {
		case now < whole:
		case !ok && now > a.End+c.wait:
			return nil
		case ok && c.interruptAfter != nil && now >= first+*c.interruptAfter && now < last+100*time.Millisecond:
			return nil
		case ok && now > last+c.quiet:
			return c.clock.Sleep(ctx, c.gap)
		case ok && now > first+2*time.Minute:
			return fmt.Errorf("the agent has spoken for two minutes")
		}
	}
}

// judgeAll works out what was heard, when all calls are over: before, it would take the
// processors from those that go on. Calls that were interrupted are judged all the same.
func judgeAll(ctx context.Context, clock clocks.Clock, results []*callResult, progress *counter) {
	begin := func(context.Context) (func(*callResult) error, func()) {
		return func(r *callResult) error { r.judge(); return nil }, func() {}
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	clocks.Share(ctx, clock, runtime.NumCPU(), 0, results, begin, func(error) error {
		progress.one()
		return nil
	})
	progress.done()
	for _, r := range results {
		if r != nil && r.talk != nil {
			r.unjudged(errors.New("not judged: interrupted"))
		}
	}
}

// unjudged says that nobody knows what was heard.
func (r *callResult) unjudged(why error) {
	r.err = errors.Join(r.err, why)
	r.heard = slices.Repeat([]ear.Report{{Status: ear.Unjudged, Stage: r.stage}}, len(r.asked))
}

// judge works out what was heard in a call that is over.
func (r *callResult) judge() {
	if r == nil || r.talk == nil {
		return
	}
	t := r.talk
	r.talk = nil // or all that was heard would be kept
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.track || t.line.track() {
		r.stage = ear.Track
	}
	r.rows, r.offset, r.roundTrip = t.rows, t.offset, t.least
	o := ear.Defaults(t.line.codec().ClockRate)
	s, err := ear.New(t.packets, o)
	if err != nil {
		r.unjudged(err)
		return
	}
	r.known = t.c.known != nil
	turns := make([]ear.Turn, len(r.asked))
	for i, a := range r.asked {
		turns[i] = a.Turn
		turns[i].Reached, turns[i].Known = r.stage, t.c.known
	}
	if r.heard, err = s.Turns(turns); err != nil {
		r.unjudged(err)
	}
	r.drift, r.driftWhy = s.Drift()
	if t.c.record != "" {
		r.err = errors.Join(r.err, t.keep(r))
	}
}

// fromRTC makes a packet of ours.
func fromRTC(k rtc.Packet, f audio.Frame, kind ear.Kind) ear.Packet {
	return ear.Packet{Index: k.Index, Timestamp: k.Timestamp, Arrived: k.Arrived, Kind: kind, Sound: f}
}
