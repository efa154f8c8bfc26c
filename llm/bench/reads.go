package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"firstsound/clocks/exchange"
	"firstsound/llm/record"
)

// A Read is a line of reads.jsonl: a piece of a body as it came.
type Read struct {
	RequestID string        `json:"request_id"`
	Arrived   time.Duration `json:"arrived_ns"`
	Earliest  time.Duration `json:"earliest_ns"`
	Read      time.Duration `json:"read_ns"`
	N         int64         `json:"n"` // pieces with the same came with one read of the connection
	Kernel    bool          `json:"kernel"`
	Data      []byte        `json:"data"` // base64
}

// Reads writes reads.jsonl, up to a size: bodies have no bound, disks do. Its
// methods may be called by several goroutines.
type Reads struct {
	mu      sync.Mutex
	file    *os.File
	out     *bufio.Writer
	left    int64
	dropped int64
	err     error
}

// CreateReads makes the file in a run folder. No more than limit bytes of bodies
// are kept.
func CreateReads(dir string, limit int64) (*Reads, error) {
	f, err := os.OpenFile(filepath.Join(dir, record.ReadsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	return &Reads{file: f, out: bufio.NewWriterSize(f, 256<<10), left: limit}, nil
}

// Keep takes a piece. It copies what it keeps.
func (r *Reads) Keep(requestID string, x exchange.Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left -= int64(len(x.Data)); r.left < 0 || r.err != nil {
		r.dropped += int64(len(x.Data))
		return
	}
	line, err := json.Marshal(Read{requestID, x.Arrived, x.Earliest, x.Read, x.N, x.Kernel, x.Data})
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	r.err = err
}

// Close writes what is left. It returns how many bytes of bodies were not kept.
func (r *Reads) Close() (dropped int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.out.Flush()
	}
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	if r.err != nil {
		r.err = fmt.Errorf("run folder: %w", r.err)
	}
	return r.dropped, r.err
}
