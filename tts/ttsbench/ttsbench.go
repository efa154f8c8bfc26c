// Package ttsbench measures a synthesizer by itself: texts are given to it, and
// the sound that comes is held against the time in which it has to be played.
package ttsbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Options are how a synthesizer is measured.
type Options struct {
	Texts  []Text
	Voice  string // empty: the provider's
	RunID  string // the head of all request IDs
	Rounds int    // how often each text is spoken at each level
}

// An Outcome is what became of a trial.
type Outcome string

// The outcomes.
const (
	OK          Outcome = "ok"
	Inaudible   Outcome = "inaudible"                  // there was sound, and none to be heard by the rule of audio.Audible
	Empty       Outcome = "empty"                      // there was no sound
	Timeout             = Outcome(failure.Timeout)     // nothing came in time
	Refused             = Outcome(failure.Refused)     // the service refused the request
	Closed              = Outcome(failure.Closed)      // it closed the connection
	Unreachable         = Outcome(failure.Unreachable) // there is no connection, or no TLS on it
	Failed              = Outcome(failure.Failed)      // anything else, in the words of the error
	Interrupted Outcome = "interrupted"                // the run ended first
)

// Outcomes are all of them, in the order in which they are shown.
var Outcomes = []Outcome{OK, Inaudible, Empty, Timeout, Refused, Closed, Unreachable, Failed, Interrupted}

// A Trial is one text as it was spoken. Times are in nanoseconds from the moment
// at which the text was handed over; those that never came are absent.
type Trial struct {
	RequestID  string        `json:"request_id"`
	Text       string        `json:"text_id"`
	Characters int           `json:"characters"`
	Level      int           `json:"concurrency"`
	Cold       bool          `json:"cold"` // the first one of the run
	Asked      time.Duration `json:"asked_ns"`

	Connect   *time.Duration `json:"connect_ns,omitempty"`       // the connection was ready; a kept one is at once
	FirstByte *time.Duration `json:"first_byte_ns,omitempty"`    // the first sound arrived
	Audible   *time.Duration `json:"first_audible_ns,omitempty"` // the first audible sample arrived
	Heard     *time.Duration `json:"heard_ns,omitempty"`         // a player that begins at the first byte plays it
	Lead      *time.Duration `json:"lead_silence_ns,omitempty"`  // sound before it
	Last      *time.Duration `json:"last_byte_ns,omitempty"`
	RTF       *float64       `json:"rtf,omitempty"` // Last by Length

	Length  time.Duration  `json:"length_ns"` // of the sound
	Rate    int            `json:"rate"`
	Chunks  int            `json:"chunks"`
	Stalls  int            `json:"stalls"` // of the player
	Stalled time.Duration  `json:"stalled_ns"`
	Ahead   *time.Duration `json:"headroom_ns,omitempty"` // least sound that was left to play when more came; below zero, a stall. Nil: all came at once

	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// A Bench measures a synthesizer.
type Bench struct {
	clock clocks.Clock
	o     Options

	mu     sync.Mutex
	number int
}

// New returns a Bench on clock.
func New(clock clocks.Clock, o Options) (*Bench, error) {
	switch {
	case len(o.Texts) == 0:
		return nil, errors.New("ttsbench: there is no text")
	case o.Rounds < 1:
		return nil, fmt.Errorf("ttsbench: %d rounds are none", o.Rounds)
	}
	return &Bench{clock: clock, o: o}, nil
}

// Run has all texts spoken by s, level of them at a time, and passes each trial to
// keep, one after the other. The error is keep's, or the cause of ctx.
func (b *Bench) Run(ctx context.Context, s tts.Synthesizer, level int, keep func(Trial) error) error {
	return clocks.Share(ctx, b.clock, level, 0, slices.Repeat(b.o.Texts, b.o.Rounds),
		func(ctx context.Context) (func(Text) Trial, func()) {
			return func(t Text) Trial { return b.speak(ctx, s, t, level) }, func() {}
		}, keep)
}

// speak is one trial.
func (b *Bench) speak(ctx context.Context, s tts.Synthesizer, text Text, level int) Trial {
	b.mu.Lock()
	n := b.number
	b.number++
	b.mu.Unlock()
	t := Trial{RequestID: fmt.Sprintf("%s-%d", b.o.RunID, n), Text: text.ID, Characters: len([]rune(text.Text)), Level: level, Cold: n == 0}
	req := tts.Request{RequestID: t.RequestID, Attempt: 1, Language: text.Language, Voice: b.o.Voice}
	var l listener
	var failed error
	t.Asked = b.clock.Now()
	for c, err := range s.Speak(ctx, req, func(yield func(string) bool) {
		t.Asked = b.clock.Now()
		yield(text.Text)
	}) {
		if failed = err; err != nil {
			break
		}
		if c.Connected && t.Connect == nil {
			t.Connect = since(c.At, t.Asked)
		}
		if len(c.Sound.PCM) > 0 {
			if failed = l.hear(&t, c); failed != nil {
				break
			}
		}
	}
	t.Outcome = outcome(ctx, failed)
	if failed != nil {
		t.Error = failed.Error()
	}
	switch {
	case t.Outcome != OK:
	case t.Chunks == 0:
		t.Outcome = Empty
	case t.Lead == nil:
		t.Outcome = Inaudible
	}
	if t.Last != nil && t.Length > 0 {
		rtf := float64(*t.Last) / float64(t.Length)
		t.RTF = &rtf
	}
	return t
}

// A listener plays the sound from its first byte on.
type listener struct {
	audible *audio.Audible
	samples int
	ends    time.Duration // when all that has come will have been played
	begins  []piece       // the chunks that the first audible sample may be in
}

// piece is a chunk: where it begins, when it came, and when it is played.
type piece struct {
	offset   int
	at, play time.Duration
}

// hear takes a chunk with sound.
func (l *listener) hear(t *Trial, c tts.Chunk) (err error) {
	if l.audible == nil {
		if l.audible, err = audio.NewAudible(c.Sound.Rate); err != nil {
			return err
		}
		t.Rate, l.ends = c.Sound.Rate, c.At
		t.FirstByte = since(c.At, t.Asked)
	} else {
		ahead := l.ends - c.At
		if t.Ahead == nil || ahead < *t.Ahead {
			t.Ahead = &ahead
		}
		if ahead < 0 {
			t.Stalls++
			t.Stalled -= ahead
			l.ends = c.At
		}
	}
	if t.Lead == nil {
		l.begins = append(l.begins, piece{l.samples, c.At, l.ends})
	}
	offset, found, err := l.audible.Push(c.Sound)
	if err != nil {
		return err
	}
	l.samples += len(c.Sound.PCM)
	l.ends += c.Sound.Duration()
	t.Chunks++
	t.Length = audio.Span(l.samples, t.Rate)
	t.Last = since(c.At, t.Asked)
	if found && t.Lead == nil {
		lead := audio.Span(offset, t.Rate)
		t.Lead = &lead
		p := l.begins[0]
		for _, next := range l.begins {
			if next.offset <= offset {
				p = next
			}
		}
		t.Audible = since(p.at, t.Asked)
		t.Heard = since(p.play+audio.Span(offset-p.offset, t.Rate), t.Asked)
		l.begins = nil
	}
	return nil
}

func since(at, asked time.Duration) *time.Duration {
	d := at - asked
	return &d
}

// outcome says what kind of failure err is; nil is OK.
func outcome(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil:
		return Interrupted
	case errors.Is(err, live.ErrNoSound):
		return Empty
	}
	return Outcome(failure.Of(err))
}
