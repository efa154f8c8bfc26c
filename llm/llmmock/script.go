package llmmock

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ScriptHelp says how a script is written.
const ScriptHelp = `A script is a list of events, each at a time after the request's arrival:
  R@5 t@214 t@234 F U(2) D
  @5  at 5 ms; @5s, @1.5ms: with a unit; @+9: 9 ms after the event before; no
      time: in the same write as the event before
  |   a cut: what follows is a write of its own
  H   the headers, ahead of the first event       S(429,retry-after=1) a status
  R   only the role    e  content ""    n  content null    B  Azure's choices []
  t   text: t"hello" as written, t3 of 3 tokens, t makes a word up
  r   reasoning, in the dialect's field; rc, rs, rb: in reasoning_content,
      reasoning, or both
  T"name" a"{}"   a tool call, and a part of its arguments
  F   finish: F"length"    U(n) or U(n,prompt,cached): usage, Un(n): without choices
  t/U(4)  any event with the usage so far         D  the end mark
  :"keep-alive"   a comment          E"message"   an error object in the stream
  x"data: …\n\n" or x(E4B8AD)   raw bytes
  X   the connection is reset    C  closed in mid-body    W  nothing more comes`

// maxScript bounds a script, in bytes; maxScriptTime its times.
const (
	maxScript     = 1 << 20
	maxScriptTime = 24 * time.Hour
)

// ParseScript reads the notation of [ScriptHelp] into a plan. All of its times
// count from the request's arrival.
func ParseScript(text string) (*Plan, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("the script has %d bytes; at most %d are read", len(text), maxScript)
	}
	s := &scriptReader{rest: text, plan: Plan{Status: http.StatusOK, Header: http.Header{}, Timed: true, Script: true}}
	for {
		s.rest = strings.TrimLeft(s.rest, " \t\r\n")
		if s.rest == "" {
			break
		}
		if err := s.event(); err != nil {
			return nil, fmt.Errorf("byte %d, %q: %w", len(text)-len(s.rest)+1, head(s.rest), err)
		}
	}
	if len(s.plan.Pieces) == 0 && s.plan.Status == http.StatusOK {
		return nil, fmt.Errorf("the script has no event; for example: R@5 t@214 F D")
	}
	s.plan.Usage = s.usage
	if s.usage == (Count{}) {
		s.plan.Usage.Output = s.tokens
	}
	return &s.plan, nil
}

func head(s string) string {
	if i := strings.IndexAny(s, " \t\r\n"); i >= 0 {
		s = s[:i]
	}
	return s[:min(len(s), 24)]
}

type scriptReader struct {
	rest   string
	plan   Plan
	now    time.Duration // of the event before
	words  int           // made up so far
	tokens int
	usage  Count // the last one
}

func (s *scriptReader) take(prefix string) bool {
	rest, ok := strings.CutPrefix(s.rest, prefix)
	if ok {
		s.rest = rest
	}
	return ok
}

// letters are the events of one letter without an argument that has a say.
var letters = map[byte]Kind{'H': Headers, 'R': Role, 'e': Blank, 'n': Null, 'B': Filter, 'D': End, 'X': Reset, 'C': Abort, 'W': Hang}

// worded are the events of one letter with a text that may be left out.
var worded = map[byte]struct {
	kind Kind
	text string
}{'T': {Call, "lookup"}, 'a': {Arguments, "{}"}, 'F': {Finish, "stop"}, 'E': {Failure, died}}

// died is what a service says whose engine did.
const died = "the engine died (mock)"

// event reads one event with its time.
func (s *scriptReader) event() error {
	begin := s.rest
	err := s.readEvent()
	if err != nil {
		s.rest = begin
	}
	return err
}

func (s *scriptReader) readEvent() error {
	if s.take("|") {
		s.plan.Pieces = append(s.plan.Pieces, Piece{Kind: Cut, When: When{After: s.now}})
		return nil
	}
	var p Piece
	var err error
	first := s.rest[0]
	s.rest = s.rest[1:]
	switch first {
	case 't':
		p.Kind = Text
		p.Text, p.Tokens, err = s.content()
		s.tokens += p.Tokens
	case 'r':
		p.Kind = Reasoning
		switch {
		case s.take("c"):
			p.Field = InContent
		case s.take("s"):
			p.Field = InShort
		case s.take("b"):
			p.Field = InBoth
		}
		p.Text, p.Tokens, err = s.content()
		s.tokens += p.Tokens
	case ':':
		p.Kind = Comment
		p.Text, err = s.quoted("keep-alive")
		if strings.ContainsAny(p.Text, "\r\n") {
			err = fmt.Errorf("a comment has one line; write more of it as raw bytes: x\": …\"")
		}
	case 'U':
		p.Kind = Usage
		p.Bare = s.take("n")
		p.Count, err = s.count()
	case 'x':
		p.Kind = Raw
		p.Text, err = s.raw()
	case 'S':
		return s.status()
	default:
		if w, ok := worded[first]; ok {
			p.Kind = w.kind
			p.Text, err = s.quoted(w.text)
			break
		}
		k, ok := letters[first]
		if !ok {
			return fmt.Errorf("no event is called %q; see firstsound mock llm --help", string(rune(first)))
		}
		p.Kind = k
	}
	if err != nil {
		return err
	}
	if s.take("/U") {
		if p.Count, err = s.count(); err != nil {
			return err
		}
	}
	if err := s.time(&p); err != nil {
		return err
	}
	if s.rest != "" && !strings.ContainsAny(s.rest[:1], " \t\r\n|") {
		return fmt.Errorf("%q is left over; events are parted by spaces", head(s.rest))
	}
	s.plan.Pieces = append(s.plan.Pieces, p)
	return nil
}

