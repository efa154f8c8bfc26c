// Package liveline is the line of a call that somebody really makes, over WebRTC
// or a WebSocket: it implements pipeline.Line, as netsim does with a model.
//
// # Who speaks
//
// A caller that replays recordings says so when each begins (Announce). The agent
// then knows the utterance, its text and its true bounds, and models of stages work
// as they do in a simulation; only the sound's way is real. Where nobody announces,
// the line finds speech by its energy, and where it ended is known once it has been
// silent for long enough.
//
// # Time
//
// The place of a sample on the caller's time line is counted in samples (Hear). When
// it left the microphone is not known at this end: it is taken to be as long ago as
// the fastest packet of the last seconds says, which had no time on the way.
//
// What is played begins when the port says so, and is heard a packet later, at an
// ear without a network: that is play_start. The caller's ear is elsewhere.
package liveline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/audio/vad"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// A Port sends sound to the caller in real time.
type Port interface {
	// Speak says f after what was said before, or from now on: it returns when
	// its first sample is said. The rate is that of the line.
	Speak(f audio.Frame) (time.Duration, error)

	// Hush cuts off what is to be said after now, and returns how much that was.
	Hush() time.Duration
}

// Options are the settings of a Line.
type Options struct {
	Clock  clocks.Clock
	Port   Port
	Rate   int           // of the sound in both directions
	Packet time.Duration // the sound in one packet of what is said
	Delay  time.Duration // of the codec: sound is so much further on in the stream than the caller says
}

// keepSound is how much of what the caller said can be listened to later: a
// recording of a minute, and what comes after it.
const keepSound = 90 * time.Second

// settle is how long after the end of speech further speech still belongs to it, as
// long as no answer begins.
const settle = 2 * time.Second

// preroll is the sound before the detected beginning of speech that recognizers get.
const preroll = 200 * time.Millisecond

var (
	// ErrClosed says that the call is over.
	ErrClosed = errors.New("liveline: the call is over")
	errLong   = fmt.Errorf("liveline: nobody listened to the sound within %v of its arrival", keepSound)
)

// A Line is the line of one call.
type Line struct {
	o Options

	mu       sync.Mutex
	closed   error         // why the call is over
	changed  chan struct{} // closed, and made anew, when something is heard
	pieces   []piece       // by place
	end      int64         // of what was heard
	dropped  int64         // what lies before is gone
	paths    []path        // the fastest packets
	energy   *vad.Energy
	fed      int64 // the detector has heard the sound up to here
	origin   int64 // the place of the detector's first sample
	changes  []change
	live     bool // speech that nobody announced is a turn
	upcoming *clocks.Queue[Said]
	taken    []*Speech // returned by Next, and not by Say
	current  *Speech   // the last one that the detector found
	turns    map[int]*Speech
	request  string // for the next speech that is found
	counted  int

	voices []*player // whose answers are not over, in order
	tell   teller
}

// A piece is sound that was heard together.
type piece struct {
	from, to int64
	arrived  time.Duration
	pcm      []int16
}

// A path is a packet's arrival less its place.
type path struct {
	at, base time.Duration
}

// A change is what the detector has noticed: from on there is speech, or none.
type change struct {
	speech bool
	place  int64
}

// A Said is what the caller begins to say.
type Said struct {
	Utterance *audio.Utterance
	RequestID string // empty if the caller has sent none
	Live      bool   // it was not announced
}

// New returns the line of a call that has begun. Close and then End end it.
func New(o Options) (*Line, error) {
	e, err := vad.NewEnergy(o.Rate)
	if err != nil {
		return nil, fmt.Errorf("liveline: %w", err)
	}
	l := &Line{
		o: o, energy: e, live: true, changed: make(chan struct{}), turns: map[int]*Speech{},
		upcoming: clocks.NewQueue[Said](o.Clock, "the caller to speak"),
	}
	l.tell.init(o.Clock)
	o.Clock.Go("what is played", l.tell.run)
	return l, nil
}

// Close ends the call: the caller has hung up, for the reason err if it is not nil.
func (l *Line) Close(err error) {
	l.mu.Lock()
	if l.closed == nil {
		l.closed = ErrClosed
		if err != nil {
			l.closed = fmt.Errorf("%w: %w", ErrClosed, err)
		}
		l.wake()
		l.upcoming.Close()
	}
	voices := slices.Clone(l.voices)
	l.mu.Unlock()
	for _, p := range voices {
		p.Stop()
	}
}

// End ends what the line does in the background. It is called after Close, when
// nobody answers any more.
func (l *Line) End() { l.tell.close() }

func (l *Line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Hear takes sound from the caller's microphone: place counts samples on the
// caller's time line.
func (l *Line) Hear(f audio.Frame, place int64, arrived time.Duration) error {
	if f.Rate != l.o.Rate {
		return fmt.Errorf("liveline: sound at %d samples a second on a line at %d", f.Rate, l.o.Rate)
	}
	if len(f.PCM) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return l.closed
	}
	p := piece{place, place + int64(len(f.PCM)), arrived, f.PCM}
	if len(l.pieces) == 0 {
		l.fed, l.origin, l.end = place, place, place
	}
	i := len(l.pieces)
	for i > 0 && l.pieces[i-1].from > place {
		i--
	}
	l.pieces = slices.Insert(l.pieces, i, p)
	l.measure(p)
	if p.to > l.end {
		l.end = p.to
		if err := l.detect(p); err != nil {
			return err
		}
	}
	if oldest := l.end - int64(audio.Samples(keepSound, l.o.Rate)); l.pieces[0].to < oldest {
		l.dropped = l.pieces[0].to
		l.pieces[0].pcm = nil
		l.pieces = l.pieces[1:]
	}
	l.wake()
	return nil
}

