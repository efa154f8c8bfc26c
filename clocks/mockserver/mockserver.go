// Package mockserver is what the servers of mocks have in common: they answer until
// they are told to end, leave nothing behind, and know when a request arrived.
package mockserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// headerTimeout is how long a client may take for the head of a request.
const headerTimeout = 10 * time.Second

// Serve calls answer for each request over the connections that l accepts until ctx
// ends, over TLS if config is not nil. The context of answer ends with ctx, or when
// l fails. When Serve returns, l and all connections are closed and all answers
// have returned.
func Serve(ctx context.Context, c clocks.Clock, l net.Listener, config *tls.Config, answer func(ctx context.Context, w http.ResponseWriter, r *http.Request)) error {
	inner, cancel := clocks.WithCancel(ctx, c)
	defer cancel(nil)
	h := &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(inner, w, r) }),
		ConnContext: withConn, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0),
	}
	if config != nil {
		h.TLSConfig = config.Clone()
	}
	return Run(inner, c, arrival.Listen(l, c), h, 0)
}

// Run has h serve l until ctx ends, over TLS if it has a TLSConfig; open answers
// then get the time grace to end by themselves. When Run returns, l and all
// connections are closed and all answers have returned.
func Run(ctx context.Context, c clocks.Clock, l net.Listener, h *http.Server, grace time.Duration) error {
	var open sync.WaitGroup // connections and answers
	answer := h.Handler
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Done()
		answer.ServeHTTP(w, r)
	})
	h.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		}
	}
	stopped := make(chan struct{})
	ending := clocks.OnEnd(ctx, c, func() {
		defer close(stopped)
		if grace > 0 {
			patience, cancel := clocks.WithTimeout(context.Background(), c, grace, context.DeadlineExceeded)
			h.Shutdown(patience) // what is open after that is cut off
			cancel()
		}
		h.Close()
	})
	var err error
	if h.TLSConfig != nil {
		err = h.ServeTLS(l, "", "")
	} else {
		err = h.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		open.Wait()
		return nil
	}
	ending.Stop()
	h.Close()
	return err
}

// ServeConns calls serve for each connection that l accepts until ctx ends. The
// context of serve ends with ctx, or when l fails. When ServeConns returns, l and
// all connections are closed and all calls have returned.
func ServeConns(ctx context.Context, c clocks.Clock, l net.Listener, serve func(ctx context.Context, conn *arrival.Conn)) error {
	g, inner := clocks.NewGroup(ctx, c)
	ending := clocks.OnEnd(inner, c, func() { l.Close() })
	own := arrival.Listen(l, c)
	var err error
	for {
		var conn net.Conn
		if conn, err = own.Accept(); err != nil {
			break
		}
		g.Go("a connection", func() error {
			closing := clocks.OnEnd(inner, c, func() { conn.Close() })
			defer closing.Stop()
			defer conn.Close()
			serve(inner, conn.(*arrival.Conn)) // as arrival.Listen has them
			return nil
		})
	}
	ending.Stop()
	l.Close()
	ended := ctx.Err() != nil
	g.Cancel(err)
	g.Wait()
	if ended {
		return nil
	}
	return err
}

type connKey struct{}

// withConn puts the stamps of c, which may be TLS, into the context.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if stamps, ok := c.(*arrival.Conn); ok {
		return context.WithValue(ctx, connKey{}, stamps)
	}
	return ctx
}

// Arrived returns when the last bytes of a request of Serve reached the host, and
// whether the kernel says so.
func Arrived(c clocks.Clock, r *http.Request) (at time.Duration, kernel bool) {
	if conn, ok := r.Context().Value(connKey{}).(*arrival.Conn); ok {
		if last := conn.Last(); last.N > 0 {
			return last.Arrived, last.Kernel
		}
	}
	return c.Now(), false
}

// RequestID returns the name that a client has given to its request; empty if it
// has none.
func RequestID(r *http.Request) string {
	for _, name := range []string{"X-Request-Id", "X-Client-Request-Id"} {
		if id := r.Header.Get(name); id != "" {
			return id
		}
	}
	return ""
}
