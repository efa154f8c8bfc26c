// Package serverside brings the server's own view of requests to the records of
// the client: it reads server logs and monitoring, joins log entries to attempts
// by request ID, and splits a client's time to first token into what lies on the
// way, what the server says it took, and the rest.
//
// What a log does not say stays absent. Nothing is guessed from other requests,
// and no clock of the server is compared with one of the client, except to find
// the order of requests where a log has no IDs (Join).
package serverside

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"firstsound/llm/record"
)

// A Format is a kind of server log.
type Format string

// The formats.
const (
	Auto     Format = "auto"     // found out from the first lines
	VLLM     Format = "vllm"     // the text log of vllm serve with --enable-log-requests
	SGLang   Format = "sglang"   // text or JSON request log, time statistics, or exported request metrics
	LlamaCpp Format = "llamacpp" // the log of llama-server
	Ollama   Format = "ollama"   // the log of ollama serve
	Nginx    Format = "nginx"    // a JSON access log with nginx's names of variables
	Truth    Format = "truth"    // what firstsound mock llm --truth writes
	JSONL    Format = "jsonl"    // any JSON lines, read by a FieldMap
)

// Formats are all that may be named.
var Formats = []Format{Auto, VLLM, SGLang, LlamaCpp, Ollama, Nginx, Truth, JSONL}

// ParseFormat returns the format of that name.
func ParseFormat(name string) (Format, error) {
	for _, f := range Formats {
		if string(f) == name {
			return f, nil
		}
	}
	return "", fmt.Errorf("server log: no format %q; there are %s", name, names(Formats))
}

func names(fs []Format) string {
	var s []string
	for _, f := range fs {
		s = append(s, string(f))
	}
	return strings.Join(s, ", ")
}

// A Log is what was understood of a server's log.
type Log struct {
	Name    string
	Format  Format
	Entries []Entry // in the order in which the log first speaks of them
	Gauges  []Gauge

	Lines   int // all
	Unknown int // that mean nothing to the reader: most of a log
	TooLong int // left out: longer than 1 MB
	Faults  Some

	// DurationGrain is by how much the log rounds its durations, and ClockGrain
	// its moments (Entry.Begin and End).
	DurationGrain, ClockGrain time.Duration
}

// Source names the log in record.Server.
func (l *Log) Source() string {
	switch l.Format {
	case LlamaCpp:
		return "llama.cpp log"
	case Truth:
		return "firstsound truth"
	}
	return string(l.Format) + " log"
}

// An Entry is a request in a server's log.
type Entry struct {
	ID   string // as the log has it; empty where the log has none
	Line int    // that first speaks of it, from 1
	// Begin and End are when the server had it, in nanoseconds from an origin
	// of the log's own: only for the order and the overlap of entries.
	Begin, End *int64
	Status     int // of HTTP; 0: not told
	Server     record.Server
	Gateway    *Gateway // what a proxy says of the server behind it
}

// Timed says whether the entry tells any duration.
func (e *Entry) Timed() bool {
	s := &e.Server
	return s.TTFT != nil || s.Queue != nil || s.Load != nil || s.Prefill != nil || s.Decode != nil || s.Total != nil
}

// A Gateway is what nginx measured at the server behind it, with a resolution
// of 1 ms (ngx_http_upstream_module). Where it asked more than one, the times
// are added up.
type Gateway struct {
	Connect  *time.Duration // $upstream_connect_time
	Header   *time.Duration // $upstream_header_time: to the end of the headers, which may be long before the first token
	Response *time.Duration // $upstream_response_time: to the end of the body
	Tries    int            // servers that were asked, retries included; 0: not told
}

// A Gauge is a line in which a server says how busy it is.
type Gauge struct {
	Line    int
	Running *float64 // requests
	Waiting *float64 // requests
	KVUsage *float64 // share of the cache for keys and values, 0 to 1
}

// Some counts things and keeps the first few as examples.
type Some struct {
	N        int      `json:"n"`
	Examples []string `json:"examples,omitempty"`
}

const maxExamples = 10

func (s *Some) add(format string, args ...any) {
	if s.N++; len(s.Examples) < maxExamples {
		s.Examples = append(s.Examples, fmt.Sprintf(format, args...))
	}
}

// maxEntries bounds a log: 5 million requests take about 2 GB.
const maxEntries = 5_000_000

// Options say how a log is to be read.
type Options struct {
	Format Format   // "" is Auto
	Map    FieldMap // for JSONL; if it is given, Auto is JSONL
}

// ReadFile reads the log in a file.
func ReadFile(name string, o Options) (*Log, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("server log: %w", err)
	}
	defer f.Close()
	return Read(name, f, o)
}

// Read reads a log. The name is for messages. Lines that are not understood are
// counted; it is an error if the format cannot be found out, if a line breaks
// the form that was asked for by a field map, or if reading fails.
func Read(name string, r io.Reader, o Options) (*Log, error) {
	format := o.Format
	if format == "" {
		format = Auto
	}
	if format == Auto && len(o.Map) > 0 {
		format = JSONL
	}
	if format == JSONL && len(o.Map) == 0 {
		return nil, fmt.Errorf("server log: %s: the format jsonl needs a field map, such as request_id=rid,ttft=metrics.ttft:ms", name)
	}
	if format == Auto {
		var err error
		if format, r, err = detect(name, r); err != nil {
			return nil, err
		}
	}
	l := &Log{Name: name, Format: format}
	p := newParser(l, o.Map)
	if p == nil {
		return nil, fmt.Errorf("server log: %s: no format %q; there are %s", name, format, names(Formats))
	}
	lines := newLines(r)
	for {
		line, long, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("server log: %s:%d: %w", name, l.Lines+1, err)
		}
		l.Lines++
		switch {
		case long:
			l.TooLong++
		case !p.line(line, l.Lines):
			l.Unknown++
		}
		if len(l.Entries) > maxEntries {
			return nil, fmt.Errorf("server log: %s:%d: more than %d requests; cut out the part of the run", name, l.Lines, maxEntries)
		}
	}
	return l, nil
}

// A parser takes the lines of a log and fills in its entries.
type parser interface {
	// line says whether the line was understood.
	line(s string, n int) bool
}

func newParser(l *Log, m FieldMap) parser {
	switch l.Format {
	case VLLM:
		return newVLLM(l)
	case SGLang:
		return newSGLang(l)
	case LlamaCpp:
		return newLlama(l)
	case Ollama:
		return newOllama(l)
	case Nginx:
		return newNginx(l)
	case Truth:
		return newTruth(l)
	case JSONL:
		return newMapped(l, m)
	}
	return nil
}

// open adds an entry.
func (l *Log) open(id string, line int) int {
	l.Entries = append(l.Entries, Entry{ID: id, Line: line, Server: record.Server{Source: l.Source()}})
	return len(l.Entries) - 1
}

// duration is ns as a duration. A negative one is a fault of the log, and absent.
func (l *Log) duration(line int, what string, ns int64) *time.Duration {
	if ns < 0 {
		l.Faults.add("%s:%d: %s is negative: %v", l.Name, line, what, time.Duration(ns))
		return nil
	}
	d := time.Duration(ns)
	return &d
}

// between is the duration from one moment to another, or absent if one of them is.
func (l *Log) between(line int, what string, from, to *int64) *time.Duration {
	if from == nil || to == nil {
		return nil
	}
	return l.duration(line, what, *to-*from)
}
