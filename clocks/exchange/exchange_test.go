package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

const ms = time.Millisecond

// pipes is a listener whose connections are net.Pipes, for bubbles.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	dialed int
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	time.Sleep(3 * ms) // what a connection takes
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		p.mu.Lock()
		p.dialed++
		p.mu.Unlock()
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// certificate returns a certificate for example.com, and who trusts it.
func certificate() (tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.TLS.Certificates[0], pool
}

// A way is a protocol over a kind of connection.
type way struct {
	name     string
	scheme   string
	protocol Protocol
	server   []string // what the server offers by ALPN
	proto    string   // of the response
}

var ways = []way{
	{"h1", "http", HTTP1, nil, "HTTP/1.1"},
	{"h1 tls", "https", HTTP1, []string{"h2", "http/1.1"}, "HTTP/1.1"},
	{"h2c", "http", HTTP2, nil, "HTTP/2.0"},
	{"h2 tls", "https", HTTP2, []string{"h2", "http/1.1"}, "HTTP/2.0"},
	{"auto http", "http", Auto, nil, "HTTP/1.1"},
	{"auto to h2", "https", Auto, []string{"h2", "http/1.1"}, "HTTP/2.0"},
	{"auto to h1", "https", Auto, []string{"http/1.1"}, "HTTP/1.1"},
}

// serve starts a server on l.
func (w way) serve(l net.Listener, cert tls.Certificate, h http.Handler) *http.Server {
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if w.scheme == "https" {
		s.Protocols.SetHTTP2(w.server[0] == "h2")
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		go s.ServeTLS(l, "", "")
	} else {
		go s.Serve(l)
	}
	return s
}

// inBubble runs a test for each way, in a bubble, over pipes: all times are
// exact there, and a goroutine that is left makes it fail.
func inBubble(t *testing.T, o Options, h http.HandlerFunc, test func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes)) {
	cert, pool := certificate()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				s := w.serve(p, cert, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body) // only then a server sees that its client is gone
					h(w, r)
				}))
				o := o
				o.Protocol, o.Dial, o.TLS = w.protocol, p.dial, &tls.Config{RootCAs: pool}
				clock := clocks.NewReal()
				c := New(clock, o)
				test(t, w, c, clock, p)
				c.Close()
				s.Close()
				// A pipe holds nothing: TLS waits with its goodbye until it gives up.
				time.Sleep(10 * time.Second)
			})
		})
	}
}

