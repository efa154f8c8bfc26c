// Package record defines what is kept of one attempt at a request to a language
// model that was measured: a line of requests.jsonl, in the words and with the
// rules of docs/metrics.md.
//
// All times are since the run began, on the run's clock. An event that came over
// the network is timed by its arrival at the host, not by when it was read; a
// moment that never came is absent (nil), never 0.
package record

import (
	"time"
)

// A Class is how an attempt ended. Only OK enters the quantiles of latency; all
// enter the shares.
type Class string

// The classes.
const (
	OK            Class = "ok"             // visible content came, and the stream ended as it should
	Empty         Class = "empty"          // it ended as it should without content
	ToolOnly      Class = "tool_only"      // a tool call and no content
	ReasoningOnly Class = "reasoning_only" // reasoning and no content
	Truncated     Class = "truncated"      // it ended without a finish reason and without an end mark
	StreamError   Class = "stream_error"   // an error object inside a 200
	HTTPError     Class = "http_error"     // a status other than 200: Status
	ConnectError  Class = "connect_error"  // no connection, or it broke before the headers
	Timeout       Class = "timeout"        // not ended within the request's time limit
	Cancelled     Class = "cancelled"      // ended by the client on purpose
	Unfinished    Class = "unfinished"     // still open when the run ended: it took at least Total
)

// Classes are all of them, in the order in which they are shown.
var Classes = []Class{OK, Empty, ToolOnly, ReasoningOnly, Truncated, StreamError, HTTPError, ConnectError, Timeout, Cancelled, Unfinished}

// A Phase is a part of a benchmark whose requests belong together.
type Phase string

// The phases.
const (
	Single       Phase = "single"       // one at a time, over a warm connection
	Level        Phase = "level"        // so many at once (Level)
	Rate         Phase = "rate"         // arrivals that do not wait for answers (AskedRate)
	PromptSize   Phase = "prompt_size"  // one at a time, at PromptTarget tokens
	Conversation Phase = "conversation" // a conversation that grows turn by turn (Session, Turn)
	NewConn      Phase = "new_conn"     // one at a time, each over a connection of its own
	IdleGap      Phase = "idle_gap"     // one at a time, after a pause of Pause
	Call         Phase = "call"         // the turns of calls, in a run of the whole pipeline
)

// A TokenSource says who counted the output tokens.
type TokenSource string

// The sources, the best first.
const (
	ByUsage     TokenSource = "usage"     // the service
	ByTokenizer TokenSource = "tokenizer" // a tokenizer here, over the text that came
	ByChunks    TokenSource = "chunks"    // nobody: content events were counted
)

// A StampSource says what the arrival times come from.
type StampSource string

// The sources.
const (
	ByKernel StampSource = "kernel" // the kernel's receive stamp
	ByRead   StampSource = "read"   // the time of the read: the system has no stamps
	ByModel  StampSource = "model"  // a simulated service on a virtual clock
)

