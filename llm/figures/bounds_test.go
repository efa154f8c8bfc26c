package figures

import (
	"math"
	"strings"
	"testing"

	"firstsound/llm/record"
)

// codes returns the codes of a report's warnings.
func codes(r *Report) string {
	var out []string
	for _, w := range r.Warnings {
		out = append(out, w.Code)
	}
	return strings.Join(out, " ")
}

// TestBounds has 8 of 40 requests of 300 ms whose first event may have come with
// the read before: at 100 ms, or before the request was sent.
func TestBounds(t *testing.T) {
	run := func(merged int) *Report {
		var all []*record.Attempt
		for i := range 40 {
			a := contentAt(300, 300, 320)
			a.Send = new(50 * msec)
			a.TTFT = new(250 * msec)
			if i < merged {
				a.Chunks[0].Earliest = new(100 * msec)
			}
			if i == 0 && merged > 0 {
				a.Chunks[0].Earliest = new(20 * msec)
			}
			all = append(all, a)
		}
		return report(Options{}, all...)
	}
	if r := run(0); r.Parts[0].Bounds != nil || strings.Contains(text(r), "upper bound") {
		t.Errorf("%+v", r.Parts[0].Bounds)
	}
	r := run(8)
	b := r.Parts[0].Bounds
	if b.N != 8 || b.Of != 40 || *b.Low.Min != 0 || *b.Low.Max != int64(250*msec) || b.Apart || strings.Contains(codes(r), "ttft_bounds") {
		t.Errorf("%+v", b)
	}
	// The requests stay in the quantiles of TTFT.
	if m := r.Parts[0].metric("ttft"); m.Values.N != 40 || *m.Values.Min != int64(250*msec) {
		t.Errorf("%+v", m.Values)
	}
	if out := text(r); !strings.Contains(out, "TTFT of 8 of 40 is an upper bound (their first events came with others in one read); by the lower bounds: P50 250.0,") {
		t.Error(out)
	}
	r = run(30)
	if b := r.Parts[0].Bounds; !b.Apart || *b.Low.P50.Value != int64(50*msec) || !strings.Contains(codes(r), "ttft_bounds") || r.Tool.Verdict != "not known" {
		t.Errorf("%+v, %s, %s", b, codes(r), r.Tool.Verdict)
	}
	if out := text(r); !strings.Contains(out, "single (30 of 40: P50 50.0 to 250.0, max 250.0 to 250.0 ms)") {
		t.Error(out)
	}
}

// TestMergedITL leaves out shares of the gaps: 4 %, 10 % and 60 % of 1,000.
func TestMergedITL(t *testing.T) {
	for _, test := range []struct {
		merged        int
		p50, p95, p99 bool
	}{{0, true, true, true}, {5, true, true, true}, {40, true, true, false}, {100, true, false, false}, {600, false, false, false}} {
		var all []*record.Attempt
		for i := range 1000 {
			a := contentAt(200, 220)
			if i < test.merged {
				a = contentAt(200, 900)
				a.Chunks[1].Earliest = new(200 * msec)
			}
			all = append(all, a)
		}
		r := report(Options{}, all...)
		p := r.Parts[0]
		v := p.metric("itl").Values
		if v.P50.Supported != test.p50 || v.P95.Supported != test.p95 || v.P99.Supported != test.p99 || p.MergedITLShare != float64(test.merged)/1000 {
			t.Errorf("%d: %+v, %g", test.merged, v, p.MergedITLShare)
		}
		if !test.p99 && (cell(&v, v.P99, unitNS) != "–" || !strings.Contains(v.P99.Because, "likely the longest")) {
			t.Errorf("%d: %q, %q", test.merged, cell(&v, v.P99, unitNS), v.P99.Because)
		}
		g, err := ParseGate("itl.p99<50ms")
		if err != nil {
			t.Fatal(err)
		}
		if passed := r.Pass(g); passed.OK != test.p99 {
			t.Errorf("%d: the gate passes: %+v", test.merged, passed)
		}
		if out := text(r); strings.Contains(out, "not supported: P95, P99") != (test.merged == 100) {
			t.Error(out)
		}
	}
}

// TestGateOfPart has a run that was broken off before the slow requests.
func TestGateOfPart(t *testing.T) {
	g, err := ParseGate("ttft.p50<400ms")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	for range 20 {
		s.Add(contentAt(200))
	}
	for state, want := range map[record.State]bool{record.Complete: true, record.Interrupted: false, record.Running: false, record.Failed: false, "": false} {
		p := s.Report(record.Run{State: state, Reason: "Ctrl-C"}).Pass(g)
		why := "the run is " + orState(state) + ": Ctrl-C"
		if state == record.Running {
			why = "the run is not complete: it was killed, or is still running"
		}
		if p.OK != want || !want && p.Why[0] != why {
			t.Errorf("%q: %+v", state, p)
		}
	}
}

func TestNotStreamed(t *testing.T) {
	whole, sse := contentAt(500), contentAt(200, 300)
	whole.Events, sse.Events = 1, 2
	whole.Header, sse.Header = map[string]string{"content-type": "application/json; charset=utf-8"}, map[string]string{"content-type": "application/json"}
	r := report(Options{}, whole, sse)
	if out := text(r); !strings.Contains(out, "1 answer was not streamed; its TTFT is the total") {
		t.Error(out)
	}
	if out := codes(report(Options{}, sse)); strings.Contains(out, "not_streamed") {
		t.Error(out)
	}
}

// TestWrongRecords has counts and times that cannot be, which enter no sum.
func TestWrongRecords(t *testing.T) {
	r := report(Options{}, contentAt(200, 210))
	if strings.Contains(codes(r), "wrong_records") {
		t.Error(codes(r))
	}
	late, twice, again, unknown, less, more, most := contentAt(1), contentAt(1), contentAt(1), contentAt(1), contentAt(1), contentAt(1), contentAt(1)
	late.TTFT = new(-5 * msec)
	twice.RequestID, again.RequestID = "r", "r"
	unknown.Class = "fine"
	less.OutputTokens, more.OutputTokens, most.OutputTokens = new(-7), new(math.MaxInt), new(math.MaxInt)
	r = report(Options{}, late, twice, again, unknown, less, more, most)
	if m := r.Parts[0].metric("output_tokens"); m != nil || r.Parts[0].Throughput.Tokens != nil && *r.Parts[0].Throughput.Tokens != 0 {
		t.Errorf("%+v", m)
	}
	for _, want := range []string{"3 records cannot be right: no count of tokens is so", "1 record cannot be right: a time is below nothing", "is there twice", "its class is not known"} {
		if out := text(r); !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}
