package report

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
	"firstsound/page"
)

// rowOf returns the one turn that events make, and what a Summary says of it.
func rowOf(t *testing.T, run RunInfo, o Options, events ...trace.Event) (*Turn, *Report) {
	t.Helper()
	turns, late := assemble(t, Limit{}, events)
	s := NewSummary(o)
	for _, turn := range turns {
		s.Add(turn)
	}
	return turns[0], s.Report(run, late)
}

// textOf returns the text report.
func textOf(t *testing.T, r *Report, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A commit that was taken back is neither the end of the turn nor an early one.
func TestCommitThatStood(t *testing.T) {
	named := func(e trace.Event, seq trace.Ref, causes ...trace.Ref) trace.Event {
		e.Seq, e.Causes = seq, causes
		return e
	}
	forced := trace.Attr{Key: trace.AttrForced, Int: 1}
	closed := ev(9000, trace.TurnClosed)
	tests := []struct {
		name        string
		events      []trace.Event
		endpointing Value
		dropped     int
		flags       []Flag
	}{
		{"answered", []trace.Event{ev(400, trace.TurnEnd, forced), ev(600, trace.TurnDropped), ev(1000, trace.SpeechEnd), ev(1300, trace.TurnEnd), ev(1800, trace.FirstSound), closed}, here(300e6), 1, nil},
		{"not answered", []trace.Event{ev(400, trace.TurnEnd), ev(600, trace.TurnDropped), ev(1000, trace.SpeechEnd), ev(1300, trace.TurnEnd, forced), closed}, here(300e6), 1, []Flag{FlagForcedTurn}},
		{"failed", []trace.Event{ev(400, trace.TurnEnd), ev(600, trace.TurnDropped), ev(1000, trace.SpeechEnd), ev(1300, trace.TurnEnd), ev(1800, trace.TurnFailed), closed}, here(300e6), 1, nil},
		{"early after all", []trace.Event{ev(400, trace.TurnEnd), ev(600, trace.TurnDropped), ev(900, trace.TurnEnd), ev(1000, trace.SpeechEnd), ev(1800, trace.FirstSound), closed}, here(-100e6), 1, []Flag{FlagEarlyTurn}},
		{"twice", []trace.Event{ev(100, trace.TurnEnd), ev(200, trace.TurnDropped), ev(400, trace.TurnEnd), ev(600, trace.TurnDropped), ev(1000, trace.SpeechEnd), ev(1300, trace.TurnEnd), closed}, here(300e6), 2, nil},
		{"never again", []trace.Event{ev(400, trace.TurnEnd), ev(600, trace.TurnDropped), ev(1000, trace.SpeechEnd), closed}, absent("every turn_end was taken back"), 1, []Flag{FlagStuckTurn}},
		{"it names which", []trace.Event{
			named(ev(0, trace.SpeechEnd), 1), named(ev(200, trace.TurnEnd), 2, 1), named(ev(300, trace.TurnEnd), 3, 1), named(ev(400, trace.TurnDropped), 4, 2), named(closed, 5),
		}, here(300e6), 1, nil},
		{"the answer's own", []trace.Event{
			named(ev(0, trace.SpeechEnd), 1), named(ev(200, trace.TurnEnd), 2, 1), named(ev(700, trace.FirstSound), 3, 2), named(ev(800, trace.TurnEnd), 4, 1), named(closed, 5),
		}, here(200e6), 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turn, r := rowOf(t, RunInfo{}, Options{Percent: 50}, test.events...)
			if v := turn.Value(MetricEndpointing); v != test.endpointing {
				t.Errorf("endpointing is %+v, want %+v", v, test.endpointing)
			}
			if turn.Counters.Dropped != test.dropped || turn.Row().Attempts.Dropped != test.dropped || r.Detector.Dropped != int64(test.dropped) || r.Detector.TakenBack != int64(min(test.dropped, 1)) {
				t.Errorf("taken back %d, %+v", turn.Counters.Dropped, r.Detector)
			}
			if !slices.Equal(turn.Flags, test.flags) {
				t.Errorf("flags %v, want %v", turn.Flags, test.flags)
			}
			want := "early 0 (0 %), taken back 1 (100 %), stuck"
			switch {
			case test.dropped == 2:
				want = "taken back 1 (100 %) by 2 commits, stuck"
			case test.dropped == 0:
				want = "early 0 (0 %), taken back 0 (0 %), stuck"
			case slices.Contains(test.flags, FlagEarlyTurn):
				want = "early 1 (100 %), taken back 1 (100 %), stuck"
			}
			if got := textOf(t, r, TextOptions{Width: 120}); !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		})
	}
}

