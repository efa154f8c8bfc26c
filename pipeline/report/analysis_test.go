package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/trace"
)

// assemble puts events through an Assembler, in the order given.
func assemble(t *testing.T, end Limit, events []trace.Event) ([]*Turn, Problems) {
	t.Helper()
	var out []*Turn
	a, err := NewAssembler(end, 50, func(turn *Turn) { out = append(out, turn.Clone()) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		a.Add(&events[i])
	}
	return out, a.Close()
}

// ev is an event without a number or causes, as a file made by hand has it.
func ev(msec int, m trace.Mark, attrs ...trace.Attr) trace.Event {
	return trace.Event{At: time.Duration(msec) * time.Millisecond, ID: trace.ID{Session: 1, Turn: 1}, Mark: m, Attrs: attrs}
}

func segments(t *Turn) string {
	var parts []string
	for _, s := range t.Segments {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %d %s", s.Stage, (s.End-s.Start).Milliseconds(), s.Setting)))
	}
	return strings.Join(parts, ", ")
}

func TestUsualCauses(t *testing.T) {
	tests := []struct {
		name   string
		events []trace.Event
		want   string
	}{
		{"plain cascade", []trace.Event{
			ev(0, trace.SpeechStart), ev(1000, trace.SpeechEnd), ev(1020, trace.SpeechHeard), ev(1200, trace.ASRFinal), ev(1320, trace.VADStop), ev(1340, trace.TurnDecision), ev(1400, trace.TurnDelay), ev(1400, trace.TurnEnd),
			ev(1400, trace.AgentStart), ev(1400, trace.StepStart, trace.Attr{Key: trace.AttrStep, Text: "rag"}), ev(1450, trace.StepEnd, trace.Attr{Key: trace.AttrStep, Text: "rag"}), ev(1450, trace.AgentEnd), ev(1451, trace.LLMSend), ev(1461, trace.LLMConnected), ev(1500, trace.LLMPrefill), ev(1600, trace.LLMFirstToken),
			ev(1650, trace.LLMSegmentText), ev(1655, trace.LLMFirstSegment), ev(1655, trace.TTSSend), ev(1660, trace.TTSConnected), ev(1760, trace.TTSFirstFrame), ev(1780, trace.PlayQueued), ev(1840, trace.PlayStart), ev(1870, trace.FirstSound), ev(3000, trace.TurnClosed)},
			"uplink 20, vad 300, turn 80, agent.rag 50, harness 1, llm.connect 10, llm.queue 39, llm.prefill 100, llm.decode 50, aggregate 5, tts.connect 5, tts.first_frame 100, downlink 20, playout 60, tts.silence 30"},
		{"only the ends", []trace.Event{ev(0, trace.SpeechEnd), ev(700, trace.FirstSound), ev(800, trace.TurnClosed)}, "unexplained 700"},
		{"another root", []trace.Event{ev(0, trace.SpeechEnd), {At: 300e6, ID: trace.ID{Session: 1, Turn: 1}, Mark: trace.AudioEnd},
			{At: 500e6, ID: trace.ID{Session: 1, Turn: 1}, Mark: trace.FirstSound, Causes: []trace.Ref{2}, Stage: trace.StageASR}, ev(800, trace.TurnClosed)}, "unexplained 300, asr 200"},
		{"cut at speech_end", []trace.Event{ev(0, trace.SpeechStart), ev(400, trace.ASRPartial), ev(500, trace.LLMSend), ev(600, trace.SpeechEnd), ev(900, trace.LLMFirstToken), ev(900, trace.TTSSend), ev(1000, trace.TTSFirstFrame), ev(1000, trace.FirstSound), ev(1100, trace.TurnClosed)},
			"llm.ttft 300, tts.first_frame 100"},
		{"retry of the synthesizer", []trace.Event{ev(0, trace.SpeechEnd), ev(0, trace.TurnEnd), ev(0, trace.TTSSend), ev(300, trace.TTSFailed), ev(400, trace.RetryWait), ev(400, trace.TTSSend), ev(500, trace.TTSFirstFrame), ev(500, trace.FirstSound), ev(600, trace.TurnClosed)},
			"tts.retry 400, tts.first_frame 100"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turns, _ := assemble(t, Limit{}, test.events)
			if len(turns) != 1 {
				t.Fatalf("%d turns", len(turns))
			}
			if got := segments(turns[0]); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
			checkTiles(t, turns[0])
		})
	}
}

