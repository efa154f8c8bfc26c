package figures

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/llm/record"
)

// contentAt makes an ok attempt that was sent at 0, with content at times in ms.
func contentAt(ats ...int) *record.Attempt {
	a := &record.Attempt{Phase: record.Single, Class: record.OK, Number: 1, Send: new(time.Duration(0)), TokenSource: record.ByUsage, TPOTAbsent: "not given"}
	for _, at := range ats {
		a.Chunks = append(a.Chunks, record.Chunk{At: time.Duration(at) * msec, Chars: 1})
	}
	if len(ats) > 0 {
		a.FirstToken, a.LastContent, a.End = &a.Chunks[0].At, &a.Chunks[len(ats)-1].At, &a.Chunks[len(ats)-1].At
		a.TTFT, a.Total = a.FirstToken, a.End
	}
	return a
}

// report returns the report of attempts.
func report(o Options, attempts ...*record.Attempt) *Report {
	s := New(o)
	for _, a := range attempts {
		s.Add(a)
	}
	return s.Report(record.Run{State: record.Complete})
}

// text returns the report as text, on one line.
func text(r *Report) string {
	var b bytes.Buffer
	r.WriteText(&b, TextOptions{})
	return strings.Join(strings.Fields(b.String()), " ")
}

// mean returns the mean of a metric of the first part, in microseconds.
func mean(t *testing.T, r *Report, name string) int64 {
	t.Helper()
	m := r.Parts[0].metric(name)
	if m == nil {
		t.Fatalf("no %s", name)
	}
	return *m.Values.Mean / 1000
}

// The cases have the numbers of docs/llm-stream.md.

func TestCase5Reasoning(t *testing.T) {
	a := contentAt(183_581)
	a.FirstReasoning = new(1175 * msec)
	r := report(Options{}, a)
	if a, b := mean(t, r, "first_reasoning"), mean(t, r, "ttft"); a != 1_175_000 || b != 183_581_000 {
		t.Errorf("first reasoning %d, answer %d", a, b)
	}
	if m := r.Parts[0].metric("ttft"); m.Title != "TTFT, answer" {
		t.Errorf("the answer's TTFT is called %q", m.Title)
	}
}

func TestCase36ChunksAreNotTokens(t *testing.T) {
	a := contentAt(200, 300)
	a.OutputTokens, a.TPOT = new(10), new(100*msec/9)
	r := report(Options{}, a)
	if tp, gap := mean(t, r, "tpot"), mean(t, r, "itl"); tp != 11_111 || gap != 100_000 {
		t.Errorf("TPOT %d µs, gap %d µs", tp, gap)
	}
	if strings.Contains(text(r), "counted by content events") {
		t.Error("usage is taken for chunks")
	}
	a.TokenSource = record.ByChunks
	if !strings.Contains(text(report(Options{}, a)), "counted by content events") {
		t.Error("no word that tokens are chunks")
	}
}

func TestCase38ShorterThanAsked(t *testing.T) {
	a, b := contentAt(1, 2), contentAt(1, 2)
	a.OutputTokens, b.OutputTokens, a.MaxTokens, b.MaxTokens = new(128), new(17), 128, 128
	r := report(Options{}, a, b)
	if r.Tokens.Below != 1 || r.Tokens.Asked != 2 || !strings.Contains(text(r), "50.0 % of the replies are shorter than max_tokens") {
		t.Errorf("%+v", r.Tokens)
	}
}

func TestCase39GapsWithoutTTFT(t *testing.T) {
	r := report(Options{}, contentAt(500, 520, 540))
	if m := r.Parts[0].metric("itl"); m.Values.N != 2 || *m.Values.Min != int64(20*msec) || *m.Values.Max != int64(20*msec) {
		t.Errorf("%+v", m.Values)
	}
}

func TestCase40BothWeights(t *testing.T) {
	long := []int{200}
	for i := range 99 {
		long = append(long, 210+10*i)
	}
	r := report(Options{}, contentAt(200, 300), contentAt(long...))
	// (100 + 99·10)/100 and (100 + 10)/2.
	if pooled, each := mean(t, r, "itl"), mean(t, r, "itl_mean"); pooled != 10_900 || each != 55_000 {
		t.Errorf("pooled %d µs, by request %d µs", pooled, each)
	}
}

