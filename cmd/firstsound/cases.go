package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
	"firstsound/pipeline/report"
	"firstsound/pipeline/report/cases"
	"firstsound/pipeline/scenario"
)

// caseBase is what the played cases are laid over: one call on a line that takes
// no time, in which every stage takes as long as it says and nothing is drawn.
// After the end of speech the VAD says stop at 200 ms and the transcript is there
// at 150 ms; the model needs 400 ms and the synthesizer 200 ms.
const caseBase = `
target: 0s
line:
  packet: 10ms
  uplink: {delay: 0s, jitter: 0s}
  downlink: {delay: 0s, jitter: 0s}
  codec_delay: 0s
  playout: {mode: ideal}
vad: {stop: 200ms, inference: 0s}
asr: {first_partial: 500ms, interim: 100ms, interim_complete: 1, final: 150ms, finalize: 100ms}
turn: {provider: none}
agent: {steps: [], tools: []}
llm:
  connect: 0s
  network: 0s
  base: 400ms
  prefill: 0ns
  step: 0s
  tpot: 0s
  replies: ["Yes. You can pay by card."]
tts: {connect: 0s, first_audio: 200ms, lead_silence: 0s}
`

// A played is a case is a report from the field that is played through the whole
// pipeline, once for each of its setups.
type played struct {
	number string // the case's own, as in package cases
	source string // where it was reported
	story  string // what went wrong there, in our words
	right  string // what is right, in a few words; empty where the events of that number say it
	got    func(*cases.Run) string
	setups []setup
}

// A setup is one way to play a case.
type setup struct {
	name string                  // what is special about it, where there are several
	set  []string                // laid over caseBase
	say  []pipeline.Say          // what the caller says, turn by turn; nil: shortSpeech once
	tune func(*pipeline.Options) // changes the stages, where no setting can
	want string
}

// setupSeparator stands between the answers of two setups.
const setupSeparator = " | "

// check plays the case, and returns what the report says of it and what it must
// say.
func (c *played) check() (got, want string, err error) {
	var gots, wants []string
	for _, s := range c.setups {
		head := ""
		if s.name != "" {
			head = s.name + ": "
		}
		r, err := s.play("case-" + c.number)
		if err != nil {
			return strings.Join(gots, setupSeparator), s.want, fmt.Errorf("case %s: %s%w", c.number, head, err)
		}
		gots, wants = append(gots, head+c.got(r)), append(wants, head+s.want)
	}
	return strings.Join(gots, setupSeparator), strings.Join(wants, setupSeparator), nil
}

// play plays the setup on a virtual clock. The request IDs begin with id.
func (s *setup) play(id string) (*cases.Run, error) {
	sc, err := scenario.Load("the base of the cases", []byte(caseBase), s.set...)
	if err != nil {
		return nil, err
	}
	clock := clocks.NewVirtual()
	e := env{clock: clock, seed: sc.Seed}
	line, err := lines.make(e, sc.Line)
	if err != nil {
		return nil, err
	}
	o, err := pipe(sc, e)
	if err != nil {
		return nil, err
	}
	if s.tune != nil {
		s.tune(&o)
	}
	say := slices.Clone(s.say)
	if say == nil {
		say = []pipeline.Say{{Utterance: shortSpeech()}}
	}
	var events []trace.Event
	call := pipeline.Call{
		Session: 1, Line: line(1),
		Recorder: trace.NewRecorder(clock, func(e trace.Event) { events = append(events, e) }),
		Script: func(n int) (pipeline.Say, bool) {
			if n > len(say) {
				return pipeline.Say{}, false
			}
			say[n-1].RequestID = fmt.Sprintf("%s-%d", id, n)
			return say[n-1], true
		},
	}
	clock.Go("call", func() { err = o.Run(context.Background(), call) })
	if stuck := clock.Run(context.Background()); stuck != nil {
		return nil, stuck
	}
	if err != nil {
		return nil, err
	}
	return cases.Read(events, report.Limit{At: sc.Target, Known: sc.Target > 0})
}

// A sound is a made-up recording whose bounds are known: hum, and a tone where
// somebody speaks.
type sound struct {
	text  string
	level float64 // of the tone, dBFS
	hum   float64 // between the tones, dBFS; 0: digital silence
	runs  [][2]time.Duration
	whole time.Duration // with the silence around the speech
}

// Levels of made-up recordings.
const (
	loud = -20. // dBFS: somebody close to the microphone
	soft = -45. // dBFS: somebody who is hard to hear
	hum  = -50. // dBFS: too close below soft for a VAD
)

// utterance makes the recording. A tone of 200 Hz has two whole periods in every
// 10 ms, so that each hop of a detector is as loud as the next.
func (s sound) utterance() *audio.Utterance {
	const rate, pitch = 16000, 200
	u := &audio.Utterance{ID: "made-up", Language: "en", Text: s.text, Bounds: audio.BoundsAnnotated}
	u.Sound = audio.Frame{Rate: rate, PCM: make([]int16, audio.Samples(s.whole, rate))}
	u.Start, u.End = s.runs[0][0], s.runs[len(s.runs)-1][1]
	fill := func(from, to time.Duration, level float64) {
		peak := 32768 * math.Sqrt2 * math.Pow(10, level/20)
		for i := audio.Samples(from, rate); i < audio.Samples(to, rate); i++ {
			u.Sound.PCM[i] = int16(math.Round(peak * math.Sin(2*math.Pi*pitch*float64(i)/rate)))
		}
	}
	if s.hum != 0 {
		fill(0, s.whole, s.hum)
	}
	for _, r := range s.runs {
		fill(r[0], r[1], s.level)
	}
	return u
}

// speech is a recording of somebody who says text for so long, with half a second
// of silence before and a second after.
func speech(text string, level float64, length time.Duration) *audio.Utterance {
	s := sound{text: text, level: level, runs: [][2]time.Duration{{half, half + length}}, whole: half + length + time.Second}
	if level == soft {
		s.hum = hum
	}
	return s.utterance()
}

const half = 500 * time.Millisecond

// shortSpeech is a recording of two seconds of clear speech.
func shortSpeech() *audio.Utterance { return speech("can I pay by card", loud, 2*time.Second) }