func request(t *testing.T, w way, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequest("POST", w.scheme+"://example.com"+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// write sends text at once.
func write(w http.ResponseWriter, text string) {
	io.WriteString(w, text)
	http.NewResponseController(w).Flush()
}

// all reads the body to its end.
func all(x *Exchange) (reads []Read, err error) {
	for {
		r, err := x.Next()
		if err != nil {
			return reads, err
		}
		r.Data = append([]byte(nil), r.Data...)
		reads = append(reads, r)
	}
}

func text(reads []Read) string {
	var b strings.Builder
	for _, r := range reads {
		b.Write(r.Data)
	}
	return b.String()
}

// The steps and the pieces are timed exactly, whatever the protocol; a second
// request uses the connection again.
func TestTimes(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * ms)
		w.Header().Set("X-Encoding", r.Header.Get("Accept-Encoding"))
		w.WriteHeader(201)
		http.NewResponseController(w).Flush()
		for i := range 3 {
			time.Sleep(20 * ms)
			write(w, fmt.Sprint("event ", i, "\n\n"))
		}
		time.Sleep(5 * ms)
	}
	inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
		for round := range 2 {
			begin := clock.Now()
			x, err := c.Do(t.Context(), request(t, w, "/"))
			if err != nil {
				t.Fatal(err)
			}
			dial := 3 * ms
			if round == 1 {
				dial = 0
			}
			is := func(name string, got *time.Duration, want time.Duration) {
				t.Helper()
				if got == nil || *got-begin != want {
					t.Errorf("round %d: %s at %v, want %v", round, name, got, begin+want)
				}
			}
			is("send", x.Send, 0)
			is("connected", x.Connected, dial)
			is("headers", x.Headers, dial+10*ms)
			if round == 0 {
				is("connect start", x.ConnectStart, 0)
				is("connect done", x.ConnectDone, dial)
				if w.scheme == "https" {
					is("TLS start", x.TLSStart, dial)
					is("TLS done", x.TLSDone, dial)
				}
			} else if x.ConnectStart != nil || x.TLSDone != nil {
				t.Error("a connection that was used again was dialed")
			}
			if *x.Reused != (round == 1) || (x.Idle != nil) != (round == 1) || x.Tries != 1 {
				t.Errorf("round %d: reused %v, idle %v, %d tries", round, *x.Reused, x.Idle, x.Tries)
			}
			if x.Status != 201 || x.Protocol != w.proto || x.Header.Get("X-Encoding") != "identity" || x.Kernel {
				t.Errorf("%d %s, %q, kernel %v", x.Status, x.Protocol, x.Header, x.Kernel)
			}
			reads, err := all(x)
			if err != io.EOF || len(reads) != 3 {
				t.Fatalf("%d reads, %v", len(reads), err)
			}
			if end := clock.Now() - begin; end != dial+75*ms {
				t.Errorf("the body ended at %v", end)
			}
			before := *x.Headers
			for i, r := range reads {
				at := begin + dial + 10*ms + time.Duration(i+1)*20*ms
				if string(r.Data) != fmt.Sprint("event ", i, "\n\n") || r.Arrived != at || r.Read != at || r.Earliest != before || r.N == 0 {
					t.Errorf("round %d: %q: %+v, want %v after %v", round, r.Data, r, at, before)
				}
				before = at
			}
			is("wrote request", x.WroteRequest, dial)
			if _, ok := x.TCP(); ok || x.Faults() != 0 {
				t.Error("a pipe has no kernel")
			}
			x.Close()
			x.Close()
			clock.Sleep(t.Context(), 7*ms)
		}
		if p.dialed != 1 {
			t.Errorf("%d connections", p.dialed)
		}
	})
}

// Over HTTP/2 the transport reads ahead of a reader that lags: the arrivals are
// those of the connection all the same, for each of many streams.
func TestLaggingReaders(t *testing.T) {
	const streams, events = 60, 20
	handler := func(w http.ResponseWriter, r *http.Request) {
		var id int
		fmt.Sscanf(r.URL.Path, "/%d", &id)
		http.NewResponseController(w).Flush()
		time.Sleep(time.Duration(id) * 100 * time.Microsecond)
		for i := range events {
			time.Sleep(20 * ms)
			write(w, fmt.Sprintf("%d.%d;", id, i))
		}
	}
	inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
		if w.proto != "HTTP/2.0" {
			return
		}
		var wg sync.WaitGroup
		for id := range streams {
			wg.Go(func() {
				x, err := c.Do(t.Context(), request(t, w, fmt.Sprint("/", id)))
				if err != nil {
					t.Error(err)
					return
				}
				defer x.Close()
				begin := *x.Headers
				var reads []Read
				for {
					// Never at the moment at which something arrives: who is first then is
					// not said.
					clock.Sleep(t.Context(), time.Duration(50+7*id)*ms+17*time.Microsecond)
					r, err := x.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					if r.Read-r.Arrived <= 0 {
						t.Errorf("stream %d: %+v was read at once", id, r)
					}
					r.Data = append([]byte(nil), r.Data...)
					reads = append(reads, r)
				}
				if len(reads) != events {
					t.Errorf("stream %d: %d pieces of %d events", id, len(reads), events)
				}
				for i, r := range reads {
					want := begin + time.Duration(id)*100*time.Microsecond + time.Duration(i+1)*20*ms
					if string(r.Data) != fmt.Sprintf("%d.%d;", id, i) || r.Arrived != want || r.Earliest > want {
						t.Errorf("stream %d: %q arrived at %v, want %v", id, r.Data, r.Arrived, want)
					}
				}
			})
		}
		wg.Wait()
		if p.dialed != 1 {
			t.Errorf("%d connections", p.dialed)
		}
	})
}

