package main

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/pipeline/scenario"
)

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
