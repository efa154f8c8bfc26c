package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"firstsound/clocks"
	"firstsound/pipeline/scenario"
	"firstsound/tts/ttsbench"
)

// benchTTS is the command bench tts with its flags.
type benchTTS struct {
	benchSpeech
	voice string
	texts []string
}

func newBenchTTSCmd(s streams) *cobra.Command {
	b := &benchTTS{benchSpeech: benchSpeech{streams: s, stage: "tts"}}
	cmd := &cobra.Command{
		Use:   "tts --provider NAME",
		Short: "A synthesizer over texts: first byte, first audible sample, stalls",
		Long: `Bench tts hands texts to a synthesizer and holds the sound that comes against the
time in which it has to be played. All times are from the moment of handing over:

  connection ready    the first one of the run is cold and stands apart; later ones
                      may find a kept connection
  first byte          the first sound has come: what most benchmarks call TTFB
  first audible       the first sample to be heard has come: 50 windows of 10 ms,
                      one every 1 ms, above -40 dBFS, which is Pipecat's rule
  … is played         a player that begins at the first byte plays it: first byte
                      and silence at the head, and stalls until then
  real-time factor    time until the last byte by the length of the sound
  least headroom      how much sound was left to play when more came, at the least;
                      below zero the player stalled, and has to wait so long first

The texts are eight answers of an agent, from a word to three sentences, in en and
zh; --text speaks your own. Keys come from the environment (firstsound engines shows
which) and are kept nowhere. An interrupt (Ctrl-C) ends the run; what was measured is
kept and shown.`,
		Example: `  firstsound bench tts --provider flite
  firstsound bench tts --provider espeak --language zh
  firstsound bench tts --provider cartesia --rounds 13 --concurrency 1,4 --out cartesia-1
  firstsound bench tts --provider openai --set url=http://127.0.0.1:8880/v1 --set model=kokoro
  firstsound bench tts --provider elevenlabs --text 'Your order is on its way.'`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.made = made(cmd, nil, scenario.Real)
			return b.run(cmd.Context())
		},
	}
	b.flags(cmd, providerNames(synthesizers))
	f := cmd.Flags()
	f.StringVar(&b.voice, "voice", "", "`VOICE` in the provider's words; its own if not given")
	f.StringArrayVar(&b.texts, "text", nil, "a `TEXT` of your own in place of the built-in ones; may be given several times")
	return cmd
}

func (b *benchTTS) run(ctx context.Context) error {
	if err := b.check(); err != nil {
		return err
	}
	o := ttsbench.Options{Voice: b.voice, Rounds: b.rounds, RunID: fmt.Sprintf("fs%08x", uint32(random64())), Texts: ttsbench.Texts(b.language)}
	if len(b.texts) > 0 {
		o.Texts = nil
	}
	for i, text := range b.texts {
		o.Texts = append(o.Texts, ttsbench.Text{ID: fmt.Sprintf("text-%d", i+1), Language: b.language, Text: text})
	}
	if len(o.Texts) == 0 {
		return usagef("there are texts in en and zh, and none in %q: give your own with --text", b.language)
	}
	s, err := b.block()
	if err != nil {
		return err
	}
	clock := clocks.NewReal()
	bench, err := ttsbench.New(clock, o)
	if err != nil {
		return usageError{err}
	}
	e, end := b.environment(clock)
	defer end()
	voice, err := synthesizers.make(e, s.TTS.Block)
	if err != nil {
		return b.refused(err)
	}
	return measure(ctx, &b.benchSpeech, len(b.levels)*b.rounds*len(o.Texts), "texts", ttsbench.NewSummary(b.provider, b.language), writeBenchTTS,
		func(level int, keep func(ttsbench.Trial) error) error { return bench.Run(ctx, voice, level, keep) },
		func(t ttsbench.Trial) bool { return t.Outcome == ttsbench.OK })
}
