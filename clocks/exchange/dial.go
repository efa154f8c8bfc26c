package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A line is a connection in the clear: what net/http reads from and writes to.
type line struct {
	net.Conn // over TCP, or TLS over it
	arrival  *arrival.Conn
	dial     *dial
	client   *Client
}

func (l *line) Close() error {
	// TLS may wait for a peer to take its goodbye: until then Client.Close has to
	// know of the connection.
	defer l.client.closed(l.arrival)
	return l.Conn.Close()
}

// CloseWrite ends the sending half, where the connection can.
func (l *line) CloseWrite() error {
	if w, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return l.Close()
}

// A dial is how a connection came about.
type dial struct {
	clock clocks.Clock
	owner *Exchange // it was begun for that; another may have got the connection

	mu    sync.Mutex
	times dialTimes
}

type dialTimes struct {
	DNSStart, DNSDone, ConnectStart, ConnectDone, TLSStart, TLSDone *time.Duration
}

// first notes the present in a field that is still empty.
func (d *dial) first(field func(t *dialTimes) **time.Duration) {
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := field(&d.times); *at == nil {
		*at = &now
	}
}

func (d *dial) now() dialTimes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.times
}

// trace notes the steps of the system's dialer. It may try several addresses at
// once: the first start and the first success count.
func (d *dial) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) {
			d.first(func(t *dialTimes) **time.Duration { return &t.DNSStart })
		},
		DNSDone: func(i httptrace.DNSDoneInfo) {
			if i.Err == nil {
				d.first(func(t *dialTimes) **time.Duration { return &t.DNSDone })
			}
		},
		ConnectStart: func(string, string) {
			d.first(func(t *dialTimes) **time.Duration { return &t.ConnectStart })
		},
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				d.first(func(t *dialTimes) **time.Duration { return &t.ConnectDone })
			}
		},
	}
}

// dial connects to addr, with TLS if config is not nil, and returns the protocol
// that TLS agreed on.
func (c *Client) dial(ctx context.Context, network, addr string, config *tls.Config) (l line, agreed string, err error) {
	d := &dial{clock: c.clock}
	if x, ok := ctx.Value(exchangeKey{}).(*Exchange); ok {
		d.owner = x
		x.dials(d)
	}
	// The transport dials on after the request has ended; not after Close.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errClosed) })()

	conn, err := c.connect(httptrace.WithClientTrace(ctx, d.trace()), d, network, addr)
	if err != nil {
		return line{}, "", err
	}
	stamped := c.source.Wrap(conn)
	if !c.opened(stamped) {
		conn.Close()
		return line{}, "", errClosed
	}
	l = line{Conn: stamped, arrival: stamped, dial: d, client: c}
	if config == nil {
		return l, "", nil
	}
	secure := tls.Client(stamped, config)
	d.first(func(t *dialTimes) **time.Duration { return &t.TLSStart })
	if err := secure.HandshakeContext(ctx); err != nil {
		l.Close()
		return line{}, "", fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	d.first(func(t *dialTimes) **time.Duration { return &t.TLSDone })
	l.Conn = secure
	return l, secure.ConnectionState().NegotiatedProtocol, nil
}

func (c *Client) connect(ctx context.Context, d *dial, network, addr string) (net.Conn, error) {
	if c.options.Dial == nil {
		dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
			arrival.EnableStamps(raw)
			return nil
		}}
		return dialer.DialContext(ctx, network, addr)
	}
	d.first(func(t *dialTimes) **time.Duration { return &t.ConnectStart })
	conn, err := c.options.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.first(func(t *dialTimes) **time.Duration { return &t.ConnectDone })
	return conn, nil
}

// tlsConfig returns the settings of a connection to addr that offers protocols.
func (c *Client) tlsConfig(addr string, protocols ...string) *tls.Config {
	config := c.options.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config.ServerName = host
	}
	config.NextProtos = protocols
	return config
}

var (
	errClosed   = errors.New("exchange: the client was closed")
	errNotHTTP2 = errors.New("exchange: the server does not speak HTTP/2 over TLS (ALPN)")
)

// dial1 connects for HTTP/1.
func (c *Client) dial1(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
	l, _, err := c.dial(ctx, network, addr, config)
	if err != nil {
		return nil, err
	}
	return &conn1{line: l}, nil
}

// dial2 connects for HTTP/2.
func (c *Client) dial2(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
	l, agreed, err := c.dial(ctx, network, addr, config)
	if err != nil {
		return nil, err
	}
	if config != nil && agreed != "h2" {
		if c.options.Protocol == Auto {
			c.spare(addr, &conn1{line: l})
		} else {
			l.Close()
		}
		return nil, errNotHTTP2
	}
	return newConn2(l), nil
}
