package llmmock

import (
	"io"
	"time"

	"firstsound/clocks/truth"
)

// Format is the name of the format of a truth file, in its first line.
const Format = "firstsound-mock-truth-1"

// A Header is the first line of a truth file.
type Header = truth.Header

// A Truth is what really happened to a request. All times are on the mock's
// clock; what never came is absent.
type Truth struct {
	RequestID string        `json:"request_id"`
	Number    int           `json:"number"` // from 0, in the order of arrival
	Path      string        `json:"path"`
	Stream    bool          `json:"stream"`
	Arrived   time.Duration `json:"arrived_ns"` // the last byte of it reached the host
	Kernel    bool          `json:"arrived_by_kernel"`

	Headers   *time.Duration  `json:"headers_ns,omitempty"`   // just before the write that they went out with
	Chunks    []time.Duration `json:"chunks_ns"`              // … of each event with visible content
	ChunkSize []int           `json:"chunk_tokens"`           // tokens in each
	Reasoning []time.Duration `json:"reasoning_ns,omitempty"` // … of each event with reasoning
	Done      *time.Duration  `json:"done_ns,omitempty"`      // the last write had returned

	Queue        *time.Duration `json:"queue_ns,omitempty"`
	Prefill      *time.Duration `json:"prefill_ns,omitempty"`
	PromptTokens int            `json:"prompt_tokens"`
	CachedTokens int            `json:"cached_tokens"`
	Tokens       int            `json:"tokens"` // of output, reasoning included

	Status int    `json:"status"`
	Ended  Ending `json:"ended"`
	Fault  string `json:"fault,omitempty"` // names, with commas between

	Protocol   string        `json:"protocol"`
	Connection int           `json:"connection"` // its number, from 1; 0: not served by Serve
	Reused     bool          `json:"reused"`
	LateMax    time.Duration `json:"late_max_ns"` // the latest of its writes, after its planned moment
}

// TTFT is the time from the arrival to the first visible content, if there was
// any.
func (t *Truth) TTFT() (time.Duration, bool) {
	if len(t.Chunks) == 0 {
		return 0, false
	}
	return t.Chunks[0] - t.Arrived, true
}

// An Ending is how a response ended.
type Ending string

// The endings.
const (
	Complete   Ending = "complete"
	ClientGone Ending = "client_gone"
	WasReset   Ending = "reset"
	WasAborted Ending = "aborted"
	Died       Ending = "died" // the modelled server did
)

// A Writer writes a truth file.
type Writer = truth.Writer[Truth]

// NewWriter writes the first line to w; the mock's clock was at 0 at epoch. The
// Writer's method Write fits Options.Truth.
func NewWriter(w io.Writer, epoch time.Time) (*Writer, error) {
	return truth.NewWriter[Truth](w, Format, epoch)
}
