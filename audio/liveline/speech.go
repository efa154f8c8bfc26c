package liveline

import (
	"context"
	"iter"
	"math"
	"time"

	"firstsound/audio"
	"firstsound/audio/vad"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

// unknown is the end of speech that goes on. It lies behind every call.
const unknown = 24 * time.Hour

// longest is how long a pipeline waits at most for something to come of speech that
// was found: as long as the longest recording that can be listened to.
const longest = keepSound / time.Second * time.Second

// A Speech is what a caller says, as the agent hears it.
type Speech struct {
	line   *Line
	u      *audio.Utterance
	live   bool  // found, not announced
	origin int64 // the place of offset 0
	first  int64 // where the speech or the recording begins

	// Of live speech:
	change    int  // its beginning in Line.changes
	answering bool // an answer has begun: what is said now is another turn
	ended     bool
}

// Utterance returns the recording that was announced, or nil.
func (s *Speech) Utterance() *audio.Utterance {
	if s.live {
		return nil
	}
	return s.u
}

// place returns the place of an offset.
func (s *Speech) place(offset time.Duration) int64 { return s.origin + s.line.samples(offset) }

// Await waits until the sound up to offset has arrived.
func (s *Speech) Await(ctx context.Context, offset time.Duration) (time.Duration, error) {
	if s.live && offset >= unknown {
		return s.awaitEnd(ctx)
	}
	return s.line.await(ctx, s.place(offset))
}

// await waits until the sound before a place, or later sound, has arrived, and
// returns when that was.
func (l *Line) await(ctx context.Context, place int64) (time.Duration, error) {
	for {
		l.mu.Lock()
		at, ok := l.arrived(place)
		closed, changed := l.closed, l.changed
		l.mu.Unlock()
		switch {
		case ok:
			return at, context.Cause(ctx)
		case closed != nil:
			return 0, closed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// arrived returns when the sound before a place had arrived. What is lost has
// arrived with what comes after it.
func (l *Line) arrived(place int64) (time.Duration, bool) {
	if l.end < place || len(l.pieces) == 0 {
		return 0, false
	}
	at, found := time.Duration(math.MaxInt64), false
	for i := len(l.pieces) - 1; i >= 0 && l.pieces[i].to >= place; i-- {
		at, found = min(at, l.pieces[i].arrived), true
	}
	return at, found
}

// Frames yields the sound in order, from just before the speech on. What is lost is
// silence, which comes with the sound after it.
func (s *Speech) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		l := s.line
		next := s.first
		if s.live {
			next -= l.samples(preroll)
		}
		for {
			if _, err := l.await(ctx, next+1); err != nil {
				yield(audio.Frame{}, err)
				return
			}
			l.mu.Lock()
			pcm, to, ok := l.sound(next)
			l.mu.Unlock()
			if !ok {
				yield(audio.Frame{}, errLong)
				return
			}
			next = to
			if !yield(audio.Frame{Rate: l.o.Rate, PCM: pcm}, nil) {
				return
			}
		}
	}
}

// sound returns the sound from a place on, as far as one piece goes; ok is false if
// it is not kept any more.
func (l *Line) sound(from int64) (pcm []int16, to int64, ok bool) {
	if from < l.dropped && l.dropped > 0 {
		return nil, 0, false
	}
	for _, p := range l.pieces {
		switch {
		case p.to <= from:
		case p.from > from:
			return make([]int16, p.from-from), p.from, true
		default:
			return p.pcm[from-p.from:], p.to, true
		}
	}
	return nil, 0, false
}

// over says whether further speech is another turn.
func (s *Speech) over() bool {
	if s.ended || s.answering {
		return true
	}
	at, ok := s.silent()
	return ok && s.line.o.Clock.Now() >= at+settle
}

// silent returns since when it has been silent, if it is.
func (s *Speech) silent() (time.Duration, bool) {
	c := s.line.changes[len(s.line.changes)-1]
	if c.speech {
		return 0, false
	}
	return s.line.moment(c.place), true
}

// Silent returns since when the caller has been silent, if that is so, as it was
// heard here.
func (s *Speech) Silent() (time.Duration, bool) {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	if len(s.line.changes) == 0 {
		return 0, false
	}
	at, ok := s.silent()
	return at + s.line.o.Packet, ok
}

// awaitEnd waits until it is certain where the speech ended: an answer begins, or
// it has been silent for long.
func (s *Speech) awaitEnd(ctx context.Context) (time.Duration, error) {
	l := s.line
	for {
		l.mu.Lock()
		if s.over() || l.closed != nil && len(l.changes) > s.change {
			end := l.end
			if c := l.changes[len(l.changes)-1]; !c.speech {
				end = c.place
			}
			at, ok := l.arrived(end)
			if !ok {
				at = l.o.Clock.Now()
			}
			s.ended = true
			s.u.End = l.span(end - s.origin)
			l.mu.Unlock()
			return at, context.Cause(ctx)
		}
		changed := l.changed
		wait := l.o.Clock.Now() + settle
		if at, ok := s.silent(); ok {
			wait = at + settle
		}
		l.mu.Unlock()
		if err := l.until(ctx, changed, wait); err != nil {
			return 0, err
		}
	}
}

// until waits for what comes first: news, a time, or the end of ctx, which is an
// error.
func (l *Line) until(ctx context.Context, changed <-chan struct{}, t time.Duration) error {
	due := make(chan struct{})
	alarm := l.o.Clock.At(t, func() { close(due) })
	defer alarm.Stop()
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// A Listener is a voice activity detector for lines of this package: what was
// announced it leaves to Known, which knows recordings; other speech it judges by
// what the line has found.
type Listener struct {
	Clock clocks.Clock
	Seed  uint64
	vad.Options
	Known interface {
		Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error]
	}
}

// grace is how much longer than the hangover it may take until the silence itself
// has come: two packets. A caller that sends none in silence is taken to be silent.
const grace = 40 * time.Millisecond

// Listen yields what it notices in speech.
func (v *Listener) Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error] {
	s, ok := speech.(*Speech)
	if !ok || !s.live {
		return v.Known.Listen(ctx, id, speech)
	}
	return func(yield func(audio.Activity, error) bool) {
		source := random.New(v.Seed, "vad", id.Session, id.Turn)
		tell := func(a audio.Activity) bool {
			a.At = v.Clock.Now() + v.Inference.Draw(&source)
			err := v.Clock.SleepUntil(ctx, a.At)
			return yield(a, err) && err == nil
		}
		l, speaking := s.line, false
		for i := s.change; ; {
			l.mu.Lock()
			if i >= len(l.changes) {
				done, closed, changed := s.ended || s.answering, l.closed, l.changed
				l.mu.Unlock()
				if done || closed != nil {
					return
				}
				if err := l.until(ctx, changed, v.Clock.Now()+settle); err != nil {
					yield(audio.Activity{}, err)
					return
				}
				continue
			}
			c := l.changes[i]
			heard := l.moment(c.place) + l.o.Packet
			l.mu.Unlock()
			i++
			a := audio.Activity{Speech: c.speech, Offset: l.span(c.place - s.origin)}
			if !c.speech {
				a.Setting = "vad.stop=" + v.Stop.String()
				ok, err := s.silentFor(ctx, c.place, i, heard+v.Stop+grace, v.Stop)
				if err != nil {
					yield(audio.Activity{}, err)
					return
				}
				if !ok {
					i++ // the beginning that follows at once
					continue
				}
			} else if speaking {
				continue
			}
			speaking = c.speech
			if !tell(a) {
				return
			}
		}
	}
}

// silentFor waits until it has been silent for a hangover from a place on, and
// returns false if change next is there before. At the time late it is silent in
// any case.
func (s *Speech) silentFor(ctx context.Context, place int64, next int, late, hangover time.Duration) (bool, error) {
	l := s.line
	for {
		l.mu.Lock()
		resumed := next < len(l.changes) && l.changes[next].place-place < l.samples(hangover)
		_, heard := l.arrived(place + l.samples(hangover))
		changed := l.changed
		l.mu.Unlock()
		switch {
		case resumed:
			return false, nil
		case heard, l.o.Clock.Now() >= late:
			return true, nil
		}
		if err := l.until(ctx, changed, late); err != nil {
			return false, err
		}
	}
}

// A broken speech is one that nobody says.
type broken struct{ err error }

// Utterance returns nil.
func (broken) Utterance() *audio.Utterance { return nil }

// Await returns the error.
func (b broken) Await(context.Context, time.Duration) (time.Duration, error) { return 0, b.err }

// Frames yields the error.
func (b broken) Frames(context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) { yield(audio.Frame{}, b.err) }
}