func TestCase45OneToken(t *testing.T) {
	a := contentAt(200)
	a.OutputTokens, a.TPOTAbsent = new(1), "fewer than 2 tokens"
	r := report(Options{}, a)
	p := r.Parts[0]
	if p.metric("tpot") != nil || p.metric("itl") != nil || mean(t, r, "ttft") != 200_000 || len(p.NoTPOT) != 1 || p.Sum != nil {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(text(r), "TPOT not measurable in 1 reply: fewer than 2 tokens") {
		t.Error(text(r))
	}
}

func TestCase47AllInOneRead(t *testing.T) {
	a := contentAt(500, 500, 500)
	a.TPOTAbsent = "not measurable: all came with one read"
	for i := range 2 {
		a.Chunks[i].Earliest = new(10 * msec)
	}
	r := report(Options{}, a)
	if p := r.Parts[0]; p.metric("itl") != nil || p.MergedITL != 2 || p.metric("tpot") != nil || *p.metric("stall").Values.Max != 0 {
		t.Errorf("%+v", p)
	}
}

// TestMerged has a gap that is known only if both its ends are.
func TestMerged(t *testing.T) {
	a := contentAt(100, 130, 130, 150, 170)
	a.Chunks[1].Earliest = new(100 * msec)
	var known []int64
	g := gapsOf(a.Chunks, func(ns int64) { known = append(known, ns/int64(msec)) })
	if !slices.Equal(known, []int64{20, 20}) || g.merged != 2 || *g.longest != int64(30*msec) {
		t.Errorf("%v %+v", known, g)
	}
}

func TestCase50RefusingIsNotFast(t *testing.T) {
	limits, _ := ParseGoodput("ttft:400")
	var all []*record.Attempt
	for range 20 {
		refused := contentAt()
		refused.Class, refused.Status, refused.End, refused.Total = record.HTTPError, 503, new(5*msec), new(5*msec)
		all = append(all, contentAt(300), refused)
	}
	r := report(Options{Goodput: limits}, all...)
	p := r.Parts[0]
	if p.FailedShare != 0.5 || *p.metric("ttft").Values.P50.Value != int64(300*msec) || p.Throughput.Goodput.Share != 0.5 || p.Throughput.Goodput.Of != 40 {
		t.Errorf("%+v", p)
	}
	if s := text(r); !strings.Contains(s, "http_error(503) 20 (50.0 %)") || !strings.Contains(s, "20 50.0 % 0") {
		t.Error(s)
	}
	g, _ := ParseGate("ttft.p95<400ms")
	if passed := r.Pass(g); passed.OK || !strings.Contains(passed.Why[0], "got no answer") {
		t.Errorf("%+v", passed)
	}
}

func TestCase51FailedTimesStayOut(t *testing.T) {
	var all []*record.Attempt
	for range 10 {
		broken := contentAt(29_000)
		broken.Class, broken.Total = record.StreamError, new(30*time.Second)
		all = append(all, contentAt(200), broken)
	}
	r := report(Options{}, all...)
	if p := r.Parts[0]; *p.metric("ttft").Values.Max != int64(200*msec) || *p.metric("total").Values.Max != int64(200*msec) || p.NotOK[0] != (Ending{"stream_error", 10, 0.5}) {
		t.Errorf("%+v", p)
	}
}

func TestCase52AskedAgain(t *testing.T) {
	refused, again := contentAt(), contentAt(1300)
	refused.Class, refused.Status, refused.RequestID = record.HTTPError, 429, "r"
	again.RequestID, again.Number, again.Send, again.TTFT = "r", 2, new(1100*msec), new(200*msec)
	r := report(Options{}, refused, again)
	if r.Parts[0].Failed != 1 || r.Parts[0].OK != 1 || mean(t, r, "ttft") != 200_000 || *r.Retried.Mean != int64(1300*msec) {
		t.Errorf("%+v", r.Parts[0])
	}
}

func TestCase54FromDue(t *testing.T) {
	// Every 100 ms one is due, each takes 500 ms, one at a time.
	var all []*record.Attempt
	for i := range 10 {
		sent := 500 * i
		a := contentAt(sent + 500)
		a.Phase, a.AskedRate = record.Rate, 10
		a.Due, a.Send, a.TTFT, a.Total = new(time.Duration(100*i)*msec), new(time.Duration(sent)*msec), new(500*msec), new(500*msec)
		all = append(all, a)
	}
	r := report(Options{}, all...)
	p := r.Parts[0]
	// The last: due at 900, done at 5000.
	if *p.metric("total").Values.Max != int64(500*msec) || *p.metric("total_due").Values.Max != int64(4100*msec) || *p.metric("ttft_due").Values.Max != int64(4100*msec) || *p.metric("send_late").Values.Max != int64(3600*msec) {
		t.Errorf("%+v", p.Metrics)
	}
	if *p.Throughput.Due != 10 || *p.Throughput.Sent != 2 || !strings.Contains(text(r), "sent at 2.00/s, less than 98 %") {
		t.Errorf("%+v", p.Throughput)
	}
}

func TestCase55UnderDelivered(t *testing.T) {
	for _, test := range []struct {
		asked, sent float64
		due         *float64
		n           int64
		want        bool
	}{
		{200, 195, new(200.0), 10_000, true}, {200, 197, new(200.0), 10_000, false},
		{200, 195, new(195.5), 100, false}, // the arrivals were drawn so
		{200, 150, nil, 10_000, true}, {200, 190, nil, 30, false},
	} {
		u := Throughput{Asked: &test.asked, Due: test.due, Sent: &test.sent}
		if got := u.underDelivered(test.n); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestCase64MaximumInPlace(t *testing.T) {
	var all []*record.Attempt
	for i := range 71 {
		all = append(all, contentAt(100+i))
	}
	r := report(Options{}, all...)
	v := r.Parts[0].metric("ttft").Values
	if v.P99.Value != nil || v.P99.Supported || v.P95.Supported || *v.P50.Value != int64(135*msec) || cell(&v, v.P99, unitNS) != "(170.0)" {
		t.Errorf("%+v", v)
	}
	if !strings.Contains(text(r), "single 135.0 (170.0) (170.0) 170.0") {
		t.Error(text(r))
	}
}

func TestSupported(t *testing.T) {
	for name, least := range map[string]int{"p50": 11, "p95": 130, "p99": 662} {
		for _, n := range []int{least - 1, least} {
			var all []*record.Attempt
			for i := range n {
				all = append(all, contentAt(1+i))
			}
			v := report(Options{}, all...).Parts[0].metric("ttft").Values
			if q := v.pick(name); q.Supported != (n == least) || q.Needs != int64(least) {
				t.Errorf("%s of %d: %+v", name, n, q)
			}
		}
	}
}

func TestUnfinishedIsCensored(t *testing.T) {
	open := func(ms int) *record.Attempt {
		a := contentAt()
		a.Class, a.Total = record.Unfinished, new(time.Duration(ms)*msec)
		return a
	}
	r := report(Options{}, contentAt(200), open(1200), open(5000))
	if p := r.Parts[0]; *p.Open != (Censored{2, int64(1200 * msec), int64(5000 * msec)}) || p.Failed != 0 || p.metric("ttft").Values.N != 1 {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(text(r), "≥ 1200.0 ms to ≥ 5000.0 ms") {
		t.Error(text(r))
	}
}

func TestWarmupStaysOut(t *testing.T) {
	cold := contentAt(9000)
	cold.Warmup = true
	r := report(Options{}, cold, contentAt(200))
	if p := r.Parts[0]; p.Warmup.N != 1 || *p.Warmup.TTFT.Max != int64(9000*msec) || *p.metric("ttft").Values.Max != int64(200*msec) || p.Attempted != 1 {
		t.Errorf("%+v", p)
	}
}

// TestBounded adds attempts of more parts, names and requests than are kept.
func TestBounded(t *testing.T) {
	s := New(Options{})
	for i := range 3 * maxParts {
		a := contentAt(200)
		a.Phase, a.Level, a.Protocol, a.TPOTAbsent = record.Level, i, fmt.Sprint(i), fmt.Sprint(i)
		s.Add(a)
	}
	r := s.Report(record.Run{})
	if len(r.Parts) != maxParts || len(r.Head.Protocols) > maxNames+1 || !strings.Contains(text(r), "512 attempts of further parts") {
		t.Errorf("%d parts, %d protocols", len(r.Parts), len(r.Head.Protocols))
	}
}
