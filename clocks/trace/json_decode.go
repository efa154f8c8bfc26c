package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxLine is the longest line that a Decoder takes, in bytes.
const MaxLine = 1 << 20

// ErrTruncated says that the last line has no end: the writer was cut off.
var ErrTruncated = errors.New("the last line is cut off")

// A SyntaxError is a line that is not an event.
type SyntaxError struct {
	Line   int // from 1
	Column int // in bytes, from 1
	Text   string
}

// Error returns line, column and what is wrong there.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// A Decoder reads events that AppendJSON wrote, one per line. It is strict:
// unknown and repeated keys are errors, and so is anything that is not of the
// right type. Empty lines are left out.
type Decoder struct {
	r    *bufio.Reader
	long []byte // a line that is longer than r's buffer
	line int

	b  []byte // the line
	at int    // the place in b

	texts map[string]string // texts that have come before: few differ
	refs  []Ref             // from which the causes of events are cut
	attrs []Attr
	raw   []byte
}

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: bufio.NewReaderSize(r, 64<<10), texts: map[string]string{}}
}

// Line returns the number of the line that was read last, from 1.
func (d *Decoder) Line() int { return d.line }

// Next reads the next event into e. It returns io.EOF at the end, ErrTruncated
// if the last line is not whole, and a *SyntaxError for a line that is not an
// event; after that one the next line may be read.
func (d *Decoder) Next(e *Event) error {
	for {
		whole, err := d.readLine()
		if err != nil {
			return err
		}
		d.at = 0
		d.blank()
		if d.at == len(d.b) {
			if !whole {
				return io.EOF
			}
			continue
		}
		if err := d.event(e); err != nil {
			if !whole {
				return ErrTruncated
			}
			return err
		}
		return nil
	}
}

// readLine reads a line into d.b, and says whether it had an end.
func (d *Decoder) readLine() (whole bool, err error) {
	d.line++
	d.long = d.long[:0]
	for {
		part, err := d.r.ReadSlice('\n')
		if len(d.long)+len(part) > MaxLine {
			return false, d.tooLong(err)
		}
		switch {
		case err == nil || err == io.EOF && len(part)+len(d.long) > 0:
			d.b = part
			if len(d.long) > 0 {
				d.long = append(d.long, part...)
				d.b = d.long
			}
			if err == nil {
				d.b = d.b[:len(d.b)-1]
			}
			return err == nil, nil
		case errors.Is(err, bufio.ErrBufferFull):
			d.long = append(d.long, part...)
		default:
			return false, err
		}
	}
}

// tooLong skips the rest of a line that is too long.
func (d *Decoder) tooLong(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = d.r.ReadSlice('\n')
	}
	return &SyntaxError{d.line, MaxLine, fmt.Sprintf("the line is longer than %d bytes", MaxLine)}
}

func (d *Decoder) fail(format string, args ...any) error {
	return &SyntaxError{d.line, d.at + 1, fmt.Sprintf(format, args...)}
}

// blank skips white space.
func (d *Decoder) blank() {
	for d.at < len(d.b) && (d.b[d.at] == ' ' || d.b[d.at] == '\t' || d.b[d.at] == '\r' || d.b[d.at] == '\n') {
		d.at++
	}
}

// sees returns whether c is next, and takes it then.
func (d *Decoder) sees(c byte) bool {
	d.blank()
	if d.at < len(d.b) && d.b[d.at] == c {
		d.at++
		return true
	}
	return false
}

// want takes c.
func (d *Decoder) want(c byte) error {
	if d.sees(c) {
		return nil
	}
	if d.at == len(d.b) {
		return d.fail("want %q, but the line ends", c)
	}
	return d.fail("want %q, not %q", c, d.b[d.at])
}

// The keys of an event, as bits.
const (
	keyTime = 1 << iota
	keySession
	keyTurn
	keySeq
	keyMark
	keyCause
	keyStage
	keySetting
	keyAttempt
	keyAttrs
)

// needed are the keys that an event must have.
const needed = keyTime | keySession | keyTurn | keyMark

// event reads the line as an event.
func (d *Decoder) event(e *Event) error {
	*e = Event{}
	seen := 0
	err := d.members(func(name []byte) error {
		bit, err := d.field(e, name)
		if err == nil && seen&bit != 0 {
			return d.fail("the key %q comes twice", name)
		}
		seen |= bit
		return err
	})
	if err != nil {
		return err
	}
	d.blank()
	if d.at < len(d.b) {
		return d.fail("there is more after the event")
	}
	if seen&needed != needed {
		return d.fail("an event needs t_ns, session, turn and mark")
	}
	return nil
}

