package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firstsound/clocks"
	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// view are the flags that say how a report looks and what it is held against.
type view struct {
	json   bool
	turn   string
	whatIf int
	gate   string
	strict bool
	width  int
	color  string
}

func (v *view) flags(cmd *cobra.Command) {
	v.looks(cmd)
	cmd.Flags().StringVar(&v.gate, "gate", "", "exit 1 if this `QUANTILE` (p50, p95, p99; no answer counts as late) is above the target")
}

// looks adds all flags but the gate.
func (v *view) looks(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&v.json, "json", false, "print the report as JSON")
	f.StringVar(&v.turn, "turn", "median", "the `TURN` to show in full: median, slowest, SESSION.TURN or a\nrequest ID")
	f.IntVar(&v.whatIf, "what-if", report.DefaultPercent, "how much faster a stage is in the what-if, in `PERCENT`")
	f.BoolVar(&v.strict, "strict", false, "exit 1 if a stage told nothing at all, or the record has faults")
	f.IntVar(&v.width, "width", 100, "columns of the text, at least 80")
	f.StringVar(&v.color, "color", "auto", "auto, always or never")
}

func (v *view) check() error {
	switch {
	case v.width < 80 || v.width > 1000:
		return usagef("--width takes 80 to 1000 columns, not %d", v.width)
	case v.whatIf < 1 || v.whatIf > 100:
		return usagef("--what-if takes 1 to 100 per cent, not %d", v.whatIf)
	case v.gate != "" && v.gate != "p50" && v.gate != "p95" && v.gate != "p99":
		return usagef("--gate takes p50, p95 or p99, not %q", v.gate)
	case v.color != "auto" && v.color != "always" && v.color != "never":
		return usagef("--color takes auto, always or never, not %q", v.color)
	}
	return nil
}

// checkTarget says whether there is the target that a gate needs.
func (v *view) checkTarget(target time.Duration) error {
	if v.gate != "" && target <= 0 {
		return usagef("--gate %s needs a target: --target 800ms", v.gate)
	}
	return nil
}

// options are those of a report about a run with this target.
func (v *view) options(target time.Duration, source string, seed uint64) report.Options {
	o := report.Options{Percent: v.whatIf, Turn: v.turn, Seed: seed}
	if target > 0 {
		o.Target, o.TargetSource = report.Limit{At: target, Known: true}, source
	}
	return o
}

// show prints r, and returns an error if it does not pass the gates.
func (v *view) show(r *report.Report, s streams) error {
	var err error
	if v.json {
		err = r.WriteJSON(s.out)
	} else {
		color := v.color == "always" || v.color == "auto" && s.tty && s.env("NO_COLOR") == ""
		err = r.WriteText(s.out, report.TextOptions{Width: v.width, Color: color, Gate: v.gate})
	}
	if err != nil {
		return err
	}
	return v.pass(r)
}

// pass holds r against the gates.
func (v *view) pass(r *report.Report) error {
	if r.Turn == nil && v.turn != "median" && v.turn != "slowest" {
		return errors.New(r.TurnWhy)
	}
	if v.gate != "" {
		q := map[string]quantile.Figure{"p50": r.Headline.TTFS.P50, "p95": r.Headline.TTFS.P95, "p99": r.Headline.TTFS.P99}[v.gate]
		switch {
		case q.Value == nil:
			return fmt.Errorf("gate: there is no %s: %s", v.gate, q.Absent)
		case *q.Value > r.Headline.Target.TTFS:
			t := r.Headline.Target
			return fmt.Errorf("gate: %s of the time to first sound is %v, above the target of %v; the turns above it most often lose it in %s (%d of %d)",
				v.gate, time.Duration(*q.Value).Round(100*time.Microsecond), time.Duration(t.TTFS), t.Cause, t.CauseTurns, t.Over)
		}
		if err := enoughWithin(r.Headline.Target, v.gate); err != nil {
			return err
		}
	}
	if v.strict {
		if r.Faults.Count > 0 {
			return fmt.Errorf("strict: faults in the record: %d; the first: %s", r.Faults.Count, r.Faults.First[0].Text)
		}
		if r.Headline.OK == 0 {
			return errors.New("strict: no turn is ok, so no stage is measured")
		}
		if missing := r.Missing(); len(missing) > 0 {
			return fmt.Errorf("strict: missing in every turn: %s", strings.Join(missing, ", "))
		}
	}
	return nil
}

// enoughWithin returns an error if fewer of the measured turns are within the
// target than the quantile asks for. A turn that failed or had no reply is none
// that is: nobody heard an answer in time.
func enoughWithin(t *report.Target, gate string) error {
	percent, err := strconv.ParseInt(strings.TrimPrefix(gate, "p"), 10, 64)
	if err != nil || t.Within*100 >= percent*t.Measured {
		return err
	}
	return fmt.Errorf("gate: %d of %d measured turns (%.1f %%) are within the target of %v, and %s asks for %d %%; %d are above it, %d failed or had no reply",
		t.Within, t.Measured, 100*float64(t.Within)/float64(t.Measured), time.Duration(t.TTFS), gate, percent, t.Over, t.Measured-t.Within-t.Over)
}

