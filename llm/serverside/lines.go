package serverside

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxLine bounds a line. Logs with whole prompts in them have long ones.
const maxLine = 1 << 20

// detectBytes is how much of a log Auto looks at: a server prints a few thousand
// lines about its model before the first request.
const detectBytes = 8 << 20

// lines reads a log line by line.
type lines struct {
	in  *bufio.Reader
	buf []byte
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line, without colours and its end. long says that it
// was longer than 1 MB, and left out. At the end the error is io.EOF.
func (l *lines) next() (line string, long bool, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(l.buf)+len(part) > maxLine; !long {
			l.buf = append(l.buf, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || !long && len(l.buf) == 0) {
			return "", long, err
		}
		break
	}
	if long {
		return "", true, nil
	}
	line = plain(string(bytes.TrimRight(l.buf, "\r\n")))
	// JSON behind a container runtime's stamp is JSON.
	if at := strings.Index(line, " {"); at > 0 && at <= 40 && stamp(line) != nil && !strings.Contains(line[:at], " ") {
		line = line[at+1:]
	}
	return line, false, nil
}

// plain takes the colours of a terminal (ESC [ … m) out of a line.
func plain(s string) string {
	at := strings.Index(s, "\x1b[")
	if at < 0 {
		return s
	}
	var b strings.Builder
	for at >= 0 {
		b.WriteString(s[:at])
		s = s[at+2:]
		end := strings.IndexFunc(s, func(r rune) bool { return r != ';' && (r < '0' || r > '9') })
		if end < 0 {
			return b.String()
		}
		s = s[end+1:] // the letter that ends it is ASCII, or the line is broken anyway
		at = strings.Index(s, "\x1b[")
	}
	b.WriteString(s)
	return b.String()
}

// detect finds out the format from the head of a log, and returns a reader of
// the whole.
func detect(name string, r io.Reader) (Format, io.Reader, error) {
	head, err := io.ReadAll(io.LimitReader(r, detectBytes))
	if err != nil {
		return "", nil, fmt.Errorf("server log: %s: %w", name, err)
	}
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		return "", nil, errGzip(name)
	}
	seen := map[Format]int{}
	jsons, broken, others := 0, 0, 0
	for in := newLines(bytes.NewReader(head)); ; {
		line, _, err := in.next()
		if err != nil {
			break
		}
		isJSON := strings.HasPrefix(line, "{")
		if isJSON && !json.Valid([]byte(line)) {
			broken++
			continue
		}
		if f, ok := kindOf(line); ok {
			seen[f]++
		} else if isJSON {
			jsons++
		} else if line != "" {
			others++
		}
	}
	r = io.MultiReader(bytes.NewReader(head), r)
	best := Auto
	for _, f := range Formats {
		if seen[f] > seen[best] {
			best = f
		}
	}
	// Ollama prints llama.cpp's lines between its own.
	if seen[Ollama] > 0 && best == LlamaCpp {
		best = Ollama
	}
	switch {
	case best != Auto:
		return best, r, nil
	case jsons > 0:
		return "", nil, fmt.Errorf("server log: %s: JSON lines of no known kind: say with a field map where things are, such as request_id=rid,ttft=metrics.ttft:ms", name)
	case broken > 0 && others == 0:
		return "", nil, fmt.Errorf("server log: %s: its lines begin with { and are no JSON", name)
	}
	return "", nil, fmt.Errorf("server log: %s: %w in the first %d MB; there are %s (vLLM tells of requests with --enable-log-requests only, SGLang with --log-requests)",
		name, errNoKnown, detectBytes>>20, names(Formats[1:]))
}

// errNoKnown is of a log that says nothing of requests: not yet, it may be.
var errNoKnown = errors.New("no line of a known format")

func errGzip(name string) error {
	return fmt.Errorf("server log: %s is compressed with gzip; unpack it: gunzip -k %[1]s", name)
}

// Check says what is wrong with a log before its server was asked: that it is
// compressed, or JSON of no known kind. A log that does not speak of requests yet
// is right, and so is an empty one.
func Check(name string, o Options) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("server log: %w", err)
	}
	defer f.Close()
	head := make([]byte, 2)
	n, err := io.ReadFull(f, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	if err != nil {
		return fmt.Errorf("server log: %w", err)
	}
	if string(head[:n]) == "\x1f\x8b" {
		return errGzip(name)
	}
	if len(o.Map) > 0 || o.Format != Auto && o.Format != "" {
		return nil
	}
	_, _, err = detect(name, io.MultiReader(bytes.NewReader(head), f))
	if errors.Is(err, errNoKnown) {
		return nil
	}
	return err
}

