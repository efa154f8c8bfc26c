// Package fields reads the few members of a JSON object that somebody wants,
// without building the rest. Chunks of a stream are small and many; most of
// each repeats what the one before said.
//
// It reads every valid JSON text right. Of one that is not valid it finds what
// stands in the way (brackets, quotes, an end too early), not every fault.
package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A Reader goes through a JSON text from value to value. Each value has to be
// taken by one of Object, Array, Str, Int, Raw and Skip. After an error all of
// them return nothing, so that loops end.
type Reader struct {
	data []byte
	at   int
	err  error
}

// Of returns a Reader of data.
func Of(data []byte) Reader { return Reader{data: data} }

var errShort = errors.New("it ends too early")

// End returns what was wrong, also if something follows the value.
func (r *Reader) End() error {
	if r.space(); r.err == nil && r.at < len(r.data) {
		r.fail("a value", "its end")
	}
	return r.err
}

func (r *Reader) fail(instead, want string) {
	if r.err != nil {
		return
	}
	if r.at >= len(r.data) {
		r.err = errShort
		return
	}
	r.err = fmt.Errorf("byte %d: %q where %s should be (after %s)", r.at, r.data[r.at], want, instead)
}

// space skips white space and returns the next byte, 0 at the end.
func (r *Reader) space() byte {
	for r.at < len(r.data) {
		switch b := r.data[r.at]; b {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return b
		}
	}
	return 0
}

// open takes the bracket b. A value of another kind is skipped.
func (r *Reader) open(b byte) bool {
	if r.err != nil {
		return false
	}
	if r.space() != b {
		r.Skip()
		return false
	}
	r.at++
	return true
}

// Object enters an object; Member goes through it. A value of another kind is
// skipped, and the answer is no.
func (r *Reader) Object() bool { return r.open('{') }

// Array enters an array; Item goes through it. A value of another kind is
// skipped, and the answer is no.
func (r *Reader) Array() bool { return r.open('[') }

// more goes to the next member or item, or behind the closing bracket b.
func (r *Reader) more(b byte) bool {
	if r.err != nil {
		return false
	}
	c := r.space()
	if c == b {
		r.at++
		return false
	}
	if c == ',' {
		r.at++
		c = r.space()
	}
	if c == 0 || c == ',' || c == ':' || c == '}' || c == ']' {
		r.fail("a comma or bracket", "a value")
		return false
	}
	return true
}

// Item goes to the next item of an array, and says whether there is one.
func (r *Reader) Item() bool { return r.more(']') }

// Member goes to the value of the next member of an object, and says whether
// there is one. The key is as it stands in the text, escapes included.
func (r *Reader) Member() (key []byte, ok bool) {
	if !r.more('}') {
		return nil, false
	}
	key, _ = r.quoted()
	if r.err == nil && r.space() != ':' {
		r.fail("a key", "a colon")
	}
	if r.err != nil {
		return nil, false
	}
	r.at++
	return key, true
}

// quoted takes a string and returns it without its quotes, and whether it is
// plain: its own text.
func (r *Reader) quoted() (text []byte, plain bool) {
	if r.space() != '"' {
		r.fail("a bracket or comma", "a string")
		return nil, false
	}
	from := r.at + 1
	plain = true
	for at, end := from, -1; ; {
		if end < at {
			if end = bytes.IndexByte(r.data[at:], '"'); end < 0 {
				r.at = len(r.data)
				r.err = errShort
				return nil, false
			}
			end += at
		}
		escape := bytes.IndexByte(r.data[at:end], '\\')
		if escape < 0 {
			r.at = end + 1
			return r.data[from:end], plain
		}
		plain = false
		at += escape + 2 // whatever is escaped
	}
}

// Str takes a string. A value of another kind is skipped, and the answer is no.
func (r *Reader) Str() (string, bool) {
	if r.err != nil {
		return "", false
	}
	if r.space() != '"' {
		r.Skip()
		return "", false
	}
	from := r.at
	text, plain := r.quoted()
	if r.err != nil {
		return "", false
	}
	if plain && utf8.Valid(text) {
		return string(text), true
	}
	var s string
	if err := json.Unmarshal(r.data[from:r.at], &s); err != nil {
		r.err = fmt.Errorf("byte %d: %w", from, err)
		return "", false
	}
	return s, true
}

// Same is Str for a value that hardly changes: it makes no new string if the
// value is old's. A value of another kind is skipped and leaves old.
func (r *Reader) Same(old string) string {
	if r.err == nil && r.space() == '"' {
		if n := len(old); r.at+n+1 < len(r.data) && r.data[r.at+n+1] == '"' && string(r.data[r.at+1:r.at+n+1]) == old &&
			bytes.IndexByte(r.data[r.at+1:r.at+n+1], '\\') < 0 {
			r.at += n + 2
			return old
		}
	}
	if s, ok := r.Str(); ok {
		return s
	}
	return old
}

// Int takes a whole number. A value of another kind is skipped, and the answer
// is no.
func (r *Reader) Int() (int, bool) {
	n, err := strconv.Atoi(string(r.Raw()))
	return n, err == nil && r.err == nil
}

// Null takes a null and says so, or takes nothing.
func (r *Reader) Null() bool {
	if r.err == nil && r.space() == 'n' {
		r.Skip()
		return true
	}
	return false
}

// Next returns the first byte of the value that is to be taken next: it tells
// its kind. It is 0 at the end.
func (r *Reader) Next() byte { return r.space() }

// Raw takes a value of any kind and returns its text.
func (r *Reader) Raw() []byte {
	r.space()
	from := r.at
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.data[from:r.at]
}

// Skip takes a value of any kind.
func (r *Reader) Skip() {
	if r.err != nil {
		return
	}
	switch r.space() {
	case '"':
		r.quoted()
	case '{', '[':
		r.skipNested()
	case ',', ':', '}', ']', 0:
		r.fail("a key or bracket", "a value")
	default: // a number, true, false or null
		for r.at < len(r.data) {
			switch r.data[r.at] {
			case ',', '}', ']', ':', ' ', '\t', '\n', '\r', '"', '{', '[':
				return
			}
			r.at++
		}
	}
}

func (r *Reader) skipNested() {
	depth := 0
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case '"':
			if r.quoted(); r.err != nil {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		r.at++
		if depth == 0 {
			return
		}
	}
	r.err = errShort
}