// A runCmd is the command run with its flags.
type runCmd struct {
	streams
	view
	file      string
	set       []string
	short     map[string]*string // flags that are short for a setting
	out       string
	overwrite bool
}

// shorthands are flags that are short for a setting.
var shorthands = []struct{ flag, key, value, usage string }{
	{"clock", "clock", "CLOCK", "virtual, or real to let the time pass"},
	{"seed", "seed", "N", "seed of everything random"},
	{"turns", "load.turns", "N", "turns to measure, over all calls"},
	{"sessions", "load.sessions", "N", "calls at the same time"},
	{"arrival", "load.arrival", "HOW", "closed, poisson, constant, gamma or trace"},
	{"rate", "load.rate", "N", "new calls a second, with poisson, constant and gamma arrival"},
	{"duration", "load.duration", "TIME", "begin no call after this, such as 60s"},
	{"warmup", "load.warmup", "N", "turns before these, left out of the figures"},
	{"corpus", "corpus", "DIR", "your own WAV files; the built-in recordings if not given"},
	{"target", "target", "TIME", "what the time to first sound is held against, such as 800ms"},
}

func newRunCmd(s streams) *cobra.Command {
	r := &runCmd{streams: s, short: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "run [SCENARIO.yaml]",
		Short: "Play recordings through the pipeline and explain the silence",
		Long: `Run plays recorded utterances through speech recognition, turn detection, the
agent's work, a language model, speech synthesis, a network and the playout
buffer, and shows what the time from the end of speech to the first sound of the
answer was spent on. Without a scenario it runs the built-in one.

An interrupt (Ctrl-C) ends the run; what was measured until then is reported,
and marked as partial.`,
		Example: `  firstsound run
  firstsound run --target 800ms --gate p95          exit 1 if the P95 is above 800 ms
  firstsound run --set vad.stop=500ms --set turn.preemptive=final
  firstsound run --turn slowest                     the slowest turn in full
  firstsound run scenario.yaml --out results        keep every mark of every turn
  firstsound run --corpus my-wavs --turns 50
  firstsound run --clock real --turns 3 --warmup 0`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				r.file = args[0]
			}
			if err := r.view.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("out") && r.out == "" {
				return usagef("--out takes the name of a folder")
			}
			return r.run(cmd.Context(), r.settings(cmd))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVar(&r.set, "set", nil, "set any key of the scenario: `KEY=VALUE`, such as asr.timeout=800ms")
	for _, short := range shorthands {
		r.short[short.flag] = f.String(short.flag, "", short.usage+" (`"+short.value+"`; "+short.key+")")
	}
	f.StringVar(&r.out, "out", "", "write run.json, events.jsonl and turns.jsonl to this `FOLDER`")
	f.BoolVar(&r.overwrite, "overwrite", false, "replace the run that is in the folder")
	r.view.flags(cmd)
	return cmd
}

// settings returns what the command line lays over the scenario.
func (r *runCmd) settings(cmd *cobra.Command) []string {
	all := r.set
	for _, short := range shorthands {
		if cmd.Flags().Changed(short.flag) {
			all = append(all, short.key+"="+*r.short[short.flag])
		}
	}
	return all
}

func (r *runCmd) run(ctx context.Context, settings []string) error {
	s, err := scenario.LoadFile(r.file, settings...)
	if err != nil {
		return usageError{err}
	}
	if err := r.view.checkTarget(s.Target); err != nil {
		return err
	}
	// A run keeps little and makes much: collecting less often takes a tenth less
	// time, and the memory stays far below what anybody would notice.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var clock clocks.Clock = clocks.NewVirtual()
	if s.Clock == scenario.Real {
		clock = clocks.NewReal()
	}
	a, warnings, err := assemble(ctx, s, clock)
	if err != nil {
		return usageError{err}
	}
	for _, w := range warnings {
		fmt.Fprintf(r.streams.err, "firstsound: %s\n", w)
	}
	rec, err := r.record(s, runInfo(s, r.file, settings))
	if err != nil {
		return err
	}
	progress := newCounter(r.streams, s.Load.Turns+s.Load.Warmup, "turns")
	running, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	end, err := a.run(running, func(e trace.Event) {
		if err := rec.event(&e); err != nil {
			giveUp(err) // what cannot be kept need not be played
		}
		if e.Mark == trace.TurnClosed {
			progress.one()
		}
	})
	progress.done()
	state, reason := report.StateComplete, ""
	if err != nil {
		state, reason = report.StatePartial, err.Error()
		if ctx.Err() != nil {
			reason = "interrupted"
		}
	}
	if a.pace != nil {
		if text := a.pace.String(); text != "" {
			fmt.Fprintf(r.streams.err, "firstsound: %s\n", text)
		}
		rec.info.Replay = a.pace.late()
	}
	rep, writeErr := rec.close(state, reason, end, clock)
	if err := r.view.show(rep, r.streams); err != nil {
		return err
	}
	switch {
	case writeErr != nil:
		return writeErr
	case state == report.StatePartial:
		return fmt.Errorf("the run is not complete: %s", reason)
	}
	return nothingWorked(rep)
}

