// Package asrbench measures a recognizer by itself: recordings are replayed to it
// in real time, and what it says is held against what is known about them. The end
// of the speech is that of the recording, whatever the service makes of it.
package asrbench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/clocks/quantile"
)

// Options are how a recognizer is measured.
type Options struct {
	Utterances []*audio.Utterance // with texts, if there is to be a word error rate
	Language   string             // that the recognizer is told; empty: the recording's own
	RunID      string             // the head of all request IDs

	// Stop is how long after the true end of the speech the listener believes that
	// it is over, and tells the service where it wants to be told. Pipecat's figures
	// are for a VAD with 200 ms.
	Stop time.Duration

	Tail   time.Duration // silence after the speech, until there is no more sound
	Rounds int           // how often each recording is replayed at each level
}

// Defaults are those of Pipecat's stt-benchmark (stop_secs=0.2), with two seconds
// of silence, in which every service in it has answered at its P99.
func Defaults() Options {
	return Options{Stop: 200 * time.Millisecond, Tail: 2 * time.Second, Rounds: 1}
}

// An Outcome is what became of a trial.
type Outcome string

// The outcomes.
const (
	OK          Outcome = "ok"
	Empty       Outcome = "empty"                      // the final transcript has no word
	NoFinal     Outcome = "no_final"                   // the service ended without one
	Timeout             = Outcome(failure.Timeout)     // it did not come in time
	Refused             = Outcome(failure.Refused)     // the service refused the request
	Closed              = Outcome(failure.Closed)      // it closed the connection
	Unreachable         = Outcome(failure.Unreachable) // there is no connection, or no TLS on it
	Failed              = Outcome(failure.Failed)      // it says that it failed
	Interrupted Outcome = "interrupted"                // the run ended first
)

// Outcomes are all of them, in the order in which they are shown.
var Outcomes = []Outcome{OK, Empty, NoFinal, Timeout, Refused, Closed, Unreachable, Failed, Interrupted}

// Why a replay is not one in real time.
const (
	Late    = "late"    // sound was sent more than MaxLate after it was there, at P99
	Unpaced = "unpaced" // much of it was sent at once
)

// MaxLate is the P99 of the lateness up to which a replay counts as one in real
// time.
const MaxLate = 2 * time.Millisecond