// members reads an object and calls f after each name, to read the value.
func (d *Decoder) members(f func(name []byte) error) error {
	if err := d.want('{'); err != nil {
		return err
	}
	if d.sees('}') {
		return nil
	}
	for {
		d.blank()
		name, err := d.stringBytes()
		if err != nil {
			return err
		}
		if err := d.want(':'); err != nil {
			return err
		}
		if err := f(name); err != nil {
			return err
		}
		if d.sees('}') {
			return nil
		}
		if err := d.want(','); err != nil {
			return err
		}
	}
}

// field reads the value of one key of an event.
func (d *Decoder) field(e *Event, name []byte) (bit int, err error) {
	switch string(name) {
	case "t_ns":
		n, err := d.integer()
		e.At = time.Duration(n)
		return keyTime, err
	case "session":
		e.ID.Session, err = d.count()
		return keySession, err
	case "turn":
		e.ID.Turn, err = d.count()
		return keyTurn, err
	case "seq":
		n, err := d.ref()
		e.Seq = n
		return keySeq, err
	case "mark":
		s, err := d.text()
		if err == nil && s == "" {
			err = d.fail("the mark is empty")
		}
		e.Mark = Mark(s)
		return keyMark, err
	case "cause":
		e.Causes, err = d.causes()
		return keyCause, err
	case "stage":
		s, err := d.text()
		e.Stage = Stage(s)
		return keyStage, err
	case "setting":
		e.Setting, err = d.text()
		return keySetting, err
	case "attempt":
		e.Attempt, err = d.count()
		return keyAttempt, err
	case "attrs":
		e.Attrs, err = d.attributes()
		return keyAttrs, err
	}
	return 0, d.fail("unknown key %q; an event has t_ns, session, turn, seq, mark, cause, stage, setting, attempt and attrs", name)
}

// integer reads a whole number.
func (d *Decoder) integer() (int64, error) {
	d.blank()
	from := d.at
	if d.at < len(d.b) && d.b[d.at] == '-' {
		d.at++
	}
	digits := d.at
	n := int64(0)
	for d.at < len(d.b) && d.b[d.at] >= '0' && d.b[d.at] <= '9' {
		n = n*10 + int64(d.b[d.at]-'0')
		d.at++
	}
	switch {
	case d.at == digits:
		return 0, d.fail("want a whole number")
	case d.b[digits] == '0' && d.at > digits+1:
		return 0, d.fail("a number does not begin with 0")
	case d.at < len(d.b) && (d.b[d.at] == '.' || d.b[d.at] == 'e' || d.b[d.at] == 'E'):
		return 0, d.fail("want a whole number, without a fraction or an exponent")
	case d.at-digits > 18: // it may not fit
		big, err := strconv.ParseInt(string(d.b[from:d.at]), 10, 64)
		if err != nil {
			return 0, d.fail("the number does not fit 64 bits")
		}
		return big, nil
	}
	if from != digits {
		n = -n
	}
	return n, nil
}

// count reads a whole number that is not negative and fits 31 bits.
func (d *Decoder) count() (int, error) {
	n, err := d.integer()
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = d.fail("the number is not from 0 to %d", math.MaxInt32)
	}
	return int(n), err
}

// ref reads the number of an event.
func (d *Decoder) ref() (Ref, error) {
	n, err := d.count()
	if err == nil && n == 0 {
		err = d.fail("events are numbered from 1")
	}
	return Ref(n), err
}

// causes reads a list of events' numbers.
func (d *Decoder) causes() ([]Ref, error) {
	if err := d.want('['); err != nil {
		return nil, err
	}
	if cap(d.refs)-len(d.refs) < 16 {
		d.refs = make([]Ref, 0, 1024)
	}
	from := len(d.refs)
	for !d.sees(']') {
		if len(d.refs) > from {
			if err := d.want(','); err != nil {
				return nil, err
			}
		}
		r, err := d.ref()
		if err != nil {
			return nil, err
		}
		d.refs = append(d.refs, r)
	}
	if len(d.refs) == from {
		return nil, nil
	}
	return d.refs[from:len(d.refs):len(d.refs)], nil
}

