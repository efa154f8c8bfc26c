package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"firstsound/llm/diagnosis"
	"firstsound/llm/record"
)

// execute runs one command with arguments and returns what it printed.
func execute(newCmd func(streams) *cobra.Command, args ...string) (out, warnings string, err error) {
	var o, e bytes.Buffer
	cmd := newCmd(streams{out: &o, err: &e, env: func(string) string { return "" }})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.Execute()
	return o.String(), e.String(), err
}

// runFolder writes a run folder with 40 requests, one a second, answered after 300 ms
// where change leaves them so.
func runFolder(t *testing.T, run record.Run, change func(i int, a *record.Attempt)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := record.Create(dir, record.Run{Format: record.Format, State: record.Running})
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *time.Duration { return &d }
	for i := range 40 {
		send := time.Duration(i) * time.Second
		first := send + 300*time.Millisecond
		a := &record.Attempt{RequestID: fmt.Sprintf("r-%d", i), Number: 1, Phase: record.Single, Level: 1, Class: record.OK, Status: 200, Send: &send, End: &first, FirstToken: &first, TTFT: at(300 * time.Millisecond)}
		change(i, a)
		if err := w.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	run.Format = record.Format
	if err := w.Close(run); err != nil {
		t.Fatal(err)
	}
	return dir
}

// halfRefused writes a run folder with 40 requests, of which half were refused.
func halfRefused(t *testing.T) string {
	return runFolder(t, record.Run{State: record.Complete}, func(i int, a *record.Attempt) {
		if i%2 == 1 {
			end := *a.Send + 5*time.Millisecond
			a.Class, a.Status, a.FirstToken, a.TTFT, a.End = record.HTTPError, 503, nil, nil, &end
		}
	})
}

func TestDiagnoseBench(t *testing.T) {
	dir := halfRefused(t)
	out, _, err := execute(newDiagnoseCmd, dir)
	if err != nil || !strings.Contains(out, "FAULT  failures_fast") && !strings.Contains(out, "FAULT failures_fast") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := execute(newDiagnoseCmd, dir, "--gate"); err == nil || err.Error() != "gate: 1 fault found" {
		t.Errorf("with a gate: %v", err)
	}
	out, _, err = execute(newDiagnoseCmd, dir, "--json")
	var got struct {
		Format   string
		Requests int
		Verdicts []diagnosis.Verdict
	}
	if wrong := json.Unmarshal([]byte(out), &got); err != nil || wrong != nil || got.Requests != 40 || len(got.Verdicts) != 1 || got.Format != "firstsound.diagnosis/1" {
		t.Errorf("%v, %v: %s", err, wrong, out)
	}
	// Half a last line is told, and the rest serves.
	f, err := os.OpenFile(filepath.Join(dir, record.RequestsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"request_id":`)
	f.Close()
	if err := os.WriteFile(filepath.Join(dir, record.MetricsFile), []byte("{\"at_ns\":5,\"values\":{\"q\":1}}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, warnings, err := execute(newDiagnoseCmd, dir); err != nil || !strings.Contains(warnings, "line 41 of requests.jsonl is cut off") {
		t.Errorf("%v, %s", err, warnings)
	}
	out, _, err = execute(newChecklistCmd, dir)
	if err != nil || strings.Count(out, "\n") < 10 || !strings.Contains(out, "1 sample of its monitoring") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := execute(newChecklistCmd, dir, "--gate"); err == nil || !strings.Contains(err.Error(), "of the checklist failed") {
		t.Errorf("the checklist with a gate: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, record.MetricsFile), []byte("no\nno\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(newDiagnoseCmd, dir); err == nil || !strings.Contains(err.Error(), "metrics.jsonl:1:") {
		t.Errorf("metrics that cannot be read: %v", err)
	}
}

// TestGatesOfPart has a run in which nothing is wrong, but which was broken off.
func TestGatesOfPart(t *testing.T) {
	for _, test := range []struct {
		state record.State
		why   string
	}{{record.Complete, ""}, {record.Interrupted, "Ctrl-C"}, {record.Running, "killed"}} {
		dir := runFolder(t, record.Run{State: test.state, Reason: "Ctrl-C"}, func(int, *record.Attempt) {})
		for _, command := range []struct {
			run  func(streams) *cobra.Command
			args []string
			part bool // the gate passes on a whole run
		}{{newDiagnoseCmd, []string{dir, "--gate"}, true}, {newShowCmd, []string{dir, "--gate", "ttft.p50<400ms"}, true}, {newShowCmd, []string{dir, "--against", dir, "--gate", "ttft.p50<400ms"}, true}, {newChecklistCmd, []string{dir, "--gate"}, false}} {
			out, _, err := execute(command.run, command.args...)
			switch {
			case test.why == "" && (err == nil) != command.part:
				t.Errorf("%q: %v\n%s", command.args, err, out)
			case test.why != "" && (err == nil || isUsage(err) || !strings.Contains(err.Error(), test.why)):
				t.Errorf("%s, %q: %v", test.state, command.args, err)
			}
		}
	}
}

func TestDiagnoseUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b"}, {"/nowhere/at/all"}} {
		for _, newCmd := range []func(streams) *cobra.Command{newDiagnoseCmd, newChecklistCmd} {
			if _, _, err := execute(newCmd, args...); !isUsage(err) {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
	if out, _, err := execute(newDiagnoseCmd, "--rules"); err != nil || strings.Count(out, "Found if:") != len(diagnosis.Rules()) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err := execute(newDiagnoseCmd, "--rules", "--json"); err != nil || strings.Count(out, `"test"`) != len(diagnosis.Rules()) {
		t.Errorf("%v\n%s", err, out)
	}
}

func isUsage(err error) bool {
	_, ok := err.(usageError)
	return ok
}

// TestDiagnoseScenarios diagnoses runs of the ready scenarios: each pitfall of
// the language model is found from the events alone, and those that lie elsewhere
// are not blamed on it.
func TestDiagnoseScenarios(t *testing.T) {
	tests := map[string]string{
		"buffering-gateway": "proxy_buffering", "client-limit": "client_limit", "two-places": "client_server_mismatch",
		"batch-window": "batch_window", "cold-start": "cold_start", "concurrency-storm": "queueing", "connection-per-request": "connection_per_request",
		"growing-history": "prefill_growth", "idle-reconnect": "idle_reconnect", "kv-exhaustion": "queueing", "long-prompt": "prefill_growth",
		"noisy-neighbour": "noisy_levels", "preemption": "queueing", "replica-failure": "failures_fast", "replica-scaling": "queueing",
		"slow-decoding": "slow_decoding", "slow-retrieval": "work_before_first_token", "tool-call": "work_before_first_token",
		"filler": "work_before_first_token", "lossy-network": "", "prebuffer": "", "slow-endpointing": "", "unsure-turn-detector": "", "preemptive-generation": "",
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			var text, quiet bytes.Buffer
			if code := run([]string{"scenarios", name, "--yaml"}, streams{out: &text, err: &quiet, env: func(string) string { return "" }}); code != 0 {
				t.Fatal(quiet.String())
			}
			dir := t.TempDir()
			file := filepath.Join(dir, name+".yaml")
			if err := os.WriteFile(file, text.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(dir, "run")
			run([]string{"run", file, "--out", out}, streams{out: &quiet, err: &quiet, env: func(string) string { return "" }})
			m, err := openMeasured(out)
			if err != nil {
				t.Fatal(err, quiet.String())
			}
			verdicts := diagnosis.Find(m.run, m.attempts, m.samples)
			found := slices.ContainsFunc(verdicts, func(v diagnosis.Verdict) bool { return v.Name == want })
			if want != "" && !found || want == "" && diagnosis.Faults(verdicts) > 0 {
				var b strings.Builder
				diagnosis.WriteText(&b, verdicts, 100)
				t.Errorf("want %q:\n%s", want, b.String())
			}
		})
	}
}
