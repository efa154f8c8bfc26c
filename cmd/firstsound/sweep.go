package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"firstsound/clocks"
	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
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

// each calls f for 0 … n−1 on all processors and returns the first error, of the
// lowest number. An error, or the end of ctx, keeps what has not begun from
// beginning.
func each(ctx context.Context, n, jobs int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(jobs, n) {
		wg.Go(func() {
			for i := range next {
				if errs[i] = f(ctx, i); errs[i] != nil {
					cancel(errs[i])
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
server (llm.server) before you vary the number of sessions.`,
		Example: `  firstsound sweep --vary vad.stop=200ms,500ms,800ms
  firstsound sweep --set 'llm.server={gpu: l4}' --vary sessions=1,10,50,100
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
	f.IntVar(&c.jobs, "jobs", runtime.GOMAXPROCS(0), "runs at the same time")
	return cmd
}

func (c *sweepCmd) run(ctx context.Context) error {
	if len(c.varyText) == 0 {
		return usagef("sweep needs something to vary: --vary vad.stop=200ms,500ms")
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
	progress := newCounter(c.streams, len(cells), "runs")
	err := each(ctx, len(cells), c.jobs, func(ctx context.Context, i int) error {
		all := append(slices.Clone(c.set), settings[i]...)
		r, err := simulate(ctx, c.file, all)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(settings[i], " "), err)
		}
		cells[i] = cell{Command: r.Run.Command, Report: r}
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
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		var keys []string
		for _, v := range varies {
			keys = append(keys, v.key)
		}
		return e.Encode(struct {
			Format string   `json:"format"`
			Keys   []string `json:"keys"`
			Knees  []knee   `json:"knees,omitempty"`
			Cells  []cell   `json:"cells"`
		}{"firstsound.sweep/1", keys, knees(varies, cells), cells})
	case "csv":
		return writeCSV(c.out, varies, cells)
	}
	return writeGrid(c.out, varies, cells)
}

// A column is something that is shown of a cell beside its values. One that has
// bounds is followed by their 95 % interval.
type column struct {
	title  string
	get    func(r *report.Report) string
	bounds func(r *report.Report) quantile.Figure
}

var columns = []column{
	{title: "ok", get: func(r *report.Report) string { return strconv.FormatInt(r.Headline.OK, 10) }},
	bounded("TTFS P50", func(r *report.Report) quantile.Figure { return r.Headline.TTFS.P50 }),
	bounded("P95", func(r *report.Report) quantile.Figure { return r.Headline.TTFS.P95 }),
	{title: "P99", get: func(r *report.Report) string { return figure(r.Headline.TTFS.P99) }},
	{title: "TTFT P50", get: metricColumn(report.MetricTTFT)},
	{title: "TPOT P50", get: metricColumn(report.MetricTPOT)},
	{title: "TTFA P50", get: metricColumn(report.MetricTTFA)},
	{title: "stalled", get: func(r *report.Report) string {
		return optional(r.Metrics[report.MetricUnderrunTime].Values.Mean, milliseconds)
	}},
	{title: "largest part", get: func(r *report.Report) string { return largestPart(r, false) }},
	{title: "of the slowest 5 %", get: func(r *report.Report) string { return largestPart(r, true) }},
}

func bounded(title string, get func(r *report.Report) quantile.Figure) column {
	return column{title, func(r *report.Report) string { return figure(get(r)) }, get}
}

// interval returns the bounds of a figure as a text for people.
func interval(f quantile.Figure) string {
	if f.Value == nil {
		return ""
	}
	return "[" + optional(f.Low, milliseconds) + ", " + optional(f.High, milliseconds) + "]"
}

func metricColumn(m report.Metric) func(r *report.Report) string {
	return func(r *report.Report) string { return figure(r.Metrics[m].Values.P50) }
}

// figure returns a quantile in milliseconds, or – if the sample cannot bear it.
func figure(f quantile.Figure) string {
	return optional(f.Value, milliseconds)
}

func milliseconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e6, 'f', 1, 64) }

func optional(v *int64, format func(int64) string) string {
	if v == nil {
		return "–"
	}
	return format(*v)
}

// largestPart returns the stage with the largest part of the silence.
func largestPart(r *report.Report, tail bool) string {
	sums := map[string]int64{}
	best := "–"
	for _, row := range r.Silence.Rows {
		if tail {
			sums[row.Stage] += row.Tail
		} else {
			sums[row.Stage] += row.Median
		}
		if sums[row.Stage] > sums[best] {
			best = row.Stage
		}
	}
	return best
}

// cellRows returns the table of cells, its head first. For machines each bound is
// a column of its own.
func cellRows(varies []vary, cells []cell, machine bool) [][]string {
	var rows [][]string
	var head []string
	for _, v := range varies {
		head = append(head, v.key)
	}
	for _, col := range columns {
		head = append(head, col.title)
		switch {
		case col.bounds != nil && machine:
			head = append(head, col.title+" low", col.title+" high")
		case col.bounds != nil:
			head = append(head, "95 %")
		}
	}
	rows = append(rows, head)
	for _, c := range cells {
		row := slices.Clone(c.Values)
		for _, col := range columns {
			row = append(row, col.get(c.Report))
			switch {
			case col.bounds != nil && machine:
				f := col.bounds(c.Report)
				row = append(row, optional(f.Low, milliseconds), optional(f.High, milliseconds))
			case col.bounds != nil:
				row = append(row, interval(col.bounds(c.Report)))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func writeCSV(w io.Writer, varies []vary, cells []cell) error {
	out := csv.NewWriter(w)
	rows := cellRows(varies, cells, true)
	for i, row := range rows {
		for k, field := range row {
			if i > 0 && field == "–" {
				row[k] = ""
			}
		}
	}
	return out.WriteAll(rows)
}

func writeGrid(w io.Writer, varies []vary, cells []cell) error {
	rows := cellRows(varies, cells, false)
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for k, field := range row {
			widths[k] = max(widths[k], len([]rune(field)))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "times in ms, of ok turns; stalled is the mean per turn; – is not supported by their number\n\n")
	for _, row := range rows {
		var line strings.Builder
		for k, field := range row {
			pad := strings.Repeat(" ", widths[k]-len([]rune(field)))
			if k < len(varies) || k >= len(row)-2 { // texts to the left, numbers to the right
				line.WriteString(field + pad + "  ")
			} else {
				line.WriteString(pad + field + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for _, k := range knees(varies, cells) {
		fmt.Fprintf(&b, "\nknee at %s=%s%s: the P95 is %.1f ms there and %.1f ms at %s", k.Key, k.At, k.where(), float64(k.P95)/1e6, float64(k.LastP95)/1e6, k.Last)
	}
	if len(cells) > 0 {
		fmt.Fprintf(&b, "\nagain, one cell: %s\n", cells[0].Command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A knee is where a curve of P95 over a growing number bends upwards most.
type knee struct {
	Key     string   `json:"key"`
	At      string   `json:"at"`
	P95     int64    `json:"p95_ns"`
	Last    string   `json:"last"`
	LastP95 int64    `json:"last_p95_ns"`
	Others  []string `json:"others,omitempty"` // the settings of the other keys
}

func (k knee) where() string {
	if len(k.Others) == 0 {
		return ""
	}
	return " with " + strings.Join(k.Others, " ")
}

// knees returns the knees along the last key, if its values are growing numbers,
// for each combination of the others: the point farthest below the line from the
// first to the last (Kneedle: Satopää and others, 2011), where the last P95 is at
// least half as much again as the first. It takes four points.
func knees(varies []vary, cells []cell) []knee {
	last := varies[len(varies)-1]
	n := len(last.values)
	if len(cells) != len(grid(varies)) {
		return nil // some are missing
	}
	x := make([]float64, n)
	for i, v := range last.values {
		var err error
		if x[i], err = strconv.ParseFloat(v, 64); err != nil || i > 0 && x[i] <= x[i-1] {
			return nil
		}
	}
	var found []knee
	for from := 0; n >= 4 && from+n <= len(cells); from += n {
		row := cells[from : from+n]
		y := make([]float64, n)
		for i, c := range row {
			if c.Report.Headline.TTFS.P95.Value == nil {
				y = nil
				break
			}
			y[i] = float64(*c.Report.Headline.TTFS.P95.Value)
		}
		if y == nil || y[n-1] < 1.5*y[0] {
			continue
		}
		at, deepest := 0, 0.0
		for i := range x {
			below := (x[i]-x[0])/(x[n-1]-x[0]) - (y[i]-y[0])/(y[n-1]-y[0])
			if below > deepest+1e-12 {
				at, deepest = i, below
			}
		}
		if deepest == 0 || math.IsNaN(deepest) {
			continue
		}
		k := knee{Key: last.key, At: last.values[at], P95: int64(y[at]), Last: last.values[n-1], LastP95: int64(y[n-1])}
		for i, v := range varies[:len(varies)-1] {
			k.Others = append(k.Others, v.key+"="+row[0].Values[i])
		}
		found = append(found, k)
	}
	return found
}
