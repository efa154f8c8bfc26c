package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"firstsound/clocks"
	"firstsound/pipeline/scenario"
)

// benchSpeech is what bench asr, bench tts and bench s2s have in common.
type benchSpeech struct {
	streams
	stage    string // asr, tts, s2s
	provider string
	set      []string
	levels   []int
	rounds   int
	language string
	out      string
	json     bool
	made     maker
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
	if err := b.made.write(b.out); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
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

// measure runs a benchmark at each level, shows its report and keeps what was asked
// for: n trials in all, of which the run passes each to keep.
func measure[T, R any](ctx context.Context, b *benchSpeech, n int, what string, summary interface {
	Add(T)
	Report(partial bool) R
}, write func(io.Writer, R) error, run func(level int, keep func(T) error) error, well func(T) bool) error {
	folder, err := b.folder()
	if err != nil {
		return err
	}
	progress := newCounter(b.streams, n, what)
	ok := 0
	for _, level := range b.levels {
		err = run(level, func(t T) error {
			if well(t) {
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
	shown := b.show(signed{b.made, report}, func() error { return write(b.streams.out, report) })
	return errors.Join(shown, folder.close(signed{b.made, report}), ended(ctx, err, ok))
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
