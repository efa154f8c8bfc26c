package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"firstsound/audio/impair"
	"firstsound/clocks"
)

// listening runs a command as a process of its own, until it says where it listens.
// rest is what it prints after that.
func listening(t *testing.T, args ...string) (cmd *exec.Cmd, url string, rest io.Reader) {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, url, lines
}

// impairChild runs impair. end interrupts it and returns its report.
func impairChild(t *testing.T, args ...string) (url string, end func() *impairReport) {
	t.Helper()
	cmd, url, rest := listening(t, append([]string{"impair", "--json", "--listen", "127.0.0.1:0"}, args...)...)
	return url, func() *impairReport {
		cmd.Process.Signal(os.Interrupt)
		text, err := io.ReadAll(rest)
		r := new(impairReport)
		if err := cmd.Wait(); err != nil {
			t.Errorf("impair: %v", err)
		}
		if err != nil || json.Unmarshal(text, r) != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return r
	}
}

// stretch returns what a turn took beyond what is known: the caller's wait for its
// packet, the packet in which the answer begins, and what the agent really took.
func stretch(t *testing.T, turn turnEar, budget errorBudget) time.Duration {
	t.Helper()
	if turn.Sound == nil || turn.Waited == nil || turn.Agent == nil {
		t.Fatalf("%+v", turn)
	}
	marks := map[string]int64{}
	for _, m := range turn.Agent.Marks {
		marks[m.Name] = m.Value
	}
	took := time.Duration(marks["play_queued"] - marks["speech_heard"])
	return *turn.Sound - *turn.Waited - budget.Packet - budget.Codec - took
}

// A caller, impair and an agent, three processes: what goes over WebRTC and what goes
// over a WebSocket is heard as much later as was asked for, there and back.
func TestImpairBetween(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	agent, stop := serveChild(t, exact(t, 120*time.Millisecond))
	defer stop()
	logs := filepath.Join(t.TempDir(), "log")
	url, end := impairChild(t, "--to", agent, "--udp", "delay=40ms", "--tcp-up", "delay=30ms", "--tcp-down", "delay=60ms", "--log", logs)
	turns := []string{"--turns", "3", "--utterance", "en-flite-yes", "--quiet", "600ms", "--gap", "0s"}
	for _, tt := range []struct {
		name, url, protocol string
		want                time.Duration
	}{
		{"smallwebrtc", url, "auto", 80 * time.Millisecond}, {"openai", url, "openai", 80 * time.Millisecond}, {"whip", url + "/whip", "auto", 80 * time.Millisecond},
		{"ws", strings.Replace(url, "http", "ws", 1), "auto", 90 * time.Millisecond},
	} {
		r := callChild(t, tt.url, append(turns, "--protocol", tt.protocol)...)
		if len(r.Errors) > 0 || len(r.Turns) != 3 {
			t.Fatalf("%s: %+v", tt.name, r)
		}
		least := time.Hour
		for _, turn := range r.Turns {
			least = min(least, stretch(t, turn, r.Budget))
		}
		t.Logf("%s: the least of 3 turns is %.1f ms, want %v", tt.name, float64(least)/1e6, tt.want)
		// The onset is known to 2 ms. Nothing can come before its time; a busy computer
		// makes it later, but seldom in each of three turns.
		if least < tt.want-2*time.Millisecond || least > tt.want+30*time.Millisecond {
			t.Errorf("%s: the network took %v, want %v", tt.name, least, tt.want)
		}
	}
	rep := end()
	if rep.UDP.Calls != 3 || rep.TCP.Calls != 1 || len(rep.UDP.Ways) != 2 || len(rep.TCP.Ways) != 2 || len(rep.Errors) > 0 {
		t.Fatalf("%+v", rep)
	}
	for _, way := range rep.UDP.Ways {
		if way.RTP < 300 || *way.Drawn.Min != int64(40*time.Millisecond) || *way.Drawn.Max != int64(40*time.Millisecond) || len(way.Lost) > 0 || *way.Late.Min < 0 || rep.UDP.Free[way.From] == 0 {
			t.Errorf("%+v", way)
		}
	}
	if *rep.TCP.Ways[0].Drawn.Max != int64(30*time.Millisecond) || *rep.TCP.Ways[1].Drawn.Max != int64(60*time.Millisecond) {
		t.Errorf("%+v", rep.TCP)
	}
	lines := strings.Count(string(read(t, filepath.Join(logs, "packets.jsonl"))), "\n")
	sum := 0
	for _, way := range append(rep.UDP.Ways, rep.TCP.Ways...) {
		sum += way.Packets
	}
	var kept impairReport
	if err := json.Unmarshal(read(t, filepath.Join(logs, "impair.json")), &kept); err != nil || lines != sum || kept.UDP.Calls != 3 {
		t.Errorf("%d lines of %d packets, %v", lines, sum, err)
	}
}

