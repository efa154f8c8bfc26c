// Package exchange does HTTP exchanges and times them: each step up to the
// headers, and when each piece of the body arrived at this host, which is not
// when a busy program came to read it.
//
// It measures, so it does nothing that was not asked for: no redirects are
// followed, no proxy of the environment is used, no compression is asked for,
// no connection is closed because many are idle.
package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A Protocol is a version of HTTP.
type Protocol int

// The protocols.
const (
	// HTTP1 is HTTP/1.1, over TLS for https.
	HTTP1 Protocol = iota
	// HTTP2 is HTTP/2: over TLS, where the server must agree to it (ALPN), and
	// with prior knowledge for http.
	HTTP2
	// Auto is HTTP/2 where a server agrees to it over TLS, else HTTP/1.1.
	Auto
)

// Options are how a Client connects and asks. The zero Options are HTTP/1.1 with
// connections that are used again.
type Options struct {
	Protocol Protocol

	// NoReuse makes a new connection for each request, and says "Connection:
	// close" with it in HTTP/1.
	NoReuse bool

	// MaxConns is how many connections there may be to a host at once; 0 is no
	// limit. With HTTP/2 any limit means one connection, on which requests wait
	// while the server allows no more streams.
	MaxConns int

	// IdleTimeout is after how long without use a connection is closed; 0 is 90
	// seconds.
	IdleTimeout time.Duration

	// Compress asks for gzip. The reads are then of the decoded data, each with
	// the arrival of the last compressed bytes that it took. Without it the
	// request says "Accept-Encoding: identity", unless it says something itself.
	Compress bool

	// TLS are the settings for https; nil are Go's. NextProtos is set as
	// Protocol asks.
	TLS *tls.Config

	// Dial connects; nil is the system's dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// The bounds and settings of both transports. A stream of HTTP/2 may send 4 MiB
// and a connection 1 GiB ahead of what is read: golang.org/x/net/http2's own
// windows, so that no stream of text ever waits for this client.
const (
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 1 << 20
	readBuffer     = 16 << 10
)

// A Client does exchanges. It may be used by several goroutines.
type Client struct {
	clock   clocks.Clock
	source  *arrival.Source
	options Options
	h1      *http.Transport
	tls2    *http2.Transport
	clear2  *http2.Transport

	ctx   context.Context // ends with Close
	close context.CancelFunc
	stamp func() // lets go of the kernel's stamps

	mu     sync.Mutex
	conns  map[*arrival.Conn]bool
	plain  map[string]bool     // by address: speaks no HTTP/2 (Auto)
	spares map[string][]*conn1 // by address: connected, before that was known
}

// New returns a Client whose times are on c. It has to be closed.
func New(c clocks.Clock, o Options) *Client {
	k := &Client{clock: c, source: arrival.NewSource(c), options: o, conns: map[*arrival.Conn]bool{}, plain: map[string]bool{}, spares: map[string][]*conn1{}}
	k.ctx, k.close = context.WithCancel(context.Background())
	k.stamp = arrival.Hold()
	idle := o.IdleTimeout
	if idle == 0 {
		idle = idleTimeout
	}
	k.h1 = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return k.dial1(ctx, network, addr, nil)
		},
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if s := k.takeSpare(addr); s != nil {
				return s, nil
			}
			return k.dial1(ctx, network, addr, k.tlsConfig(addr, "http/1.1"))
		},
		DisableCompression:     true,
		DisableKeepAlives:      o.NoReuse,
		MaxIdleConnsPerHost:    1 << 20, // as many as there are: none is closed at load
		MaxConnsPerHost:        o.MaxConns,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ReadBufferSize:         readBuffer,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	two := func(dial func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error)) *http2.Transport {
		return &http2.Transport{
			AllowHTTP:                  true,
			DialTLSContext:             dial,
			DisableCompression:         true,
			IdleConnTimeout:            idle,
			MaxHeaderListSize:          maxHeaderBytes,
			StrictMaxConcurrentStreams: o.MaxConns > 0,
		}
	}
	k.tls2 = two(func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		offer := []string{"h2"}
		if o.Protocol == Auto {
			offer = append(offer, "http/1.1")
		}
		return k.dial2(ctx, network, addr, k.tlsConfig(addr, offer...))
	})
	k.clear2 = two(func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return k.dial2(ctx, network, addr, nil)
	})
	return k
}

// Close ends all exchanges and closes all connections.
func (c *Client) Close() {
	c.close()
	c.h1.CloseIdleConnections()
	c.tls2.CloseIdleConnections()
	c.clear2.CloseIdleConnections()
	c.mu.Lock()
	conns := c.conns
	c.conns = map[*arrival.Conn]bool{}
	c.mu.Unlock()
	for conn := range conns {
		conn.Close()
	}
	c.stamp()
}

// opened notes a connection, unless the client was closed.
func (c *Client) opened(conn *arrival.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.conns[conn] = true
	return true
}

func (c *Client) closed(conn *arrival.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// spare keeps a connection to a server that turned out to speak HTTP/1.
func (c *Client) spare(addr string, conn *conn1) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain[addr] = true
	c.spares[addr] = append(c.spares[addr], conn)
}

func (c *Client) takeSpare(addr string) *conn1 {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spares[addr]
	if len(s) == 0 {
		return nil
	}
	c.spares[addr] = s[:len(s)-1]
	return s[len(s)-1]
}

// dropSpares closes what nobody took: a server would close it some day, and the
// request that is given it then would fail.
func (c *Client) dropSpares(addr string) {
	for s := c.takeSpare(addr); s != nil; s = c.takeSpare(addr) {
		s.Close()
	}
}

// roundTrip sends req by the protocol that was asked for.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	switch req.URL.Scheme {
	case "http":
		if c.options.Protocol == HTTP2 {
			return c.clear2.RoundTrip(req)
		}
		return c.h1.RoundTrip(req)
	case "https":
	default:
		return nil, fmt.Errorf("exchange: the address %q begins with neither http:// nor https://", req.URL.Redacted())
	}
	switch c.options.Protocol {
	case HTTP2:
		return c.tls2.RoundTrip(req)
	case Auto:
		return c.auto(req)
	}
	return c.h1.RoundTrip(req)
}

// auto tries HTTP/2 until a server is known not to speak it.
func (c *Client) auto(req *http.Request) (*http.Response, error) {
	addr := req.URL.Host
	if req.URL.Port() == "" {
		addr = net.JoinHostPort(req.URL.Hostname(), "443")
	}
	c.mu.Lock()
	plain := c.plain[addr]
	c.mu.Unlock()
	if !plain {
		resp, err := c.tls2.RoundTrip(req)
		if !errors.Is(err, errNotHTTP2) {
			return resp, err
		}
		// Nothing of the request was written, but its body may have been closed.
		if req.Body != nil && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, fmt.Errorf("exchange: the request's body, once more: %w", err)
			}
			req.Body = body
		}
		defer c.dropSpares(addr) // a request that is cancelled leaves its own
	}
	return c.h1.RoundTrip(req)
}
