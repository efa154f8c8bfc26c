package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"firstsound/llm/record"
)

func TestProbeLLM(t *testing.T) {
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "30ms", "--between", "2ms", "--tokens", "20")
	defer stop()
	stdout, stderr, code := try("probe", "llm", url)
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	for _, want := range []string{
		"no --model was given: it is the first of " + url + "/models", "a rough probe of two requests, not a benchmark", "this machine, so these are not the figures",
		"connect (took)", "headers", "first byte", "first event", "first token", "first answer token", "total", "Streams: yes: 20 content events", "Buffering suspected: no",
		"HTTP/1.1 to 127.0.0.1:", "the second request used it again", "content-type: text/event-stream", `"role":"assistant"`,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	stdout, _, code = try("probe", "llm", url, "--model", "m", "--json")
	var res probeResult
	if err := json.Unmarshal([]byte(stdout), &res); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if res.Model != "m" || res.ModelFrom != "--model" || !res.Loopback || len(res.Events) != 3 || *res.New.Reused || !*res.Again.Reused ||
		*res.New.TTFT < 30*time.Millisecond || res.Events[0].At < 30*time.Millisecond || *res.Steps["first_token"].New != *res.New.TTFT {
		t.Errorf("%s", stdout)
	}
}

// serve answers every request with what write writes.
func serveAnswer(t *testing.T, write func(w http.ResponseWriter)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		write(w)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// An answer that comes in one piece, or that would move the terminal, or none.
func TestProbeLLMFaults(t *testing.T) {
	whole := serveAnswer(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 12 {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a \"}}],\"x\":\"\x1b\u009b[2J%s\"}\n\n", strings.Repeat("y", 300))
		}
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	stdout, stderr, code := try("probe", "llm", whole, "-m", "x")
	for _, want := range []string{"Streams: ", "Buffering suspected: yes", "12 content events came within", "X-Accel-Buffering", " ..."} {
		if !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	if strings.ContainsAny(stdout, "\x1b\u009b") {
		t.Errorf("%q", stdout)
	}
	broken := serveAnswer(t, func(w http.ResponseWriter) { w.WriteHeader(500) })
	if stdout, stderr, code := try("probe", "llm", broken, "-m", "x"); code != 1 || !strings.HasPrefix(stderr, "firstsound: the service did not answer (http_error): ") || !strings.Contains(stdout, "http_error") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := try("probe", "llm", broken); code != 1 || !strings.Contains(stderr, "there is no list of models at "+broken+"/v1/models: HTTP 500") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := try("probe", "llm"); code != 2 || !strings.HasPrefix(stderr, "firstsound: probe llm takes the URL") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := try("probe", "llm", "x", "--max-tokens", "0"); code != 2 || !strings.HasPrefix(stderr, "firstsound: --max-tokens takes 1 or more") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// A service that wants max_completion_tokens is asked so, and the output says it.
func TestProbeLLMAdapts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"max_tokens"`) {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.","param":"max_tokens"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	stdout, stderr, code := try("probe", "llm", s.URL, "-m", "x")
	if code != 0 || !strings.Contains(stdout, "max_completion_tokens sent in place of max_tokens") || !strings.Contains(stdout, "too few to judge by: 1 content event") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestJudgeStream(t *testing.T) {
	chunks := func(at ...time.Duration) []record.Chunk {
		var all []record.Chunk
		for _, d := range at {
			all = append(all, record.Chunk{At: d * time.Millisecond, Chars: 1})
		}
		return all
	}
	steady, bursts, once := chunks(), chunks(), chunks()
	for i := range time.Duration(24) {
		steady = append(steady, chunks(200+20*i)...)
		bursts = append(bursts, chunks(200+2000*(i/8))...)
		once = append(once, chunks(900)...)
	}
	for _, test := range []struct {
		name      string
		a         record.Attempt
		streams   bool
		suspected bool
		reason    string
	}{
		{"steady", record.Attempt{Chunks: steady}, true, false, "24 content events came at 24 moments over 460.0 ms"},
		{"bursts", record.Attempt{Chunks: bursts}, true, true, "24 content events came in 3 bursts, up to 2000.0 ms apart"},
		{"once", record.Attempt{Chunks: once}, false, true, "24 content events came within 0.0 ms, - after the request"},
		{"compressed", record.Attempt{Chunks: steady, Header: map[string]string{"content-encoding": "gzip"}}, true, true, "the answer is compressed (gzip)"},
		{"short", record.Attempt{Chunks: chunks(1, 2)}, true, false, "too few to judge by: 2 content events"},
		{"none", record.Attempt{}, false, false, "there was no content"},
	} {
		got := judgeStream(&test.a)
		if got.Streams != test.streams || got.Suspected != test.suspected || !strings.HasPrefix(strings.Join(got.Reasons, "; "), test.reason) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}
