package diagnosis

import (
	"fmt"
	"testing"
	"time"

	"firstsound/llm/record"
)

// plain returns n requests of a phase, 300 ms each, one every second.
func plain(phase record.Phase, n int) []*record.Attempt {
	var out []*record.Attempt
	for i := range n {
		at := 1000 * float64(i)
		a := &record.Attempt{RequestID: fmt.Sprintf("%s-%d", phase, i), Number: 1, Phase: phase, Class: record.OK, Status: 200, InFlight: 1, Stamps: record.ByKernel, Events: 3,
			Send: d(at), FirstToken: d(at + 300), TTFT: d(300), End: d(at + 400), Total: d(400),
			Chunks: []record.Chunk{{At: *d(at + 300)}, {At: *d(at + 400)}}}
		if phase == record.Rate {
			a.Due, a.AskedRate = d(at), 1
		}
		out = append(out, a)
	}
	return out
}

// verdict returns the one of a name; nil if it was not found.
func verdict(run record.Run, as []*record.Attempt, name string) *Verdict {
	for _, v := range Find(run, as, nil) {
		if v.Name == name {
			return &v
		}
	}
	return nil
}

// TestRefused has 30 answers and 10 refusals that asked for 10 s each. Nobody
// waited in one run; in the other, five came again after 2 s.
func TestRefused(t *testing.T) {
	as := plain(record.Single, 40)
	for _, a := range as[:10] {
		a.Class, a.Status, a.RetryAfter, a.TTFT, a.FirstToken, a.Chunks = record.HTTPError, 429, 10*time.Second, nil, nil, nil
	}
	if v := verdict(record.Run{}, as, "refused"); v == nil || v.Severity != Fault || v.Explains != 0 || v.Share != 0 || verdict(record.Run{}, as, "hidden_retries") != nil {
		t.Errorf("%+v", v)
	}
	for _, a := range as[:5] {
		again := *as[39]
		at := ms(*a.Send) + 2000
		again.RequestID, again.Number, again.Send, again.FirstToken = a.RequestID, 2, d(at), d(at+300)
		as = append(as, &again)
	}
	// 5 of 35 ok ones waited for 2,000 ms: 286 ms on average, beside a TTFT of 300.
	v := verdict(record.Run{}, as, "hidden_retries")
	if v == nil || v.Explains.Round(time.Millisecond) != 286*time.Millisecond || v.Share < 0.487 || v.Share > 0.489 || verdict(record.Run{}, as, "refused") != nil {
		t.Errorf("%+v", v)
	}
}

// TestTimers has timers that are late by more and less than 5 % of 300 ms.
func TestTimers(t *testing.T) {
	closed := plain(record.Single, 30)
	open := append(plain(record.Rate, 30), closed...)
	for _, test := range []struct {
		late  time.Duration
		as    []*record.Attempt
		found bool
	}{{time.Second, closed, false}, {16 * time.Millisecond, open, true}, {14 * time.Millisecond, open, false}} {
		run := record.Run{Resources: &record.Resources{TimerLateP99: test.late}, SelfTest: &record.SelfTest{}}
		v := verdict(run, test.as, "client_limit")
		if (v != nil) != test.found {
			t.Errorf("%v late: %+v", test.late, v)
		}
		if p := Checklist(run, test.as, nil, Find(run, test.as, nil))[8]; (p.State == Failed) != test.found {
			t.Errorf("%v late: %+v", test.late, p)
		}
	}
}

// TestLateReads has reads that are 80 ms late. They move nothing while each first
// event has a stamp of its own.
func TestLateReads(t *testing.T) {
	run := record.Run{Resources: &record.Resources{}, SelfTest: &record.SelfTest{Stamps: record.ByKernel}}
	for _, test := range []struct {
		name     string
		change   func(i int, a *record.Attempt)
		severity Severity
		explains time.Duration
		point    PointState
	}{
		{"by kernel", func(int, *record.Attempt) {}, Note, 0, Passed},
		{"merged, 10 ms", func(_ int, a *record.Attempt) { a.Chunks[0].Earliest = d(ms(*a.FirstToken) - 10) }, Note, 0, Passed},
		{"merged, 80 ms", func(_ int, a *record.Attempt) { a.Chunks[0].Earliest = d(ms(*a.FirstToken) - 80) }, Fault, 0, Failed},
		{"by read", func(_ int, a *record.Attempt) { a.Stamps, a.Chunks[0].Lag = record.ByRead, 80*time.Millisecond }, Fault, 80 * time.Millisecond, Failed},
	} {
		as := plain(record.Single, 40)
		for i, a := range as {
			a.LagMax = 80 * time.Millisecond
			test.change(i, a)
		}
		v := verdict(run, as, "client_limit")
		if v == nil || v.Severity != test.severity || v.Explains != test.explains {
			t.Errorf("%s: %+v", test.name, v)
		}
		if p := Checklist(run, as, nil, Find(run, as, nil))[8]; p.State != test.point {
			t.Errorf("%s: %+v", test.name, p)
		}
	}
}

func TestNotStreamed(t *testing.T) {
	as := plain(record.Single, 40)
	for _, a := range as[:30] {
		a.Header = map[string]string{"content-type": "application/json; charset=utf-8"}
	}
	if v := verdict(record.Run{}, as, "not_streamed"); v != nil {
		t.Errorf("events under that type: %+v", v)
	}
	for _, a := range as[:30] {
		a.Events, a.Chunks = 1, a.Chunks[:1]
	}
	if v := verdict(record.Run{}, as, "not_streamed"); v == nil || v.Severity != Note || v.Evidence[0].Value != 75 {
		t.Errorf("%+v", v)
	}
}
