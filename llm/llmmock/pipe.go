package llmmock

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
)

// A Link is what lies between the two ends of a Network. The zero Link is a
// cable without length.
type Link struct {
	Connect random.Dist // until a new connection stands
	Delay   random.Dist // of each write, one way; what was written stays in order
	Seed    uint64
	Addr    net.Addr // of the listener; nil: 192.0.2.1:80, which is nobody's
}

// A Network is a net.Listener in memory and the way to dial it. It keeps to its
// clock, so it also works inside of a testing/synctest bubble. One Write is one
// Read at the other end if the reader's buffer is large enough, and there is no
// limit to what is under way.
type Network struct {
	clock    clocks.Clock
	link     Link
	incoming *clocks.Queue[net.Conn]
	closed   atomic.Bool
	mu       sync.Mutex
	rng      random.Source
	dialled  int
	carriers sync.WaitGroup
}

// Pipe returns a Network.
func Pipe(c clocks.Clock, l Link) *Network {
	if l.Addr == nil {
		l.Addr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	}
	return &Network{clock: c, link: l, incoming: clocks.NewQueue[net.Conn](c, "connections"), rng: random.New(l.Seed, "llmmock.link")}
}

// Accept waits for the next connection.
func (n *Network) Accept() (net.Conn, error) {
	c, ok := n.incoming.Get(context.Background())
	if !ok {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: n.link.Addr, Err: net.ErrClosed}
	}
	return c, nil
}

// Close makes Accept and Dial fail. Connections stay.
func (n *Network) Close() error {
	n.closed.Store(true)
	n.incoming.Close()
	return nil
}

// Wait waits until both ends of all connections are closed, and all that was
// written has got there: a bubble must not end before.
func (n *Network) Wait() { n.carriers.Wait() }

// Addr returns the listener's address.
func (n *Network) Addr() net.Addr { return n.link.Addr }

// Dial connects, whatever the address is.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	connect := n.link.Connect.Draw(&n.rng)
	n.dialled++
	port := 10000 + n.dialled%50000
	up, down := random.New(n.link.Seed, "llmmock.up", n.dialled), random.New(n.link.Seed, "llmmock.down", n.dialled)
	n.mu.Unlock()
	if connect > 0 {
		if err := n.clock.Sleep(ctx, connect); err != nil {
			return nil, err
		}
	}
	if n.closed.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: n.link.Addr, Err: syscall.ECONNREFUSED}
	}
	me := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: port}
	toServer, toClient := newHalf(), newHalf()
	client := n.end(toClient, toServer, me, n.link.Addr, up)
	n.incoming.Put(n.end(toServer, toClient, n.link.Addr, me, down))
	return client, nil
}

// A half is one direction of a connection.
type half struct {
	r, w  net.Conn // of a net.Pipe
	reset atomic.Bool
}

func newHalf() *half {
	r, w := net.Pipe()
	return &half{r: r, w: w}
}

// A packet is what one Write sent.
type packet struct {
	due   time.Duration
	data  []byte
	reset bool
}

// A pipeConn is one end of a connection.
type pipeConn struct {
	net.Conn // of the half that it reads: deadlines of reads are its own
	in, out  *half
	net      *Network
	mine     net.Addr
	theirs   net.Addr
	sent     *clocks.Queue[packet]

	mu     sync.Mutex
	rng    random.Source
	last   time.Duration
	linger bool // Close sends a reset
	closed bool
	broken atomic.Bool // the other end is closed
}

func (n *Network) end(in, out *half, mine, theirs net.Addr, rng random.Source) net.Conn {
	c := &pipeConn{Conn: in.r, in: in, out: out, net: n, mine: mine, theirs: theirs, sent: clocks.NewQueue[packet](n.clock, "packets"), rng: rng}
	n.carriers.Add(1)
	n.clock.Go("a connection's packets", c.carry)
	return c
}

// carry brings the packets to the other end.
func (c *pipeConn) carry() {
	defer c.net.carriers.Done()
	for p := range c.sent.All(context.Background()) {
		c.net.clock.SleepUntil(context.Background(), p.due) // a context that never ends
		if p.reset {
			c.out.reset.Store(true)
			break
		}
		if len(p.data) == 0 { // the end
			break
		}
		if _, err := c.out.w.Write(p.data); err != nil {
			c.broken.Store(true)
			break
		}
	}
	c.out.w.Close()
}

// Write sends p. It never waits.
func (c *pipeConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.broken.Load() {
		err := error(syscall.EPIPE)
		if c.closed {
			err = net.ErrClosed
		}
		return 0, &net.OpError{Op: "write", Net: "tcp", Source: c.mine, Addr: c.theirs, Err: err}
	}
	if len(p) > 0 {
		c.send(packet{data: append([]byte(nil), p...)})
	}
	return len(p), nil
}

// send puts a packet on its way, behind those before it. The caller holds mu.
func (c *pipeConn) send(p packet) {
	c.last = max(c.last, c.net.clock.Now()+c.net.link.Delay.Draw(&c.rng))
	p.due = c.last
	c.sent.Put(p)
}

// Read reads what one Write at the other end sent, or its rest.
func (c *pipeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.in.reset.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Source: c.mine, Addr: c.theirs, Err: syscall.ECONNRESET}
	}
	if err == io.ErrClosedPipe {
		err = &net.OpError{Op: "read", Net: "tcp", Source: c.mine, Addr: c.theirs, Err: net.ErrClosed}
	}
	return n, err
}

// SetLinger with 0 makes Close reset the connection, as for a TCP socket.
func (c *pipeConn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = sec == 0
	return nil
}

// Close closes both directions. What was written before still gets there.
func (c *pipeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	// An end of a connection travels as what it ends does.
	c.send(packet{reset: c.linger})
	c.sent.Close()
	return c.in.r.Close()
}

// SetDeadline sets the deadline of reads: writes never wait.
func (c *pipeConn) SetDeadline(t time.Time) error { return c.in.r.SetReadDeadline(t) }

// SetWriteDeadline does nothing: writes never wait.
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr returns this end's address.
func (c *pipeConn) LocalAddr() net.Addr { return c.mine }

// RemoteAddr returns the other end's address.
func (c *pipeConn) RemoteAddr() net.Addr { return c.theirs }
