// Package ttssim is a model of a streaming speech synthesizer: it draws how long
// the service takes, and makes as much sound as the text would have.
package ttssim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/tts"
)

// A Synthesizer is a model. It may be used by several turns at once.
type Synthesizer struct {
	clock  clocks.Clock
	seed   uint64
	o      Options
	err    error // what a failure is
	sounds *sounds

	mu      sync.Mutex
	used    map[int]time.Duration // by session: when its connection was last used
	crowded int                   // with so many sessions, look for those that are over
}

// New returns a model on clock, whose draws depend on seed and on the session,
// the turn and the attempt of a request, and on nothing else. Whether there is
// a connection depends on the requests before.
func New(clock clocks.Clock, seed uint64, o Options) *Synthesizer {
	s := &Synthesizer{
		clock: clock, seed: seed, o: o, err: fmt.Errorf("tts: %s", o.Error),
		used: map[int]time.Duration{}, crowded: crowd,
	}
	if err := o.Check(); err != nil {
		s.err, s.o.Fail, s.o.FailAfter = fmt.Errorf("tts: %w", err), 1, random.Dist{}
	} else {
		s.sounds = soundsAt(o.SampleRate)
	}
	return s
}

// crowd is how many sessions with connections are too many to keep those that
// are over.
const crowd = 1024

// connected returns whether the session has a connection at the time now.
func (s *Synthesizer) connected(session int, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.used[session]
	return ok && s.o.KeepAlive > 0 && now-last <= s.o.KeepAlive
}

func (s *Synthesizer) use(session int, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[session] = now
	if len(s.used) < s.crowded {
		return
	}
	for session, last := range s.used { // sessions that are over, wherever their clock stands
		if now-last > s.o.KeepAlive+clocks.Lead {
			delete(s.used, session)
		}
	}
	s.crowded = max(crowd, 2*len(s.used))
}

// Speak implements tts.Synthesizer. It works on one piece at a time: the next
// one begins when its text is there and the piece before is made.
//
// So that nobody wakes for nothing, Connected is yielded with the first sound,
// with the time at which it happened, and chunks after the first one of a piece
// are joined, but only so far that no player runs dry because of it: one that
// began with the first chunk has half of what it had left to play when the next
// one arrives. A chunk is (sound told − time since the first) / (2·RTF) long, at
// least Chunk, at most 4 s. With an RTF of 0.5 or more all of them are Chunk
// long. If ctx ends, the sound that had arrived by then is yielded first.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		a := answer{Synthesizer: s, ctx: ctx, req: &req, yield: yield}
		if err := a.run(text); err != nil && err != errStopped {
			yield(tts.Chunk{}, err)
		}
	}
}

var errStopped = errors.New("the caller stopped the iteration")

// answer is the speech of one answer.
type answer struct {
	*Synthesizer
	ctx   context.Context
	req   *tts.Request
	yield func(tts.Chunk, error) bool

	ready time.Duration // when the connection is
	told  bool          // that it is
	piece int           // from 1
	said  int           // samples of voice so far
}

// source returns the draws for one purpose, for the whole answer or for one
// piece. Each has its own, so that an option moves no draw but its own.
func (a *answer) source(purpose string, piece int) random.Source {
	return random.New(a.seed, purpose, a.req.ID.Session, a.req.ID.Turn, a.req.Attempt, piece)
}

func (a *answer) draw(d random.Dist, purpose string, piece int) time.Duration {
	if v, ok := d.Constant(); ok {
		return v
	}
	src := a.source(purpose, piece)
	return d.Draw(&src)
}

func (a *answer) run(text iter.Seq[string]) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	a.ready = a.clock.Now()
	if !a.connected(a.req.ID.Session, a.ready) {
		a.ready += a.draw(a.o.Connect, "tts.connect", 0)
	}
	for t := range text {
		a.piece++
		if err := a.speak(t); err != nil {
			return err
		}
	}
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if a.told {
		a.use(a.req.ID.Session, a.clock.Now())
	}
	return a.connection()
}

// connection tells that the connection is ready, once it is.
func (a *answer) connection() error {
	now := a.clock.Now()
	if a.told || now < a.ready {
		return nil
	}
	a.told = true
	a.use(a.req.ID.Session, now)
	if !a.yield(tts.Chunk{At: a.ready, Connected: true}, nil) {
		return errStopped
	}
	return nil
}

