package exchange

import (
	"bytes"
	"strconv"
	"sync"
)

// A conn1 carries HTTP/1 in the clear, over TCP or TLS, and marks when the parts
// of each response arrive.
type conn1 struct {
	line
	mu   sync.Mutex
	scan scan1
}

// begin starts the marks of a new response. The connection is idle: whatever is
// read from now on belongs to it.
func (c *conn1) begin() *marks {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := new(marks)
	c.scan = scan1{marks: m, line: c.scan.line[:0]}
	return m
}

func (c *conn1) Read(p []byte) (int, error) {
	n, err := c.line.Conn.Read(p)
	if n > 0 {
		m := take(c.arrival)
		c.mu.Lock()
		c.scan.feed(p[:n], m)
		c.mu.Unlock()
	}
	return n, err
}

// A scan1 follows the framing of an HTTP/1 response (RFC 9112), as far as is
// needed to tell the bytes of its body from those around them. It checks
// nothing: net/http reads the same bytes and does.
type scan1 struct {
	marks   *marks // nil: nobody asked for a response
	state   state1
	line    []byte // the line so far
	code    string
	chunked bool
	left    uint64 // of the chunk
}

type state1 int

const (
	statusLine state1 = iota
	headerLine
	plainBody // up to its length or to the end of the connection: net/http knows
	chunkSize
	chunkData
	chunkEnd
	trailerLine
	over
)

// maxScanLine is how much of a line is kept. The lines that matter are shorter.
const maxScanLine = 4096

func (s *scan1) feed(p []byte, m mark) {
	for len(p) > 0 && s.marks != nil && s.state != over {
		switch s.state {
		case plainBody:
			s.marks.add(len(p), m)
			return
		case chunkData:
			n := int(min(uint64(len(p)), s.left))
			s.marks.add(n, m)
			p = p[n:]
			if s.left -= uint64(n); s.left == 0 {
				s.state = chunkEnd
			}
		default:
			part, rest, ended := bytes.Cut(p, []byte{'\n'})
			s.line = append(s.line, part[:min(len(part), maxScanLine-len(s.line))]...)
			p = rest
			if ended {
				s.endLine(bytes.TrimSuffix(s.line, []byte{'\r'}), m)
				s.line = s.line[:0]
			}
		}
	}
}

func (s *scan1) endLine(line []byte, m mark) {
	switch s.state {
	case statusLine:
		_, code, _ := bytes.Cut(line, []byte{' '})
		s.code, s.chunked, s.state = string(code[:min(3, len(code))]), false, headerLine
	case headerLine:
		if len(line) == 0 {
			s.endHeaders(m)
			return
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked")) {
			s.chunked = true
		}
	case chunkSize:
		digits, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 64)
		switch {
		case err != nil:
			s.state = over // net/http ends with an error here
		case n == 0:
			s.state = trailerLine
		default:
			s.left, s.state = n, chunkData
		}
	case chunkEnd:
		s.state = chunkSize
	case trailerLine:
		if len(line) == 0 {
			s.state = over
		}
	}
}

func (s *scan1) endHeaders(m mark) {
	s.marks.block(m)
	switch {
	case len(s.code) == 3 && s.code[0] == '1' && s.code != "101":
		s.state = statusLine
	case s.chunked:
		s.state = chunkSize
	default:
		s.state = plainBody
	}
}
