package report

import (
	"math/rand/v2"
	"testing"
	"time"

	"firstsound/clocks/trace"
)

// randomTurn makes up a turn that no pipeline would have: any marks, any
// causes or none, times that go forwards and, sometimes, backwards.
func randomTurn(r *rand.Rand) []trace.Event {
	s := &script{id: trace.ID{Session: 1, Turn: 1}}
	at := time.Duration(r.IntN(1000))
	end := 1 + r.IntN(4)
	n := 6 + r.IntN(40)
	for i := 1; i <= n; i++ {
		e := trace.Event{At: at, Mark: usuals[r.IntN(len(usuals))].mark, Attempt: r.IntN(3)}
		switch {
		case i == end:
			e.Mark = trace.SpeechEnd
		case i == n-1:
			e.Mark = trace.FirstSound
		case i == n:
			e.Mark = trace.TurnClosed
		case e.Mark == trace.TurnClosed || e.Mark == trace.FirstSound || e.Mark == trace.SpeechEnd:
			e.Mark = "of another make"
		}
		if r.IntN(3) > 0 && i > 1 {
			for range 1 + r.IntN(3) {
				e.Causes = append(e.Causes, trace.Ref(1+r.IntN(i-1)))
			}
		}
		if r.IntN(4) == 0 {
			e.Stage = trace.Stages[r.IntN(len(trace.Stages))]
			e.Setting = []string{"", "a=1", "b=2"}[r.IntN(3)]
		}
		s.record(e)
		if at += time.Duration(r.IntN(500)); r.IntN(10) == 0 {
			at -= time.Duration(r.IntN(600))
		}
	}
	return s.events
}

func TestSegmentsTile(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := newAnalysis(Limit{}, 25)
	withPath := 0
	for range 20_000 {
		events := randomTurn(r)
		turn := a.analyse(events[0].ID, events, nil, true)
		if !turn.TTFS.OK {
			continue
		}
		if turn.TTFS.N < 0 {
			if len(turn.Segments) != 0 {
				t.Fatalf("an early turn has segments: %+v", turn)
			}
			continue
		}
		withPath++
		checkTiles(t, turn)
		checkWhatIf(t, a, turn)
		checkSlack(t, a)
	}
	if withPath < 10_000 {
		t.Errorf("only %d turns had a path", withPath)
	}
}

// checkTiles makes sure that the segments of a turn tile its silence.
func checkTiles(t *testing.T, turn *Turn) {
	t.Helper()
	begin, _ := turn.At(trace.SpeechEnd)
	at, sum := begin, time.Duration(0)
	for i, s := range turn.Segments {
		if s.Start != at || s.End <= s.Start || s.Stage == "" {
			t.Fatalf("segment %d of %+v does not begin at %d", i, turn.Segments, at)
		}
		if i > 0 && s.Stage == turn.Segments[i-1].Stage && s.Setting == turn.Segments[i-1].Setting {
			t.Fatalf("segment %d of %+v was not merged", i, turn.Segments)
		}
		at, sum = s.End, sum+s.End-s.Start
	}
	if int64(sum) != turn.TTFS.N {
		t.Fatalf("the segments sum to %d, TTFS is %d", sum, turn.TTFS.N)
	}
}

// checkWhatIf makes sure that a stage that is not faster changes nothing, and
// that a faster one never makes TTFS longer.
func checkWhatIf(t *testing.T, a *analysis, turn *Turn) {
	t.Helper()
	a.g.pack()
	for s := range a.g.stages {
		if at := a.g.recur(int16(s), 0); at != a.g.nodes[a.g.firstSound].at {
			t.Fatalf("0 %% faster moves first_sound to %d", at)
		}
		if short, long := a.g.whatIf(int16(s), a.percent), a.g.recur(int16(s), a.percent); short != long {
			t.Fatalf("the short cut says %d, the recurrence %d", short, long)
		}
	}
	for _, w := range turn.WhatIfs {
		if int64(w.TTFS) > turn.TTFS.N {
			t.Fatalf("a faster %s makes TTFS longer", w.Stage)
		}
	}
}

// checkSlack delays each mark by its slack, which must move nothing, and by one
// more, which must move first_sound by one.
func checkSlack(t *testing.T, a *analysis) {
	t.Helper()
	g := &a.g
	was := g.nodes[g.firstSound].at
	for i := range g.nodes[:g.firstSound] {
		n := &g.nodes[i]
		if !n.bears {
			continue
		}
		slack := n.late - n.at
		if slack < 0 || n.onPath && slack != 0 {
			t.Fatalf("mark %d, on the path %v, has the slack %d", i, n.onPath, slack)
		}
		if at := delayed(g, i, slack); at != was {
			t.Fatalf("mark %d with the slack %d moves first_sound by %d", i, slack, at-was)
		}
		if at := delayed(g, i, slack+1); at != was+1 {
			t.Fatalf("mark %d with one more than the slack %d moves first_sound by %d", i, slack, at-was)
		}
	}
}

// delayed returns when first_sound would be if node late were d later.
func delayed(g *graph, late int, d time.Duration) time.Duration {
	at := make([]time.Duration, len(g.nodes))
	for i := range g.nodes {
		n := &g.nodes[i]
		at[i] = n.at
		if n.from < n.to {
			latest := at[g.causes[n.from]]
			for _, c := range g.causes[n.from:n.to] {
				latest = max(latest, at[c])
			}
			at[i] = latest + n.lag
		}
		if i == late {
			at[i] += d
		}
	}
	return at[g.firstSound]
}

func TestSampleTurnsTile(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	a := newAnalysis(Limit{}, 25)
	for i := range 2000 {
		events := sampleTurn(r, trace.ID{Session: i + 1, Turn: 2})
		turn := a.analyse(events[0].ID, events, nil, true)
		if len(turn.Problems) > 0 {
			t.Fatalf("%+v", turn.Problems)
		}
		if turn.TTFS.OK {
			checkTiles(t, turn)
			for _, s := range turn.Segments {
				if s.Stage == StageUnexplained {
					t.Fatalf("%+v", turn.Segments)
				}
			}
		}
	}
}
