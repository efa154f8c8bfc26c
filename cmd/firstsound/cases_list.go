package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"firstsound/audio"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
	"firstsound/pipeline/report"
	"firstsound/pipeline/report/cases"
	"firstsound/tts"
)

// playedCases returns the cases that need the pipeline, in the order of their
// numbers.
func playedCases() []played {
	var out []played
	for _, list := range [][]played{endOfSpeech(), transcripts(), answers(), spoken(), playback(), accounts(), sources(), faults()} {
		out = append(out, list...)
	}
	return out
}

// once is a case that is played in one way only.
func once(want string, set ...string) []setup { return []setup{{set: set, want: want}} }

// endOfSpeech cases are about where the silence begins, and who ends the turn.
func endOfSpeech() []played {
	clear, missed := pipeline.Say{Utterance: shortSpeech()}, pipeline.Say{Utterance: speech("can I pay by card", soft, 5*time.Second), Gap: 290 * time.Second}
	decided := cases.All(cases.Of(report.MetricEndpointing), cases.Path)
	return []played{
		{
			number: "1", source: "livekit/agents#6093", story: "the VAD misses the second turn, and its delay is counted from the first",
			right: "200 ms from the end in the recording, not a stale one",
			got:   cases.InTurn(2, cases.All(cases.Of(report.MetricASRFinalization), cases.Between(trace.VADStop, trace.ASRFinal), cases.Flags)),
			setups: []setup{{
				say: []pipeline.Say{clear, missed}, set: []string{"asr.final=200ms"},
				want: "ASR finalization 200 ms; vad_stop to asr_final absent (no vad_stop); flags [turn_never_committed]",
			}},
		},
		{
			number: "2", source: "livekit/agents#2606", story: "at -45 dBFS in a hum the VAD hears nothing, the recognizer all: the delay is counted from before",
			got: cases.InTurn(2, cases.All(cases.Of(report.MetricASRFinalization), cases.Between(trace.SpeechEnd, trace.VADStop))),
			setups: []setup{{
				say: []pipeline.Say{clear, {Utterance: speech("yes", soft, time.Second), Gap: 10 * time.Second}}, set: []string{"asr.final=300ms"},
				want: "ASR finalization 300 ms; speech_end to vad_stop absent (no vad_stop)",
			}},
		},
		{
			number: "5", source: "livekit/agents#5669", story: "the recognizer ends turns, and its own decision is left out of the delay",
			got: decided,
			setups: once("endpointing 1200 ms; asr 700 + turn 500 [turn.min_delay=500ms] + llm.ttft 400 + tts.first_frame 200 = 1800 ms",
				"vad.provider=none", "turn.server=true", "asr.endpoint=700ms", "turn.min_delay=500ms"),
		},
		{
			number: "6", source: "livekit/agents#4388", story: "the recognizer's end of speech comes after its transcript and overwrites the anchor",
			got:    cases.Of(report.MetricASRFinalization, report.MetricEndpointing),
			setups: once("ASR finalization 450 ms; endpointing 460 ms", "vad.provider=none", "turn.server=true", "asr.final=450ms", "asr.endpoint=460ms"),
		},
		{
			number: "7", source: "livekit/agents#4325", story: "a minimum delay runs beside the VAD's hangover, but comes on top of the recognizer's",
			right: "2 s beside the VAD, 4 s on top, each setting by name",
			got:   decided,
			setups: []setup{
				{name: "beside the VAD", set: []string{"vad.stop=2s", "turn.min_delay=2s"},
					want: "endpointing 2000 ms; vad 2000 [vad.stop=2s] + llm.ttft 400 + tts.first_frame 200 = 2600 ms"},
				{name: "added to the VAD", set: []string{"vad.stop=2s", "turn.min_delay=2s", "turn.add=true"},
					want: "endpointing 4000 ms; vad 2000 [vad.stop=2s] + turn 2000 [turn.min_delay=2s] + llm.ttft 400 + tts.first_frame 200 = 4600 ms"},
				{name: "after the recognizer", set: []string{"vad.provider=none", "turn.server=true", "asr.endpoint=2s", "turn.min_delay=2s"},
					want: "endpointing 4000 ms; asr 2000 + turn 2000 [turn.min_delay=2s] + llm.ttft 400 + tts.first_frame 200 = 4600 ms"},
			},
		},
		{
			number: "9", source: "livekit/agents#6726", story: "one minimum delay counts from two moments, and nobody says from which",
			right: "700 ms with a VAD, 1200 ms without, and from where",
			got:   decided,
			setups: []setup{
				{name: "with a VAD", set: []string{"turn.server=true", "asr.endpoint=700ms", "turn.min_delay=500ms"},
					want: "endpointing 700 ms; asr 700 + llm.ttft 400 + tts.first_frame 200 = 1300 ms"},
				{name: "without", set: []string{"vad.provider=none", "turn.server=true", "asr.endpoint=700ms", "turn.min_delay=500ms"},
					want: "endpointing 1200 ms; asr 700 + turn 500 [turn.min_delay=500ms] + llm.ttft 400 + tts.first_frame 200 = 1800 ms"},
			},
		},
		{
			number: "10", source: "pipecat-ai/pipecat#4927", story: "the recognizer's server ends the turn, there is no VAD, and the observer says nothing",
			got: cases.All(cases.Of(report.MetricTTFS), cases.Between(trace.SpeechEnd, trace.VADStop), cases.Path),
			setups: once("time to first sound 1500 ms; speech_end to vad_stop absent (no vad_stop); asr 600 + llm.ttft 700 + tts.first_frame 200 = 1500 ms",
				"vad.provider=none", "turn.server=true", "asr.endpoint=600ms", "llm.base=700ms"),
		},
		{
			number: "11", source: "pipecat-ai/pipecat#5311", story: "a turn that only the transcript starts is dropped from the figures",
			got: cases.All(cases.Of(report.MetricTTFS), cases.OKTurns, cases.Path),
			setups: []setup{{
				say: []pipeline.Say{{Utterance: speech("Yes.", soft, 400*time.Millisecond)}}, set: []string{"vad.provider=none", "asr.final=400ms", "llm.base=480ms"},
				want: "time to first sound 1080 ms; 1 ok turn; asr 400 + llm.ttft 480 + tts.first_frame 200 = 1080 ms",
			}},
		},
		{
			number: "13", source: "pipecat-ai/pipecat#2160", story: "a pause is taken for the end, and the agent answers in mid-speech",
			got: cases.All(cases.Outcome, cases.Of(report.MetricTTFS, report.MetricOverlap), cases.Flags),
			setups: []setup{
				{name: "the VAD hears the user go on", say: []pipeline.Say{{Utterance: withPause(600 * time.Millisecond)}},
					set: []string{"asr.segments=300ms", "asr.final=100ms", "llm.base=50ms", "tts.first_audio=50ms"},
					// It hears that after 30 ms, 330 ms after the first sound; the packet of 10 ms that has been sent plays on.
					want: "early_reply; time to first sound -1700 ms; overlap 340 ms; flags [turn_end_before_speech_end asr_final_before_speech_end]"},
				{name: "nobody does", say: []pipeline.Say{{Utterance: withPause(600 * time.Millisecond)}},
					set: []string{"vad.provider=none", "turn.server=true", "asr.endpoint=200ms", "asr.false_endpoint=1",
						"asr.segments=300ms", "asr.final=100ms", "llm.base=50ms", "tts.first_audio=50ms", "tts.rate=8"},
					want: "early_reply; time to first sound -1700 ms; overlap 1700 ms; flags [turn_end_before_speech_end asr_final_before_speech_end]"},
			},
		},
		{
			number: "14", source: "mahimailabs/voicegateway#244", story: "every wait is short by the VAD's window, so that no two windows compare",
			got: cases.Path,
			setups: []setup{
				{name: "550 ms", set: []string{"vad.stop=550ms", "llm.base=650ms"}, want: "vad 550 [vad.stop=550ms] + llm.ttft 650 + tts.first_frame 200 = 1400 ms"},
				{name: "200 ms", set: []string{"vad.stop=200ms", "llm.base=650ms"}, want: "vad 200 [vad.stop=200ms] + llm.ttft 650 + tts.first_frame 200 = 1050 ms"},
			},
		},
	}
}

