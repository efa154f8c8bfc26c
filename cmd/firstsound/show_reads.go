package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"firstsound/clocks/exchange"
	"firstsound/clocks/failure"
	"firstsound/llm/bench"
	"firstsound/llm/record"
	"firstsound/llm/tokens"
	"firstsound/llm/wire"
)

// replayReads analyses the answers of a run again, from its reads.jsonl. Both
// files are read side by side: only the answers that were open at once are in
// memory.
func replayReads(d *llmFolder) (*reanalysis, error) {
	s, err := serviceFlags{url: d.run.Target.URL, dialect: d.run.Target.Dialect, http: "1.1", timeout: 1}.open(func(string) string { return "" }, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(d.path, record.RunFile), errors.Unwrap(err))
	}
	counter, err := tokens.New(d.run.Fixed["tokenizer"])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(d.path, record.RunFile), err)
	}
	f, err := os.Open(filepath.Join(d.path, record.ReadsFile))
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	defer f.Close()
	kept := &keptReads{name: f.Name(), in: bufio.NewReaderSize(f, 1<<20), open: map[string][]exchange.Read{}, bytes: map[string]int64{}}
	r := &reanalysis{Format: "firstsound.reads/1"}
	for was, err := range record.ReadAttempts(d.path, nil) {
		if err != nil {
			return nil, err
		}
		reads, whole, err := kept.take(was.RequestID, was.Bytes)
		if err != nil {
			return nil, err
		}
		if !whole {
			r.NotKept++
			continue
		}
		r.Answers++
		r.Bytes += was.Bytes
		is := wire.Replay(s.protocol, *was, slices.Values(reads), wire.Options{Count: counter.Count})
		r.compare(was, &is)
	}
	return r, nil
}

// keptReads reads reads.jsonl.
type keptReads struct {
	name  string
	in    *bufio.Reader
	line  int
	ended bool
	open  map[string][]exchange.Read // that nobody has taken yet
	bytes map[string]int64
}

// take returns the reads of a request, which have n bytes. whole is false if they
// are not all there.
func (k *keptReads) take(id string, n int64) (reads []exchange.Read, whole bool, err error) {
	for k.bytes[id] < n && !k.ended {
		if err := k.next(); err != nil {
			return nil, false, err
		}
	}
	reads, whole = k.open[id], k.bytes[id] == n
	delete(k.open, id)
	delete(k.bytes, id)
	return reads, whole, nil
}

// next reads a line.
func (k *keptReads) next() error {
	line, err := k.in.ReadBytes('\n')
	k.line++
	if err == io.EOF { // what has no newline was cut off
		k.ended = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	var r bench.Read
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("%s:%d: %w", k.name, k.line, failure.JSON("the line", line, err))
	}
	k.open[r.RequestID] = append(k.open[r.RequestID], exchange.Read{Data: r.Data, Arrived: r.Arrived, Earliest: r.Earliest, Read: r.Read, N: r.N, Kernel: r.Kernel})
	k.bytes[r.RequestID] += int64(len(r.Data))
	return nil
}

// masked is what stands for a key in reads.jsonl.
var masked = regexp.MustCompile(`\*{4,}`)

// compare notes the fields in which two records of an attempt differ.
func (r *reanalysis) compare(was, is *record.Attempt) {
	is.Error = masked.ReplaceAllString(is.Error, "(key)")
	clean := *was
	clean.Error = masked.ReplaceAllString(was.Error, "(key)")
	different := false
	for name, pair := range fieldsOf(&clean, is) {
		different = true
		if len(r.First) < maxDifferences {
			r.First = append(r.First, difference{was.RequestID, name, shortened(pair[0]), shortened(pair[1])})
		}
	}
	if different {
		r.Different++
	}
}

// fieldsOf yields the fields of the JSON of a and b that are not the same.
func fieldsOf(a, b *record.Attempt) iter.Seq2[string, [2]json.RawMessage] {
	return func(yield func(string, [2]json.RawMessage) bool) {
		var x, y map[string]json.RawMessage
		for _, side := range []struct {
			of *record.Attempt
			to *map[string]json.RawMessage
		}{{a, &x}, {b, &y}} {
			text, err := json.Marshal(side.of)
			if err == nil {
				err = json.Unmarshal(text, side.to)
			}
			if err != nil {
				panic(err) // an Attempt is JSON
			}
		}
		all := maps.Clone(x)
		maps.Copy(all, y)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !bytes.Equal(x[name], y[name]) && !yield(name, [2]json.RawMessage{x[name], y[name]}) {
				return
			}
		}
	}
}

// shortened returns a value for people.
func shortened(v json.RawMessage) string {
	switch {
	case v == nil:
		return "absent"
	case len(v) > 100:
		return string(bytes.ToValidUTF8(v[:100], nil)) + "…"
	}
	return string(v)
}
