package cases

import (
	"fmt"
	"strings"
	"time"

	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
)

// Cases returns the cases in the order of their numbers.
func Cases() []Case {
	var out []Case
	for _, list := range [][]Case{anchors(), recognition(), models(), speech(), accounting(), sources(), faults()} {
		out = append(out, list...)
	}
	return out
}

// anchors are about where the silence begins.
func anchors() []Case {
	return []Case{
		{
			Number: "2", Source: "livekit/agents#2606", Story: "the voice activity detector misses a soft utterance, and the delay is counted from an earlier one",
			Right:  "300 ms from the end in the recording",
			Events: turn(1, at(20, trace.SpeechStart), at(21, trace.SpeechEnd), at(21.3, trace.ASRFinal)),
			Want:   "ASR finalization 300 ms", got: Of(report.MetricASRFinalization),
		},
		{
			Number: "3", Source: "livekit/agents#2361, #2388", Story: "without an anchor the delay is a Unix time",
			Right:  "absent, with the reason; a Unix time is a fault",
			Events: turn(1, at(1.764e9, trace.VADStop), at(2.1, trace.ASRFinal), at(2.2, trace.TurnEnd), at(3, trace.FirstSound)),
			Want:   "ASR finalization absent (no speech_end); endpointing absent (no speech_end); time to first sound absent (no speech_end); vad_stop to first_sound absent (no vad_stop); 1 fault: a Unix time",
			got: All(Of(report.MetricASRFinalization, report.MetricEndpointing, report.MetricTTFS), Between(trace.VADStop, trace.FirstSound), func(r *Run) string {
				return fmt.Sprintf("%d fault: a %s", r.Report.Faults.Count, within(r.Report.Faults.First[0].Text, "Unix time"))
			}),
		},
		{
			Number: "5", Source: "livekit/agents#5669", Story: "the delay until the end of the turn is always the minimum delay: the recognizer's own decision is left out",
			Right: "1200 ms: the decision and the setting, each by name",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.7, trace.ASREndpoint), at(1.2, trace.TurnDelay, setting("endpointing.min_delay=500ms")), at(1.2, trace.TurnEnd),
				at(1.2, trace.LLMSend), at(1.6, trace.LLMFirstToken), at(1.7, trace.LLMFirstSegment), at(1.7, trace.TTSSend), at(1.9, trace.TTSFirstFrame), at(1.9, trace.FirstSound)),
			Want: "endpointing 1200 ms; asr 700 + turn 500 [endpointing.min_delay=500ms] + llm.ttft 400 + aggregate 100 + tts.first_frame 200 = 1900 ms",
			got:  All(Of(report.MetricEndpointing), Path),
		},
		{
			Number: "6", Source: "livekit/agents#4388", Story: "the recognizer's end of speech comes after the final transcript and overwrites the anchor",
			Right:  "450 ms",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.45, trace.ASRFinal), at(0.46, trace.ASREndpoint)),
			Want:   "ASR finalization 450 ms", got: Of(report.MetricASRFinalization),
		},
		{
			Number: "10", Source: "pipecat-ai/pipecat#4927", Story: "the recognizer's server decides the turn, there is no detector, and the observer says nothing",
			Right:  "1500 ms; the VAD's part is absent",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.6, trace.ASREndpoint), at(0.6, trace.TurnEnd), at(1.5, trace.FirstSound)),
			Want:   "time to first sound 1500 ms; speech_end to vad_stop absent (no vad_stop)",
			got:    All(Of(report.MetricTTFS), Between(trace.SpeechEnd, trace.VADStop)),
		},
		{
			Number: "11", Source: "pipecat-ai/pipecat#5311", Story: "turns that the transcript starts are dropped from the figures",
			Right:  "1080 ms, and counted",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.4, trace.ASRFinal), at(0.4, trace.TurnEnd), at(1.08, trace.FirstSound)),
			Want:   "time to first sound 1080 ms; 1 ok turn", got: All(Of(report.MetricTTFS), OKTurns),
		},
		{
			Number: "13", Source: "pipecat-ai/pipecat#2160", Story: "an emulated stop lets the agent answer in mid-speech",
			Right:  "below zero, an early reply, and its overlap",
			Events: turn(1, at(0, trace.SpeechStart), at(1.2, trace.TurnEnd), at(2.2, trace.FirstSound), at(3, trace.SpeechEnd), at(3.4, trace.PlayEnd)),
			Want:   "time to first sound -800 ms; overlap 800 ms; early_reply, 0 segments; flags [turn_end_before_speech_end]",
			got: All(Of(report.MetricTTFS, report.MetricOverlap), func(r *Run) string {
				return fmt.Sprintf("%s, %d segments", r.Turns[0].OutcomeKey(), len(r.Turns[0].Segments))
			}, Flags),
		},
		{
			Number: "14", Source: "mahimailabs/voicegateway#244", Story: "every wait is short by the detector's window",
			Right:  "1400 ms, and which part the VAD's setting owns",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.55, trace.VADStop, setting("vad.hangover=550ms")), at(0.55, trace.TurnEnd), at(1.4, trace.FirstSound)),
			Want:   "vad 550 [vad.hangover=550ms] + unexplained 850 = 1400 ms", got: Path,
		},
		{
			Number: "15", Source: "ServiceNow/eva#154", Story: "the detector lags 600 ms, and the latency with it",
			Right:  "1200 ms",
			Events: turn(1, at(10, trace.SpeechEnd), at(10.6, trace.VADStop), at(11.2, trace.FirstSound)),
			Want:   "time to first sound 1200 ms", got: Of(report.MetricTTFS),
		},
	}
}