// An answer may be stopped because the user talks over it, before a later one is
// interrupted.
func TestBargeInStop(t *testing.T) {
	start, closed := []trace.Event{ev(90, trace.PlayStart), ev(100, trace.FirstSound), ev(400, trace.PlayStopped), ev(1000, trace.SpeechEnd), ev(1500, trace.PlayStart)}, ev(9000, trace.TurnClosed)
	tests := []struct {
		name    string
		events  []trace.Event
		stop    Value
		overlap int64
		faults  int
	}{
		{"stopped twice", append(slices.Clone(start), ev(2000, trace.BargeIn), ev(2150, trace.PlayStopped), ev(2300, trace.PlayStopped), closed), here(150e6), 300e6, 0},
		{"heard to its end", append(slices.Clone(start), ev(2000, trace.BargeIn), ev(2500, trace.PlayEnd), closed), absent("no play_stopped after barge_in"), 300e6, 0},
		{"into a silence", []trace.Event{ev(100, trace.FirstSound), ev(400, trace.PlayStopped), ev(1000, trace.SpeechEnd), ev(2000, trace.BargeIn), closed}, absent("no play_stopped after barge_in"), 300e6, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turn, _ := rowOf(t, RunInfo{}, Options{Percent: 50}, test.events...)
			if v := turn.Value(MetricBargeInStop); v != test.stop {
				t.Errorf("barge-in stop is %+v, want %+v", v, test.stop)
			}
			if v := turn.Value(MetricOverlap); v != here(test.overlap) {
				t.Errorf("overlap is %+v, want %d", v, test.overlap)
			}
			if len(turn.Problems) != test.faults {
				t.Errorf("faults %v", turn.Problems)
			}
		})
	}
}

// What comes from the sketch holds the exact interval, at every number of values,
// of either sign.
func TestSketchHoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{101, 500, 12_345} {
		for _, shift := range []float64{0, 900e6, -3e9} {
			exact, sketch := quantile.New(n), quantile.New(100)
			for range n {
				v := int64(math.Exp(r.NormFloat64()*0.4+20.6) + shift)
				exact.Add(v)
				sketch.Add(v)
			}
			a, b := exact.Distribution(), sketch.Distribution()
			for i, f := range [][2]quantile.Figure{{a.P50, b.P50}, {a.P95, b.P95}, {a.P99, b.P99}} {
				x, y := f[0], f[1]
				if (x.Low == nil) != (y.Low == nil) || (x.High == nil) != (y.High == nil) {
					t.Fatalf("%d values: %+v and %+v", n, x, y)
				}
				if x.Low != nil && (*y.Low > *x.Low || *y.Low > *y.Value) || x.High != nil && (*y.High < *x.High || *y.High < *y.Value) {
					t.Errorf("%d values, %g, quantile %d: the sketch's %d [%d, %d] does not hold the exact %d [%d, %d]", n, shift, i, *y.Value, *y.Low, *y.High, *x.Value, *x.Low, *x.High)
				}
			}
		}
	}
}

// Above 100,000 turns TTFS is still exact, and part 2 starts from part 1's figures.
func TestManyTurns(t *testing.T) {
	s := NewSummary(Options{Percent: 25})
	r := rand.New(rand.NewPCG(5, 5))
	const n = DefaultExact + 50_000
	all := make([]int64, n)
	for i := range all {
		all[i] = 900e6 + r.Int64N(12_000_000)
		turn := &Turn{ID: trace.ID{Session: 1, Turn: i + 1}, Outcome: OutcomeOK, TTFS: here(all[i]),
			Segments: []Segment{{Stage: trace.StageTTFT, End: time.Duration(all[i])}}, WhatIfs: []WhatIf{{trace.StageTTFT, time.Duration(all[i] * 3 / 4)}}}
		turn.Values[MetricTTFS], turn.Values[MetricTTFT] = turn.TTFS, turn.TTFS
		s.Add(turn)
	}
	slices.Sort(all)
	rep := s.Report(RunInfo{}, Problems{})
	p50, _ := quantile.Of(all, 0.5)
	low, high := quantile.Ranks(n, 0.5)
	f := rep.Headline.TTFS.P50
	if *f.Value != p50 || *f.Low != all[low-1] || *f.High != all[high-1] || rep.Headline.TTFS.RelativeError != nil {
		t.Errorf("%d [%d, %d], want %d [%d, %d]", *f.Value, *f.Low, *f.High, p50, all[low-1], all[high-1])
	}
	if rep.Silence.Sampled != DefaultExact {
		t.Errorf("sampled %d", rep.Silence.Sampled)
	}
	if row := rep.Improve.Rows[0]; row.P50+row.P50Gain != p50 || !strings.Contains(rep.Improve.Sentence, "P50 from "+milliseconds(p50)) {
		t.Errorf("%+v: %s", row, rep.Improve.Sentence)
	}
	if w := strings.Join(rep.Warnings, "\n"); !strings.Contains(w, "more than 100,000 values: the quantiles of the stage metrics come from a sketch") {
		t.Errorf("warnings %s", w)
	}
}