func TestWhatIfIsNoSubtraction(t *testing.T) {
	// The LLM waits for retrieval (400 ms) and for a tool beside it (380 ms):
	// halving the retrieval gains 20 ms, not 200.
	s := &script{id: trace.ID{Session: 1, Turn: 1}}
	end := s.mark(0, trace.SpeechEnd, "")
	a := s.mark(400e6, trace.StepEnd, "agent.retrieval", end)
	b := s.mark(380e6, trace.StepEnd, "agent.tool", end)
	s.mark(1000e6, trace.FirstSound, "llm.ttft", a, b)
	s.mark(1000e6, trace.TurnClosed, "")
	turns, _ := assemble(t, Limit{}, s.events)
	want := []WhatIf{{"agent.retrieval", 980e6}, {"llm.ttft", 700e6}}
	if !slices.Equal(turns[0].WhatIfs, want) {
		t.Errorf("got %v, want %v", turns[0].WhatIfs, want)
	}
	if want := []Slack{{trace.StepEnd, 380e6, "agent.tool", 20e6}}; !slices.Equal(turns[0].Slacks, want) {
		t.Errorf("got %v, want %v", turns[0].Slacks, want)
	}
}

func TestOutcomes(t *testing.T) {
	warm := trace.Attr{Key: trace.AttrWarmup, Int: 1}
	kind := trace.Attr{Key: trace.AttrKind, Text: "timeout"}
	closed := ev(9000, trace.TurnClosed)
	tests := []struct {
		want   string
		events []trace.Event
	}{
		{"ok", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.FirstSound), closed}},
		{"ok", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.FirstSound), ev(600, trace.BargeIn), ev(900, trace.PlayEnd), closed}},
		{"warmup", []trace.Event{ev(0, trace.TurnOpened, warm), ev(0, trace.SpeechEnd), ev(500, trace.TurnFailed, kind), closed}},
		{"interrupted", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.FirstSound), ev(600, trace.BargeIn), ev(700, trace.PlayStopped), closed}},
		{"early_reply", []trace.Event{ev(400, trace.FirstSound), ev(500, trace.SpeechEnd), closed}},
		{"no_reply", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.LLMSend), closed}},
		{"failed:timeout", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.TurnFailed, kind), closed}},
		{"failed:unknown", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.TurnFailed), closed}},
		{"unfinished", []trace.Event{ev(0, trace.SpeechEnd), ev(500, trace.FirstSound)}},
	}
	for _, test := range tests {
		turns, _ := assemble(t, Limit{}, test.events)
		if len(turns) != 1 || turns[0].OutcomeKey() != test.want {
			t.Errorf("got %+v, want %s", turns, test.want)
		}
	}
	turns, _ := assemble(t, Limit{}, tests[2].events)
	if turns[0].FailureKind != "timeout" {
		t.Errorf("the failure of a warm-up turn is lost: %+v", turns[0])
	}
	turns, _ = assemble(t, Limit{}, tests[5].events)
	if turns[0].LastMark != trace.LLMSend {
		t.Errorf("the last mark is %s", turns[0].LastMark)
	}
}

func TestFaults(t *testing.T) {
	id := trace.ID{Session: 1, Turn: 1}
	tests := []struct {
		name   string
		events []trace.Event
		want   string
	}{
		{"negative", []trace.Event{ev(500, trace.TurnEnd), {At: 400e6, ID: id, Mark: trace.LLMSend, Causes: []trace.Ref{1}}}, "llm_send at 400000000 ns is before its cause turn_end at 500000000 ns"},
		{"no such cause", []trace.Event{{ID: id, Mark: trace.LLMSend, Causes: []trace.Ref{9}}}, "names event 9"},
		{"its own cause", []trace.Event{{ID: id, Mark: trace.LLMSend, Causes: []trace.Ref{1}}}, "names event 1"},
		{"fault", []trace.Event{ev(0, trace.Fault, trace.Attr{Key: trace.AttrError, Text: "the clock stood still"})}, "the clock stood still"},
		{"Unix time", []trace.Event{{At: 1_764_000_000_000_000_000, ID: id, Mark: trace.VADStop}}, "looks like a Unix time"},
		{"before the run", []trace.Event{{At: -1, ID: id, Mark: trace.VADStop}}, "before the run began"},
		{"after the run", []trace.Event{ev(11_000, trace.VADStop)}, "after the run's end"},
		{"order", []trace.Event{ev(5, trace.LLMFirstToken), ev(9, trace.LLMSend)}, "llm_first_token at 5000000 ns is before llm_send"},
		{"twice", []trace.Event{ev(5, trace.SpeechEnd), ev(9, trace.SpeechEnd)}, "speech_end occurs again"},
		{"number", []trace.Event{{ID: id, Mark: trace.SpeechEnd, Seq: 1}, {ID: id, Mark: trace.TurnEnd, Seq: 1}}, "turn_end has seq 1, but 1 came before"},
		{"late", []trace.Event{ev(0, trace.TurnClosed), ev(5, trace.TTSEnd)}, "tts_end at 5000000 ns belongs to a turn that is closed"},
		{"stale", []trace.Event{{ID: trace.ID{Session: 2, Turn: 1}, Mark: trace.TTSEnd, Seq: 40}}, "tts_end at 0 ns belongs to a turn that is closed, or whose beginning"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turns, late := assemble(t, Limit{10 * time.Second, true}, test.events)
			var all []string
			for _, turn := range turns {
				for _, p := range turn.Problems {
					all = append(all, p.Text)
				}
			}
			for _, p := range late.First {
				all = append(all, p.Text)
			}
			if len(all) != 1 || !strings.Contains(all[0], test.want) {
				t.Errorf("got %q, want %q", all, test.want)
			}
		})
	}
}