// recognition cases are about transcripts.
func recognition() []Case {
	return []Case{
		{
			Number: "19", Source: "pipecat-ai/pipecat#3822", Story: "the time to the transcript is a timer and the detector's stop time",
			Right:  "350 ms",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.2, trace.VADStop), at(0.35, trace.ASRFinal), at(2, trace.TurnDelay), at(2, trace.TurnEnd)),
			Want:   "ASR finalization 350 ms", got: Of(report.MetricASRFinalization),
		},
		{
			Number: "22", Source: "coval-ai/benchmarks#137, #85, #89", Story: "a recognizer without partials gets the length of the clip as its latency",
			Right:  "200 ms; the first partial is absent",
			Events: turn(1, at(0, trace.SpeechStart), at(8, trace.SpeechEnd), at(8.2, trace.ASRFinal)),
			Want:   "speech_start to asr_partial absent (no asr_partial); ASR finalization 200 ms",
			got:    All(Between(trace.SpeechStart, trace.ASRPartial), Of(report.MetricASRFinalization)),
		},
		{
			Number: "23", Source: "livekit/agents#5063, #4795", Story: "a streaming recognizer has no latency at all",
			Right:  "the partial 100 ms, the final one 400 ms",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.1, trace.ASRPartial), at(0.4, trace.ASRFinal)),
			Want:   "speech_end to asr_partial 100 ms; ASR finalization 400 ms",
			got:    All(Between(trace.SpeechEnd, trace.ASRPartial), Of(report.MetricASRFinalization)),
		},
	}
}

