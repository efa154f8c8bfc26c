package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pion/webrtc/v4"

	"firstsound/audio"
	"firstsound/audio/impair"
	"firstsound/audio/signal"
	"firstsound/clocks/failure"
	"firstsound/pipeline/scenario"
)

//go:embed page
var pageFiles embed.FS

func writeFile(name string, data []byte) error { return os.WriteFile(name, data, 0o644) }

// routes are all that can be asked for.
func (a *agent) routes() http.Handler {
	page, _ := fs.Sub(pageFiles, "page") // the folder is in the program
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.HandleFunc("/about", a.about)
	mux.HandleFunc("/recordings/{id}", a.recordingFile)
	mux.HandleFunc("/ws", a.socket)
	mux.HandleFunc("/twilio", a.socket)
	now := func() time.Time { return a.epoch.Add(a.clock.Now()) }
	o := signal.Options{Agent: a, Origins: a.origins, Secrets: &signal.Secrets{Now: now, Life: time.Minute}}
	if a.token != "" {
		o.Token = func(token string) bool { return subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) == 1 }
	}
	small, realtime := signal.NewSmallWebRTC(o), signal.NewRealtime(o)
	for _, path := range []string{"/start", "/api/", "/sessions/"} {
		mux.Handle(path, small)
	}
	for _, path := range []string{"/v1/realtime/", "/openai/"} {
		mux.Handle(path, realtime)
	}
	for path, h := range map[string]http.Handler{"/whip": signal.NewWHIP("/whip", o), "/whep": signal.NewWHEP("/whep", o)} {
		mux.Handle(path, h)
		mux.Handle(path+"/", h)
	}
	return a.guard(mux)
}

// guard lets only those in who may call.
func (a *agent) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		if origin := r.Header.Get("Origin"); origin != "" && !a.allowed(origin, r.Host) {
			http.Error(w, "pages of this origin may not call; --origin allows it", http.StatusForbidden)
			return
		}
		// A name that points here, but is not ours, is how a page elsewhere gets
		// around the check of its origin.
		if a.local && !localHost(r.Host) {
			http.Error(w, "this server is called by the name of this computer only", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, signal.MaxBody)
		next.ServeHTTP(w, r)
	})
}

func (a *agent) allowed(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host || slices.Contains(a.origins, origin)
}

func localHost(hostport string) bool {
	u, err := url.Parse("//" + hostport)
	if err != nil {
		return false
	}
	local, err := loopbackOnly(u.Hostname() + ":0")
	return err == nil && local || u.Hostname() == "::1"
}

// knows says whether a request has the token.
func (a *agent) knows(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		got = r.URL.Query().Get("token")
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(a.token)) == 1
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// about tells the page what there is.
func (a *agent) about(w http.ResponseWriter, r *http.Request) {
	type named struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	}
	list := []named{{"", "the scenario that is served"}}
	for _, name := range scenario.Library() {
		text, _ := scenario.LibraryYAML(name)
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		list = append(list, named{name, title})
	}
	st, err := a.stages(r.Context(), "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{
		"scenarios": list, "utterances": (&session{a: a, st: st}).hello().Utterances, "version": thisVersion().String(), "token": a.token != "",
	})
}

