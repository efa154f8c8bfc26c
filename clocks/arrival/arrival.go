// Package arrival tells when bytes reached this host, which is not when a busy
// program came to read them.
//
// A [Conn] takes the kernel's receive stamp (SO_TIMESTAMPNS) of every read of a
// TCP socket on Linux. Everywhere else, and on a clock that is not the
// computer's, the arrival is the time of the read, and the [Stamp] says so.
//
// Segments that lie unread are merged by the kernel, and the last one's stamp
// is the one that a read gets: earlier bytes of a read came between the stamp
// before ([Conn.Before]) and this one. The kernel does not merge all of them, over
// the loopback not the first of an answer above all: see [Conn.Apart].
package arrival

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"firstsound/clocks"
)

// A Stamp says when bytes arrived.
type Stamp struct {
	Arrived time.Duration // at the host, on the run's clock: the kernel's stamp, else Read
	Read    time.Duration // when the read returned
	Kernel  bool          // Arrived is the kernel's
	N       int64         // reads of the connection so far: the same N, the same read
}

// TCPInfo is what the kernel knows of a TCP connection. It ends at the first hop
// that ends TCP, which may be a gateway.
type TCPInfo struct {
	RTT         time.Duration // smoothed
	MinRTT      time.Duration // the least that was seen lately; 0 if none was
	Retransmits uint32        // segments sent again since the connection began
}

// A Source stamps the connections of one clock, which share its view of the
// wall clock.
type Source struct {
	clock clocks.Clock
	wall  *wall // nil: no kernel stamps
}

// NewSource returns a Source whose stamps are on c. There are kernel stamps on
// Linux, if c is a [clocks.Real].
func NewSource(c clocks.Clock) *Source {
	s := &Source{clock: c}
	if _, ok := c.(*clocks.Real); ok && haveStamps {
		s.wall = newWall(c)
	}
	return s
}

// Steps returns how often the wall clock was seen to have been set since the
// Source began. Around a step kernel stamps may be off by it, as far as they
// still lie between two reads; the others are faults.
func (s *Source) Steps() int {
	if s.wall == nil {
		return 0
	}
	return int(s.wall.steps.Load())
}

// A Conn is a connection that knows when what it reads arrived. All else is as
// with the connection that it wraps.
type Conn struct {
	net.Conn
	source *Source
	socket *socket // nil: no kernel stamps
	apart  atomic.Bool

	reading sync.Mutex // one Read at a time

	mu           sync.Mutex
	last, before Stamp
	floor        time.Duration // no byte of the next read can have come before
	faults       int
	info         *TCPInfo // as it was at Close
}

// Wrap returns conn with stamps on c. Any net.Conn will do: the kernel's stamps
// are there if it is a TCP socket on Linux and c a [clocks.Real]. Connections
// that belong together are better wrapped by one [Source].
func Wrap(conn net.Conn, c clocks.Clock) *Conn { return NewSource(c).Wrap(conn) }

// Wrap returns conn with stamps. A Conn is wrapped once: it is returned as it is.
func (s *Source) Wrap(conn net.Conn) *Conn {
	if c, ok := conn.(*Conn); ok {
		return c
	}
	c := &Conn{Conn: conn, source: s, floor: s.clock.Now()}
	if s.wall != nil {
		c.socket = newSocket(c)
		// What lay in the socket when it was wrapped may be older.
		c.floor = s.wall.began
	}
	return c
}

// Read reads as the wrapped connection does, with the same errors.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.socket == nil || len(p) == 0 {
		n, err := c.Conn.Read(p)
		if n > 0 {
			now := c.source.clock.Now()
			c.note(Stamp{Arrived: now, Read: now})
		}
		return n, err
	}
	return c.readSocket(p)
}

// Apart says whether a Read that comes late brings only bytes with one stamp, so that
// the first of several segments has the stamp of its own, as far as the kernel has
// not merged them. That takes one more system call a read, and some more a late one.
// At the beginning it is off; where there are no kernel stamps it means nothing.
func (c *Conn) Apart(on bool) { c.apart.Store(on) }