// attributes reads the attributes of an event, in their order.
func (d *Decoder) attributes() ([]Attr, error) {
	if cap(d.attrs)-len(d.attrs) < 8 {
		d.attrs = make([]Attr, 0, 512)
	}
	from := len(d.attrs)
	err := d.members(func(name []byte) error {
		a := Attr{Key: d.intern(name)}
		for _, have := range d.attrs[from:] {
			if have.Key == a.Key {
				return d.fail("the attribute %q comes twice", name)
			}
		}
		if len(d.attrs)-from >= maxAttrs {
			return d.fail("there are more than %d attributes", maxAttrs)
		}
		var err error
		d.blank()
		if d.at < len(d.b) && d.b[d.at] == '"' {
			a.Text, err = d.text()
		} else {
			a.Int, err = d.integer()
		}
		d.attrs = append(d.attrs, a)
		return err
	})
	if err != nil || len(d.attrs) == from {
		return nil, err
	}
	return d.attrs[from:len(d.attrs):len(d.attrs)], nil
}

// maxAttrs bounds the attributes of an event.
const maxAttrs = 256

// text reads a string.
func (d *Decoder) text() (string, error) {
	d.blank()
	b, err := d.stringBytes()
	return d.intern(b), err
}

// intern returns b as a string. Most texts come again and again; the first
// few thousand short ones are kept.
func (d *Decoder) intern(b []byte) string {
	if len(b) > 64 {
		return string(b)
	}
	if s, ok := d.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(d.texts) < 4096 {
		d.texts[s] = s
	}
	return s
}

// stringBytes reads a string. What it returns is valid until the next call.
func (d *Decoder) stringBytes() ([]byte, error) {
	if err := d.want('"'); err != nil {
		return nil, err
	}
	from := d.at
	plain := true // neither escapes nor bytes beyond ASCII
	for d.at < len(d.b) {
		switch c := d.b[d.at]; {
		case c == '"':
			s := d.b[from:d.at]
			d.at++
			if plain || utf8.Valid(s) {
				return s, nil
			}
			return nil, d.fail("the string is not UTF-8")
		case c == '\\':
			return d.escaped(from)
		case c < ' ':
			return nil, d.fail("a string holds a control character")
		case c >= utf8.RuneSelf:
			plain = false
		}
		d.at++
	}
	return nil, d.fail("the string does not end")
}

// escaped reads the rest of a string that began at from and has escapes.
func (d *Decoder) escaped(from int) ([]byte, error) {
	d.raw = append(d.raw[:0], d.b[from:d.at]...)
	for d.at < len(d.b) {
		c := d.b[d.at]
		d.at++
		switch {
		case c == '"':
			if !utf8.Valid(d.raw) {
				return nil, d.fail("the string is not UTF-8")
			}
			return d.raw, nil
		case c < ' ':
			return nil, d.fail("a string holds a control character")
		case c == '\\':
			if err := d.escape(); err != nil {
				return nil, err
			}
		default:
			d.raw = append(d.raw, c)
		}
	}
	return nil, d.fail("the string does not end")
}

// escape reads what follows a backslash.
func (d *Decoder) escape() error {
	if d.at == len(d.b) {
		return d.fail("the string does not end")
	}
	c := d.b[d.at]
	d.at++
	switch c {
	case '"', '\\', '/':
		d.raw = append(d.raw, c)
	case 'b':
		d.raw = append(d.raw, '\b')
	case 'f':
		d.raw = append(d.raw, '\f')
	case 'n':
		d.raw = append(d.raw, '\n')
	case 'r':
		d.raw = append(d.raw, '\r')
	case 't':
		d.raw = append(d.raw, '\t')
	case 'u':
		return d.unicode()
	default:
		return d.fail("unknown escape \\%c", c)
	}
	return nil
}

// unicode reads the four digits of a \u escape, and the second half of a pair.
func (d *Decoder) unicode() error {
	r, err := d.hex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if d.at+1 >= len(d.b) || d.b[d.at] != '\\' || d.b[d.at+1] != 'u' {
			return d.fail("half of a surrogate pair")
		}
		d.at += 2
		low, err := d.hex()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return d.fail("half of a surrogate pair")
		}
	}
	d.raw = utf8.AppendRune(d.raw, r)
	return nil
}

func (d *Decoder) hex() (rune, error) {
	if d.at+4 > len(d.b) {
		return 0, d.fail("the string does not end")
	}
	n, err := strconv.ParseUint(string(d.b[d.at:d.at+4]), 16, 16)
	if err != nil {
		return 0, d.fail("want four hexadecimal digits after \\u")
	}
	d.at += 4
	return rune(n), nil
}
