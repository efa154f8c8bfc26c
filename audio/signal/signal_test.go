package signal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

const offerSDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\na=ice-ufrag:abcd\r\na=ice-pwd:secretsecretsecretsecret\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\na=mid:0\r\n"
const answerSDP = "v=0\r\no=- 3 4 IN IP4 127.0.0.1\r\ns=-\r\na=ice-ufrag:wxyz\r\na=ice-pwd:answeransweransweranswer\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n"

// A recorder is an Agent that writes down what it is asked.
type recorder struct {
	mu   sync.Mutex
	said []string
	err  error
	name string
}

func (a *recorder) note(format string, args ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, fmt.Sprintf(format, args...))
	return a.err
}

func (a *recorder) Answer(_ context.Context, o Offer) (string, string, error) {
	err := a.note("answer %s call=%q restart=%v data=%s sdp=%d", o.Protocol, o.Call, o.Restart, o.Data, len(o.SDP))
	return answerSDP, a.name, err
}

func (a *recorder) Trickle(_ context.Context, call string, cs []Candidate) error {
	b, _ := json.Marshal(cs)
	return a.note("trickle %s %s", call, b)
}

func (a *recorder) Delete(_ context.Context, call string) error { return a.note("delete %s", call) }

type restarting struct{ *recorder }

func (a restarting) Restart(_ context.Context, call string, f Fragment) (Fragment, error) {
	return Fragment{Ufrag: "new", Password: "newnewnewnewnewnewnewnew", End: true}, a.note("restart %s %s", call, f.Ufrag)
}

// golden compares text with a file below testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", path, got, want)
	}
}

