package live

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/socket"
	"firstsound/tts"
)

// A Pool keeps WebSockets to one address that are not in use.
type Pool struct {
	clock clocks.Clock
	keep  time.Duration

	mu     sync.Mutex
	idle   []idle
	closed bool
}

type idle struct {
	conn  *socket.Conn
	since time.Duration
}

// NewPool returns a Pool that keeps connections for so long; 0: not at all. It has
// to be closed.
func NewPool(c clocks.Clock, keep time.Duration) *Pool { return &Pool{clock: c, keep: keep} }

// errLook ends a context before it is waited with.
var errLook = errors.New("a look only")

// Take returns a connection that was put back last and still stands, or else nil.
func (p *Pool) Take() *socket.Conn {
	for {
		p.mu.Lock()
		n := len(p.idle) - 1
		if n < 0 {
			p.mu.Unlock()
			return nil
		}
		i := p.idle[n]
		p.idle = p.idle[:n]
		p.mu.Unlock()
		if p.clock.Now()-i.since <= p.keep && stands(i.conn) {
			return i.conn
		}
		i.conn.Close(1000, "")
	}
}

// stands drops what has come meanwhile, and says whether the connection is open.
func stands(conn *socket.Conn) bool {
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errLook)
	for {
		if _, err := conn.Next(ended); err != nil {
			return errors.Is(err, errLook)
		}
	}
}

// Put takes a connection back, or closes it.
func (p *Pool) Put(conn *socket.Conn) {
	p.mu.Lock()
	kept := p.keep > 0 && !p.closed
	if kept {
		p.idle = append(p.idle, idle{conn, p.clock.Now()})
	}
	p.mu.Unlock()
	if !kept {
		conn.Close(1000, "")
	}
}

// Close closes the connections that are not in use, and those that are put back
// later.
func (p *Pool) Close() {
	p.mu.Lock()
	all := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, i := range all {
		i.conn.Close(1000, "")
	}
}

// Connect returns a connection of the pool, or a new one.
func (o Options) Connect(ctx context.Context, c clocks.Clock, p *Pool, address string, header http.Header) (*socket.Conn, error) {
	if conn := p.Take(); conn != nil {
		return conn, nil
	}
	// The handshake heeds no ctx but by way of its connection.
	line := &dialled{dial: o.Dialer()}
	ending := clocks.OnEnd(ctx, c, line.close)
	conn, err := socket.Dial(ctx, c, address, socket.Options{Header: header, TLS: o.TLS, Dial: line.Dial, Limit: maxMessage, Timeout: 2 * o.timeout()})
	ending.Stop()
	if refused := new(socket.RefusedError); errors.As(err, &refused) {
		return nil, &StatusError{Status: refused.Status, Words: Words([]byte(refused.Body))}
	}
	return conn, err
}

// A Link is what a Session over a WebSocket has: the connection, where it goes
// when it is not needed any more, and what makes sound of the service's bytes.
type Link struct {
	Conn  *socket.Conn
	Sound Decoder
	pool  *Pool
}

// Link connects as Connect does, for sound of an encoding.
func (o Options) Link(ctx context.Context, c clocks.Clock, p *Pool, address string, header http.Header, encoding string, rate int) (Link, error) {
	sound, err := NewDecoder(encoding, rate)
	if err != nil {
		return Link{}, err
	}
	conn, err := o.Connect(ctx, c, p, address, header)
	return Link{conn, sound, p}, err
}

// Send sends v as JSON.
func (l Link) Send(v any) error { return SendJSON(l.Conn, v) }

// Close implements Session.
func (l Link) Close(whole bool) {
	l.Sound.Close()
	if whole {
		l.pool.Put(l.Conn)
		return
	}
	l.Conn.Close(1000, "")
}

// Push adds the sound of data, which arrived at h.At, to what was heard.
func (h *Heard) Push(d Decoder, data []byte) error {
	f, err := d.Push(data)
	if len(f.PCM) > 0 {
		h.Chunks = append(h.Chunks, tts.Chunk{At: h.At, Sound: f})
	}
	return err
}

// Dialer returns o.Dial, or the system's with the kernel's stamps.
func (o Options) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.Dial != nil {
		return o.Dial
	}
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		arrival.EnableStamps(raw)
		return nil
	}}
	return d.DialContext
}

// dialled is a connection that can be closed before it is anybody's.
type dialled struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// Dial dials.
func (d *dialled) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn = conn; d.closed {
		conn.Close()
	}
	return conn, nil
}

func (d *dialled) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed = true; d.conn != nil {
		d.conn.Close()
	}
}

// maxMessage bounds what a service may say at once, in bytes.
const maxMessage = 16 << 20

// SendJSON sends v as a text message.
func SendJSON(conn *socket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = conn.Send(true, b)
	return err
}

// Pools are the pools of a service by address: a voice or a rate may be part of it.
type Pools struct {
	clock clocks.Clock
	keep  time.Duration

	mu  sync.Mutex
	all map[string]*Pool
}

// NewPools returns Pools that keep connections for so long; 0: not at all. They
// have to be closed.
func NewPools(c clocks.Clock, keep time.Duration) *Pools {
	return &Pools{clock: c, keep: keep, all: map[string]*Pool{}}
}

// Of returns the pool of an address.
func (p *Pools) Of(address string) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[address] == nil {
		p.all[address] = NewPool(p.clock, p.keep)
	}
	return p.all[address]
}

// Close closes them all.
func (p *Pools) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pool := range p.all {
		pool.Close()
	}
}
