package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mock that cannot begin leaves the truth file alone, which another one may write.
func TestMockKeepsTruth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, part := range []string{"asr", "tts", "s2s", "llm"} {
		truth := filepath.Join(t.TempDir(), "truth.jsonl")
		if err := os.WriteFile(truth, []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range [][]string{{"--listen", l.Addr().String()}, {"--fault", "nonsense"}} {
			cmd := newMockCmd(streams{out: io.Discard, err: io.Discard})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{part, "--truth", truth}, wrong...))
			if err := cmd.ExecuteContext(t.Context()); err == nil {
				t.Errorf("%s %v: it began", part, wrong)
			}
			if text := string(read(t, truth)); text != "kept" {
				t.Errorf("%s %v: the truth is %q now", part, wrong, text)
			}
		}
	}
}

// What is wrong is named by the flag that the user gave.
func TestBenchSpeechWords(t *testing.T) {
	for args, words := range map[string]string{
		"asr --provider nope":              "--provider nope: there is no provider",
		"asr --provider deepgram":          "--set asr.key_env: the service needs a key",
		"tts --provider cartesia":          "--set tts.key_env: the service needs a key",
		"asr --provider vosk --stop=-5ms":  "--stop -5ms is negative",
		"asr --provider vosk --tail=2000h": "--tail 2000h0m0s: it is at most 1m0s",
		"s2s --mock --set eagerness=wild":  "eagerness",
	} {
		cmd := newBenchCmd(streams{out: io.Discard, err: io.Discard, env: func(string) string { return "" }})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(args))
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), words) {
			t.Errorf("bench %s: %v", args, err)
		}
	}
}
