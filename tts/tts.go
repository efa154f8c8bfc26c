// Package tts defines speech synthesis.
package tts

import (
	"context"
	"iter"
	"time"

	"firstsound/audio"
	"firstsound/clocks/trace"
)

// A Request opens the speech of one answer.
type Request struct {
	ID        trace.ID // the turn
	RequestID string   // sent to the service
	Attempt   int      // from 1
	Language  string   // of the text: "en", "zh"; empty if not known
	Voice     string   // in the service's own words; empty: its default
}

// A Chunk is a piece of synthesized sound, or news of the connection.
type Chunk struct {
	At        time.Duration // when it arrived, on the clock of the run
	Connected bool          // the connection is ready; there is no sound in this chunk
	Sound     audio.Frame   // all chunks of an answer have one rate
	Last      bool          // it is the last of the piece of text that it speaks
	Words     []Word        // when the words in Sound begin, where the service tells
}

// A Word is a word and its place in the sound of a chunk.
type Word struct {
	Text  string
	Start time.Duration
}

// A Synthesizer turns text into speech.
type Synthesizer interface {
	// Speak takes pieces of text (sentences, clauses) as they come and yields
	// their speech, in order, as it arrives: each piece is flushed, it does not
	// wait for the next one. It yields an error last, if there is one, in the
	// service's own words; if ctx ends, one that wraps its cause. It stops early if the caller stops the iteration or
	// ctx ends; all that it started has ended when it returns.
	Speak(ctx context.Context, req Request, text iter.Seq[string]) iter.Seq2[Chunk, error]
}
