package pipeline

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/audio"

	"firstsound/clocks/trace"
)

func TestPlainCascade(t *testing.T) {
	b := newBench()
	events := b.run(t, Say{Utterance: utterance("book a table"), RequestID: "r1"})
	got := times(events, 1)
	want := "turn_opened@0 speech_start@100 vad_start@110 asr_partial@310 speech_end@800 speech_heard@810 " +
		"vad_stop@1010 turn_end@1010 asr_final@1060 llm_send@1060 llm_first_token@1110 " +
		// "Sure, " "done. " "Anything " "else?": the full stop is there at 1120 and sure at 1130
		"llm_segment_text@1120 llm_first_segment@1130 tts_send@1130 llm_last_token@1140 llm_end@1140 " +
		"tts_first_frame@1230 tts_first_audible@1230 play_queued@1240 play_start@1240 first_sound@1316 " +
		"tts_end@1330 play_end@3400 turn_closed@3400"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// say is a turn of the tests.
func say() Say { return Say{Utterance: utterance("book a table"), RequestID: "r"} }

func TestTurnTaking(t *testing.T) {
	tests := []struct {
		name  string
		set   func(b *bench)
		marks []trace.Mark
		want  string
	}{
		{"the minimum delay runs beside the hangover", func(b *bench) { b.Turn.MinDelay = 500 * ms },
			[]trace.Mark{trace.VADStop, trace.TurnDelay, trace.TurnEnd}, "vad_stop@1010 turn_delay@1300 turn_end@1300"},
		{"or after the decision", func(b *bench) { b.Turn.MinDelay, b.Turn.Add = 500*ms, true },
			[]trace.Mark{trace.VADStop, trace.TurnDelay, trace.TurnEnd}, "vad_stop@1010 turn_delay@1510 turn_end@1510"},
		{"a minimum delay that has passed is none", func(b *bench) { b.Turn.MinDelay = 150 * ms },
			[]trace.Mark{trace.VADStop, trace.TurnDelay, trace.TurnEnd}, "vad_stop@1010 turn_end@1010"},
		{"a detector that is never sure is forced", func(b *bench) { b.Turn.Detector = always(false) },
			[]trace.Mark{trace.TurnDecision, trace.TurnDelay, trace.TurnEnd}, "turn_decision@1010 turn_delay@4010 turn_end@4010"},
		{"the server ends the turn", func(b *bench) {
			b.Turn.Server = true
			b.asr.results = append(b.asr.results, asr.Result{At: 1500 * ms, Kind: asr.Endpoint})
		}, []trace.Mark{trace.VADStop, trace.ASREndpoint, trace.TurnEnd}, "vad_stop@1010 asr_endpoint@1510 turn_end@1510"},
		{"without a VAD the transcript ends the turn", func(b *bench) { b.VAD = nil },
			[]trace.Mark{trace.VADStop, trace.ASRFinal, trace.TurnEnd}, "asr_final@1060 turn_end@1060"},
		{"a pause in the speech: the user goes on before anything is heard", func(b *bench) {
			b.vad.runs = [][2]time.Duration{{100 * ms, 300 * ms}, {600 * ms, 800 * ms}}
		}, []trace.Mark{trace.VADStart, trace.VADStop, trace.VADResumed, trace.TurnEnd, trace.TurnDropped, trace.LLMSend, trace.TurnClosed},
			"vad_start@110 vad_stop@510 turn_end@510 vad_resumed@610 turn_dropped@610 vad_stop@1010 turn_end@1010 llm_send@1060 turn_closed@3400"},
		{"no final transcript: the partial one serves", func(b *bench) {
			b.asr.results = b.asr.results[:2]
			b.asr.results = append(b.asr.results, asr.Result{At: time.Hour, Kind: asr.Final})
		}, []trace.Mark{trace.TurnEnd, trace.ASRTimeout, trace.LLMSend, trace.TurnClosed},
			"turn_end@1010 asr_timeout@2010 llm_send@2010 turn_closed@4350"},
		{"no transcript at all", func(b *bench) { b.asr.results = nil },
			[]trace.Mark{trace.TurnFailed, trace.TurnClosed}, "turn_failed@0 turn_closed@800"},
		{"an empty transcript", func(b *bench) { b.asr.results = []asr.Result{{At: 900 * ms, Kind: asr.Final}} },
			[]trace.Mark{trace.ASRFinal, trace.TurnEnd, trace.LLMSend, trace.TurnFailed, trace.TurnClosed}, "asr_final@910 turn_end@1010 turn_closed@1010"},
		{"the recognizer fails", func(b *bench) { b.asr.err = errors.New("quota"); b.asr.results = b.asr.results[:1] },
			[]trace.Mark{trace.TurnFailed, trace.TurnClosed}, "turn_failed@310 turn_closed@800"},
		{"a VAD that hears nothing", func(b *bench) { b.vad.runs = nil },
			[]trace.Mark{trace.ASRFinal, trace.TurnEnd, trace.TurnClosed}, "asr_final@1060 turn_closed@5000"},
		// The turn is looked after at 5000, and then every 4 s.
		{"sound that is late, and a VAD that hears no end of it", func(b *bench) {
			b.line.delay = 4500 * ms
			b.vad.runs[0][1] = time.Hour
		}, []trace.Mark{trace.VADStart, trace.SpeechHeard, trace.TurnClosed}, "vad_start@4600 speech_heard@5300 turn_closed@9000"},
		{"a commit that is taken back late, for good", func(b *bench) {
			b.vad.runs = [][2]time.Duration{{100 * ms, 800 * ms}, {5200 * ms, time.Hour}}
			b.llm.answers = []string{"…"}
		}, []trace.Mark{trace.TurnEnd, trace.TurnDropped, trace.FirstSound, trace.TurnClosed}, "turn_end@1010 turn_dropped@5210 turn_closed@9000"},
		{"a second stop does not take the recognizer's time limit away", func(b *bench) {
			b.vad.runs = [][2]time.Duration{{100 * ms, 800 * ms}}
			b.vad.again = 1200 * ms
			b.asr.results = []asr.Result{{At: 300 * ms, Text: "book"}, {At: time.Hour, Kind: asr.Final}}
		}, []trace.Mark{trace.TurnEnd, trace.ASRTimeout, trace.TurnClosed}, "turn_end@1010 asr_timeout@2010 turn_closed@4350"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench()
			test.set(b)
			if got := times(b.run(t, say()), 1, test.marks...); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// A live caller goes in the middle of a word: the turn ends long before the longest
// that it might have said.
func TestCallerGoes(t *testing.T) {
	for misplaced, want := range map[time.Duration]string{
		0:        "speech_end@2000 speech_heard@2010 turn_closed@10010",
		500 * ms: "speech_end@2010 speech_heard@2010 turn_closed@10010", // no mark lies in the future
	} {
		b := newBench()
		b.line.found, b.line.misplaced = 2*time.Second, misplaced
		b.vad.runs[0][1] = time.Hour
		u := utterance("")
		u.End, u.Sound = unknown, audio.Frame{Rate: 1, PCM: make([]int16, 90)}
		if got := times(b.run(t, Say{Utterance: u}), 1, trace.SpeechEnd, trace.SpeechHeard, trace.TurnClosed); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A turn of a real caller begins when it is known, which may be after the speech has
// begun: then the speech is heard before its end was due. There is one end, and it does
// not come after it was heard, whichever is told first.
func TestLateTurn(t *testing.T) {
	for delay, want := range map[time.Duration]string{
		-300 * ms: "speech_end@500 speech_heard@500",
		300 * ms:  "speech_end@800 speech_heard@1100",
	} {
		b := newBench()
		b.line.delay = delay
		got := times(b.run(t, Say{Utterance: utterance("hello"), Live: true}), 1, trace.SpeechEnd, trace.SpeechHeard)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A pause that ends the turn wrongly, long enough for the answer to begin in it.
func TestEarlyReply(t *testing.T) {
	b := newBench()
	u := utterance("book a table")
	u.End = 5 * time.Second
	u.Sound.PCM = make([]int16, 16000*6)
	b.vad.runs = [][2]time.Duration{{100 * ms, 300 * ms}, {4000 * ms, 5000 * ms}}
	b.asr.results = []asr.Result{{At: 300 * ms, Text: "book"}, {At: 350 * ms, Kind: asr.Final, Text: "book a"}}
	got := times(b.run(t, Say{Utterance: u}), 1, trace.TurnEnd, trace.FirstSound, trace.SpeechEnd, trace.PlayStopped, trace.PlayEnd, trace.TurnClosed)
	// The answer of two pieces is over before the user goes on.
	if want := "turn_end@510 first_sound@766 play_end@2850 speech_end@5000 turn_closed@5000"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPreemptive(t *testing.T) {
	tests := []struct {
		name string
		set  func(b *bench)
		want string
	}{
		{"adopted", func(b *bench) { b.Turn.Preemptive = PreemptFinal },
			"asr_final@1060 llm_send@1060 llm_first_segment@1130 turn_end@1300 llm_adopted@1300 tts_send@1300 first_sound@1486"},
		{"on the partial transcript, which changes", func(b *bench) {
			b.Turn.Preemptive = PreemptPartial
			b.asr.results[1] = asr.Result{At: 1010 * ms, Text: "book a"}
		}, "llm_send@1020 asr_final@1060 llm_discarded@1060 llm_send@1060#2 llm_first_segment@1130#2 turn_end@1300 llm_adopted@1300 tts_send@1300 first_sound@1486"},
		{"off", func(b *bench) {}, "asr_final@1060 turn_end@1300 llm_send@1300 llm_first_segment@1370 tts_send@1370 first_sound@1556"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench()
			b.Turn.MinDelay = 500 * ms
			test.set(b)
			got := times(b.run(t, say()), 1, trace.ASRFinal, trace.TurnEnd, trace.LLMSend, trace.LLMAdopted, trace.LLMDiscarded,
				trace.LLMFirstSegment, trace.TTSSend, trace.FirstSound)
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestAgentAndModel(t *testing.T) {
	marks := []trace.Mark{trace.AgentStart, trace.StepStart, trace.StepEnd, trace.AgentEnd, trace.LLMSend, trace.LLMFirstToolCall, trace.LLMFirstToken,
		trace.LLMFailed, trace.RetryWait, trace.TTSSend, trace.TTSFailed, trace.FirstFiller, trace.FirstSound, trace.TurnFailed}
	tests := []struct {
		name string
		set  func(b *bench)
		want string
	}{
		{"steps one after the other", func(b *bench) {
			b.Agent.Steps = []Named[Step]{{"embed", fakeStep{b.v, 50 * ms}}, {"search", fakeStep{b.v, 20 * ms}}}
		}, "agent_start@1060 step_start@1060#1 step_end@1110 step_start@1110 step_end@1130 agent_end@1130 llm_send@1130 llm_first_token@1180 tts_send@1200 first_sound@1386"},
		{"steps all at once", func(b *bench) {
			b.Agent.Steps = []Named[Step]{{"embed", fakeStep{b.v, 50 * ms}}, {"search", fakeStep{b.v, 20 * ms}}}
			b.Agent.Parallel = true
		}, "agent_start@1060 step_start@1060 step_start@1060 step_end@1080 step_end@1110 agent_end@1110 llm_send@1110 llm_first_token@1160 tts_send@1180 first_sound@1366"},
		{"a tool", func(b *bench) {
			b.llm.answers = []string{"tool:lookup", "It is there. Good."}
			b.Agent.Tools = []Named[Step]{{"lookup", fakeStep{b.v, 300 * ms}}}
		}, "llm_send@1060 llm_first_tool_call@1110 step_start@1110 step_end@1410 llm_send@1410#2 llm_first_token@1460#2 tts_send@1490 first_sound@1676"},
		{"a tool that there is not", func(b *bench) { b.llm.answers = []string{"tool:lookup"} },
			"llm_send@1060 llm_first_tool_call@1110 turn_failed@1110"},
		{"an attempt fails", func(b *bench) {
			b.llm.answers = []string{"!", "Sure, done. Yes."}
			b.Retry = Retry{Attempts: 2, Backoff: 200 * ms}
		}, "llm_send@1060 llm_failed@1110 retry_wait@1310 llm_send@1310#2 llm_first_token@1360#2 tts_send@1380 first_sound@1566"},
		{"all attempts fail", func(b *bench) {
			b.llm.answers = []string{"!"}
			b.Retry = Retry{Attempts: 2}
		}, "llm_send@1060 llm_failed@1110 llm_send@1110#2 llm_failed@1160#2 turn_failed@1160"},
		{"an attempt takes too long", func(b *bench) {
			b.llm.answers = []string{"…", "Sure, done. Yes."}
			b.Retry = Retry{Attempts: 2, Timeout: 400 * ms}
		}, "llm_send@1060 llm_failed@1460 llm_send@1460#2 llm_first_token@1510#2 tts_send@1530 first_sound@1716"},
		{"the synthesizer fails once", func(b *bench) {
			b.tts.fails = 1
			b.Speech = Retry{Attempts: 2, Backoff: 50 * ms}
		}, "llm_send@1060 llm_first_token@1110 tts_send@1130 tts_failed@1230 retry_wait@1280 tts_send@1280#2 first_sound@1466"},
		{"a filler covers a slow tool", func(b *bench) {
			b.llm.answers = []string{"tool:lookup", "It is there. Good."}
			b.Agent = Agent{Tools: []Named[Step]{{"lookup", fakeStep{b.v, 3000 * ms}}}, Filler: "One moment.", FillerAfter: 700 * ms}
		}, "llm_send@1060 llm_first_tool_call@1110 step_start@1110 first_filler@1896 step_end@4110 llm_send@4110#2 llm_first_token@4160#2 tts_send@4190 first_sound@4376"},
		{"a filler that is not needed", func(b *bench) { b.Agent = Agent{Filler: "One moment.", FillerAfter: 700 * ms} },
			"llm_send@1060 llm_first_token@1110 tts_send@1130 first_sound@1316"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench()
			test.set(b)
			got := times(b.run(t, say()), 1, marks...)
			if want := strings.ReplaceAll(test.want, "#1", ""); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestBargeIn(t *testing.T) {
	b := newBench()
	after := 500 * ms
	second := say()
	second.BargeIn = &after
	events := b.run(t, say(), second)
	got := times(events, 1, trace.FirstSound, trace.BargeIn, trace.PlayStopped, trace.PlayEnd, trace.TurnClosed)
	// The caller starts the second recording at 1816; speech begins 100 later, and the agent notices 10 after that.
	if want := "first_sound@1316 barge_in@1916 play_stopped@1926 turn_closed@1926"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := times(events, 2, trace.FirstSound, trace.TurnClosed), "first_sound@3132 turn_closed@5216"; got != want {
		t.Errorf("second turn: got %s, want %s", got, want)
	}
	// 686 of the 2160 ms were heard: the first 8 of 26 characters.
	history := b.llm.seen[1].Messages
	if n := len(history); n != 4 || history[2].Content != "Sure, do" {
		t.Errorf("history %q", history)
	}
}

// A VAD that takes the breath before the speech for speech: the user has broken
// in when it did.
func TestBargeInByABreath(t *testing.T) {
	b := newBench()
	b.vad.runs = [][2]time.Duration{{30 * ms, 800 * ms}} // speech begins at 100
	after := 500 * ms
	second := say()
	second.BargeIn = &after
	got := times(b.run(t, say(), second), 1, trace.FirstSound, trace.BargeIn, trace.PlayStopped, trace.Fault)
	if want := "first_sound@1316 barge_in@1856 play_stopped@1856"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMemory(t *testing.T) {
	for _, test := range []struct {
		name   string
		memory Memory
		want   []int // messages in the requests of four turns
	}{
		{"all", Memory{System: "s"}, []int{2, 4, 6, 8}},
		{"the last three messages", Memory{System: "s", MaxMessages: 3}, []int{2, 4, 5, 5}},
		{"so many tokens", Memory{System: "s", MaxTokens: 12}, []int{2, 4, 4, 4}},
		{"a summary", Memory{System: "s", SummarizeAbove: 12, SummaryTokens: 2}, []int{2, 4, 3, 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench()
			b.Memory = test.memory
			b.run(t, say(), say(), say(), say())
			var got []int
			for _, r := range b.llm.seen {
				got = append(got, len(r.Messages))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("messages in the requests: %v, want %v", got, test.want)
			}
		})
	}
}

func TestCutter(t *testing.T) {
	for _, test := range []struct {
		how  Cutting
		text string
		want string
	}{
		{Cutting{Mode: CutSentence, LookAhead: true}, `Hello! I'm here. It costs 3.5 euros, e.g. "today." Good`, `Hello!|I'm here.|It costs 3.5 euros, e.g.|"today."|Good`},
		{Cutting{Mode: CutSentence}, "It costs 3.5 euros. Good.", "It costs 3.5 euros.|Good."},
		{Cutting{Mode: CutSentence, LookAhead: true}, "好的。请稍等！“谢谢。”再见", "好的。|请稍等！|“谢谢。”|再见"},
		{Cutting{Mode: CutClause, LookAhead: true}, "Sure, 1,000 of them: now. 好的，马上", "Sure,|1,000 of them:|now.|好的，|马上"},
		{Cutting{Mode: CutWords, Words: 3}, "one two three four five, six seven", "one two three|four five, six|seven"},
		{Cutting{Mode: CutWords, Words: 3}, "今天天气很好", "今天天|气很好"},
		{Cutting{Mode: CutSentence, LookAhead: true}, "... ?! ", "... ?!"},
		{Cutting{Mode: CutSentence, LookAhead: true}, "", ""},
	} {
		for size := 1; size <= len(test.text)+1; size++ {
			var got []string
			c := NewCutter(test.how)
			for rest := test.text; rest != ""; {
				n := min(size, len(rest))
				c.Push(0, rest[:n], func(s string, _ time.Duration) { got = append(got, s) })
				rest = rest[n:]
			}
			c.Flush(func(s string) { got = append(got, s) })
			if strings.Join(got, "|") != test.want {
				t.Errorf("%v %q in pieces of %d: %q, want %q", test.how, test.text, size, strings.Join(got, "|"), test.want)
				break
			}
		}
	}
}

func FuzzCutter(f *testing.F) {
	f.Add("Hello! I'm. 好。", 2, 3)
	f.Fuzz(func(t *testing.T, text string, size, words int) {
		if size < 1 || words < 1 {
			return
		}
		for _, mode := range []CutMode{CutSentence, CutClause, CutWords} {
			var whole, parts []string
			how := Cutting{Mode: mode, Words: words, LookAhead: size%2 == 0}
			c := NewCutter(how)
			c.Push(0, text, func(s string, _ time.Duration) { whole = append(whole, s) })
			c.Flush(func(s string) { whole = append(whole, s) })
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				c.Push(0, rest[:n], func(s string, _ time.Duration) { parts = append(parts, s) })
				rest = rest[n:]
			}
			c.Flush(func(s string) { parts = append(parts, s) })
			if !slices.Equal(whole, parts) {
				t.Errorf("%v: whole %q, in parts %q", how, whole, parts)
			}
			squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
			if got := squeeze(strings.Join(whole, "")); got != squeeze(text) {
				t.Errorf("lost text: %q became %q", text, got)
			}
		}
	})
}
