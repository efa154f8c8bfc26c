// Package asrsim is a model of a streaming speech recognizer. It knows the
// recording that is being replayed, waits until the sound in question has
// arrived, and says after a drawn time what was said.
package asrsim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

// A Recognizer is a model. It may be used by several turns at once.
type Recognizer struct {
	clock clocks.Clock
	seed  uint64
	o     Options
	err   error // what a failure is

	mu         sync.Mutex
	recordings map[*audio.Utterance]*recording
}

// New returns a model on clock, whose draws depend on seed and on the session,
// the turn and the attempt of a request, and on nothing else.
func New(clock clocks.Clock, seed uint64, o Options) *Recognizer {
	return &Recognizer{
		clock: clock, seed: seed, o: o, err: fmt.Errorf("asr: %s", o.Error),
		recordings: map[*audio.Utterance]*recording{},
	}
}

// keepRecordings bounds how many utterances are kept in mind.
const keepRecordings = 4096

func (r *Recognizer) recording(u *audio.Utterance) *recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.recordings[u]
	if rec == nil {
		if len(r.recordings) >= keepRecordings {
			clear(r.recordings)
		}
		rec = study(u)
		r.recordings[u] = rec
	}
	return rec
}

var (
	errNoRecording = errors.New("asr: a model needs a recording to recognize, and nobody knows what this speech will say")
	errStopped     = errors.New("the caller stopped the iteration")
)

// Recognize implements asr.Recognizer. Before the end of the speech, results
// come when the sound in question has arrived at the agent; after it, when the
// drawn time has passed since the last sample of speech arrived. The text of a
// Partial begins after the last Final. An Endpoint may come after the Final.
func (r *Recognizer) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) {
		u := speech.Utterance()
		if u == nil {
			yield(asr.Result{}, errNoRecording)
			return
		}
		l := listening{Recognizer: r, ctx: ctx, req: &req, speech: speech, yield: yield, recording: r.recording(u)}
		if err := l.run(); err != nil && err != errStopped {
			yield(asr.Result{}, err)
		}
	}
}

// listening is the recognition of one utterance.
type listening struct {
	*Recognizer
	ctx    context.Context
	req    *asr.Request
	speech audio.Speech
	yield  func(asr.Result, error) bool
	*recording

	said  transcript // what is understood
	told  int        // words of the Finals so far
	shown int        // words of the last Partial
}

// source returns the draws for one purpose. Each has its own, so that an option
// moves no draw but its own.
func (l *listening) source(purpose string) random.Source {
	return random.New(l.seed, purpose, l.req.ID.Session, l.req.ID.Turn, l.req.Attempt)
}

func (l *listening) draw(d random.Dist, purpose string) time.Duration {
	if v, ok := d.Constant(); ok {
		return v
	}
	s := l.source(purpose)
	return d.Draw(&s)
}

func (l *listening) chance(p float64, purpose string) bool {
	if p <= 0 {
		return false
	}
	s := l.source(purpose)
	return s.Chance(p)
}

// A saying is something to be told: before the end of the speech at is an
// offset into the recording, after it a time on the clock.
type saying struct {
	at    time.Duration
	kind  asr.Kind
	words int
}

func byTime(a, b saying) int { return int(a.at - b.at) }

func (l *listening) run() error {
	l.said = l.transcript
	if l.o.WordErrors > 0 {
		l.said = l.said.misheard(l.o.WordErrors, l.source("asr.word"))
	}
	if l.chance(l.o.Empty, "asr.empty") {
		l.said = transcript{}
	}
	if err := l.during(); err != nil {
		return err
	}
	heard, err := l.speech.Await(l.ctx, l.end-l.o.Early)
	if err != nil {
		return err
	}
	return l.after(heard)
}

// during tells what there is to tell before the end of the speech.
func (l *listening) during() error {
	var space [8]saying
	plan := space[:0]
	if l.o.Partials && !l.o.FirstPartial.Zero() {
		at := l.start + l.draw(l.o.FirstPartial, "asr.first")
		plan = append(plan, saying{at, asr.Partial, max(1, l.words(at))})
	}
	if len(l.pauses) > 0 {
		plan = l.inPauses(plan)
	}
	if len(plan) > 1 {
		slices.SortStableFunc(plan, byTime)
	}
	for _, s := range plan {
		if s.at > l.end-l.o.Early || s.at == l.end-l.o.Early && s.kind != asr.Final {
			continue
		}
		if s.kind == asr.Partial && min(s.words, len(l.said.ends)) <= max(l.shown, l.told) {
			continue // nothing new
		}
		if _, err := l.speech.Await(l.ctx, s.at); err != nil {
			return err
		}
		if err := l.tell(s); err != nil {
			return err
		}
	}
	return nil
}

