package report

import (
	"math/rand/v2"
	"testing"

	"firstsound/clocks/trace"
)

// BenchmarkTurn takes made-up turns of about 29 events through Assembler,
// analysis and Summary: one session at a time, or 8 whose events come
// interleaved; with every value kept, or in sketches.
func BenchmarkTurn(b *testing.B) {
	for _, c := range []struct {
		name            string
		sessions, exact int
	}{{"exact", 1, DefaultExact}, {"sketch", 1, 1000}, {"8 sessions", 8, 1000}} {
		b.Run(c.name, func(b *testing.B) { benchmarkTurn(b, c.sessions, c.exact) })
	}
}

func benchmarkTurn(b *testing.B, sessions, exact int) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 512
	turns := make([][]trace.Event, n)
	events := 0
	for i := range turns {
		turns[i] = sampleTurn(r, trace.ID{Session: i%sessions + 1, Turn: i/sessions + 2})
		events += len(turns[i])
	}
	s := NewSummary(Options{Percent: 25, Exact: exact})
	a, err := NewAssembler(Limit{}, 25, s.Add)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += sessions {
		at := i % n
		if at == 0 && i > 0 {
			renumber(turns)
		}
		interleave(a, turns[at:at+sessions])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(float64(events)/n, "events/turn")
}

// renumber makes new turns of the old ones.
func renumber(turns [][]trace.Event) {
	for _, t := range turns {
		for k := range t {
			t[k].ID.Turn += len(turns)
		}
	}
}

// interleave adds the turns' events by turns.
func interleave(a *Assembler, turns [][]trace.Event) {
	for k, more := 0, true; more; k++ {
		more = false
		for _, t := range turns {
			if k < len(t) {
				a.Add(&t[k])
				more = true
			}
		}
	}
}
