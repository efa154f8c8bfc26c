package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"firstsound/pipeline/scenario"
)

// try runs the program with args and returns what it prints and its exit code.
func try(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = run(args, streams{in: strings.NewReader(""), out: &out, err: &err, env: func(string) string { return "" }})
	return out.String(), err.String(), code
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"lsit", `there is no command "lsit"; did you mean list?`},
		{"frobnicate", `there is no command "frobnicate"`},
		{"a.yaml", `there is no command "a.yaml"; to run a scenario: firstsound run a.yaml`},
		{"help lsit", `there is no command "lsit"; did you mean list?`},
		{"init a b", `"b" is one argument too many: firstsound init [FILE] [flags]`},
		{"version 1", `version takes no arguments, and there is "1"`},
		{"version --jsno", "there is no flag --jsno; did you mean --json?"},
		{"version --xylophone", "there is no flag --xylophone"},
		{"version -x", "unknown shorthand flag: 'x' in -x"},
		{"list sam", `there is no stage or provider "sam"; did you mean sim?`},
		{"list xylophone", `there is no stage or provider "xylophone"; there are stages, providers, gpus, models, line, netsim, vad, energy,`},
		{"run --set asr.timeout=800", `--set asr.timeout=800: "800" is not a duration: write a number with its unit, such as 800ms`},
	} {
		stdout, stderr, code := try(strings.Fields(tt.args)...)
		want := "firstsound: " + tt.want
		first, hint, _ := strings.Cut(stderr, "\n")
		if code != 2 || stdout != "" || !strings.HasPrefix(first, want) {
			t.Errorf("firstsound %s: exit code %d, %q, error\n%s, want\n%s", tt.args, code, stdout, first, want)
		}
		if !strings.HasPrefix(hint, `Try "firstsound`) || strings.Count(hint, "\n") != 1 {
			t.Errorf("firstsound %s: the hint is %q", tt.args, hint)
		}
	}
}

