package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
)

// maxLine bounds a line that is read: an attempt with 100,000 chunks has about
// 6 MB.
const maxLine = 64 << 20

// A Writer writes a run folder: attempts as they end, each line whole, so that a
// process that is killed loses at most the last.
type Writer struct {
	dir string

	mu   sync.Mutex
	file *os.File
	err  error
}

// Create makes a run folder, which must not hold a run yet, and writes r to it.
func Create(dir string, r Run) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, RequestsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("run folder: %s holds a run already; name another folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	w := &Writer{dir: dir, file: f}
	if err := w.writeRun(r); err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// Free returns an error if a run cannot be written to dir: it holds one already,
// or is no folder. It writes nothing.
func Free(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("run folder: %w", err)
	case !info.IsDir():
		return fmt.Errorf("run folder: %s is no folder; name another", dir)
	}
	for _, name := range []string{RequestsFile, ReadsFile, MetricsFile, ServerFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("run folder: %s holds a run already; name another folder", dir)
		}
	}
	return nil
}

// Add writes an attempt. It may be called from several goroutines.
func (w *Writer) Add(a *Attempt) error {
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = w.file.Write(append(line, '\n'))
	}
	return w.err
}

// Close writes the run as it ended, and closes the files.
func (w *Writer) Close(r Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.file.Close(), w.writeRun(r))
}

// writeRun replaces run.json as a whole: there is always one that can be read.
func (w *Writer) writeRun(r Run) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	name := filepath.Join(w.dir, RunFile)
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o666); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}

// ReadRun reads run.json of a run folder.
func ReadRun(dir string) (r Run, err error) {
	name := filepath.Join(dir, RunFile)
	data, err := os.ReadFile(name)
	if err != nil {
		return r, fmt.Errorf("run folder: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	if r.Format != Format {
		return r, fmt.Errorf("%s: the format is %q, not %q", name, r.Format, Format)
	}
	return r, nil
}

// ReadAttempts yields the attempts of a run folder, in the order in which they
// ended. A last line that was cut off, as by a killed process, is not an error:
// cut is called with its number, if it is not nil.
func ReadAttempts(dir string, cut func(line int)) iter.Seq2[*Attempt, error] {
	name := filepath.Join(dir, RequestsFile)
	return func(yield func(*Attempt, error) bool) {
		f, err := os.Open(name)
		if err != nil {
			yield(nil, fmt.Errorf("run folder: %w", err))
			return
		}
		defer f.Close()
		for a, err := range Decode(f, cut) {
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// Decode yields the attempts of r, a line each but for blank ones, and stops at the first error.
func Decode(r io.Reader, cut func(line int)) iter.Seq2[*Attempt, error] {
	return func(yield func(*Attempt, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(in)
			if err == io.EOF && len(line) == 0 {
				return
			}
			if err != nil && err != io.EOF {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if len(bytes.TrimSpace(line)) == 0 && err == nil {
				continue
			}
			a := new(Attempt)
			if wrong := json.Unmarshal(line, a); wrong != nil {
				if err == io.EOF { // no newline: it was not written to its end
					if cut != nil {
						cut(n)
					}
					return
				}
				yield(nil, fmt.Errorf("line %d: %w", n, wrong))
				return
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}

// readLine reads up to and without the next newline. The error is io.EOF if
// there was none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("is longer than %d MB", maxLine>>20)
		}
		switch err {
		case nil:
			return line[:len(line)-1], nil
		case bufio.ErrBufferFull:
			continue
		}
		return line, err
	}
}
