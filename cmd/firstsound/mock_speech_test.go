package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firstsound/asr/asrbench"
	"firstsound/asr/asrmock"
	"firstsound/audio/corpus"
	"firstsound/tts/ttsbench"
	"firstsound/tts/ttsmock"
)

// startMocks runs firstsound mock with arguments, and returns the addresses of its
// first lines, so many, and what ends it.
func startMocks(t *testing.T, lines int, args ...string) (at []string, stop func()) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := newMockCmd(streams{out: w, err: io.Discard})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	failed := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.CloseWithError(err)
		failed <- err
	}()
	out := bufio.NewReader(r)
	for range lines {
		line, err := out.ReadString('\n')
		_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
		if err != nil || !ok {
			t.Fatalf("mock %v: %q, %v", args, line, err)
		}
		url, _, _ = strings.Cut(url, " ")
		at = append(at, url)
	}
	return at, func() {
		cancel()
		io.Copy(io.Discard, out)
		if err := <-failed; err != nil {
			t.Errorf("mock %v: %v", args, err)
		}
	}
}

// truthLines reads a truth file behind its header.
func truthLines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(string(read(t, name))), "\n") {
		var x T
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			all = append(all, x)
		}
	}
	return all
}

// oneRecording makes a corpus of the shortest recording.
func oneRecording(t *testing.T) string {
	t.Helper()
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	shortest := all[0]
	for _, u := range all {
		if u.Language == "en" && u.End < shortest.End {
			shortest = u
		}
	}
	dir := t.TempDir()
	for _, ending := range []string{".wav", ".json"} {
		data := read(t, filepath.Join(root, "audio", "corpus", "recordings", shortest.ID+ending))
		if err := os.WriteFile(filepath.Join(dir, shortest.ID+ending), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The mocks of all three, and the benchmarks against them: what is measured is what
// was asked for and what the mocks tell, by the request's ID.
func TestMockAllAndBench(t *testing.T) {
	t.Parallel()
	truth := filepath.Join(t.TempDir(), "truth")
	at, stop := startMocks(t, 3, "all", "--set", "asr.finalize=120ms", "--set", "asr.keep_silent=true",
		"--set", "tts.first_audio=30ms", "--set", "tts.lead_silence=0s", "--set", "llm.first=5ms", "--truth", truth)
	if !strings.HasPrefix(at[0], "http://127.0.0.1:") || !strings.HasPrefix(at[1], "ws://127.0.0.1:") || !strings.HasPrefix(at[2], "http://127.0.0.1:") {
		t.Errorf("they listen at %v", at)
	}
	dir := oneRecording(t)
	out := filepath.Join(t.TempDir(), "asr")
	var r asrbench.Report
	text := must(t, "bench", "asr", "--provider", "deepgram", "--set", "url="+at[1], "--corpus", dir, "--rounds", "2", "--tail", "400ms", "--out", out, "--json")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	l := r.Levels[0]
	if l.Trials != 2 || l.Outcomes[asrbench.OK] != 2 || l.Final.N != 1 || *l.Final.Min < int64(320*time.Millisecond) || *l.WER != 0 {
		t.Errorf("%+v", l)
	}
	if kept := read(t, filepath.Join(out, benchReportFile)); strings.TrimSpace(string(kept)) != strings.TrimSpace(text) {
		t.Errorf("the folder's report is another one:\n%s", kept)
	}
	text = must(t, "bench", "tts", "--provider", "cartesia", "--set", "url=ws"+strings.TrimPrefix(at[2], "http"), "--text", "Yes.", "--rounds", "2")
	if !strings.Contains(text, "1 at a time · 2 trials: 2 ok") || !strings.Contains(text, "cold, the first trial, whose times are in no other figure: ok, connected in ") {
		t.Error(text)
	}
	stop()
	heard := truthLines[asrmock.Truth](t, filepath.Join(truth, "asr.jsonl"))
	for i, line := range strings.Split(strings.TrimSpace(string(read(t, filepath.Join(out, benchTrialsFile)))), "\n") {
		var x asrbench.Trial
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		u := heard[i].Utterances[0]
		if x.RequestID != heard[i].RequestID || u.Finals[0]-*u.Asked < 120*time.Millisecond || *x.AfterStop < u.Finals[0]-*u.Asked {
			t.Errorf("trial %d: %s, %v after the listener's word; the mock: %+v", i, line, *x.AfterStop, heard[i])
		}
	}
	if spoken := truthLines[ttsmock.Truth](t, filepath.Join(truth, "tts.jsonl")); len(spoken) == 0 || strings.TrimSpace(spoken[0].Pieces[0].Text) != "Yes." {
		t.Errorf("%+v", spoken)
	}
}

// A mock takes its times from a scenario, speaks TLS, and misbehaves.
func TestMockTTSFromScenario(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, []byte("tts: {first_audio: 45ms, lead_silence: 0s}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	truth := filepath.Join(dir, "truth.jsonl")
	at, stop := startMocks(t, 2, "tts", file, "--tls", "--ca-out", ca, "--wyoming", "127.0.0.1:0", "--truth", truth, "--fault", "wrong_rate=8000,p=0")
	var r ttsbench.Report
	text := must(t, "bench", "tts", "--provider", "openai", "--set", "url="+at[0]+"/v1", "--set", "ca_file="+ca, "--text", "Yes.", "--rounds", "2", "--json")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if l := r.Levels[0]; l.Outcomes[ttsbench.OK] != 2 || *l.FirstByte.Min < int64(45*time.Millisecond) {
		t.Errorf("%+v", l)
	}
	must(t, "bench", "tts", "--provider", "wyoming", "--set", "url="+at[1], "--text", "Yes.")
	stop()
	for _, x := range truthLines[ttsmock.Truth](t, truth) {
		if len(x.Pieces) == 0 || x.Pieces[0].Chunks[0]-x.Pieces[0].Arrived < 45*time.Millisecond {
			t.Errorf("%+v", x)
		}
	}
}

func TestMockSpeechRefuses(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.yaml")
	if err := os.WriteFile(other, []byte("clock: real\nasr: {provider: pocketsphinx}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"asr --listen 0.0.0.0:0":             "others could reach it",
		"tts --listen nowhere":               "write ADDRESS:PORT",
		"tts --wyoming 10.0.0.1:0":           "--wyoming 10.0.0.1:0: others could reach it",
		"asr --set finall=3s":                "there is no key finall",
		"asr --set final=tomorrow":           "--set final=tomorrow: ",
		"asr --set final":                    "write KEY=VALUE",
		"asr --fault nothing":                `"nothing" is none of`,
		"tts --set rtf=-1":                   "rtf: -1",
		"tts --ca-out x":                     "--ca-out goes with --tls",
		"all --set final=3s":                 "say whose it is",
		"all --fault drop":                   "say whose it is",
		"asr " + other:                       "asr.provider: the mock takes its times from the provider sim",
		"asr " + filepath.Join(dir, "no"):    "no such file",
		"asr --corpus " + dir:                "WAV",
		"tts a b":                            "one argument too many",
		"tts --truth " + dir:                 "is a directory",
		"all --truth " + other:               "not a directory",
		"asr --text x --tls --listen ::1:::": "write ADDRESS:PORT",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // one that is not refused ends at once
		cmd := newMockCmd(streams{out: io.Discard, err: io.Discard})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(line))
		if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mock %s: %v, want %q", line, err, want)
		}
	}
}

func TestBenchSpeechRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, benchTrialsFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"asr":                                              "name a provider",
		"asr --provider nobody":                            `there is no provider "nobody"`,
		"asr --provider sim --concurrency 0":               "levels from 1 to 1000",
		"asr --provider sim --rounds 0":                    "--rounds takes",
		"asr --provider sim --language fr":                 `no recording in the language "fr"`,
		"asr --provider sim --tail 100ms":                  "shorter than --stop",
		"asr --provider sim --stop -1s":                    "--stop -1s is negative",
		"asr --provider sim --set timeout=3s":              "a key of the pipeline",
		"tts --provider flite --set tts.attempts=3":        "a key of the pipeline",
		"asr --provider deepgram":                          "DEEPGRAM_API_KEY",
		"asr --provider sim --out " + dir:                  "there are trials",
		"asr --provider sim --set nothing=1":               "nothing",
		"asr --provider sim --corpus /nowhere":             "/nowhere",
		"tts --provider cartesia":                          "CARTESIA_API_KEY",
		"tts --provider flite --language fr":               "give your own with --text",
		"tts --provider openai --set url=ftp://127.0.0.1/": "tts.url",
	} {
		_, stderr, code := try(append([]string{"bench"}, strings.Fields(line)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("bench %s: exit code %d, %s", line, code, stderr)
		}
	}
}

// Where nothing is well the exit code says so, and the report tells why; a key is
// not in it.
func TestBenchTTSFails(t *testing.T) {
	t.Setenv("CARTESIA_API_KEY", "sk-secret-1")
	at, stop := startMocks(t, 1, "tts", "--fault", "refuse=401")
	stdout, stderr, code := try("bench", "tts", "--provider", "cartesia", "--set", "url=ws"+strings.TrimPrefix(at[0], "http"), "--text", "Yes.")
	stop()
	if code != exitFailed || !strings.Contains(stderr, "no trial was ok") || !strings.Contains(stdout, "1 refused") || !strings.Contains(stdout, "refused with 401 (simulated)") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if strings.Contains(stdout+stderr, "sk-secret-1") {
		t.Error("the key is shown")
	}
}

// Engines shows all that is real, never a key, and is always content.
func TestEngines(t *testing.T) {
	t.Parallel()
	get := func(name string) string {
		if name == "DEEPGRAM_API_KEY" {
			return "sk-secret-2"
		}
		return ""
	}
	var out strings.Builder
	if code := run([]string{"engines", "--json"}, streams{out: &out, err: io.Discard, env: get}); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(out.String(), "sk-secret-2") {
		t.Error("the key is shown")
	}
	var all []engine
	if err := json.Unmarshal([]byte(out.String()), &all); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range all {
		kinds[e.Kind]++
		switch name := e.Stage + "." + e.Provider; {
		case name == "asr.deepgram" || name == "tts.deepgram" || name == "asr.deepgram-flux":
			if !e.Usable || e.KeySet == nil || !*e.KeySet || e.KeyEnv != "DEEPGRAM_API_KEY" {
				t.Errorf("%+v", e)
			}
		case e.Kind == kindService:
			if e.Usable || *e.KeySet || !strings.Contains(e.Status, e.KeyEnv) {
				t.Errorf("%+v", e)
			}
		case e.Kind == kindLocal:
			if e.Usable != (e.Check != nil) || !e.Usable && e.Packages != nil && !strings.Contains(e.Status, e.Packages[0]) {
				t.Errorf("%+v", e)
			}
		case e.Kind == kindModel:
			if !e.Usable {
				t.Errorf("%+v", e)
			}
		}
	}
	if kinds[kindService] < 11 || kinds[kindLocal] < 3 || kinds[kindServer] < 5 || kinds[kindModel] < 6 {
		t.Errorf("%v", kinds)
	}
}