// models are about the language model and what is done before it.
func models() []Case {
	return []Case{
		{
			Number: "24", Source: "livekit/agents#3687", Story: "the model's clock starts when the user begins to speak",
			Right:  "420 ms",
			Events: turn(1, at(0, trace.SpeechStart), at(7.9, trace.SpeechEnd), at(8.32, trace.FirstSound)),
			Want:   "time to first sound 420 ms", got: Of(report.MetricTTFS),
		},
		{
			Number: "26", Source: "livekit/agents#3483", Story: "a missing time is −1 and spoils the mean",
			Right: "absent, and the mean is of those that are there",
			Events: turns(
				turn(1, at(0, trace.SpeechEnd), at(0.1, trace.TurnEnd), at(0.9, trace.FirstSound)),
				turn(2, at(10, trace.SpeechEnd), at(10.1, trace.TurnEnd), at(10.1, trace.LLMSend), at(10.6, trace.LLMFirstToken), at(11, trace.FirstSound))),
			Want: "LLM TTFT absent (no llm_first_token); mean 500 ms of 1, absent in 1",
			got: All(Of(report.MetricTTFT), func(r *Run) string {
				row := r.Report.Metrics[report.MetricTTFT]
				return fmt.Sprintf("mean %g ms of %d, absent in %d", float64(*row.Values.Mean)/1e6, row.Values.N, row.Absent[0].Turns)
			}),
		},
		{
			Number: "27", Source: "api7/aisix#869, kubernetes-sigs/inference-perf#559", Story: "an empty chunk that holds only the role stops the clock",
			Right:  "role 5 ms, reasoning 1200 ms, answer 3000 ms",
			Events: turn(1, at(0, trace.SpeechEnd), at(0, trace.TurnEnd), at(0, trace.LLMSend), at(0.005, trace.LLMHeaders), at(1.2, trace.LLMFirstReasoning), at(3, trace.LLMFirstToken)),
			Want:   "llm_send to llm_headers 5 ms; llm_send to llm_first_reasoning 1200 ms; LLM TTFT 3000 ms",
			got:    All(Between(trace.LLMSend, trace.LLMHeaders), Between(trace.LLMSend, trace.LLMFirstReasoning), Of(report.MetricTTFT)),
		},
		{
			Number: "29", Source: "brijmohan/voice-agent-latency-lab, OpenNSWM-Lab/FAROS#74", Story: "retries hide inside the time to first token",
			Right: "600 ms of 12.6 s; the retries by name",
			Events: turn(1, at(0, trace.SpeechEnd), at(0, trace.TurnEnd), at(0, trace.LLMSend, attempt(1)), at(10, trace.LLMFailed, attempt(1), text(trace.AttrError, "504")),
				at(12, trace.RetryWait), at(12, trace.LLMSend, attempt(2)), at(12.6, trace.LLMFirstToken, attempt(2)), at(12.6, trace.TTSSend), at(12.8, trace.TTSFirstFrame), at(12.8, trace.FirstSound)),
			Want: "LLM TTFT 600 ms; speech_end to llm_first_token 12600 ms; failed 1, retries 1; llm.retry 12000 + llm.ttft 600 + tts.first_frame 200 = 12800 ms",
			got:  All(Of(report.MetricTTFT), Between(trace.SpeechEnd, trace.LLMFirstToken), Attempts, Path),
		},
		{
			Number: "30", Source: "livekit/agents#4219", Story: "two speculative calls, and neither is told to have been cancelled",
			Right: "one adopted, one discarded, time saved, tokens wasted",
			Events: turn(1, at(0, trace.SpeechStart), at(1.8, trace.ASRPartial), at(1.8, trace.LLMSend, attempt(1), number(trace.AttrSpeculate, 1)), at(2, trace.SpeechEnd),
				at(2.2, trace.LLMFirstToken, attempt(1)), at(2.45, trace.ASRFinal), at(2.45, trace.LLMDiscarded, attempt(1), number(trace.AttrTokens, 9)), at(2.45, trace.LLMSend, attempt(2), number(trace.AttrSpeculate, 1)),
				at(2.6, trace.TurnEnd), at(2.6, trace.LLMAdopted, attempt(2), number(trace.AttrSaved, 150e6)), at(2.9, trace.LLMFirstToken, attempt(2)),
				at(3, trace.LLMFirstSegment, attempt(2)), at(3, trace.TTSSend), at(3.2, trace.TTSFirstFrame), at(3.3, trace.FirstSound)),
			Want: "adopted 1, 150ms saved, discarded 1, 9 tokens wasted; LLM TTFT 450 ms; asr 450 + llm.ttft 450 + aggregate 100 + tts.first_frame 200 + downlink 100 = 1300 ms",
			got:  All(Speculation, Of(report.MetricTTFT), Path),
		},
		{
			Number: "32", Source: "livekit/agents#3236", Story: "the documented sum leaves out the hook in which retrieval runs",
			Right: "1600 ms, the hook by name",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.5, trace.TurnEnd), at(0.5, trace.StepStart, text(trace.AttrStep, "on_user_turn_completed")), at(0.9, trace.StepEnd, text(trace.AttrStep, "on_user_turn_completed")),
				at(0.9, trace.LLMSend), at(1.4, trace.LLMFirstToken), at(1.4, trace.TTSSend), at(1.6, trace.TTSFirstFrame), at(1.6, trace.FirstSound)),
			Want: "turn 500 + agent.on_user_turn_completed 400 + llm.ttft 500 + tts.first_frame 200 = 1600 ms", got: Path,
		},
		{
			Number: "34", Source: "mahimailabs/voicegateway#243", Story: "the turn closes on the filler",
			Right: "filler 700 ms, answer 4600 ms, and the gap between",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.3, trace.TurnEnd), at(0.3, trace.StepStart, text(trace.AttrStep, "lookup")), at(0.7, trace.FirstFiller), at(4, trace.StepEnd, text(trace.AttrStep, "lookup")),
				at(4, trace.LLMSend), at(4.3, trace.LLMFirstToken), at(4.3, trace.TTSSend), at(4.6, trace.TTSFirstFrame), at(4.6, trace.FirstSound)),
			Want: "first filler 700 ms; time to first sound 4600 ms; filler to answer 3900 ms",
			got:  Of(report.MetricFirstFiller, report.MetricTTFS, report.MetricAfterFiller),
		},
		{
			Number: "35", Source: "pipecat-ai/pipecat#3885, #5442, #5445", Story: "the agent holds its answer back for the user to go on, and the parts do not add up",
			Right: "the hold is a part of its own; the sum is exact",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.3, trace.VADStop), at(0.4, trace.TurnDecision, number(trace.AttrWaits, 1)), at(3.3, trace.TurnDelay, setting("turn.hold=2.9s")), at(3.3, trace.TurnEnd),
				at(3.3, trace.LLMSend), at(3.7, trace.LLMFirstToken), at(3.7, trace.TTSSend), at(3.9, trace.TTSFirstFrame), at(3.9, trace.FirstSound)),
			Want: "vad 300 + turn 100 + turn 2900 [turn.hold=2.9s] + llm.ttft 400 + tts.first_frame 200 = 3900 ms", got: Path,
		},
	}
}

