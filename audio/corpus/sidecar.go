package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"firstsound/audio"
)

// maxSidecar is the size of a sidecar in bytes. A novel's chapter fits; a file
// that is something else is refused before it fills the memory.
const maxSidecar = 64 << 10

// A sidecar is what somebody has written down about a recording.
type sidecar struct {
	text, language       string
	bounds               string // "annotated" or "detected"; empty if not given
	how, source, licence string
	start, end           mark
}

// A mark is a moment in a recording, and where it was read.
type mark struct {
	at   time.Duration
	set  bool
	file string
	line int
	key  string
}

// checkText returns b without a byte order mark, or an error if it is too large
// or not text.
func checkText(name string, b []byte) ([]byte, error) {
	if len(b) > maxSidecar {
		return nil, fmt.Errorf("%s: larger than %d bytes: is it the right file?", name, maxSidecar)
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			at := len(b) - len(rest)
			return nil, fmt.Errorf("%s:%d: byte %#02x is not UTF-8: save the file as UTF-8", name, line(b, at), b[at])
		}
		rest = rest[n:]
	}
	return b, nil
}

// line returns the number of the line at an offset, from 1 on.
func line(b []byte, offset int) int { return 1 + bytes.Count(b[:min(offset, len(b))], []byte("\n")) }

// sidecarKeys are the keys of a JSON sidecar.
var sidecarKeys = []string{"text", "language", "start_ns", "end_ns", "start", "end", "bounds", "how", "source", "licence"}

// languageTag is the form of a tag like "en" or "zh-Hans-CN" (BCP 47, the common part).
var languageTag = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

