package live

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/tts"
)

// A Session is one answer at a service that takes text while it speaks. One
// goroutine calls Say and End, another one Next, and Close comes last.
type Session interface {
	// Say hands over a piece of text, such that it is spoken at once.
	Say(text string) error

	// End says that no more text comes.
	End() error

	// Next waits for what the service says next, which may be nothing of
	// interest.
	Next(ctx context.Context) (Heard, error)

	// Close ends the answer. Whole says that all of it was spoken, so that the
	// connection can be used again.
	Close(whole bool)
}

// Heard is what a message of a service says.
type Heard struct {
	Chunks []tts.Chunk // of sound
	At     time.Duration
	Pieces int  // how many pieces of text are spoken to their end with it
	Over   bool // all that were handed over are
}

// lastWords is how long a service may take to say why it took no more text.
const lastWords = time.Second

var errAllSaid = errors.New("everything has been said")

// Stream speaks the pieces of an answer in one session, each handed over when it
// comes. The session is opened first. The connection may be lost while there is
// no text to speak: that is a failure too.
//
// Text is waited for by a goroutine of its own. If the caller stops, or the
// service fails, while there is no text, that goroutine ends when text yields or
// ends; all else has ended when the iteration is over.
func Stream(ctx context.Context, c clocks.Clock, name string, o Options, text iter.Seq[string], open func(ctx context.Context) (Session, error)) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		s := stream{voice: voice{ctx: ctx, clock: c, yield: yield}, timeout: o.timeout(), fed: clocks.NewQueue[struct{}](c, "the text of an answer")}
		s.end(name, o.Key, s.run(text, open))
	}
}

// stream is an answer in a session.
type stream struct {
	voice
	timeout time.Duration
	session Session
	fresh   time.Duration           // sound since lively
	cancel  context.CancelCauseFunc // of the inner context
	fed     *clocks.Queue[struct{}] // closed when no more text comes

	mu      sync.Mutex
	pieces  []bool // that are not over yet: false for the empty ones
	textEnd bool
	waiting bool          // for text
	over    bool          // no more text is wanted
	lively  time.Duration // when there was the last progress, or piece of text
	alarm   clocks.Alarm
}

func (s *stream) run(text iter.Seq[string], open func(ctx context.Context) (Session, error)) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	connecting, cancel := clocks.WithTimeout(s.ctx, s.clock, s.timeout, Unconnected(s.timeout))
	session, err := open(connecting)
	cancel()
	if err != nil {
		return err
	}
	s.session = session
	whole := false
	defer func() { s.close(whole) }()
	if err := s.tell(tts.Chunk{At: s.clock.Now(), Connected: true}); err != nil {
		return err
	}
	inner, stop := clocks.WithCancel(s.ctx, s.clock)
	defer stop(nil)
	s.cancel = stop
	s.waiting = true
	s.clock.Go("text of an answer", func() { s.feed(text) })
	err = s.hear(inner)
	whole = err == nil
	return err
}

// close ends the session, and the goroutine of the text unless it waits for text.
func (s *stream) close(whole bool) {
	s.mu.Lock()
	s.over = true
	waiting := s.waiting
	s.mu.Unlock()
	s.session.Close(whole)
	if !waiting && s.cancel != nil {
		s.fed.Get(context.Background())
	}
	s.mu.Lock()
	s.alarm.Stop()
	s.mu.Unlock()
}

// feed hands over the text.
func (s *stream) feed(text iter.Seq[string]) {
	defer s.fed.Close()
	var failed error
	for t := range text {
		if !s.taken(t) {
			return
		}
		if strings.TrimSpace(t) != "" {
			failed = s.session.Say(t)
		}
		if failed != nil || !s.wait() {
			break
		}
	}
	s.mu.Lock()
	over := s.over
	s.waiting = false
	s.mu.Unlock()
	if over || s.ctx.Err() != nil {
		return
	}
	if failed == nil {
		failed = s.session.End()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.textEnd = true
	switch {
	case s.open() == 0:
		s.cancel(errAllSaid)
	case failed != nil:
		// Why the service takes no more, it may be about to say.
		s.alarm = s.clock.At(s.clock.Now()+lastWords, func() { s.cancel(failed) })
	}
}

// taken notes a piece that came. It is false if it is not wanted any more.
func (s *stream) taken(t string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
	if s.over || s.ctx.Err() != nil {
		return false
	}
	s.pieces = append(s.pieces, strings.TrimSpace(t) != "")
	s.lively = s.clock.Now()
	return true
}

// wait notes that text is waited for. It is false if none is wanted.
func (s *stream) wait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = !s.over
	return !s.over
}

// open returns how many pieces are to be spoken. The caller holds mu.
func (s *stream) open() (n int) {
	for _, p := range s.pieces {
		if p {
			n++
		}
	}
	return n
}

// hear yields sound until all is said.
func (s *stream) hear(ctx context.Context) error {
	for {
		h, err := s.next(ctx)
		switch {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case ctx.Err() != nil && errors.Is(context.Cause(ctx), errAllSaid):
			return s.finish(0, s.clock.Now())
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		for _, c := range h.Chunks {
			if err := s.tell(c); err != nil {
				return err
			}
		}
		s.news(h)
		if done, err := s.spoken(h); done || err != nil {
			return err
		}
	}
}

// news notes what was heard, and has been taken by the caller. Messages without
// sound, or with next to none, are no progress.
func (s *stream) news(h Heard) {
	for _, c := range h.Chunks {
		s.fresh += c.Sound.Duration()
	}
	if s.fresh < leastSound && h.Pieces == 0 && !h.Over {
		return
	}
	s.fresh = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lively = s.clock.Now()
}

// next waits for the next message, but not longer than the timeout while there is
// a piece to speak.
func (s *stream) next(ctx context.Context) (Heard, error) {
	for {
		s.mu.Lock()
		idle, since := s.open() == 0, s.lively
		s.mu.Unlock()
		left := s.timeout
		if !idle {
			if left = since + s.timeout - s.clock.Now(); left <= 0 {
				return Heard{}, Silent(s.timeout) // however many messages there are
			}
		}
		limited, cancel := clocks.WithTimeout(ctx, s.clock, left, errPatience)
		h, err := s.session.Next(limited)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, errPatience) {
			return h, err
		}
		s.mu.Lock()
		late := s.open() > 0 && s.clock.Now() >= s.lively+s.timeout
		s.mu.Unlock()
		if late {
			return Heard{}, Silent(s.timeout)
		}
	}
}

var errPatience = errors.New("no message")

// spoken notes the pieces that are over with h. It returns true if all are.
func (s *stream) spoken(h Heard) (bool, error) {
	s.mu.Lock()
	n := h.Pieces
	if h.Over {
		n = s.open()
	}
	s.mu.Unlock()
	if n > 0 && s.sound == 0 {
		return false, ErrNoSound
	}
	if n > 0 {
		s.sound = 0
	}
	if err := s.finish(n, h.At); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.textEnd && len(s.pieces) == 0, nil
}

// finish tells that n pieces are over, and the empty ones before, between and, at
// the end, behind them.
func (s *stream) finish(n int, at time.Duration) error {
	for {
		s.mu.Lock()
		if len(s.pieces) == 0 || s.pieces[0] && n == 0 || !s.pieces[0] && n == 0 && !s.textEnd {
			s.mu.Unlock()
			return nil
		}
		if s.pieces[0] {
			n--
		}
		s.pieces = s.pieces[1:]
		s.mu.Unlock()
		if err := s.tell(tts.Chunk{At: at, Last: true}); err != nil {
			return err
		}
	}
}
