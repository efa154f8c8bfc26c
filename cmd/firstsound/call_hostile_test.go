package main

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/ear"
)

// An agent that repeats the token in what it answers does not get it into the report or
// the files.
func TestCallHidesToken(t *testing.T) {
	const token = "topsecret-token-xyz"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/401" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		io.WriteString(w, "you said "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	for _, args := range [][]string{{"/ok"}, {"/401"}, {"/ok", "--protocol", "ws"}, {"/ok", "--protocol", "twilio"}, {"/ok", "--protocol", "openai"}} {
		dir := t.TempDir()
		var out, errs bytes.Buffer
		root := newRoot(streams{in: strings.NewReader(""), out: &out, err: &errs, env: func(string) string { return token }})
		root.SetArgs(append([]string{"call", server.URL + args[0], "--token-env", "X", "--turns", "1", "--out", dir}, args[1:]...))
		if err := root.ExecuteContext(t.Context()); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%v: %v", args, err)
		}
		said := out.String() + errs.String()
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				text, _ := os.ReadFile(name)
				said += string(text)
			}
			return err
		})
		if strings.Contains(said, token) {
			t.Errorf("%v: %s", args, said)
		}
	}
}

// A lineOf is a line of which only the codec is asked.
type lineOf struct {
	voiceLine
	c codec.Codec
}

func (l lineOf) codec() codec.Codec { return l.c }
func (l lineOf) track() bool        { return true }

// An agent that sends more than anybody can hear is cut off before it fills the memory.
func TestCallFlooded(t *testing.T) {
	for name, samples := range map[string]int{"long packets": 8000, "short packets": 1} {
		call := &talk{connected: time.Second}
		f := audio.Frame{Rate: 8000, PCM: make([]int16, samples)}
		for i := range 100_000 {
			call.hear(ear.Packet{Index: int64(i), Arrived: 2 * time.Second, Sound: f})
		}
		if call.broken() == nil || len(call.packets) > mostPackets+501 {
			t.Errorf("%s: %d packets are kept, %v", name, len(call.packets), call.broken())
		}
	}
	// A minute of answers that came at once, and an hour of packets of 10 ms, are none.
	call := &talk{}
	second := audio.Frame{Rate: 8000, PCM: make([]int16, 8000)}
	for range 60 {
		call.hear(ear.Packet{Arrived: time.Second, Sound: second})
	}
	short := audio.Frame{Rate: 8000, PCM: make([]int16, 80)}
	for i := range 360_000 {
		call.hear(ear.Packet{Arrived: time.Duration(i) * 10 * time.Millisecond, Sound: short})
	}
	if err := call.broken(); err != nil {
		t.Error(err)
	}
}

// A stream of which nobody can make sense costs no turn: each is counted, as not judged.
func TestCallNotJudged(t *testing.T) {
	c, err := codec.Named(codec.PCMU)
	if err != nil {
		t.Fatal(err)
	}
	f := audio.Frame{Rate: 8000, PCM: make([]int16, 160)}
	caller := &caller{callCmd: &callCmd{}, web: &webClient{}}
	talk := &talk{c: caller, line: lineOf{c: c}}
	for i := range 100 {
		stamp := uint32(160 * i)
		if i > 50 {
			stamp += 2 * 3600 * 8000
		}
		talk.packets = append(talk.packets, ear.Packet{Index: int64(i), Timestamp: stamp, Arrived: time.Duration(i) * codec.Frame, Sound: f})
	}
	u := &audio.Utterance{ID: "hello"}
	r := &callResult{number: 1, talk: talk, codec: c, asked: []turnAsked{{id: "a", utterance: u}, {id: "b", utterance: u}}}
	r.judge()
	report := newCallReport(caller, []*callResult{r})
	if report.Unjudged != 2 || len(report.Turns) != 2 || len(report.Errors) != 1 || !strings.Contains(report.Errors[0], "jumps") {
		t.Errorf("%d of %d, %q", report.Unjudged, len(report.Turns), report.Errors)
	}
	if err := report.verdict(false); err == nil || !strings.Contains(err.Error(), "1 of 1 calls failed") {
		t.Error(err)
	}
	var text bytes.Buffer
	report.text(&text)
	if !strings.Contains(text.String(), "not judged 2") {
		t.Error(text.String())
	}
}

func TestCallStrict(t *testing.T) {
	r := &callReport{Answered: 2, Other: 1}
	if err := r.verdict(true); err == nil || !strings.Contains(err.Error(), "1 of 2 answers are not the one") {
		t.Error(err)
	}
	if err := r.verdict(false); err != nil {
		t.Error(err)
	}
}

// A run in which every turn failed has failed.
func TestRunFails(t *testing.T) {
	if _, stderr, code := try("run", "--turns", "20", "--set", "llm.fail=1"); code != exitFailed || !strings.Contains(stderr, "no turn was answered: all 20 failed") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := try("run", "--turns", "20", "--set", "llm.fail=0.5"); code != exitOK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