// withPause is a recording of a second of speech, a pause, and 1.4 s more.
func withPause(pause time.Duration) *audio.Utterance {
	return sound{text: "I would like a table and please by the window", level: loud, whole: 4*time.Second + pause, runs: [][2]time.Duration{
		{half, half + time.Second}, {half + time.Second + pause, half + 2400*time.Millisecond + pause}}}.utterance()
}

// transcripts are cases about the recognizer.
func transcripts() []played {
	return []played{
		{
			number: "19", source: "pipecat-ai/pipecat#3822", story: "the time to the transcript is a timer and the VAD's stop time",
			got: cases.All(cases.Of(report.MetricASRFinalization, report.MetricEndpointing), cases.Flags),
			setups: once("ASR finalization 350 ms; endpointing 2000 ms; flags [turn_end_forced]",
				"asr.final=350ms", "turn.provider=semantic", "turn.inference=0s", "turn.finished=0", "turn.max_delay=1800ms"),
		},
		{
			number: "20", source: "pipecat-ai/pipecat#3813, #3243", story: "a stage that never tells anything is silently left out",
			right: "told as missing, and --strict fails",
			got:   cases.All(cases.Of(report.MetricASRFinalization), cases.Path, strict),
			setups: once("ASR finalization absent (no asr_final); vad 200 [vad.stop=200ms] + asr 1000 [asr.timeout=1s] + llm.ttft 400 + tts.first_frame 200 = 1800 ms; strict: missing in every turn: ASR finalization",
				"asr.late=1"),
		},
		{
			number: "22", source: "coval-ai/benchmarks#137, #85, #89", story: "a recognizer without partials gets the length of the clip as its latency",
			got: cases.All(cases.Between(trace.SpeechStart, trace.ASRPartial), cases.Of(report.MetricASRFinalization), cases.Path),
			setups: []setup{
				{name: "it ends by itself", say: []pipeline.Say{{Utterance: speech("a long story", loud, 8*time.Second)}},
					set:  []string{"asr.partials=false", "asr.final=200ms", "vad.stop=100ms"},
					want: "speech_start to asr_partial absent (no asr_partial); ASR finalization 200 ms; asr 200 + llm.ttft 400 + tts.first_frame 200 = 800 ms"},
				{name: "it has to be asked", say: []pipeline.Say{{Utterance: speech("a long story", loud, 8*time.Second)}},
					set:  []string{"asr.partials=false", "asr.wait_for_finalize=true", "asr.finalize=100ms", "vad.stop=100ms"},
					want: "speech_start to asr_partial absent (no asr_partial); ASR finalization 200 ms; vad 100 [vad.stop=100ms] + asr 100 + llm.ttft 400 + tts.first_frame 200 = 800 ms"},
			},
		},
		{
			number: "23", source: "livekit/agents#5063, #4795", story: "a streaming recognizer has no latency at all",
			got: cases.All(cases.Between(trace.SpeechEnd, trace.ASRPartial), cases.Of(report.MetricASRFinalization)),
			setups: once("speech_end to asr_partial 100 ms; ASR finalization 400 ms",
				"asr.first_partial=0s", "asr.interim=100ms", "asr.final=400ms"),
		},
	}
}