// note keeps the stamp of a read that brought bytes.
func (c *Conn) note(s Stamp) {
	c.mu.Lock()
	s.N = c.last.N + 1
	c.before, c.last = c.last, s
	c.mu.Unlock()
}

// noteKernel keeps a stamp of the kernel. slack is how wrong it may be, began
// is when the read's system call began, and drained whether it left nothing.
func (c *Conn) noteKernel(s Stamp, slack, began time.Duration, drained bool) {
	c.mu.Lock()
	if s.Arrived < c.floor-slack || s.Arrived > s.Read+slack {
		c.faults++
		s.Arrived, s.Kernel = s.Read, false
	}
	c.mu.Unlock()
	c.note(s)
	if drained {
		c.floor = began
	}
}

// Last returns the stamp of the last Read that brought bytes; N is 0 if none
// did.
func (c *Conn) Last() Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Before returns the stamp of the Read before the last one, if there was one.
func (c *Conn) Before() (Stamp, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before, c.before.N > 0
}

// Faults returns how many stamps of the kernel lay outside of what they can be:
// after the previous read and before this one. The read's time took their place.
// One reason is a wall clock that was set; another is an overloaded host, whose
// kernel stamps a segment some time before it lets the socket have it.
func (c *Conn) Faults() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

// TCPInfo returns what the kernel knows of the connection, or knew when it was
// closed, if it is a TCP socket of a system that tells.
func (c *Conn) TCPInfo() (TCPInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.info != nil {
		return *c.info, true
	}
	return tcpInfo(c.Conn)
}

// Close closes the connection. TCPInfo stays what it was.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.info == nil {
		if i, ok := tcpInfo(c.Conn); ok {
			c.info = &i
		}
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the sending half. The connection must be able to.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return &net.OpError{Op: "close", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: net.ErrClosed}
}

// Listen returns l with stamps on c for every connection that it accepts.
func Listen(l net.Listener, c clocks.Clock) net.Listener {
	s := NewSource(c)
	if sc, ok := l.(syscall.Conn); ok && s.wall != nil {
		if raw, err := sc.SyscallConn(); err == nil {
			EnableStamps(raw) // what it accepts has them from the first byte on
		}
	}
	return &listener{l, s}
}

type listener struct {
	net.Listener
	source *Source
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.source.Wrap(conn), nil
}

// A wall maps moments of the wall clock to those of the run's clock.
type wall struct {
	clock clocks.Clock
	began time.Duration
	steps atomic.Int64

	mu   sync.Mutex
	last pair
}

// A pair is one moment on both clocks.
type pair struct {
	at     time.Duration // on the run's clock
	offset int64         // of the wall clock from it, in ns since 1970
	slack  time.Duration // the offset may be wrong by that
}

// pairAge is after how long a new pair is taken. Both clocks are slewed
// together, so only a step can part them.
const pairAge = time.Second

func newWall(c clocks.Clock) *wall {
	w := &wall{clock: c, began: c.Now()}
	w.last = w.take()
	return w
}

// take takes a pair: the closest of a few tries, for the goroutine may have been
// interrupted between two looks at the clocks.
func (w *wall) take() (best pair) {
	const tries, close = 5, time.Microsecond
	for i := range tries {
		before := w.clock.Now()
		real := wallNow()
		after := w.clock.Now()
		half := (after - before) / 2
		if i == 0 || half < best.slack {
			best = pair{at: after, offset: real - int64(before+half), slack: half}
		}
		if best.slack < close {
			break
		}
	}
	return best
}

// at returns the moment of a wall time, in ns since 1970, and how wrong it may
// be. now is the present on the run's clock.
func (w *wall) at(real int64, now time.Duration) (at, slack time.Duration) {
	w.mu.Lock()
	if now-w.last.at >= pairAge {
		p := w.take()
		if d := p.offset - w.last.offset; d > int64(p.slack+w.last.slack) || -d > int64(p.slack+w.last.slack) {
			w.steps.Add(1)
		}
		w.last = p
	}
	p := w.last
	w.mu.Unlock()
	return time.Duration(real - p.offset), p.slack
}
