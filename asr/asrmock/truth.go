package asrmock

import (
	"io"
	"time"

	"firstsound/clocks/truth"
)

// Format is the name of the format of a truth file, in its first line.
const Format = "firstsound-asrmock-truth-1"

// A Header is the first line of a truth file.
type Header = truth.Header

// A Truth is what really happened to a connection or an HTTP request. All times
// are on the mock's clock; what never came is absent.
type Truth struct {
	RequestID string `json:"request_id"` // of the client, or made up
	Number    int    `json:"number"`     // from 0, in the order of arrival
	Protocol  string `json:"protocol"`
	Fault     string `json:"fault,omitempty"` // names, with commas between
	Status    int    `json:"status"`          // of HTTP
	Kernel    bool   `json:"arrived_by_kernel"`

	Arrived    time.Duration  `json:"arrived_ns"`               // the request
	FirstAudio *time.Duration `json:"first_audio_ns,omitempty"` // the first sound arrived
	LastAudio  *time.Duration `json:"last_audio_ns,omitempty"`
	Audio      time.Duration  `json:"audio_ns"` // how much came
	Rate       int            `json:"rate"`
	Messages   int            `json:"audio_messages"`

	Utterances []*Heard      `json:"utterances"`
	Done       time.Duration `json:"done_ns"`
	Ended      string        `json:"ended"` // complete, client_gone, fault, or what was wrong
}

// Heard is what the mock heard and said of one utterance.
type Heard struct {
	Text     string          `json:"text"`
	Known    bool            `json:"known"`              // by Lookup
	Start    time.Duration   `json:"start_offset_ns"`    // in the sound of the connection
	End      time.Duration   `json:"end_offset_ns"`      // 0: the end never came
	StartAt  time.Duration   `json:"start_ns"`           // when the first sample of speech arrived
	EndAt    *time.Duration  `json:"end_ns,omitempty"`   // … and the last
	Asked    *time.Duration  `json:"asked_ns,omitempty"` // the client's wish for the final arrived
	Partials []time.Duration `json:"partials_ns"`        // just before each was written
	Finals   []time.Duration `json:"finals_ns"`
	LateMax  time.Duration   `json:"late_max_ns"` // the latest of these, after its planned moment
}

// A Writer writes a truth file.
type Writer = truth.Writer[Truth]

// NewWriter writes the first line to w; the mock's clock was at 0 at epoch. The
// Writer's method Write fits Options.Truth.
func NewWriter(w io.Writer, epoch time.Time) (*Writer, error) {
	return truth.NewWriter[Truth](w, Format, epoch)
}