// answers are cases about the model, and what is done before it.
func answers() []played {
	return []played{
		{
			number: "24", source: "livekit/agents#3687", story: "the model's clock starts when the user begins to speak",
			got: cases.Of(report.MetricTTFS, report.MetricTTFT),
			setups: []setup{{
				say:  []pipeline.Say{{Utterance: speech("a long question", loud, 7900*time.Millisecond)}},
				set:  []string{"vad.stop=100ms", "asr.final=50ms", "llm.base=200ms", "tts.first_audio=120ms"},
				want: "time to first sound 420 ms; LLM TTFT 200 ms",
			}},
		},
		{
			number: "27", source: "api7/aisix#869, kubernetes-sigs/inference-perf#559", story: "an empty chunk that holds only the role stops the clock",
			got: cases.All(cases.Between(trace.LLMSend, trace.LLMHeaders), cases.Between(trace.LLMSend, trace.LLMFirstReasoning), cases.Of(report.MetricTTFT)),
			setups: once("llm_send to llm_headers 5 ms; llm_send to llm_first_reasoning 1200 ms; LLM TTFT 3000 ms",
				"llm.early_role=true", "llm.network=5ms", "llm.base=1195ms", "llm.reasoning=120", "llm.tpot=15ms", "llm.timeout=0s"),
		},
		{
			number: "29", source: "brijmohan/voice-agent-latency-lab, OpenNSWM-Lab/FAROS#74", story: "retries hide inside the time to first token",
			got: cases.All(cases.Of(report.MetricTTFT), cases.Between(trace.TurnEnd, trace.LLMFirstToken), cases.Attempts, cases.Path),
			setups: []setup{
				{name: "a gateway's 504", set: []string{"llm.fail=1", "llm.fail_after=10s", "llm.error=504", "llm.timeout=0s", "llm.backoff=2s", secondModel},
					want: "LLM TTFT 600 ms; turn_end to llm_first_token 12600 ms; failed 1, retries 1; " +
						"vad 200 [vad.stop=200ms] + llm.retry 10000 + llm.retry 2000 [llm.backoff=2s] + llm.ttft 600 + tts.first_frame 200 = 13000 ms"},
				{name: "a timeout of our own", set: []string{"llm.base=20s", "llm.timeout=10s", "llm.backoff=2s", secondModel},
					want: "LLM TTFT 600 ms; turn_end to llm_first_token 12600 ms; failed 1, retries 1; " +
						"vad 200 [vad.stop=200ms] + llm.retry 10000 [llm.timeout=10s] + llm.retry 2000 [llm.backoff=2s] + llm.ttft 600 + tts.first_frame 200 = 13000 ms"},
			},
		},
		{
			number: "30", source: "livekit/agents#4219", story: "two speculative calls, and neither is told to have been thrown away",
			got: cases.All(cases.Speculation, cases.Of(report.MetricTTFT), cases.Path),
			setups: []setup{
				// The first call goes out at 140 ms and has written 6 tokens, from 340 to 440 ms, when the
				// final transcript says something else at 450 ms.
				{name: "the transcript changes", set: []string{"turn.preemptive=partial", "vad.stop=100ms", "asr.interim=140ms", "asr.interim_complete=0", "asr.final=450ms",
					"turn.min_delay=600ms", "llm.base=200ms", "llm.tpot=20ms"},
					want: "adopted 1, 150ms saved, discarded 1, 6 tokens wasted; LLM TTFT 200 ms; asr 450 + llm.ttft 200 + llm.decode 20 + aggregate 20 + tts.first_frame 200 = 890 ms"},
				{name: "it does not", set: []string{"turn.preemptive=partial", "vad.stop=100ms", "asr.interim=140ms", "asr.final=450ms", "turn.min_delay=600ms", "llm.base=800ms"},
					want: "adopted 1, 460ms saved, discarded 0, 0 tokens wasted; LLM TTFT 800 ms; asr 140 + llm.ttft 800 + tts.first_frame 200 = 1140 ms"},
			},
		},
		{
			number: "31", source: "livekit/agents#7157", story: "after a hand-off to another agent the turn has no latency, or that of the whole dialogue",
			right: "2400 ms, the hand-off among them",
			got:   cases.All(cases.Of(report.MetricTTFS, report.MetricTTFT), cases.Path),
			setups: once("time to first sound 2400 ms; LLM TTFT 400 ms; vad 200 [vad.stop=200ms] + llm.ttft 400 + agent.hand_off 1200 + llm.ttft 400 + tts.first_frame 200 = 2400 ms",
				"llm.tool_call=1", "agent.tools=[{name: hand_off, time: 1200ms}]"),
		},
		{
			number: "32", source: "livekit/agents#3236", story: "the documented sum leaves out the hook in which retrieval runs",
			got: cases.Path,
			setups: once("vad 500 [vad.stop=500ms] + agent.on_user_turn_completed 400 + llm.ttft 500 + tts.first_frame 200 = 1600 ms",
				"vad.stop=500ms", "agent.steps=[{name: on_user_turn_completed, time: 400ms}]", "llm.base=500ms"),
		},
		{
			number: "34", source: "mahimailabs/voicegateway#243", story: "the turn closes on the filler",
			got: cases.All(cases.Of(report.MetricFirstFiller, report.MetricTTFS, report.MetricAfterFiller), cases.Outcome, cases.Path),
			setups: once("first filler 700 ms; time to first sound 4600 ms; filler to answer 3900 ms; ok; "+
				"vad 300 [vad.stop=300ms] + agent.lookup 3700 + llm.ttft 400 + tts.first_frame 200 = 4600 ms",
				"vad.stop=300ms", "agent.filler=One moment.", "agent.filler_after=200ms", "agent.steps=[{name: lookup, time: 3700ms}]"),
		},
		{
			number: "35", source: "pipecat-ai/pipecat#3885, #5442, #5445", story: "the answer is held back for the user to go on, and the parts do not add up",
			got: cases.Path,
			setups: once("vad 300 [vad.stop=300ms] + turn 100 + turn 2900 [turn.max_delay=2.9s] + llm.ttft 400 + tts.first_frame 200 = 3900 ms",
				"vad.stop=300ms", "turn.provider=semantic", "turn.inference=100ms", "turn.finished=0", "turn.max_delay=2900ms"),
		},
	}
}

