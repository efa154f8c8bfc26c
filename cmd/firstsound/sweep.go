package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/pipeline/load"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// A vary is a key of the scenario and the values that a sweep gives it.
type vary struct {
	key    string
	values []string
}

// parseVary reads "key=v1,v2". Commas within parentheses, brackets and braces
// belong to a value.
func parseVary(text string) (vary, error) {
	key, list, ok := strings.Cut(text, "=")
	if !ok || key == "" || list == "" {
		return vary{}, usagef("--vary %s: write KEY=VALUE,VALUE, such as vad.stop=200ms,500ms", text)
	}
	for _, short := range shorthands {
		if key == short.flag {
			key = short.key
		}
	}
	v := vary{key: key}
	depth, from := 0, 0
	for i, r := range list {
		switch r {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				v.values = append(v.values, strings.TrimSpace(list[from:i]))
				from = i + 1
			}
		}
	}
	v.values = append(v.values, strings.TrimSpace(list[from:]))
	if slices.Contains(v.values, "") {
		return vary{}, usagef("--vary %s: there is a value missing between two commas", text)
	}
	return v, nil
}

// A cell is one point of the grid.
type cell struct {
	Values  []string       `json:"values"` // of the varied keys, in their order
	Command string         `json:"command"`
	Note    string         `json:"note,omitempty"` // what is wrong with its load
	Report  *report.Report `json:"report"`
}

// grid returns the settings of every cell; the last key varies fastest.
func grid(varies []vary) [][]string {
	cells := [][]string{nil}
	for _, v := range varies {
		var next [][]string
		for _, c := range cells {
			for _, value := range v.values {
				next = append(next, append(slices.Clone(c), v.key+"="+value))
			}
		}
		cells = next
	}
	return cells
}

// maxCells bounds a grid: more is a mistake on the command line.
const maxCells = 10_000

// checkSettings loads a scenario, makes all of its parts, without running it, and returns
// its load: what is wrong with the settings of one of many runs is said before the
// first begins.
func checkSettings(ctx context.Context, file string, settings []string) (load.Plan, error) {
	s, err := scenario.LoadFile(file, settings...)
	if err != nil {
		return load.Plan{}, usageError{err}
	}
	if s.Clock != scenario.Virtual {
		return load.Plan{}, usagef("many runs at once need the virtual clock, and the scenario has clock: %s", s.Clock)
	}
	a, _, err := assemble(ctx, s, clocks.NewVirtual())
	if err != nil {
		return load.Plan{}, usageError{err}
	}
	for _, end := range slices.Backward(a.ends) {
		end()
	}
	return a.plan, nil
}

// short says that a load has fewer calls than are to go on at the same time.
func short(p load.Plan) string {
	if p.Arrival != load.Closed || p.Slots() == p.Sessions {
		return ""
	}
	n := p.PerCall * p.Sessions
	return fmt.Sprintf("only %d calls went on at the same time, since there are no more turns; for all of them, --set load.turns=%d --set load.warmup=%d", p.Slots(), n, n)
}

// simulate runs a scenario on a virtual clock of its own and returns its report.
func simulate(ctx context.Context, file string, settings []string) (*report.Report, error) {
	s, err := scenario.LoadFile(file, settings...)
	if err != nil {
		return nil, usageError{err}
	}
	return simulateScenario(ctx, s, file, settings, nil)
}

// simulateScenario is simulate for a scenario that has been loaded from file with
// settings. also, if it is not nil, is called with every turn, which is valid
// during the call only.
func simulateScenario(ctx context.Context, s *scenario.Scenario, file string, settings []string, also func(*report.Turn)) (*report.Report, error) {
	if s.Clock != scenario.Virtual {
		return nil, usagef("many runs at once need the virtual clock, and the scenario has clock: %s", s.Clock)
	}
	a, _, err := assemble(ctx, s, clocks.NewVirtual())
	if err != nil {
		return nil, usageError{err}
	}
	v := view{turn: "median", whatIf: report.DefaultPercent}
	rec := &recording{info: runInfo(s, file, settings)}
	rec.summary = report.NewSummary(v.options(s.Target, targetSource(s.Target), s.Seed))
	rec.assembler, err = report.NewAssembler(report.Limit{}, v.whatIf, func(t *report.Turn) {
		rec.summary.Add(t)
		if also != nil {
			also(t)
		}
	})
	if err != nil {
		return nil, err
	}
	end, err := a.run(ctx, func(e trace.Event) { rec.event(&e) })
	if err != nil {
		return nil, err
	}
	return rec.close(report.StateComplete, "", end, nil)
}