func TestNoReuseAndIdle(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) { write(w, "x") }
	for _, test := range []struct {
		o     Options
		pause time.Duration
		conns int
	}{
		{Options{}, 89 * time.Second, 1},
		{Options{}, 91 * time.Second, 3},
		{Options{IdleTimeout: time.Second}, 2 * time.Second, 3},
		{Options{NoReuse: true}, 0, 3},
	} {
		inBubble(t, test.o, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
			for range 3 {
				x, err := c.Do(t.Context(), request(t, w, "/"))
				if err != nil {
					t.Fatal(err)
				}
				if reads, err := all(x); err != io.EOF || text(reads) != "x" {
					t.Errorf("%v, %v", reads, err)
				}
				x.Close()
				clock.Sleep(t.Context(), test.pause)
			}
			if p.dialed != test.conns {
				t.Errorf("%+v, with pauses of %v: %d connections, want %d", test.o, test.pause, p.dialed, test.conns)
			}
		})
	}
}

// together does n exchanges at once.
func together(t *testing.T, w way, c *Client, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			x, err := c.Do(t.Context(), request(t, w, "/"))
			if err != nil {
				t.Error(err)
				return
			}
			all(x)
			x.Close()
		})
	}
	wg.Wait()
}

// Many at once need as many connections, and all of them are kept.
func TestPool(t *testing.T) {
	const n = 40
	handler := func(w http.ResponseWriter, _ *http.Request) { time.Sleep(20 * ms); write(w, "x") }
	for _, test := range []struct{ max, conns int }{{0, n}, {5, 5}} {
		inBubble(t, Options{MaxConns: test.max}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
			for range 3 {
				together(t, w, c, n)
			}
			want := test.conns
			if w.proto == "HTTP/2.0" {
				want = 1
			}
			if p.dialed != want {
				t.Errorf("at most %d: %d connections, want %d", test.max, p.dialed, want)
			}
		})
	}
}

// Whatever ends an exchange early ends it at once, and leaves no goroutine.
func TestCancel(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			write(w, "x")
		}
		<-r.Context().Done()
	}
	for _, path := range []string{"/headers", "/body"} {
		for _, how := range []string{"context", "client"} {
			inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, _ *pipes) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				end := cancel
				if how == "client" {
					end = c.Close
				}
				clock.At(50*ms, end)
				x, err := c.Do(ctx, request(t, w, path))
				if err == nil {
					_, err = all(x)
				}
				if now := clock.Now(); now != 50*ms {
					t.Errorf("%s, %s: it ended at %v", path, how, now)
				}
				if how == "context" && !errors.Is(err, context.Canceled) || how == "client" && !errors.Is(err, errClosed) {
					t.Errorf("%s, %s: %v", path, how, err)
				}
				if x == nil || x.Send == nil || x.Connected == nil || (x.Headers != nil) != (path == "/body") {
					t.Errorf("%s, %s: %+v", path, how, x)
				}
				x.Close()
				if how == "client" {
					if _, err := c.Do(t.Context(), request(t, w, path)); !errors.Is(err, errClosed) {
						t.Errorf("after Close: %v", err)
					}
				}
			})
		}
	}
}

// Closing an exchange ends what the server does for it.
func TestCloseEarly(t *testing.T) {
	gone := make(chan struct{}, 100)
	handler := func(w http.ResponseWriter, r *http.Request) {
		write(w, "x")
		<-r.Context().Done()
		gone <- struct{}{}
	}
	inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, _ *pipes) {
		x, err := c.Do(t.Context(), request(t, w, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := x.Next(); err != nil || string(r.Data) != "x" {
			t.Errorf("%q, %v", r.Data, err)
		}
		x.Close()
		synctest.Wait()
		if len(gone) != 1 {
			t.Error("the server still answers")
		}
		<-gone
	})
}
