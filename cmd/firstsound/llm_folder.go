package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"firstsound/clocks/failure"
	llmfigures "firstsound/llm/figures"
	"firstsound/llm/record"
)

// A llmFolder is a folder of bench llm.
type llmFolder struct {
	path     string
	run      record.Run
	samples  []record.Sample
	words    map[wordKey]*record.Server // what logs that were joined said
	joins    []joinedLog
	warnings []string
}

// A wordKey names an attempt.
type wordKey struct {
	id     string
	number int
}

// isLLMFolder says whether path is a folder of bench llm, or its
// requests.jsonl, and returns the folder. One that has lost its requests.jsonl is
// one, too.
func isLLMFolder(path string) (string, bool) {
	if filepath.Base(path) == record.RequestsFile {
		path = filepath.Dir(path)
	}
	if _, err := os.Stat(filepath.Join(path, record.RequestsFile)); err == nil {
		return path, true
	}
	_, err := record.ReadRun(path)
	return path, err == nil
}

// openLLMFolder reads all but the attempts.
func openLLMFolder(path string) (*llmFolder, error) {
	d := &llmFolder{path: path, words: map[wordKey]*record.Server{}}
	var err error
	if d.run, err = record.ReadRun(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, record.RequestsFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run folder: %s has a %s and no %s: without its attempts there is nothing to show", path, record.RunFile, record.RequestsFile)
	}
	if how := incomplete(d.run); how != "" {
		d.warnings = append(d.warnings, how)
	}
	err = d.eachLine(record.MetricsFile, func(line []byte) error {
		var s record.Sample
		if err := json.Unmarshal(line, &s); err != nil {
			return failure.JSON("the line", line, err)
		}
		d.samples = append(d.samples, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, d.readWords()
}

// incomplete says in what way a run is not complete; empty if it is.
func incomplete(r record.Run) string {
	switch {
	case r.State == record.Complete:
		return ""
	case r.State == record.Running:
		return "the run is not complete: it was killed, or is still running"
	case r.Reason == "" || r.Reason == string(r.State):
		return "the run is not complete: " + string(r.State)
	}
	return fmt.Sprintf("the run is not complete: %s: %s", r.State, r.Reason)
}

// eachLine is eachLine for a file of the folder. A last line that is cut off is
// left out with a warning.
func (d *llmFolder) eachLine(name string, f func([]byte) error) error {
	cut, err := eachLine(filepath.Join(d.path, name), f)
	if cut > 0 {
		d.warnings = append(d.warnings, fmt.Sprintf("line %d of %s is cut off; it is left out", cut, name))
	}
	return err
}

// maxLine bounds a line of metrics.jsonl and server.jsonl: a scrape with 100,000
// values has some MB.
const maxLine = 16 << 20

// cutOff says whether an error of encoding/json is that a value has no end.
func cutOff(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input"
}

// eachLine calls f with the lines of a file but for blank ones; with none if there
// is no file. An error of f ends it, but not of a last line that was cut off, as by
// a killed process: its number is returned.
func eachLine(name string, f func([]byte) error) (cut int, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("run folder: %w", err)
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, maxLine)
	whole := true // the line ends with a newline
	in.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, token, err := bufio.ScanLines(data, atEOF)
		whole = n > len(token)
		return n, token, err
	})
	var wrong error
	for n := 1; in.Scan(); n++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		if wrong != nil { // and it was not the last
			return 0, fmt.Errorf("%s:%d: %w", name, cut, wrong)
		}
		if wrong = f(in.Bytes()); wrong != nil {
			if whole && !cutOff(wrong) {
				return 0, fmt.Errorf("%s:%d: %w", name, n, wrong)
			}
			cut = n
		}
	}
	if err := in.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return cut, nil
}

// wordsFormat is the version of server.jsonl.
const wordsFormat = "firstsound-llm-server/1"

// A wordsHead is the first line of server.jsonl.
type wordsHead struct {
	Format string      `json:"format"`
	Joins  []joinedLog `json:"joins"`
}

// A word is another line of server.jsonl: the server's view of an attempt, which
// takes the place of the one in requests.jsonl.
type word struct {
	RequestID string         `json:"request_id"`
	Number    int            `json:"attempt"`
	Server    *record.Server `json:"server"`
}

// readWords reads server.jsonl, if there is one.
func (d *llmFolder) readWords() error {
	first := true
	return d.eachLine(record.ServerFile, func(line []byte) error {
		if first {
			first = false
			var h wordsHead
			if err := json.Unmarshal(line, &h); err != nil {
				return failure.JSON("the line", line, err)
			}
			if h.Format != wordsFormat {
				return fmt.Errorf("the format is %q, not %q", h.Format, wordsFormat)
			}
			d.joins = h.Joins
			return nil
		}
		var w word
		if err := json.Unmarshal(line, &w); err != nil {
			return failure.JSON("the line", line, err)
		}
		d.words[wordKey{w.RequestID, w.Number}] = w.Server
		return nil
	})
}

// attempts calls f with each attempt, with the server's word.
func (d *llmFolder) attempts(f func(*record.Attempt)) error {
	cut := func(line int) {
		d.warnings = append(d.warnings, fmt.Sprintf("line %d of %s is cut off; it is left out", line, record.RequestsFile))
	}
	for a, err := range record.ReadAttempts(d.path, cut) {
		if err != nil {
			return err
		}
		if s := d.words[wordKey{a.RequestID, a.Number}]; s != nil {
			a.Server = s
		}
		f(a)
	}
	return nil
}

// result returns what the run came to.
func (d *llmFolder) result(o llmfigures.Options) (*benchResult, error) {
	r := &benchResult{info: d.run, summary: llmfigures.New(o), samples: d.samples, joins: d.joins}
	return r, d.attempts(func(a *record.Attempt) { r.take(a, false) })
}

// join joins logs with the attempts, and keeps what they say in the folder.
func (d *llmFolder) join(logs *serverLogs) error {
	var all []*record.Attempt
	err := d.attempts(func(a *record.Attempt) {
		a.Chunks = nil // there may be millions
		all = append(all, a)
	})
	if err != nil {
		return err
	}
	joins, told, err := logs.join(all)
	if err != nil {
		return err
	}
	for _, j := range joins {
		same := func(was joinedLog) bool { return was.Log == j.Log }
		d.joins = append(slices.DeleteFunc(d.joins, same), j)
	}
	for _, a := range told {
		d.words[wordKey{a.RequestID, a.Number}] = a.Server
	}
	return d.writeWords(all)
}

// writeWords writes server.jsonl as a whole, in the order of the attempts.
func (d *llmFolder) writeWords(all []*record.Attempt) error {
	name := filepath.Join(d.path, record.ServerFile)
	f, err := os.Create(name + ".new")
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	w := bufio.NewWriter(f)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	err = out.Encode(wordsHead{wordsFormat, d.joins})
	for _, a := range all {
		if s := d.words[wordKey{a.RequestID, a.Number}]; s != nil && err == nil {
			err = out.Encode(word{a.RequestID, a.Number, s})
		}
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}