// speech cases are about cutting, synthesis and playout.
func speech() []Case {
	return []Case{
		{
			Number: "37", Source: "pipecat-ai/pipecat#3451", Story: "only the first request of a connection has a time to first audio",
			Right:  "a value in each of three turns",
			Events: turns(turn(1, at(0, trace.TTSSend), at(0.2, trace.TTSFirstFrame)), turn(2, at(10, trace.TTSSend), at(10.35, trace.TTSFirstFrame)), turn(3, at(20, trace.TTSSend), at(20.25, trace.TTSFirstFrame))),
			Want:   "TTS TTFA 200 ms; TTS TTFA 350 ms; TTS TTFA 250 ms",
			got:    All(Of(report.MetricTTFA), InTurn(2, Of(report.MetricTTFA)), InTurn(3, Of(report.MetricTTFA))),
		},
		{
			Number: "38", Source: "livekit/agents#6300, #4387, #1431", Story: "the synthesizer's time holds the wait for a sentence and another provider's failure",
			Right: "aggregation, failed attempt and second one apart",
			Events: turn(1, at(0, trace.TurnOpened, text(trace.AttrRequest, "q1")), at(0, trace.SpeechEnd), at(0, trace.LLMFirstToken), at(0.6, trace.LLMFirstSegment), at(0.6, trace.TTSSend, attempt(1), text(trace.AttrProvider, "A")),
				at(2.6, trace.TTSFailed, attempt(1), text(trace.AttrError, "timeout")), at(2.6, trace.TTSSend, attempt(2), text(trace.AttrProvider, "B")), at(2.8, trace.TTSFirstFrame, attempt(2)), at(2.8, trace.FirstSound)),
			Want: "request q1; aggregation 600 ms; TTS TTFA 200 ms; failed 1, retries 1; aggregate 600 + tts.retry 2000 + tts.first_frame 200 = 2800 ms",
			got: All(Request,
				Of(report.MetricAggregation, report.MetricTTFA), Attempts, Path),
		},
		{
			Number: "42", Source: "pipecat-ai/pipecat#4782, #4814, sgl-project/sglang-omni#1901", Story: "the first chunk is silence",
			Right:  "the first frame, and then the silence in it",
			Events: turn(1, at(0, trace.TTSSend), at(0.054, trace.TTSFirstFrame), at(0.134, trace.TTSFirstAudible)),
			Want:   "TTS TTFA 54 ms; TTS lead silence 80 ms; tts_send to tts_first_audible 134 ms",
			got:    All(Of(report.MetricTTFA, report.MetricLeadSilence), Between(trace.TTSSend, trace.TTSFirstAudible)),
		},
		{
			Number: "43", Source: "pipecat-ai/pipecat#2704, #442", Story: "a silent frame counts as the answer's start, before the synthesizer has said anything",
			Right:  "silence starts nothing; a start too early is a fault",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.5, trace.TTSSend), at(0.9, trace.PlayStart), at(1, trace.TTSFirstFrame), at(1.2, trace.FirstSound)),
			Want:   "1 fault: play_start at 900000000 ns is before tts_first_frame at 1000000000 ns; time to first sound 1200 ms",
			got:    All(Faults, Of(report.MetricTTFS)),
		},
	}
}

