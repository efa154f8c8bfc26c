package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// Calls that are played apart, as far as each of them can go, bring the same events
// in the same order as calls that are in step.
func TestApart(t *testing.T) {
	play := func(apart bool, settings []string) (events []string) {
		s, err := scenario.Load("", nil, settings...)
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := assemble(t.Context(), s, clocks.NewVirtual())
		if err != nil {
			t.Fatal(err)
		}
		a.plan.Apart = apart
		end, err := a.run(t.Context(), func(e trace.Event) { events = append(events, string(trace.AppendJSON(nil, &e))) })
		if err != nil {
			t.Fatal(err)
		}
		return append(events, end.String())
	}
	for name, settings := range map[string][]string{
		"default":   nil,
		"barge-in":  {"conversation.barge_in=0.6", "conversation.turns=8"},
		"speculate": {"turn.preemptive=partial", "turn.false_finish=0.7", "asr.word_errors=0.1"},
		"tools":     {"llm.tool_call=0.6", "llm.reasoning=40"},
		"lossy":     {"line.downlink.loss=0.05", "line.uplink.loss=0.05", "line.downlink.reorder=true"},
		"no delay":  {"line.uplink.delay=0ms", "line.uplink.jitter=0ms", "line.downlink.delay=0ms", "line.downlink.jitter=0ms"},
		"poisson":   {"load.arrival=poisson", "load.rate=5", "load.duration=40s", "load.turns=0"},
	} {
		settings = append([]string{"load.sessions=50", "load.turns=300"}, settings...)
		together, apart := play(false, settings), play(true, settings)
		if len(together) < 5000 || len(apart) != len(together) {
			t.Errorf("%s: %d events together, %d apart", name, len(together), len(apart))
			continue
		}
		for i := range together {
			if apart[i] != together[i] {
				t.Errorf("%s: event %d is %s apart, %s together", name, i, apart[i], together[i])
				break
			}
		}
	}
}

// benchmarkTurns plays the default scenario without any report.
func benchmarkTurns(b *testing.B, sessions int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s, err := scenario.Load("", nil, fmt.Sprintf("load.sessions=%d", sessions), fmt.Sprintf("load.turns=%d", b.N), "load.warmup=0")
	if err != nil {
		b.Fatal(err)
	}
	clock := clocks.NewVirtual()
	a, _, err := assemble(context.Background(), s, clock)
	if err != nil {
		b.Fatal(err)
	}
	events := 0
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := a.run(context.Background(), func(trace.Event) { events++ }); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(events)/float64(b.N), "marks/turn")
	b.ReportMetric(float64(clock.Events())/float64(b.N), "wakes/turn")
}

func BenchmarkTurnAlone(b *testing.B)        { benchmarkTurns(b, 1) }
func BenchmarkTurn1000Sessions(b *testing.B) { benchmarkTurns(b, 1000) }

// BenchmarkHour plays 1,000 calls at the same time for some simulated minutes, as
// firstsound run does, with the report and without, and tells how long an hour of
// that takes.
func BenchmarkHour(b *testing.B) {
	const minutes = 4
	for _, reported := range []bool{false, true} {
		b.Run(fmt.Sprintf("report=%t", reported), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // as run does
			turns := 0
			for b.Loop() {
				turns += playMinutes(b, minutes, reported)
			}
			took := b.Elapsed()
			b.ReportMetric(float64(turns)/took.Seconds(), "turns/s")
			b.ReportMetric(float64(took.Nanoseconds())/float64(turns), "ns/turn")
			b.ReportMetric(took.Seconds()/float64(b.N)*60/minutes, "s/hour")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// playMinutes returns how many turns there were.
func playMinutes(b *testing.B, minutes int, reported bool) (turns int) {
	s, err := scenario.Load("", nil, "load.sessions=1000", fmt.Sprintf("load.duration=%dm", minutes), "load.turns=0", "load.warmup=0")
	if err != nil {
		b.Fatal(err)
	}
	clock := clocks.NewVirtual()
	a, _, err := assemble(context.Background(), s, clock)
	if err != nil {
		b.Fatal(err)
	}
	r := &runCmd{view: view{turn: "median", whatIf: report.DefaultPercent}}
	rec, err := r.record(s, runInfo(s, r.file, nil))
	if err != nil {
		b.Fatal(err)
	}
	end, err := a.run(context.Background(), func(e trace.Event) {
		if e.Mark == trace.TurnClosed {
			turns++
		}
		if reported {
			rec.event(&e)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	if reported {
		rec.close(report.StateComplete, "", end, clock)
	}
	return turns
}
