// Package stream takes apart the bodies in which language models answer: server-
// sent events and lines of JSON. A body may be cut into reads anywhere; the
// events are the same.
package stream

import (
	"bytes"
	"fmt"
)

// MaxEvent is how long a line, and an event, may be in bytes. It bounds what a
// service that never ends its line can make us keep.
const MaxEvent = 16 << 20

// An Event is one message of a body.
type Event struct {
	Name string // of server-sent events: the field event; empty if there is none
	ID   string // of server-sent events: the last field id so far
	// Data is valid until the function that it was given to returns.
	Data   []byte
	Line   int64 // from 1: the line of the body in which its last data are
	Offset int64 // of its first byte in the body
	End    int64 // where it was complete: the offset behind its last byte
}

// A Decoder takes a body apart, read by read.
type Decoder interface {
	// Feed takes the next bytes of the body and calls each for every event that
	// they complete, and comment for every comment, in their order. An error is
	// for good.
	Feed(p []byte, each func(Event), comment func([]byte)) error

	// Close says that the body has ended, and calls each for an event that only
	// that completes.
	Close(each func(Event)) error
}

// A mark is the byte order mark that a body may begin with.
const mark = "\xef\xbb\xbf"

// A lines is what the decoders have in common: where they are in the body, and
// the beginning of a line whose end is still to come.
type lines struct {
	offset int64 // of the next byte in the body
	line   int64 // lines that have ended
	start  int64 // offset of the line's first byte
	marked int   // bytes of the byte order mark that were seen; len(mark): no more to come
	part   []byte
	err    error
}

// begin skips the byte order mark at the head of the body.
func (l *lines) begin(p []byte) []byte {
	for l.marked < len(mark) && len(p) > 0 {
		if p[0] != mark[l.marked] {
			l.part = append(l.part, mark[:l.marked]...) // it was text after all
			l.marked = len(mark)
			return p
		}
		p = p[1:]
		l.offset++
		if l.marked++; l.marked == len(mark) {
			l.start = l.offset
		}
	}
	return p
}

// keep keeps p as part of a line that has not ended.
func (l *lines) keep(p []byte) {
	if len(l.part)+len(p) > MaxEvent {
		l.tooLong()
		return
	}
	l.part = append(l.part, p...)
	l.offset += int64(len(p))
}

func (l *lines) tooLong() {
	l.err = fmt.Errorf("stream: line %d, from byte %d, is longer than %d MB", l.line+1, l.start, MaxEvent>>20)
	l.part = nil
}

// whole returns the line that p ends, without its terminator, and whether it
// lies in p.
func (l *lines) whole(p []byte) (line []byte, inPlace bool) {
	l.line++
	if len(l.part) == 0 {
		if len(p) > MaxEvent {
			l.line--
			l.tooLong()
		}
		return p, true
	}
	l.keep(p)
	l.offset -= int64(len(p)) // the caller counts them with the terminator
	return l.part, false
}

// next says that a line is done with, and that the next begins at offset.
func (l *lines) next() {
	l.part = l.part[:0]
	l.start = l.offset
}

// An NDJSON takes apart a body with a JSON value a line. Blank lines are
// skipped; the last line needs no newline.
type NDJSON struct{ lines }

// NewNDJSON returns one for the start of a body.
func NewNDJSON() *NDJSON { return &NDJSON{} }

// Feed implements Decoder. There are no comments.
func (d *NDJSON) Feed(p []byte, each func(Event), _ func([]byte)) error {
	if d.err != nil {
		return d.err
	}
	p = d.begin(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			d.keep(p)
			break
		}
		line, _ := d.whole(p[:i])
		if d.err != nil {
			break
		}
		d.offset += int64(i) + 1
		d.event(line, each)
		p = p[i+1:]
	}
	return d.err
}

// Close implements Decoder.
func (d *NDJSON) Close(each func(Event)) error {
	if d.err != nil {
		return d.err
	}
	if d.marked < len(mark) {
		d.part = append(d.part, mark[:d.marked]...)
		d.marked = len(mark)
	}
	d.line++
	d.event(d.part, each)
	return d.err
}

func (d *NDJSON) event(line []byte, each func(Event)) {
	if data := bytes.Trim(line, " \t\r"); len(data) > 0 {
		each(Event{Data: data, Line: d.line, Offset: d.start, End: d.offset})
	}
	d.next()
}

// A Whole takes a body that is one message: an answer that was not streamed.
type Whole struct {
	body []byte
	err  error
}

// NewWhole returns one for the start of a body.
func NewWhole() *Whole { return &Whole{} }

// Feed implements Decoder. It completes nothing.
func (d *Whole) Feed(p []byte, _ func(Event), _ func([]byte)) error {
	if d.err == nil && len(d.body)+len(p) > MaxEvent {
		d.err = fmt.Errorf("stream: the answer is longer than %d MB", MaxEvent>>20)
	}
	if d.err == nil {
		d.body = append(d.body, p...)
	}
	return d.err
}

// Close implements Decoder.
func (d *Whole) Close(each func(Event)) error {
	if d.err == nil && len(d.body) > 0 {
		each(Event{Data: d.body, Line: 1, End: int64(len(d.body))})
	}
	return d.err
}
