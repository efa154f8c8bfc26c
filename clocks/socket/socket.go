// Package socket is a WebSocket whose messages know when they arrived at this
// host (package arrival). It is the line to speech services and to their mocks.
package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A Message is what the other side sent in one piece.
type Message struct {
	Data []byte
	Text bool // a text message; else binary

	Arrived  time.Duration // its last byte at this host, on the run's clock
	Earliest time.Duration // arrival of what came before it on the connection: its first byte came between the two
	Read     time.Duration // when it was read
	N        int64         // messages with the same N came with one read: one arrival
	Kernel   bool          // Arrived is the kernel's stamp
}

// Options say how a connection is made and kept. The zero value will do.
type Options struct {
	Header       http.Header
	Subprotocols []string
	TLS          *tls.Config
	Limit        int64                                                             // most bytes of a message; 0: 16 MB
	Timeout      time.Duration                                                     // of the handshake, of each write, and of a close; 0: 10 s
	Dial         func(ctx context.Context, network, addr string) (net.Conn, error) // nil: the system's
	Source       *arrival.Source                                                   // of the stamps, shared by connections; nil: one of its own
}

const (
	defaultLimit   = 16 << 20
	defaultTimeout = 10 * time.Second
	maxErrorBody   = 4 << 10
	maxHandshake   = 1 << 20  // bytes of all answers until there is a WebSocket
	maxWaiting     = 64 << 20 // bytes that wait to be taken, of one server, beside a message of any size
	maxWaitingFrom = 8 << 20  // the same, of one client: a server has many of them
	perMessage     = 256      // bytes that a message takes beside its data
)

// errHandshake says that a server's answer to the handshake does not end.
var errHandshake = fmt.Errorf("the answer to the handshake has more than %d bytes", maxHandshake)

// A handshake is a connection of which only so much is read until it is a WebSocket.
type handshake struct {
	net.Conn
	left atomic.Int64
}

// Read reads, unless too much has been read.
func (h *handshake) Read(p []byte) (int, error) {
	if h.left.Load() < 0 {
		return 0, errHandshake
	}
	n, err := h.Conn.Read(p)
	h.left.Add(-int64(n))
	return n, err
}

// A CloseError is the other side's word that it ends the connection.
type CloseError struct {
	Code   int // as RFC 6455, section 7.4 has them; 1006: the connection just broke
	Reason string
}

// Error returns code and reason.
func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the connection was closed with code %d", e.Code)
	}
	return fmt.Sprintf("the connection was closed with code %d: %s", e.Code, e.Reason)
}

// A RefusedError is an answer to the handshake that is no WebSocket.
type RefusedError struct {
	Status int
	Header http.Header
	Body   string // its beginning
}

// Error returns status and body.
func (e *RefusedError) Error() string {
	if e.Status == http.StatusSwitchingProtocols {
		return "the server switched protocols, but to no WebSocket: its Upgrade, Connection or Sec-WebSocket-Accept is wrong"
	}
	return fmt.Sprintf("the server refused the WebSocket: %d %s: %.200q", e.Status, http.StatusText(e.Status), e.Body)
}

// A Conn is a WebSocket. One goroutine may call Next, any Send and Close.
type Conn struct {
	clock   clocks.Clock
	ws      *websocket.Conn
	stamps  *arrival.Conn
	timeout time.Duration
	most    int64 // bytes that may wait to be taken

	in      *clocks.Queue[incoming]
	done    *clocks.Queue[struct{}] // closed when the reader has ended
	write   sync.Mutex
	waiting atomic.Int64 // bytes that what has come takes until it is taken

	ended chan struct{} // closed when err is there
	err   error         // why the reader ended

	// Response is the answer to the handshake; nil on the server's side.
	Response *http.Response
}

type incoming struct {
	Message
	err error
}

// Dial connects to a ws:// or wss:// URL. The error is a *RefusedError if the
// server answered something else. An error never holds a header of the request.
func Dial(ctx context.Context, c clocks.Clock, url string, o Options) (*Conn, error) {
	if o.Source == nil {
		o.Source = arrival.NewSource(c)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	dial := o.Dial
	if dial == nil {
		d := net.Dialer{ControlContext: func(_ context.Context, _, _ string, raw syscall.RawConn) error {
			arrival.EnableStamps(raw)
			return nil
		}}
		dial = d.DialContext
	}
	var stamps *arrival.Conn
	var head *handshake
	release := func() bool { return true }
	d := websocket.Dialer{
		NetDialContext: func(dialing context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(dialing, network, addr)
			if err != nil {
				return nil, err
			}
			stamps = o.Source.Wrap(conn)
			// The dialer looks at the end of ctx no more from here on.
			release = context.AfterFunc(ctx, func() { conn.Close() })
			head = &handshake{Conn: stamps}
			head.left.Store(maxHandshake)
			return head, nil
		},
		Proxy:            http.ProxyFromEnvironment,
		TLSClientConfig:  o.TLS,
		Subprotocols:     o.Subprotocols,
		HandshakeTimeout: o.Timeout,
	}
	began := c.Now()
	ws, resp, err := d.DialContext(ctx, url, o.Header)
	if !release() && err == nil { // closed just as it had been made
		ws.Close()
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, websocket.ErrBadHandshake) && resp != nil:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return nil, &RefusedError{resp.StatusCode, resp.Header, string(body)}
	case err != nil && c.Now()-began >= o.Timeout: // what came until then is no answer, and would be told of
		return nil, fmt.Errorf("there was no WebSocket within %v: %w", o.Timeout, os.ErrDeadlineExceeded)
	case err != nil:
		return nil, err
	}
	head.left.Store(math.MaxInt64)
	conn := start(c, ws, stamps, o, maxWaiting)
	conn.Response = resp
	return conn, nil
}

