package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firstsound/audio/realtime/mock"
	"firstsound/audio/realtime/s2sbench"
)

// The commands of the documents, one after the other: a mock that is known to take
// its time, and the benchmark against it.
func TestMockAndBenchS2S(t *testing.T) {
	t.Parallel()
	var serve, measure []string
	for line := range strings.Lines(string(read(t, filepath.Join(root, "docs", "speech.md")))) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "firstsound mock s2s"):
			serve = words(strings.TrimPrefix(line, "firstsound mock "))
		case strings.HasPrefix(line, "firstsound bench s2s --url"):
			measure = words(strings.TrimPrefix(line, "firstsound "))
		}
	}
	if serve == nil || measure == nil {
		t.Fatal("docs/speech.md does not show mock s2s and bench s2s --url")
	}
	dir := t.TempDir()
	truth, out := filepath.Join(dir, "truth.jsonl"), filepath.Join(dir, "out")
	written := ""
	for i := range serve {
		switch serve[i] {
		case "--listen":
			written, serve[i+1] = serve[i+1], "127.0.0.1:0"
		case "--truth":
			serve[i+1] = truth
		}
	}
	at, stop := startMocks(t, 1, append(serve, "--set", "silence=400ms", "--set", "create=20ms", "--set", "first=150ms", "--set", "lead=60ms", "--set", "length=500ms", "--set", "gap=5ms")...)
	if !strings.HasPrefix(at[0], "ws://127.0.0.1:") || !strings.HasSuffix(at[0], "/v1/realtime") {
		t.Errorf("it listens at %s", at[0])
	}
	for i := range measure {
		measure[i] = strings.ReplaceAll(measure[i], "ws://"+written, at[0])
	}
	text := must(t, append(measure, "--set", "silence_duration_ms=400", "--corpus", oneRecording(t), "--turns", "3", "--session-turns", "2", "--out", out, "--json")...)
	stop()
	var r s2sbench.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	l := r.Levels[0]
	if r.URL != at[0] || r.Cold == nil || l.Turns != 3 || l.Outcomes[s2sbench.OK] != 3 || l.Wait.N != 2 || l.First.N != 1 || len(l.Segments) != 5 {
		t.Errorf("%s", text)
	}
	if kept := read(t, filepath.Join(out, benchReportFile)); strings.TrimSpace(string(kept)) != strings.TrimSpace(text) {
		t.Errorf("the folder's report is another one:\n%s", kept)
	}
	sessions := truthLines[mock.Truth](t, truth)
	if len(sessions) != 2 || len(sessions[0].Responses) != 2 || len(sessions[1].Responses) != 1 {
		t.Fatalf("%+v", sessions)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(read(t, filepath.Join(out, benchTrialsFile)))), "\n") {
		var x s2sbench.Trial
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		for _, s := range x.Segments {
			sum += s.Took
		}
		// What the mock takes is in it; that a tick comes late only adds. The mock's
		// VAD and the recording may disagree about the end, by two windows.
		if least := 400*time.Millisecond + 20*time.Millisecond + 150*time.Millisecond + 55*time.Millisecond - 20*time.Millisecond; sum != *x.Wait || *x.Wait < least {
			t.Errorf("turn %d waits %v, its segments come to %v; at least %v", i, *x.Wait, sum, least)
		}
		if x.Transcript != mock.Defaults().Text || x.InSession != i%2 {
			t.Errorf("%+v", x)
		}
	}
}

// What is shown to people, against the agent in the program.
func TestBenchS2SMock(t *testing.T) {
	t.Parallel()
	text := must(t, "bench", "s2s", "--mock", "--corpus", oneRecording(t), "--turns", "2", "--set", "turn_detection=none", "--set", "voice=marin")
	for _, want := range []string{
		"· model mock · recordings: ", "turn detection: none: the caller says so at the true end", "cold, the first turn, whose times are in no other figure: ok, session in ",
		"1 at a time · 2 trials: 2 ok", "first audible sample, from the true end of the speech", "… endpoint+response", "the mean wait of ", " ms + onset ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestBenchS2SRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, benchTrialsFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                                    "name the agent: --url wss://HOST/v1/realtime",
		"--model gpt-realtime":                "--key-env: the service needs a key, and there is none in the environment variable OPENAI_API_KEY",
		"--url wss://h --key-env NOT_THERE":   "--key-env: there is nothing in the environment variable NOT_THERE",
		"--url wss://h --ca-file /nowhere":    "--ca-file: open /nowhere",
		"--url https://api.openai.com":        "begins with ws:// or wss://",
		"--url ws://h --language fr":          `no recording in the language "fr"`,
		"--url ws://h --turns -1":             "--turns takes",
		"--url ws://h --session-turns 0":      "--session-turns takes",
		"--url ws://h --concurrency 0":        "levels from 1 to 1000",
		"--url ws://h --set frame=0s":         "frame: 0s",
		"--url ws://h --set nothing=1":        "there is no key nothing",
		"--url ws://h --set turn_detection=x": "turn_detection:",
		"--url ws://h --out " + dir:           "there are trials",
		"--mock --url ws://h":                 "leave --url out",
		"--mock argument":                     "takes no arguments",
	} {
		_, stderr, code := try(append([]string{"bench", "s2s"}, strings.Fields(line)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("bench s2s %s: exit code %d, %s", line, code, stderr)
		}
	}
	for line, want := range map[string]string{
		"--set firstt=3s": "there is no key firstt",
		"--fault nothing": `"nothing" is none of`,
		"x.yaml":          "takes no arguments",
	} {
		_, stderr, code := try(append([]string{"mock", "s2s"}, strings.Fields(line)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("mock s2s %s: exit code %d, %s", line, code, stderr)
		}
	}
}

// Where nothing is well the exit code says so, and the report tells why; a key is
// not in it.
func TestBenchS2SFails(t *testing.T) {
	at, stop := startMocks(t, 1, "s2s", "--fault", "error=the key sk-secret-3 has no credit")
	var out, errs strings.Builder
	code := run([]string{"bench", "s2s", "--url", at[0], "--key-env", "MY_AGENT_KEY", "--corpus", oneRecording(t), "--turns", "1"}, streams{out: &out, err: &errs, env: func(name string) string {
		return map[string]string{"MY_AGENT_KEY": "sk-secret-3"}[name]
	}})
	stop()
	stdout, stderr := out.String(), errs.String()
	if code != exitFailed || !strings.Contains(stderr, "no trial was ok") || !strings.Contains(stdout, "1 failed") || !strings.Contains(stdout, "the key (key) has no credit") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if strings.Contains(stdout+stderr, "sk-secret-3") {
		t.Error("the key is shown")
	}
}
