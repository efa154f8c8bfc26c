package ttsmock

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"firstsound/clocks"
	"firstsound/clocks/mockserver"
)

// A Server is the mock. Several Serve and ServeWyoming may run at once.
type Server struct {
	clock  clocks.Clock
	o      Options
	faults []mockserver.Fault
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

const maxRequest = 1 << 20

// Serve answers what comes over the connections that l accepts until ctx ends,
// over TLS if config is not nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	if err := mockserver.Serve(ctx, s.clock, l, config, s.serve); err != nil {
		return fmt.Errorf("ttsmock: %w", err)
	}
	return nil
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
	case last == "synthesize":
		return route{name: "piper", http: piperHTTP}, true
	case strings.HasSuffix(path, "/api-ws/v1/inference"):
		return route{name: "dashscope", talk: newDashScope}, true
	}
	return rt, false
}

// serve answers one request.
func (s *Server) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	arrived, kernel := mockserver.Arrived(s.clock, r)
	upgrade := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	rt, ok := find(r)
	if !ok || upgrade && rt.talk == nil || !upgrade && rt.http == nil {
		writeError(w, http.StatusNotFound, "there is nothing of that kind at "+r.URL.Path)
		return
	}
	c := s.newCall(rt.name, mockserver.RequestID(r))
	c.truth.Arrived, c.truth.Kernel = arrived, kernel
	if c.faults.Has("slow") {
		c.strike("slow")
		s.clock.Sleep(r.Context(), c.faults.Duration("slow"))
	}
	w.Header().Set("X-Request-Id", c.truth.RequestID)
	status := 0
	if c.faults.Has("refuse") {
		c.strike("refuse")
		status = c.faults.Number("refuse")
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
