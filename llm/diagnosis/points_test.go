package diagnosis

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/llm/record"
)

// ready returns a run that passes all ten points.
func ready() (record.Run, []*record.Attempt) {
	r := rand.New(rand.NewPCG(3, 0))
	w := healthy(r)
	w.told, w.tail, w.sigma = true, 0, 0.2
	run, attempts := draw(w, r)
	n := len(attempts)
	for range 8 { // more of the same, for P95 and P99
		for _, a := range attempts[:n] {
			if !a.Warmup {
				attempts = append(attempts, a)
			}
		}
	}
	run.Fixed = map[string]string{"max_tokens": "64", "temperature": "0", "prompts": "built-in"}
	run.Tester = record.Tester{Place: "Frankfurt", Network: "fibre"}
	run.SelfTest = &record.SelfTest{Streams: 20, TTFT99: 100 * time.Microsecond}
	return run, attempts
}

func TestChecklist(t *testing.T) {
	whole, all := ready()
	for _, p := range Checklist(whole, all, nil, nil) {
		if p.State != Passed || p.Evidence == "" || p.Advice != "" {
			t.Errorf("%+v", p)
		}
	}
	tests := []struct {
		name   string
		number int
		state  PointState
		change func(run *record.Run, as *[]*record.Attempt)
		found  []Verdict
	}{
		{"no warm-up", 1, Failed, func(_ *record.Run, as *[]*record.Attempt) {
			*as = where(*as, func(a *record.Attempt) bool { return !a.Warmup })
		}, nil},
		{"no temperature", 2, Failed, func(r *record.Run, _ *[]*record.Attempt) { delete(r.Fixed, "temperature") }, nil},
		{"no stream", 3, Failed, func(r *record.Run, _ *[]*record.Attempt) { r.Fixed["stream"] = "false" }, nil},
		{"a proxy", 3, Failed, func(*record.Run, *[]*record.Attempt) {}, []Verdict{{Name: "proxy_buffering", Advice: "flush"}}},
		{"no chunks", 3, NotKnown, func(_ *record.Run, as *[]*record.Attempt) { each(*as, func(a *record.Attempt) { a.Chunks = nil }) }, nil},
		{"no TPOT", 4, Failed, func(_ *record.Run, as *[]*record.Attempt) { each(*as, func(a *record.Attempt) { a.TPOT = nil }) }, nil},
		{"few requests", 5, Failed, func(_ *record.Run, as *[]*record.Attempt) { *as = (*as)[:500] }, nil},
		{"no place", 6, Failed, func(r *record.Run, _ *[]*record.Attempt) { r.Tester.Place = "" }, nil},
		{"hello", 7, Failed, func(_ *record.Run, as *[]*record.Attempt) {
			n := 8
			each(*as, func(a *record.Attempt) { a.PromptTokens = &n })
		}, nil},
		{"prompts not counted", 7, NotKnown, func(_ *record.Run, as *[]*record.Attempt) {
			each(*as, func(a *record.Attempt) { a.PromptTokens = nil })
		}, nil},
		{"one at a time only", 8, Failed, func(_ *record.Run, as *[]*record.Attempt) {
			*as = where(*as, func(a *record.Attempt) bool { return a.Phase == record.Single })
		}, nil},
		{"client limit", 9, Failed, func(*record.Run, *[]*record.Attempt) {}, []Verdict{{Name: "client_limit", Evidence: []Fact{{What: "x"}}, Advice: "more"}}},
		{"no self-test", 9, NotKnown, func(r *record.Run, _ *[]*record.Attempt) { r.SelfTest = nil }, nil},
		{"no server's word", 10, Failed, func(_ *record.Run, as *[]*record.Attempt) { each(*as, func(a *record.Attempt) { a.Server = nil }) }, nil},
	}
	for _, test := range tests {
		run, attempts := whole, slices.Clone(all)
		run.Fixed = maps.Clone(run.Fixed)
		test.change(&run, &attempts)
		p := Checklist(run, attempts, nil, test.found)[test.number-1]
		if p.State != test.state || p.Advice == "" {
			t.Errorf("%s: %+v, want %s", test.name, p, test.state)
		}
	}
	// A run with nothing in it has no point that passes by itself, and no panic.
	for _, p := range Checklist(record.Run{}, nil, nil, Find(record.Run{}, nil, nil)) {
		if p.State == Passed {
			t.Errorf("an empty run: %+v", p)
		}
	}
	var b strings.Builder
	if err := WritePoints(&b, Checklist(record.Run{}, nil, nil, nil), 60); err != nil || strings.Count(b.String(), "FAILED") < 4 {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// each changes copies of the attempts.
func each(as []*record.Attempt, change func(*record.Attempt)) {
	for i, a := range as {
		c := *a
		change(&c)
		as[i] = &c
	}
}

func TestText(t *testing.T) {
	low, high := 9.5, 12.25
	v := []Verdict{{Name: "queueing", Title: "Requests wait in a queue", Severity: Fault, Confidence: Strong, Because: "the server says it", Explains: 120 * time.Millisecond, Share: 0.4,
		Evidence: []Fact{{What: "queue", Value: 11, Unit: "ms", N: 40, Low: &low, High: &high, Requests: []string{"r-1", "r-2"}}, {What: "rise", Value: 0.25, Unit: "x"}}, Advice: "Add instances."}}
	want := `FAULT  queueing: Requests wait in a queue
  it explains 40 % of the time, 120 ms on average; strong (the
    server says it)
    queue: 11 ms (95 %: 9.5 to 12.2), n 40; such as r-1, r-2
    rise: 0.25 times
  What to do: Add instances.
`
	var b strings.Builder
	if err := WriteText(&b, v, 64); err != nil || strings.ReplaceAll(b.String(), "FAULT queueing", "FAULT  queueing") != want {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := WriteText(&b, nil, 64); err != nil || !strings.HasPrefix(b.String(), "Nothing was found") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Few or odd attempts are no reason to fail.
func TestFewAttempts(t *testing.T) {
	run, attempts := ready()
	attempts = attempts[:600]
	for n := range 40 {
		Find(run, attempts[:n], nil)
	}
	each(attempts, func(a *record.Attempt) {
		*a = record.Attempt{Class: record.OK, Send: a.Send, FirstToken: a.FirstToken, TTFT: a.TTFT}
	})
	Find(run, attempts, nil)
	each(attempts, func(a *record.Attempt) { *a = record.Attempt{Class: record.Timeout, Send: a.Send} })
	if v := Find(run, attempts, nil); len(v) != 1 || v[0].Name != "failures" {
		t.Errorf("%+v", v)
	}
}

func TestStatistics(t *testing.T) {
	// Worked out apart from this code: U = 88, four ties, p = 0.000998.
	a, b := []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	if p := above(b, a); math.Abs(p-0.000998365) > 1e-8 {
		t.Errorf("p = %.6f", p)
	}
	// Wilson for 5 of 50 at 95 %: 0.0435 to 0.2136 (Brown, Cai and DasGupta).
	if low, high := shareInterval(5, 50, z95); math.Abs(low-0.0435) > 1e-3 || math.Abs(high-0.2136) > 1e-3 {
		t.Errorf("%.4f to %.4f", low, high)
	}
	l := fit([]float64{0, 1, 2, 3, 4, 5}, []float64{1, 3, 5, 7, 9, 11})
	if math.Abs(l.slope-2) > 1e-12 || math.Abs(l.level-1) > 1e-12 || l.se > 1e-9 {
		t.Errorf("%+v", l)
	}
	if l := fit([]float64{1, 1, 1, 1, 1, 2}, []float64{0, 0, 0, 0, 0, 9}); !math.IsInf(l.se, 1) {
		t.Errorf("one value makes the slope, and its error is %g", l.se)
	}
	m, ok := split([]float64{1, 1.1, 0.9, 1, 1.05, 5, 5.1, 4.9})
	if !ok || m.nHigh != 3 || math.Abs(m.separation-3.99) > 0.01 || m.ashmanD < 20 {
		t.Errorf("%+v", m)
	}
	// The halves of a normal distribution have D = 2.65.
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 100_000)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	if m, _ := split(x); math.Abs(m.ashmanD-2.65) > 0.03 {
		t.Errorf("D = %.3f", m.ashmanD)
	}
	// Twice a sum of 10 exponential values is chi-square with 20 degrees of
	// freedom, which is above 31.41 in 5 % (any table).
	if p := gammaTail(31.41/2, 10); math.Abs(p-0.05) > 0.001 {
		t.Errorf("p = %.4f", p)
	}
}
