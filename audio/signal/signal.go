// Package signal speaks the protocols by which two peers of WebRTC find each other,
// both sides of each: Pipecat's SmallWebRTC, OpenAI Realtime's calls, WHIP (RFC 9725)
// and WHEP. It moves session descriptions and candidates as text, and knows nothing
// of media: an [Agent] behind the handlers does.
package signal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Protocol names how peers find each other.
type Protocol string

// The protocols.
const (
	SmallWebRTC Protocol = "smallwebrtc" // Pipecat
	Realtime    Protocol = "realtime"    // OpenAI
	WHIP        Protocol = "whip"
	WHEP        Protocol = "whep"
)

// Limits of what is read.
const (
	MaxSDP  = 256 << 10 // bytes of one description
	MaxBody = 1 << 20   // of a request or an answer
)

// An Offer is what a client begins a call with.
type Offer struct {
	Protocol Protocol
	SDP      string

	// Call is the resource that the client wants to negotiate again; empty for a new
	// call. With Restart it wants a new connection for it. SmallWebRTC only.
	Call    string
	Restart bool

	// Data is what the client sends beside the offer: request_data, or what /start
	// had as body (SmallWebRTC), or the session (Realtime). nil: nothing.
	Data json.RawMessage
}

// A Candidate is one ICE candidate, as RTCIceCandidateInit has it. An empty Candidate
// is the end of them.
type Candidate struct {
	Candidate string  `json:"candidate"`
	Mid       *string `json:"sdpMid,omitempty"`
	Line      *int    `json:"sdpMLineIndex,omitempty"`
	Fragment  string  `json:"usernameFragment,omitempty"`
}

// An Agent is what stands behind the handlers. Its methods may be called at once
// from several goroutines. Errors that are ErrUnknown, ErrBusy, ErrOffer or
// ErrUnsupported are told as each protocol has them; of any other one the client
// learns only that there was one.
type Agent interface {
	// Answer returns the answer to an offer, complete with all candidates, and the
	// name of the call. ctx ends with the request; the call does not.
	Answer(ctx context.Context, o Offer) (sdp, resource string, err error)

	// Trickle takes candidates of the client's that come later. A Candidate that is
	// empty says that it was the last one.
	Trickle(ctx context.Context, resource string, candidates []Candidate) error

	// Delete ends a call.
	Delete(ctx context.Context, resource string) error
}

// A Restarter is an Agent that can restart ICE by a fragment (RFC 9725, section
// 4.3.3). It returns its own new one.
type Restarter interface {
	Restart(ctx context.Context, resource string, f Fragment) (Fragment, error)
}

// What an Agent may say.
var (
	ErrUnknown     = errors.New("there is no such call")
	ErrBusy        = errors.New("there are too many calls")
	ErrOffer       = errors.New("the offer cannot be answered")
	ErrUnsupported = errors.New("that is not supported")
)

// An ICEServer is a STUN or TURN server that clients are told of.
type ICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`
	Credential string   `json:"credential,omitempty"`
}

// UnmarshalJSON takes a single URL where a list is meant, as browsers do.
func (s *ICEServer) UnmarshalJSON(data []byte) error {
	type plain ICEServer
	var v struct {
		plain
		URLs json.RawMessage `json:"urls"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*s = ICEServer(v.plain)
	var one string
	if json.Unmarshal(v.URLs, &one) == nil {
		s.URLs = []string{one}
		return nil
	}
	return json.Unmarshal(v.URLs, &s.URLs)
}

// Options are the settings of the handlers.
type Options struct {
	Agent Agent

	// Origins are those of pages that may use the API beside the server's own, such as
	// https://example.com; "*" is any. A request without an Origin comes from no page.
	// The server's own counts only where its name cannot be another's: for addresses
	// and localhost.
	Origins []string

	// Token says whether a bearer token will do; empty if there is none. nil: no
	// token is asked for.
	Token func(token string) bool

	ICE []ICEServer // that clients are told of

	// Secrets gives out client secrets (Realtime). nil: there are none.
	Secrets *Secrets
}