// time reads @5, @+9, @1.5s.
func (s *scriptReader) time(p *Piece) error {
	if !s.take("@") {
		p.When.After, p.Join = s.now, true
		return nil
	}
	relative := s.take("+")
	end := strings.IndexAny(s.rest, " \t\r\n|")
	if end < 0 {
		end = len(s.rest)
	}
	word := s.rest[:end]
	s.rest = s.rest[end:]
	unit := word
	if strings.Trim(word, "0123456789.") == "" {
		unit += "ms"
	}
	d, err := time.ParseDuration(unit)
	if err != nil || d < 0 {
		return fmt.Errorf("@%s is no time; write @214 for milliseconds, @1.5s, or @+9 after the event before", word)
	}
	if relative {
		d += s.now
	}
	if d < s.now {
		return fmt.Errorf("@%s is before the event ahead of it, at %v", word, s.now)
	}
	if d > maxScriptTime {
		return fmt.Errorf("@%s is more than %v", word, maxScriptTime)
	}
	s.now, p.When.After = d, d
	return nil
}

// content reads the text of content: quoted, or a count of tokens, or nothing.
func (s *scriptReader) content() (string, int, error) {
	n := 1
	digits := len(s.rest) - len(strings.TrimLeft(s.rest, "0123456789"))
	if digits > 0 {
		v, err := strconv.Atoi(s.rest[:digits])
		if err != nil || v > 1e4 {
			return "", 0, fmt.Errorf("%s tokens are too many for one event", s.rest[:digits])
		}
		n = v
		s.rest = s.rest[digits:]
	}
	if strings.HasPrefix(s.rest, `"`) {
		text, err := s.quoted("")
		return text, n, err
	}
	var b strings.Builder
	for range n {
		w := madeUp[s.words%len(madeUp)]
		if s.words == 0 {
			w = w[1:]
		}
		s.words++
		b.WriteString(w)
	}
	return b.String(), n, nil
}

// quoted reads a quoted text, if there is one.
func (s *scriptReader) quoted(otherwise string) (string, error) {
	if !strings.HasPrefix(s.rest, `"`) {
		return otherwise, nil
	}
	q, err := strconv.QuotedPrefix(s.rest)
	if err != nil {
		return "", fmt.Errorf("a quoted text is not closed, or has a wrong escape: %w", err)
	}
	s.rest = s.rest[len(q):]
	return strconv.Unquote(q)
}

func (s *scriptReader) raw() (string, error) {
	if strings.HasPrefix(s.rest, `"`) {
		return s.quoted("")
	}
	in, err := s.parens()
	if err != nil {
		return "", fmt.Errorf(`raw bytes are written x"text\n" or x(E4B8AD)`)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(in, " ", ""))
	if err != nil {
		return "", fmt.Errorf("raw bytes in hex: %w", err)
	}
	return string(b), nil
}

func (s *scriptReader) parens() (string, error) {
	if !s.take("(") {
		return "", fmt.Errorf("a parenthesis is missing")
	}
	in, rest, ok := strings.Cut(s.rest, ")")
	if !ok {
		return "", fmt.Errorf("a parenthesis is not closed")
	}
	s.rest = rest
	return in, nil
}

func (s *scriptReader) count() (*Count, error) {
	in, err := s.parens()
	if err != nil {
		return nil, fmt.Errorf("usage is written U(n) or U(n,prompt,cached): %w", err)
	}
	var c Count
	fields := strings.Split(in, ",")
	if len(fields) > 3 {
		return nil, fmt.Errorf("usage has at most three numbers: U(n,prompt,cached)")
	}
	for i, to := range []*int{&c.Output, &c.Prompt, &c.Cached}[:len(fields)] {
		n, err := strconv.Atoi(strings.TrimSpace(fields[i]))
		if err != nil || n < 0 || n > 1<<24 {
			return nil, fmt.Errorf("%q is no number of tokens", fields[i])
		}
		*to = n
	}
	s.usage = c
	return &c, nil
}

// status reads S(429,retry-after=1): a refusal with headers.
func (s *scriptReader) status() error {
	in, err := s.parens()
	if err != nil {
		return fmt.Errorf("a status is written S(503) or S(429,retry-after=1): %w", err)
	}
	fields := strings.Split(in, ",")
	code, err := strconv.Atoi(fields[0])
	if err != nil || code < 200 || code > 599 {
		return fmt.Errorf("%q is no status; it lies between 200 and 599", fields[0])
	}
	for _, f := range fields[1:] {
		k, v, ok := strings.Cut(f, "=")
		if !ok || k == "" || strings.Trim(strings.ToLower(k), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.ContainsAny(v, "\r\n\x00") {
			return fmt.Errorf("%q is no header; write name=value", f)
		}
		s.plan.Header.Set(k, v)
	}
	p := Piece{Kind: Headers}
	if err := s.time(&p); err != nil {
		return err
	}
	p.Join = false
	s.plan.Status, s.plan.Body = code, http.StatusText(code)+" (mock)"
	s.plan.Pieces = append(s.plan.Pieces, p)
	return nil
}

// madeUp are the words of a script that does not say which.
var madeUp = []string{" one", " two", " three", " four", " five", " six", " seven", " eight", " nine", " ten"}
