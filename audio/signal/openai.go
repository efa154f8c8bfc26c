package signal

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"firstsound/clocks/failure"
)

// NewRealtime returns a handler as OpenAI's Realtime API has it: POST
// /v1/realtime/calls, POST /v1/realtime/calls/{id}/hangup, and, with Options.Secrets,
// POST /v1/realtime/client_secrets; the same below /openai as Azure has it. Calls
// take Options.Token or a client secret; secrets only the token.
func NewRealtime(o Options) http.Handler {
	s := &realtime{o}
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/openai"} {
		mux.HandleFunc(prefix+"/v1/realtime/calls", s.calls)
		mux.HandleFunc(prefix+"/v1/realtime/calls/{id}/hangup", s.hangup)
		if o.Secrets != nil {
			mux.HandleFunc(prefix+"/v1/realtime/client_secrets", s.secrets)
		}
	}
	return mux
}

type realtime struct{ o Options }

// An Error is an error of the API, in an HTTP answer or as an event.
type Error struct {
	Type    string  `json:"type"`
	Code    *string `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	EventID string  `json:"event_id,omitempty"` // of the client's event that caused it
}

func apiError(w http.ResponseWriter, err error) {
	status, text := statusOf(err)
	kind := "invalid_request_error"
	if status >= 500 {
		kind = "server_error"
	}
	writeJSON(w, status, map[string]Error{"error": {Type: kind, Message: text}})
}

// parseCall reads the body of POST /v1/realtime/calls: an offer as it is, or a form
// with the fields sdp and session.
func parseCall(contentType string, body []byte) (Offer, error) {
	o := Offer{Protocol: Realtime}
	kind, params, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && kind == "application/sdp":
		o.SDP = string(body)
	case err == nil && kind == "multipart/form-data" && params["boundary"] != "":
		r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
		for n := 0; ; n++ {
			part, err := r.NextPart()
			if err == io.EOF {
				break
			}
			if err != nil || n == 10 {
				return o, refuse(http.StatusBadRequest, "the form is not in order, or has more than 10 fields")
			}
			value, err := readBody(part, MaxBody)
			if err != nil {
				return o, err
			}
			switch part.FormName() {
			case "sdp":
				o.SDP = string(value)
			case "session":
				if !json.Valid(value) {
					return o, refuse(http.StatusBadRequest, "the field session is no JSON")
				}
				o.Data = given(value)
			}
		}
	default:
		return o, refuse(http.StatusUnsupportedMediaType, "the content type is %.80q: it has to be application/sdp or multipart/form-data", contentType)
	}
	return o, CheckSDP(o.SDP)
}

// admit is that of the options, where a client secret does as well as the token.
func (s *realtime) admit(w http.ResponseWriter, r *http.Request) (session json.RawMessage, ok bool) {
	o := s.o
	if o.Secrets != nil {
		var good bool
		if session, good = o.Secrets.session(bearer(r)); good {
			o.Token = nil
		}
	}
	if !o.admit(w, r, apiError) {
		return nil, false
	}
	if r.Method != http.MethodPost {
		methods(w, "POST, OPTIONS", apiError)
		return nil, false
	}
	return session, true
}

func (s *realtime) calls(w http.ResponseWriter, r *http.Request) {
	session, ok := s.admit(w, r)
	if !ok {
		return
	}
	body, err := readBody(r.Body, MaxBody)
	if err != nil {
		apiError(w, err)
		return
	}
	o, err := parseCall(r.Header.Get("Content-Type"), body)
	if err != nil {
		apiError(w, err)
		return
	}
	if o.Data == nil {
		o.Data = session
	}
	sdp, call, err := s.o.Agent.Answer(r.Context(), o)
	if err != nil {
		apiError(w, err)
		return
	}
	w.Header().Set("Location", r.URL.Path+"/"+url.PathEscape(call))
	w.Header().Set("Content-Type", "application/sdp")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, sdp)
}

func (s *realtime) hangup(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.admit(w, r); !ok {
		return
	}
	if err := s.o.Agent.Delete(r.Context(), r.PathValue("id")); err != nil {
		apiError(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *realtime) secrets(w http.ResponseWriter, r *http.Request) {
	if !s.o.admit(w, r, apiError) {
		return
	}
	if r.Method != http.MethodPost {
		methods(w, "POST, OPTIONS", apiError)
		return
	}
	body, err := readBody(r.Body, MaxBody)
	if err != nil {
		apiError(w, err)
		return
	}
	var m struct {
		Session json.RawMessage `json:"session"`
	}
	if len(strings.TrimSpace(string(body))) > 0 {
		if err := json.Unmarshal(body, &m); err != nil {
			apiError(w, refuse(http.StatusBadRequest, "%v", failure.JSON("the body", body, err)))
			return
		}
	}
	value, expires := s.o.Secrets.issue(given(m.Session))
	answer := map[string]any{"value": value, "expires_at": expires.Unix()}
	if m.Session != nil {
		answer["session"] = m.Session
	}
	writeJSON(w, http.StatusOK, answer)
}