// accounting cases are about what is counted.
func accounting() []Case {
	return []Case{
		{
			Number: "54", Source: "NVIDIA nemotron#69", Story: "a late end of the stream throws the measurement away",
			Right:  "kept, and flagged as slow to complete",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.1, trace.TurnEnd), at(0.1, trace.LLMSend), at(0.5, trace.LLMFirstToken), at(0.9, trace.FirstSound), at(5, trace.LLMEnd)),
			Want:   "time to first sound 900 ms; flags [slow_completion]; 1 ok turn",
			got:    All(Of(report.MetricTTFS), Flags, OKTurns),
		},
		{
			Number: "57", Source: "ServiceNow/eva#216", Story: "how often the turn is ended too early, never, or by force is not told",
			Right:  "of 10 turns 1 early, 1 stuck, 2 forced",
			Events: detectorTurns(),
			Want:   "of 10 turns early 1, stuck 1, forced 2",
			got:    Detector,
		},
		{
			Number: "58", Source: "livekit/agents#7145", Story: "a budget is exceeded, and nobody is told by what",
			Right:  "1 turn over the target, and the stage that caused it",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.3, trace.TurnEnd), at(0.3, trace.LLMSend), at(1, trace.LLMFirstToken), at(1, trace.TTSSend), at(1.3, trace.TTSFirstFrame), at(1.3, trace.FirstSound)),
			Want:   "1 turn over 1000 ms, because of llm.ttft",
			target: report.Limit{At: time.Second, Known: true},
			got: func(r *Run) string {
				t := r.Report.Headline.Target
				return fmt.Sprintf("%d turn over %g ms, because of %s", t.Over, float64(t.TTFS)/1e6, t.Cause)
			},
		},
	}
}

// faults are marks that cannot be right, and have to be told.
func faults() []Case {
	stale := turn(1, at(0, trace.SpeechEnd), at(0.4, trace.TurnEnd), at(1, trace.FirstSound))
	late := at(2.5, trace.FirstSound)
	late.ID, late.Seq = stale[0].ID, trace.Ref(len(stale)+1)
	disorder := turn(1, at(0, trace.SpeechEnd), at(0.4, trace.TurnEnd), at(0.5, trace.LLMSend), at(0.3, trace.LLMFirstToken), at(1, trace.FirstSound))
	disorder[3].Causes = []trace.Ref{3}
	return []Case{
		{
			Number: "F2", Source: "a mark out of order", Story: "a token that came before its request is taken as it is",
			Right:  "told, and --strict fails",
			Events: disorder,
			Want:   "2 faults: llm_first_token at 300000000 ns is before its cause llm_send at 500000000 ns, llm_first_token at 300000000 ns is before llm_send at 500000000 ns; time to first sound 1000 ms",
			got:    All(Faults, Of(report.MetricTTFS)),
		},
		{
			Number: "F3", Source: "a mark of a stale turn", Story: "a sound that comes after its turn was closed is counted for it all the same",
			Right:  "told, and --strict fails",
			Events: append(stale, late),
			Want:   "1 fault: first_sound at 2500000000 ns belongs to a turn that is closed, or whose beginning is not among the events; time to first sound 1000 ms",
			got:    All(Faults, Of(report.MetricTTFS)),
		},
	}
}

