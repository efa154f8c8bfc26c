package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firstsound/audio/ear"
	"firstsound/pipeline/report"
)

// quickCall is a caller that plays one recording and does not wait long.
var quickCall = []string{"--turns", "1", "--utterance", "en-flite-yes", "--quiet", "600ms", "--gap", "0s"}

// In every protocol the agent is reached, understands the announcement, answers, and
// what it says of the turn is joined by the request ID.
func TestCallProtocols(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	url, stop := serveChild(t, exact(t, 120*time.Millisecond), "--out", dir)
	socket := strings.Replace(url, "http", "ws", 1)
	want := 0
	for _, tt := range []struct{ url, protocol, codec string }{
		{url, "smallwebrtc", "pcmu"}, {url, "openai", "pcma"}, {url + "/whip", "whip", "opus"},
		{socket, "ws", "mulaw"}, {url, "twilio", "mulaw"},
	} {
		t.Run(tt.protocol, func(t *testing.T) {
			codec := tt.codec
			if codec == "mulaw" {
				codec = "pcmu"
			}
			rec := t.TempDir()
			r := callChild(t, tt.url, append(quickCall, "--codec", codec, "--protocol", tt.protocol, "--record", rec)...)
			if r.Protocol != tt.protocol || r.Codec != tt.codec || len(r.Turns) != 1 || len(r.Errors) > 0 || r.Stage != ear.SoundCame {
				t.Fatalf("%+v", r)
			}
			turn := r.Turns[0]
			if tt.protocol == "twilio" && turn.Status == ear.Overlap {
				return // nothing is announced there, and the pause in the recording is an end
			}
			if turn.Status != ear.Answered || turn.Sound == nil || turn.Fixed == nil || turn.NetEq == nil || *turn.Sound < 100*time.Millisecond {
				t.Errorf("%+v", turn)
			}
			if tt.protocol == "twilio" { // it has no place for an announcement
				if turn.Agent != nil {
					t.Errorf("%+v", turn.Agent)
				}
			} else if turn.Agent == nil || turn.Agent.Request != turn.RequestID || turn.Agent.Utterance != "en-flite-yes" || turn.Offset == nil {
				t.Errorf("%+v", turn.Agent)
			}
			if wav := read(t, filepath.Join(rec, "call-1.wav")); len(wav) < 10_000 {
				t.Errorf("a recording of %d bytes", len(wav))
			}
		})
		want++
	}
	stop()
	if got := rows(t, dir); len(got) < want {
		t.Errorf("%d turns were recorded, want %d or more", len(got), want)
	}
}

// A caller who speaks into the answer hears it stop, and the agent says so.
func TestCallInterrupts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	url, stop := serveChild(t, "--set", "turn.provider=none", "--set", "llm.replies=[One two three four five six seven eight nine ten eleven twelve thirteen.]")
	defer stop()
	r := callChild(t, url, "--turns", "2", "--utterance", "en-flite-order", "--interrupt", "after=500ms", "--quiet", "600ms")
	if len(r.Turns) != 2 || r.Turns[1].Stopped == nil || *r.Turns[1].Stopped > 700*time.Millisecond || r.BargeIn.N != 1 {
		t.Fatalf("%+v", r.Turns)
	}
	if a := r.Turns[0].Agent; a == nil || a.Outcome != "interrupted" {
		t.Errorf("%+v", a)
	}
}

// Packets that are held up, by the agent or by the caller, are heard so much later,
// and the log says by how much each was.
func TestCallImpaired(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	logs := t.TempDir()
	url, stop := serveChild(t, exact(t, 120*time.Millisecond), "--impair-down", "delay=80ms")
	defer stop()
	r := callChild(t, url, append(quickCall, "--impair-up", "delay=60ms", "--impair-log", logs)...)
	turn := r.Turns[0]
	if turn.Sound == nil || turn.Waited == nil || *turn.Sound < *turn.Waited+120*time.Millisecond+140*time.Millisecond {
		t.Errorf("%+v: want 60 ms there and 80 ms back", turn)
	}
	if log := read(t, filepath.Join(logs, "packets-1.jsonl")); bytes.Count(log, []byte(`"drawn_ns":60000000`)) < 50 {
		t.Errorf("the log has %d bytes", len(log))
	}
}