// secondModel takes over from a model that has failed.
const secondModel = `llm.fallback=[{provider: sim, connect: 0s, network: 0s, base: 600ms, prefill: 0ns, step: 0s, tpot: 0s, replies: ["Yes. You can pay by card."]}]`

// spoken are cases about cutting and synthesis.
func spoken() []played {
	return []played{
		{
			number: "37", source: "pipecat-ai/pipecat#3451", story: "only the first request of a connection has a time to first audio",
			got: cases.All(cases.Of(report.MetricTTFA), cases.InTurn(2, cases.Of(report.MetricTTFA)), cases.InTurn(3, cases.Of(report.MetricTTFA))),
			setups: []setup{{
				say:  []pipeline.Say{{Utterance: shortSpeech()}, {Utterance: shortSpeech(), Gap: time.Second}, {Utterance: shortSpeech(), Gap: time.Minute}},
				set:  []string{"tts.connect=150ms", "tts.keep_alive=20s"}, // the third has to connect again
				want: "TTS TTFA 350 ms; TTS TTFA 200 ms; TTS TTFA 350 ms",
			}},
		},
		{
			number: "38", source: "livekit/agents#6300, #4387, #1431", story: "the synthesizer's time holds the wait for a sentence and another provider's failure",
			got: cases.All(cases.Request, cases.Of(report.MetricAggregation, report.MetricTTFA), cases.Attempts, cases.Path),
			setups: once("request case-38-1; aggregation 600 ms; TTS TTFA 200 ms; failed 1, retries 1; "+
				"vad 200 [vad.stop=200ms] + llm.ttft 400 + llm.decode 500 + aggregate 100 + tts.retry 2000 [tts.timeout=2s] + tts.first_frame 200 = 3400 ms",
				`llm.replies=["You can pay by card. Anything else?"]`, "llm.tpot=100ms", "tts.first_audio=10s", "tts.timeout=2s", "tts.backoff=0s",
				"tts.fallback=[{provider: sim, connect: 0s, first_audio: 200ms, lead_silence: 0s}]"),
		},
		{
			number: "41", source: "pipecat-ai/pipecat#2681, #5737", story: "only \"Hello!\" is spoken: the rest has no full stop and waits for more text",
			right: "all of it is heard; looking ahead is aggregation",
			got:   cases.All(heard, cases.Path),
			setups: []setup{
				{name: "looking ahead", set: []string{`llm.replies=["Hello! I am Ada and can help us"]`, "llm.tpot=50ms"},
					want: "heard 2000 ms of 2000 ms; vad 200 [vad.stop=200ms] + llm.ttft 400 + llm.decode 50 + aggregate 50 + tts.first_frame 200 = 900 ms"},
				{name: "not looking ahead", set: []string{`llm.replies=["Hello! I am Ada and can help us"]`, "llm.tpot=50ms", "cut.look_ahead=false"},
					want: "heard 2000 ms of 2000 ms; vad 200 [vad.stop=200ms] + llm.ttft 400 + llm.decode 50 + tts.first_frame 200 = 850 ms"},
			},
		},
		{
			number: "42", source: "pipecat-ai/pipecat#4782, #4814, sgl-project/sglang-omni#1901", story: "the first chunk is silence, and counts as sound",
			// The rule for the first audible sample looks at windows of 10 ms and reports their middle: the tone
			// at 80 ms is heard at 77.
			got: cases.All(cases.Of(report.MetricTTFA, report.MetricLeadSilence), cases.Between(trace.TTSSend, trace.FirstSound), cases.Path),
			setups: once("TTS TTFA 54 ms; TTS lead silence 77 ms; tts_send to first_sound 131 ms; vad 200 [vad.stop=200ms] + llm.ttft 400 + tts.first_frame 54 + tts.silence 77 = 731 ms",
				"tts.first_audio=54ms", "tts.lead_silence=80ms"),
		},
		{
			number: "43", source: "pipecat-ai/pipecat#2704, #442", story: "silence after an answer counts as the start of another one",
			got: cases.All(times(trace.TTSFirstFrame), times(trace.PlayStart), times(trace.FirstSound), cases.Between(trace.PlayStart, trace.FirstSound), cases.Faults),
			setups: []setup{
				{name: "behind each sentence", set: []string{"tts.tail_silence=1500ms"},
					want: "tts_first_frame 1 time; play_start 1 time; first_sound 1 time; play_start to first_sound 0 ms; no fault"},
				{name: "before the answer", set: []string{"tts.lead_silence=300ms"},
					want: "tts_first_frame 1 time; play_start 1 time; first_sound 1 time; play_start to first_sound 297 ms; no fault"},
			},
		},
	}
}