// A Trial is one recording as it was recognized. Times are in nanoseconds; those
// that never came are absent. Moments are from the true end of the speech, and
// below zero before it, but for the first partial.
type Trial struct {
	RequestID string        `json:"request_id"`
	Utterance string        `json:"utterance"`
	Level     int           `json:"concurrency"`
	Cold      bool          `json:"cold"` // the first one of the run
	Began     time.Duration `json:"began_ns"`
	Start     time.Duration `json:"speech_start_ns"` // in the recording
	End       time.Duration `json:"speech_end_ns"`

	Connect      *time.Duration `json:"connect_ns,omitempty"`       // how long it took until the service took sound
	FirstPartial *time.Duration `json:"first_partial_ns,omitempty"` // after the true start of the speech
	Final        *time.Duration `json:"finalization_ns,omitempty"`  // the last final with a word
	AfterStop    *time.Duration `json:"after_stop_ns,omitempty"`    // the same, after the listener's word that it is over
	Endpoint     *time.Duration `json:"endpoint_ns,omitempty"`      // the first one after the end of the speech
	Finals       int            `json:"finals"`
	EarlyFinals  int            `json:"early_finals"` // before the end of the speech
	EarlyEnds    int            `json:"early_endpoints"`

	Text    string  `json:"text"`
	Said    string  `json:"said,omitempty"`
	Edits   *Edits  `json:"edits,omitempty"` // nil: it is not known what was said, or the trial failed
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`

	Frames   int            `json:"frames"`                 // that were handed over
	Sends    int            `json:"sends"`                  // to the wire, as far as the recognizer tells
	Lateness *time.Duration `json:"lateness_p99_ns"`        // of these, connecting left out; of the frames where there are none
	Pacing   string         `json:"pacing_label,omitempty"` // Late, Unpaced; empty: in real time
}

// A Bench measures a recognizer. Its methods Sent and Connected are to be told of
// what the recognizer does: see asr/live.Options.
type Bench struct {
	clock clocks.Clock
	o     Options

	mu     sync.Mutex
	trials map[string]*trial // that go on, by request ID
	number int
}

// New returns a Bench on clock, which has to be a Real one.
func New(clock clocks.Clock, o Options) (*Bench, error) {
	switch {
	case len(o.Utterances) == 0:
		return nil, errors.New("asrbench: there is no recording")
	case o.Rounds < 1:
		return nil, fmt.Errorf("asrbench: %d rounds are none", o.Rounds)
	case o.Stop < 0 || o.Tail < o.Stop:
		return nil, fmt.Errorf("asrbench: the silence of %v after the speech has to be as long as the listener waits, %v", o.Tail, o.Stop)
	}
	return &Bench{clock: clock, o: o, trials: map[string]*trial{}}, nil
}

// A trial is one that goes on.
type trial struct {
	Trial
	handed *quantile.Series
	sent   *quantile.Series
	ready  time.Duration // on the clock; when the connection was there
	first  [2]time.Duration
	last   [2]time.Duration // offset and time of a send
}

// Sent is told of each piece of sound that was written.
func (b *Bench) Sent(requestID string, offset, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.trials[requestID]
	if t == nil {
		return
	}
	t.Sends++
	due := t.Began + offset
	if due <= t.ready { // it waited for the connection
		return
	}
	if t.sent.N() == 0 {
		t.first = [2]time.Duration{offset, at}
	}
	t.last = [2]time.Duration{offset, at}
	t.sent.Add(int64(at - due))
}

// Connected is told how long it took until a service would take sound.
func (b *Bench) Connected(requestID string, began, done time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.trials[requestID]; t != nil && t.Connect == nil {
		took := done - began
		t.Connect, t.ready = &took, done
	}
}

// Run replays all recordings to r, level of them at a time, and passes each trial
// to keep, one after the other. The error is keep's, or the cause of ctx.
func (b *Bench) Run(ctx context.Context, r asr.Recognizer, level int, keep func(Trial) error) error {
	// The ticks of the listeners do not fall together, as those of real calls do not.
	return clocks.Share(ctx, b.clock, level, frame, slices.Repeat(b.o.Utterances, b.o.Rounds),
		func(ctx context.Context) (func(*audio.Utterance) Trial, func()) {
			return func(u *audio.Utterance) Trial { return b.listen(ctx, r, u, level) }, func() {}
		}, keep)
}

// listen is one trial.
func (b *Bench) listen(ctx context.Context, r asr.Recognizer, u *audio.Utterance, level int) Trial {
	t := &trial{handed: quantile.New(10_000), sent: quantile.New(10_000)}
	b.mu.Lock()
	t.Trial = Trial{RequestID: fmt.Sprintf("%s-%d", b.o.RunID, b.number), Utterance: u.ID, Level: level, Cold: b.number == 0,
		Start: u.Start, End: u.End, Said: u.Text}
	b.number++
	b.trials[t.RequestID] = t
	t.Began = b.clock.Now()
	b.mu.Unlock()

	language := b.o.Language
	if language == "" {
		language = u.Language
	}
	end := t.Began + u.End
	told := false
	req := asr.Request{RequestID: t.RequestID, Attempt: 1, Language: language, Finalize: func(ctx context.Context) error {
		if told { // the speaker does not go on
			return b.clock.SleepUntil(ctx, 1<<62)
		}
		told = true
		return b.clock.SleepUntil(ctx, end+b.o.Stop)
	}}
	var failed error
	var text []byte
	for res, err := range r.Recognize(ctx, req, replay{b, t, u}) {
		if failed = err; err != nil {
			break
		}
		b.mu.Lock()
		t.heard(res, end, b.o.Stop)
		b.mu.Unlock()
		if res.Kind == asr.Final && res.Text != "" {
			if len(text) > 0 {
				text = append(text, ' ')
			}
			text = append(text, res.Text...)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.trials, t.RequestID)
	t.Text = string(text)
	t.judge(ctx, failed)
	return t.Trial
}

// heard takes a result. end is the end of the speech on the clock.
func (t *trial) heard(res asr.Result, end, stop time.Duration) {
	after := res.At - end
	switch {
	case res.Kind == asr.Partial && t.FirstPartial == nil:
		since := res.At - t.Began - t.Start
		t.FirstPartial = &since
	case res.Kind == asr.Final:
		t.Finals++
		if after < 0 {
			t.EarlyFinals++
		}
		if res.Text != "" {
			told := after - stop
			t.Final, t.AfterStop = &after, &told
		}
	case res.Kind == asr.Endpoint && after < 0:
		t.EarlyEnds++
	case res.Kind == asr.Endpoint && t.Endpoint == nil:
		t.Endpoint = &after
	}
}

// judge says what became of t.
func (t *trial) judge(ctx context.Context, err error) {
	t.Outcome = OutcomeOf(ctx, err)
	if err != nil {
		t.Error = err.Error()
	}
	if t.Outcome == OK && len(Tokens(t.Text)) == 0 {
		t.Outcome = Empty
	}
	if (t.Outcome == OK || t.Outcome == Empty) && len(Tokens(t.Said)) > 0 {
		e := Compare(t.Said, t.Text)
		t.Edits = &e
	}
	late := t.sent
	if late.N() == 0 {
		late = t.handed
	}
	if late.N() > 0 {
		p99 := time.Duration(late.Of(0.99))
		t.Lateness = &p99
		if p99 > MaxLate {
			t.Pacing = Late
		}
	}
	const most, least = time.Second, 0.9
	if sound := t.last[0] - t.first[0]; sound > most && float64(t.last[1]-t.first[1]) < least*float64(sound) {
		t.Pacing = Unpaced
	}
}

// OutcomeOf says what kind of failure err is; nil is OK.
func OutcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil:
		return Interrupted
	case errors.Is(err, live.ErrNoFinal):
		return NoFinal
	}
	return Outcome(failure.Of(err))
}

// frame is the sound in a packet of a call: 20 ms, as everybody sends it.
const frame = 20 * time.Millisecond

// replay is a recording on its way to the recognizer, by ticks that are counted
// from its beginning: lateness does not add up.
type replay struct {
	b *Bench
	t *trial
	u *audio.Utterance
}

// Utterance implements audio.Speech.
func (s replay) Utterance() *audio.Utterance { return s.u }

// Await implements audio.Speech.
func (s replay) Await(ctx context.Context, offset time.Duration) (time.Duration, error) {
	at := s.t.Began + (offset+frame-1)/frame*frame
	if at > s.b.clock.Now() {
		return at, s.b.clock.SleepUntil(ctx, at)
	}
	return at, context.Cause(ctx)
}

// Frames implements audio.Speech.
func (s replay) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		rate, pcm := s.u.Sound.Rate, s.u.Sound.PCM
		for i := 0; time.Duration(i)*frame < s.u.End+s.b.o.Tail; i++ {
			due := s.t.Began + time.Duration(i+1)*frame
			if err := s.b.clock.SleepUntil(ctx, due); err != nil {
				yield(audio.Frame{}, err)
				return
			}
			from, to := audio.Samples(time.Duration(i)*frame, rate), audio.Samples(time.Duration(i+1)*frame, rate)
			sound := make([]int16, to-from)
			if from < len(pcm) {
				copy(sound, pcm[from:])
			}
			s.b.mu.Lock()
			s.t.Frames++
			s.t.handed.Add(int64(s.b.clock.Now() - due))
			s.b.mu.Unlock()
			if !yield(audio.Frame{Rate: rate, PCM: sound}, nil) {
				return
			}
		}
	}
}
