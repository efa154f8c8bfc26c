// Package truth writes what a mock really did: a file of JSON lines, the first of
// which says what the file is, and each further one tells of a request.
package truth

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Header is the first line of a truth file. A moment of the file is at
// Epoch + its ns on the wall clock of the machine, so that a program beside the
// mock can put both on one clock.
type Header struct {
	Format string `json:"format"`
	Epoch  int64  `json:"epoch_unix_ns"`
}

// A Writer writes a truth file whose lines are of type T. Its methods may be called
// by several goroutines at once.
type Writer[T any] struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewWriter writes the first line to w. Each line is one Write.
func NewWriter[T any](w io.Writer, format string, epoch time.Time) (*Writer[T], error) {
	t := &Writer[T]{w: w}
	t.line(Header{format, epoch.UnixNano()})
	return t, t.Err()
}

// Write writes the line of a request.
func (t *Writer[T]) Write(x T) { t.line(x) }

func (t *Writer[T]) line(x any) {
	text, err := json.Marshal(x)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	if err == nil {
		_, err = t.w.Write(append(text, '\n'))
	}
	if err != nil {
		t.err = fmt.Errorf("truth file: %w", err)
	}
}

// Err returns the first error of writing. Nothing is written after it.
func (t *Writer[T]) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
