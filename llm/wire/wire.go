// Package wire asks a language model over the network and measures the answer:
// every event of it is timed by the arrival of the bytes that completed it,
// before anything is parsed. What a kind of service wants to be asked, and what
// its events mean, is a Protocol's.
package wire

import (
	"context"
	"net/http"
	"time"

	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/stream"
)

// A Protocol is how a kind of service is asked, and what its events mean. It may
// be used from several goroutines.
type Protocol interface {
	Name() string

	// Request returns the HTTP request for req, without what the Client adds:
	// X-Request-Id and traceparent.
	Request(ctx context.Context, req llm.Request) (*http.Request, error)

	// NewReader returns what reads the body of one answer with the status 200.
	NewReader(resp Response) Reader
}

// A Response is the head of an answer.
type Response struct {
	Status int
	Header http.Header
}

// A Reader reads one answer.
type Reader interface {
	// Decoder returns what takes the body apart: a new one.
	Decoder() stream.Decoder

	// Read says in e, which is zero but for capacity, what an event means. The
	// error is that it is not what the protocol has.
	Read(raw stream.Event, e *Event) error
}

// An Event is what an event of an answer means. It may mean several things.
type Event struct {
	Role      bool    // it names who speaks
	Content   string  // visible text
	Reasoning string  // text that is not for the user
	Pieces    []Piece // of tool calls
	Finish    string  // the reason: "stop", "length", "tool_calls" …
	Usage     *Usage
	Server    *record.Server // the service's own timings
	Fault     string         // an error in the service's own words; "": none
	Done      bool           // the end mark of the stream
	Tokens    int            // in Content, if the event says so; 0: it does not
	Version   string         // of the service, if the event names one
}

// A Piece is a part of a tool call.
type Piece struct {
	Index     int // of the call in the answer
	ID, Name  string
	Arguments string // the next part of them
}

// Usage is what the service counted. What it does not tell is nil. Where a
// service counts as it goes, the last is the whole.
type Usage struct {
	Prompt, Cached, Output, Reasoning *int
}

// Options are how a Client asks.
type Options struct {
	Exchange exchange.Options

	// Timeout is how long an attempt may take as a whole. 0: no limit.
	Timeout time.Duration

	// KeepReads is called for every piece of a body as it came, before it is
	// parsed, if it is not nil. The data are valid during the call.
	KeepReads func(requestID string, r exchange.Read)

	// OnEvent is called for every event of a body with its arrival, if it is not
	// nil. The data are valid during the call.
	OnEvent func(requestID string, e stream.Event, at time.Duration)

	// Segment says whether text, all that has come so far, holds the first piece
	// that would be spoken. It is asked for the first 4 KB of an answer. Nil:
	// FirstSentence.
	Segment func(text string) bool

	// Count counts the tokens of a text, after the answer has ended. Nil: nobody
	// does, and where the service does not count either, content events are
	// counted.
	Count func(text string) (int, error)
}
