package serving

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Arrival is a request of a trace.
type Arrival struct {
	At     time.Duration // since the first one
	Prompt int           // tokens
	Output int

	// What was measured, if the trace says it: times since At.
	Measured bool
	First    time.Duration
	Last     time.Duration
}

const (
	maxTraceLine = 1 << 20
	maxArrivals  = 20_000_000
	maxSpan      = 1e8 // seconds before or after the first line, so that all times fit into a Duration
)

// Passed tells which lines of a trace were passed over.
type Passed struct {
	Empty int  // requests of 0 tokens out
	Torn  bool // the last line, which breaks off: the trace was copied while it was written
}

// ReadVLLM reads a trace as LLMServingSim's benchmark of vLLM writes it: JSON
// lines with input_toks, output_toks, queued_ts, first_token_ts and
// last_token_ts (seconds); further fields are passed over. The lines may be in
// any order; the arrivals are in that of queued_ts.
func ReadVLLM(r io.Reader) ([]Arrival, Passed, error) {
	var all []Arrival
	began := make([]float64, 0, 1024)
	torn, err := eachLine(r, json.Valid, func(line []byte) error {
		var in struct {
			Prompt *int     `json:"input_toks"`
			Output *int     `json:"output_toks"`
			Queued *float64 `json:"queued_ts"`
			First  *float64 `json:"first_token_ts"`
			Last   *float64 `json:"last_token_ts"`
		}
		if err := json.Unmarshal(line, &in); err != nil {
			return fmt.Errorf("not a JSON object of the expected fields: %v", err)
		}
		if in.Prompt == nil || in.Output == nil || in.Queued == nil {
			return fmt.Errorf("input_toks, output_toks and queued_ts have to be there")
		}
		if (in.First == nil) != (in.Last == nil) {
			return fmt.Errorf("first_token_ts and last_token_ts go together")
		}
		a := Arrival{Prompt: *in.Prompt, Output: *in.Output}
		if err := a.check(); err != nil {
			return err
		}
		if !(*in.Queued >= 0 && *in.Queued < 1e10) {
			return fmt.Errorf("queued_ts is %g; seconds from 0 to 1e10 are expected", *in.Queued)
		}
		if len(began) > 0 && math.Abs(*in.Queued-began[0]) > maxSpan {
			return fmt.Errorf("queued_ts is %g, more than three years from the first one, %g; seconds are expected", *in.Queued, began[0])
		}
		if in.First != nil {
			first, last := *in.First-*in.Queued, *in.Last-*in.Queued
			if !(first >= 0 && last >= first && last < 1e7) {
				return fmt.Errorf("queued, first and last token come at %g, %g and %g s; they have to follow each other", *in.Queued, *in.First, *in.Last)
			}
			a.Measured, a.First, a.Last = true, seconds(first), seconds(last)
		}
		began = append(began, *in.Queued)
		all = append(all, a)
		return nil
	})
	if err != nil {
		return nil, Passed{}, fmt.Errorf("serving: vLLM trace: %w", err)
	}
	return inOrder(all, began), Passed{Torn: torn}, nil
}

// ReadAzure reads a trace of Azure's LLM inference dataset: CSV with the header
// TIMESTAMP,ContextTokens,GeneratedTokens and times like
// "2023-11-16 18:17:03.9799600". A request of 0 tokens out is passed over.
func ReadAzure(r io.Reader) ([]Arrival, Passed, error) {
	var all []Arrival
	var began []float64
	header, empty := false, 0
	var origin time.Time
	never := func([]byte) bool { return false } // nobody can see from a line whether it is whole
	torn, err := eachLine(r, never, func(line []byte) error {
		fields := strings.Split(strings.TrimSuffix(string(line), "\r"), ",")
		if !header {
			header = true
			if len(fields) != 3 || fields[0] != "TIMESTAMP" || fields[1] != "ContextTokens" || fields[2] != "GeneratedTokens" {
				return fmt.Errorf("the header is %.60q; TIMESTAMP,ContextTokens,GeneratedTokens is expected", line)
			}
			return nil
		}
		if len(fields) != 3 {
			return fmt.Errorf("%d fields; 3 are expected", len(fields))
		}
		at, err := azureTime(fields[0])
		if err != nil {
			return err
		}
		var a Arrival
		if a.Prompt, err = strconv.Atoi(fields[1]); err != nil {
			return fmt.Errorf("ContextTokens is %q; a whole number is expected", fields[1])
		}
		if a.Output, err = strconv.Atoi(fields[2]); err != nil {
			return fmt.Errorf("GeneratedTokens is %q; a whole number is expected", fields[2])
		}
		if a.Output == 0 && a.Prompt >= 0 {
			empty++
			return nil
		}
		if err := a.check(); err != nil {
			return err
		}
		if origin.IsZero() {
			origin = at
		}
		since := at.Sub(origin).Seconds()
		if math.Abs(since) > maxSpan {
			return fmt.Errorf("TIMESTAMP %q is more than three years from the first one", fields[0])
		}
		began = append(began, since)
		all = append(all, a)
		return nil
	})
	if err == nil && !header {
		err = fmt.Errorf("the file is empty; a header TIMESTAMP,ContextTokens,GeneratedTokens is expected")
	}
	if err != nil {
		return nil, Passed{}, fmt.Errorf("serving: Azure trace: %w", err)
	}
	return inOrder(all, began), Passed{empty, torn}, nil
}

// azureTime reads the times of both years' files: the later ones have a zone.
func azureTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil { // a fraction is read without being asked for
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("TIMESTAMP is %q; a time such as 2023-11-16 18:17:03.9799600 is expected", s)
}

func (a Arrival) check() error {
	if a.Prompt < 1 || a.Output < 1 || a.Prompt > maxTokens || a.Output > maxTokens {
		return fmt.Errorf("%d tokens in and %d out; both have to lie between 1 and %d", a.Prompt, a.Output, maxTokens)
	}
	return nil
}

// eachLine calls f with the lines that have something in them, without a byte
// order mark. If the last of several has no end, is not whole and f finds it
// wrong, it is torn: that is no error.
func eachLine(r io.Reader, whole func(line []byte) bool, f func(line []byte) error) (torn bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxTraceLine)
	ended := true
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		ended = n == 0 || data[n-1] == '\n'
		return n, line, err
	})
	n, some := 0, 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if some++; some > maxArrivals {
			return false, &LineError{n, fmt.Errorf("more than %d requests; cut the trace", maxArrivals)}
		}
		if err := f(line); err != nil {
			if !ended && some > 1 && !whole(line) {
				return true, nil
			}
			return false, &LineError{n, err}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return false, &LineError{n + 1, fmt.Errorf("it is longer than %d bytes", maxTraceLine)}
	case err != nil:
		return false, &LineError{n + 1, err}
	}
	return false, nil
}

// A LineError says which line of a trace is wrong.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error returns the line's number and what is wrong with it.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// inOrder sorts arrivals by when they began, in seconds, and sets At.
func inOrder(all []Arrival, began []float64) []Arrival {
	index := make([]int, len(all))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(i, j int) int { return cmp.Compare(began[i], began[j]) })
	out := make([]Arrival, len(all))
	for n, i := range index {
		out[n] = all[i]
		out[n].At = seconds(began[i] - began[index[0]])
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