// Plain UDP and plain TCP are joined too.
func TestImpairPlain(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a program of its own")
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	go func() { // echoes
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			pc.WriteTo(buf[:n], from)
		}
	}()
	url, end := impairChild(t, "--to", "udp://"+pc.LocalAddr().String(), "--udp-up", "drop=2-3", "--udp-down", "delay=5ms")
	c, err := net.Dial("udp", strings.TrimPrefix(url, "udp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 1500)
	got := ""
	for i := range 6 {
		p := make([]byte, 20) // looks like RTP
		p[0], p[1], p[3] = 0x80, 96, byte(i)
		c.Write(p)
		if i == 2 || i == 3 {
			continue
		}
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
		got += string('0' + rune(buf[3]))
	}
	r := end()
	if got != "0145" || r.UDP.Calls != 1 || r.UDP.Ways[0].Lost[impair.ByList] != 2 || r.UDP.Ways[1].Packets != 4 {
		t.Errorf("%s, %+v", got, r)
	}

	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	url, end = impairChild(t, "--to", strings.Replace(s.URL, "http", "tcp", 1), "--tcp", "delay=5ms,rate=1mbit")
	resp, err := http.Get(strings.Replace(url, "tcp", "http", 1))
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if r = end(); r.TCP.Calls != 1 || len(r.TCP.Ways) != 2 || *r.TCP.Ways[0].Drawn.Max != int64(5*time.Millisecond) {
		t.Errorf("%+v", r)
	}
}

// A browser calls through impair: the page, its origin and its candidates are taken,
// and the answer is heard later.
func TestImpairBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a browser and some seconds")
	}
	t.Parallel()
	ctx := newBrowser(t)
	agent, stop := serveChild(t)
	defer stop()
	url, end := impairChild(t, "--to", agent, "--udp", "delay=30ms")
	p := tab{t, ctx}
	p.do(chromedp.Navigate(url))
	p.wait(`document.querySelectorAll('#recording option').length > 10`)
	p.do(chromedp.Click("#call"))
	p.wait(`window.firstsound.state() === 'connected'`)
	p.do(chromedp.SetValue("#recording", "en-flite-yes"))
	p.do(chromedp.Click("#play"))
	p.wait(`window.firstsound.results.length > 0`)
	for _, r := range p.results() {
		if ear := r.Stats["ear_ms"]; r.Outcome != "ok" || r.Stats["energy"] <= 0 || ear < r.TTFS+30 {
			t.Errorf("%+v", r)
		}
	}
	r := end()
	if len(r.Errors) > 0 || r.UDP.Calls != 1 || len(r.UDP.Ways) != 2 || r.UDP.Ways[0].RTP < 50 || r.UDP.Ways[1].RTP < 50 {
		t.Errorf("%+v", r)
	}
}

// The commands of the documentation run.
func TestImpairDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a program of its own")
	}
	text := string(read(t, filepath.Join(root, "docs", "calls.md")))
	_, section, ok := strings.Cut(text, "\n## impair")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := regexp.MustCompile(`(?m)^firstsound impair (.*)$`).FindAllStringSubmatch(section, -1)
	if !ok || len(lines) < 3 {
		t.Fatalf("%d commands in docs/calls.md", len(lines))
	}
	t.Chdir(t.TempDir())
	for _, l := range lines {
		_, end := impairChild(t, words(strings.ReplaceAll(l[1], "'", `"`))...)
		if r := end(); r.UDP.Calls+r.TCP.Calls != 0 || r.To == "" {
			t.Errorf("%s: %+v", l[0], r)
		}
	}
}

func TestImpairUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "impair needs --to"},
		{"x", `takes no arguments`},
		{"--to x", "is no URL"},
		{"--to ftp://127.0.0.1", "begins with http, https, tcp or udp"},
		{"--to udp://127.0.0.1", "the port is missing"},
		{"--to http://127.0.0.1/api/offer", "the server only"},
		{"--to http://u:secret@127.0.0.1", "u:xxxxx@127.0.0.1: it takes the server only"},
		{"--to http://127.0.0.1 --listen 9000", "write ADDRESS:PORT"},
		{"--to http://127.0.0.1 --listen 192.0.2.1:9", "--listen-anywhere allows it"},
		{"--to http://127.0.0.1 --listen-anywhere --listen 0.0.0.0:9", "it has to be one address"},
		{"--to http://127.0.0.1 --udp delay=1ms --udp-up loss=1%", "--udp goes for both directions"},
		{"--to http://127.0.0.1 --udp-down delay", "--udp: impair: delay: it needs a value"},
		{"--to http://127.0.0.1 --tcp loss=1%", "--tcp: loss: TCP sends again"},
		{"--to udp://127.0.0.1:9 --tcp delay=1ms", "for udp://127.0.0.1:9 there is --udp"},
		{"--to tcp://127.0.0.1:9 --udp delay=1ms", "for tcp://127.0.0.1:9 there is --tcp"},
		{"--to http://127.0.0.1 --ca-file x", "--ca-file goes with"},
		{"--to https://127.0.0.1 --ca-file no/such", "no/such"},
		{"--to http://127.0.0.1 --calls 0", "--calls takes 1 to 10000"},
		{"--to udp://192.0.2.1:9 --listen 127.0.0.1:0", "is not on this computer"},
	} {
		stdout, stderr, code := try(append([]string{"impair"}, strings.Fields(tt.args)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("impair %s: exit code %d, %q, error\n%s, want\n%s", tt.args, code, stdout, stderr, tt.want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, to := range []string{"http://127.0.0.1:9", "tcp://127.0.0.1:9"} {
		if stdout, stderr, code := try("impair", "--to", to, "--listen", l.Addr().String()); code != exitFailed || stdout != "" || !strings.Contains(stderr, "address already in use") {
			t.Errorf("a port that is taken: exit code %d, %s%s", code, stdout, stderr)
		}
	}
}

const (
	offerSDP  = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=candidate:1 1 udp 1 127.0.0.1 5004 typ host\r\na=candidate:2 1 udp 1 198.51.100.1 5006 typ relay\r\n"
	answerSDP = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=candidate:1 1 udp 1 127.0.0.1 6004 typ host\r\n"
)

// quote returns text as JSON.
func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// In each shape of a body the candidates are replaced, and the rest stays as it was.
func TestImpairMessages(t *testing.T) {
	relay, err := impair.NewRelay(t.Context(), impair.Options{Clock: clocks.NewReal()})
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for _, f := range []struct{ name, kind, value string }{{"session", "application/json", `{"model":"m"}`}, {"sdp", "application/sdp", offerSDP}} {
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + f.name + `"`}, "Content-Type": {f.kind}})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(part, f.value)
	}
	w.Close()
	const candidate = "candidate:1 1 udp 1 127.0.0.1 5004 typ host"
	for _, tt := range []struct{ name, kind, body, call, keeps string }{
		{"sdp", "application/sdp", offerSDP, "", "m=audio 9"},
		{"json", "application/json; charset=utf-8", `{"sdp":` + quote(offerSDP) + `,"type":"offer","pc_id":"pc#1","restart_pc":false,"request_data":{"n":12345678901234567890}}`, "pc#1", `"request_data":{"n":12345678901234567890}`},
		{"form", w.FormDataContentType(), form.String(), "", `{"model":"m"}`},
		{"fragment", "application/trickle-ice-sdpfrag", "a=ice-ufrag:u\r\na=ice-pwd:p\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\na=" + candidate + "\r\na=candidate:2 1 udp 1 198.51.100.1 5006 typ relay\r\n", "", "a=ice-ufrag:u"},
		{"trickle", "application/json", `{"pc_id":"pc#1","candidates":[{"candidate":"` + candidate + `","sdp_mid":"0","sdp_mline_index":0},{"candidate":"candidate:2 1 udp 1 198.51.100.1 5006 typ relay"},{"candidate":""}]}`, "pc#1", `{"candidate":""}`},
	} {
		m, err := readMessage(tt.kind, []byte(tt.body))
		if err != nil || m == nil || m.call != tt.call || m.restart {
			t.Errorf("%s: %+v %v", tt.name, m, err)
			continue
		}
		got, err := m.write(relay, impair.Client)
		if err != nil || bytes.Contains(got, []byte(" 5004 ")) || bytes.Contains(got, []byte("198.51.100.1")) || !bytes.Contains(got, []byte("typ host")) || !bytes.Contains(got, []byte(tt.keeps)) {
			t.Errorf("%s: %v\n%s", tt.name, err, got)
		}
		again, err := readMessage(tt.kind, got)
		if err != nil || again == nil || again.call != tt.call || (again.sdp == nil) != (m.sdp == nil) {
			t.Errorf("%s: what was written cannot be read: %v", tt.name, err)
		}
	}
	for name, b := range map[string][2]string{
		"not json": {"application/json", "{"}, "no description": {"application/json", `{"sdp":7}`}, "a list": {"application/json", `[1]`},
		"a form without": {w.FormDataContentType(), strings.ReplaceAll(form.String(), `name="sdp"`, `name="other"`)},
	} {
		if m, err := readMessage(b[0], []byte(b[1])); m != nil || err != nil {
			t.Errorf("%s: %+v %v", name, m, err)
		}
	}
	for name, b := range map[string][2]string{
		"no type": {"", "v=0"}, "no boundary": {"multipart/form-data", "x"}, "a broken form": {"multipart/form-data; boundary=x", "--x\r\nnot a header\r\n\r\n"},
		"a broken fragment": {"application/trickle-ice-sdpfrag", "a=ice-ufrag:u\r\nx\r\n"},
	} {
		if _, err := readMessage(b[0], []byte(b[1])); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	if describes("text/html") || describes("") || !describes("application/sdp; x=y") {
		t.Error("what may hold descriptions")
	}
}

func FuzzImpairMessage(f *testing.F) {
	f.Add("application/json", `{"sdp":"v=0\r\n","pc_id":"x"}`)
	f.Add("application/json", `{"pc_id":"x","candidates":[{"candidate":""}]}`)
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"sdp\"\r\n\r\nv=0\r\n--b--\r\n")
	f.Add("application/trickle-ice-sdpfrag", "a=ice-ufrag:u\r\n")
	relay, err := impair.NewRelay(f.Context(), impair.Options{Clock: clocks.NewReal()})
	if err != nil {
		f.Fatal(err)
	}
	relay.Close() // opens no sockets any more
	f.Fuzz(func(t *testing.T, kind, body string) {
		m, err := readMessage(kind, []byte(body))
		if err != nil || m == nil {
			return
		}
		got, err := m.write(relay, impair.Client)
		if err != nil {
			return
		}
		if again, err := readMessage(kind, got); err != nil || again == nil || again.call != m.call {
			t.Errorf("%q: %q became %q: %v", kind, body, got, err)
		}
	})
}