// many makes turns of one outcome each.
func many(s *Summary, o Outcome, n int, ttfs int64, stage trace.Stage) {
	for range n {
		t := &Turn{Outcome: o, FailureKind: "llm"}
		if o == OutcomeOK {
			t.TTFS = here(ttfs)
			t.Values[MetricTTFS] = t.TTFS
			t.Segments = []Segment{{Stage: stage, End: time.Duration(ttfs)}}
		}
		s.Add(t)
	}
}

func TestWarnsOfTurnsNotAnswered(t *testing.T) {
	for _, test := range []struct {
		failed, silent, open int
		want                 string
	}{
		{1, 0, 1, ""},
		{2, 1, 2, "5 of 103 measured turns (4.9 %) were not answered: 2 failed, 1 without a reply, 2 unfinished; the figures leave them out"},
	} {
		s := NewSummary(Options{Percent: 25})
		many(s, OutcomeOK, 98, 1e9, trace.StageTTFT)
		many(s, OutcomeFailed, test.failed, 0, "")
		many(s, OutcomeNoReply, test.silent, 0, "")
		many(s, OutcomeUnfinished, test.open, 0, "")
		r := s.Report(RunInfo{}, Problems{})
		if got := r.Warnings[0]; test.want == "" && strings.Contains(got, "answered") || test.want != "" && got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
		if test.want != "" && !strings.Contains(textOf(t, r, TextOptions{}), "\n!  5 of 103 measured turns (4.9 %)") {
			t.Error("it is not in the text")
		}
	}
}

func TestWarnsOfLateTimers(t *testing.T) {
	for p99, want := range map[int64]bool{5e6: false, 5_100_000: true} {
		_, r := rowOf(t, RunInfo{Timers: &Timers{N: 10, P99: p99, Max: 9e6}}, Options{Percent: 25}, ev(0, trace.SpeechEnd), ev(500, trace.FirstSound), ev(900, trace.TurnClosed))
		if got := strings.Contains(r.Warnings[0], "timers fired 5.1"+page.Tie+"ms after they were due at P99 (max 9.0"+page.Tie+"ms)"); got != want {
			t.Errorf("%d: %q", p99, r.Warnings)
		}
	}
}

// A replay that was late is labelled: its figures are not those of live speech.
func TestWarnsOfLateReplay(t *testing.T) {
	for p99, want := range map[int64]bool{2e6: false, 2_100_000: true} {
		_, r := rowOf(t, RunInfo{Replay: &Timers{N: 10, P99: p99, Max: 9e6}}, Options{Percent: 25}, ev(0, trace.SpeechEnd), ev(500, trace.FirstSound), ev(900, trace.TurnClosed))
		if got := strings.Contains(r.Warnings[0], "late replay: sound reached the recognizer 2.1"+page.Tie+"ms after it was there at P99 (max 9.0"+page.Tie+"ms)"); got != want {
			t.Errorf("%d: %q", p99, r.Warnings)
		}
	}
}

