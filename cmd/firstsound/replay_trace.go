package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"firstsound/llm/serving"
	"firstsound/pipeline/report"
)

// asked is a request of a trace. Its spans are what earlier requests of a run
// leave in the prefix cache.
type asked struct {
	serving.Arrival
	shared, session serving.Span
}

// A recordedTrace is what replay reads.
type recordedTrace struct {
	path, format string
	asked        []asked
	left         []leftOut
	connected    bool // times count from the connection
}

// leftOut counts the requests that cannot be replayed, by reason.
type leftOut struct {
	Requests int    `json:"requests"`
	Why      string `json:"why"`
}

func (t *recordedTrace) leave(why string, n int) {
	if n == 0 {
		return
	}
	for i := range t.left {
		if t.left[i].Why == why {
			t.left[i].Requests += n
			return
		}
	}
	t.left = append(t.left, leftOut{n, why})
}

// omitted says what is left out, in parentheses.
func (t *recordedTrace) omitted() string {
	var all []string
	for _, l := range t.left {
		all = append(all, fmt.Sprintf("%d left out: %s", l.Requests, l.Why))
	}
	if all == nil {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// readTrace reads a trace of a format, or finds out which it is.
func readTrace(ctx context.Context, path, format string) (*recordedTrace, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%s: there is no such trace", path)
	}
	if err != nil {
		return nil, err
	}
	if format == "run" || format == "auto" && info.IsDir() {
		return readRun(ctx, path)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, and --format %s is a file", path, format)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(untilDone{ctx, file}, 1<<16)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted while reading %s", path)
	}
	if format == "auto" {
		if format, err = detect(path, in); err != nil {
			return nil, err
		}
	}
	t := &recordedTrace{path: path, format: format}
	var all []serving.Arrival
	var passed serving.Passed
	switch format {
	case "run":
		return readRun(ctx, path)
	case "azure":
		all, passed, err = serving.ReadAzure(in)
	default:
		all, passed, err = serving.ReadVLLM(in)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted while reading %s", path)
		}
		var at *serving.LineError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%s:%d: %w", path, at.Line, at.Err)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.leave("0 tokens out", passed.Empty)
	if passed.Torn {
		t.leave("the last line breaks off", 1)
	}
	t.asked = make([]asked, len(all))
	for i, a := range all {
		t.asked[i].Arrival = a
	}
	return t, nil
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// detect says what a file is by its first line that has something in it.
func detect(path string, in *bufio.Reader) (string, error) {
	head, err := in.Peek(in.Size())
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	text := bytes.TrimPrefix(head, []byte("\ufeff"))
	n := 1 + bytes.Count(text[:len(text)-len(bytes.TrimLeft(text, " \t\r\n"))], []byte("\n"))
	text, _, ended := bytes.Cut(bytes.TrimLeft(text, " \t\r\n"), []byte("\n"))
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "", fmt.Errorf("%s is empty", path)
	}
	if !ended && len(head) == in.Size() {
		return "", fmt.Errorf("%s:%d: the line is longer than %d bytes, too long to tell what it is; --format says it", path, n, len(head))
	}
	var keys map[string]json.RawMessage
	switch isObject := json.Unmarshal(text, &keys) == nil; {
	case bytes.HasPrefix(text, []byte("TIMESTAMP,")):
		return "azure", nil
	case isObject && (keys["input_toks"] != nil || keys["output_toks"] != nil || keys["queued_ts"] != nil):
		return "vllm", nil
	case isObject && keys["t_ns"] != nil:
		return "run", nil
	case isObject && keys["marks"] != nil && keys["outcome"] != nil:
		return "", fmt.Errorf("%s has the turns of a run, without the tokens of its requests: name the run's folder, or its %s", path, report.EventsFile)
	}
	return "", fmt.Errorf("%s:%d: neither a vLLM trace (JSON lines with input_toks, output_toks, queued_ts), nor an Azure trace (CSV with TIMESTAMP,ContextTokens,GeneratedTokens), nor the events of a run; --format says which it is meant to be", path, n)
}
