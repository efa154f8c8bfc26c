package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"firstsound/clocks/trace"
)

// A Source is a run that has been recorded: a run folder, or a file of events
// from any writer.
type Source struct {
	Info RunInfo // of a file of events: how many there were, once Events has read them

	// Warnings say what is not as it should be but could be read.
	Warnings []string

	path string // of the events
}

// Open finds the run at path: a run folder, or a file of events, one JSON
// object per line (see trace.AppendJSON). It reads run.json if there is one.
func Open(path string) (*Source, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	s := &Source{path: path}
	if !st.IsDir() {
		return s, nil
	}
	s.path = filepath.Join(path, EventsFile)
	if _, err := os.Stat(s.path); err != nil {
		return nil, fmt.Errorf("run: %s is not a run folder: %w", path, err)
	}
	return s, s.readInfo(filepath.Join(path, RunFile))
}

// readInfo reads run.json.
func (s *Source) readInfo(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.warn("there is no %s: scenario, seed and machine are not known", RunFile)
		return nil
	}
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := json.Unmarshal(data, &s.Info); err != nil {
		return fmt.Errorf("run: %s: %w", path, err)
	}
	if s.Info.Format != RunFormat {
		return fmt.Errorf("run: %s: the format is %q, and this program reads %q", path, s.Info.Format, RunFormat)
	}
	if s.Info.State == StateRunning {
		s.Info.State, s.Info.Reason = StatePartial, "it did not come to its end"
	}
	return nil
}

func (s *Source) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// End returns the run's end, if it is recorded.
func (s *Source) End() Limit {
	if s.Info.End == nil {
		return Limit{}
	}
	return Limit{At: time.Duration(*s.Info.End), Known: true}
}

// Events calls f with each event, in the order of the file. The event is valid
// until f returns; what it points to stays. A last line that is cut off is a
// warning, and makes the run a partial one; any other line that is not an event
// is an error with file, line and column.
func (s *Source) Events(f func(*trace.Event)) error {
	file, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	defer file.Close()
	d := trace.NewDecoder(file)
	var e trace.Event
	for n := int64(0); ; n++ {
		err := d.Next(&e)
		switch {
		case err == nil:
			f(&e)
			continue
		case err == trace.ErrTruncated:
			s.warn("%s:%d: %v; it is left out", s.path, d.Line(), err)
			s.Info.State, s.Info.Reason = StatePartial, "the last line of its events is cut off"
		case err != io.EOF:
			return placed(s.path, err)
		}
		s.checkCount(n)
		return nil
	}
}

// placed puts the file's name before an error.
func placed(path string, err error) error {
	var bad *trace.SyntaxError
	if errors.As(err, &bad) {
		return fmt.Errorf("%s:%w", path, err)
	}
	return fmt.Errorf("run: %s: %w", path, err)
}

// checkCount holds the number of events against run.json.
func (s *Source) checkCount(n int64) {
	if s.Info.State == StateComplete && s.Info.Events != n {
		s.warn("%s holds %d events, and %s says %d", s.path, n, RunFile, s.Info.Events)
		s.Info.State, s.Info.Reason = StatePartial, "some of its events are missing"
	}
	s.Info.Events = n
}

// Read reads the run at path, a run folder or a file of events, and returns its
// report. The percentage of the what-if is o.Percent.
func Read(path string, o Options) (*Report, error) {
	src, err := Open(path)
	if err != nil {
		return nil, err
	}
	sum := NewSummary(o)
	turns := int64(0)
	a, err := NewAssembler(src.End(), o.Percent, func(t *Turn) { turns++; sum.Add(t) })
	if err != nil {
		return nil, err
	}
	if err := src.Events(a.Add); err != nil {
		return nil, err
	}
	late := a.Close()
	src.Info.Turns = turns
	r := sum.Report(src.Info, late)
	r.Warnings = append(r.Warnings, src.Warnings...)
	return r, nil
}