// A target is for the median; only a gate makes another quantile a failure.
func TestTargetText(t *testing.T) {
	s := NewSummary(Options{Percent: 25, Target: Limit{At: time.Second, Known: true}, TargetSource: "yours"})
	many(s, OutcomeOK, 60, 900e6, trace.StageVAD)
	many(s, OutcomeOK, 16, 1200e6, trace.StageTTFT)
	many(s, OutcomeOK, 12, 1300e6, trace.StageVAD)
	many(s, OutcomeOK, 12, 123_456_789e6, trace.StageTurn)
	many(s, OutcomeFailed, 3, 0, "")
	many(s, OutcomeNoReply, 2, 0, "")
	r := s.Report(RunInfo{}, Problems{})
	want := Target{TTFS: 1e9, Source: "yours", P50: "met", P95: "above", Over: 40, Cause: "llm.ttft", CauseTurns: 16, Measured: 105, Within: 60}
	if *r.Headline.Target != want {
		t.Errorf("got %+v, want %+v", *r.Headline.Target, want)
	}
	text := textOf(t, r, TextOptions{Width: 400})
	for _, line := range []string{
		"   95 % interval 900.0 … 1200.0    ✓ within the target\n",
		"   95 % interval 123456789.0 … n too small  above by 123455789.0 ms\n",
		"  target (for the median) 1000.0 ms (yours): P50 met, P95 above; 40 of 100 ok turns above it, whose largest part is most often llm.ttft (16 of 40); with the 5 that failed or had no reply, 60 of 105 are within it\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	if strings.Contains(text, "✗") {
		t.Error("a tail beyond a target for the median looks like a failure")
	}
	if gated := textOf(t, r, TextOptions{Width: 400, Gate: "p95"}); !strings.Contains(gated, "n too small  ✗ over by 123455789.0 ms\n") {
		t.Errorf("with the gate at p95:\n%s", gated)
	}
}

func TestLastMark(t *testing.T) {
	closed := ev(9000, trace.TurnClosed)
	for _, test := range []struct {
		want   trace.Mark
		events []trace.Event
	}{
		{trace.LLMEnd, []trace.Event{ev(0, trace.SpeechEnd), ev(10, trace.AudioEnd), ev(300, trace.TurnEnd), ev(300, trace.LLMSend), ev(800, trace.LLMHeaders), ev(900, trace.LLMEnd), closed}},
		{trace.VADStop, []trace.Event{ev(0, trace.SpeechEnd), ev(100, trace.ASRFinal), ev(200, trace.VADStop), closed}},
		{trace.TurnDropped, []trace.Event{ev(0, trace.SpeechEnd), ev(100, trace.TurnEnd), ev(100, trace.LLMSend), ev(200, trace.TurnDropped), closed}},
		{trace.LLMSend, []trace.Event{ev(0, trace.SpeechEnd), ev(100, trace.TurnEnd), ev(110, trace.FirstFiller), ev(120, trace.LLMSend), ev(900, trace.PlayEnd), closed}},
		{trace.TTSEnd, []trace.Event{ev(0, trace.SpeechEnd), ev(100, trace.LLMSend), ev(200, trace.TTSSend), ev(300, trace.TTSEnd), ev(400, trace.TurnFailed), closed}},
		{"", []trace.Event{ev(0, trace.TurnOpened), closed}},
	} {
		if turn, _ := rowOf(t, RunInfo{}, Options{Percent: 25}, test.events...); turn.LastMark != test.want {
			t.Errorf("got %q, want %q", turn.LastMark, test.want)
		}
	}
}

func TestTextOfAFileOfEvents(t *testing.T) {
	turn := []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.FirstSound), ev(900, trace.TurnClosed)}
	_, bare := rowOf(t, RunInfo{Events: 3}, Options{Percent: 25}, turn...)
	if got := textOf(t, bare, TextOptions{}); !strings.HasPrefix(got, "firstsound  1 turn · 3 events\n") {
		t.Errorf("it tells a seed that nobody knows:\n%s", got)
	}
	_, whole := rowOf(t, RunInfo{Format: RunFormat, Events: 3}, Options{Percent: 25}, turn...)
	if got := textOf(t, whole, TextOptions{}); !strings.HasPrefix(got, "firstsound  seed 0 · 1 turn · 3 events\n") {
		t.Errorf("it does not tell its seed:\n%s", got)
	}
	if shownUnit(UnitMillionth) != "×" {
		t.Errorf("the unit of a ratio is %q", shownUnit(UnitMillionth))
	}
}

// A stage with several rows says why.
func TestRowsBySetting(t *testing.T) {
	p := &sheet{Page: page.New(200, false)}
	for n, rows := range map[int][]ShareRow{0: {{Stage: "turn"}, {Stage: "vad"}}, 1: {{Stage: "turn"}, {Stage: "turn", Setting: "turn.min_delay=1s"}}} {
		if got := strings.Count(p.shareNote(&Silence{Rows: rows, MedianTurns: 9, TailTurns: 9}, 90), "a stage has a row for each setting that owns its time"); got != n {
			t.Errorf("%v: %d", rows, got)
		}
	}
}
