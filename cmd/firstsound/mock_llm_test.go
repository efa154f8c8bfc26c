package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firstsound/llm/llmmock"
)

// startMock runs firstsound mock llm, and returns its URL and what ends it: that
// returns the rest of what it printed.
func startMock(t *testing.T, args ...string) (url string, stop func() string) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := newMockCmd(streams{out: w, err: io.Discard})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"llm"}, args...))
	failed := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.CloseWithError(err)
		failed <- err
	}()
	out := bufio.NewReader(r)
	first, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("mock llm %v: %v", args, err)
	}
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening on ")
	if !ok {
		t.Fatalf("the first line is %q", first)
	}
	return url, func() string {
		cancel()
		rest, _ := io.ReadAll(out)
		if err := <-failed; err != nil {
			t.Errorf("mock llm %v: %v", args, err)
		}
		return string(rest)
	}
}

// mockRefuses returns the error of a command line that must be refused.
func mockRefuses(t *testing.T, args ...string) error {
	t.Helper()
	cmd := newMockCmd(streams{out: io.Discard, err: io.Discard})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"llm"}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := cmd.ExecuteContext(ctx)
	if !errors.As(err, new(usageError)) {
		t.Errorf("mock llm %v: %v is no mistake in its use", args, err)
		return errors.New("")
	}
	return err
}

// The official clients get the whole answer, its tools and its usage.
func TestMockWithOfficialClients(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing (Debian package nodejs)")
	}
	url, stop := startMock(t, "--tokens", "8", "--first", "5ms", "--between", "1ms", "--set", "tool_call=1")
	defer stop()
	const english, chinese = "Sure, I can help you with that", "好的，我来帮您查"
	for client, want := range map[string]map[string]any{
		"openai": {"package": "openai", "text": english, "finish": "stop", "usage": 8.0, "whole": english, "wholeUsage": 8.0, "tool": "weather",
			"arguments": `{"city":"Berlin"}`, "toolFinish": "tool_calls", "afterTool": english, "status": 400.0},
		"ollama": {"package": "ollama", "text": chinese, "finish": "stop", "usage": 8.0, "prefill": 5e6, "whole": chinese, "tool": "weather",
			"arguments": `{"city":"Berlin"}`, "running": 1.0},
		"anthropic": {"package": "@anthropic-ai/sdk", "text": english, "finish": "end_turn", "usage": 8.0, "whole": english, "tool": "weather",
			"arguments": `{"city":"Berlin"}`, "toolFinish": "tool_use"},
	} {
		t.Run(client, func(t *testing.T) {
			name := want["package"].(string)
			if _, err := os.Stat(filepath.Join("testdata", "sdk", "node_modules", name)); err != nil {
				t.Skipf("the npm package %s is missing: npm ci --prefix cmd/firstsound/testdata/sdk", name)
			}
			c := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "sdk", client+".mjs"), url)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var got map[string]any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			for k, v := range want {
				if k != "package" && got[k] != v {
					t.Errorf("%s: %v, want %v", k, got[k], v)
				}
			}
		})
	}
}

const mockAsk = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// The truth file has a line for each request, and a client in another process can
// tell the wall clock's time of every moment in it.
func TestMockTruthFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "truth.jsonl")
	url, stop := startMock(t, "--truth", file, "--tokens", "3", "--first", "20ms", "--between", "2ms", "--script", "t@1 t@3 F D", "--script", "S(429,retry-after=1)@2")
	before := time.Now()
	for i := range 2 {
		resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(mockAsk))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if want := []int{200, 429}[i]; resp.StatusCode != want {
			t.Errorf("request %d: status %d", i, resp.StatusCode)
		}
	}
	after := time.Now()
	if summary := stop(); !strings.HasPrefix(summary, "2 requests, 1 failed or cut off; at most 1 at once; ") || strings.Count(summary, "\n") != 1 {
		t.Errorf("summary %q", summary)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("%s", text)
	}
	var h llmmock.Header
	var x, refused llmmock.Truth
	for i, to := range []any{&h, &x, &refused} {
		d := json.NewDecoder(bytes.NewReader(lines[i]))
		d.DisallowUnknownFields()
		if err := d.Decode(to); err != nil {
			t.Fatal(err)
		}
	}
	arrived := time.Unix(0, h.Epoch+int64(x.Arrived))
	if h.Format != llmmock.Format || arrived.Before(before.Add(-time.Millisecond)) || arrived.After(after) {
		t.Errorf("%+v: arrived %v, not between %v and %v", h, arrived, before, after)
	}
	if x.Status != 200 || len(x.Chunks) != 2 || x.Chunks[0] < x.Arrived+time.Millisecond || x.Chunks[1] < x.Chunks[0] || refused.Status != 429 || len(refused.Chunks) != 0 {
		t.Errorf("%+v\n%+v", x, refused)
	}
}