// sources are faults seen in public source.
func sources() []Case {
	return []Case{
		{
			Number: "S2", Source: "jambonz", Story: "a transcript before the detector's stop shows as a delay, by Math.abs",
			Right:  "400 ms before the stop, with its sign",
			Events: turn(1, at(0, trace.SpeechEnd), at(0.15, trace.ASRFinal), at(0.55, trace.VADStop)),
			Want:   "vad_stop to asr_final -400 ms; ASR finalization 150 ms",
			got:    All(Between(trace.VADStop, trace.ASRFinal), Of(report.MetricASRFinalization)),
		},
		{
			Number: "S3", Source: "Picovoice benchmark", Story: "a mean stands beside another series' deviation, and what is slow is dropped",
			Right:  "200 ms beside 600 ms, and none of three is dropped",
			Events: turns(slowModel(1, 0.4), slowModel(2, 0.6), slowModel(3, 0.8)),
			Want:   "mean 600 ms, sd 200 ms of 3",
			got: func(r *Run) string {
				v := r.Report.Metrics[report.MetricTTFT].Values
				return fmt.Sprintf("mean %s, sd %s of %d", Milliseconds(time.Duration(*v.Mean)), Milliseconds(time.Duration(*v.SD)), v.N)
			},
		},
		{
			Number: "S9", Source: "coval-ai/benchmarks, livekit/agents", Story: "a transcript before the end of the speech is clamped to 0",
			Right:  "-120 ms, and flagged",
			Events: turn(1, at(0, trace.SpeechStart), at(1.88, trace.ASRFinal), at(2, trace.SpeechEnd), at(2.2, trace.TurnEnd)),
			Want:   "ASR finalization -120 ms; flags [asr_final_before_speech_end]",
			got:    All(Of(report.MetricASRFinalization), Flags),
		},
	}
}

// slowModel is a turn whose first token takes so many seconds.
func slowModel(n int, seconds float64) []trace.Event {
	t := 10 * float64(n)
	return turn(n, at(t, trace.SpeechEnd), at(t, trace.TurnEnd), at(t, trace.LLMSend), at(t+seconds, trace.LLMFirstToken),
		at(t+seconds, trace.TTSSend), at(t+seconds+0.1, trace.TTSFirstFrame), at(t+seconds+0.1, trace.FirstSound))
}

// detectorTurns are ten turns: one early, one stuck, two forced after 3 s.
func detectorTurns() []trace.Event {
	var out []trace.Event
	for n := 1; n <= 10; n++ {
		t := float64(n) * 10
		switch n {
		case 3:
			out = append(out, turn(n, at(t-2, trace.SpeechStart), at(t-0.5, trace.TurnEnd), at(t, trace.SpeechEnd), at(t+0.5, trace.FirstSound))...)
		case 5:
			out = append(out, turn(n, at(t-2, trace.SpeechStart), at(t, trace.SpeechEnd))...)
		case 7, 8:
			out = append(out, turn(n, at(t, trace.SpeechEnd), at(t+3, trace.TurnDelay, setting("endpointing.max_delay=3s")), at(t+3, trace.TurnEnd, number(trace.AttrForced, 1)), at(t+3.5, trace.FirstSound))...)
		default:
			out = append(out, turn(n, at(t, trace.SpeechEnd), at(t+0.3, trace.TurnEnd), at(t+0.8, trace.FirstSound))...)
		}
	}
	return out
}

// within returns part if s holds it, else s.
func within(s, part string) string {
	if strings.Contains(s, part) {
		return part
	}
	return s
}