func TestHelp(t *testing.T) {
	stdout, _, code := try()
	again, _, _ := try("--help")
	third, _, _ := try("help")
	if code != 0 || stdout != again || stdout != third {
		t.Errorf("exit code %d, and\n%s, is not\n%s, or\n%s", code, stdout, again, third)
	}
	for _, want := range []string{"Firstsound replays", "Usage:\n  firstsound COMMAND", "firstsound run scenario.yaml", "  version ", "Exit codes: 0"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for _, c := range newRoot(streams{}).Commands() {
		stdout, stderr, code := try("help", c.Name())
		again, _, _ := try(c.Name(), "--help")
		if code != 0 || stderr != "" || stdout != again || !strings.Contains(stdout, "\nUsage:\n  firstsound "+c.Name()) {
			t.Errorf("help %s: exit code %d,\n%s%s", c.Name(), code, stdout, stderr)
		}
		for line := range strings.Lines(stdout) {
			if len([]rune(line)) > 120 {
				t.Errorf("help %s: a long line: %s", c.Name(), line)
			}
		}
	}
}

func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := try("init")
	if code != 0 || stdout != "Wrote scenario.yaml. Change it, then: firstsound run scenario.yaml\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	data, err := os.ReadFile("scenario.yaml")
	if err != nil || string(data) != scenario.DefaultYAML() {
		t.Errorf("%v, %q", err, data)
	}

	if err := os.WriteFile("scenario.yaml", []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = try("init")
	if code != 1 || stderr != "firstsound: init: there is a scenario.yaml already: name another file, or overwrite it with --force\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if data, _ := os.ReadFile("scenario.yaml"); string(data) != "mine" {
		t.Errorf("it has been overwritten with %q", data)
	}
	if _, stderr, code = try("init", "--force"); code != 0 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if data, _ := os.ReadFile("scenario.yaml"); string(data) != scenario.DefaultYAML() {
		t.Errorf("it holds %q", data)
	}

	if stdout, _, code = try("init", "-"); code != 0 || stdout != scenario.DefaultYAML() {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	if _, stderr, code = try("init", filepath.Join("nowhere", "a.yaml")); code != 1 || !strings.HasPrefix(stderr, "firstsound: init: open nowhere") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestList(t *testing.T) {
	stdout, stderr, code := try("list")
	if again, _, _ := try("list", "stages"); code != 0 || stderr != "" || again != stdout {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	for _, want := range []string{"STAGE ", "\nline ", "\nvad ", "\nasr ", "\nturn ", "\nagent.steps ", "\nllm ", "\ntts ", " netsim ", " none "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	stdout, _, _ = try("list", "line.netsim")
	if want := "\n  playout.prebuffer: 100ms\n      How much sound has to be there before it plays."; !strings.Contains(stdout, want) {
		t.Errorf("no %q in\n%s", want, stdout)
	}
	stdout, _, _ = try("list", "vad")
	if !strings.Contains(stdout, "vad: provider energy, ") || !strings.HasSuffix(stdout, "vad: provider none, no VAD: the recognizer alone ends turns\n  no options\n") {
		t.Error(stdout)
	}
	stdout, _, _ = try("list", "providers")
	for _, p := range registry() {
		if !strings.Contains(stdout, p.stage+": provider "+p.name+", "+p.about+"\n") {
			t.Errorf("no %s.%s in the list of all providers", p.stage, p.name)
		}
	}
}

func TestVersion(t *testing.T) {
	stdout, _, code := try("version")
	want := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	if code != 0 || !strings.HasPrefix(stdout, "firstsound ") || !strings.HasSuffix(stdout, want) {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	var v version
	stdout, _, _ = try("version", "--json")
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v != thisVersion() {
		t.Errorf("%v, %v, not %v", err, v, thisVersion())
	}
	if s := (version{Version: "v1.2.3", Revision: "0123456789abcdef", Modified: true}).String(); s != "v1.2.3 0123456789ab (modified)" {
		t.Errorf("%q", s)
	}
}

// The default scenario has every option of the providers that it names, at the
// default of the provider, and with a comment; and no option is called like a
// key of the stage.
func TestDefaultScenarioHasAllOptions(t *testing.T) {
	s, err := scenario.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]scenario.Block{
		"line": s.Line, "vad": s.VAD, "asr": s.ASR.Block, "turn": s.Turn.Block, "llm": s.LLM.Block, "tts": s.TTS.Block,
		"agent.steps": s.Agent.Steps[0].Block, "agent.tools": s.Agent.Tools[0].Block,
	}
	generic := map[string][]string{
		"asr": {"provider", "timeout"}, "turn": {"provider", "min_delay", "max_delay", "add", "preemptive", "server"},
		"llm":         {"provider", "model", "max_tokens", "temperature", "attempts", "timeout", "backoff", "fallback"},
		"tts":         {"provider", "attempts", "timeout", "backoff", "fallback"},
		"agent.steps": {"provider", "name"}, "agent.tools": {"provider", "name"},
	}
	own := []string{"agent.steps.time", "agent.steps.tokens", "agent.tools.time", "agent.tools.tokens"} // have no default that suits all
	before := s.YAML()
	seen := 0
	for _, p := range registry() {
		for _, o := range scenario.Options(p.options) {
			if slices.Contains(generic[p.stage], o.Key) {
				t.Errorf("%s.%s: the option %s has the name of a key that every %[1]s has", p.stage, p.name, o.Key)
			}
		}
		if p.name != blocks[p.stage].Provider {
			continue
		}
		seen++
		if p.options == nil {
			continue
		}
		got := reflect.New(reflect.Indirect(reflect.ValueOf(p.options)).Type())
		got.Elem().Set(reflect.Indirect(reflect.ValueOf(p.options)))
		if err := blocks[p.stage].Decode(got.Interface()); err != nil {
			t.Errorf("%s: %v", p.stage, err)
			continue
		}
		for i, o := range scenario.Options(got.Interface()) {
			key := p.stage + "." + o.Key
			if want := scenario.Options(p.options)[i].Value; o.Value != want && !(o.Value == "0s" && want == "0") && !slices.Contains(own, key) {
				t.Errorf("%s is %s in the default scenario, and %s by itself", key, o.Value, want)
			}
			if p.comment(o.Key) == "" {
				t.Errorf("%s has no comment in the default scenario", key)
			}
		}
	}
	if seen != len(blocks) {
		t.Errorf("%d of the %d providers of the default scenario exist", seen, len(blocks))
	}
	if after := s.YAML(); after != before {
		t.Errorf("the default scenario lacks options: with all of them it is\n%s", after)
	}
}
