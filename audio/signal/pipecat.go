package signal

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"firstsound/clocks/failure"
)

// The messages of SmallWebRTC (Pipecat, August 2026).
type (
	startRequest struct {
		Transport string          `json:"transport,omitempty"`
		ICE       bool            `json:"enableDefaultIceServers"`
		Body      json.RawMessage `json:"body,omitempty"`
	}
	startAnswer struct {
		Session string     `json:"sessionId"`
		ICE     *iceConfig `json:"iceConfig,omitempty"`
	}
	iceConfig struct {
		Servers []ICEServer `json:"iceServers"`
	}
	smallOffer struct {
		SDP     string          `json:"sdp"`
		Type    string          `json:"type"`
		Call    *string         `json:"pc_id"`
		Restart bool            `json:"restart_pc"`
		Data    json.RawMessage `json:"request_data,omitempty"`
	}
	smallAnswer struct {
		SDP  string `json:"sdp"`
		Type string `json:"type"`
		Call string `json:"pc_id"`
	}
	smallTrickle struct {
		Call       string           `json:"pc_id"`
		Candidates []smallCandidate `json:"candidates"`
	}
	smallCandidate struct {
		Candidate string  `json:"candidate"`
		Mid       *string `json:"sdp_mid"`
		Line      *int    `json:"sdp_mline_index"`
	}
)

// parseSmallOffer reads the body of POST /api/offer. requestData is another name of
// request_data.
func parseSmallOffer(body []byte) (Offer, error) {
	var m struct {
		smallOffer
		Camel json.RawMessage `json:"requestData"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return Offer{}, refuse(http.StatusBadRequest, "%v", failure.JSON("the body", body, err))
	}
	if m.Type != "offer" {
		return Offer{}, refuse(http.StatusBadRequest, "the type is %q: it has to be \"offer\"", m.Type)
	}
	if err := CheckSDP(m.SDP); err != nil {
		return Offer{}, err
	}
	o := Offer{Protocol: SmallWebRTC, SDP: m.SDP, Restart: m.Restart, Data: given(m.Data)}
	if o.Data == nil {
		o.Data = given(m.Camel)
	}
	if m.Call != nil {
		o.Call = *m.Call
	}
	return o, nil
}

// given returns nil for null.
func given(data json.RawMessage) json.RawMessage {
	if string(data) == "null" {
		return nil
	}
	return data
}

// maxCandidates are the candidates in one message.
const maxCandidates = 100

func parseSmallTrickle(body []byte) (call string, candidates []Candidate, err error) {
	var m smallTrickle
	if err := json.Unmarshal(body, &m); err != nil {
		return "", nil, refuse(http.StatusBadRequest, "%v", failure.JSON("the body", body, err))
	}
	if m.Call == "" {
		return "", nil, refuse(http.StatusBadRequest, "pc_id is missing")
	}
	if len(m.Candidates) > maxCandidates {
		return "", nil, refuse(http.StatusBadRequest, "%d candidates: the most is %d", len(m.Candidates), maxCandidates)
	}
	for _, c := range m.Candidates {
		candidates = append(candidates, Candidate{Candidate: c.Candidate, Mid: c.Mid, Line: c.Line})
	}
	return m.Call, candidates, nil
}

// NewSmallWebRTC returns a handler as Pipecat's runner has it: POST /start, POST and
// PATCH /api/offer, and the same below /sessions/{id}. Errors are {"detail": …} as
// FastAPI writes them; that of an unknown session is plain text.
func NewSmallWebRTC(o Options) http.Handler {
	s := &small{o: o, sessions: recent[json.RawMessage]{n: remembered}}
	mux := http.NewServeMux()
	mux.HandleFunc("/start", s.start)
	mux.HandleFunc("/api/offer", s.offer)
	mux.HandleFunc("/sessions/{session}/api/offer", s.offer)
	return mux
}

type small struct {
	o        Options
	sessions recent[json.RawMessage] // what their /start had as body
}

func detail(w http.ResponseWriter, err error) {
	status, text := statusOf(err)
	if errors.Is(err, ErrBusy) {
		status = http.StatusBadRequest // as the single mode has it
	}
	writeJSON(w, status, map[string]string{"detail": text})
}

func (s *small) start(w http.ResponseWriter, r *http.Request) {
	if !s.o.admit(w, r, detail) {
		return
	}
	if r.Method != http.MethodPost {
		methods(w, "POST, OPTIONS", detail)
		return
	}
	body, err := readBody(r.Body, MaxBody)
	if err != nil {
		detail(w, err)
		return
	}
	var m startRequest
	if len(body) > 0 {
		if err := json.Unmarshal(body, &m); err != nil {
			detail(w, refuse(http.StatusBadRequest, "%v", failure.JSON("the body", body, err)))
			return
		}
	}
	answer := startAnswer{Session: newID()}
	if len(s.o.ICE) > 0 {
		answer.ICE = &iceConfig{s.o.ICE}
	}
	s.sessions.put(answer.Session, given(m.Body))
	writeJSON(w, http.StatusOK, answer)
}

func (s *small) offer(w http.ResponseWriter, r *http.Request) {
	if !s.o.admit(w, r, detail) {
		return
	}
	var started json.RawMessage
	if id := r.PathValue("session"); id != "" {
		var ok bool
		if started, ok = s.sessions.get(id); !ok {
			http.Error(w, "Invalid or not-yet-ready session_id", http.StatusNotFound)
			return
		}
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPatch {
		methods(w, "POST, PATCH, OPTIONS", detail)
		return
	}
	body, err := readBody(r.Body, MaxBody)
	if err != nil {
		detail(w, err)
		return
	}
	if r.Method == http.MethodPatch {
		call, candidates, err := parseSmallTrickle(body)
		if err == nil {
			err = s.o.Agent.Trickle(r.Context(), call, candidates)
		}
		if err != nil {
			detail(w, err)
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "success"})
		return
	}
	o, err := parseSmallOffer(body)
	if err != nil {
		detail(w, err)
		return
	}
	if o.Data == nil {
		o.Data = started
	}
	sdp, call, err := s.o.Agent.Answer(r.Context(), o)
	if err != nil {
		detail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, smallAnswer{SDP: sdp, Type: "answer", Call: call})
}

// methods refuses a method and names those there are.
func methods(w http.ResponseWriter, allow string, fail func(http.ResponseWriter, error)) {
	w.Header().Set("Allow", allow)
	fail(w, refuse(http.StatusMethodNotAllowed, "the methods here are: %s", strings.TrimSuffix(allow, ", OPTIONS")))
}