// exchange runs one request and returns it and what came back as text.
func exchange(h http.Handler, method, path, header, body string) string {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for line := range strings.SplitSeq(header, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(key, value)
			if key == "Host" {
				r.Host = value
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var b strings.Builder
	fmt.Fprintf(&b, "> %s %s\n", method, path)
	for line := range strings.SplitSeq(header, "\n") {
		if line != "" {
			fmt.Fprintf(&b, "> %s\n", line)
		}
	}
	if body != "" {
		fmt.Fprintf(&b, "> %.200q\n", body)
	}
	fmt.Fprintf(&b, "< %d\n", w.Code)
	var keys []string
	for key := range w.Header() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		for _, v := range w.Header()[key] {
			fmt.Fprintf(&b, "< %s: %s\n", key, v)
		}
	}
	if w.Body.Len() > 0 {
		fmt.Fprintf(&b, "< %q\n", w.Body.String())
	}
	return b.String() + "\n"
}

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

const jsonType = "Content-Type: application/json"

func TestSmallWebRTCServer(t *testing.T) {
	a := &recorder{name: "SmallWebRTCConnection#0-1f"}
	h := NewSmallWebRTC(Options{Agent: a})
	out := ""
	do := func(method, path, header, body string) { out += exchange(h, method, path, header, body) }
	offer := `{"sdp":` + quoted(offerSDP) + `,"type":"offer"`
	do("POST", "/api/offer", jsonType, offer+`,"pc_id":null,"restart_pc":false,"request_data":{"a":1}}`)
	do("POST", "/api/offer", jsonType, offer+`,"pc_id":"SmallWebRTCConnection#0-1f","restart_pc":true,"requestData":{"b":2}}`)
	do("PATCH", "/api/offer", jsonType, `{"pc_id":"SmallWebRTCConnection#0-1f","candidates":[{"candidate":"candidate:1 1 udp 1 127.0.0.1 9 typ host","sdp_mid":"0","sdp_mline_index":0},{"candidate":"","sdp_mid":null}]}`)
	do("POST", "/api/offer", jsonType, `{"sdp":`)
	do("POST", "/api/offer", jsonType, `{"sdp":"v=0\r\n","type":"answer"}`)
	do("POST", "/api/offer", jsonType, `{"sdp":"hello","type":"offer"}`)
	do("PATCH", "/api/offer", jsonType, `{"candidates":[]}`)
	do("GET", "/api/offer", "", "")
	do("POST", "/sessions/none/api/offer", jsonType, offer+`}`)
	a.err = fmt.Errorf("room 7: %w", ErrBusy)
	do("POST", "/api/offer", jsonType, offer+`}`)
	a.err = fmt.Errorf("room 7: %w", ErrUnknown)
	do("PATCH", "/api/offer", jsonType, `{"pc_id":"x","candidates":[]}`)
	a.err = errors.New("a secret of the agent's")
	do("POST", "/api/offer", jsonType, offer+`}`)
	golden(t, "smallwebrtc", out+strings.Join(a.said, "\n")+"\n")
}

func TestRealtimeServer(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := &recorder{name: "rtc_1"}
	h := NewRealtime(Options{Agent: a, Token: func(s string) bool { return s == "sk_x" }, Secrets: &Secrets{Now: func() time.Time { return now }, Life: time.Minute}})
	out := ""
	do := func(method, path, header, body string) { out += exchange(h, method, path, header, body) }
	const auth = "Authorization: Bearer sk_x\n"
	do("POST", "/v1/realtime/calls", auth+"Content-Type: application/sdp", offerSDP)
	form := "--b\r\nContent-Disposition: form-data; name=\"sdp\"\r\n\r\n" + offerSDP + "\r\n--b\r\nContent-Disposition: form-data; name=\"session\"\r\n\r\n{\"type\":\"realtime\"}\r\n--b--\r\n"
	do("POST", "/openai/v1/realtime/calls", auth+"Content-Type: multipart/form-data; boundary=b", form)
	do("POST", "/v1/realtime/calls", "Content-Type: application/sdp", offerSDP)
	do("POST", "/v1/realtime/calls", "Authorization: Bearer ek_0\nContent-Type: application/sdp", offerSDP)
	do("POST", "/v1/realtime/calls", auth+"Content-Type: text/plain", offerSDP)
	do("POST", "/v1/realtime/calls", auth+"Content-Type: application/sdp", "v=1")
	do("POST", "/v1/realtime/calls", auth+"Content-Type: multipart/form-data; boundary=b", form[:len(form)-12])
	do("POST", "/v1/realtime/calls/rtc_1/hangup", auth, "")
	do("GET", "/v1/realtime/calls", auth, "")
	do("POST", "/v1/realtime/client_secrets", jsonType, "{}")
	do("POST", "/v1/realtime/client_secrets", auth+jsonType, "{")
	a.err = errors.New("a secret of the agent's")
	do("POST", "/v1/realtime/calls", auth+"Content-Type: application/sdp", offerSDP)
	a.err = nil
	golden(t, "realtime", out+strings.Join(a.said, "\n")+"\n")

	// A secret is good for its life, and carries its session.
	r := httptest.NewRequest("POST", "/v1/realtime/client_secrets", strings.NewReader(`{"session":{"type":"realtime"}}`))
	r.Header.Set("Authorization", "Bearer sk_x")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var m struct {
		Value   string `json:"value"`
		Expires int64  `json:"expires_at"`
		Session Session
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || !strings.HasPrefix(m.Value, "ek_") || m.Expires != 1_800_000_060 || m.Session.Type != "realtime" {
		t.Fatalf("%s %v", w.Body, err)
	}
	header := "Authorization: Bearer " + m.Value + "\nContent-Type: application/sdp"
	if got := exchange(h, "POST", "/v1/realtime/calls", header, offerSDP); !strings.Contains(got, "< 201") {
		t.Error(got)
	}
	if last := a.said[len(a.said)-1]; !strings.Contains(last, `data={"type":"realtime"}`) {
		t.Error(last)
	}
	now = now.Add(time.Minute)
	if got := exchange(h, "POST", "/v1/realtime/calls", header, offerSDP); !strings.Contains(got, "< 401") || strings.Contains(got, "sk_x") {
		t.Error(got)
	}
}

func TestWHIPServer(t *testing.T) {
	a := &recorder{name: "c1"}
	h := NewWHIP("/whip", Options{Agent: a, ICE: []ICEServer{{URLs: []string{"stun:127.0.0.1:3478"}}, {URLs: []string{"turn:127.0.0.1:3478"}, Username: "u", Credential: "p"}}})
	out := ""
	do := func(h http.Handler, method, path, header, body string) {
		out += exchange(h, method, path, header, body)
	}
	const sdp, frag = "Content-Type: application/sdp", "Content-Type: application/trickle-ice-sdpfrag\n"
	const fragment = "a=ice-ufrag:abcd\r\na=ice-pwd:secretsecretsecretsecret\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\na=end-of-candidates\r\n"
	do(h, "OPTIONS", "/whip", "", "")
	do(h, "POST", "/whip", sdp, offerSDP)
	do(h, "PATCH", "/whip/c1", frag+`If-Match: "wxyz"`, fragment)
	do(h, "PATCH", "/whip/c1", frag+`If-Match: "old"`, fragment)
	do(h, "PATCH", "/whip/c1", frag, fragment)
	do(h, "PATCH", "/whip/c1", frag+"If-Match: *", fragment)
	do(h, "PATCH", "/whip/c2", frag+`If-Match: "wxyz"`, fragment)
	do(h, "PATCH", "/whip/c1", sdp, fragment)
	do(h, "PATCH", "/whip/c1", frag+`If-Match: "wxyz"`, "hello")
	do(h, "GET", "/whip", "", "")
	do(h, "GET", "/whip/c1", "", "")
	do(h, "POST", "/whip", "Content-Type: text/plain", offerSDP)
	do(h, "POST", "/whip", sdp, "x")
	do(h, "DELETE", "/whip/c1", "", "")
	do(h, "PATCH", "/whip/c1", frag+`If-Match: "wxyz"`, fragment)
	a.err = ErrBusy
	do(h, "POST", "/whip", sdp, offerSDP)
	a.err = nil
	h = NewWHEP("/whep/", Options{Agent: restarting{a}})
	do(h, "POST", "/whep", sdp, offerSDP)
	do(h, "PATCH", "/whep/c1", frag+"If-Match: *", fragment)
	do(h, "PATCH", "/whep/c1", frag+`If-Match: "new"`, fragment)
	golden(t, "whip", out+strings.Join(a.said, "\n")+"\n")
}

func TestLimits(t *testing.T) {
	a := &recorder{name: "x"}
	long := "v=0\r\n" + strings.Repeat("a=x\r\n", MaxSDP/5)
	huge := strings.Repeat("x", MaxBody+1)
	for _, c := range []struct {
		h                  http.Handler
		path, header, body string
	}{
		{NewWHIP("/w", Options{Agent: a}), "/w", "Content-Type: application/sdp", long},
		{NewWHIP("/w", Options{Agent: a}), "/w", "Content-Type: application/sdp", huge},
		{NewRealtime(Options{Agent: a}), "/v1/realtime/calls", "Content-Type: application/sdp", long},
		{NewSmallWebRTC(Options{Agent: a}), "/api/offer", "", `{"type":"offer","sdp":` + quoted(long) + `}`},
		{NewSmallWebRTC(Options{Agent: a}), "/start", "", huge},
	} {
		if got := exchange(c.h, "POST", c.path, c.header, c.body); !strings.Contains(got, "< 413") {
			t.Errorf("%d bytes: %s", len(c.body), got)
		}
	}
	if len(a.said) > 0 {
		t.Errorf("the agent was asked: %q", a.said)
	}
}

func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		origin, host string
		allowed      []string
		want         string
	}{
		{"", "evil.example", nil, "< 201"},
		{"http://127.0.0.1:80", "127.0.0.1:80", nil, "< 201"},
		{"http://localhost:80", "localhost:80", nil, "< 201"},
		{"http://[::1]:80", "[::1]:80", nil, "< 201"},
		{"http://127.0.0.1:81", "127.0.0.1:80", nil, "< 403"},
		{"http://evil.example", "127.0.0.1:80", nil, "< 403"},
		{"http://evil.example:80", "evil.example:80", nil, "< 403"}, // its name may point here
		{"null", "127.0.0.1:80", nil, "< 403"},
		{"https://good.example", "127.0.0.1:80", []string{"https://good.example"}, "< 201"},
		{"https://good.example", "127.0.0.1:80", []string{"*"}, "< 201"},
	} {
		a := &recorder{name: "x"}
		h := NewWHIP("/w", Options{Agent: a, Origins: c.allowed})
		header := "Content-Type: application/sdp\nHost: " + c.host
		if c.origin != "" {
			header += "\nOrigin: " + c.origin
		}
		got := exchange(h, "POST", "/w", header, offerSDP)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s at %s: %s", c.origin, c.host, got)
		}
		if cors := strings.Contains(got, "< Access-Control-Allow-Origin: "+c.origin+"\n"); cors != (c.origin != "" && c.want == "< 201") {
			t.Errorf("%s at %s: %s", c.origin, c.host, got)
		}
	}
	h := NewWHIP("/w", Options{Agent: &recorder{}, Origins: []string{"https://good.example"}, Token: func(string) bool { return false }})
	got := exchange(h, "OPTIONS", "/w", "Origin: https://good.example\nAccess-Control-Request-Method: POST", "")
	if !strings.Contains(got, "< 204") || !strings.Contains(got, "Allow-Headers: Authorization, Content-Type, If-Match") {
		t.Errorf("a preflight has no token: %s", got)
	}
	if got := exchange(h, "DELETE", "/w/x", "Authorization: Basic eDp5", ""); !strings.Contains(got, "< 401") || !strings.Contains(got, "< Www-Authenticate: Bearer") {
		t.Errorf("no token: %s", got)
	}
}

