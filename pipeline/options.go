// Package pipeline runs calls: recorded utterances go in at one end of a line,
// through speech recognition, turn detection, the agent's work, a language
// model and a synthesizer, and come out as sound at the same end.
//
// Every stage is an interface; the code here is the same for models on a
// virtual clock and for services on the real one. It records marks and what
// each of them had to wait for, and works nothing out from them: that is
// package report's.
package pipeline

import (
	"context"
	"fmt"
	"iter"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/tts"
)

// A VAD says when speech begins and stops.
type VAD interface {
	// Listen yields what it notices in speech as it arrives. It stops early if
	// the caller stops the iteration or ctx ends.
	Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error]
}

// A Pause is what a turn detector has to judge: the VAD has said stop.
type Pause struct {
	ID     trace.ID
	Number int           // of the pauses of this turn, from 1
	Offset time.Duration // where in the sound the speech stopped, by the VAD
	Heard  time.Duration // how long the microphone had been open when the VAD said so
	Text   string        // the transcript so far
	Speech audio.Speech  // the sound so far
}

// A TurnDetector judges whether the user has finished.
type TurnDetector interface {
	// Finished returns whether the user who paused has finished.
	Finished(ctx context.Context, p Pause) (bool, error)
}

// A Step is a piece of the agent's work: a retrieval, a moderation, a tool.
type Step interface {
	// Do does the work for the turn and returns what the model is to read: a
	// text, and how long it is in tokens. n counts the calls of this step in
	// the turn from 1.
	Do(ctx context.Context, id trace.ID, n int, request string) (text string, tokens int, err error)
}

// A Named is a provider, or a step, and the name that reports show.
type Named[T any] struct {
	Name string
	Use  T
}

// Options are what a pipeline is made of. What is not there is skipped, as far
// as a call can do without.
type Options struct {
	Clock  clocks.Clock
	VAD    VAD // nil: only the recognizer's server can end a turn
	ASR    asr.Recognizer
	Turn   Endpointing
	Agent  Agent
	LLM    []Named[llm.Model] // the first answers; the others take over when it fails
	TTS    []Named[tts.Synthesizer]
	Params llm.Params
	Retry  Retry // of the model
	Speech Retry // of the synthesizer
	Cut    Cutting
	Memory Memory

	// ASRTimeout is how long a committed turn waits for a final transcript.
	// Then the last partial one serves, if there is one.
	ASRTimeout time.Duration
}

// Endpointing says when a pause is the end of a turn. Delays of 0 do not apply.
type Endpointing struct {
	Detector TurnDetector // nil: every stop of the VAD ends the turn
	Server   bool         // the recognizer's own endpoint ends the turn, not the VAD

	// MinDelay has to pass before a turn is committed: from the end of speech
	// as the VAD places it, so that it runs beside the VAD's own hangover; or,
	// with Add, from the moment of the decision. LiveKit does the first with a
	// VAD and the second without one (livekit/agents#4325).
	MinDelay time.Duration
	Add      bool

	// MaxDelay, from the VAD's stop, ends a turn that the detector takes for
	// unfinished.
	MaxDelay time.Duration

	// Preemptive says when the model is asked before the turn is committed.
	Preemptive Preemptive
}

// Preemptive says on what the model is asked before the turn is committed.
type Preemptive string

const (
	PreemptOff     Preemptive = "off"
	PreemptFinal   Preemptive = "final"   // on a final transcript
	PreemptPartial Preemptive = "partial" // on every transcript after the VAD's stop
)

// UnmarshalText refuses what is no Preemptive.
func (p *Preemptive) UnmarshalText(text []byte) error {
	switch v := Preemptive(text); v {
	case PreemptOff, PreemptFinal, PreemptPartial:
		*p = v
		return nil
	}
	return fmt.Errorf("%q is not one of off, final, partial", text)
}

// Agent is the work around the model.
type Agent struct {
	Steps    []Named[Step] // before every answer
	Parallel bool          // all steps at once, not one after the other
	Tools    []Named[Step] // what the model may call
	Filler   string        // what is said if the answer takes longer than FillerAfter; empty: nothing
	// FillerAfter counts from the commit of the turn.
	FillerAfter time.Duration
}

// Retry says what happens when an attempt fails before it has brought anything.
type Retry struct {
	Attempts int           // in all, over all providers; 1: no retry
	Timeout  time.Duration // for the first token, or the first sound; 0: none
	Backoff  time.Duration // before the second attempt, doubled before each further one
}
