package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"firstsound/asr/asrbench"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/pipeline/scenario"
)

// benchASR is the command bench asr with its flags.
type benchASR struct {
	benchSpeech
	corpus string
	o      asrbench.Options
}

func newBenchASRCmd(s streams) *cobra.Command {
	b := &benchASR{benchSpeech: benchSpeech{streams: s, stage: "asr"}, o: asrbench.Defaults()}
	cmd := &cobra.Command{
		Use:   "asr --provider NAME",
		Short: "A recognizer over recordings: when its final transcript comes, and how right it is",
		Long: `Bench asr replays each recording to a recognizer in real time, 20 ms of sound every
20 ms, and holds what it says against what is known of the recording:

  connecting      until the service takes sound; the first one of the run is cold
                  and stands apart
  first partial   from the first sample of the speech
  finalization    from the true end of the speech to the last final transcript. The
                  end is the recording's, never an event of the service. A final
                  that comes before it is flagged and counts with its negative time
  endpoint        the service's own word that the user has finished
  word error rate against the recording's text: substituted, inserted and missing
                  words, in lower case and without punctuation; with Chinese,
                  characters. Numbers are not spelled out
  sound late by   how much later than it should sound was sent. A trial whose P99 is
                  above 2 ms is labelled late, one sent faster than said unpaced

The listener says --stop after the true end that the speech is over; services that
want to be told are told then. Pipecat's figures (ttfs_p99_latency) are measured
with 200 ms, which is the default; with 100 trials and more the line to paste is
printed. A quantile that the trials do not bear is –.

Keys come from the environment (firstsound engines shows which) and are kept
nowhere. An interrupt (Ctrl-C) ends the run; what was measured is kept and shown.`,
		Example: `  firstsound bench asr --provider pocketsphinx
  firstsound bench asr --provider deepgram --rounds 6 --out deepgram-1
  firstsound bench asr --provider funasr --set url=ws://127.0.0.1:10095 --language zh
  firstsound bench asr --provider openai --set url=http://127.0.0.1:8080 --concurrency 1,4,16
  firstsound bench asr --provider vosk --corpus my-wavs --json`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.made = made(cmd, nil, scenario.Real)
			return b.run(cmd.Context())
		},
	}
	b.flags(cmd, providerNames(recognizers))
	f := cmd.Flags()
	f.StringVar(&b.corpus, "corpus", "", "your own WAV files (`DIR`); the built-in recordings if not given")
	f.DurationVar(&b.o.Stop, "stop", b.o.Stop, "`TIME` after the true end of the speech at which the\nlistener says that it is over")
	f.DurationVar(&b.o.Tail, "tail", b.o.Tail, "`TIME` of silence after the speech, until the sound ends")
	return cmd
}

// maxTail bounds the silence after each recording.
const maxTail = time.Minute

// recordings returns those of the language, and those that have none.
func (b *benchASR) recordings() ([]*audio.Utterance, error) {
	all, warnings, err := loadCorpus(b.corpus)
	if err != nil {
		return nil, usageError{err}
	}
	for _, w := range warnings {
		fmt.Fprintf(b.streams.err, "firstsound: %s\n", w)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(u *audio.Utterance) bool { return u.Language != "" && u.Language != b.language })
	if len(all) == 0 {
		return nil, usagef("there is no recording in the language %q: --language takes that of the recordings", b.language)
	}
	return all, nil
}

func (b *benchASR) run(ctx context.Context) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.o.Stop < 0 {
		return usagef("--stop %v is negative: it is a time after the true end of the speech", b.o.Stop)
	}
	if b.o.Tail > maxTail {
		return usagef("--tail %v: it is at most %v", b.o.Tail, maxTail)
	}
	if b.o.Tail < b.o.Stop {
		return usagef("--tail %v is shorter than --stop %v: the sound would end before the listener says so", b.o.Tail, b.o.Stop)
	}
	var err error
	if b.o.Utterances, err = b.recordings(); err != nil {
		return err
	}
	b.o.Rounds, b.o.Language, b.o.RunID = b.rounds, b.language, fmt.Sprintf("fs%08x", uint32(random64()))
	s, err := b.block()
	if err != nil {
		return err
	}
	clock := clocks.NewReal()
	bench, err := asrbench.New(clock, b.o)
	if err != nil {
		return usageError{err}
	}
	e, end := b.environment(clock)
	defer end()
	e.sent, e.connected = bench.Sent, bench.Connected
	r, err := recognizers.make(e, s.ASR.Block)
	if err != nil {
		return b.refused(err)
	}
	summary := asrbench.NewSummary(b.provider, b.corpus, b.o, b.language == "zh")
	return measure(ctx, &b.benchSpeech, len(b.levels)*b.rounds*len(b.o.Utterances), "recordings", summary, writeBenchASR,
		func(level int, keep func(asrbench.Trial) error) error { return bench.Run(ctx, r, level, keep) },
		func(t asrbench.Trial) bool { return t.Outcome == asrbench.OK })
}