// kindOf says which format a line is of, if only one prints such lines.
func kindOf(s string) (Format, bool) {
	if strings.HasPrefix(s, "{") {
		switch {
		case has(s, `"arrived_ns"`) && has(s, `"chunks_ns"`) || has(s, `"epoch_unix_ns"`):
			return Truth, true
		case has(s, `"request_time"`) || has(s, `"upstream_response_time"`) || has(s, `"upstream_header_time"`):
			return Nginx, true
		case has(s, `"event": "request.`) || has(s, `"e2e_latency"`) && (has(s, `"request_parameters"`) || has(s, `"meta_info"`)):
			return SGLang, true
		}
		return "", false
	}
	switch {
	case has(s, "[GIN] "):
		return Ollama, true
	case has(s, "Receive: obj=") || has(s, "Finish: obj=") || has(s, "Req Time Stats(rid=") ||
		has(s, "batch") && has(s, "#running-req:") && has(s, "#queue-req:"):
		return SGLang, true
	case has(s, "Received request ") || has(s, "Avg prompt throughput:") || has(s, "Added request "):
		return VLLM, true
	case has(s, "slot ") && has(s, " | task ") || has(s, "id_slot=") && has(s, "id_task="):
		return LlamaCpp, true
	}
	return "", false
}

func has(s, part string) bool { return strings.Contains(s, part) }

// after returns what comes behind the first mark in s.
func after(s, mark string) (string, bool) {
	_, rest, ok := strings.Cut(s, mark)
	return rest, ok
}

// stamp is the moment at the head of a line that a container runtime or a
// logger put there (docker logs -t, kubectl logs --timestamps), in nanoseconds
// since 1970; nil if there is none.
func stamp(s string) *int64 {
	if len(s) < 20 || s[4] != '-' || s[10] != 'T' {
		return nil
	}
	word, _, _ := strings.Cut(s, " ")
	t, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		return nil
	}
	return nanos(t)
}

// nanos is a time in nanoseconds since 1970, or nil outside of what fits.
func nanos(t time.Time) *int64 {
	if y := t.Year(); y < 1970 || y > 2200 {
		return nil
	}
	ns := t.UnixNano()
	return &ns
}

// scaled reads a decimal number and returns it times 10 to the power of exp, as
// a whole number, rounded half away from zero. It is exact where a float64 is
// not: seconds since 1970 with nanoseconds.
func scaled(s string, exp int) (int64, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return 0, false
	}
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		e, err := strconv.Atoi(s[at+1:])
		if err != nil || e < -400 || e > 400 {
			return 0, false
		}
		exp += e
		s = s[:at]
	}
	digits, negative := strings.CutPrefix(s, "-")
	whole, part, _ := strings.Cut(digits, ".")
	digits = whole + part
	if digits == "" {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	keep := len(whole) + exp // digits before the point of the result
	digits, lead := strings.TrimLeft(digits, "0"), len(digits)
	keep -= lead - len(digits)
	if digits == "" || keep < 0 {
		return 0, true
	}
	if keep > 19 {
		return 0, false
	}
	up := keep < len(digits) && digits[keep] >= '5'
	if keep <= len(digits) {
		digits = digits[:keep]
	} else {
		digits += strings.Repeat("0", keep-len(digits))
	}
	n := int64(0)
	if digits != "" {
		var err error
		if n, err = strconv.ParseInt(digits, 10, 64); err != nil {
			return 0, false
		}
	}
	if up && n < 1<<63-1 {
		n++
	}
	if negative {
		n = -n
	}
	return n, true
}

// count reads a number of tokens.
func count(s string) *int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// number reads the number at the head of s.
func number(s string) *float64 {
	s = strings.TrimLeft(s, " ")
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	v, err := strconv.ParseFloat(strings.TrimRight(s[:end], "."), 64)
	if err != nil {
		return nil
	}
	return &v
}

// whole is a number of tokens that number found.
func whole(v *float64) *int {
	if v == nil || *v > 1e9 || *v != math.Trunc(*v) {
		return nil
	}
	n := int(*v)
	return &n
}

// numberAfter reads the number behind the first mark in s.
func numberAfter(s, mark string) *float64 {
	if rest, ok := after(s, mark); ok {
		return number(rest)
	}
	return nil
}
