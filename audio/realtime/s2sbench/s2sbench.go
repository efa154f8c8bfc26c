// Package s2sbench measures a speech-to-speech agent from outside: recordings are
// said to it in real time, and the wait for its answer is counted from the true end
// of the speech, which is the recording's, to the first sample that can be heard.
// What the agent tells of its work cuts the wait into segments that add up to it.
package s2sbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/audio/realtime"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/clocks/quantile"
)

// Options are how an agent is measured.
type Options struct {
	Agent      realtime.Options
	Utterances []*audio.Utterance
	Turns      int // at each level, the recordings one after the other; 0: each one once
	Session    int // turns in a session, after which another one is opened
}

// An Outcome is what became of a turn.
type Outcome string

// The outcomes.
const (
	OK          Outcome = "ok"
	Silent      Outcome = "silent"                     // there is an answer, in which nothing is to be heard
	Timeout             = Outcome(failure.Timeout)     // there is no session, or no answer, in time
	Refused             = Outcome(failure.Refused)     // the service refused the session
	Closed              = Outcome(failure.Closed)      // it closed the connection
	Unreachable         = Outcome(failure.Unreachable) // there is no connection, or no TLS on it
	Failed              = Outcome(failure.Failed)      // it says that it failed
	Interrupted Outcome = "interrupted"                // the run ended first
)

// Outcomes are all of them, in the order in which they are shown.
var Outcomes = []Outcome{OK, Silent, Timeout, Refused, Closed, Unreachable, Failed, Interrupted}

// Late labels a turn in which sound was sent more than MaxLate after it was there,
// at P99: its figures are too long by that.
const (
	Late    = "late"
	MaxLate = 2 * time.Millisecond
)

// The segments of a wait, in their order. One whose end the service does not tell
// is joined with the one after it, by a plus sign.
const (
	Sending  = "sending"  // until the message with the last sound of the speech is written: the rest of its frame, and the lateness of the harness
	Endpoint = "endpoint" // until input_audio_buffer.speech_stopped: the silence that the agent waits for, and the network
	Response = "response" // until response.created
	Answer   = "answer"   // until the first response.output_audio.delta
	Onset    = "onset"    // until its first audible sample is played: silence at the head of the answer, and stalls
)

var order = []string{Sending, Endpoint, Response, Answer, Onset}

// A Segment is a part of a wait, in nanoseconds. It is below zero where the
// service tells things in another order, or answers before the speech is over.
type Segment struct {
	Name string        `json:"name"`
	Took time.Duration `json:"ns"`
}

// A Trial is a turn. Times are in nanoseconds; those that never came are absent.
// Moments are from the true end of the speech, and below zero before it.
type Trial struct {
	Number    int           `json:"number"`
	Utterance string        `json:"utterance"`
	Level     int           `json:"concurrency"`
	Cold      bool          `json:"cold"`            // the first turn of the run
	InSession int           `json:"turn_in_session"` // from 0
	Began     time.Duration `json:"began_ns"`        // on the clock of the run
	End       time.Duration `json:"speech_end_ns"`   // in the recording

	Connect *time.Duration `json:"connect_ns,omitempty"` // until the agent had taken the settings of the session; in its first turn

	Sent    *time.Duration `json:"sent_ns,omitempty"`
	Stopped *time.Duration `json:"speech_stopped_ns,omitempty"`
	Created *time.Duration `json:"response_created_ns,omitempty"`
	Delta   *time.Duration `json:"first_delta_ns,omitempty"`
	Wait    *time.Duration `json:"first_audible_ns,omitempty"`
	Done    *time.Duration `json:"response_done_ns,omitempty"`

	// Segments add up to Wait.
	Segments []Segment `json:"segments,omitempty"`

	Answers    int           `json:"answers"`         // that were created
	Premature  int           `json:"premature"`       // … before the one that counts: the agent took a pause for the end
	Early      bool          `json:"early"`           // the answer is heard before the speech is over
	Slow       bool          `json:"slow_completion"` // it was heard, and not done in time
	Stalled    time.Duration `json:"stalled_ns"`      // of a player without a buffer
	Length     time.Duration `json:"answer_length_ns"`
	Transcript string        `json:"transcript,omitempty"`

	Outcome  Outcome        `json:"outcome"`
	Error    string         `json:"error,omitempty"`
	Lateness *time.Duration `json:"lateness_p99_ns,omitempty"` // of the messages with sound
	Pacing   string         `json:"pacing_label,omitempty"`    // Late; empty: in real time
}

// A Bench measures an agent.
type Bench struct {
	clock  clocks.Clock
	o      Options
	mu     sync.Mutex
	number int
}

// New returns a Bench on clock, which has to be a Real one.
func New(clock clocks.Clock, o Options) (*Bench, error) {
	switch {
	case len(o.Utterances) == 0:
		return nil, errors.New("s2sbench: there is no recording")
	case o.Turns < 0:
		return nil, fmt.Errorf("s2sbench: %d turns are none", o.Turns)
	case o.Session < 1:
		return nil, fmt.Errorf("s2sbench: %d turns in a session are none", o.Session)
	}
	if err := o.Agent.Check(); err != nil {
		return nil, fmt.Errorf("s2sbench: %w", err)
	}
	return &Bench{clock: clock, o: o}, nil
}

// Turns returns how many turns there are at each level.
func (b *Bench) Turns() int { return cmp.Or(b.o.Turns, len(b.o.Utterances)) }