// nothingWorked is the error of a run in which all turns failed.
func nothingWorked(rep *report.Report) error {
	failed := int64(0)
	for _, o := range rep.Outcomes {
		switch {
		case o.Outcome == string(report.OutcomeWarmup) || o.Turns == 0:
		case !strings.HasPrefix(o.Outcome, string(report.OutcomeFailed)+":"):
			return nil
		default:
			failed += o.Turns
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("no turn was answered: all %d failed", failed)
}

// A recording takes the events of a run: into files, if there are any, and into
// the report.
type recording struct {
	info      report.RunInfo
	folder    *report.Folder // nil: nothing is kept
	assembler *report.Assembler
	summary   *report.Summary
	also      func(*report.Turn) // takes each turn too; nil: nobody does
}

// record begins the record of a run of s, whose info says how it is made again.
func (r *runCmd) record(s *scenario.Scenario, info report.RunInfo) (*recording, error) {
	rec := &recording{info: info}
	rec.summary = report.NewSummary(r.view.options(s.Target, targetSource(s.Target), s.Seed))
	var err error
	rec.assembler, err = report.NewAssembler(report.Limit{}, r.view.whatIf, func(t *report.Turn) {
		rec.summary.Add(t)
		if rec.folder != nil {
			rec.folder.Turn(t)
		}
		if rec.also != nil {
			rec.also(t)
		}
	})
	if err != nil || r.out == "" {
		return rec, err
	}
	rec.folder, err = report.Create(r.out, rec.info, r.overwrite)
	if errors.Is(err, report.ErrExists) {
		err = usagef("%w: name another folder, or say --overwrite", err)
	}
	return rec, err
}

// The target of the default scenario, and where it comes from.
const (
	defaultTarget       = 1115 * time.Millisecond
	defaultTargetSource = "mouth to ear, median: Twilio's guide of Nov 2025, relayed by callsphere.ai"
)

// targetSource says where a target comes from.
func targetSource(target time.Duration) string {
	if target == defaultTarget {
		return defaultTargetSource
	}
	return "yours"
}

// event takes an event. The error is that of writing the files.
func (rec *recording) event(e *trace.Event) error {
	if rec.folder == nil {
		rec.assembler.Add(e)
		return nil
	}
	rec.folder.Event(e)
	rec.assembler.Add(e)
	if e.Mark == trace.TurnClosed && rec.info.Clock == string(scenario.Real) {
		rec.folder.Flush() // turns are rare then, and dear: none must be lost
	}
	return rec.folder.Err()
}

// endSession closes the turns that a session has left open.
func (rec *recording) endSession(session int) {
	rec.assembler.End(session)
	if rec.folder != nil {
		rec.folder.Flush()
	}
}

// close ends the record. The error is that of writing the files.
func (rec *recording) close(state report.RunState, reason string, end time.Duration, clock clocks.Clock) (*report.Report, error) {
	late := rec.assembler.Close()
	info := rec.info
	ns := int64(end)
	info.State, info.Reason, info.End, info.Events = state, reason, &ns, rec.assembler.Events
	if real, ok := clock.(*clocks.Real); ok {
		info.Timers = report.NewTimers(real.Lateness())
	}
	var err error
	if rec.folder != nil {
		rec.folder.SetTimers(info.Timers, info.Replay)
		err = rec.folder.Close(state, reason, report.Limit{At: end, Known: true})
		info = rec.folder.Info()
		info.Turns, info.Events = 0, rec.assembler.Events // not those in the files only
	}
	return rec.summary.Report(info, late), err
}

// runInfo returns what has to be known to run s again.
func runInfo(s *scenario.Scenario, file string, settings []string) report.RunInfo {
	command := []string{"firstsound", "run"}
	if file != "" {
		command = append(command, shellQuote(file))
	}
	for _, set := range settings {
		command = append(command, asFlag(set)...)
	}
	if file == "" && len(settings) == 0 {
		command = append(command, "--seed", strconv.FormatUint(s.Seed, 10))
	}
	name := file
	if name == "" {
		name = "default"
	}
	fixed := map[string]string{}
	for _, kv := range s.Fixed() {
		fixed[kv.Key] = kv.Value
	}
	info := report.RunInfo{
		Format: report.RunFormat, Tool: thisVersion().String(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Clock: string(s.Clock), Seed: s.Seed, Name: name, Scenario: s.YAML(), Command: strings.Join(command, " "), Fixed: fixed,
	}
	if s.Clock == scenario.Real {
		info.Started = clocks.NewReal().Epoch().UTC().Format(time.RFC3339)
	}
	return info
}

// asFlag returns how a setting is said on the command line.
func asFlag(set string) []string {
	key, value, _ := strings.Cut(set, "=")
	for _, short := range shorthands {
		if key == short.key {
			return []string{"--" + short.flag, shellQuote(value)}
		}
	}
	return []string{"--set", shellQuote(set)}
}

// shellQuote quotes s if a shell would not take it as one word.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