// Accept makes a WebSocket of a request. The server's listener should be one of
// arrival.Listen; else the stamps are those of the reads. If it fails, the answer
// has been written.
func Accept(c clocks.Clock, w http.ResponseWriter, r *http.Request, header http.Header, o Options) (*Conn, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	up := websocket.Upgrader{
		HandshakeTimeout: o.Timeout, Subprotocols: o.Subprotocols,
		CheckOrigin: func(*http.Request) bool { return true }, // who serves browsers checks before
	}
	ws, err := up.Upgrade(w, r, header)
	if err != nil {
		return nil, err
	}
	return start(c, ws, stamped(ws.NetConn()), o, maxWaitingFrom), nil
}

// stamped finds the connection with stamps under conn; nil if there is none.
func stamped(conn net.Conn) *arrival.Conn {
	for {
		switch c := conn.(type) {
		case *arrival.Conn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

func start(c clocks.Clock, ws *websocket.Conn, stamps *arrival.Conn, o Options, most int64) *Conn {
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	ws.SetReadLimit(o.Limit)
	conn := &Conn{clock: c, ws: ws, stamps: stamps, timeout: o.Timeout, most: most + o.Limit, ended: make(chan struct{}),
		in: clocks.NewQueue[incoming](c, "messages of a WebSocket"), done: clocks.NewQueue[struct{}](c, "the end of a WebSocket")}
	c.Go("websocket reader", conn.read)
	return conn
}

// read stamps messages as they come, whatever their reader does meanwhile.
func (c *Conn) read() {
	defer c.done.Close()
	defer c.in.Close()
	for {
		kind, data, err := c.ws.ReadMessage()
		if err == nil && c.waiting.Add(held(data)) > c.most {
			err = fmt.Errorf("messages of more than %d bytes have come that are not taken yet", c.most)
		}
		if err != nil {
			c.err = closed(err)
			close(c.ended)
			c.ws.Close() // a Send that waits fails
			c.in.Put(incoming{err: c.err})
			return
		}
		now := c.clock.Now()
		m := Message{Data: data, Text: kind == websocket.TextMessage, Arrived: now, Earliest: now, Read: now}
		if c.stamps != nil {
			last := c.stamps.Last()
			m.Arrived, m.N, m.Kernel = last.Arrived, last.N, last.Kernel
			m.Earliest = m.Arrived
			if before, ok := c.stamps.Before(); ok {
				m.Earliest = before.Arrived
			}
		}
		c.in.Put(incoming{Message: m})
	}
}

// held is what a message takes in memory: of a flood of tiny ones, that is most.
func held(data []byte) int64 { return int64(cap(data)) + perMessage }

// closed makes gorilla's errors ours.
func closed(err error) error {
	var e *websocket.CloseError
	switch {
	case errors.As(err, &e):
		return &CloseError{e.Code, e.Text}
	case errors.Is(err, websocket.ErrReadLimit):
		return fmt.Errorf("a message is longer than the limit: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
		return &CloseError{Code: websocket.CloseAbnormalClosure, Reason: err.Error()}
	}
	return err
}

// Next returns the next message. Its error is the cause of ctx if that has ended;
// a *CloseError, or another of the connection, once there is nothing more; the
// same at each further call is not promised.
func (c *Conn) Next(ctx context.Context) (Message, error) {
	m, ok := c.in.Get(ctx)
	switch {
	case ok:
		c.waiting.Add(-held(m.Data))
		return m.Message, m.err
	case ctx.Err() != nil:
		return Message{}, context.Cause(ctx)
	}
	return Message{}, &CloseError{Code: websocket.CloseAbnormalClosure, Reason: "the connection has ended"}
}

// Send sends a message, and returns the time just before it was written.
func (c *Conn) Send(text bool, data []byte) (time.Duration, error) {
	kind := websocket.BinaryMessage
	if text {
		kind = websocket.TextMessage
	}
	c.write.Lock()
	defer c.write.Unlock()
	// A deadline is the connection's own business: it is on the computer's clock.
	if err := c.ws.SetWriteDeadline(deadline(c.timeout)); err != nil {
		return c.clock.Now(), err
	}
	at := c.clock.Now()
	err := c.ws.WriteMessage(kind, data)
	if errors.Is(err, websocket.ErrCloseSent) {
		<-c.ended // the reader has said goodbye
	}
	if err != nil {
		select {
		case <-c.ended: // why it did is the reason
			err = c.err
		default:
		}
	}
	return at, err
}

// Ping sends a ping; the answer is not waited for.
func (c *Conn) Ping() error {
	return c.ws.WriteControl(websocket.PingMessage, nil, deadline(c.timeout))
}

// Close says goodbye with a code and a reason of up to 123 bytes, ends the
// connection, and returns when its reader has ended. What has come but was not
// taken is dropped.
func (c *Conn) Close(code int, reason string) {
	if len(reason) > 123 {
		reason = reason[:123]
	}
	c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), deadline(time.Second)) // perhaps nobody listens any more
	c.ws.Close()
	c.done.Get(context.Background())
}

// Stamps returns the connection's stamps; nil if it has none.
func (c *Conn) Stamps() *arrival.Conn { return c.stamps }
