package live

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/socket"
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
	conn, err := socket.Dial(ctx, c, address, socket.Options{Header: header, TLS: o.TLS, Dial: o.Dial, Limit: maxMessage})
	if refused := new(socket.RefusedError); errors.As(err, &refused) {
		return nil, &StatusError{Status: refused.Status, Words: Words([]byte(refused.Body))}
	}
	return conn, err
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
