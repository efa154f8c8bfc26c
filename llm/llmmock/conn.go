package llmmock

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A conn is a connection that the mock serves.
type conn struct {
	*arrival.Conn
	clock  clocks.Clock
	number int
	wrote  atomic.Int64 // when the last Write began

	mu       sync.Mutex
	requests int
	open     int
}

// A connFacts is what a request finds of its connection.
type connFacts struct {
	number, open int
	reused       bool
}

// begin counts a request that arrived.
func (c *conn) begin() connFacts {
	if c == nil {
		return connFacts{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := connFacts{number: c.number, open: c.open, reused: c.requests > 0}
	c.requests++
	c.open++
	return f
}

func (c *conn) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
}

// arrived returns when the last bytes of the connection reached the host.
func (c *conn) arrived(clock clocks.Clock) (time.Duration, bool) {
	if c != nil {
		if s := c.Last(); s.N > 0 {
			return s.Arrived, s.Kernel
		}
	}
	return clock.Now(), false
}

// Write notes when it begins, next to the system call: what the server does before
// it with a first chunk, such as the headers, is not in the truth.
func (c *conn) Write(p []byte) (int, error) {
	c.wrote.Store(int64(c.clock.Now()))
	return c.Conn.Write(p)
}

// writing returns when the connection was written to since a moment, for the last
// time: that moment itself if it was not. Only a connection that carries one answer
// at a time can tell.
func (c *conn) writing(since time.Duration) time.Duration {
	if c == nil {
		return since
	}
	return max(since, time.Duration(c.wrote.Load()))
}

// reset closes the connection with RST, under TLS as well.
func (c *conn) reset() {
	if c == nil {
		return
	}
	if l, ok := c.Conn.Conn.(interface{ SetLinger(int) error }); ok {
		l.SetLinger(0) // if it fails, the connection is closed with FIN
	}
	c.Close()
}

// A listener makes conns of what it accepts.
type listener struct {
	net.Listener
	clock  clocks.Clock
	source *arrival.Source
	last   atomic.Int64
}

// Accept returns the next connection, as a *conn.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: l.source.Wrap(c), clock: l.clock, number: int(l.last.Add(1))}, nil
}

type connKey struct{}

// withConn puts the conn below c, which may be TLS, into the context.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	mine, ok := c.(*conn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, mine)
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