// accounts are cases about what is counted.
func accounts() []played {
	return []played{
		{
			number: "54", source: "NVIDIA nemotron#69", story: "a late end of the stream throws the measurement away",
			got:    cases.All(cases.Of(report.MetricTTFS), cases.Between(trace.FirstSound, trace.LLMEnd), cases.Flags, cases.OKTurns),
			setups: once("time to first sound 2800 ms; first_sound to llm_end 4800 ms; flags [slow_completion]; 1 ok turn", "llm.tpot=1s"),
		},
		{
			number: "57", source: "ServiceNow/eva#216", story: "how often the turn is ended too early, never, or by force is not told",
			got: cases.Detector,
			setups: []setup{{
				say: tenTurns(), tune: func(o *pipeline.Options) { o.Turn.Detector = detector{7: false, 8: false} },
				set:  []string{"turn.max_delay=3s", "asr.segments=300ms"},
				want: "of 10 turns early 1, stuck 1, forced 2",
			}},
		},
	}
}

// tenTurns are seven plain ones and one each of: a long pause (3), and speech
// that the VAD does not hear (5); the detector is not sure of two others.
func tenTurns() []pipeline.Say {
	say := make([]pipeline.Say, 10)
	for i := range say {
		say[i].Utterance = shortSpeech()
	}
	say[2].Utterance = withPause(1500 * time.Millisecond)
	say[4].Utterance = speech("can I pay by card", soft, 2*time.Second)
	return say
}

