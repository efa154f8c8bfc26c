package ttsmock

import (
	"io"
	"time"

	"firstsound/clocks/truth"
)

// Format is the name of the format of a truth file, in its first line.
const Format = "firstsound-ttsmock-truth-1"

// A Header is the first line of a truth file.
type Header = truth.Header

// A Truth is what really happened to a connection or an HTTP request. All times
// are on the mock's clock; what never came is absent.
type Truth struct {
	RequestID string        `json:"request_id"` // of the client, or made up
	Number    int           `json:"number"`     // from 0, in the order of arrival
	Protocol  string        `json:"protocol"`
	Fault     string        `json:"fault,omitempty"` // names of those that struck, with commas between
	Status    int           `json:"status"`          // of HTTP; 0: there is none
	Kernel    bool          `json:"arrived_by_kernel"`
	Arrived   time.Duration `json:"arrived_ns"` // the request
	Pieces    []Spoken      `json:"pieces"`
	Done      time.Duration `json:"done_ns"`
	Ended     string        `json:"ended"` // complete, client_gone, fault, or what was wrong
}

// Spoken is a piece of text that the mock spoke.
type Spoken struct {
	ID      string          `json:"id,omitempty"` // of the context or the task
	Text    string          `json:"text"`
	Arrived time.Duration   `json:"arrived_ns"` // the message that had it spoken
	Rate    int             `json:"rate"`
	Lead    time.Duration   `json:"lead_silence_ns"`
	Sound   time.Duration   `json:"sound_ns"`         // that was sent, with all silence
	Chunks  []time.Duration `json:"chunks_ns"`        // just before each was written
	Sizes   []int           `json:"chunk_bytes"`      // of the encoded sound in each
	End     *time.Duration  `json:"end_ns,omitempty"` // just before its end was told
	Audible *time.Duration  `json:"audible_chunk_ns"` // the time of the chunk with the first sample of the speech
	LateMax time.Duration   `json:"late_max_ns"`      // the latest of the chunks, after its planned moment
}

// A Writer writes a truth file.
type Writer = truth.Writer[Truth]

// NewWriter writes the first line to w; the mock's clock was at 0 at epoch. The
// Writer's method Write fits Options.Truth.
func NewWriter(w io.Writer, epoch time.Time) (*Writer, error) {
	return truth.NewWriter[Truth](w, Format, epoch)
}