// TLS with the CA that was made, and HTTP/2 over it and in the clear.
func TestMockTLS(t *testing.T) {
	for _, c := range []struct {
		args     []string
		protocol string
	}{{[]string{"--tls"}, "HTTP/1.1"}, {[]string{"--tls", "--http2"}, "HTTP/2.0"}, {[]string{"--http2"}, "HTTP/2.0"}} {
		ca := filepath.Join(t.TempDir(), "ca.pem")
		args := append([]string{"--tokens", "3", "--first", "1ms", "--between", "1ms"}, c.args...)
		if c.args[0] == "--tls" {
			args = append(args, "--ca-out", ca)
		}
		url, stop := startMock(t, args...)
		tr := &http.Transport{Protocols: new(http.Protocols)}
		if c.args[0] == "--tls" {
			pem, err := os.ReadFile(ca)
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) || bytes.Contains(pem, []byte("PRIVATE")) {
				t.Fatalf("ca.pem holds %s", pem)
			}
			tr.TLSClientConfig = &tls.Config{RootCAs: pool}
			tr.Protocols.SetHTTP1(true)
			tr.Protocols.SetHTTP2(true)
		} else {
			tr.Protocols.SetUnencryptedHTTP2(true)
		}
		resp, err := (&http.Client{Transport: tr}).Post(url+"/chat/completions", "application/json", strings.NewReader(mockAsk))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Proto != c.protocol || !bytes.HasSuffix(b, []byte("data: [DONE]\n\n")) {
			t.Errorf("%v: %s %v\n%s", c.args, resp.Proto, err, b)
		}
		tr.CloseIdleConnections()
		stop()
	}
}

func TestMockUsage(t *testing.T) {
	scenarioFile := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(scenarioFile, []byte("first: 10ms\nfirts: 3ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "--listen-anywhere"},
		{[]string{"--listen", "nonsense"}, "ADDRESS:PORT"},
		{[]string{"--first", "fast"}, "--first fast"},
		{[]string{"--fault", "gremlin"}, `no fault "gremlin"`},
		{[]string{"--fault", "status:p=2"}, "no probability"},
		{[]string{"--fault", "queue", "--server", "{gpu: l4}"}, "queue: it needs times that are drawn"},
		{[]string{"--script", "t@"}, "@ is no time"},
		{[]string{"--dialect", "latin"}, "there are vllm"},
		{[]string{"--ca-out", "x"}, "--tls"},
		{[]string{scenarioFile}, "firts"},
		{[]string{"no-such-file.yaml"}, "no such file"},
	} {
		if err := mockRefuses(t, c.args...); !strings.Contains(err.Error(), c.want) {
			t.Errorf("mock llm %v: %v, want %q in it", c.args, err, c.want)
		}
	}
}

// A scenario's model gives the mock its times.
func TestMockScenario(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte("llm: {base: 3ms, prefill: 0s, tpot: 1ms, replies: [Yes.], fail: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop := startMock(t, file)
	defer stop()
	resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(mockAsk))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 503 || !bytes.Contains(b, []byte("Service Unavailable (mock)")) {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}
