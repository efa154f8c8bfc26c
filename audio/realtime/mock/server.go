package mock

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"firstsound/clocks"
	"firstsound/clocks/mockserver"
	"firstsound/clocks/socket"
)

// A Server is the mock. Its path is any that ends in /realtime.
type Server struct {
	clock    clocks.Clock
	o        Options
	faults   []mockserver.Fault
	sessions atomic.Int64
}

// New returns a Server on clock, which has to be a Real one.
func New(clock clocks.Clock, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("realtime: mock: %w", err)
	}
	f, _ := parseFaults(o.Faults) // checked
	return &Server{clock: clock, o: o, faults: f}, nil
}

// Serve answers what comes over l until ctx ends, over TLS if config is not nil.
// When it returns, l is closed and all sessions have ended.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	if err := mockserver.Serve(ctx, s.clock, l, config, s.answer); err != nil {
		return fmt.Errorf("realtime: mock: %w", err)
	}
	return nil
}

// answer holds one session.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	n := int(s.sessions.Add(1) - 1)
	x := newSession(s, n)
	if id := mockserver.RequestID(r); id != "" {
		x.truth.RequestID = id
	}
	defer func() {
		x.truth.Done = s.clock.Now()
		if s.o.Truth != nil {
			s.o.Truth(x.truth)
		}
	}()
	if status := x.refusal(r); status != 0 {
		x.truth.Status, x.truth.Ended = status, "refused"
		if x.faults.Has("refuse") {
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
func (x *session) refusal(r *http.Request) int {
	if x.faults.Has("refuse") {
		return x.faults.Number("refuse")
	}
	if !strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/realtime") {
		return http.StatusNotFound
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if keys := x.s.o.Keys; keys != nil && !slices.Contains(keys, key) {
		return http.StatusUnauthorized
	}
	return 0
}