// readJSON reads a JSON sidecar. It goes through the tokens itself, to know the
// line of what is wrong, and to see a key that is there twice.
func readJSON(name string, b []byte) (sidecar, error) {
	s := sidecar{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	fail := func(at int, format string, args ...any) (sidecar, error) {
		return sidecar{}, fmt.Errorf("%s:%d: "+format, append([]any{name, line(b, at)}, args...)...)
	}
	syntax := func(err error) (sidecar, error) {
		var e *json.SyntaxError
		switch {
		case errors.As(err, &e):
			return fail(int(e.Offset), "%s", e.Error())
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return fail(len(b), "the file ends before its object does")
		}
		return fail(int(d.InputOffset()), "%v", err)
	}
	t, err := d.Token()
	if err != nil {
		return syntax(err)
	}
	if t != json.Delim('{') {
		return fail(0, "want an object: {\"text\": ...}")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return syntax(err)
		}
		at := int(d.InputOffset())
		key, ok := t.(string)
		if !ok {
			return fail(at, "want a key, have %v", t)
		}
		if !slices.Contains(sidecarKeys, key) {
			return fail(at, "unknown key %q: %s", key, suggest(key))
		}
		if seen[key] {
			return fail(at, "key %q is there twice", key)
		}
		seen[key] = true
		var value any
		if err := d.Decode(&value); err != nil {
			return syntax(err)
		}
		if strings.HasSuffix(key, "_ns") {
			n, ok := value.(json.Number)
			ns, err := strconv.ParseInt(n.String(), 10, 64)
			if !ok || err != nil || ns < 0 {
				return fail(at, "%s is %s: want whole nanoseconds from 0 on, like 1250000000", key, show(value))
			}
			if err := s.mark(name, line(b, at), key, time.Duration(ns)); err != nil {
				return sidecar{}, err
			}
			continue
		}
		text, ok := value.(string)
		if !ok {
			return fail(at, "%s is %s: want a string", key, show(value))
		}
		switch key {
		case "text":
			s.text = strings.TrimSpace(text)
		case "language":
			if !languageTag.MatchString(text) {
				return fail(at, "language is %q: want a tag like \"en\" or \"zh\"", text)
			}
			s.language = text
		case "start", "end":
			v, err := time.ParseDuration(text)
			if err != nil || v < 0 {
				return fail(at, "%s is %q: want a time from 0 on, like \"1.25s\"", key, text)
			}
			if err := s.mark(name, line(b, at), key, v); err != nil {
				return sidecar{}, err
			}
		case "bounds":
			if text != audio.BoundsAnnotated && text != audio.BoundsDetected {
				return fail(at, "bounds is %q: want %q or %q", text, audio.BoundsAnnotated, audio.BoundsDetected)
			}
			s.bounds = text
		case "how":
			s.how = text
		case "source":
			s.source = text
		case "licence":
			s.licence = text
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return syntax(err)
	}
	end := int(d.InputOffset())
	if _, err := d.Token(); err != io.EOF {
		return fail(end, "more follows after the object")
	}
	return s, nil
}

// mark sets the start or the end, whichever of their keys it is.
func (s *sidecar) mark(file string, line int, key string, at time.Duration) error {
	m := &s.start
	if strings.HasPrefix(key, "end") {
		m = &s.end
	}
	if m.set {
		return fmt.Errorf("%s:%d: %s and %s say the same: keep one", file, line, m.key, key)
	}
	*m = mark{at: at, set: true, file: file, line: line, key: key}
	return nil
}

func show(value any) string {
	b, err := json.Marshal(value)
	if err != nil || len(b) > 40 {
		return "something else"
	}
	return string(b)
}

// suggest names the key that was most likely meant, or all.
func suggest(key string) string {
	best, least := "", 3
	for _, k := range sidecarKeys {
		if d := distance(strings.ToLower(key), k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best == "" {
		return "want one of " + strings.Join(sidecarKeys, ", ")
	}
	return fmt.Sprintf("do you mean %q?", best)
}

// distance is how many letters have to be put in, taken out or changed to turn
// a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}

// A label is a line of an Audacity label file.
type label struct {
	start, end time.Duration
	name       string
}

// readLine reads a line of labels.
func readLine(text string) (label, error) {
	fields := strings.SplitN(text, "\t", 3)
	if len(fields) < 2 {
		return label{}, fmt.Errorf("want seconds, seconds and a name with tabs between, have %.40q", text)
	}
	var times [2]time.Duration
	for i, f := range fields[:2] {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		const most = 1e6 // eleven days
		if err != nil || !(seconds >= 0 && seconds <= most) {
			return label{}, fmt.Errorf("%.40q is not a number of seconds from 0 on", f)
		}
		times[i] = time.Duration(math.Round(seconds * 1e9))
	}
	l := label{start: times[0], end: times[1]}
	if len(fields) == 3 {
		l.name = strings.TrimSpace(fields[2])
	}
	if l.end < l.start {
		return l, fmt.Errorf("the label ends at %v and begins at %v", l.end, l.start)
	}
	return l, nil
}

// eachLine calls f for every line that may be a label. Lines that begin with a
// backslash hold the frequencies of the label before.
func eachLine(b []byte, f func(n int, text string) bool) {
	n := 0
	for text := range strings.Lines(string(b)) {
		n++
		text = strings.TrimRight(text, "\r\n")
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "\\") {
			continue
		}
		if !f(n, text) {
			return
		}
	}
}

// areLabels returns whether every line is a label, and there is one.
func areLabels(b []byte) bool {
	lines, all := 0, true
	eachLine(b, func(_ int, text string) bool {
		lines++
		_, err := readLine(text)
		all = err == nil
		return all
	})
	return lines > 0 && all
}

// readLabels reads a file of Audacity's labels: the bounds reach from the first
// to the last of those called speech, or of all.
func readLabels(name string, b []byte) (sidecar, error) {
	var hull, speech sidecar
	var bad error
	widen := func(s *sidecar, n int, l label) {
		if !s.start.set || l.start < s.start.at {
			s.start = mark{l.start, true, name, n, "start"}
		}
		if !s.end.set || l.end > s.end.at {
			s.end = mark{l.end, true, name, n, "end"}
		}
	}
	eachLine(b, func(n int, text string) bool {
		l, err := readLine(text)
		if err != nil {
			bad = fmt.Errorf("%s:%d: %w", name, n, err)
			return false
		}
		widen(&hull, n, l)
		if strings.EqualFold(l.name, "speech") {
			widen(&speech, n, l)
		}
		return true
	})
	switch {
	case bad != nil:
		return sidecar{}, bad
	case !hull.start.set:
		return sidecar{}, fmt.Errorf("%s: no labels in it", name)
	case speech.start.set:
		return speech, nil
	}
	return hull, nil
}