// A detector judges by the number of the turn: a pause is the end unless it says
// otherwise.
type detector map[int]bool

func (d detector) Finished(_ context.Context, p pipeline.Pause) (bool, error) {
	finished, known := d[p.ID.Turn]
	return finished || !known, nil
}

// sources are faults that were seen in public source.
func sources() []played {
	return []played{
		{
			number: "S2", source: "jambonz", story: "a transcript before the VAD's stop shows as a delay, by Math.abs",
			got:    cases.All(cases.Between(trace.VADStop, trace.ASRFinal), cases.Of(report.MetricASRFinalization)),
			setups: once("vad_stop to asr_final -400 ms; ASR finalization 150 ms", "vad.stop=550ms", "asr.final=150ms"),
		},
		{
			number: "S4", source: "xiaozhi-esp32-server", story: "the first word's time holds the connection, and the answer is sent in a burst",
			right: "the connection apart; as long to play as it is",
			got:   cases.All(cases.Path, cases.Between(trace.FirstSound, trace.PlayEnd)),
			setups: once("vad 200 [vad.stop=200ms] + llm.ttft 400 + tts.connect 500 + tts.first_frame 200 = 1300 ms; first_sound to play_end 1600 ms",
				"tts.connect=500ms", "line.pacing=burst", "llm.replies=[You can pay by card now.]"),
		},
		{
			number: "S5", source: "pipecat-ai/pipecat evals", story: "a budget begins with the recording: 6 s of speech and 1 s of waiting fail 3 s",
			right: "1000 ms from the end of speech: within the budget",
			got:   cases.All(cases.Of(report.MetricTTFS), overTarget),
			setups: []setup{{
				say: []pipeline.Say{{Utterance: speech("a question of six seconds", loud, 6*time.Second)}}, set: []string{"target=3s", "llm.base=600ms"},
				want: "time to first sound 1000 ms; 0 turns over 3000 ms",
			}},
		},
		{
			number: "S7", source: "tau2-bench", story: "190 ms and 210 ms come out as one tick and two",
			right: "190 ms and 210 ms",
			got:   cases.Of(report.MetricTTFS),
			setups: []setup{
				{name: "faster", set: []string{"vad.stop=100ms", "asr.final=50ms", "llm.base=50ms", "tts.first_audio=40ms"}, want: "time to first sound 190 ms"},
				{name: "slower", set: []string{"vad.stop=100ms", "asr.final=50ms", "llm.base=50ms", "tts.first_audio=60ms"}, want: "time to first sound 210 ms"},
			},
		},
		{
			number: "S8", source: "TEN framework", story: "the user says nothing for 10 s, and these count for the recognizer",
			right: "500 ms from the onset of the speech",
			got:   cases.All(cases.Between(trace.TurnOpened, trace.SpeechStart), cases.Between(trace.SpeechStart, trace.ASRPartial), cases.Of(report.MetricTTFS)),
			setups: []setup{{
				say: []pipeline.Say{{Utterance: sound{text: "can I pay by card", level: loud, whole: 13 * time.Second,
					runs: [][2]time.Duration{{10 * time.Second, 12 * time.Second}}}.utterance()}},
				want: "turn_opened to speech_start 10000 ms; speech_start to asr_partial 500 ms; time to first sound 800 ms",
			}},
		},
		{
			number: "S9", source: "coval-ai/benchmarks, livekit/agents", story: "a transcript before the end of the speech is clamped to 0",
			got: cases.All(cases.Of(report.MetricASRFinalization), cases.Flags, cases.Path),
			setups: once("ASR finalization -120 ms; flags [asr_final_before_speech_end]; vad 200 [vad.stop=200ms] + llm.ttft 400 + tts.first_frame 200 = 800 ms",
				"asr.early=220ms", "asr.final=100ms"),
		},
	}
}

