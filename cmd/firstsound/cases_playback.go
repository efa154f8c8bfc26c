package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
	"firstsound/pipeline/report"
	"firstsound/pipeline/report/cases"
)

// playback are cases about the way to the ear.
func playback() []played {
	long := fmt.Sprintf("llm.replies=[%s.]", strings.Repeat("m", 104)) // 7 s at 15 characters a second
	played7 := cases.All(cases.Between(trace.FirstSound, trace.PlayEnd), heard, cases.Of(report.MetricUnderruns))
	const all7 = "first_sound to play_end 7000 ms; heard 7000 ms of 7000 ms; underruns 0"
	prebuffer := func(size string) []string {
		return []string{fmt.Sprintf("llm.replies=[%s.]", strings.Repeat("m", 35)), "tts.chunk=400ms", "tts.rtf=1.6",
			"line.pacing=burst", "line.playout.mode=fixed", "line.playout.prebuffer=" + size}
	}
	return []played{
		{
			number: "46", source: "pipecat-ai/pipecat#5592", story: "7 s of sound leave the agent unpaced, and the answer \"ends\" after 2 s",
			right: "7 s take 7 s to play",
			got:   played7,
			setups: []setup{
				{name: "24 kHz", set: []string{long}, want: all7},
				{name: "8 kHz", set: []string{long, "tts.sample_rate=8000"}, want: all7},
				{name: "sent in one burst", set: []string{long, "line.pacing=burst"}, want: all7},
			},
		},
		{
			number: "47", source: "pipecat-ai/pipecat#5769, #5386", story: "a pause of the synthesizer loses what is under way",
			right:  "nothing is lost, to the sample",
			got:    played7,
			setups: once(all7, long, "tts.stall=1", "tts.stall_for=300ms", "tts.rtf=0"),
		},
		{
			number: "49", source: "aplisay/llm-agent#311", story: "the sound falls behind while the text is on time, and nothing says so",
			right: "the text on time, and the gaps in the sound counted",
			got:   cases.All(cases.Between(trace.SpeechEnd, trace.LLMEnd), cases.Of(report.MetricUnderruns, report.MetricUnderrunTime), cases.Between(trace.FirstSound, trace.PlayEnd), heard),
			setups: once("speech_end to llm_end 600 ms; underruns 14; underrun time 700 ms; first_sound to play_end 3700 ms; heard 3000 ms of 3000 ms",
				fmt.Sprintf("llm.replies=[%s.]", strings.Repeat("m", 44)), "tts.rtf=1.25", "line.pacing=burst"),
		},
		{
			number: "50", source: "livekit/agents#6368, xiaozhi-esp32-server#2357", story: "a prebuffer trades the first sound for gaps, and nobody sees the trade",
			right: "first sound and gaps, prebuffer by prebuffer",
			got:   cases.Of(report.MetricTTFS, report.MetricUnderruns, report.MetricUnderrunTime),
			setups: []setup{
				{name: "prebuffer 400 ms", set: prebuffer("400ms"), want: "time to first sound 800 ms; underruns 5; underrun time 1200 ms"},
				{name: "800 ms", set: prebuffer("800ms"), want: "time to first sound 1440 ms; underruns 1; underrun time 720 ms"},
				{name: "1200 ms", set: prebuffer("1200ms"), want: "time to first sound 2080 ms; underruns 0; underrun time 0 ms"},
			},
		},
		{
			number: "51", source: "xiaozhi-esp32-server#2074, livekit/agents#3240, pipecat-ai/pipecat#2883", story: "the first turn pays for the connection, and spoils the figures of all",
			right: "a stage of its own, in the warm-up turn only",
			got:   cases.All(cases.Outcome, cases.Path, cases.InTurn(2, cases.Path), cases.InTurn(3, cases.Path), median),
			setups: []setup{{
				say: []pipeline.Say{{Utterance: shortSpeech(), Warmup: true}, {Utterance: shortSpeech()}, {Utterance: shortSpeech()}},
				set: []string{"llm.connect=1200ms", "llm.keep_alive=1m"},
				want: "warmup; vad 200 [vad.stop=200ms] + llm.connect 1200 + llm.ttft 400 + tts.first_frame 200 = 2000 ms; " +
					"vad 200 [vad.stop=200ms] + llm.ttft 400 + tts.first_frame 200 = 800 ms; vad 200 [vad.stop=200ms] + llm.ttft 400 + tts.first_frame 200 = 800 ms; median 800 ms of 2 turns",
			}},
		},
		{
			// A recording cannot be fed faster than it lasts: the run's clock plays it, and the latency
			// begins with the end of the speech in it.
			number: "52", source: "Azure VoiceLive#309", story: "a recording is fed faster than it lasts, and the latency begins with its end",
			right: "it takes its time on the clock; from the end of speech",
			got:   cases.All(cases.Between(trace.SpeechStart, trace.SpeechEnd), cases.Between(trace.SpeechEnd, trace.SpeechHeard), cases.Of(report.MetricTTFS)),
			setups: []setup{{
				say:  []pipeline.Say{{Utterance: speech("three seconds of speech", loud, 3*time.Second)}},
				want: "speech_start to speech_end 3000 ms; speech_end to speech_heard 0 ms; time to first sound 800 ms",
			}},
		},
	}
}

// resampled takes a tone through the resampler in the pieces in which a line with
// gaps delivers it, and says what comes out.
func resampled() (got, want string, err error) {
	const in, out = 24000, 8000
	tone := audio.Frame{Rate: in, PCM: make([]int16, 3*in)}
	for i := range tone.PCM {
		tone.PCM[i] = int16(10000 * math.Sin(2*math.Pi*440*float64(i)/in))
	}
	r, err := audio.NewResampler(in, out)
	if err != nil {
		return "", "", err
	}
	var pcm []int16
	for from, n := 0, 1; from < len(tone.PCM); from, n = from+n, n%480+7 { // pieces of 1 to 486 samples
		to := min(from+n, len(tone.PCM))
		f, err := r.Push(audio.Frame{Rate: in, PCM: tone.PCM[from:to]})
		if err != nil {
			return "", "", err
		}
		pcm = append(pcm, f.PCM...)
	}
	pcm = append(pcm, r.Flush().PCM...)
	whole := audio.Resample(tone, out).PCM
	got = fmt.Sprintf("%d samples at 24 kHz, %d at 8 kHz; as in one piece: %v", len(tone.PCM), len(pcm), slices.Equal(pcm, whole))
	return got, "72000 samples at 24 kHz, 24000 at 8 kHz; as in one piece: true", nil
}
