package llmmock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A Serving says how Serve speaks.
type Serving struct {
	TLS   *tls.Config   // nil: in the clear; see MakeTLS
	HTTP2 bool          // too: by ALPN, and without TLS by prior knowledge
	Grace time.Duration // that open answers get when ctx ends; 0: none
}

// The times after which a connection is closed that does nothing.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
)

// Serve answers the requests of all connections that l accepts, until ctx ends.
// Requests are then stamped by the kernel, where it can (package arrival). It
// closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, o Serving) error {
	var handlers sync.WaitGroup // and connections: nothing is left when Serve returns
	h := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			s.ServeHTTP(w, r)
		}),
		ConnContext: withConn, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: s.opts.MaxConcurrent},
	}
	h.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			handlers.Add(1)
		case http.StateClosed, http.StateHijacked:
			handlers.Done()
		}
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(o.HTTP2 && o.TLS != nil)
	h.Protocols.SetUnencryptedHTTP2(o.HTTP2 && o.TLS == nil)
	if f, ok := s.fault("h2_streams"); ok {
		h.HTTP2.MaxConcurrentStreams = max(1, f.number("n"))
	}
	if f, ok := s.fault("idle_close"); ok {
		h.IdleTimeout = max(time.Millisecond, f.duration("after"))
	}
	if _, ok := s.fault("no_keepalive"); ok {
		h.SetKeepAlivesEnabled(false)
	}
	own := &listener{Listener: l, clock: s.clock, source: arrival.NewSource(s.clock)}
	stopped := make(chan struct{})
	ending := clocks.OnEnd(ctx, s.clock, func() {
		defer close(stopped)
		if o.Grace > 0 {
			grace, cancel := clocks.WithTimeout(context.Background(), s.clock, o.Grace, context.DeadlineExceeded)
			h.Shutdown(grace) // what is open after that is cut off
			cancel()
		}
		h.Close()
	})
	var err error
	if o.TLS != nil {
		h.TLSConfig = o.TLS.Clone()
		err = h.ServeTLS(own, "", "")
	} else {
		err = h.Serve(own)
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		handlers.Wait()
		return nil
	}
	ending.Stop()
	h.Close()
	return fmt.Errorf("llmmock: %w", err)
}
