// Package asr defines speech recognition.
package asr

import (
	"context"
	"iter"
	"time"

	"firstsound/audio"
	"firstsound/clocks/trace"
)

// A Request is one utterance to be recognized.
type Request struct {
	ID        trace.ID // the turn
	RequestID string   // sent to the service
	Attempt   int      // from 1
	Language  string   // "en", "zh"; empty if not known

	// Finalize waits until the listener believes that the speech is over. A
	// recognizer whose service must be told so tells it then. The user may go on
	// all the same: called again, it waits for the next time. Nil if nobody will
	// say. It returns an error if ctx ends first.
	Finalize func(ctx context.Context) error
}

// A Kind says what a Result tells.
type Kind int

const (
	Partial  Kind = iota // Text is what has been understood since the last Final, and may still change
	Final                // Text is the transcript since the last Final, and does not change any more
	Endpoint             // the service says that the user has finished; Text is empty
)

// A Result is what a recognizer has to say.
type Result struct {
	At        time.Duration // when it arrived, on the clock of the run
	Kind      Kind
	Text      string
	Stability float64 // of a Partial: how sure the service is that it stays, 0 … 1; 0 if it does not say
}

// A Recognizer turns speech into text.
type Recognizer interface {
	// Recognize listens to one utterance as it arrives, and yields results as
	// they form, a Final at the end; only an Endpoint may come after the last one.
	// It yields an error last, if there is one, in the service's own words; if ctx
	// ends, an error that wraps its cause. It stops early if the caller stops the
	// iteration or ctx ends; all that it started has ended when it returns.
	Recognize(ctx context.Context, req Request, speech audio.Speech) iter.Seq2[Result, error]
}