// inPauses adds what there is to tell about the pauses. Each option has draws of
// its own, and takes one for each pause.
func (l *listening) inPauses(plan []saying) []saying {
	interim, final := l.source("asr.pause"), l.source("asr.segment")
	endpoint, mistaken := l.source("asr.false_endpoint"), l.source("asr.mistaken")
	for _, p := range l.pauses {
		n, long := l.words(p.start), p.end-p.start
		if l.o.Partials && l.o.PausePartial > 0 {
			if after := l.o.Interim.Draw(&interim); long > l.o.PausePartial {
				plan = append(plan, saying{p.start + after, asr.Partial, n})
			}
		}
		if l.o.Segments > 0 {
			if after := l.o.Final.Draw(&final); long > l.o.Segments {
				plan = append(plan, saying{min(p.start+after, l.end-l.o.Early), asr.Final, n})
			}
		}
		if l.o.Endpoint != nil {
			after := l.o.Endpoint.Draw(&endpoint)
			if mistaken.Chance(l.o.FalseEndpoint) && long > l.o.PausePartial {
				plan = append(plan, saying{p.start + after, asr.Endpoint, 0})
			}
		}
	}
	return plan
}

// after tells the rest. The last sample of speech arrived at heard.
func (l *listening) after(heard time.Duration) error {
	final := heard + l.draw(l.o.Final, "asr.final")
	finalize := l.o.WaitForFinalize && l.req.Finalize != nil
	var space [2]saying
	plan := space[:0]
	if l.o.Partials {
		plan = append(plan, saying{heard + l.draw(l.o.Interim, "asr.interim"), asr.Partial, l.interimWords()})
	}
	if l.o.Endpoint != nil {
		plan = append(plan, saying{heard + l.draw(*l.o.Endpoint, "asr.endpoint"), asr.Endpoint, 0})
	}
	if len(plan) > 1 {
		slices.SortStableFunc(plan, byTime)
	}
	asked := false
	for finalize && len(plan) > 0 {
		var err error
		if asked, err = l.finalizedBy(plan[0].at); err != nil {
			return err
		}
		if asked {
			break
		}
		if err := l.tell(plan[0]); err != nil {
			return err
		}
		plan = plan[1:]
	}
	if finalize {
		if !asked {
			if err := l.req.Finalize(l.ctx); err != nil {
				return err
			}
		}
		final = l.clock.Now() + l.draw(l.o.Finalize, "asr.finalize")
	}
	for len(plan) > 0 && plan[0].at < final {
		if err := l.tellAt(plan[0]); err != nil {
			return err
		}
		plan = plan[1:]
	}
	if l.chance(l.o.Late, "asr.late") {
		clocks.NewQueue[struct{}](l.clock, "a final transcript that never comes").Get(l.ctx)
		return context.Cause(l.ctx)
	}
	if l.chance(l.o.Fail, "asr.fail") {
		if err := l.clock.SleepUntil(l.ctx, final); err != nil {
			return err
		}
		return l.err
	}
	if err := l.tellAt(saying{final, asr.Final, len(l.said.ends)}); err != nil {
		return err
	}
	for _, s := range plan {
		if s.kind == asr.Endpoint {
			return l.tellAt(s)
		}
	}
	return nil
}

// interimWords returns how many words the partial after the end of the speech has.
func (l *listening) interimWords() int {
	n := len(l.said.ends)
	s := l.source("asr.complete")
	if complete, lacks := s.Chance(l.o.InterimComplete), 1+s.Below(3); !complete {
		n -= lacks
	}
	return n
}

var errNotYet = errors.New("the listener has not asked for the final transcript yet")

// finalizedBy waits for Request.Finalize until t. It returns whether it came.
func (l *listening) finalizedBy(t time.Duration) (bool, error) {
	ctx, cancel := clocks.WithTimeout(l.ctx, l.clock, t-l.clock.Now(), errNotYet)
	defer cancel()
	err := l.req.Finalize(ctx)
	if err != nil && l.ctx.Err() == nil && context.Cause(ctx) == errNotYet {
		return false, nil
	}
	return err == nil, err
}

func (l *listening) tellAt(s saying) error {
	if err := l.clock.SleepUntil(l.ctx, s.at); err != nil {
		return err
	}
	return l.tell(s)
}

// tell yields s now. A Partial that brings no new word is left out.
func (l *listening) tell(s saying) error {
	words := min(s.words, len(l.said.ends))
	result := asr.Result{At: l.clock.Now(), Kind: s.kind}
	switch s.kind {
	case asr.Partial:
		if words <= max(l.shown, l.told) {
			return nil
		}
		l.shown = words
		result.Text = l.said.between(l.told, words)
	case asr.Final:
		result.Text = l.said.between(l.told, words)
		l.told = max(l.told, words)
	}
	if !l.yield(result, nil) {
		return errStopped
	}
	return nil
}
