package ttsmock

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A Server is the mock. Several Serve and ServeWyoming may run at once.
type Server struct {
	clock  clocks.Clock
	o      Options
	faults []fault
	calls  atomic.Int64
}

// New returns a Server on clock, which has to be a Real one.
func New(clock clocks.Clock, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("ttsmock: %w", err)
	}
	f, _ := parseFaults(o.Faults) // checked
	return &Server{clock: clock, o: o, faults: f}, nil
}

const (
	headerTimeout = 10 * time.Second
	maxRequest    = 1 << 20
)

// Serve answers what comes over the connections that l accepts until ctx ends,
// over TLS if config is not nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	inner, cancel := clocks.WithCancel(ctx, s.clock)
	defer cancel(nil)
	var open sync.WaitGroup // connections and handlers: nothing is left when Serve returns
	h := &http.Server{ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Done()
		s.serve(inner, w, r)
	})
	h.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		return context.WithValue(ctx, connKey{}, c)
	}
	h.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			open.Add(1)
		}
		if state == http.StateClosed || state == http.StateHijacked {
			open.Done()
		}
	}
	closed := make(chan struct{})
	ending := clocks.OnEnd(inner, s.clock, func() {
		h.Close()
		close(closed)
	})
	own := arrival.Listen(l, s.clock)
	serve := func() error { return h.Serve(own) }
	if config != nil {
		h.TLSConfig = config.Clone()
		serve = func() error { return h.ServeTLS(own, "", "") }
	}
	err := serve()
	if errors.Is(err, http.ErrServerClosed) {
		<-closed
		open.Wait()
		return nil
	}
	ending.Stop()
	h.Close()
	return fmt.Errorf("ttsmock: %w", err)
}

type connKey struct{}

// arrived returns when the last bytes of a request reached the host.
func (s *Server) arrived(r *http.Request) (time.Duration, bool) {
	if c, ok := r.Context().Value(connKey{}).(*arrival.Conn); ok && c.Last().N > 0 {
		return c.Last().Arrived, c.Last().Kernel
	}
	return s.clock.Now(), false
}

// requestID returns the client's name for its request.
func requestID(r *http.Request) string {
	for _, name := range []string{"X-Request-Id", "X-Client-Request-Id"} {
		if id := r.Header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// authorized says whether a request has one of the keys, in any of the places
// where the services look for it.
func (s *Server) authorized(r *http.Request) bool {
	if s.o.Keys == nil {
		return true
	}
	_, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := []string{bearer, r.Header.Get("Xi-Api-Key"), r.Header.Get("X-Api-Key")}
	for _, name := range []string{"api_key", "authorization"} {
		given = append(given, r.URL.Query().Get(name))
	}
	for _, k := range s.o.Keys {
		for _, g := range given {
			if k != "" && g == k {
				return true
			}
		}
	}
	return false
}

// A route is what serves a path.
type route struct {
	name string
	http func(*request) // nil: it is no HTTP
	talk func(*talk) dialog
}

// find returns what serves a request.
func find(r *http.Request) (rt route, ok bool) {
	path := strings.TrimRight(r.URL.Path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(path, "/audio/speech"):
		return route{name: "openai", http: openAI}, true
	case last == "multi-stream-input":
		return route{name: "elevenlabs-multi", talk: newMulti}, true
	case last == "stream-input":
		return route{name: "elevenlabs-stream-input", talk: newStreamInput}, true
	case strings.Contains(path, "/text-to-speech/"):
		return route{name: "elevenlabs", http: elevenLabs}, true
	case strings.HasSuffix(path, "/tts/websocket"):
		return route{name: "cartesia", talk: newCartesia}, true
	case strings.HasSuffix(path, "/tts/bytes"), strings.HasSuffix(path, "/tts/sse"):
		return route{name: "cartesia-" + last, http: cartesiaHTTP}, true
	case strings.HasSuffix(path, "/v1/speak"):
		return route{name: "deepgram", http: deepgramHTTP, talk: newDeepgram}, true
	case strings.HasSuffix(path, "/api-ws/v1/inference"):
		return route{name: "dashscope", talk: newDashScope}, true
	}
	return rt, false
}

// serve answers one request.
func (s *Server) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	arrived, kernel := s.arrived(r)
	upgrade := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	rt, ok := find(r)
	if !ok || upgrade && rt.talk == nil || !upgrade && rt.http == nil {
		writeError(w, http.StatusNotFound, "there is nothing of that kind at "+r.URL.Path)
		return
	}
	c := s.newCall(rt.name, requestID(r))
	c.truth.Arrived, c.truth.Kernel = arrived, kernel
	if c.faults.has("slow") {
		c.strike("slow")
		s.clock.Sleep(r.Context(), c.faults.duration("slow"))
	}
	w.Header().Set("X-Request-Id", c.truth.RequestID)
	status := 0
	if c.faults.has("refuse") {
		c.strike("refuse")
		status = c.faults.number("refuse")
	} else if !s.authorized(r) {
		status = http.StatusUnauthorized
	}
	switch {
	case status != 0:
		c.truth.Status = status
		writeError(w, status, fmt.Sprintf("refused with %d (simulated)", status))
		c.done("refused")
	case upgrade:
		c.converse(ctx, w, r, rt)
	default:
		c.answer(ctx, w, r, rt)
	}
}

// writeError answers with an error in the words of all services: each client
// finds those that it knows.
func writeError(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(errorJSON(words))
}

func errorJSON(words string) []byte {
	b, _ := json.Marshal(map[string]any{ // strings only
		"error":  map[string]any{"message": words, "type": "invalid_request_error", "param": nil, "code": nil},
		"detail": map[string]any{"status": "error", "message": words},
	})
	return b
}
