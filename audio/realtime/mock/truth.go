package mock

import (
	"io"
	"time"

	"firstsound/clocks/truth"
)

// Format is the name of the format of a truth file, in its first line.
const Format = "firstsound-realtimemock-truth-1"

// A Truth is what really happened in a session. All times are on the mock's
// clock; what never came is absent.
type Truth struct {
	RequestID string         `json:"request_id"` // of the client (X-Request-Id), or made up
	Number    int            `json:"number"`     // from 0, in the order of arrival
	Status    int            `json:"status"`     // of HTTP
	Fault     string         `json:"fault,omitempty"`
	Arrived   time.Duration  `json:"arrived_ns"`
	Audio     time.Duration  `json:"audio_ns"` // how much sound came
	Late      *time.Duration `json:"late_max_ns,omitempty"`
	Speeches  []Speech       `json:"speeches"`
	Responses []Response     `json:"responses"`
	Done      time.Duration  `json:"done_ns"`
	Ended     string         `json:"ended"` // client_gone, stopped, refused, fault, or what was wrong
}

// A Speech is what the mock took for one.
type Speech struct {
	Start   time.Duration  `json:"start_offset_ns"` // in the sound of the session
	End     time.Duration  `json:"end_offset_ns"`
	Started time.Duration  `json:"started_ns"` // speech_started was written
	EndAt   *time.Duration `json:"end_ns,omitempty"`
	Stopped *time.Duration `json:"stopped_ns,omitempty"` // speech_stopped was written
}

// A Response is an answer of the mock.
type Response struct {
	ID         string          `json:"id"`
	Created    time.Duration   `json:"created_ns"`
	Deltas     []time.Duration `json:"deltas_ns"` // just before each was written
	Lead       time.Duration   `json:"lead_ns"`   // silence at its head
	FirstSound *time.Duration  `json:"first_sound_ns,omitempty"`
	Sent       time.Duration   `json:"sent_audio_ns"`
	Done       *time.Duration  `json:"response_done_ns,omitempty"`
	Status     string          `json:"response_status"`
	Heard      *int64          `json:"truncated_ms,omitempty"` // as the client says
}

// A Writer writes a truth file.
type Writer = truth.Writer[Truth]

// NewWriter writes the first line to w; the mock's clock was at 0 at epoch. The
// Writer's method Write fits Options.Truth.
func NewWriter(w io.Writer, epoch time.Time) (*Writer, error) {
	return truth.NewWriter[Truth](w, Format, epoch)
}
