// Package llm defines language models that stream their answers.
package llm

import (
	"context"
	"iter"
	"time"

	"firstsound/clocks/trace"
)

// A Role says who speaks in a Message.
type Role string

const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Result    Role = "tool" // of a tool call
)

// A Message is one entry of a conversation.
type Message struct {
	Role       Role       `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of an Assistant
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a Result
}

// A Tool is what the model may ask to be called.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  string `json:"parameters,omitempty"` // JSON Schema
}

// A ToolCall is the model's wish to have a tool called.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// Params are the parameters of a request that are fixed for a run.
type Params struct {
	Model       string
	MaxTokens   int      // 0: the service's own limit
	Temperature *float64 // nil: the service's own
}

// A Request asks for the continuation of a conversation.
type Request struct {
	ID        trace.ID // the turn
	RequestID string   // sent to the service
	Attempt   int      // from 1, over all requests of the turn
	Language  string   // of the user: "en", "zh"; empty if not known
	Params    Params
	Messages  []Message
	Tools     []Tool

	// PromptTokens is how long Messages are in tokens, as far as the caller
	// can tell; CachedTokens how many at their head the service saw before.
	PromptTokens, CachedTokens int

	// SharedTokens is how many at their head all sessions have: the system
	// prompt.
	SharedTokens int

	// Matters says whether text, which comes after what it was asked about
	// before, has to be delivered at once. A model that knows its answer in
	// advance may join pieces of content for which it returned false with the
	// next ones, so that nobody has to wake for them. Nil: all of them matter.
	Matters func(text string) bool
}

// A Kind says what a Delta brings.
type Kind int

const (
	Connected Kind = iota // the connection is ready for the request
	Headers               // the response's headers have arrived
	Empty                 // a chunk without content: role only, or empty
	Reasoning             // Text is reasoning, which is not spoken
	Content               // Text is visible content
	Call                  // Call is a whole tool call
	Usage                 // Tokens is the output length as the service counts it, Prompt that of the prompt
	Timings               // Queue and Prefill are the service's own timings
	Finish                // Text is the reason: "stop", "length", "tool_calls" …
)

// A Delta is a piece of the answer.
type Delta struct {
	At     time.Duration // when it arrived, on the clock of the run
	Kind   Kind
	Text   string
	Tokens int      // of Content: how many tokens are in Text, 0 if not known; of Usage: all of the output
	Prompt int      // of Usage
	Call   ToolCall // of Call

	Queue, Prefill *time.Duration // of Timings; nil where the service does not tell
}

// A Model continues a conversation.
type Model interface {
	// Generate yields the answer piece by piece, as the model produces it, and
	// an error last, if there is one, in the service's own words; if ctx
	// ends, one that wraps its cause. It makes one
	// attempt: a retry is the caller's. It stops early if the caller stops the
	// iteration or ctx ends; all that it started has ended when it returns.
	Generate(ctx context.Context, req Request) iter.Seq2[Delta, error]
}
