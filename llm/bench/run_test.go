package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/quantile"
	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

const ms = time.Millisecond

// A fake answers after a time, with "reply n".
type fake struct {
	clock clocks.Clock
	takes func(n int) time.Duration
	class func(n int) record.Class // nil: all are well

	mu   sync.Mutex
	n    int
	reqs []llm.Request
}

func (f *fake) Do(ctx context.Context, req llm.Request, see func(llm.Delta)) record.Attempt {
	f.mu.Lock()
	f.n++
	n := f.n
	f.reqs = append(f.reqs, req)
	f.mu.Unlock()
	send := f.clock.Now()
	a := record.Attempt{Class: record.OK, Send: &send}
	if f.class != nil {
		a.Class = f.class(n)
	}
	err := f.clock.Sleep(ctx, f.takes(n))
	end := f.clock.Now()
	total := end - send
	a.End, a.Total = &end, &total
	if err != nil {
		a.Class = record.Cancelled
		if errors.Is(err, wire.ErrRunEnded) {
			a.Class = record.Unfinished
		}
		return a
	}
	if a.Class == record.OK {
		a.TTFT = &total
		for _, text := range []string{"reply ", fmt.Sprint(n)} {
			see(llm.Delta{Kind: llm.Content, Text: text})
		}
		see(llm.Delta{Kind: llm.Reasoning, Text: "hm"})
	}
	return a
}

func constant(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func prompts(t testing.TB) *Prompts {
	p, err := NewPrompts(PromptOptions{Language: "both", Count: llm.EstimateTokens, Nonce: 7})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start makes a Runner with what every test needs, which keeps attempts in all.
func start(t testing.TB, c clocks.Clock, f *fake, all *[]record.Attempt, parts ...record.Part) *Runner {
	var mu sync.Mutex
	return &Runner{Clock: c, Asker: f, Fresh: f, Parts: parts, Prompts: prompts(t), RunID: "t", Seed: 1, Arrivals: Constant, Grace: 100 * ms,
		Keep: func(_ int, a *record.Attempt) error {
			mu.Lock()
			defer mu.Unlock()
			*all = append(*all, *a)
			return nil
		}}
}

// onBoth runs f on a Virtual clock and on a Real one in a bubble.
func onBoth(t *testing.T, f func(ctx context.Context, c clocks.Clock) error) {
	t.Helper()
	if err := clockstest.Virtual(f); err != nil {
		t.Errorf("on a Virtual clock: %v", err)
	}
	if err := clockstest.Real(t, f); err != nil {
		t.Errorf("on a Real clock in a bubble: %v", err)
	}
}

// llm-stream.md case 54: ten requests a second of half a second each, one at a
// time. P99 of eight is 3,330 ms from when they were due, to three digits, and
// 507 ms of service.
func TestOpenLoopCountsTheWait(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		r := start(t, c, &fake{clock: c, takes: constant(507 * ms)}, &all, record.Part{Phase: record.Rate, AskedRate: 10, Requests: 8})
		r.MaxConcurrency = 1
		res := r.Run(ctx)
		var fromDue, service []int64
		for i, a := range all {
			if want := time.Duration(i) * 100 * ms; *a.Due != want || a.InFlight != 1 || a.Level != 0 || a.AskedRate != 10 {
				return fmt.Errorf("request %d was due at %v, not %v; %d open", i, *a.Due, want, a.InFlight)
			}
			fromDue = append(fromDue, int64(*a.End-*a.Due))
			service = append(service, int64(*a.Total))
		}
		p99, _ := quantile.Of(fromDue, 0.99)
		own, _ := quantile.Of(service, 0.99)
		if p99 != int64(3327510*time.Microsecond) || math.Round(float64(p99)/1e7)*10 != 3330 || own != int64(507*ms) {
			return fmt.Errorf("P99 is %v from due and %v of service", time.Duration(p99), time.Duration(own))
		}
		if res.State != record.Complete || res.End != 8*507*ms || res.OK != 8 || res.PeakInFlight != 1 {
			return fmt.Errorf("%+v", res)
		}
		return nil
	})
}

// Without a bound, all are sent when they are due: 200 a second for a second.
func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		r := start(t, c, &fake{clock: c, takes: constant(500 * ms)}, &all, record.Part{Phase: record.Rate, AskedRate: 200, Duration: time.Second, Warmup: 10})
		res := r.Run(ctx)
		if len(all) != 210 || res.Measured != 200 || res.PeakInFlight != 100 && res.PeakInFlight != 101 {
			return fmt.Errorf("%d attempts, %+v", len(all), res)
		}
		for i, a := range all {
			if *a.Due != time.Duration(i)*5*ms || *a.Send != *a.Due || a.Warmup != (i < 10) {
				return fmt.Errorf("request %d: due %v, sent %v, warm-up %v", i, *a.Due, *a.Send, a.Warmup)
			}
		}
		if p := r.Parts[0]; *p.Began != 50*ms || *p.Ended != 1545*ms {
			return fmt.Errorf("the part went from %v to %v", *p.Began, *p.Ended)
		}
		return nil
	})
}

