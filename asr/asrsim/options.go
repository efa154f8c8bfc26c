package asrsim

import (
	"cmp"
	"time"

	"firstsound/clocks/random"
)

// Options say how a Recognizer behaves. The zero value answers at once; start
// from [Defaults]. A Dist is a distribution of durations, a probability lies in
// 0 … 1.
type Options struct {
	// Partials says that partial transcripts come at all. Without them only
	// Final, Segments and Endpoint speak (a service that transcribes whole
	// utterances).
	Partials bool `yaml:"partials"`

	// FirstPartial is how much of the speech has to be heard before the first
	// partial is there. A shorter utterance has none before its end.
	FirstPartial random.Dist `yaml:"first_partial"`

	// PausePartial: a pause inside the utterance that is longer than this gives
	// a partial of the words before it, Interim after its beginning, so that a
	// turn detector that fires in the pause has a text. 0: no such partials.
	PausePartial time.Duration `yaml:"pause_partial"`

	// Interim is the time from the end of the speech, or the beginning of a
	// pause, as heard, to the partial about it.
	Interim random.Dist `yaml:"interim"`

	// InterimComplete is the probability that the partial after the end of the
	// speech has all words. Otherwise it lacks the last one, two or three.
	InterimComplete float64 `yaml:"interim_complete"`

	// Final is the time from the end of the speech, as heard at the agent, to
	// the final transcript.
	Final random.Dist `yaml:"final"`

	// Early is how much of the end of the speech the recognizer can do without:
	// the end of the speech, for all of the above, is so much earlier.
	Early time.Duration `yaml:"early"`

	// Segments: a pause inside the utterance that is longer than this makes a
	// Final of the words before it, Final after its beginning. 0: there is one
	// Final, at the end.
	Segments time.Duration `yaml:"segments"`

	// Endpoint is the time from the end of the speech to the service's own event
	// that the user has finished. Nil: the service has no such event.
	Endpoint *random.Dist `yaml:"endpoint"`

	// FalseEndpoint is the probability, in each pause that is longer than
	// PausePartial, that the Endpoint event comes for the pause.
	FalseEndpoint float64 `yaml:"false_endpoint"`

	// WaitForFinalize says that the service makes its final transcript only when
	// told to: Finalize after Request.Finalize has returned. Final is used where
	// Request.Finalize is nil.
	WaitForFinalize bool `yaml:"wait_for_finalize"`

	// Finalize is the time from the wish for the final transcript to it.
	Finalize random.Dist `yaml:"finalize"`

	WordErrors float64 `yaml:"word_errors"` // probability, per word, that it is a wrong one (no words are dropped or added)
	Empty      float64 `yaml:"empty"`       // probability that the transcript is empty: neither partials nor words in the Final
	Fail       float64 `yaml:"fail"`        // probability of a failure in place of the final transcript
	Error      string  `yaml:"error"`       // what the service says when it fails
	Late       float64 `yaml:"late"`        // probability that the final transcript never comes
}

// Defaults are the options of a hosted streaming recognizer:
//
//   - final lognormal(247ms, 0.114): Deepgram in pipecat-ai/stt-benchmark
//     (n = 1000, P50 247 ms, P95 298 ms, P99 326 ms), from the end of the speech
//     to the final transcript, the network included. It was measured with a VAD
//     stop of 200 ms, which runs at the same time and must not be added.
//   - first_partial lognormal(450ms, 0.25): assumption. A first word of 300 ms
//     and a chunk of 160 ms (NVIDIA Nemotron-Speech 0.6B works in chunks of 80,
//     160, 560 or 1120 ms).
//   - interim lognormal(150ms, 0.2), interim_complete 0.8: assumption. A chunk of
//     160 ms is half heard on average, and the way there and back.
//   - pause_partial 200ms: assumption, the VAD stop of pipecat, so that the text
//     is there when a detector looks at it.
//   - finalize lognormal(100ms, 0.2): assumption; not used unless
//     wait_for_finalize is set.
//   - no endpoint event, no segments, no errors of any kind.
func Defaults() Options {
	return Options{
		Partials:        true,
		FirstPartial:    random.MustParse("lognormal(450ms, 0.25)"),
		PausePartial:    200 * time.Millisecond,
		Interim:         random.MustParse("lognormal(150ms, 0.2)"),
		InterimComplete: 0.8,
		Final:           random.MustParse("lognormal(247ms, 0.114)"),
		Finalize:        random.MustParse("lognormal(100ms, 0.2)"),
		Error:           "503 service unavailable (simulated)",
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	return cmp.Or(
		random.Probability("interim_complete", o.InterimComplete), random.Probability("false_endpoint", o.FalseEndpoint),
		random.Probability("word_errors", o.WordErrors), random.Probability("empty", o.Empty),
		random.Probability("fail", o.Fail), random.Probability("late", o.Late),
		random.NotNegative("pause_partial", o.PausePartial), random.NotNegative("early", o.Early), random.NotNegative("segments", o.Segments),
	)
}