// recordingFile serves a recording of the corpus, for the page to play.
func (a *agent) recordingFile(w http.ResponseWriter, r *http.Request) {
	st, err := a.stages(r.Context(), "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	u := st.find(strings.TrimSuffix(r.PathValue("id"), ".wav"))
	if u == nil {
		http.Error(w, "there is no such recording", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "audio/wav")
	writeWAV(w, u.Sound)
}

// writeWAV writes f as a WAV file of 16-bit samples.
func writeWAV(w io.Writer, f audio.Frame) error {
	n := uint32(2 * len(f.PCM))
	head := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	binary.LittleEndian.PutUint32(head[4:], 36+n)
	head = binary.LittleEndian.AppendUint32(head, uint32(f.Rate))
	head = binary.LittleEndian.AppendUint32(head, uint32(2*f.Rate))
	head = append(head, "\x02\x00\x10\x00data"...)
	head = binary.LittleEndian.AppendUint32(head, n)
	if _, err := w.Write(head); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, f.PCM)
}

// Answer answers an offer and lets the call begin. It implements signal.Agent.
func (a *agent) Answer(ctx context.Context, o signal.Offer) (sdp, resource string, err error) {
	var wish struct {
		Scenario string `json:"scenario"`
	}
	if len(o.Data) > 0 && o.Data[0] == '{' {
		if err := json.Unmarshal(o.Data, &wish); err != nil {
			return "", "", fmt.Errorf("%w: %w", signal.ErrOffer, failure.JSON("what comes with it", o.Data, err))
		}
	}
	known := a.byName(o.Call)
	if o.Call != "" && known == nil {
		return "", "", signal.ErrUnknown
	}
	if known != nil && !o.Restart {
		sdp, err = throughRelay(known.relay, o.SDP, func(offer string) (string, error) { return known.peer.Renegotiate(ctx, offer) })
		return sdp, o.Call, err
	}
	if known != nil {
		known.hangUp()
	}
	st, err := a.stages(ctx, wish.Scenario)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", signal.ErrOffer, err)
	}
	s, err := a.newSession(st)
	if err != nil {
		return "", "", err
	}
	if s.relay, err = a.impairment.relay(a.ctx, a.clock, int(a.relays.Add(1))); err == nil {
		sdp, err = throughRelay(s.relay, o.SDP, func(offer string) (sdp string, err error) {
			s.peer, sdp, err = a.endpoint.Answer(ctx, offer)
			return sdp, err
		})
	}
	if err != nil {
		if s.peer != nil {
			s.peer.Close()
		}
		a.impairment.closeRelay(s.relay, 0) // the other error matters
		s.over()
		return "", "", err
	}
	resource = fmt.Sprintf("firstsound-%d-%s", s.number, rand.Text()[:8])
	a.mu.Lock()
	a.peers[resource] = s
	a.mu.Unlock()
	a.group.Go("call", func() error { s.overPeer(a.ctx); return nil })
	return sdp, resource, nil
}

// throughRelay answers an offer, so that what is sent goes through relay, if there is
// one. All that can go wrong is in the offer.
func throughRelay(relay *impair.Relay, offer string, answer func(offer string) (string, error)) (string, error) {
	offer, err := rewrite(relay, impair.Client, offer)
	var sdp string
	if err == nil {
		sdp, err = answer(offer)
	}
	if err == nil {
		sdp, err = rewrite(relay, impair.Agent, sdp)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", signal.ErrOffer, err)
	}
	return sdp, nil
}

func (a *agent) byName(resource string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peers[resource]
}

// Trickle takes candidates that come after the offer. Behind an impairment they are
// left out: they would lead around it.
func (a *agent) Trickle(_ context.Context, resource string, candidates []signal.Candidate) error {
	s := a.byName(resource)
	if s == nil {
		return signal.ErrUnknown
	}
	for _, c := range candidates {
		text, err := c.Candidate, error(nil)
		if s.relay != nil {
			var why string
			if text, why, err = s.relay.Candidate(impair.Client, text); why != "" {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %w", signal.ErrOffer, err)
		}
		init := webrtc.ICECandidateInit{Candidate: text, SDPMid: c.Mid}
		if c.Line != nil && *c.Line >= 0 && *c.Line < 1<<16 {
			line := uint16(*c.Line)
			init.SDPMLineIndex = &line
		}
		if err := s.peer.AddCandidate(init); err != nil {
			return fmt.Errorf("%w: %w", signal.ErrOffer, err)
		}
	}
	return nil
}

// Delete ends a call.
func (a *agent) Delete(_ context.Context, resource string) error {
	s := a.byName(resource)
	if s == nil {
		return signal.ErrUnknown
	}
	s.hangUp()
	return nil
}
