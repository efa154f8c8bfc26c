package figures

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
	"firstsound/page"
)

func TestSlope(t *testing.T) {
	// The right values are from the textbook formulas, worked out apart.
	l := &line{}
	for i, y := range []float64{30, 90, 70, 120, 150, 130, 200, 180, 250, 240, 300, 270} {
		l.add(50+100*float64(i), y)
	}
	at, half, ok := l.slope()
	if !ok || math.Abs(at-0.2283216783) > 1e-9 || math.Abs(half-0.0422621583) > 1e-5 {
		t.Errorf("%.10f ± %.10f, %v", at, half, ok)
	}
	same := &line{}
	for range 20 {
		same.add(5, 7)
	}
	if _, _, ok := same.slope(); ok {
		t.Error("points at one x have a slope")
	}
	if _, _, ok := (&line{}).slope(); ok {
		t.Error("no points have a slope")
	}
}

func TestStudent(t *testing.T) {
	// From a table of Student's t.
	for v, want := range map[float64]float64{10: 2.228139, 20: 2.085963, 30: 2.042272, 120: 1.979930} {
		if got := t975(v); math.Abs(got-want) > 2e-4 {
			t.Errorf("%g degrees of freedom: %.6f, want %.6f", v, got, want)
		}
	}
}

// TestBootstrapCovers draws pairs of samples of one population: the interval of
// the ratio of medians must hold 1 in about 95 % of them.
func TestBootstrapCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	draw := func() []int64 {
		out := make([]int64, 80)
		for i := range out {
			out[i] = int64(1e8 * math.Exp(0.3*r.NormFloat64()))
		}
		slices.Sort(out)
		return out
	}
	const draws = 100
	held := 0
	for range draws {
		low, high := between95(draw(), draw(), []float64{0.5}, millionths)
		if low[0] <= 1e6 && 1e6 <= high[0] {
			held++
		}
	}
	if share := float64(held) / draws; share < 0.90 || share == 1 {
		t.Errorf("the interval holds the true ratio in %.3f of the draws", share)
	}
}

// TestDraw holds a drawn sample to the values it is from, in order.
func TestDraw(t *testing.T) {
	values := []int64{1, 5, 9, 9, 30}
	b := newBootstrap(values)
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[int64]int{}
	for range 2000 {
		got := b.draw(r)
		if len(got) != 5 || !slices.IsSorted(got) {
			t.Fatalf("%v", got)
		}
		for _, v := range got {
			seen[v]++
		}
	}
	// 9 is there twice: 4,000 of 10,000, the others 2,000 each.
	for v, want := range map[int64]int{1: 2000, 5: 2000, 9: 4000, 30: 2000} {
		if seen[v] < want-200 || seen[v] > want+200 {
			t.Errorf("%d was drawn %d times, want about %d", v, seen[v], want)
		}
	}
}

func TestReservoir(t *testing.T) {
	s := newSample()
	for i := range 10 * keep {
		s.add(int64(i))
	}
	median, _ := quantile.Of(s.sorted(), 0.5)
	if len(s.values) != keep || median < 4*keep || median > 6*keep {
		t.Errorf("%d values, median %d", len(s.values), median)
	}
}