// A level's measured requests begin while its warm-up runs out: of four clients,
// three are busy with the wave when the fourth begins with what counts.
func TestWarmupIsNotDrained(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		takes := func(n int) time.Duration { return time.Duration(100*min(n, 5)) * ms } // of the wave: 100, 200, 300, 400
		parts := Options{Warmup: 4, Levels: []int{4}, Duration: 2 * time.Second}.Plan()
		r := start(t, c, &fake{clock: c, takes: takes}, &all, parts...)
		r.Run(ctx)
		began := *r.Parts[0].Began
		inWave, measured := 0, 0
		for _, a := range all {
			if a.Warmup && *a.End > began {
				inWave++
			}
			if !a.Warmup {
				measured++
				if *a.Send < began || *a.Send >= began+2*time.Second {
					return fmt.Errorf("sent at %v, of a part from %v", *a.Send, began)
				}
				if a.InFlight != 4 {
					return fmt.Errorf("%d open", a.InFlight)
				}
			}
		}
		// From then on all take 500 ms; the clients begin at 100, 200, 300 and 400
		// ms, and the part ends at 2,100 ms.
		if began != 100*ms || inWave != 3 || measured != 4*4 || *r.Parts[0].Ended != 2400*ms {
			return fmt.Errorf("began %v, %d of the wave open, %d measured, ended %v", began, inWave, measured, *r.Parts[0].Ended)
		}
		return nil
	})
}

// The run ends by itself when it is told to: nothing more is sent, open requests
// have a moment of grace, and those that are left are unfinished, with the time
// that they took at least.
func TestInterrupt(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		ctx, cancel := clocks.WithCancel(ctx, c)
		c.At(1050*ms, func() { cancel(context.Canceled) })
		var all []record.Attempt
		takes := func(n int) time.Duration {
			if n%2 == 0 {
				return time.Hour
			}
			return 100 * ms
		}
		r := start(t, c, &fake{clock: c, takes: takes}, &all, Options{Levels: []int{2}, Duration: time.Minute}.Plan()...)
		r.Parts = append(r.Parts, record.Part{Phase: record.Single, Level: 1, Requests: 5})
		res := r.Run(ctx)
		if res.State != record.Interrupted || res.Reason != "interrupted" || res.End != 1150*ms {
			return fmt.Errorf("%+v", res)
		}
		if r.Parts[1].Began != nil || r.Parts[0].Ended == nil {
			return fmt.Errorf("the parts: %+v", r.Parts)
		}
		classes := map[record.Class]int{}
		for _, a := range all {
			classes[a.Class]++
			if *a.Send > 1050*ms || a.Class == record.Unfinished && *a.Total != 1150*ms-*a.Send {
				return fmt.Errorf("%s: sent %v, took %v", a.Class, *a.Send, *a.Total)
			}
		}
		if want := map[record.Class]int{record.OK: 2, record.Unfinished: 2}; !reflect.DeepEqual(classes, want) {
			return fmt.Errorf("%v", classes)
		}
		return nil
	})
}

// What was due and could not be sent before the interrupt is counted.
func TestInterruptOfAnOpenLoop(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		ctx, cancel := clocks.WithCancel(ctx, c)
		c.At(1050*ms, func() { cancel(context.Canceled) })
		var all []record.Attempt
		r := start(t, c, &fake{clock: c, takes: constant(time.Hour)}, &all, record.Part{Phase: record.Rate, AskedRate: 10, Duration: time.Minute})
		r.MaxConcurrency = 3
		if res := r.Run(ctx); len(all) != 3 || res.NotSent != 8 || all[0].Class != record.Unfinished {
			return fmt.Errorf("%d attempts, %+v", len(all), res)
		}
		return nil
	})
}

