package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	llmfigures "firstsound/llm/figures"
	"firstsound/llm/record"
)

// readFolder returns the run and the attempts of a folder.
func readFolder(t *testing.T, dir string) (record.Run, []*record.Attempt) {
	t.Helper()
	r, err := record.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []*record.Attempt
	for a, err := range record.ReadAttempts(dir, nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return r, all
}

// The whole way: prompts, load, the run folder and the report.
func TestBenchLLM(t *testing.T) {
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "20ms", "--between", "1ms", "--tokens", "12")
	defer stop()
	dir := filepath.Join(t.TempDir(), "run")
	stdout, stderr, code := try("bench", "llm", "--base-url", url, "--single", "12", "--concurrency", "3", "--num-prompts", "12", "--num-warmups", "2",
		"--prompt-tokens", "400", "--turns", "3", "--new-connections", "--idle", "20ms", "--request-rate", "50", "--keep-reads", "--no-self-test",
		"--place", "here", "--out", dir, "--json", "--gate", "failures<1%", "--goodput", "ttft:60000")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	var report struct {
		llmfigures.Report
		Diagnosis []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	want := map[record.Phase][2]int{ // measured, warm-up
		record.Single: {12, 2}, record.Level: {12, 3}, record.Rate: {12, 2}, record.PromptSize: {12, 2},
		record.Conversation: {12, 3}, record.NewConn: {12, 2}, record.IdleGap: {5, 0},
	}
	run, all := readFolder(t, dir)
	got, ids := map[record.Phase][2]int{}, map[string]bool{}
	for _, a := range all {
		n := got[a.Phase]
		if a.Warmup {
			n[1]++
		} else {
			n[0]++
		}
		got[a.Phase], ids[a.RequestID] = n, true
		if a.Class != record.OK || a.TTFT == nil || *a.TTFT < 20*time.Millisecond || *a.OutputTokens != 12 || a.InFlight < 1 {
			t.Errorf("%s: %s %s, TTFT %v", a.RequestID, a.Class, a.Error, a.TTFT)
		}
		if (a.Phase == record.NewConn) == (a.Reused != nil && *a.Reused) && a.Level == 1 {
			t.Errorf("%s of %s: reused %v", a.RequestID, a.Phase, a.Reused)
		}
		if (a.Due != nil) != (a.Phase == record.Rate) {
			t.Errorf("%s of %s: due %v", a.RequestID, a.Phase, a.Due)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(ids) != len(all) {
		t.Errorf("%v, want %v; %d IDs of %d attempts", got, want, len(ids), len(all))
	}
	if run.State != record.Complete || !run.Target.Loopback || run.Target.Model != "mock" || run.Tester.Place != "here" || run.End == nil || run.Resources == nil ||
		run.Fixed["max_tokens"] != "128" || run.Fixed["concurrency"] != "3" || run.Fixed["protocol"] != "HTTP/1.1" {
		t.Errorf("%+v", run)
	}
	for _, p := range run.Plan {
		if p.Began == nil || p.Ended == nil || *p.Ended < *p.Began {
			t.Errorf("%s: from %v to %v", p.Phase, p.Began, p.Ended)
		}
	}
	if report.Head.OK != 77 || len(report.Parts) < 7 || len(report.Diagnosis) == 0 {
		t.Errorf("%d ok, %d parts, %v", report.Head.OK, len(report.Parts), report.Diagnosis)
	}
	reads, err := os.ReadFile(filepath.Join(dir, record.ReadsFile))
	if n := bytes.Count(reads, []byte("\n")); err != nil || n < len(all) {
		t.Errorf("%d reads, %v", n, err)
	}
	// A second run into the folder is refused before the service is asked.
	if _, stderr, code := try("bench", "llm", "-u", "http://127.0.0.1:1", "--single", "1", "--dry-run", "--out", dir); code != 1 || !strings.Contains(stderr, "holds a run already") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := try("bench", "llm", "-u", url, "--single", "12", "--no-self-test", "--gate", "ttft.p50<1ms"); code != 1 || !strings.Contains(stderr, "gate ttft.p50<1ms: ") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if stdout, _, code := try("bench", "llm", "-u", url, "--dry-run", "--quick"); code != 0 || !strings.Contains(stdout, ": 2 parts, about 2") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

// Keys and passwords are in nothing that is printed or kept, even if the service
// repeats them.
func TestBenchLLMKeepsNoKeys(t *testing.T) {
	const key, header, password = "sk-verysecretkey", "hush-header-value", "passw0rd-of-url"
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "1ms", "--between", "1ms", "--tokens", "4")
	defer stop()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"error":{"message":"bad key %s, header %s"}}`, r.Header.Get("Authorization"), r.Header.Get("X-Mine"))
	}))
	defer echo.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "key.txt")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := func(u string) string {
		return strings.Replace(u, "http://", "http://me:"+password+"@", 1) + "?api_key=" + password
	}
	var printed bytes.Buffer
	env := func(name string) string { return map[string]string{"OPENAI_API_KEY": key, "MINE": key}[name] }
	for i, args := range [][]string{
		{"bench", "llm", "-u", secret(url), "--single", "2", "--warmup", "0", "--no-self-test", "--keep-reads", "--header", "X-Mine: " + header,
			"--extra-body", `{"api_key":"` + password + `"}`, "--server-metrics", secret(strings.TrimSuffix(url, "/v1") + "/metrics"), "--out", filepath.Join(dir, "a")},
		{"bench", "llm", "-u", url, "--single", "2", "--warmup", "0", "--no-self-test", "--api-key-env", "MINE", "--json", "--out", filepath.Join(dir, "b")},
		{"bench", "llm", "-u", url, "--single", "2", "--warmup", "0", "--no-self-test", "--api-key-file", file, "--out", filepath.Join(dir, "c")},
		{"bench", "llm", "-u", secret(echo.URL), "-m", "x", "--header", "X-Mine: Bearer " + header},
		{"bench", "llm", "-u", secret(echo.URL)},
		{"probe", "llm", secret(echo.URL), "-m", "x", "--header", "X-Mine:" + header},
		{"probe", "llm", secret(url), "--header", "X-Mine:" + header, "--json"},
		{"bench", "llm", "-u", "http://me:" + password + "@[::1", "--quick"},
		{"bench", "llm", "-u", secret("ftp://x"), "--quick"},
		{"bench", "llm", secret(url)},
		{"bench", "llm", "-u", url, "--header", header},
	} {
		code := run(args, streams{in: strings.NewReader(""), out: &printed, err: &printed, env: env})
		if good := i < 3 || i == 6; (code == 0) != good {
			t.Errorf("%q: exit code %d: %s", args, code, printed.String())
		}
	}
	os.Remove(file)
	all := printed.Bytes()
	filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			data, _ := os.ReadFile(name)
			all = append(all, data...)
		}
		return nil
	})
	for _, s := range []string{key, header, password} {
		if i := bytes.Index(all, []byte(s)); i >= 0 {
			t.Errorf("%q is there: %s", s, all[max(0, i-200):i+len(s)])
		}
	}
	if !bytes.Contains(all, []byte("bad key")) || !bytes.Contains(all, []byte("--header X-Mine:...")) {
		t.Error("what the service said, or the command, is not there at all")
	}
}

// A service that fails after the first request gives counted failures.
func TestBenchLLMFailures(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if n.Add(1) > 2 { // one to adapt, one to see how long it takes
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	_, stderr, code := try("bench", "llm", "-u", s.URL, "-m", "x", "--no-self-test", "--single", "2", "--warmup", "1")
	if code != 1 || stderr != "firstsound: no request succeeded: 2 http_error\n" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	s.Close()
	_, stderr, code = try("bench", "llm", "-u", s.URL, "-m", "x", "--quick")
	if code != 1 || !strings.Contains(stderr, "connect_error") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// waitForLines waits until a file has n lines.
func waitForLines(t *testing.T, name string, n int) {
	t.Helper()
	for range 3000 {
		if data, _ := os.ReadFile(name); bytes.Count(data, []byte("\n")) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not get %d lines", name, n)
}

// An interrupt ends the run, keeps what there is and reports it.
func TestBenchLLMInterrupted(t *testing.T) {
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "2ms", "--between", "1ms", "--tokens", "4")
	defer stop()
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := newBenchCmd(streams{out: &out, err: io.Discard, env: func(string) string { return "" }})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"llm", "-u", url, "--concurrency", "2", "--warmup", "2", "--no-self-test", "--out", dir})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	waitForLines(t, filepath.Join(dir, record.RequestsFile), 10)
	cancel()
	if err := <-ended; err == nil || err.Error() != "the run is not complete: interrupted" {
		t.Errorf("%v", err)
	}
	r, all := readFolder(t, dir)
	if r.State != record.Interrupted || r.End == nil || len(all) < 10 || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("%s after %v, %d attempts", r.State, r.End, len(all))
	}
}

func TestBenchLLMUsage(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "name the service: --url"},
		{"-u ftp://x", "the URL of a service is of http or https"},
		{"-u x --concurrency 0", "--concurrency takes levels from 1 to 10,000, such as 1,5,10, not [0]"},
		{"-u x --rate inf", "--rate takes requests a second above 0"},
		{"-u x --idle 0s", "--idle takes times above zero"},
		{"-u x --single 0", "the plan is empty"},
		{"-u x --quick --duration 5s", "--quick is a plan of its own"},
		{"-u x --arrivals gamma", "--arrivals: arrivals are constant, poisson or gamma:CV"},
		{"-u x --arrivals poisson --burstiness 2", "give --arrivals or --burstiness"},
		{"-u x --max-concurrency 3 --concurrency 4", "--max-concurrency bounds the open loop"},
		{"-u x --prefix no", "--prefix takes nonce or shared"},
		{"-u x --language fr", `--language: prompts: the language is en, zh or both, not "fr"`},
		{"-u x --temperature hot", "--temperature takes a number"},
		{"-u x --extra-body [1]", "--extra-body takes an object of JSON"},
		{"-u x --header novalue", "--header takes NAME:VALUE"},
		{"-u x --http 3", "--http takes 1.1, 2 or auto"},
		{"-u x --dialect klingon", `--dialect: there is no "klingon"; there are auto, anthropic`},
		{"-u x --api-key-env NOTHING", "--api-key-env: there is nothing in the environment variable NOTHING"},
		{"-u x --api-key-file nowhere", "--api-key-file: open nowhere"},
		{"-u x --api-key k", "there is no flag --api-key; did you mean --api-key-env?"},
		{"-u x --keep-reads", "--keep-reads writes to the folder of --out"},
		{"-u x --prompts nowhere", "--prompts: open nowhere"},
		{"-u x --prompts a --turns 3", "--prompt-tokens and --turns are made of the built-in conversations"},
		{"-u x --prompt-tokens 5", "--prompt-tokens: prompts: 5 tokens are too few"},
		{"-u x --gate nonsense", "--gate: "},
		{"-u x --goodput nonsense", "--goodput: "},
		{"-u x --timeout 0s", "--timeout takes a time above zero"},
		{"-u x --width 10", "--width takes 80 to 1000"},
		{"-u x --server-metrics :::", "--server-metrics takes a URL"},
		{"-u x --server-log nowhere", "--server-log: stat nowhere"},
		{"-u x --extra-body {\"stream\":false}", "--extra-body: leave out stream"},
		{"-u x --header content-length:3", "--header: Content-Length is set by firstsound itself"},
		{"-u x --header X-Request-ID:3", "--header: X-Request-Id is set by firstsound itself"},
		{"-u x --p95 --single 3", "--p95 is --single 130"},
		{"-u x --concurrency 2 --requests 5 --duration 5s", "--requests and --duration both say"},
		{"-u x --single 5 --arrivals constant", "--arrivals says how the requests of --rate come"},
		{"somewhere", "bench llm takes no arguments"},
	} {
		_, stderr, code := try(append([]string{"bench", "llm"}, strings.Fields(test.args)...)...)
		if code != 2 || !strings.HasPrefix(stderr, "firstsound: "+test.want) {
			t.Errorf("%s: exit code %d, %s", test.args, code, stderr)
		}
	}
}

// Other tools' names come to the same plan.
func TestBenchLLMForeignNames(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "single 1 30 0s, level 1 0 1m0s, level 5 0 1m0s, level 10 0 1m0s, level 20 0 1m0s"},
		{"--quick", "level 1 0 10s, level 5 0 10s"},
		{"--p95", "single 1 130 0s"},
		{"--max-concurrency 8 --num-prompts 100", "level 8 100 0s"},
		{"--concurrency 8 --request-count 50 --warmup-request-count 0", "level 8 50 0s"},
		{"--request-rate 5 --burstiness 0.25 --max-concurrency 9 --benchmark-duration 30s", "rate 0 0 30s gamma:2"},
		{"--request-rate 5 --burstiness 1", "rate 0 0 1m0s poisson"},
		{"--isl 50,500 --single 40", "single 1 40 0s, prompt_size 1 40 0s, prompt_size 1 40 0s"},
	} {
		b := &benchLLM{}
		cmd := newBenchLLMFor(b)
		if err := cmd.ParseFlags(append([]string{"--url", "http://x"}, strings.Fields(test.args)...)); err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		if err := b.check(cmd.Flags()); err != nil {
			t.Errorf("%s: %v", test.args, err)
		}
		var got []string
		for _, p := range b.plan.Plan() {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d %d %v %s", p.Phase, p.Level, p.Requests, p.Duration, p.Arrivals)))
		}
		if joined := strings.Join(got, ", "); joined != test.want {
			t.Errorf("%s: %s", test.args, joined)
		}
	}
}

func TestBenchLLMProgress(t *testing.T) {
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "2ms", "--between", "1ms", "--tokens", "4")
	defer stop()
	var out, errs bytes.Buffer
	code := run([]string{"bench", "llm", "-u", url, "--single", "20", "--no-self-test"},
		streams{in: strings.NewReader(""), out: &out, err: &errs, progress: true, env: func(string) string { return "" }})
	for _, want := range []string{"model mock (generic): 1 part, about ", "one at a time", "\r\x1b[Kpart 1 of 1, one at a time: ", " 0 failed", " left"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("exit code %d, no %q in %q", code, want, errs.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q", out.String())
	}
}