// newID returns a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// A refusal is an error with its place in HTTP.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// statusOf returns what HTTP says to an error, and what the client is told.
func statusOf(err error) (int, string) {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r.status, r.text
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound, ErrUnknown.Error()
	case errors.Is(err, ErrBusy):
		return http.StatusServiceUnavailable, ErrBusy.Error()
	case errors.Is(err, ErrOffer):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, ErrUnsupported):
		return http.StatusNotImplemented, ErrUnsupported.Error()
	}
	return http.StatusInternalServerError, "the agent failed"
}

// admit checks where a request comes from, answers preflights, and says whether the
// handler is to go on.
func (o *Options) admit(w http.ResponseWriter, r *http.Request, fail func(http.ResponseWriter, error)) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		if !o.allowed(origin, r.Host) {
			fail(w, refuse(http.StatusForbidden, "the origin %q is not allowed here", origin))
			return false
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", "Location, ETag, Link")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "POST, PATCH, DELETE, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match")
			w.WriteHeader(http.StatusNoContent)
			return false
		}
	}
	if o.Token != nil && !o.Token(bearer(r)) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, refuse(http.StatusUnauthorized, "the bearer token is missing or wrong"))
		return false
	}
	return true
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (o *Options) allowed(origin, host string) bool {
	for _, a := range o.Origins {
		if a == "*" || strings.EqualFold(a, origin) {
			return true
		}
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, host) {
		return false
	}
	// Another page may let its own name point here (DNS rebinding).
	name := u.Hostname()
	_, err = netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost")
}

// readBody reads a body of up to limit bytes.
func readBody(r io.Reader, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the body broke off: %v", err)
	}
	if len(b) > limit {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", limit)
	}
	return b, nil
}

// CheckSDP says what is wrong with a description at first sight.
func CheckSDP(sdp string) error {
	switch {
	case len(sdp) > MaxSDP:
		return refuse(http.StatusRequestEntityTooLarge, "the description has %d bytes: the most is %d", len(sdp), MaxSDP)
	case !strings.HasPrefix(sdp, "v=0\r\n") && !strings.HasPrefix(sdp, "v=0\n"):
		return refuse(http.StatusBadRequest, "the description does not begin with v=0: it is no SDP")
	}
	return nil
}

func mediaType(h http.Header) string {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t
}

// plain tells an error as text.
func plain(w http.ResponseWriter, err error) {
	status, text := statusOf(err)
	http.Error(w, text, status)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // whoever asked may have gone
}

// recent remembers a value for each of the last n names.
type recent[T any] struct {
	n     int
	mu    sync.Mutex
	names []string
	m     map[string]T
}

func (r *recent[T]) put(name string, v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]T{}
	}
	if _, have := r.m[name]; !have {
		r.names = append(r.names, name)
	}
	r.m[name] = v
	for len(r.names) > r.n || len(r.names) > 0 && !has(r.m, r.names[0]) {
		delete(r.m, r.names[0])
		r.names = r.names[1:]
	}
}

func (r *recent[T]) get(name string) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.m[name]
	return v, ok
}

func (r *recent[T]) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, name)
}

func has[T any](m map[string]T, name string) bool {
	_, ok := m[name]
	return ok
}

// remembered are the sessions, and the calls with their tags, that a handler knows.
const remembered = 10_000

// Secrets gives out tokens that are good for a while, as client_secrets of Realtime
// are for pages.
type Secrets struct {
	Now  func() time.Time // the date; it is told to clients
	Life time.Duration

	issued recent[secret]
}

type secret struct {
	expires time.Time
	session json.RawMessage
}

func (s *Secrets) issue(session json.RawMessage) (value string, expires time.Time) {
	value, expires = "ek_"+strings.ReplaceAll(newID(), "-", ""), s.Now().Add(s.Life)
	s.issued.n = remembered
	s.issued.put(value, secret{expires, session})
	return value, expires
}

// session returns the session that a secret was given out for, and false if it is
// none or is too old.
func (s *Secrets) session(value string) (json.RawMessage, bool) {
	v, ok := s.issued.get(value)
	if !ok || !s.Now().Before(v.expires) {
		return nil, false
	}
	return v.session, true
}
