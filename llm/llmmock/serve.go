package llmmock

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"firstsound/clocks/arrival"
	"firstsound/clocks/mockserver"
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
	h := &http.Server{
		Handler: s, ConnContext: withConn, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: s.opts.MaxConcurrent},
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
	if o.TLS != nil {
		h.TLSConfig = o.TLS.Clone()
	}
	own := &listener{Listener: l, clock: s.clock, source: arrival.NewSource(s.clock)}
	if err := mockserver.Run(ctx, s.clock, own, h, o.Grace); err != nil {
		return fmt.Errorf("llmmock: %w", err)
	}
	return nil
}
