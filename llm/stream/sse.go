package stream

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
)

// An SSE takes apart a stream of server-sent events, as the grammar of the
// WHATWG's HTML standard (9.2.6) has it, but for two points in which services
// differ from browsers: the last event needs no blank line behind it, and an
// event whose data are empty is none, even if it has a data field.
type SSE struct {
	lines
	afterCR bool // the line ended with CR: an LF that follows belongs to it

	name  string // of the event so far
	known string // the last name that was seen, to make no string of it twice
	id    string
	retry time.Duration
	told  bool // retry was set

	data   int    // data lines of the event so far
	view   []byte // the only data line, where it lies in the bytes that are being fed
	buf    []byte // the data, where it does not
	begun  bool   // the event has a line
	first  int64  // offset of that line
	dataAt int64  // line of the last data
}

// NewSSE returns one for the start of a body.
func NewSSE() *SSE { return &SSE{} }

// Retry returns the time after which the service wants a client to come again:
// the last field retry that was a number of milliseconds.
func (d *SSE) Retry() (time.Duration, bool) { return d.retry, d.told }

// Feed implements Decoder.
func (d *SSE) Feed(p []byte, each func(Event), comment func([]byte)) error {
	if d.err != nil {
		return d.err
	}
	p = d.begin(p)
	lf := -1 // offset in p of the next LF, once looked for
	for len(p) > 0 && d.err == nil {
		if d.afterCR {
			d.afterCR = false
			if p[0] == '\n' {
				p, lf = p[1:], lf-1
				d.offset++
				d.start = d.offset
				continue
			}
		}
		if lf < 0 {
			if lf = bytes.IndexByte(p, '\n'); lf < 0 {
				lf = len(p)
			}
		}
		end := lf
		if cr := bytes.IndexByte(p[:lf], '\r'); cr >= 0 {
			end = cr
			d.afterCR = true
		}
		if end == len(p) {
			d.keep(p)
			break
		}
		line, inPlace := d.whole(p[:end])
		if d.err != nil {
			break
		}
		d.offset += int64(end) + 1
		d.take(line, inPlace, each, comment)
		d.next()
		p, lf = p[end+1:], lf-end-1
	}
	if d.view != nil { // p is not ours to keep
		d.buf = append(d.buf[:0], d.view...)
		d.view = nil
	}
	return d.err
}

// Close implements Decoder.
func (d *SSE) Close(each func(Event)) error {
	if d.err != nil {
		return d.err
	}
	if d.marked < len(mark) {
		d.part = append(d.part, mark[:d.marked]...)
		d.marked = len(mark)
	}
	if len(d.part) > 0 {
		d.line++
		d.take(d.part, false, each, func([]byte) {})
		d.next()
	}
	d.dispatch(each)
	return d.err
}

// take takes a line.
func (d *SSE) take(line []byte, inPlace bool, each func(Event), comment func([]byte)) {
	if len(line) == 0 {
		d.dispatch(each)
		return
	}
	colon := bytes.IndexByte(line, ':')
	if colon == 0 {
		comment(line[1:])
		return
	}
	if !d.begun {
		d.begun, d.first = true, d.start
	}
	field, value := line, line[len(line):]
	if colon > 0 {
		field, value = line[:colon], line[colon+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(field) {
	case "data":
		d.addData(value, inPlace)
	case "event":
		if string(value) != d.known {
			d.known = string(value)
		}
		d.name = d.known
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != d.id {
			d.id = string(value)
		}
	case "retry":
		d.setRetry(value)
	}
}

func (d *SSE) addData(value []byte, inPlace bool) {
	d.dataAt = d.line
	d.data++
	if d.data == 1 {
		if inPlace {
			d.view = value
		} else {
			d.buf = append(d.buf[:0], value...)
		}
		return
	}
	if d.view != nil {
		d.buf = append(d.buf[:0], d.view...)
		d.view = nil
	}
	if len(d.buf)+1+len(value) > MaxEvent {
		d.err = fmt.Errorf("stream: the event at byte %d is longer than %d MB", d.first, MaxEvent>>20)
		return
	}
	d.buf = append(append(d.buf, '\n'), value...)
}

// setRetry takes a value of decimal digits only. One that a Duration cannot
// hold is no time to wait, and ignored.
func (d *SSE) setRetry(value []byte) {
	for _, b := range value {
		if b < '0' || b > '9' {
			return
		}
	}
	if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms <= math.MaxInt64/int64(time.Millisecond) {
		d.retry, d.told = time.Duration(ms)*time.Millisecond, true
	}
}

// dispatch ends the event.
func (d *SSE) dispatch(each func(Event)) {
	data := d.view
	if data == nil && d.data > 0 {
		data = d.buf
	}
	if len(data) > 0 {
		each(Event{Name: d.name, ID: d.id, Data: data, Line: d.dataAt, Offset: d.first, End: d.offset})
	}
	d.name, d.view, d.data, d.begun = "", nil, 0, false
	if cap(d.buf) > 1<<20 {
		d.buf = nil // one huge event does not stay for the rest of the stream
	}
}
