package mock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/socket"
)

// A Server is the mock. Its path is any that ends in /realtime.
type Server struct {
	clock    clocks.Clock
	o        Options
	faults   map[string]string
	sessions atomic.Int64
	busy     sync.WaitGroup
}

// New returns a Server on clock, which has to be a Real one.
func New(clock clocks.Clock, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("realtime: mock: %w", err)
	}
	f, _ := readFaults(o.Faults) // checked
	return &Server{clock: clock, o: o, faults: f}, nil
}

// Serve answers what comes over l until ctx ends, over TLS if config is not nil.
// When it returns, l is closed and all sessions have ended.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	ctx, cancel := clocks.WithCancel(ctx, s.clock)
	web := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig:         config,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.busy.Add(1)
			defer s.busy.Done()
			s.answer(ctx, w, r)
		}),
	}
	closed := make(chan struct{})
	ending := clocks.OnEnd(ctx, s.clock, func() {
		web.Close()
		close(closed)
	})
	own := arrival.Listen(l, s.clock)
	serve := func() error { return web.Serve(own) }
	if config != nil {
		serve = func() error { return web.ServeTLS(own, "", "") }
	}
	err := serve()
	if errors.Is(err, http.ErrServerClosed) {
		<-closed
		err = nil
	} else {
		ending.Stop()
		err = fmt.Errorf("realtime: mock: %w", err)
	}
	cancel(http.ErrServerClosed)
	s.busy.Wait()
	return err
}

// answer holds one session.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	n := int(s.sessions.Add(1) - 1)
	x := newSession(s, n)
	if id := r.Header.Get("X-Request-Id"); id != "" {
		x.truth.RequestID = id
	}
	defer func() {
		x.truth.Done = s.clock.Now()
		if s.o.Truth != nil {
			s.o.Truth(x.truth)
		}
	}()
	if status := s.refusal(r); status != 0 {
		x.truth.Status, x.truth.Ended = status, "refused"
		if s.faults["refuse"] != "" {
			x.truth.Fault = "refuse"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"refused with %d by the mock","type":"invalid_request_error","code":"invalid_api_key"}}`, status)
		return
	}
	conn, err := socket.Accept(s.clock, w, r, http.Header{"X-Request-Id": {x.truth.RequestID}}, socket.Options{Subprotocols: []string{"realtime"}})
	if err != nil {
		x.truth.Status, x.truth.Ended = http.StatusBadRequest, "no WebSocket"
		return
	}
	x.truth.Status = http.StatusSwitchingProtocols
	x.hold(ctx, conn)
}

// refusal returns the status with which a request is refused; 0: it is not.
func (s *Server) refusal(r *http.Request) int {
	if v, ok := s.faults["refuse"]; ok {
		status, _ := strconv.Atoi(v) // checked
		return status
	}
	if !strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/realtime") {
		return http.StatusNotFound
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if s.o.Keys != nil && !slices.Contains(s.o.Keys, key) {
		return http.StatusUnauthorized
	}
	return 0
}
