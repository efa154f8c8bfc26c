package exchange

import (
	"encoding/binary"
	"sync"
)

// A conn2 carries HTTP/2 in the clear, over TCP or TLS. The transport reads ahead
// of those who read bodies, so it marks for each stream when the bytes of its
// DATA frames arrive.
type conn2 struct {
	line

	mu      sync.Mutex
	in, out scan2
	streams map[uint32]*marks
	newest  uint32 // the highest stream that was opened
	opened  uint32 // … and that nobody has asked for yet; 0: none
}

func newConn2(l line) *conn2 {
	c := &conn2{line: l, streams: map[uint32]*marks{}}
	c.out.skip = preface
	return c
}

// preface is the length of what a client sends before its first frame (RFC 9113,
// 3.4).
const preface = 24

func (c *conn2) Read(p []byte) (int, error) {
	n, err := c.line.Conn.Read(p)
	if n > 0 {
		m := take(c.arrival)
		c.mu.Lock()
		c.in.feed(p[:n], func(f *frame, data int) {
			if l := c.streams[f.stream]; l != nil && f.kind == frameData {
				l.add(data, m)
			}
		}, func(f *frame) {
			if l := c.streams[f.stream]; l != nil && f.endsHeaders() {
				l.block(m)
			}
		})
		c.mu.Unlock()
	}
	return n, err
}

// Write notes the streams that it opens, before their answers can come.
func (c *conn2) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out.feed(p, func(*frame, int) {}, func(f *frame) {
		if f.kind == frameHeaders && f.stream > c.newest { // trailers open none
			c.newest, c.opened = f.stream, f.stream
			c.streams[f.stream] = new(marks)
		}
	})
	c.mu.Unlock()
	return c.line.Conn.Write(p)
}

// lastOpened returns the stream that was opened since it was last asked. The
// transport calls WroteHeaders right after the headers are written and before
// any others can be.
func (c *conn2) lastOpened() (uint32, *marks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.opened
	c.opened = 0
	return id, c.streams[id]
}

// forget drops a stream.
func (c *conn2) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}

// The frames and flags of RFC 9113, 6, that matter here.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameContinuation = 0x9

	flagEndHeaders = 0x4
	flagPadded     = 0x8

	frameHeader = 9
)

// A frame is the head of an HTTP/2 frame.
type frame struct {
	kind, flags byte
	stream      uint32
}

func (f *frame) endsHeaders() bool {
	return (f.kind == frameHeaders || f.kind == frameContinuation) && f.flags&flagEndHeaders != 0
}

// A scan2 follows the frames in one direction of an HTTP/2 connection. It checks
// nothing: the transport reads the same bytes and does.
type scan2 struct {
	skip    int // bytes before the next frame
	head    [frameHeader]byte
	have    int // bytes of head
	frame   frame
	left    int  // bytes of the payload that are to come
	padding int  // … of which so many are padding
	pad     bool // the next byte is the length of the padding
}

// feed calls data for each piece of a DATA frame's data, and done for each frame
// that is complete.
func (s *scan2) feed(p []byte, data func(f *frame, n int), done func(f *frame)) {
	for len(p) > 0 {
		switch {
		case s.skip > 0:
			n := min(s.skip, len(p))
			s.skip -= n
			p = p[n:]
		case s.have < frameHeader:
			n := copy(s.head[s.have:], p)
			s.have += n
			p = p[n:]
			if s.have == frameHeader {
				s.begin()
				s.end(done)
			}
		case s.pad:
			s.pad = false
			s.left--
			s.padding = min(int(p[0]), s.left)
			p = p[1:]
			s.end(done)
		default:
			n := min(s.left, len(p))
			if s.frame.kind == frameData {
				data(&s.frame, min(n, max(s.left-s.padding, 0)))
			}
			s.left -= n
			p = p[n:]
			s.end(done)
		}
	}
}

// begin takes the head of a frame apart.
func (s *scan2) begin() {
	h := s.head[:]
	s.left = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	s.frame = frame{kind: h[3], flags: h[4], stream: binary.BigEndian.Uint32(h[5:]) &^ (1 << 31)}
	s.padding = 0
	s.pad = s.frame.kind == frameData && s.frame.flags&flagPadded != 0 && s.left > 0
}

// end ends the frame if all of it has come.
func (s *scan2) end(done func(f *frame)) {
	if s.left == 0 {
		s.have = 0
		done(&s.frame)
	}
}
