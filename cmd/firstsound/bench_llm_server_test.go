package main

import (
	"bufio"
	"bytes"
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

	"firstsound/clocks/exchange"
	"firstsound/llm/bench"
	llmfigures "firstsound/llm/figures"
	"firstsound/llm/record"
)

// A serverReport is what the tests read of a JSON report.
type serverReport struct {
	llmfigures.Report
	ServerLogs []struct {
		Log              string
		Sent, Joined     int
		Lines            int
		NoAttempt, Wrong struct{ N int }
	} `json:"server_logs"`
	ServerMetrics *struct {
		Samples int
		Means   []struct {
			Role  string
			Count int
		}
	} `json:"server_metrics"`
}

func readReport(t *testing.T, text string) (r serverReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// The server's own word is in the report, its diagnosis and its folder, and show
// shows the same from the folder.
func TestBenchLLMServerSide(t *testing.T) {
	dir := t.TempDir()
	truth := filepath.Join(dir, "truth.jsonl")
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "10ms", "--between", "1ms", "--tokens", "6", "--truth", truth)
	defer stop()
	run1 := filepath.Join(dir, "run1")
	text := must(t, "bench", "llm", "-u", url, "--single", "12", "--concurrency", "2", "--requests", "12", "--warmup", "2", "--no-self-test",
		"--server-log", truth, "--server-metrics", strings.TrimSuffix(url, "/v1"), "--keep-reads", "--out", run1, "--goodput", "ttft:60000,tpot:5000", "--target", "ttft.p50<1m")
	for _, want := range []string{
		"\nServer's log  " + truth, "firstsound truth: joined 28 of 28, 28 with times; of others: 2\n", "\nServer's monitoring  ",
		" mean ", " of 28   vllm:time_to_first_token_seconds\n", "Client and server view of TTFT", "12 of 12 ok requests joined", "\nDiagnosis\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := must(t, "show", run1); got != text {
		t.Errorf("show shows something else than bench:\n%s", got)
	}
	report := readReport(t, must(t, "show", run1, "--json", "--gate", "failures<1%", "--gate", "goodput>99%"))
	if l := report.ServerLogs; len(l) != 1 || l[0].Joined != 28 || l[0].Sent != 28 || l[0].NoAttempt.N != 0 && l[0].Wrong.N != 0 {
		t.Errorf("%+v", l)
	}
	if m := report.ServerMetrics; m == nil || m.Samples < 2 || len(m.Means) == 0 || m.Means[0].Count != 28 {
		t.Errorf("%+v", m)
	}
	if p := report.Parts[0]; p.Server == nil || p.Server.Joined != 12 || len(report.Targets) == 0 || p.Throughput.Goodput == nil {
		t.Errorf("%+v", p)
	}
	if out, _, err := execute(newChecklistCmd, run1); err != nil || !strings.Contains(out, "24 of 24 requests have the server's times beside the") || !strings.Contains(out, "of its monitoring") {
		t.Errorf("%v\n%s", err, out)
	}
	// The answers come out the same from their bytes.
	if got := must(t, "show", run1, "--reads"); !strings.HasPrefix(got, "28 answers analysed again from ") || !strings.Contains(got, ": no differences\n") {
		t.Errorf("%s", got)
	}
	// Without a folder there is the same, in JSON.
	report = readReport(t, must(t, "bench", "llm", "-u", url, "--single", "12", "--warmup", "0", "--no-self-test", "--server-log", truth, "--server-metrics", strings.TrimSuffix(url, "/v1")+"/metrics", "--json"))
	if l := report.ServerLogs; len(l) != 1 || l[0].Joined != 12 || report.Parts[0].Server == nil || report.Parts[0].Server.Joined != 12 || report.ServerMetrics == nil {
		t.Errorf("%+v", l)
	}
	// A log that comes later is joined, and stays joined.
	run2 := filepath.Join(dir, "run2")
	plain := must(t, "bench", "llm", "-u", url, "--single", "12", "--warmup", "0", "--no-self-test", "--max-tokens", "9", "--out", run2)
	if got := must(t, "show", run2); got != plain || strings.Contains(got, "Server's log") {
		t.Errorf("show shows something else than bench:\n%s", got)
	}
	joined := must(t, "show", run2, "--server-log", truth)
	if !strings.Contains(joined, "joined 12 of 12, 12 with times") || must(t, "show", run2) != joined || must(t, "show", run2, "--server-log", truth) == plain {
		t.Errorf("%s", joined)
	}
	got := must(t, "show", run2, "--against", run1)
	for _, want := range []string{"a: " + run1, "b: " + run2, "max_tokens differs: 128 in a, 9 in b", "TTFT P50", "in one run only: level 2 (a)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	var c struct {
		Format string
		Rows   []llmfigures.CompareRow
		Fixed  []llmfigures.FixedDifference `json:"fixed_differences"`
	}
	if err := json.Unmarshal([]byte(must(t, "show", run2, "--against", run1, "--json")), &c); err != nil || len(c.Rows) == 0 || len(c.Fixed) == 0 || c.Format != "firstsound.comparison/1" {
		t.Errorf("%v, %+v", err, c)
	}
	// A record that does not come from its bytes is found.
	requests := filepath.Join(run1, record.RequestsFile)
	data, err := os.ReadFile(requests)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"output_tokens":6`), []byte(`"output_tokens":7`), 1)
	if err := os.WriteFile(requests, data, 0o666); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := try("show", run1, "--reads")
	if code != 1 || !strings.Contains(stdout, "output_tokens: was 7, is 6") || stderr != "firstsound: 1 of 28 answers are not as they were recorded\n" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestShowBenchUsage(t *testing.T) {
	dir := halfRefused(t)
	pipeline, _ := keep(t, "--turns", "4")
	for _, test := range []struct{ args, want string }{
		{"DIR --turn slowest", "--turn is of a run of the whole pipeline"},
		{"DIR --strict", "--strict is of a run of the whole pipeline"},
		{"DIR --gate p95", `--gate: "p95"`},
		{"DIR --target 1s", `--target: "1s"`},
		{"DIR --goodput x", "--goodput: "},
		{"DIR --width 3", "--width takes 80 to 1000"},
		{"DIR --server-log nowhere", "--server-log: stat nowhere"},
		{"DIR --server-log DIR", "--server-log: DIR is a folder"},
		{"DIR --server-log-format vllm", "--server-log-format and --server-log-map are of --server-log"},
		{"DIR --server-log FILE --server-log-format klingon", "--server-log-format: server log: no format"},
		{"DIR --server-log FILE --server-log-format jsonl", "--server-log-format jsonl needs --server-log-map"},
		{"DIR --server-log FILE --server-log-map x", "--server-log-map: server log map"},
		{"DIR --server-log FILE --server-log-format vllm --server-log-map request_id=a", "--server-log-map is for logs of JSON lines"},
		{"DIR --against nowhere", "--against: nowhere: there is no such run"},
		{"DIR --against PIPELINE", "--against: PIPELINE is no folder of bench llm"},
		{"DIR --reads", "DIR has no reads.jsonl: measure with --keep-reads"},
		{"DIR --reads --against DIR", "--reads shows no figures"},
		{"PIPELINE --against DIR", "--against is of a run of bench llm"},
		{"PIPELINE --reads", "--reads is of a run of bench llm"},
		{"PIPELINE --target 1s --target 2s", "there is one --target"},
		{"PIPELINE --target ttft.p50<1s", "--target takes a time such as 800ms"},
		{"PIPELINE --gate ttft.p95<1s", "--gate takes p50, p95 or p99"},
	} {
		fill := strings.NewReplacer("DIR", dir, "PIPELINE", pipeline, "FILE", filepath.Join(dir, record.RequestsFile))
		_, stderr, code := try(append([]string{"show"}, strings.Fields(fill.Replace(test.args))...)...)
		if code != 2 || !strings.HasPrefix(stderr, "firstsound: "+fill.Replace(test.want)) {
			t.Errorf("%s: exit code %d, %s", test.args, code, stderr)
		}
	}
	// What is broken in the folder is named with its place.
	words := filepath.Join(dir, record.ServerFile)
	for content, want := range map[string]string{
		"no\n":                     "server.jsonl:1: the line is no JSON: invalid character",
		"{\"format\":\"other\"}\n": `server.jsonl:1: the format is "other"`,
		"{\"format\":\"" + wordsFormat + "\"}\n5\n": "server.jsonl:2: the line is wrong: it is a number, and should be an object",
	} {
		if err := os.WriteFile(words, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := try("show", dir); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", content, code, stderr)
		}
	}
}

// A key that the service repeats in an error, in pieces and where the text is cut
// off, is in no kept read; the answers come out the same without it.
func TestKeptReadsHaveNoKeys(t *testing.T) {
	const key = "sk-echoed-in-pieces-0123456789"
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		number := n.Add(1)
		body := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
		switch {
		case number <= 2: // those before the measurement
		case number%2 == 0:
			w.WriteHeader(401)
			body = `{"error":{"message":"bad key ` + got + `"}}`
		default:
			body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"" + strings.Repeat("x", 585) + " " + got + "\"}}\n\n"
		}
		if number%2 == 1 {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for i := 0; i < len(body); i += 7 {
			io.WriteString(w, body[i:min(i+7, len(body))])
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Microsecond)
		}
	}))
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "run")
	var printed bytes.Buffer
	env := func(name string) string { return map[string]string{"MINE": key}[name] }
	run([]string{"bench", "llm", "-u", s.URL, "-m", "x", "--api-key-env", "MINE", "--single", "6", "--warmup", "0", "--no-self-test", "--keep-reads", "--out", dir},
		streams{in: strings.NewReader(""), out: &printed, err: &printed, env: env})
	bodies := map[string][]byte{}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	all := printed.Bytes()
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	_, err := eachLine(filepath.Join(dir, record.ReadsFile), func(line []byte) error {
		var r bench.Read
		err := json.Unmarshal(line, &r)
		bodies[r.RequestID] = append(bodies[r.RequestID], r.Data...)
		return err
	})
	if err != nil || len(bodies) != 6 {
		t.Fatalf("%v, reads of %d requests\n%s", err, len(bodies), printed.String())
	}
	masked := 0
	for _, body := range bodies {
		masked += bytes.Count(body, []byte(maskOf(len(key))))
		all = append(all, body...)
	}
	if masked != 6 {
		t.Errorf("%d masks", masked)
	}
	for n := len(key); n >= 8; n-- { // nor a part of it, as where a text is cut off
		if i := bytes.Index(all, []byte(key[:n])); i >= 0 {
			t.Fatalf("%d bytes of the key are there: %s", n, all[max(0, i-200):i+n])
		}
	}
	if got, stderr, code := try("show", dir, "--reads"); code != 0 || !strings.HasPrefix(got, "6 answers") || !strings.Contains(got, "no differences") {
		t.Errorf("%s%s", got, stderr)
	}
}

// However a text with secrets is cut into reads, none is left, and every byte is
// there.
func TestMaskedReads(t *testing.T) {
	const text = "ab secret-one cd secret-two secret-one"
	for size := 1; size <= len(text); size++ {
		dir := t.TempDir()
		m, err := createReads(dir, []string{"secret-one", "secret-two", "****"})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(text); i += size {
			m.keep("r", exchange.Read{Data: []byte(text[i:min(i+size, len(text))]), N: int64(i)})
		}
		m.end("r")
		if _, err := m.close(); err != nil {
			t.Fatal(err)
		}
		var got []byte
		if _, err := eachLine(filepath.Join(dir, record.ReadsFile), func(line []byte) error {
			var r bench.Read
			err := json.Unmarshal(line, &r)
			got = append(got, r.Data...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if want := "ab ********** cd ********** **********"; string(got) != want {
			t.Errorf("in pieces of %d: %s", size, got)
		}
	}
}

// clean takes out the beginning of a key where a text was cut off.
func TestCleanCutKeys(t *testing.T) {
	s := &service{}
	s.hide("sk-verysecretkey")
	for text, want := range map[string]string{
		"bad key sk-verysecretkey!": "bad key (key)!", "bad key sk-very…": "bad key (key)…", "bad key sk-…": "bad key sk-…", "sk-very": "sk-very", "…": "…",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := fmt.Sprint(s.secrets); got != "[sk-verysecretkey]" {
		t.Error(got)
	}
}

// What is in server.jsonl is read or refused with its place.
func FuzzWords(f *testing.F) {
	f.Add("{\"format\":\"" + wordsFormat + "\",\"joins\":[]}\n{\"request_id\":\"a\",\"attempt\":1,\"server\":{\"source\":\"x\"}}\n{\"reque")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, record.ServerFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		d := &llmFolder{path: dir, words: map[wordKey]*record.Server{}}
		if err := d.readWords(); err != nil && !strings.Contains(err.Error(), record.ServerFile+":") {
			t.Error(err)
		}
	})
}

// Kept reads are read or refused with their line, and none is lost.
func FuzzKeptReads(f *testing.F) {
	f.Add("{\"request_id\":\"a\",\"data\":\"AAAA\"}\n{\"request_id\":\"a\",\"data\":\"AAAA\"}\n{\"requ", int64(6))
	f.Fuzz(func(t *testing.T, text string, n int64) {
		k := &keptReads{name: "reads.jsonl", in: bufio.NewReader(strings.NewReader(text)), open: map[string][]exchange.Read{}, bytes: map[string]int64{}}
		reads, whole, err := k.take("a", n)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "reads.jsonl:") {
				t.Error(err)
			}
			return
		}
		var got int64
		for _, r := range reads {
			got += int64(len(r.Data))
		}
		if whole != (got == n) {
			t.Errorf("%d bytes of %d: %v", got, n, whole)
		}
	})
}
