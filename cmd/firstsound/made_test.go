package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firstsound/pipeline/scenario"
)

func TestWithoutSecrets(t *testing.T) {
	for word, want := range map[string]string{
		"vad.stop=300ms":                               "vad.stop=300ms",
		"http://127.0.0.1:8090":                        "http://127.0.0.1:8090",
		"wss://u:p@host/ws?format=mulaw":               "wss://host/ws?...",
		"url=http://key:pw@host:1/v1":                  "url=http://host:1/v1",
		`tts.url="https://host/v1?key=secret"`:         `tts.url="https://host/v1?..."`,
		"udp://127.0.0.1:5004":                         "udp://127.0.0.1:5004",
		"turn:host:3478,user,ENV":                      "turn:host:3478,user,ENV",
		"see http://a b":                               "see http://a b",
		"://":                                          "://",
		"http://a:b%@c":                                "...",
		"asr.urls=[http://a:pw1@h/1,http://c:pw2@k/2]": "asr.urls=[http://h/1,http://k/2]",
	} {
		if got := withoutSecrets(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestSigned(t *testing.T) {
	text, err := json.Marshal(signed{maker{Tool: "x", Clock: scenario.Virtual}, struct {
		Format string `json:"format"`
	}{"f"}})
	if want := `{"made":{"tool":"x","go":"","os":"","arch":"","cpus":0,"clock":"virtual","command":""},"format":"f"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// Each result says what made it, and the command by which it is made again.
func TestResultsSayWhatMadeThem(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.jsonl")
	put(t, trace, `{"input_toks":5,"output_toks":5,"queued_ts":1}`+"\n")
	for _, args := range [][]string{
		{"replay", trace, "--json"},
		{"capacity", "--json", "--target", "ttfs.p50<20s", "--set", "llm.server.gpu=h100-sxm", "--max", "1", "--seeds", "2"},
		{"bench", "tts", "--provider", "sim", "--set", "chunk=1s", "--text", "Yes.", "--json", "--out", filepath.Join(dir, "tts")},
	} {
		stdout, stderr, code := try(args...)
		var r struct{ Made maker }
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
			t.Errorf("%v: %v, exit code %d, %s", args, err, code, stderr)
			continue
		}
		m := r.Made
		real := args[0] == "bench"
		if m.Tool == "" || m.Go == "" || m.CPUs == 0 || (m.Clock == scenario.Real) != real || (m.Started != "") != real || !strings.HasPrefix(m.Command, "firstsound "+args[0]) || !strings.Contains(m.Command, "--json") {
			t.Errorf("%v: %+v", args, m)
		}
	}
	var file maker
	var report struct{ Made maker }
	text, err := os.ReadFile(filepath.Join(dir, "tts", madeFile))
	if err != nil || json.Unmarshal(text, &file) != nil || json.Unmarshal([]byte(read(t, filepath.Join(dir, "tts", benchReportFile))), &report) != nil || file.Command == "" || file != report.Made {
		t.Errorf("%v, %+v", err, file)
	}
}