func TestMetricsOfTheAttemptThatWasHeard(t *testing.T) {
	tokens := trace.Attr{Key: trace.AttrTokens, Int: 11}
	one := func(e trace.Event) trace.Event { e.Attempt = 1; return e }
	two := func(e trace.Event) trace.Event { e.Attempt = 2; return e }
	turns, _ := assemble(t, Limit{}, []trace.Event{
		ev(0, trace.SpeechEnd), ev(0, trace.TurnEnd),
		one(ev(0, trace.LLMSend)), one(ev(50, trace.LLMFirstToken)), one(ev(100, trace.LLMFailed)),
		two(ev(100, trace.LLMSend)), two(ev(400, trace.LLMFirstToken)), two(ev(900, trace.LLMLastToken)), two(ev(950, trace.LLMEnd, tokens)),
		ev(400, trace.TTSSend), ev(500, trace.TTSFirstFrame), ev(500, trace.FirstSound), ev(1000, trace.TurnClosed),
	})
	got := turns[0]
	for m, want := range map[Metric]int64{MetricTTFT: 300e6, MetricTPOT: 50e6, MetricLLMTotal: 850e6, MetricOutput: 11, MetricTTFA: 100e6} {
		if v := got.Value(m); !v.OK || v.N != want {
			t.Errorf("%s is %+v, want %d", m, v, want)
		}
	}
	if v := got.Value(MetricRTF); v.OK || v.Why == "" {
		t.Errorf("RTF is %+v, want that it is absent", v)
	}
	for m := range MetricCount {
		if v := got.Value(m); v.OK == (v.Why != "") {
			t.Errorf("%s is %+v: it must be there, or absent with a reason", m, v)
		}
	}
}

// The turns of a session that ends are handed out, and those of others stay open.
func TestAssemblerEnds(t *testing.T) {
	var out []string
	a, err := NewAssembler(Limit{}, 50, func(turn *Turn) {
		out = append(out, fmt.Sprintf("%d.%d %s", turn.ID.Session, turn.ID.Turn, turn.Outcome))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []trace.ID{{Session: 1, Turn: 2}, {Session: 2, Turn: 1}, {Session: 1, Turn: 1}} {
		e := ev(0, trace.SpeechEnd)
		e.ID = id
		a.Add(&e)
	}
	a.End(1)
	a.End(3)
	if got := strings.Join(out, ", "); got != "1.1 unfinished, 1.2 unfinished" {
		t.Error(got)
	}
	e := ev(5, trace.FirstSound)
	a.Add(&e)
	if late := a.Close(); late.Count != 1 || out[len(out)-1] != "2.1 unfinished" {
		t.Errorf("%v, %v", late, out)
	}
}

func TestAssemblerForgets(t *testing.T) {
	a, err := NewAssembler(Limit{}, 25, func(*Turn) {})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50_000 {
		a.Add(&trace.Event{ID: trace.ID{Session: i, Turn: 1}, Mark: trace.TurnOpened})
		a.Add(&trace.Event{ID: trace.ID{Session: i, Turn: 1}, Mark: trace.TurnClosed})
	}
	if len(a.open) != 0 || len(a.free) != 1 || len(a.closed) != ringSize {
		t.Errorf("%d open, %d free, %d closed turns are kept", len(a.open), len(a.free), len(a.closed))
	}
	if _, err := NewAssembler(Limit{}, 101, nil); err == nil {
		t.Error("101 % faster was taken")
	}
}
