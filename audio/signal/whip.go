package signal

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// NewWHIP returns a handler of WHIP (RFC 9725), and NewWHEP one of WHEP (the draft
// that does the same for listening): POST on path, and PATCH and DELETE on path/{call}.
// A voice agent needs an offer that sends and receives, or one call of each.
//
// The tag of a session is kept until its DELETE, or until so many others have begun.
func NewWHIP(path string, o Options) http.Handler { return newWHIP(WHIP, path, o) }

// NewWHEP is described at NewWHIP.
func NewWHEP(path string, o Options) http.Handler { return newWHIP(WHEP, path, o) }

func newWHIP(p Protocol, path string, o Options) http.Handler {
	s := &whip{p: p, path: strings.TrimSuffix(path, "/"), o: o, tags: recent[string]{n: remembered}}
	mux := http.NewServeMux()
	mux.HandleFunc(s.path, s.endpoint)
	mux.HandleFunc(s.path+"/{call}", s.session)
	return mux
}

type whip struct {
	p    Protocol
	path string
	o    Options
	tags recent[string] // of the calls
}

// endpoint begins a call.
func (s *whip) endpoint(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Accept-Post", "application/sdp")
	if !s.o.admit(w, r, plain) {
		return
	}
	switch {
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method != http.MethodPost:
		methods(w, "POST, OPTIONS", plain)
		return
	case mediaType(r.Header) != "application/sdp":
		plain(w, refuse(http.StatusUnsupportedMediaType, "the content type is %.80q: it has to be application/sdp", r.Header.Get("Content-Type")))
		return
	}
	body, err := readBody(r.Body, MaxBody)
	if err == nil {
		err = CheckSDP(string(body))
	}
	if err != nil {
		plain(w, err)
		return
	}
	sdp, call, err := s.o.Agent.Answer(r.Context(), Offer{Protocol: s.p, SDP: string(body)})
	if err != nil {
		plain(w, err)
		return
	}
	h := w.Header()
	h.Set("Location", s.path+"/"+url.PathEscape(call))
	h.Set("ETag", s.tag(call, sdp))
	h.Set("Accept-Patch", FragmentType)
	for _, server := range s.o.ICE {
		for _, u := range server.URLs {
			link := "<" + u + `>; rel="ice-server"`
			if server.Username != "" {
				link += "; username=" + strconv.Quote(server.Username) + "; credential=" + strconv.Quote(server.Credential) + `; credential-type="password"`
			}
			h.Add("Link", link)
		}
	}
	h.Set("Content-Type", "application/sdp")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, sdp)
}

// tag names the ICE session of a call: it changes when the credentials do.
func (s *whip) tag(call, sdp string) string {
	ufrag, _ := credentials(sdp)
	tag := strconv.Quote(url.QueryEscape(ufrag))
	s.tags.put(call, tag)
	return tag
}

// session is about one call.
func (s *whip) session(w http.ResponseWriter, r *http.Request) {
	if !s.o.admit(w, r, plain) {
		return
	}
	call := r.PathValue("call")
	var err error
	switch r.Method {
	case http.MethodDelete:
		if err = s.o.Agent.Delete(r.Context(), call); err == nil {
			s.tags.drop(call)
			return // 200
		}
	case http.MethodPatch:
		if err = s.patch(w, r, call); err == nil {
			return
		}
	case http.MethodOptions:
		w.Header().Set("Accept-Patch", FragmentType)
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		methods(w, "PATCH, DELETE, OPTIONS", plain)
		return
	}
	plain(w, err)
}

// patch takes candidates, or restarts ICE (RFC 9725, section 4.3).
func (s *whip) patch(w http.ResponseWriter, r *http.Request, call string) error {
	if t := mediaType(r.Header); t != FragmentType {
		return refuse(http.StatusUnsupportedMediaType, "the content type is %.80q: it has to be %s", r.Header.Get("Content-Type"), FragmentType)
	}
	body, err := readBody(r.Body, MaxBody)
	if err != nil {
		return err
	}
	f, err := ParseFragment(string(body))
	if err != nil {
		return err
	}
	have, known := s.tags.get(call)
	if !known {
		return ErrUnknown
	}
	switch match := r.Header.Get("If-Match"); {
	case match == "":
		return refuse(http.StatusPreconditionRequired, "If-Match is missing: give the ETag of the answer")
	case match == "*":
		restarter, ok := s.o.Agent.(Restarter)
		if !ok {
			return ErrUnsupported
		}
		answer, err := restarter.Restart(r.Context(), call, f)
		if err != nil {
			return err
		}
		text := answer.String()
		w.Header().Set("ETag", s.tag(call, text))
		w.Header().Set("Content-Type", FragmentType)
		io.WriteString(w, text)
		return nil
	case match != have:
		return refuse(http.StatusPreconditionFailed, "If-Match is %.80s: the session has been restarted since", match)
	}
	if f.End {
		f.Candidates = append(f.Candidates, Candidate{})
	}
	if err := s.o.Agent.Trickle(r.Context(), call, f.Candidates); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