// wait sleeps until t, and then tells of the connection. If ctx ends it does
// that too.
func (a *answer) wait(t time.Duration) error {
	ended := a.clock.SleepUntil(a.ctx, t)
	if err := a.connection(); err != nil {
		return err
	}
	return ended
}

// speak tells a piece.
func (a *answer) speak(text string) error {
	began := max(a.clock.Now(), a.ready)
	if a.piece == 1 && a.o.Fail > 0 {
		if src := a.source("tts.fail", 0); src.Chance(a.o.Fail) {
			if err := a.wait(began + a.draw(a.o.FailAfter, "tts.fail_after", 0)); err != nil {
				return err
			}
			return a.err
		}
	}
	p := piece{answer: a, voice: audio.Samples(a.o.length(text), a.o.SampleRate)}
	if p.voice == 0 { // nothing to say
		if err := a.wait(began); err != nil {
			return err
		}
		return p.tell(0, 0, true)
	}
	if a.said == 0 {
		p.lead = audio.Samples(a.draw(a.o.LeadSilence, "tts.lead", 0), a.o.SampleRate)
	}
	p.tail = audio.Samples(a.draw(a.o.TailSilence, "tts.tail", a.piece), a.o.SampleRate)
	total := p.lead + p.voice + p.tail

	at := began + a.draw(a.o.FirstAudio, "tts.first", a.piece)
	if a.o.Stall > 0 && total > 1 {
		src := a.source("tts.stall", a.piece)
		if where := 1 + src.Below(total-1); src.Chance(a.o.Stall) {
			made, err := p.make(at, where, total)
			if err != nil {
				return err
			}
			at = made + a.draw(a.o.StallFor, "tts.stall_for", a.piece)
		}
	}
	_, err := p.make(at, total, total)
	return err
}

// piece is the sound of one piece of text, in samples: silence, voice, silence.
type piece struct {
	*answer
	lead, voice, tail int
	done              int // of all three
}

// make tells the sound up to sample to of total, from at on, when the first
// chunk of it arrives. It returns when the last one did.
func (p *piece) make(at time.Duration, to, total int) (time.Duration, error) {
	rate := p.o.SampleRate
	chunk := audio.Samples(p.o.Chunk, rate)
	began, from := at, p.done
	for n := min(chunk, to-p.done); n > 0; {
		if err := p.wait(at); err != nil {
			// Of a joined chunk some would have arrived, in chunks of the usual length.
			if now := p.clock.Now(); err != errStopped && p.done > from && now < at {
				missing := audio.Samples(time.Duration(float64(at-now)/p.o.RTF), rate)
				if err := p.tell(now, max(0, n-missing)/chunk*chunk, false); err != nil {
					return 0, err
				}
			}
			return 0, err
		}
		if err := p.tell(p.clock.Now(), n, p.done+n == total); err != nil {
			return 0, err
		}
		next := chunk
		if p.o.RTF < 0.5 {
			ahead := audio.Span(p.done-from, rate) - (at - began)
			next = audio.Samples(longest, rate)
			if p.o.RTF > 0 {
				next = min(next, audio.Samples(time.Duration(float64(ahead)/(2*p.o.RTF)), rate))
			}
			next = max(next, chunk)
		}
		n = min(next, to-p.done)
		at += p.making(n)
	}
	return at, nil
}

// making returns how long n samples take to make.
func (p *piece) making(n int) time.Duration {
	return time.Duration(float64(audio.Span(n, p.o.SampleRate)) * p.o.RTF)
}

// tell yields the next n samples, which arrive at at: a chunk of silence and a
// chunk of voice, if they hold both.
func (p *piece) tell(at time.Duration, n int, last bool) error {
	if n == 0 && last {
		return p.chunk(tts.Chunk{At: p.clock.Now(), Sound: p.sounds.quiet(0), Last: true})
	}
	for _, end := range [3]int{p.lead, p.lead + p.voice, p.lead + p.voice + p.tail} {
		for n > 0 && p.done < end {
			k := min(n, end-p.done)
			c := tts.Chunk{At: at}
			if p.done >= p.lead && p.done < p.lead+p.voice {
				c.Sound = p.sounds.speech(p.said, k)
				p.said += k
			} else {
				c.Sound = p.sounds.quiet(k)
			}
			p.done += k
			n -= k
			c.Last = last && n == 0
			if err := p.chunk(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *piece) chunk(c tts.Chunk) error {
	if !p.yield(c, nil) {
		return errStopped
	}
	return nil
}