// span is how long n samples are. Unlike audio.Span it takes those before 0.
func (l *Line) span(n int64) time.Duration {
	return time.Duration(n/int64(l.o.Rate))*time.Second + time.Duration(n%int64(l.o.Rate)*int64(time.Second)/int64(l.o.Rate))
}

// fastest is how far back the fastest packet is looked for: NetEq's own window
// (webrtc's packet_arrival_history).
const fastest = 2 * time.Second

// measure keeps the packets that may be the fastest: of two, only the later one if
// it was not slower.
func (l *Line) measure(p piece) {
	now := path{p.arrived, p.arrived - l.span(p.to)}
	for len(l.paths) > 0 && l.paths[len(l.paths)-1].base >= now.base {
		l.paths = l.paths[:len(l.paths)-1]
	}
	for len(l.paths) > 0 && l.paths[0].at < now.at-fastest {
		l.paths = l.paths[1:]
	}
	l.paths = append(l.paths, now)
}

// moment returns when the sample at a place was said, as far as this end can know.
func (l *Line) moment(place int64) time.Duration {
	if len(l.paths) == 0 {
		return l.o.Clock.Now()
	}
	return l.paths[0].base + l.span(place)
}

// detect lets the detector hear p, with silence in place of what has not come.
func (l *Line) detect(p piece) error {
	gap := p.from - l.fed
	if most := int64(l.o.Rate); gap > most { // a second of it is silence enough
		l.origin += gap - most
		gap = most
	}
	pcm := p.pcm
	if gap > 0 {
		pcm = append(make([]int16, gap), pcm...)
	} else {
		pcm = pcm[-gap:]
	}
	l.fed = p.to
	changes, err := l.energy.Push(audio.Frame{Rate: l.o.Rate, PCM: pcm})
	if err != nil {
		return fmt.Errorf("liveline: %w", err)
	}
	for _, c := range changes {
		l.notice(change{c.Speech, l.origin + int64(audio.Samples(c.At, l.o.Rate))})
	}
	return nil
}

// notice takes what the detector has noticed.
func (l *Line) notice(c change) {
	l.changes = append(l.changes, c)
	if !c.speech || !l.live || l.closed != nil {
		return
	}
	if s := l.current; s != nil && !s.over() || len(l.taken) == mostAhead {
		return // it goes on, or nobody listens
	}
	now := l.o.Clock.Now()
	l.counted++
	u := &audio.Utterance{
		ID: fmt.Sprintf("live-%d", l.counted), Sound: audio.Frame{Rate: 1, PCM: make([]int16, longest/time.Second)},
		Start: l.moment(c.place) - now, End: unknown, Bounds: audio.BoundsDetected,
	}
	s := &Speech{line: l, u: u, live: true, origin: c.place - l.samples(u.Start), first: c.place, change: len(l.changes) - 1}
	l.current = s
	l.say(s, Said{Utterance: u, RequestID: l.request, Live: true})
	l.request = ""
}

// samples is how many samples d is; it takes what lies before 0.
func (l *Line) samples(d time.Duration) int64 {
	return int64(d/time.Second)*int64(l.o.Rate) + int64(d%time.Second)*int64(l.o.Rate)/int64(time.Second)
}

// mostAhead is how many turns of the caller may wait for their turn: one who talks on
// while nothing is answered, or who announces what is never said, fills no memory.
const mostAhead = 16

func (l *Line) say(s *Speech, said Said) {
	l.taken = append(l.taken, s)
	l.upcoming.Put(said)
}

// Announce says that the caller plays the recording u, whose first sample has a
// place on the caller's time line. From then on, only what is announced is a turn.
// The line may know it later than the first sound of it has come. The error says that
// too many are announced whose turn has not come; a closed line takes none, and says
// nothing.
func (l *Line) Announce(u *audio.Utterance, place int64, requestID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return nil
	case len(l.taken) == mostAhead:
		return fmt.Errorf("liveline: %d recordings wait for their turn: %s is not taken", mostAhead, u.ID)
	}
	l.live = false
	place += l.samples(l.o.Delay)
	l.say(&Speech{line: l, u: u, origin: place, first: place}, Said{Utterance: u, RequestID: requestID})
	return nil
}

// Detect says whether speech that nobody announces is a turn. It is until the first
// Announce. A request ID is for the next such turn.
func (l *Line) Detect(on bool, requestID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.request = on, requestID
}

// Next waits until the caller begins to speak. It returns false once the call is
// over or ctx has ended. Each Next is followed by a Say of its utterance.
func (l *Line) Next(ctx context.Context) (Said, bool) { return l.upcoming.Get(ctx) }

// Say returns the speech that the last Next returned.
func (l *Line) Say(id trace.ID, u *audio.Utterance) audio.Speech {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.taken) == 0 || l.taken[0].u != u {
		return broken{fmt.Errorf("liveline: nobody says %s", u.ID)}
	}
	s := l.taken[0]
	l.taken = l.taken[1:]
	if s.live { // its turn begins now, which may be later than it was found
		u.Start = l.moment(s.first) - l.o.Clock.Now()
		s.origin = s.first - l.samples(u.Start)
	}
	l.turns[id.Turn] = s
	delete(l.turns, id.Turn-8) // long over
	return s
}
