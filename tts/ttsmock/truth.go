package ttsmock

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Format is the name of the format of a truth file, in its first line.
const Format = "firstsound-ttsmock-truth-1"

// A Header is the first line of a truth file. A moment of the file is at
// Epoch + its ns on the wall clock of the machine.
type Header struct {
	Format string `json:"format"`
	Epoch  int64  `json:"epoch_unix_ns"`
}

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

// A Writer writes a truth file. Its methods may be called by several goroutines
// at once.
type Writer struct {
	mu  sync.Mutex
	out *json.Encoder
	err error
}

// NewWriter writes the first line to w. Each line is one Write.
func NewWriter(w io.Writer, epoch time.Time) (*Writer, error) {
	t := &Writer{out: json.NewEncoder(w)}
	t.encode(Header{Format, epoch.UnixNano()})
	return t, t.Err()
}

// Write writes the line of a request. It fits Options.Truth.
func (t *Writer) Write(x Truth) { t.encode(x) }

func (t *Writer) encode(x any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	if err := t.out.Encode(x); err != nil {
		t.err = fmt.Errorf("truth file: %w", err)
	}
}

// Err returns the first error of writing.
func (t *Writer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
