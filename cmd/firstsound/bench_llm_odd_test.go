package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"firstsound/llm/record"
)

// serveOdd answers the n-th request, from 1, with what write writes.
func serveOdd(t *testing.T, write func(w http.ResponseWriter, r *http.Request, n int)) string {
	t.Helper()
	var count atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		write(w, r, int(count.Add(1)))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const oddAnswer = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// A service may repeat a key anywhere.
func TestBenchLLMKeysInWords(t *testing.T) {
	const key, header = "sk-verysecretkey", "hush-header-value"
	url := serveOdd(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		word := r.Header.Get("Authorization") + r.Header.Get("X-Mine")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"data":[{"id":"model %s"}]}`, word)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"system_fingerprint\":\"print %[1]s\",\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"why %[1]s\"}]}\n\ndata: [DONE]\n\n", word)
	})
	dir := filepath.Join(t.TempDir(), "run")
	var all bytes.Buffer
	env := func(name string) string { return map[string]string{"OPENAI_API_KEY": key}[name] }
	for _, args := range [][]string{
		{"bench", "llm", "-u", url, "--single", "2", "--warmup", "0", "--no-self-test", "--header", "X-Mine: " + header, "--out", dir},
		{"probe", "llm", url, "--header", "X-Mine: " + header},
		{"probe", "llm", url, "--header", "X-Mine: " + header, "--json"},
	} {
		if code := run(args, streams{in: strings.NewReader(""), out: &all, err: &all, env: env}); code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, all.String())
		}
	}
	for _, name := range []string{record.RunFile, record.RequestsFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for _, s := range []string{key, header} {
		if i := strings.Index(all.String(), s); i >= 0 {
			t.Errorf("%q is there: %s", s, all.String()[max(0, i-200):i+len(s)])
		}
	}
	for _, want := range []string{"model Bearer (key)(key)", "print Bearer (key)(key)", "why Bearer (key)(key)"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in %s", want, all.String())
		}
	}
}

// A kept connection that the service closes just then does not end the run
// before it begins.
func TestBenchLLMFirstRequestAgain(t *testing.T) {
	url := serveOdd(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 2 { // the first to adapt, the second to time, over the same connection
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			return
		}
		io.WriteString(w, oddAnswer)
	})
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := try("bench", "llm", "-u", url, "-m", "x", "--single", "1", "--warmup", "0", "--no-self-test", "--out", dir)
	if run, _ := readFolder(t, dir); code != 0 || !strings.Contains(strings.Join(run.Notes, "; "), "the first request was asked again") {
		t.Errorf("exit code %d, %s%q", code, stderr, run.Notes)
	}
}

// What a service says and a run does not go by is told.
func TestBenchLLMNotes(t *testing.T) {
	url := serveOdd(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 3 {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(429)
			return
		}
		io.WriteString(w, strings.Replace(oddAnswer, "data: [DONE]", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1000000000000000000}}\n\ndata: [DONE]", 1))
	})
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := try("bench", "llm", "-u", url, "-m", "x", "--single", "2", "--warmup", "0", "--no-self-test", "--out", dir)
	run, all := readFolder(t, dir)
	for _, want := range []string{"1 refusal asked to be left alone (Retry-After, up to 2m0s)", "the usage of 1 answer cannot be right"} {
		if !strings.Contains(strings.Join(run.Notes, "; "), want) {
			t.Errorf("exit code %d, %s, no %q in %q", code, stderr, want, run.Notes)
		}
	}
	if last := all[len(all)-1]; last.OutputTokens == nil || *last.OutputTokens != 1 || last.TokenSource != record.ByTokenizer {
		t.Errorf("%+v", last)
	}
}

func TestProbeLLMNotStreamed(t *testing.T) {
	url := serveOdd(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"a whole answer"},"finish_reason":"stop"}]}`)
	})
	stdout, stderr, code := try("probe", "llm", url, "-m", "x")
	if code != 0 || !strings.Contains(stdout, "Streams: no: 1 content event at 1 moment in 1 read") || !strings.Contains(stdout, "the answer was not streamed") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	dead := "http://" + freeAddress(t)
	stdout, _, code = try("probe", "llm", dead, "-m", "x")
	if code != 1 || !strings.HasPrefix(stdout, "NO ANSWER (connect_error)") || strings.Contains(stdout, "Streams:") || strings.Contains(stdout, "Connection:") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

// A folder whose last lines were cut off can be read; one without its attempts
// says so.
func TestLLMFolderCut(t *testing.T) {
	url := serveOdd(t, func(w http.ResponseWriter, r *http.Request, _ int) { io.WriteString(w, oddAnswer) })
	dir := filepath.Join(t.TempDir(), "run")
	if _, stderr, code := try("bench", "llm", "-u", url, "-m", "x", "--single", "3", "--warmup", "0", "--no-self-test", "--out", dir); code != 0 {
		t.Fatal(stderr)
	}
	put := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(record.RequestsFile, "\n")
	put(record.MetricsFile, "{\"at_ns\":1,\"values\":{\"a\":1}}\n{\"at_ns\":2,\"val\n")
	put(record.ServerFile, `{"format":"firstsound-llm-server/1","joins":[]}`+"\n"+`{"request_id":`)
	stdout, stderr, code := try("show", dir)
	if code != 0 || !strings.Contains(stderr, "line 2 of metrics.jsonl is cut off") || !strings.Contains(stderr, "line 2 of server.jsonl is cut off") || !strings.Contains(stdout, "1 sample") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	put(record.MetricsFile, "{\"at_ns\":3}\n")
	if _, stderr, code := try("show", dir); code != 1 || !strings.Contains(stderr, "metrics.jsonl:2: ") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if err := os.Remove(filepath.Join(dir, record.RequestsFile)); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := try("show", dir); code != 1 || !strings.Contains(stderr, "has a run.json and no requests.jsonl") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
