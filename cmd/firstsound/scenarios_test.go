package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"firstsound/clocks/clockstest"
	"firstsound/pipeline/scenario"
)

// TestScenarioSymptoms looks for the symptom of every ready scenario with several
// seeds. Their draws are those of no other test, and the same in the scenario and
// its cures.
func TestScenarioSymptoms(t *testing.T) {
	percent := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	seeds := 5
	if clockstest.Race || testing.Short() {
		seeds = 1
	}
	all, err := lessons()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				v, err := judge(t.Context(), l, fmt.Sprintf("seed=%d", seed+1))
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range v.checks {
					if !c.Found {
						t.Errorf("seed %d: %s: %s: %s against %s", seed+1, c.Cure, c.Expected, c.Scenario, c.Cured)
					}
				}
				for i, r := range v.runs {
					if n := r.report.Faults.Count; n > 0 {
						t.Errorf("seed %d: run %d: %d faults in the record: %s", seed+1, i, n, r.report.Faults.First[0].Text)
					}
					if r.report.Headline.OK == 0 {
						t.Errorf("seed %d: run %d: no turn is ok", seed+1, i)
					}
				}
			}
		})
	}
}

// TestScenarioLinear holds TTFT against the length of the prompt: 2,000 tokens
// more cost about as much from 2,000 on as 1,950 do from 50 on. Attention, which
// grows faster, is the rest.
func TestScenarioLinear(t *testing.T) {
	yaml, _ := scenario.LibraryYAML("long-prompt")
	l, err := readLesson("long-prompt", yaml)
	if err != nil {
		t.Fatal(err)
	}
	var at [3]float64
	for i, tokens := range []int{50, 2000, 4000} {
		run, err := playLesson(t.Context(), l, fmt.Sprintf("conversation.system_prompt_tokens=%d", tokens))
		if err != nil {
			t.Fatal(err)
		}
		f, err := run.figure("ttft.p50")
		if err != nil || f.value == nil {
			t.Fatal(f, err)
		}
		at[i] = float64(*f.value)
	}
	if slope := (at[2] - at[1]) / 2000 / ((at[1] - at[0]) / 1950); slope < 0.9 || slope > 1.2 {
		t.Errorf("TTFT at 50, 2000 and 4000 tokens is %.1f ms: the second slope is %.2f of the first", []float64{at[0] / 1e6, at[1] / 1e6, at[2] / 1e6}, slope)
	}
}

func TestExpect(t *testing.T) {
	for _, tt := range []struct {
		text       string
		sick, well float64
		want       bool
	}{
		{"ttft.p50 at least 200ms more", 300e6, 100e6, true},
		{"ttft.p50 at least 200ms more", 299e6, 100e6, false},
		{"underrun.mean at least 5ms less", 1e6, 6e6, true},
		{"underrun.mean at least 5ms less", 6e6, 1e6, false},
		{"ttft.p95 at least 3 times", 30, 10, true},
		{"ttft.p95 at least 3 times", 29, 10, false},
		{"tail.llm.queue at least 3 times", 0, 0, false},
		{"ttft.p50 within 10%", 110, 100, true},
		{"ttft.p50 within 10%", 89, 100, false},
		{"turns.failed at least 5 more", 5, 0, true},
	} {
		e, err := parseExpect(tt.text)
		if err != nil || e.holds(tt.sick, tt.well) != tt.want {
			t.Errorf("%s: %v against %v is not %v, or %v", tt.text, tt.sick, tt.well, tt.want, err)
		}
	}
	e, err := parseExpect("ttfs.p50 at least 500ms more than first_filler.p50")
	if err != nil || e.figure != "ttfs.p50" || e.than != "first_filler.p50" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, text := range []string{"", "ttft.p50", "ttft.p50 within much", "ttft.p50 at most 3 times", "ttft.p50 at least 3 apples", "ttft.p50 at least 3ms more than", "ttft.p50 within 10% than x"} {
		if e, err := parseExpect(text); err == nil {
			t.Errorf("%q is %+v", text, e)
		}
	}
}

// sham is a scenario whose cure cures nothing.
const sham = `# A sham
#
# Pitfall: slow answer
#
# See: What there is,
#   on two lines.
# Why: So.
# Do: This.
#
# Cure nothing: load.turns=20
# Expect: ttft.p50 at least 10ms more

load: {turns: 20}
`

