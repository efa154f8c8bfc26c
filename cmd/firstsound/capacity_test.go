package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"firstsound/pipeline/report"
)

func TestParseGoal(t *testing.T) {
	for text, limit := range map[string]int64{"ttfs.p95<900ms": 900e6, " ttft.p50 <= 0.3s ": 300e6, "tpot.p99<20ms": 20e6} {
		if g, err := parseGoal(text); err != nil || int64(g.limit) != limit || g.orEqual != strings.Contains(text, "=") {
			t.Errorf("%s: %+v, %v", text, g, err)
		}
	}
	for _, text := range []string{"", "ttfs<1s", "ttfs.p90<1s", "ttfs.p95<1", "ttfs.p95<-1s", "ttfs.p95>1s", "tokens.p50<1s", "output_tokens.p50<1s"} {
		if g, err := parseGoal(text); err == nil {
			t.Errorf("%q is %+v", text, g)
		}
	}
}

// One turn in a hundred may get no answer. Warm-up counts on neither side: a
// capacity run has as many turns of it as of others.
func TestGoalMet(t *testing.T) {
	value := int64(900e6)
	for _, tt := range []struct {
		goal            string
		ok, failed, hot int64
		want            bool
	}{
		{"ttfs.p50<901ms", 990, 10, 0, true},
		{"ttfs.p50<901ms", 989, 11, 0, false},
		{"ttfs.p50<901ms", 989, 11, 1000, false},
		{"ttfs.p50<900ms", 1000, 0, 0, false},
		{"ttfs.p50<=900ms", 1000, 0, 0, true},
		{"ttfs.p95<2s", 1000, 0, 0, false}, // there is none
	} {
		g, err := parseGoal(tt.goal)
		if err != nil {
			t.Fatal(err)
		}
		r := &report.Report{Metrics: make([]report.MetricRow, report.MetricCount), Outcomes: []report.OutcomeRow{
			{Outcome: "ok", Turns: tt.ok}, {Outcome: "no_reply", Turns: tt.failed / 2}, {Outcome: "failed:llm", Turns: tt.failed - tt.failed/2}, {Outcome: "warmup", Turns: tt.hot}}}
		r.Metrics[report.MetricTTFS].Values.P50.Value = &value
		if got, figure := g.met(r); got != tt.want {
			t.Errorf("%+v: %v, %s", tt, got, figure)
		}
	}
}

// Headroom is kept free of the calls that were found: 30 per cent of 832 leave 582.
func TestCapacitySums(t *testing.T) {
	c := &capacityCmd{headroom: 30, most: 1000}
	g, _ := parseGoal("ttfs.p95<1s")
	f := c.sum(g, nil, []*searched{{calls: 848}, {calls: 832}, {calls: 1000}})
	if f.Calls != 848 || f.Low != 832 || f.High != 1000 || f.Planned != 593 || f.AtMost || f.Seeds != 3 {
		t.Errorf("%+v", f)
	}
	if f := c.sum(g, nil, []*searched{{calls: 832}}); f.Planned != 582 {
		t.Errorf("%+v", f)
	}
	if f := c.sum(g, nil, []*searched{{calls: 1000}, {calls: 1000}, {calls: 10}}); !f.AtMost {
		t.Errorf("%+v", f)
	}
}

// All calls begin at once: the first one of each is warm-up, however long it is.
func TestCapacityWarmsUp(t *testing.T) {
	c := &capacityCmd{set: []string{"conversation.turns=9"}}
	all := c.settings([]string{"vad.stop=300ms"}, 700, 9, 3)
	for _, want := range []string{"load.warmup=6300", "load.turns=6300", "load.sessions=700", "seed=3", "vad.stop=300ms"} {
		if !slices.Contains(all, want) {
			t.Errorf("no %s in %v", want, all)
		}
	}
}

// What a scenario says about its load is not what capacity searches with.
func TestCapacityOfAnyLoad(t *testing.T) {
	name := t.TempDir() + "/s.yaml"
	put(t, name, "load: {arrival: trace, trace: nowhere.csv, duration: 1s}\nseed: 9\n")
	text := must(t, "capacity", name, "--target", "ttfs.p50<1ms", "--seeds", "1", "--max", "1")
	if !strings.Contains(text, "not even one call keeps to it: ") || !strings.Contains(text, "with one seed") || !strings.Contains(text, "plan for 0") {
		t.Error(text)
	}
	text = must(t, "capacity", name, "--target", "ttfs.p50<1h", "--seeds", "1", "--max", "2", "--try", "vad.stop=300ms", "--json")
	var got struct {
		Target string
		Found  []capacity
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Found) != 2 || got.Found[0].Calls != 2 || !got.Found[0].AtMost || got.Found[0].Planned != 1 || got.Target != "ttfs.p50<1h" {
		t.Errorf("%s, %v", text, err)
	}
	if strings.Contains(text, `\u003c`) {
		t.Error(text)
	}
}

// What was found when the user ends it is printed, and what is missing is said.
func TestCapacityInterrupted(t *testing.T) {
	var out strings.Builder
	c := &capacityCmd{streams: streams{out: &out}, most: 100, seeds: 2, headroom: 30}
	g, _ := parseGoal("ttfs.p50<1s")
	choices := [][]string{nil, {"vad.stop=300ms"}, {"vad.stop=400ms"}}
	all := []*searched{{calls: 40}, {calls: 42}, nil, {calls: 50}, nil, nil}
	err := c.answer(g, choices, all, context.Canceled)
	if err == nil || err.Error() != "3 of 6 searches are missing: context canceled" {
		t.Error(err)
	}
	for _, want := range []string{"40   40 … 42   plan for 28 (30 % headroom)\n", "50   50 … 50   plan for 35 (30 % headroom)   of 1 seeds only   +10", "vad.stop=300ms buys most: 10 calls more."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "400ms") {
		t.Error(out.String())
	}
	out.Reset()
	if err := c.answer(g, choices, make([]*searched, 6), context.Canceled); err != context.Canceled || out.Len() > 0 {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestCapacityUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                                    "capacity needs a target",
		"--target x":                                          "write METRIC.QUANTILE<TIME",
		"--target ttfs.p95<1s --max 0":                        "--max takes 1 to 100000",
		"--target ttfs.p95<1s --seeds 0":                      "--seeds takes 1 to 100",
		"--target ttfs.p95<1s --headroom 100":                 "--headroom takes 0 to 99 per cent",
		"--target ttfs.p95<1s --set seed=3":                   "capacity sets load.* and seed itself",
		"--target ttfs.p95<1s --try load.turns=3":             "capacity sets load.* and seed itself",
		"--target ttfs.p95<1s --try vad.stopp=1s":             "has no such key; did you mean stop?",
		"--target ttfs.p95<1s --set clock=real":               "need the virtual clock",
		"--target ttfs.p95<1s --try llm.server.replicas=-1":   "replicas",
		"--target ttfs.p95<1s --set llm.server={gpu:xx}":      "llm.server",
		"nowhere.yaml --target ttfs.p95<1s --try vad.stop=1s": "nowhere.yaml: there is no such file",
	} {
		out, errs, code := try(append([]string{"capacity"}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s%s", args, code, out, errs)
		}
	}
}