// An Attempt is one attempt at a request.
type Attempt struct {
	RequestID string `json:"request_id"`
	Number    int    `json:"attempt"` // from 1; every retry is a record of its own

	// What it belongs to.
	Phase        Phase         `json:"phase"`
	Level        int           `json:"level"`                   // requests at once that were asked for; 0: open loop
	AskedRate    float64       `json:"asked_rate,omitempty"`    // requests per second, in an open loop
	Warmup       bool          `json:"warmup"`                  // left out of the figures
	Session      int           `json:"session,omitempty"`       // from 1: the conversation, where there is one
	Turn         int           `json:"turn,omitempty"`          // from 1: of the conversation
	PromptTarget int           `json:"prompt_target,omitempty"` // tokens that the prompt was made for
	Pause        time.Duration `json:"pause_ns,omitempty"`      // idle time of the connection that was waited for
	Language     string        `json:"language,omitempty"`      // of the prompt: "en", "zh"
	InFlight     int           `json:"in_flight"`               // attempts of this client that were open when it was sent, itself included

	// How it ended.
	Class        Class         `json:"class"`
	Status       int           `json:"status,omitempty"` // of HTTP
	Error        string        `json:"error,omitempty"`
	FinishReason string        `json:"finish_reason,omitempty"`
	RetryAfter   time.Duration `json:"retry_after_ns,omitempty"` // what a 429 or 503 asked for

	// Its clocks.
	Due            *time.Duration `json:"due_ns,omitempty"`  // when it should have been sent, in an open loop
	Send           *time.Duration `json:"send_ns,omitempty"` // the client begins with it: what a new connection takes comes after
	DNSStart       *time.Duration `json:"dns_start_ns,omitempty"`
	DNSDone        *time.Duration `json:"dns_done_ns,omitempty"`
	ConnectStart   *time.Duration `json:"connect_start_ns,omitempty"`
	ConnectDone    *time.Duration `json:"connect_done_ns,omitempty"`
	TLSStart       *time.Duration `json:"tls_start_ns,omitempty"`
	TLSDone        *time.Duration `json:"tls_done_ns,omitempty"`
	Connected      *time.Duration `json:"connected_ns,omitempty"` // the connection is ready for it: new, or free again
	WroteRequest   *time.Duration `json:"wrote_request_ns,omitempty"`
	Headers        *time.Duration `json:"headers_ns,omitempty"`
	FirstByte      *time.Duration `json:"first_byte_ns,omitempty"` // of the body, comments included
	FirstComment   *time.Duration `json:"first_comment_ns,omitempty"`
	FirstEvent     *time.Duration `json:"first_event_ns,omitempty"` // of any kind
	FirstRole      *time.Duration `json:"first_role_ns,omitempty"`
	FirstReasoning *time.Duration `json:"first_reasoning_ns,omitempty"`
	FirstToolCall  *time.Duration `json:"first_tool_call_ns,omitempty"`
	FirstToken     *time.Duration `json:"first_token_ns,omitempty"`   // the first visible content that is not empty
	FirstSpoken    *time.Duration `json:"first_spoken_ns,omitempty"`  // … that is more than white space
	FirstSegment   *time.Duration `json:"first_segment_ns,omitempty"` // the text holds the first piece that would be spoken
	LastContent    *time.Duration `json:"last_content_ns,omitempty"`
	Finished       *time.Duration `json:"finish_ns,omitempty"` // the finish reason
	UsageAt        *time.Duration `json:"usage_ns,omitempty"`
	Done           *time.Duration `json:"done_ns,omitempty"` // the end mark: [DONE], message_stop, done:true
	End            *time.Duration `json:"end_ns,omitempty"`  // the body ended, or the attempt was given up

	// What follows from them.
	TTFT       *time.Duration `json:"ttft_ns,omitempty"` // FirstToken − Send
	TPOT       *time.Duration `json:"tpot_ns,omitempty"` // per output token after those of the first event
	TPOTAbsent string         `json:"tpot_absent,omitempty"`
	Total      *time.Duration `json:"total_ns,omitempty"` // End − Send, or Done − Send where there is an end mark

	// The content, event by event.
	Chunks []Chunk `json:"chunks,omitempty"` // those with visible content

	// Tokens.
	PromptTokens    *int        `json:"prompt_tokens,omitempty"`
	PromptSource    TokenSource `json:"prompt_token_source,omitempty"`
	CachedTokens    *int        `json:"cached_tokens,omitempty"`
	OutputTokens    *int        `json:"output_tokens,omitempty"`
	ReasoningTokens *int        `json:"reasoning_tokens,omitempty"`
	TokenSource     TokenSource `json:"token_source,omitempty"`
	Tokenized       *int        `json:"tokenized,omitempty"` // output tokens by the tokenizer here, beside the service's own
	MaxTokens       int         `json:"max_tokens,omitempty"`
	UsageRefused    string      `json:"usage_refused,omitempty"` // what the service counted and cannot be right; it is not used

	// The stream as it came.
	Bytes       int64 `json:"bytes"` // of the body
	Reads       int   `json:"reads"` // that brought bytes
	Events      int   `json:"events"`
	Comments    int   `json:"comments,omitempty"`
	EmptyEvents int   `json:"empty_events,omitempty"` // content events whose content was empty, or that only had a role

	// The connection.
	Protocol string            `json:"protocol,omitempty"` // "HTTP/1.1", "HTTP/2.0"
	Remote   string            `json:"remote,omitempty"`   // address and port
	Reused   *bool             `json:"reused,omitempty"`
	Idle     *time.Duration    `json:"idle_ns,omitempty"` // how long a reused connection had been idle
	TCP      *TCP              `json:"tcp,omitempty"`
	Header   map[string]string `json:"header,omitempty"` // the few response headers that explain something, by lower-case name

	// The client's own part.
	Stamps      StampSource   `json:"stamps,omitempty"`
	StampFaults int           `json:"stamp_faults,omitempty"` // stamps outside of what is possible, replaced by the read's time
	LagMax      time.Duration `json:"lag_max_ns"`             // the longest time between an event's arrival and its read
	LagSum      time.Duration `json:"lag_sum_ns"`             // of all events

	Server *Server `json:"server,omitempty"` // its own word, in band or joined by RequestID
}

// A Chunk is an event with visible content.
type Chunk struct {
	At  time.Duration `json:"at_ns"`  // its arrival
	Lag time.Duration `json:"lag_ns"` // from the arrival to the read
	// Earliest is set if more than one event came with one read: only the last
	// of them has an arrival of its own, the others came at some time from
	// Earliest to At. Such gaps stay out of ITL.
	Earliest *time.Duration `json:"earliest_ns,omitempty"`
	Chars    int            `json:"chars"`            // Unicode code points
	Tokens   int            `json:"tokens,omitempty"` // 0: not known
}

// Merged says whether the chunk's own arrival is only known within bounds.
func (c Chunk) Merged() bool { return c.Earliest != nil }

// TCP is what the kernel knows of a connection at the end of an attempt: up to
// the first hop that ends TCP, which may be a gateway.
type TCP struct {
	RTT         time.Duration `json:"rtt_ns"`     // smoothed
	MinRTT      time.Duration `json:"min_rtt_ns"` // the least seen
	Retransmits uint32        `json:"retransmits"`
}

// Server is the server's own view of an attempt.
type Server struct {
	// Source names where it is from: "llama.cpp timings", "vllm log" …
	Source string `json:"source"`

	// Moments on the server's own clock, where it told them: nanoseconds since
	// 1970. They are only ever subtracted from each other.
	Arrived    *int64 `json:"arrived_unix_ns,omitempty"`
	FirstToken *int64 `json:"first_token_unix_ns,omitempty"`
	Done       *int64 `json:"done_unix_ns,omitempty"`

	TTFT    *time.Duration `json:"ttft_ns,omitempty"` // from arrival to first token
	Queue   *time.Duration `json:"queue_ns,omitempty"`
	Load    *time.Duration `json:"load_ns,omitempty"` // of the model, before it could begin
	Prefill *time.Duration `json:"prefill_ns,omitempty"`
	Decode  *time.Duration `json:"decode_ns,omitempty"`
	Total   *time.Duration `json:"total_ns,omitempty"`

	PromptTokens *int `json:"prompt_tokens,omitempty"`
	CachedTokens *int `json:"cached_tokens,omitempty"`
	OutputTokens *int `json:"output_tokens,omitempty"`
}