func TestGoodput(t *testing.T) {
	limits, err := ParseGoodput("ttft:300, tpot:50ms,e2e:2s")
	if err != nil || !slices.Equal(limits, []Limit{{"ttft", 300 * msec}, {"tpot", 50 * msec}, {"e2e", 2 * time.Second}}) {
		t.Fatalf("%v, %v", limits, err)
	}
	for _, bad := range []string{"", "ttft", "ttft:", "ttft:-1", "ttft:0", "itl:5", "ttft:1,ttft:2", "ttft:NaN", "ttft:1e99", "e2e:5 apples"} {
		if got, err := ParseGoodput(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	for _, test := range []struct {
		ttft, tpot, total time.Duration
		want              bool
	}{{300 * msec, 50 * msec, 2 * time.Second, true}, {301 * msec, 50 * msec, time.Second, false}, {1, 51 * msec, 1, false}, {1, 1, 2001 * msec, false}} {
		a := &record.Attempt{TTFT: &test.ttft, TPOT: &test.tpot, Total: &test.total}
		if isGood(a, limits) != test.want {
			t.Errorf("%+v", test)
		}
	}
	if !isGood(&record.Attempt{TTFT: new(msec), Total: new(msec)}, limits) || isGood(&record.Attempt{TPOT: new(msec)}, limits) {
		t.Error("a reply of one token is not good, or one without TTFT is")
	}
}

func TestGate(t *testing.T) {
	r := sampleReport(t)
	for _, test := range []struct {
		gate string
		ok   bool
		why  string
	}{
		{"single:ttft.p50<180ms", true, "TTFT p50 is 179.2"},
		{"single:ttft.p50<179ms", false, "179.2"},
		{"single:ttft.p95<400", false, "the maximum (n = 40 does not support P95, which needs 130) is 400.2"},
		{"single:ttft.p95<401", true, "400.2"},
		{"level10:ttft.p95<400ms", false, "635.6"},
		{"level 10:ttft.p99<9s", false, "got no answer, which counts as late"},
		{"level10:failures<5%", true, "3.2"},
		{"failures<3%", false, "level 10: 3.2"},
		{"goodput>=0%", true, ""},
		{"single:goodput>90%", true, "95.0"},
		{"ttft.p50<400ms", false, "level 10"},
		{"ttft.p50<500ms", true, "rate 4/s"},
		{"level99:ttft.p50<1s", false, "no part level99 was measured"},
		{"first_reasoning.p50<1s", false, "no values of first_reasoning"},
		{"single:output_tokens.max<=52", true, "52"},
		{"single:output_tokens.max<52", false, "52"},
		{"turn2:e2e.mean<1s", true, ""},
	} {
		g, err := ParseGate(test.gate)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Pass(g)
		if why := plain(strings.Join(got.Why, "; ")); got.OK != test.ok || !strings.Contains(why, test.why) {
			t.Errorf("%s: %v, %s", test.gate, got.OK, why)
		}
	}
	for _, bad := range []string{"", "ttft", "ttft<400", "ttft.p42<1", "speed.p50<1", "ttft.p50<", "ttft.p50<-4", "failures<4", "failures<101%", "goodput>NaN%", "output_tokens.p50<4ms"} {
		if g, err := ParseGate(bad); err == nil {
			t.Errorf("%q is %+v", bad, g)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("level10:ttft.p95<=400ms")
	f.Add("ttft:300,tpot:50,e2e:2000")
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := ParseGate(s); err == nil && (g.Limit < 0 || math.IsNaN(g.Limit)) {
			t.Errorf("%q: %+v", s, g)
		}
		if limits, err := ParseGoodput(s); err == nil && (len(limits) == 0 || limits[0].Most <= 0) {
			t.Errorf("%q: %+v", s, limits)
		}
	})
}

// FuzzReport writes the report of whatever a file of records may hold.
func FuzzReport(f *testing.F) {
	f.Add(`{"class":"ok","send_ns":5,"ttft_ns":4,"tpot_ns":-7,"total_ns":0,"output_tokens":-1}`)
	f.Add(`{"class":"ok","first_token_ns":9,"ttft_ns":1,"server":{"prefill_ns":9223372036854775807}}`)
	f.Add(`{"class":"ok","chunks":[{"at_ns":9},{"at_ns":-9,"earliest_ns":4}]}`)
	f.Add(`{"reused":false,"tls_start_ns":5,"tls_done_ns":-9223372036854775808}`)
	f.Add(`{"phase":"rate","asked_rate":1e300,"due_ns":1}{}`)
	f.Fuzz(func(t *testing.T, in string) {
		s := New(Options{Exact: 2})
		for a, err := range record.Decode(strings.NewReader(in), nil) {
			if err != nil {
				break
			}
			s.Add(a)
		}
		r := s.Report(record.Run{CPUs: 1})
		var b bytes.Buffer
		if err := r.WriteText(&b, TextOptions{}); err != nil {
			t.Error(err)
		}
		if err := r.WriteJSON(&b); err != nil {
			t.Error(err)
		}
	})
}

func TestTool(t *testing.T) {
	good := record.Resources{Elapsed: 10 * time.Second, CPU: time.Second, PeakInFlight: 5}
	for _, test := range []struct {
		name    string
		stamps  record.StampSource
		change  func(run *record.Run, a *record.Attempt)
		verdict string
		says    string
	}{
		{"kernel, late reads", record.ByKernel, func(_ *record.Run, a *record.Attempt) { a.Chunks[0].Lag = 80 * msec }, "not bent", "arrivals are the kernel's, and each first event has its own"},
		{"kernel, first events merged, 3 % apart", record.ByKernel, func(_ *record.Run, a *record.Attempt) { a.Chunks[0].Earliest = new(194 * msec) }, "not bent", "within 5 % by both bounds"},
		{"kernel, first events merged, 40 % apart", record.ByKernel, func(_ *record.Run, a *record.Attempt) { a.Chunks[0].Earliest = new(120 * msec) }, "not known", "the bounds of TTFT are more than 5 % apart: single"},
		{"a virtual clock", record.ByModel, func(run *record.Run, _ *record.Attempt) { run.Resources = nil }, "not bent", "virtual"},
		{"by read, no self-test", record.ByRead, func(*record.Run, *record.Attempt) {}, "not known", "no self-test"},
		{"by read, good self-test", record.ByRead, func(run *record.Run, _ *record.Attempt) { run.SelfTest = &record.SelfTest{TTFT99: 9 * msec} }, "not bent", ""},
		{"by read, bad self-test", record.ByRead, func(run *record.Run, _ *record.Attempt) { run.SelfTest = &record.SelfTest{TTFT99: 11 * msec} }, "bent", "self-test"},
		{"late timers, closed loop", record.ByKernel, func(run *record.Run, _ *record.Attempt) { run.Resources.TimerLateP99 = time.Second }, "not bent", ""},
		{"late timers, open loop", record.ByKernel, func(run *record.Run, a *record.Attempt) {
			run.Resources.TimerLateP99 = 11 * msec
			a.Phase = record.Rate
		}, "bent", "timers"},
		{"all CPUs", record.ByKernel, func(run *record.Run, _ *record.Attempt) { run.Resources.CPU = 17 * time.Second }, "bent", "85 % of all CPUs"},
		{"too few in flight", record.ByKernel, func(_ *record.Run, a *record.Attempt) { a.Phase, a.Level = record.Level, 20 }, "bent", "never more than 5"},
		{"faulty stamps", record.ByKernel, func(_ *record.Run, a *record.Attempt) { a.StampFaults = 1 }, "not known", "stamps"},
		{"no resources", record.ByKernel, func(run *record.Run, _ *record.Attempt) { run.Resources = nil }, "not known", "not recorded"},
	} {
		s := New(Options{})
		used := good
		run := record.Run{CPUs: 2, Resources: &used}
		for range 20 {
			a := contentAt(200, 220) // a twentieth of 200 ms is 10
			a.Stamps = test.stamps
			test.change(&run, a)
			s.Add(a)
		}
		if got := s.Report(run).Tool; got.Verdict != test.verdict || !strings.Contains(got.Sentence, test.says) {
			t.Errorf("%s: %s: %s", test.name, got.Verdict, got.Sentence)
		}
	}
}

func TestSum(t *testing.T) {
	// TTFT 200; 10 tokens, of which the first event has 2: 8 × 25 = 200; 7 remain.
	make := func(phase record.Phase, ttft, tpot time.Duration, tokens int) []*record.Attempt {
		var out []*record.Attempt
		for range 20 {
			a := contentAt(int(ttft / msec))
			a.Phase, a.Level, a.Chunks[0].Tokens, a.TPOT, a.OutputTokens = phase, 5, 2, &tpot, &tokens
			a.LastContent = new(ttft + time.Duration(tokens-2)*tpot)
			a.Total = new(*a.LastContent + 7*msec)
			out = append(out, a)
		}
		return out
	}
	one := make(record.Single, 200*msec, 25*msec, 10)
	r := report(Options{}, one...)
	if s := r.Parts[0].Sum; s.TTFT != int64(200*msec) || s.Decode != int64(200*msec) || s.Rest != int64(7*msec) || s.Total != int64(407*msec) || s.Blame != "no reference" {
		t.Errorf("%+v", s)
	}
	target, _ := ParseGate("tpot.p50<20ms")
	for _, test := range []struct {
		ttft, tpot time.Duration
		tokens     int
		targets    []Gate
		want       string
	}{
		{500 * msec, 25 * msec, 10, nil, "waiting"}, {200 * msec, 60 * msec, 10, nil, "decoding"}, {400 * msec, 60 * msec, 10, nil, "both"},
		{200 * msec, 25 * msec, 50, nil, "output length"}, {210 * msec, 26 * msec, 11, nil, "none"}, {210 * msec, 26 * msec, 11, []Gate{target}, "decoding"},
	} {
		r := report(Options{Targets: test.targets}, append(make(record.Level, test.ttft, test.tpot, test.tokens), one...)...)
		if s := r.part("level5").Sum; s.Blame != test.want {
			t.Errorf("%v %v %d: %+v", test.ttft, test.tpot, test.tokens, s)
		}
	}
}

// TestSumOfReasoning has 100 reasoning tokens before 30 of the answer, 5 ms each:
// decoding is 29 × 5 ms, whatever the service counts as output.
func TestSumOfReasoning(t *testing.T) {
	var ats []int
	for i := range 30 {
		ats = append(ats, 600+5*i)
	}
	a := contentAt(ats...)
	a.FirstReasoning, a.OutputTokens, a.ReasoningTokens, a.TPOT = new(100*msec), new(130), new(100), new(5*msec)
	a.Total = new(746 * msec)
	if s := report(Options{}, a).Parts[0].Sum; s.TTFT != int64(600*msec) || s.Decode != int64(145*msec) || s.Rest != int64(msec) {
		t.Errorf("%+v", s)
	}
}

func TestServerView(t *testing.T) {
	a, b, c := contentAt(400), contentAt(300), contentAt(350)
	a.WroteRequest, a.TCP = new(2*msec), &record.TCP{MinRTT: 20 * msec}
	a.Server = &record.Server{Queue: new(150 * msec), Prefill: new(50 * msec)}
	b.WroteRequest = new(4 * msec)
	b.Server = &record.Server{Arrived: new(int64(1_000_000)), FirstToken: new(int64(201_000_000))}
	s := report(Options{}, a, b, c).Parts[0].Server
	// Means over the two that are joined: 350 = 3 + 10 + 75 + 25 + 237.
	want := []Term{{"send", terms[termSend].means, 2, int64(3 * msec)}, {"network", terms[termNetwork].means, 1, int64(10 * msec)},
		{"server queue", terms[termQueue].means, 1, int64(75 * msec)}, {"prefill", terms[termPrefill].means, 1, int64(25 * msec)}}
	if s.Joined != 2 || s.Of != 3 || s.Mean != int64(350*msec) || s.Rest != int64(237*msec) || !slices.Equal(s.Terms, want) {
		t.Errorf("%+v", s)
	}
	// Both servers' views are 200 ms: 150 + 50, and 201 − 1.
	if *s.View.Min != int64(200*msec) || *s.View.Max != int64(200*msec) || *s.Difference.Min != int64(100*msec) || *s.Difference.Max != int64(200*msec) {
		t.Errorf("%+v", s)
	}
}

func TestNetwork(t *testing.T) {
	a := contentAt(200)
	a.TCP = &record.TCP{RTT: 31 * msec, MinRTT: 30 * msec}
	r := report(Options{}, a)
	if r.Network == nil || r.Network.Share != 0.15 || *r.Network.RTT.Max != int64(31*msec) || !strings.Contains(text(r), "15.0 % of TTFT") {
		t.Errorf("%+v", r.Network)
	}
	a.Server = &record.Server{Source: "x"}
	if r := report(Options{}, a); r.Network != nil {
		t.Error("the network stands for the server's word where there is one")
	}
}

func TestWorsening(t *testing.T) {
	make := func(phase record.Phase, level, n int, times float64) []*record.Attempt {
		r := rand.New(rand.NewPCG(2, uint64(level)))
		var out []*record.Attempt
		for range n {
			a := contentAt(int(times * (200 + 60*r.ExpFloat64())))
			a.Phase, a.Level = phase, level
			out = append(out, a)
		}
		return out
	}
	all := append(make(record.Single, 1, 200, 1), make(record.Level, 5, 200, 1)...)
	r := report(Options{}, append(all, make(record.Level, 20, 50, 2)...)...)
	got := map[string]string{}
	for _, w := range r.Worsening {
		got[w.To+" "+w.Metric+" "+w.Of] = w.Verdict
		if w.Verdict == worse && (*w.Low > *w.Ratio || *w.High < *w.Ratio || *w.Ratio < 1.7 || *w.Ratio > 2.3) {
			t.Errorf("%+v: twice as long is right", w)
		}
	}
	for key, want := range map[string]string{"level5 ttft_ns p50": noShown, "level5 ttft_ns p95": noShown, "level5 ttft_ns p99": notEnough,
		"level20 ttft_ns p50": worse, "level20 ttft_ns p95": notEnough, "level20 tpot_ns p50": noValues} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
}

func TestCompare(t *testing.T) {
	make := func(seed uint64, times float64) *Report {
		s := New(Options{})
		r := rand.New(rand.NewPCG(seed, 1))
		for range 300 {
			a := contentAt(int(times * (200 + 60*r.ExpFloat64())))
			a.Protocol = "HTTP/1.1"
			s.Add(a)
		}
		return s.Report(record.Run{Fixed: map[string]string{"max_tokens": "64"}})
	}
	a, b := make(1, 1), make(2, 1.5)
	c := Compare(a, b)
	if len(c.Fixed) != 0 || c.Rows[0].Verdict != worse || c.Rows[1].Verdict != worse || *c.Rows[0].Low <= 0 || c.Rows[2].Verdict != noValues {
		t.Errorf("%+v", c)
	}
	if c := Compare(b, a); c.Rows[0].Verdict != better {
		t.Errorf("%+v", c.Rows[0])
	}
	if c := Compare(a, a); c.Rows[0].Verdict != noShown || *c.Rows[0].Difference != 0 {
		t.Errorf("%+v", c.Rows[0])
	}
	b.Head.Run.Fixed = map[string]string{"max_tokens": "128", "tools": "2"}
	b.Head.Protocols = map[string]int64{"HTTP/2.0": 5}
	want := []FixedDifference{{"max_tokens", "64", "128"}, {"protocols", "HTTP/1.1", "HTTP/2.0"}, {"tools", "", "2"}}
	if c := Compare(a, b); !slices.Equal(c.Fixed, want) {
		t.Errorf("%+v", c.Fixed)
	}
	for _, p := range b.Parts { // as one that was read from JSON
		p.sampled = nil
	}
	if c := Compare(a, b); c.Rows[0].Verdict != notKept || c.Rows[0].Difference != nil {
		t.Errorf("%+v", c.Rows[0])
	}
	if c := Compare(a, &Report{}); len(c.Only) != 1 || len(c.Rows) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestWarnings(t *testing.T) {
	s := New(Options{})
	for i := range 20 {
		a := contentAt(200)
		a.Protocol, a.Stamps, a.PromptTokens = "HTTP/1.1", record.ByKernel, new(3)
		if i > 10 {
			a.Protocol, a.Stamps = "HTTP/2.0", record.ByRead
		}
		if i == 0 {
			a.Class = record.Timeout
		}
		s.Add(a)
	}
	r := s.Report(record.Run{State: record.Interrupted, Reason: "Ctrl-C", Target: record.Target{Loopback: true}})
	var codes []string
	for _, w := range r.Warnings {
		codes = append(codes, w.Code)
	}
	want := []string{"loopback", "not_complete", "failures", "few_samples", "no_warmup", "few_samples", "mixed_protocols", "mixed_stamps", "short_prompts", "tool"}
	if !slices.Equal(codes, want) {
		t.Errorf("%v, want %v", codes, want)
	}
	if out := text(r); !strings.Contains(out, "LOOPBACK") || !strings.Contains(out, "not the figures of an online service") || !strings.Contains(out, "interrupted: Ctrl-C") {
		t.Error(out)
	}
}

func TestTargets(t *testing.T) {
	// 40 times 200 … 239 ms: the 95 % interval of the median is 213 … 226.
	var all []*record.Attempt
	for i := range 40 {
		all = append(all, contentAt(200+i))
	}
	for gate, want := range map[string]string{"ttft.p50<250ms": "met", "ttft.p50<205ms": "missed", "ttft.p50<220ms": "not decided", "ttft.p95<1s": notEnough,
		"tpot.p50<1s": "not measured", "level9:ttft.p50<1s": "not measured", "failures<1%": "met", "ttft.max<220ms": "missed"} {
		g, err := ParseGate(gate)
		if err != nil {
			t.Fatal(err)
		}
		r := report(Options{Targets: []Gate{g}}, all...)
		if len(r.Targets) != 1 || r.Targets[0].Verdict != want {
			t.Errorf("%s: %+v, want %s", gate, r.Targets, want)
		}
	}
}

func TestWrapWide(t *testing.T) {
	if got := page.Wrap("测试 一二三四五六", 8); !slices.Equal(got, []string{"测试", "一二三四", "五六"}) {
		t.Errorf("%q", got)
	}
	if page.Columns("中a") != 3 || page.Cut("中文字", 5) != "中文…" || page.Cut("abc", 3) != "abc" || page.Grouped(-1234567) != "−1,234,567" || page.Grouped(999) != "999" {
		t.Error(page.Cut("中文字", 5), page.Grouped(-1234567))
	}
}
