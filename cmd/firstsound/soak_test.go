package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// events plays a scenario and returns all its events.
func events(t *testing.T, args ...string) []trace.Event {
	t.Helper()
	dir, _ := keep(t, args...)
	src, err := report.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []trace.Event
	if err := src.Events(func(e *trace.Event) { all = append(all, *e) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// Memory does not grow with the number of turns when the results go to files.
// The short form keeps 2,000 values of a metric one by one, not 100,000, so that
// it is past that early.
func TestMemory(t *testing.T) {
	grown(t, unlessRace(20_000, 4_000), unlessRace(5_000, 2_000), unlessRace(2_000, 1_000), 2<<20)
}

// The same for a million turns, with the figures of a real run. By 110,000 turns
// all that is kept one by one is there, but for TTFS: 8 bytes a turn up to a
// million, in a slice that may be a quarter too large.
func TestSoak(t *testing.T) {
	if os.Getenv("FIRSTSOUND_SOAK") == "" {
		t.Skip("takes minutes: make soak, or FIRSTSOUND_SOAK=1")
	}
	grown(t, 1_000_000, 110_000, 0, 8<<20+5*report.ExactTTFS*8/4)
}

// grown plays turns into a folder, and fails if the heap grows by more than bound
// bytes from turn early to the end.
func grown(t *testing.T, turns, early, exact, bound int) {
	s, err := scenario.Load("", nil, "load.turns="+strconv.Itoa(turns), "load.warmup=0", "llm.replies=[Yes.]", "llm.tool_call=0.1", "llm.fail=0.05", "turn.preemptive=final")
	if err != nil {
		t.Fatal(err)
	}
	clock := clocks.NewVirtual()
	a, _, err := assemble(context.Background(), s, clock)
	if err != nil {
		t.Fatal(err)
	}
	r := &runCmd{out: filepath.Join(t.TempDir(), "run"), view: view{whatIf: report.DefaultPercent}}
	rec, err := r.record(s, runInfo(s, r.file, nil))
	if err != nil {
		t.Fatal(err)
	}
	o := r.view.options(s.Target, "", s.Seed)
	o.Exact = exact
	*rec.summary = *report.NewSummary(o)

	began := time.Now()
	closed, first := 0, uint64(0)
	end, err := a.run(context.Background(), func(e trace.Event) {
		if err := rec.event(&e); err != nil {
			t.Fatal(err)
		}
		if e.Mark != trace.TurnClosed {
			return
		}
		closed++
		if closed == early {
			first = heap()
		}
		if closed%100_000 == 0 {
			t.Logf("%d turns in %v: heap %.1f MB", closed, time.Since(began).Round(time.Second), float64(heap())/1e6)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	last := heap()
	t.Logf("heap after %d turns %.2f MB, after %d %.2f MB; %.0f turns/s", early, float64(first)/1e6, closed, float64(last)/1e6, float64(closed)/time.Since(began).Seconds())
	if closed != turns || last > first+uint64(bound) {
		t.Errorf("%d turns; the heap has grown from %d bytes after %d turns to %d", closed, first, early, last)
	}
	rep, err := rec.close(report.StateComplete, "", end, clock)
	if err != nil || rep.Run.Turns != int64(turns) || rep.Faults.Count != 0 {
		t.Errorf("%v, %d turns, %d faults: %+v", err, rep.Run.Turns, rep.Faults.Count, rep.Faults.First)
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// No goroutine is left when a run is over, well or not.
func TestNoGoroutineLeft(t *testing.T) {
	must(t, "version") // starts the one that waits for signals for ever
	before := runtime.NumGoroutine()
	must(t, append([]string{"run", "--turns", "40"}, sets(everything...)...)...)
	must(t, append([]string{"run", "--clock", "real", "--turns", "1", "--warmup", "0"}, sets("llm.replies=[Yes.]", "turn.max_delay=100ms", "conversation.languages=[zh]")...)...)
	s, err := scenario.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, clock := range []clocks.Clock{clocks.NewVirtual(), clocks.NewReal()} {
		a, _, err := assemble(context.Background(), s, clock)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		_, err = a.run(ctx, func(trace.Event) {
			if n++; n == 30 {
				cancel()
			}
		})
		cancel()
		if err == nil {
			t.Errorf("%T: a run that was cut off is no error", clock)
		}
	}
	for range 1000 { // those that have ended but are still counted
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	stack := make([]byte, 1<<16)
	t.Errorf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before, stack[:runtime.Stack(stack, true)])
}
