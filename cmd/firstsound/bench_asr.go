package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firstsound/asr/asrbench"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/pipeline/scenario"
)

// benchSpeech is what bench asr and bench tts have in common.
type benchSpeech struct {
	streams
	stage    string // asr, tts
	provider string
	set      []string
	levels   []int
	rounds   int
	language string
	out      string
	json     bool
}

func (b *benchSpeech) flags(cmd *cobra.Command, providers string) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&b.provider, "provider", "p", "", "the `PROVIDER`:\n"+providers)
	f.StringArrayVar(&b.set, "set", nil, "set an option of the provider: `KEY=VALUE`, as in a scenario (see firstsound list "+b.stage+")")
	f.IntSliceVar(&b.levels, "concurrency", []int{1}, "how many at a time, one level after the other (`N,N`)")
	f.IntVar(&b.rounds, "rounds", 1, "how often everything is done at each level (`N`)")
	f.StringVar(&b.language, "language", "en", "`LANGUAGE`: en, zh or another")
	f.StringVar(&b.out, "out", "", "write "+benchTrialsFile+", line by line as they come, and "+benchReportFile+" to this new `FOLDER`")
	f.BoolVar(&b.json, "json", false, "print the report as JSON")
}

func (b *benchSpeech) check() error {
	switch {
	case b.provider == "":
		return usagef("name a provider: --provider NAME; firstsound engines shows what is usable here")
	case len(b.levels) == 0 || slices.ContainsFunc(b.levels, func(n int) bool { return n < 1 || n > 1000 }):
		return usagef("--concurrency takes levels from 1 to 1000, such as 1,4")
	case b.rounds < 1 || b.rounds > 100_000:
		return usagef("--rounds takes 1 to 100,000, not %d", b.rounds)
	case b.language == "":
		return usagef("--language takes a language, such as en or zh")
	}
	return nil
}

// The files of a benchmark's folder.
const (
	benchTrialsFile = "trials.jsonl"
	benchReportFile = "report.json"
)

// ofPipeline are the keys of the stages' blocks that are not the providers'.
var ofPipeline = []string{"provider", "timeout", "attempts", "backoff", "fallback"}

// block returns the provider's block of a scenario that sets its options.
func (b *benchSpeech) block() (*scenario.Scenario, error) {
	settings := []string{b.stage + ".provider=" + b.provider}
	for _, s := range b.set {
		key, _, _ := strings.Cut(strings.TrimPrefix(s, b.stage+"."), "=")
		if slices.Contains(ofPipeline, key) {
			return nil, usagef("--set %s: %s is a key of the pipeline, which takes no part in a benchmark", s, key)
		}
		settings = append(settings, b.stage+"."+strings.TrimPrefix(s, b.stage+"."))
	}
	s, err := scenario.LoadFile("", settings...)
	if err != nil {
		return nil, b.refused(err)
	}
	return s, nil
}

// defaultPlace is where the scenario says that an option is that was not set.
var defaultPlace = regexp.MustCompile(`^the default scenario:\d+:\d+: `)

// refused names the flags in place of a scenario that the user does not have.
func (b *benchSpeech) refused(err error) error {
	text := strings.Replace(err.Error(), "--set "+b.stage+".provider="+b.provider, "--provider "+b.provider, 1)
	return usagef("%s", defaultPlace.ReplaceAllString(text, "--set "))
}

// environment is what the provider is made with. The function ends what it opened.
func (b *benchSpeech) environment(clock clocks.Clock) (e env, end func()) {
	var ends []func()
	e = env{clock: clock, getenv: b.lookup, atEnd: func(f func()) { ends = append(ends, f) }}
	return e, func() {
		for _, f := range slices.Backward(ends) {
			f()
		}
	}
}

// A benchFolder keeps trials as they come. A nil one keeps nothing.
type benchFolder struct {
	dir string
	f   *os.File
}

func (b *benchSpeech) folder() (*benchFolder, error) {
	if b.out == "" {
		return nil, nil
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return nil, usagef("--out: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(b.out, benchTrialsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, usagef("--out: there are trials in %s already: name another folder", b.out)
	}
	if err != nil {
		return nil, usagef("--out: %w", err)
	}
	return &benchFolder{b.out, f}, nil
}

func (k *benchFolder) keep(trial any) error {
	if k == nil {
		return nil
	}
	line, err := json.Marshal(trial)
	if err == nil {
		_, err = k.f.Write(append(line, '\n'))
	}
	return err
}

// close writes the report beside the trials.
func (k *benchFolder) close(report any) error {
	if k == nil {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(k.dir, benchReportFile), append(text, '\n'), 0o644)
	}
	return errors.Join(err, k.f.Close())
}

// show prints the report.
func (b *benchSpeech) show(report any, text func() error) error {
	if !b.json {
		return text()
	}
	e := json.NewEncoder(b.streams.out)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// ended returns the error of a run that was cut short, or in which nothing was
// well.
func ended(ctx context.Context, err error, ok int) error {
	switch {
	case ctx.Err() != nil:
		return errors.New("the run is not complete: interrupted")
	case err != nil:
		return err
	case ok == 0:
		return errors.New("no trial was ok")
	}
	return nil
}

// providerNames lists the providers of a table, without the profiles of the model,
// in lines of five.
func providerNames[T any](t table[T]) string {
	var names, lines []string
	for _, c := range t {
		if !strings.Contains(c.name, "/") {
			names = append(names, c.name)
		}
	}
	for part := range slices.Chunk(names, 5) {
		lines = append(lines, strings.Join(part, ", "))
	}
	return strings.Join(lines, ",\n")
}

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
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
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
	folder, err := b.folder()
	if err != nil {
		return err
	}
	summary := asrbench.NewSummary(b.provider, b.corpus, b.o, b.language == "zh")
	progress := newCounter(b.streams, len(b.levels)*b.rounds*len(b.o.Utterances), "recordings")
	ok := 0
	for _, level := range b.levels {
		err = bench.Run(ctx, r, level, func(t asrbench.Trial) error {
			if t.Outcome == asrbench.OK {
				ok++
			}
			summary.Add(t)
			progress.one()
			return folder.keep(t)
		})
		if err != nil {
			break
		}
	}
	progress.done()
	report := summary.Report(err != nil)
	shown := b.show(report, func() error { return writeBenchASR(b.streams.out, report) })
	return errors.Join(shown, folder.close(report), ended(ctx, err, ok))
}