// faults are stages that mark wrongly: it has to be told, and to fail --strict.
func faults() []played {
	told := cases.All(cases.Faults, cases.Of(report.MetricTTFS), strict)
	return []played{
		{
			number: "F1", source: "a mark of another clock", story: "a VAD stamps its events with the wall clock",
			right: "left out and told, and --strict fails",
			got:   told,
			setups: []setup{{
				tune: func(o *pipeline.Options) { o.VAD = wallVAD{o.VAD} },
				want: "2 faults: vad_start is at 1764000000530000000 ns, which is not on the run's clock (now 530000000 ns), " +
					"vad_stop is at 1764000002700000000 ns, which is not on the run's clock (now 2700000000 ns); " +
					"time to first sound 800 ms; strict: faults in the record: 2; the first: vad_start is at 1764000000530000000 ns, which is not on the run's clock (now 530000000 ns)",
			}},
		},
		{
			number: "F2", source: "a mark out of order", story: "a synthesizer says that its sound came before its text",
			got: told,
			setups: []setup{{
				tune: func(o *pipeline.Options) { o.TTS[0].Use = earlyTTS{o.TTS[0].Use} },
				want: "2 faults: tts_connected at 2800000000 ns is before its cause tts_send at 3100000000 ns, tts_first_frame at 3000000000 ns is before tts_send at 3100000000 ns; " +
					"time to first sound 800 ms; strict: faults in the record: 2; the first: tts_connected at 2800000000 ns is before its cause tts_send at 3100000000 ns",
			}},
		},
		{
			number: "F3", source: "a mark of a stale turn", story: "a step goes on after its turn was closed, and marks it",
			got: told,
			setups: []setup{{
				say: []pipeline.Say{{Utterance: shortSpeech()}, {Utterance: shortSpeech()}},
				tune: func(o *pipeline.Options) {
					o.Agent.Steps = []pipeline.Named[pipeline.Step]{{Name: "slow", Use: &staleStep{}}}
				},
				want: "1 fault: agent_end came after the turn was closed; time to first sound 800 ms; strict: faults in the record: 1; the first: agent_end came after the turn was closed",
			}},
		},
	}
}