// fakeAgent answers as an agent does, and says what it was asked.
func fakeAgent(t *testing.T, asked func(r *http.Request, body string)) *httptest.Server {
	mux := http.NewServeMux()
	handle := func(path string, h http.HandlerFunc) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked(r, string(body))
			h(w, r)
		})
	}
	handle("/whip", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://"+r.Host+"/whip/a?b=c")
		w.Header().Set("Content-Type", "application/sdp")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, answerSDP)
	})
	handle("/whip/a", func(w http.ResponseWriter, r *http.Request) {})
	handle("/busy", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "too many", http.StatusServiceUnavailable) })
	handle("/odd", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/sdp")
		io.WriteString(w, strings.ReplaceAll(answerSDP, "typ host", "typ relay"))
	})
	handle("/page", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// What goes through the proxy besides descriptions, what is refused, and that no
// relay stays open for an offer that came to nothing.
func TestImpairProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a program of its own")
	}
	type ask struct{ origin, host, body string }
	asks := make(chan ask, 100)
	s := fakeAgent(t, func(r *http.Request, body string) { asks <- ask{r.Header.Get("Origin"), r.Host, body} })
	url, end := impairChild(t, "--to", s.URL, "--calls", "1")
	do := func(method, path, kind, body string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		for i := 0; i+1 < len(header); i += 2 {
			if header[i] == "Host" {
				r.Host = header[i+1]
			}
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	if r, text := do("GET", "/page", "", "", "Origin", url); r.StatusCode != 200 || text != "<html>" {
		t.Errorf("a page: %s %s", r.Status, text)
	}
	if a := <-asks; a.origin != s.URL || "http://"+a.host != s.URL {
		t.Errorf("our own page comes from %q to %q", a.origin, a.host)
	}
	do("GET", "/page", "", "", "Origin", "https://evil.example")
	if a := <-asks; a.origin != "https://evil.example" {
		t.Errorf("a page of elsewhere comes from %q", a.origin)
	}
	if r, _ := do("GET", "/page", "", "", "Host", "evil.example"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a name of elsewhere: %s", r.Status)
	}
	// Neither a refusal nor an answer without a way takes the one place.
	if r, text := do("POST", "/busy", "application/sdp", offerSDP); r.StatusCode != http.StatusServiceUnavailable || text != "too many\n" {
		t.Errorf("a busy agent: %s %s", r.Status, text)
	}
	<-asks
	if r, text := do("POST", "/odd", "application/sdp", offerSDP); r.StatusCode != http.StatusBadGateway || !strings.Contains(text, "no UDP host candidate") {
		t.Errorf("an answer without host candidates: %s %s", r.Status, text)
	}
	<-asks
	for range 2 { // the end of the first call makes room for the second
		r, text := do("POST", "/whip", "application/sdp", offerSDP)
		a := <-asks
		if r.StatusCode != http.StatusCreated || r.Header.Get("Location") != "/whip/a?b=c" || strings.Contains(text, " 6004 ") || strings.Contains(a.body, " 5004 ") || !strings.Contains(text, "typ host") {
			t.Errorf("%s %v\n%s\n%s", r.Status, r.Header, text, a.body)
		}
		if r, text := do("POST", "/whip", "application/sdp", offerSDP); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "too many calls") {
			t.Errorf("a second call: %s %s", r.Status, text)
		}
		do("PATCH", "/whip/a", "application/trickle-ice-sdpfrag", "a=ice-ufrag:u\r\na=candidate:1 1 udp 1 127.0.0.1 5008 typ host\r\n")
		if a := <-asks; strings.Contains(a.body, " 5008 ") || !strings.Contains(a.body, "typ host") {
			t.Errorf("a candidate that came later: %s", a.body)
		}
		if r, _ := do("DELETE", "/whip/a", "", ""); r.StatusCode != 200 {
			t.Errorf("%s", r.Status)
		}
		<-asks
	}
	if r, _ := do("POST", "/whip", "application/sdp", strings.Repeat("x", 2<<20)); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a long offer: %s", r.Status)
	}
	if r, _ := do("POST", "/whip", "application/sdp", "v=0\r\na=candidate:x\r\n"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a broken offer: %s", r.Status)
	}
	s.Close()
	if r, text := do("GET", "/page", "", ""); r.StatusCode != http.StatusBadGateway || !strings.Contains(text, "connection refused") {
		t.Errorf("no agent: %s %s", r.Status, text)
	}
	if r := end(); r.Refused != 2 || len(r.Errors) < 4 || r.UDP.Calls != 5 {
		t.Errorf("%+v", r)
	}
}