// each calls f for 0 … n−1, so many at the same time. An error, or the end of ctx,
// keeps what has not begun from beginning and ends what has. Each returns that
// error: of several the one of the lowest number, and none that comes of the end.
func each(ctx context.Context, n, jobs int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(jobs, n) {
		wg.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil && ctx.Err() == nil {
					errs[i] = err
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// sweepCmd is the command sweep with its flags.
type sweepCmd struct {
	streams
	file     string
	set      []string
	varyText []string
	format   string
	json     bool
	jobs     int
}

func newSweepCmd(s streams) *cobra.Command {
	c := &sweepCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "sweep [SCENARIO.yaml] --vary KEY=VALUE,VALUE …",
		Short: "Run a scenario over a grid of settings and compare",
		Long: `Sweep runs the scenario once for every combination of the values that --vary
gives, on all processors, each on a virtual clock of its own. All runs draw from
the same seed, so what differs between two cells is the setting and not luck.

Calls wait for each other only where they share something: give the scenario a
server (llm.server) before you vary the number of sessions, and enough turns
(load.turns, load.warmup) for all of them: the first call of each is warm-up,
since all begin at once.`,
		Example: `  firstsound sweep --vary vad.stop=200ms,500ms,800ms
  firstsound sweep --set 'llm.server={gpu: l4}' --set load.turns=2000 --set load.warmup=400 --vary sessions=1,10,50,100
  firstsound sweep --set line.playout.mode=fixed --vary line.playout.prebuffer=20ms,60ms,200ms --format csv`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				c.file = args[0]
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVar(&c.varyText, "vary", nil, "a `KEY=VALUE,VALUE` of the scenario to vary; may be given several times")
	f.StringArrayVar(&c.set, "set", nil, "set any key of the scenario: `KEY=VALUE`")
	f.StringVar(&c.format, "format", "text", "text, json or csv")
	f.BoolVar(&c.json, "json", false, "the same as --format json")
	f.IntVar(&c.jobs, "jobs", runtime.GOMAXPROCS(0), "runs at the same time")
	return cmd
}

// varied names the flag that the user wrote, in an error about one of its values.
func varied(err error, values []string) error {
	text := err.Error()
	for _, v := range values {
		text = strings.Replace(text, "--set "+v, "--vary "+v, 1)
	}
	if text == err.Error() {
		return err
	}
	return usagef("%s", text)
}

func (c *sweepCmd) run(ctx context.Context) error {
	if len(c.varyText) == 0 {
		return usagef("sweep needs something to vary: --vary vad.stop=200ms,500ms")
	}
	if c.json {
		c.format = "json"
	}
	if c.format != "text" && c.format != "json" && c.format != "csv" {
		return usagef("--format takes text, json or csv, not %q", c.format)
	}
	if c.jobs < 1 {
		return usagef("--jobs takes 1 or more, not %d", c.jobs)
	}
	var varies []vary
	for _, text := range c.varyText {
		v, err := parseVary(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(varies, func(o vary) bool { return o.key == v.key }) {
			return usagef("--vary %s: the key is there twice; give all its values at once: --vary %s=VALUE,VALUE", text, v.key)
		}
		for i, value := range v.values {
			if slices.Contains(v.values[:i], value) {
				return usagef("--vary %s: the value %s is there twice", text, value)
			}
		}
		varies = append(varies, v)
	}
	settings := grid(varies)
	if len(settings) > maxCells {
		return usagef("these values make %d runs; at most %d are taken", len(settings), maxCells)
	}
	cells := make([]cell, len(settings))
	for i, values := range settings { // before hours are spent on the others
		p, err := checkSettings(ctx, c.file, append(slices.Clone(c.set), values...))
		if err != nil {
			return varied(err, values)
		}
		if slices.ContainsFunc(varies, func(v vary) bool { return v.key == "load.sessions" }) {
			cells[i].Note = short(p)
		}
	}
	progress := newCounter(c.streams, len(cells), "runs")
	err := each(ctx, len(cells), c.jobs, func(ctx context.Context, i int) error {
		all := append(slices.Clone(c.set), settings[i]...)
		r, err := simulate(ctx, c.file, all)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(settings[i], " "), err)
		}
		cells[i].Command, cells[i].Report = r.Run.Command, r
		for _, s := range settings[i] {
			_, value, _ := strings.Cut(s, "=")
			cells[i].Values = append(cells[i].Values, value)
		}
		progress.one()
		return nil
	})
	progress.done()
	done := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.Report == nil })
	if err != nil && len(done) == 0 {
		return err
	}
	if writeErr := c.write(varies, done); writeErr != nil {
		return writeErr
	}
	if err != nil {
		return fmt.Errorf("%d of %d runs are missing: %w", len(cells)-len(done), len(cells), err)
	}
	return nil
}

func (c *sweepCmd) write(varies []vary, cells []cell) error {
	switch c.format {
	case "json":
		var keys []string
		for _, v := range varies {
			keys = append(keys, v.key)
		}
		return writeIndented(c.out, struct {
			Format string   `json:"format"`
			Keys   []string `json:"keys"`
			Knees  []knee   `json:"knees,omitempty"`
			Cells  []cell   `json:"cells"`
		}{"firstsound.sweep/1", keys, knees(varies, cells), cells})
	case "csv":
		for _, note := range notes(varies, cells) {
			fmt.Fprintln(c.err, note)
		}
		return writeCSV(c.out, varies, cells)
	}
	return writeGrid(c.out, varies, cells)
}