func TestScenarioNotFound(t *testing.T) {
	l, err := readLesson("sham", sham)
	if err != nil {
		t.Fatal(err)
	}
	if l.See != "What there is, on two lines." || l.Title != "A sham" {
		t.Errorf("read as %+v", l)
	}
	v, err := judge(t.Context(), l)
	if err != nil || v.found() {
		t.Errorf("a cure that changes nothing: found, or %v", err)
	}
	var b strings.Builder
	if err := v.writeText(&b); err != nil || !strings.Contains(b.String(), "NOT FOUND  nothing: ttft.p50 at least 10ms more") || !strings.Contains(b.String(), "the symptom was not found") {
		t.Errorf("%v\n%s", err, b.String())
	}
	for _, tt := range [][2]string{
		{"ttft.p50", "ttft.p51"}, {"ttft.p50", "tttf.p50"}, {"ttft.p50", "turns.odd"},
		{"# Why: So.\n", ""}, {"# Cure", "# Cura"}, {"slow answer", "bad luck"}, {"at least", "at most"}, {"load.turns", "load.turms"},
	} {
		l, err := readLesson("sham", strings.Replace(sham, tt[0], tt[1], 1))
		if err == nil {
			_, err = judge(t.Context(), l)
		}
		if err == nil {
			t.Errorf("%q in place of %q is no error", tt[1], tt[0])
		}
	}
}

func TestScenariosCommand(t *testing.T) {
	list, _, code := try("scenarios")
	asJSON, _, _ := try("scenarios", "--json")
	var decoded struct {
		Scenarios []struct{ Name, Title, Pitfall string }
	}
	if err := json.Unmarshal([]byte(asJSON), &decoded); err != nil || code != 0 || len(decoded.Scenarios) != len(scenario.Library()) {
		t.Errorf("exit code %d, %d scenarios, %v", code, len(decoded.Scenarios), err)
	}
	for _, s := range decoded.Scenarios {
		if !strings.Contains(list, s.Name) || !strings.Contains(list, s.Title) || !strings.Contains(list, s.Pitfall) {
			t.Errorf("%+v is not in\n%s", s, list)
		}
	}

	text, stderr, code := try("scenarios", "batch-window", "--seed", "3")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, want := range []string{"What you see", "Why", "What to do", "no-window: --set llm.server.batch_window=0s", "LLM TTFT, P50", "Verdict: the symptom was found."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	asJSON, _, code = try("scenarios", "batch-window", "--json")
	var one struct {
		Name  string
		Found bool
		Runs  []struct {
			Name    string
			Figures map[string]*int64
		}
		Checks []lessonCheck
	}
	if err := json.Unmarshal([]byte(asJSON), &one); err != nil || code != 0 || one.Name != "batch-window" || !one.Found || len(one.Runs) != 3 || len(one.Checks) != 6 {
		t.Fatalf("exit code %d, %+v, %v", code, one, err)
	}
	for _, r := range one.Runs {
		if r.Figures["ttft.p50"] == nil {
			t.Errorf("%s has no ttft.p50", r.Name)
		}
	}

	// What --yaml prints is a scenario that run runs, to the same figures.
	yaml, _, _ := try("scenarios", "batch-window", "--yaml")
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := try("run", file, "--json")
	if want := fmt.Sprintf(`"value": %d`, *one.Runs[0].Figures["ttft.p50"]); code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, %s: no %s in the report of the run", code, stderr, want)
	}

	for _, tt := range []struct{ args, want string }{
		{"scenarios bach-window", `there is no ready scenario "bach-window"; did you mean batch-window?`},
		{"scenarios xylophone", `there is no ready scenario "xylophone"; there are batch-window, buffering-gateway,`},
		{"scenarios --yaml", "--yaml and --seed are about one scenario: name it"},
		{"scenarios batch-window --yaml --json", "--yaml prints the scenario as it is"},
		{"scenarios a b", `"b" is one argument too many`},
	} {
		_, stderr, code := try(strings.Fields(tt.args)...)
		if code != 2 || !strings.HasPrefix(stderr, "firstsound: "+tt.want) {
			t.Errorf("firstsound %s: exit code %d, %s", tt.args, code, stderr)
		}
	}
}