// Each client against each server, and what it sends.
func TestClients(t *testing.T) {
	mid, line := "0", 0
	found := []Candidate{{Candidate: "candidate:1 1 udp 1 127.0.0.1 9 typ host", Mid: &mid, Line: &line}, {}}
	for _, p := range []Protocol{SmallWebRTC, Realtime, WHIP, WHEP} {
		t.Run(string(p), func(t *testing.T) {
			a := &recorder{name: "call_1"}
			o := Options{Agent: a, Token: func(s string) bool { return s == "tok" }, ICE: []ICEServer{{URLs: []string{"turn:127.0.0.1:3478"}, Username: "u", Credential: "p\"q"}}}
			h, path, resource := NewSmallWebRTC(o), "/start", "call_1"
			switch p {
			case Realtime:
				h, path, resource = NewRealtime(o), "/v1/realtime/calls", "/v1/realtime/calls/call_1"
			case WHIP:
				h, path, resource = NewWHIP("/whip", o), "/whip", "/whip/call_1"
			case WHEP:
				h, path, resource = NewWHEP("/whep", o), "/whep", "/whep/call_1"
			}
			mux := http.NewServeMux()
			mux.Handle("/", h)
			mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, path, http.StatusTemporaryRedirect)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			c := Client{Token: "tok"}
			url := server.URL + "/moved"
			if p == SmallWebRTC {
				var err error
				var ice []ICEServer
				url, ice, err = c.Start(t.Context(), server.URL+path, json.RawMessage(`{"lang":"en"}`))
				if err != nil || len(ice) != 1 || ice[0].Username != "u" {
					t.Fatalf("%v %v", ice, err)
				}
			}
			offer := Offer{Protocol: p, SDP: offerSDP}
			if p == Realtime {
				offer.Data = json.RawMessage(`{"type":"realtime"}`)
			}
			call, err := c.Dial(t.Context(), url, offer)
			if err != nil {
				t.Fatal(err)
			}
			if call.Answer != answerSDP || strings.TrimPrefix(call.Resource, server.URL) != resource {
				t.Errorf("%+v", call)
			}
			if whip := p == WHIP || p == WHEP; whip != (call.Tag != "") || whip && (len(call.ICE) != 1 || call.ICE[0].Credential != `p"q` || call.ICE[0].URLs[0] != "turn:127.0.0.1:3478") {
				t.Errorf("tag %q, ICE %+v", call.Tag, call.ICE)
			}
			if err := call.Trickle(t.Context(), found); (p == Realtime) != errors.Is(err, ErrUnsupported) || p != Realtime && err != nil {
				t.Errorf("trickle: %v", err)
			}
			if err := call.Hangup(t.Context()); err != nil {
				t.Error(err)
			}
			golden(t, "client_"+string(p), strings.Join(a.said, "\n")+"\n")

			var status *StatusError
			if _, err := (Client{Token: "wrong"}).Dial(t.Context(), server.URL+strings.Replace(path, "start", "api/offer", 1), offer); !errors.As(err, &status) || status.Status != 401 || strings.Contains(err.Error(), "wrong ") {
				t.Errorf("with a wrong token: %v", err)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	a := &recorder{name: "c"}
	server := httptest.NewServer(NewWHIP("/whip", Options{Agent: restarting{a}}))
	defer server.Close()
	call, err := Client{}.Dial(t.Context(), server.URL+"/whip", Offer{Protocol: WHIP, SDP: offerSDP})
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Restart(t.Context(), strings.Replace(offerSDP, "abcd", "efgh", 1))
	if err != nil || f.Ufrag != "new" || !f.End || call.Tag != `"new"` || a.said[1] != "restart c efgh" {
		t.Errorf("%+v %q %q %v", f, call.Tag, a.said, err)
	}
	if err := call.Trickle(t.Context(), []Candidate{{}}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if _, err := (&Call{Protocol: Realtime}).Restart(t.Context(), offerSDP); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

// What is on the wire of a server that is not ours.
func TestClientRequests(t *testing.T) {
	var out bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := readBody(r.Body, MaxBody)
		kind := r.Header.Get("Content-Type")
		if mediaType(r.Header) == "multipart/form-data" {
			o, err := parseCall(kind, body)
			kind, body = "multipart/form-data", fmt.Appendf(nil, "sdp=%q session=%s %v", o.SDP, o.Data, err)
		}
		fmt.Fprintf(&out, "%s %s %q If-Match=%q\n%q\n", r.Method, r.URL, kind, r.Header.Get("If-Match"), body)
		switch {
		case r.Method == "PATCH":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/offer"):
			fmt.Fprintf(w, `{"sdp":%s,"type":"answer","pc_id":"p1"}`, quoted(answerSDP))
		case r.Method == "POST" && r.URL.Path != "/x/r1/hangup":
			w.Header().Set("Location", "../x/r1")
			w.Write([]byte(answerSDP)) // 200, as some have it
		}
	}))
	defer server.Close()
	for _, o := range []Offer{
		{Protocol: SmallWebRTC, SDP: offerSDP, Call: "p1", Restart: true, Data: json.RawMessage(`{"k":1}`)},
		{Protocol: Realtime, SDP: offerSDP},
		{Protocol: Realtime, SDP: offerSDP, Data: json.RawMessage(`{"type":"realtime"}`)},
		{Protocol: WHIP, SDP: offerSDP},
	} {
		call, err := Client{}.Dial(t.Context(), server.URL+"/a/offer"[:map[bool]int{true: 8, false: 6}[o.Protocol == SmallWebRTC]], o)
		if err != nil {
			t.Fatal(err)
		}
		if err := call.Trickle(t.Context(), []Candidate{{}}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", o.Protocol, err)
		}
		if err := call.Hangup(t.Context()); err != nil {
			t.Error(err)
		}
	}
	golden(t, "requests", out.String())
}

func TestClientErrors(t *testing.T) {
	body, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	defer server.Close()
	for _, c := range []struct {
		p      Protocol
		status int
		body   string
		want   string
	}{
		{WHIP, 406, "v=0", "the server says 406: v=0"},
		{WHIP, 503, "", "the server says 503: Service Unavailable"},
		{WHIP, 201, "hello", "the answer: the description does not begin with v=0"},
		{SmallWebRTC, 200, "hello", "the answer is no JSON"},
		{SmallWebRTC, 200, "{}", "the answer: the description"},
		{Realtime, 201, strings.Repeat("x", MaxBody+1), "more than 1048576 bytes"},
		{"morse", 201, answerSDP, "there is no such protocol"},
	} {
		body, status = c.body, c.status
		if _, err := (Client{}).Dial(t.Context(), server.URL, Offer{Protocol: c.p, SDP: offerSDP}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "signal: "+string(c.p)) {
			t.Errorf("%s %d %.20q: %v, want %q", c.p, c.status, c.body, err, c.want)
		}
	}
	if _, _, err := (Client{}).Start(t.Context(), server.URL, nil); err == nil {
		t.Error("a session of nothing")
	}
	if _, err := (Client{}).Dial(t.Context(), server.URL, Offer{Protocol: WHIP, SDP: "x"}); err == nil {
		t.Error("an offer that is none")
	}
	k := &Call{Protocol: WHIP}
	if err := k.Hangup(t.Context()); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestRecent(t *testing.T) {
	r := recent[int]{n: 3}
	for i := range 10 {
		r.put(fmt.Sprint(i), i)
		if i%2 == 1 {
			r.drop(fmt.Sprint(i))
		}
	}
	if v, ok := r.get("8"); !ok || v != 8 || len(r.m) > 3 || len(r.names) > 4 {
		t.Errorf("%v %v", r.m, r.names)
	}
	if _, ok := r.get("2"); ok {
		t.Error("the oldest stays")
	}
}