// Run has the turns, level of them at a time, and passes each one to keep, one
// after the other. The error is keep's, or the cause of ctx.
func (b *Bench) Run(ctx context.Context, level int, keep func(Trial) error) error {
	turns := make([]*audio.Utterance, b.Turns())
	for i := range turns {
		turns[i] = b.o.Utterances[i%len(b.o.Utterances)]
	}
	// The ticks of the callers do not fall together, as those of real calls do not.
	return clocks.Share(ctx, b.clock, level, b.o.Agent.Frame, turns,
		func(ctx context.Context) (func(*audio.Utterance) Trial, func()) {
			c := caller{b: b, level: level}
			return func(u *audio.Utterance) Trial { return c.say(ctx, u) }, c.hangUp
		}, keep)
}

// A caller has one session after the other.
type caller struct {
	b       *Bench
	level   int
	session *realtime.Session
	turns   int // in it
}

func (c *caller) hangUp() {
	if c.session != nil {
		c.session.Close()
	}
	c.session, c.turns = nil, 0
}

// say is one trial.
func (c *caller) say(ctx context.Context, u *audio.Utterance) Trial {
	b := c.b
	b.mu.Lock()
	t := Trial{Number: b.number, Utterance: u.ID, Level: c.level, Cold: b.number == 0, End: u.End, Began: b.clock.Now()}
	b.number++
	b.mu.Unlock()
	var err error
	if c.session == nil {
		if c.session, err = realtime.Dial(ctx, b.clock, b.o.Agent); err != nil {
			t.judge(ctx, err)
			return t
		}
		took := c.session.Setup.Updated - c.session.Setup.Began
		t.Connect = &took
	}
	t.InSession = c.turns
	turn, err := c.session.Turn(ctx, realtime.Request{Utterance: u})
	t.read(turn)
	t.judge(ctx, err)
	if c.turns++; err != nil || c.turns == b.o.Session {
		c.hangUp()
	}
	return t
}

// read takes what happened.
func (t *Trial) read(turn realtime.Turn) {
	t.Began = turn.Began
	end := turn.Began + t.End
	after := func(at *time.Duration) *time.Duration {
		if at == nil {
			return nil
		}
		d := *at - end
		return &d
	}
	late := quantile.New(len(turn.Late))
	for _, d := range turn.Late {
		late.Add(int64(d))
	}
	if late.N() > 0 {
		p99 := time.Duration(late.Of(0.99))
		t.Lateness = &p99
		if p99 > MaxLate {
			t.Pacing = Late
		}
	}
	t.Sent = after(turn.Spoken)
	if t.Answers = len(turn.Answers); t.Answers == 0 {
		return
	}
	t.Premature = counts(turn.Answers, end)
	a := turn.Answers[t.Premature]
	if a.Status == "cancelled" {
		return
	}
	t.Created, t.Delta, t.Wait, t.Done = after(&a.Created), after(a.FirstDelta), after(a.FirstSound), after(a.Done)
	t.Stopped = after(stopped(turn.Marks, a.ID))
	t.Stalled, t.Length, t.Transcript = a.Stalled, a.Sound.Duration(), a.Transcript
	t.Early = t.Wait != nil && *t.Wait < 0
	t.Segments = t.segments()
}

// counts returns the answer that counts: the first one with sound that was created
// after the end of the speech, and was not cut off by the agent, or else the last.
func counts(all []realtime.Answer, end time.Duration) int {
	i := slices.IndexFunc(all, func(a realtime.Answer) bool {
		return a.Created >= end && a.FirstSound != nil && a.Status != "cancelled"
	})
	if i < 0 {
		return len(all) - 1
	}
	return i
}

// stopped returns when the service told of the end of the speech that an answer is
// to: the last time before it was created, or the first one after.
func stopped(marks []realtime.Mark, answer string) (at *time.Duration) {
	created := slices.IndexFunc(marks, func(m realtime.Mark) bool { return m.Event == "response.created" && m.ID == answer })
	for i := range marks {
		if marks[i].Event != "input_audio_buffer.speech_stopped" {
			continue
		}
		if i > created && at != nil {
			break
		}
		at = &marks[i].At
	}
	return at
}

// segments cuts the wait at the moments that are known.
func (t *Trial) segments() (all []Segment) {
	if t.Wait == nil {
		return nil
	}
	var from time.Duration
	var names []string
	for i, at := range []*time.Duration{t.Sent, t.Stopped, t.Created, t.Delta, t.Wait} {
		names = append(names, order[i])
		if at == nil {
			continue
		}
		all = append(all, Segment{strings.Join(names, "+"), *at - from})
		from, names = *at, nil
	}
	return all
}

// judge says what became of t.
func (t *Trial) judge(ctx context.Context, err error) {
	t.Outcome = outcomeOf(ctx, err)
	switch {
	case t.Outcome == Timeout && t.Wait != nil:
		t.Outcome, t.Slow = OK, true // what was heard was heard
	case t.Outcome == OK && t.Wait == nil:
		t.Outcome = Silent
		err = errors.New("the answer has no sound")
		if t.Delta != nil {
			err = errors.New("the sound of the answer is not audible")
		}
	}
	if err != nil {
		t.Error = err.Error()
	}
}

// outcomeOf says what kind of failure err is; nil is OK.
func outcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil:
		return Interrupted
	}
	return Outcome(failure.Of(err))
}
