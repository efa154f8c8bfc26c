package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"firstsound/clocks/trace"
)

// The files of a run folder.
const (
	RunFile    = "run.json"     // RunInfo
	EventsFile = "events.jsonl" // every event as it came: see trace.AppendJSON
	TurnsFile  = "turns.jsonl"  // every turn as it closed: see TurnRow
)

// ErrExists says that there is a run in the folder.
var ErrExists = errors.New("there is a run in it already")

// flushAt is how many bytes are gathered before they are written.
const flushAt = 64 << 10

// A Folder writes a run to its files as it goes. After the first error, which
// Err and Close return, it writes nothing more; what it has written up to there
// are whole lines. One goroutine at a time may use it.
type Folder struct {
	dir    string
	info   RunInfo
	events lines
	turns  lines
	err    error
	nTurns int64
	nEvent int64
}

// Create makes the folder dir, if need be, and starts a run in it, with the
// state "running". If there is a run in it already, that is ErrExists, unless
// overwrite is set: then it is replaced.
func Create(dir string, info RunInfo, overwrite bool) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	for _, name := range []string{RunFile, EventsFile, TurnsFile} {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil && !overwrite {
			return nil, fmt.Errorf("run folder %s: %w (%s)", dir, ErrExists, name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("run folder: %w", err)
		}
	}
	info.Format, info.State, info.Reason = RunFormat, StateRunning, ""
	f := &Folder{dir: dir, info: info}
	if err := f.writeInfo(); err != nil {
		return nil, err
	}
	if err := f.events.create(filepath.Join(dir, EventsFile)); err != nil {
		return nil, err
	}
	if err := f.turns.create(filepath.Join(dir, TurnsFile)); err != nil {
		f.events.file.Close()
		return nil, err
	}
	return f, nil
}

// Event writes an event. It may stay in memory until Flush, or until the end
// of a turn at which there is enough to write.
func (f *Folder) Event(e *trace.Event) {
	if f.err != nil {
		return
	}
	f.nEvent++
	f.events.buf = append(trace.AppendJSON(f.events.buf, e), '\n')
	if len(f.events.buf) >= flushAt && (e.Mark == trace.TurnClosed || len(f.events.buf) >= 2*flushAt) {
		f.Flush()
	}
}

// Turn writes a turn.
func (f *Folder) Turn(t *Turn) {
	if f.err != nil {
		return
	}
	f.nTurns++
	buf, err := t.Row().AppendJSON(f.turns.buf)
	if err != nil {
		f.err = fmt.Errorf("run folder: turn %d.%d: %w", t.ID.Session, t.ID.Turn, err)
		return
	}
	f.turns.buf = append(buf, '\n')
	if len(f.turns.buf) >= flushAt {
		f.Flush()
	}
}

// Flush writes what is in memory to the files, and returns Err.
func (f *Folder) Flush() error {
	if f.err == nil {
		f.err = cmp.Or(f.events.flush(), f.turns.flush())
	}
	return f.err
}

// Err returns the first error of writing, if there was one.
func (f *Folder) Err() error { return f.err }

// SetTimers notes how late the run's timers were, and the sound for a recognizer,
// for run.json.
func (f *Folder) SetTimers(timers, replay *Timers) { f.info.Timers, f.info.Replay = timers, replay }

// Close writes what is left, and run.json with the run's state: complete, or
// partial with the reason, also if not all could be written. end is the run's
// end on its clock, if it is known. It returns the first error.
func (f *Folder) Close(state RunState, reason string, end Limit) error {
	err := f.Flush()
	err = cmp.Or(err, f.events.file.Close(), f.turns.file.Close())
	f.info.State, f.info.Reason = state, reason
	if err != nil {
		f.info.State, f.info.Reason = StatePartial, "not all could be written: "+err.Error()
	}
	f.info.Turns, f.info.Events = f.nTurns, f.nEvent
	if end.Known {
		at := int64(end.At)
		f.info.End = &at
	}
	return cmp.Or(err, f.writeInfo())
}

// Info returns what run.json holds now.
func (f *Folder) Info() RunInfo { return f.info }

// writeInfo replaces run.json, by way of a second file, so that it is never
// half written.
func (f *Folder) writeInfo() error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f.info); err != nil {
		return fmt.Errorf("run folder: %s: %w", RunFile, err)
	}
	path := filepath.Join(f.dir, RunFile)
	if err := os.WriteFile(path+".new", b.Bytes(), 0o644); err != nil {
		os.Remove(path + ".new")
		return fmt.Errorf("run folder: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		os.Remove(path + ".new")
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}

// An output is what lines writes to: a file, or in a test one that is full.
type output interface {
	io.WriteCloser
	Truncate(size int64) error
}

// lines are a file of lines that is written in large pieces.
type lines struct {
	file output
	buf  []byte // whole lines
	size int64  // of the file
}

// create makes the file, empty.
func (l *lines) create(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	l.file = f
	return nil
}

// flush writes the lines. If not all can be written, those that are not whole
// are taken back.
func (l *lines) flush() error {
	n, err := l.file.Write(l.buf)
	if err != nil {
		whole := bytes.LastIndexByte(l.buf[:n], '\n') + 1
		l.size += int64(whole)
		if cut := l.file.Truncate(l.size); cut != nil && whole < n {
			err = fmt.Errorf("%w; its last line is cut off: %w", err, cut)
		}
		return fmt.Errorf("run folder: %w", err) // which names the file
	}
	l.size += int64(n)
	l.buf = l.buf[:0]
	return nil
}