// The bytes of a WebSocket are held up too, by the caller.
func TestCallImpairedSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	url, stop := serveChild(t, exact(t, 120*time.Millisecond))
	defer stop()
	r := callChild(t, strings.Replace(url, "http", "ws", 1), append(quickCall, "--impair", "delay=50ms")...)
	turn := r.Turns[0]
	if turn.Sound == nil || turn.Waited == nil || *turn.Sound < *turn.Waited+120*time.Millisecond+100*time.Millisecond {
		t.Errorf("%+v: want 50 ms there and back", turn)
	}
	for _, args := range [][]string{{"--impair", "loss=1%"}, {"--impair", "delay=1ms", "--impair-log", "x"}} {
		if _, stderr, code := try(append([]string{"call", "ws://127.0.0.1:1"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// Who may not call does not get in: a page of elsewhere, a name of elsewhere that
// points here, somebody without the token.
func TestServeRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a program of its own")
	}
	t.Setenv("FIRSTSOUND_TEST_TOKEN", "secret-7")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	url, stop := serveChild(t, "--token-env", "FIRSTSOUND_TEST_TOKEN", "--tls", "--ca-out", ca)
	defer stop()
	if !strings.HasPrefix(url, "https://") {
		t.Error(url)
	}
	plain, stopPlain := serveChild(t)
	defer stopPlain()
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		host               string
		status             int
	}{
		{"page", "GET", "/", nil, "", 200},
		{"own page", "POST", "/start", map[string]string{"Origin": plain, "Content-Type": "application/json"}, "", 200},
		{"page of elsewhere", "POST", "/api/offer", map[string]string{"Origin": "https://evil.example"}, "", 403},
		{"name of elsewhere", "GET", "/", nil, "evil.example", 403},
		{"no such file", "GET", "/serve.go", nil, "", 404},
		{"no offer", "POST", "/api/offer", map[string]string{"Content-Type": "application/json"}, "", 0},
	} {
		req, err := http.NewRequest(tt.method, plain+tt.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range tt.header {
			req.Header.Set(k, v)
		}
		req.Host = tt.host
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if tt.status == 0 && (r.StatusCode < 400 || r.StatusCode >= 500) || tt.status != 0 && r.StatusCode != tt.status {
			t.Errorf("%s: %s %s", tt.name, r.Status, body)
		}
	}
	// With TLS and a token: who has both gets an answer.
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token, words string
		args               []string
	}{
		{"a certificate that nobody trusts", "secret-7", "certificate", []string{"--token-env", "FIRSTSOUND_TEST_TOKEN"}},
		{"no token", "", "401", []string{"--ca-file", ca}},
		{"a wrong token", "secret-8", "401", []string{"--ca-file", ca, "--token-env", "FIRSTSOUND_TEST_TOKEN"}},
		{"both", "secret-7", "", []string{"--ca-file", ca, "--token-env", "FIRSTSOUND_TEST_TOKEN"}},
	} {
		cmd := exec.Command(program, append(append([]string{"call", url}, quickCall...), tt.args...)...)
		cmd.Env = append(os.Environ(), "FIRSTSOUND_TEST_TOKEN="+tt.token)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (tt.words == "") || !strings.Contains(string(out), tt.words) || strings.Contains(string(out), "secret-") {
			t.Errorf("%s: %v, %s", tt.name, err, out)
		}
	}
}

// The turn in which a caller goes away is counted at once, and not only when the agent
// ends.
func TestBrokenCallIsCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	url, stop := serveHere(t, exact(t, time.Minute), "--out", dir)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a busy computer needs some of it to connect
	defer cancel()
	root := newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func(string) string { return "" }})
	root.SetArgs([]string{"call", strings.Replace(url, "http", "ws", 1) + "/ws", "--turns", "1", "--utterance", "en-cards-001", "--wait", "60s"})
	root.ExecuteContext(ctx)
	// What is recorded is this command, and nothing of a load that it does not make.
	if info := string(read(t, filepath.Join(dir, report.RunFile))); !strings.Contains(info, `"firstsound serve `) || !strings.Contains(info, "--listen") || strings.Contains(info, `"concurrency"`) {
		t.Error(info)
	}
	for range 200 {
		text, _ := os.ReadFile(filepath.Join(dir, report.TurnsFile))
		if strings.Contains(string(text), `"outcome":"unfinished"`) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("ten seconds later there is no such turn in the files")
}

// Nobody there, or something else: the call fails with the stage, and exit code 1;
// what is wrong on the command line is 2.
func TestCallFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go http.Serve(l, http.NotFoundHandler())
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"http://" + freeAddress(t)}, exitFailed, "no connection came about"},
		{[]string{"http://" + l.Addr().String()}, exitFailed, "404"},
		{[]string{"ws://" + l.Addr().String()}, exitFailed, "404"},
		{[]string{"not a url"}, exitUsage, "is no URL"},
		{[]string{"ftp://x"}, exitUsage, "begins with http"},
		{[]string{"http://x", "--protocol", "sip"}, exitUsage, "--protocol"},
		{[]string{"http://x", "--interrupt", "2s"}, exitUsage, "after=TIME"},
		{[]string{"http://x", "--codec", "mp3"}, exitUsage, "--codec"},
		{[]string{"http://x", "--utterance", "nobody"}, exitUsage, "none of"},
		{[]string{"http://x", "--impair", "delay=fast"}, exitUsage, "delay"},
		{[]string{"http://x", "--calls", "0"}, exitUsage, "--calls"},
	} {
		stdout, stderr, code := try(append([]string{"call"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%v: exit code %d, %s%s; want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.says)
		}
	}
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"}, {"--listen", "x"}, {"--codec", "mp3"}, {"--ice", "http://x"}, {"--ca-out", "x"}, {"--token-env", "FIRSTSOUND_NOT_SET"}, {"--impair", "x=1"},
	} {
		if _, stderr, code := try(append([]string{"serve"}, args...)...); code != exitUsage {
			t.Errorf("serve %v: exit code %d, %s", args, code, stderr)
		}
	}
}

// What comes from a caller as a message never breaks the agent.
func FuzzToAgent(f *testing.F) {
	f.Add([]byte(`{"type":"utterance","utterance":"x","rtp":4294967295,"request_id":"r"}`))
	f.Add([]byte(`{"type":"clock","sent":1}`))
	f.Add([]byte(`ping`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m toAgent
		if json.Unmarshal(data, &m) == nil && m.Sent != "" && !json.Valid([]byte(m.Sent)) {
			t.Errorf("%q", m.Sent)
		}
	})
}