// A wallVAD is a VAD whose time stamps are Unix times.
type wallVAD struct{ pipeline.VAD }

func (v wallVAD) Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error] {
	return func(yield func(audio.Activity, error) bool) {
		for a, err := range v.VAD.Listen(ctx, id, speech) {
			a.At += 1_764_000_000 * time.Second
			if !yield(a, err) {
				return
			}
		}
	}
}

// An earlyTTS is a synthesizer that says that its sound came 300 ms earlier.
type earlyTTS struct{ tts.Synthesizer }

func (s earlyTTS) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		for c, err := range s.Synthesizer.Speak(ctx, req, text) {
			c.At -= 300 * time.Millisecond
			if !yield(c, err) {
				return
			}
		}
	}
}

// A staleStep marks the turn before the one that it works for.
type staleStep struct{ before *trace.Turn }

func (s *staleStep) Do(ctx context.Context, _ trace.ID, _ int, _ string) (string, int, error) {
	s.before.Mark(trace.AgentEnd)
	s.before = trace.FromContext(ctx)
	return "", 0, nil
}

// strict writes what --strict says of the run.
func strict(r *cases.Run) string {
	if err := (&view{strict: true, turn: "median"}).pass(r.Report); err != nil {
		return err.Error()
	}
	return "strict: nothing"
}

// heard writes how much of the first turn's answer was heard, and how much there
// is of it.
func heard(r *cases.Run) string {
	told := func(m trace.Mark, key string) string {
		for _, e := range r.Events {
			for _, a := range e.Attrs {
				if e.ID == r.Turns[0].ID && e.Mark == m && a.Key == key {
					return cases.Milliseconds(time.Duration(a.Int))
				}
			}
		}
		return "nothing"
	}
	return fmt.Sprintf("heard %s of %s", told(trace.PlayEnd, trace.AttrHeard), told(trace.TTSEnd, trace.AttrAudio))
}

// times writes how often the first turn passed a mark.
func times(m trace.Mark) func(*cases.Run) string {
	return func(r *cases.Run) string {
		n := 0
		for _, e := range r.Events {
			if e.ID == r.Turns[0].ID && e.Mark == m {
				n++
			}
		}
		return fmt.Sprintf("%s %d time", m, n)
	}
}

// median writes the headline.
func median(r *cases.Run) string {
	h := r.Report.Headline
	if h.TTFS.P50.Value == nil {
		return "median absent: " + h.TTFS.P50.Absent
	}
	return fmt.Sprintf("median %s of %d turns", cases.Milliseconds(time.Duration(*h.TTFS.P50.Value)), h.TTFS.N)
}

// overTarget writes how many turns missed the target.
func overTarget(r *cases.Run) string {
	t := r.Report.Headline.Target
	return fmt.Sprintf("%d turns over %s", t.Over, cases.Milliseconds(time.Duration(t.TTFS)))
}