// A service that refuses at once is not asked at once again, and a record that
// cannot be kept ends the run.
func TestFailures(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		f := &fake{clock: c, takes: constant(0), class: func(int) record.Class { return record.ConnectError }}
		r := start(t, c, f, &all, Options{Levels: []int{1}, Duration: 10 * time.Second}.Plan()...)
		// 0, 100, 300, 700, 1500, and then one each second.
		if res := r.Run(ctx); len(all) != 4+9 || res.OK != 0 || res.Measured != 13 || res.State != record.Complete {
			return fmt.Errorf("%d attempts, %+v", len(all), res)
		}
		all = nil
		r = start(t, c, &fake{clock: c, takes: constant(ms)}, &all, Options{Single: 30}.Plan()...)
		r.Keep = func(int, *record.Attempt) error { return errors.New("the disk is full") }
		if res := r.Run(ctx); res.State != record.Failed || res.Reason != "the disk is full" || res.Measured != 1 {
			return fmt.Errorf("%+v", res)
		}
		return nil
	})
}

// Each reply goes back as it came, content only; a turn without a reply ends its
// conversation.
func TestConversation(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		f := &fake{clock: c, takes: constant(10 * ms), class: func(n int) record.Class {
			if n == 14 {
				return record.Empty
			}
			return record.OK
		}}
		parts := Options{Single: 0, Turns: 10}.Plan()
		r := start(t, c, f, &all, parts...)
		r.Turns, r.Tools = 10, true
		r.Run(ctx)
		if len(all) != 30 {
			return fmt.Errorf("%d attempts", len(all))
		}
		for i, a := range all {
			session, turn := i/10+1, i%10+1
			if i >= 14 {
				session, turn = (i-14)/10+3, (i-14)%10+1
			}
			if a.Session != session || a.Turn != turn {
				return fmt.Errorf("attempt %d is turn %d.%d, not %d.%d", i, a.Session, a.Turn, session, turn)
			}
			var replies []string
			results := 0
			for _, m := range f.reqs[i].Messages {
				if m.Role == llm.Assistant && len(m.ToolCalls) == 0 {
					replies = append(replies, m.Content)
				}
				if m.Role == llm.Result {
					results++
				}
			}
			var want []string
			for k := i - turn + 2; k <= i; k++ {
				want = append(want, fmt.Sprintf("reply %d", k))
			}
			if !slices.Equal(replies, want) {
				return fmt.Errorf("request %d brings back %q, not %q", i, replies, want)
			}
			if turn == 10 && results < 3 || len(f.reqs[i].Tools) == 0 {
				return fmt.Errorf("turn 10 of session %d has %d results of tools", session, results)
			}
			if before := i - 1; turn > 1 {
				a, b := f.reqs[before].Messages, f.reqs[i].Messages
				if !reflect.DeepEqual(a, b[:len(a)]) || f.reqs[i].PromptTokens <= f.reqs[before].PromptTokens {
					return fmt.Errorf("request %d does not go on from the one before", i)
				}
			}
		}
		return nil
	})
}

func TestPausesAndConnections(t *testing.T) {
	onBoth(t, func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		f, fresh := &fake{clock: c, takes: constant(10 * ms)}, &fake{clock: c, takes: constant(10 * ms)}
		r := start(t, c, f, &all, Options{Warmup: 5, Single: 3, NewConnections: true, Idle: []time.Duration{6 * time.Second}}.Plan()...)
		r.Fresh = fresh
		r.Run(ctx)
		if f.n != 8+5 || fresh.n != 8 {
			return fmt.Errorf("%d requests over warm connections, %d over new ones", f.n, fresh.n)
		}
		idle := all[16:]
		for i, a := range idle {
			before := all[15+i]
			if a.Warmup || a.Pause != 6*time.Second || *a.Send-*before.End != 6*time.Second {
				return fmt.Errorf("request %d: pause %v", i, a.Pause)
			}
		}
		return nil
	})
}

// The heads of the prompts differ, in one part and between parts; all parts ask
// the same otherwise.
func TestPromptsOfParts(t *testing.T) {
	err := clockstest.Virtual(func(ctx context.Context, c clocks.Clock) error {
		var all []record.Attempt
		f := &fake{clock: c, takes: constant(ms)}
		r := start(t, c, f, &all, Options{Single: 40, Levels: []int{1}, Requests: 40}.Plan()...)
		r.Run(ctx)
		heads, ids := map[string]bool{}, map[string]bool{}
		for i, req := range f.reqs {
			heads[req.Messages[0].Content[:20]] = true
			ids[req.RequestID] = true
			if other := f.reqs[i%40]; !reflect.DeepEqual(req.Messages[1:], other.Messages[1:]) || req.PromptTokens != other.PromptTokens {
				return fmt.Errorf("request %d asks something else than the one in the part before", i)
			}
		}
		if len(heads) != 80 || len(ids) != 80 || !strings.HasPrefix(f.reqs[0].Messages[0].Content, "Call ") {
			return fmt.Errorf("%d heads, %d IDs", len(heads), len(ids))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
