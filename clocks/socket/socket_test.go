package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/clockstest"
)

// serve answers every WebSocket with handle, over TLS if secure, and returns the
// URL.
func serve(t *testing.T, c clocks.Clock, secure bool, handle func(*Conn)) (url string, config *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			http.Error(w, `{"err":"no credit"}`, http.StatusPaymentRequired)
			return
		}
		conn, err := Accept(c, w, r, nil, Options{Limit: 1 << 10})
		if err != nil {
			return
		}
		handle(conn)
	}))
	s.Listener = arrival.Listen(s.Listener, c)
	if secure {
		s.StartTLS()
		config = s.Client().Transport.(*http.Transport).TLSClientConfig
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http"), config
}

func echo(conn *Conn) {
	for {
		m, err := conn.Next(context.Background())
		if err != nil {
			conn.Close(1000, "")
			return
		}
		if string(m.Data) == "bye" {
			conn.Close(4001, "as you wish")
			return
		}
		conn.Send(m.Text, m.Data)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %v", secure), func(t *testing.T) {
			c := clocks.NewReal()
			url, config := serve(t, c, secure, echo)
			conn, err := Dial(t.Context(), c, url, Options{TLS: config})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(1000, "")
			for i, text := range []bool{true, false} {
				at, err := conn.Send(text, []byte{'a', byte('0' + i)})
				if err != nil {
					t.Fatal(err)
				}
				m, err := conn.Next(t.Context())
				if err != nil || m.Text != text || string(m.Data) != fmt.Sprintf("a%d", i) {
					t.Fatalf("%+v, %v", m, err)
				}
				if m.Arrived < at || m.Read < m.Arrived || m.N == 0 || m.Earliest > m.Arrived {
					t.Errorf("sent at %v: %+v", at, m)
				}
			}
			conn.Send(true, []byte("bye"))
			_, err = conn.Next(t.Context())
			if e := new(CloseError); !errors.As(err, &e) || e.Code != 4001 || e.Reason != "as you wish" {
				t.Errorf("%v", err)
			}
			if _, err := conn.Next(t.Context()); err == nil {
				t.Error("a message after the end")
			}
		})
	}
}

// A reader that comes late finds out when the message came.
func TestLateReader(t *testing.T) {
	c := clocks.NewReal()
	url, _ := serve(t, c, false, echo)
	conn, err := Dial(t.Context(), c, url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(1000, "")
	at, _ := conn.Send(true, []byte("x"))
	c.Sleep(t.Context(), 100*time.Millisecond)
	m, err := conn.Next(t.Context())
	if err != nil || m.Arrived < at || c.Now()-m.Arrived < 10*time.Millisecond {
		t.Errorf("sent at %v, now %v: %+v, %v", at, c.Now(), m, err)
	}
}

func TestRefused(t *testing.T) {
	c := clocks.NewReal()
	url, _ := serve(t, c, false, echo)
	header := http.Header{"Authorization": {"Token secret"}}
	_, err := Dial(t.Context(), c, url+"/refused", Options{Header: header})
	if e := new(RefusedError); !errors.As(err, &e) || e.Status != 402 || !strings.Contains(err.Error(), "no credit") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	conn, err := Dial(t.Context(), c, url, Options{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	conn.Send(true, []byte("more than ten bytes"))
	if _, err := conn.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("too long a message: %v", err)
	}
	conn.Close(1009, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("barge-in"))
	if _, err := Dial(ctx, c, url, Options{}); err == nil || err.Error() != "barge-in" {
		t.Errorf("%v", err)
	}
}

// A server that never answers the handshake holds nobody up whose context ends.
func TestHandshakeEnds(t *testing.T) {
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		near, far := net.Pipe()
		defer far.Close()
		go io.Copy(io.Discard, far)
		ctx, cancel := clocks.WithTimeout(ctx, c, 30*time.Millisecond, errors.New("barge-in"))
		defer cancel()
		_, err := Dial(ctx, c, "ws://mock/", Options{Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
		if err == nil || err.Error() != "barge-in" || c.Now() != 30*time.Millisecond {
			return fmt.Errorf("at %v: %v", c.Now(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// All that a connection started ends with it, in a bubble over a pipe too.
func TestBubble(t *testing.T) {
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		near, far := net.Pipe()
		l := &oneListener{conn: arrival.Wrap(far, c), closed: make(chan struct{})}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if conn, err := Accept(c, w, r, nil, Options{}); err == nil {
				c.Sleep(ctx, 200*time.Millisecond)
				conn.Send(false, []byte("frame"))
				echo(conn)
			}
		})}
		go s.Serve(l)
		defer s.Close()
		conn, err := Dial(ctx, c, "ws://mock/", Options{Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
		if err != nil {
			return err
		}
		m, err := conn.Next(ctx)
		if err != nil || m.Arrived != 200*time.Millisecond || m.Kernel {
			return fmt.Errorf("%+v, %v", m, err)
		}
		conn.Close(1000, "done")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// oneListener accepts one connection.
type oneListener struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *oneListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
