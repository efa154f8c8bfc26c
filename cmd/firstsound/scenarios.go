package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// A lesson is a ready scenario: what goes wrong in it, and how it is told. All of
// it stands in the comment at the head of its file.
type lesson struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Pitfall string `json:"pitfall"`
	See     string `json:"what_you_see"`
	Why     string `json:"why"`
	Do      string `json:"what_to_do"`

	yaml    string
	cures   []cure
	expects []expect
	figures []string // that are shown, in this order
}

// A cure is what makes the scenario healthy.
type cure struct {
	name     string
	settings []string // as --set takes them
}

// An expect is an inequality between a figure of the scenario and one of a cure:
//
//	ttft.p50 at least 200ms more          the scenario has so much more than the cure
//	ttft.p95 at least 3 times             so many times as much
//	underrun.mean at least 5ms less       so much less
//	ttft.p50 within 10%                   about the same
//
// "than FIGURE" at the end names another figure of the cure to compare with.
type expect struct {
	text   string
	only   string // the cure that it is about; empty: every one
	figure string
	than   string // the cure's figure
	how    string // more, less, times or within
	amount float64
}

// lessons returns all ready scenarios: by pitfall, then by name.
func lessons() ([]*lesson, error) {
	var all []*lesson
	for _, name := range scenario.Library() {
		yaml, _ := scenario.LibraryYAML(name)
		l, err := readLesson(name, yaml)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b *lesson) int {
		return cmp.Or(cmp.Compare(slices.Index(pitfalls, a.Pitfall), slices.Index(pitfalls, b.Pitfall)), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// pitfalls are what the scenarios are examples of, in the order of the list.
var pitfalls = []string{
	"slow first call", "TTFT on two levels", "late first token", "TTFT grows with load", "two places, two values", "slow answer", "turn taking", "way to the ear",
}

// readLesson reads the comment at the head of a scenario. Its first line is the
// title; then come paragraphs such as "Why: …", whose further lines are indented.
func readLesson(name, yaml string) (*lesson, error) {
	l := &lesson{Name: name, yaml: yaml}
	var paragraphs []string
	for line := range strings.Lines(yaml) {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		trimmed := strings.TrimSpace(text)
		switch {
		case trimmed == "":
		case strings.HasPrefix(text, "  ") && len(paragraphs) > 0:
			paragraphs[len(paragraphs)-1] += " " + trimmed
		default:
			paragraphs = append(paragraphs, trimmed)
		}
	}
	for i, p := range paragraphs {
		if i == 0 {
			l.Title = p
			continue
		}
		if err := l.paragraph(p); err != nil {
			return nil, fmt.Errorf("ready scenario %s: %w", name, err)
		}
	}
	if l.Title == "" || l.See == "" || l.Why == "" || l.Do == "" || len(l.cures) == 0 || len(l.expects) == 0 || !slices.Contains(pitfalls, l.Pitfall) {
		return nil, fmt.Errorf("ready scenario %s: its comment needs a title, See, Why, Do, Cure, Expect, and a Pitfall out of %s", name, strings.Join(pitfalls, ", "))
	}
	return l, nil
}

// paragraph takes one paragraph of the comment.
func (l *lesson) paragraph(p string) error {
	head, text, _ := strings.Cut(p, ": ")
	key, of, _ := strings.Cut(head, " ")
	switch key {
	case "Pitfall":
		l.Pitfall = text
	case "See":
		l.See = text
	case "Why":
		l.Why = text
	case "Do":
		l.Do = text
	case "Show":
		l.figures = append(l.figures, strings.Fields(text)...)
	case "Cure":
		l.cures = append(l.cures, cure{of, strings.Split(text, "; ")})
	case "Expect":
		e, err := parseExpect(text)
		if err != nil {
			return err
		}
		e.only = of
		l.expects = append(l.expects, e)
		for _, f := range []string{e.figure, e.than} {
			if !slices.Contains(l.figures, f) {
				l.figures = append(l.figures, f)
			}
		}
	default:
		return fmt.Errorf("its comment has the paragraph %q; there are Pitfall, See, Why, Do, Show, Cure and Expect", head)
	}
	return nil
}

// parseExpect reads an inequality.
func parseExpect(text string) (expect, error) {
	e := expect{text: text}
	wrong := fmt.Errorf("expect %q: write FIGURE at least AMOUNT more, less or times, or FIGURE within N%%", text)
	words := strings.Fields(text)
	if len(words) < 3 {
		return e, wrong
	}
	e.figure, e.than = words[0], words[0]
	var err error
	if words[1] == "within" && len(words) == 3 {
		e.how = "within"
		e.amount, err = strconv.ParseFloat(strings.TrimSuffix(words[2], "%"), 64)
	} else {
		if words[1] != "at" || words[2] != "least" || len(words) != 5 && (len(words) != 7 || words[5] != "than") {
			return e, wrong
		}
		if len(words) == 7 {
			e.than = words[6]
		}
		e.how = words[4]
		e.amount, err = strconv.ParseFloat(words[3], 64)
		if err != nil {
			var d time.Duration
			d, err = time.ParseDuration(words[3])
			e.amount = float64(d)
		}
	}
	if err != nil || !slices.Contains([]string{"more", "less", "times", "within"}, e.how) {
		return e, wrong
	}
	return e, nil
}

// holds says whether the inequality holds between a figure of the scenario and
// one of the cure.
func (e expect) holds(sick, well float64) bool {
	switch e.how {
	case "more":
		return sick-well >= e.amount
	case "less":
		return well-sick >= e.amount
	case "times":
		return sick > well && sick >= e.amount*well
	}
	return sick >= well*(1-e.amount/100) && sick <= well*(1+e.amount/100)
}

// A lessonRun is one run of a lesson: sick, or with a cure.
type lessonRun struct {
	report *report.Report
	// The values of ok turns: of the first turns of calls, and of the later ones.
	first, later [report.MetricCount][]int64
}

// playLesson runs the scenario with settings laid over it.
func playLesson(ctx context.Context, l *lesson, settings ...string) (*lessonRun, error) {
	s, err := scenario.Load(l.Name+".yaml", []byte(l.yaml), settings...)
	if err != nil {
		return nil, err
	}
	run := &lessonRun{}
	run.report, err = simulateScenario(ctx, s, l.Name+".yaml", settings, func(t *report.Turn) {
		if t.Outcome != report.OutcomeOK {
			return
		}
		to := &run.later
		if t.ID.Turn == 1 {
			to = &run.first
		}
		for m := range report.MetricCount {
			if v := t.Value(m); v.OK {
				to[m] = append(to[m], v.N)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for m := range report.MetricCount {
		slices.Sort(run.first[m])
		slices.Sort(run.later[m])
	}
	return run, nil
}

// A lessonFigure is one number of a run; nil if the run cannot tell it.
type lessonFigure struct {
	value *int64
	unit  report.Unit
}

// String returns the figure with its unit, as people read it.
func (f lessonFigure) String() string {
	if f.value == nil {
		return "–"
	}
	switch f.unit {
	case report.UnitTime, report.UnitPerToken:
		return milliseconds(*f.value) + " ms"
	case report.UnitMillionth:
		return strconv.FormatFloat(float64(*f.value)/1e6, 'f', 3, 64)
	}
	return strconv.FormatInt(*f.value, 10)
}

// figure returns a number of the run by its name: a metric and what of it (p50,
// p95, p99, mean, min, max; first and later are the medians of the first turns of
// calls and of the others), a stage's part of the silence (path.STAGE at the
// median, tail.STAGE in the slowest turns), or a count.
func (run *lessonRun) figure(name string) (lessonFigure, error) {
	r := run.report
	head, of, _ := strings.Cut(name, ".")
	switch head {
	case "path", "tail":
		sum := int64(0)
		for _, row := range r.Silence.Rows {
			if row.Stage == of && head == "path" {
				sum += row.Median
			} else if row.Stage == of {
				sum += row.Tail
			}
		}
		if r.Silence.Absent != "" {
			return lessonFigure{nil, report.UnitTime}, nil
		}
		return lessonFigure{&sum, report.UnitTime}, nil
	case "turns", "attempts", "tokens":
		n, ok := map[string]int64{
			"turns.ok": r.Headline.OK, "turns.failed": failedTurns(r), "turns.forced": r.Detector.Forced, "turns.early": r.Detector.Early,
			"attempts.failed": r.Attempts.Failures, "attempts.adopted": r.Attempts.Adopted, "attempts.discarded": r.Attempts.Discarded,
			"tokens.wasted": r.Attempts.Wasted,
		}[name]
		if ok {
			return lessonFigure{&n, report.UnitCount}, nil
		}
	}
	for m, info := range report.Metrics {
		if strings.TrimSuffix(info.Key, "_ns") != head {
			continue
		}
		d, f := r.Metrics[m].Values, lessonFigure{unit: info.Unit}
		switch of {
		case "p50":
			f.value = d.P50.Value
		case "p95":
			f.value = d.P95.Value
		case "p99":
			f.value = d.P99.Value
		case "mean":
			f.value = d.Mean
		case "min":
			f.value = d.Min
		case "max":
			f.value = d.Max
		case "first", "later":
			values := run.first[m]
			if of == "later" {
				values = run.later[m]
			}
			if v, ok := quantile.Of(values, 0.5); ok {
				f.value = &v
			}
		default:
			return f, fmt.Errorf("there is no figure %q: a metric has p50, p95, p99, mean, min, max, first and later", name)
		}
		return f, nil
	}
	return lessonFigure{}, fmt.Errorf("there is no figure %q: write METRIC.p50, path.STAGE, tail.STAGE or a count such as turns.failed", name)
}

// figureTitle returns what people call a figure.
func figureTitle(name string) string {
	head, of, _ := strings.Cut(name, ".")
	switch head {
	case "path":
		return of + ", part of the silence at the median"
	case "tail":
		return of + ", part of the silence in the slowest 5 %"
	case "turns", "attempts":
		return head + " " + of
	case "tokens":
		return "tokens of discarded attempts"
	}
	for _, info := range report.Metrics {
		if strings.TrimSuffix(info.Key, "_ns") == head {
			what := map[string]string{"first": "first turns", "later": "later turns", "p50": "P50", "p95": "P95", "p99": "P99"}
			return info.Title + ", " + cmp.Or(what[of], of)
		}
	}
	return name
}

// failedTurns returns how many turns failed or got no answer.
func failedTurns(r *report.Report) int64 {
	n := int64(0)
	for _, o := range r.Outcomes {
		if strings.HasPrefix(o.Outcome, "failed") || o.Outcome == string(report.OutcomeNoReply) {
			n += o.Turns
		}
	}
	return n
}

// A verdict says whether a lesson's symptom is in its runs.
type verdict struct {
	lesson *lesson
	runs   []*lessonRun // the scenario's own, then those of the cures
	checks []lessonCheck
}

// A lessonCheck is an inequality and what became of it.
type lessonCheck struct {
	Expected string `json:"expected"`
	Cure     string `json:"cure"`
	Scenario string `json:"scenario_has"`
	Cured    string `json:"cure_has"`
	Found    bool   `json:"found"`
}

// judge runs the lesson and its cures with the settings, all with the same draws.
func judge(ctx context.Context, l *lesson, settings ...string) (*verdict, error) {
	v := &verdict{lesson: l}
	for _, c := range append([]cure{{}}, l.cures...) {
		run, err := playLesson(ctx, l, slices.Concat(settings, c.settings)...)
		if err != nil {
			return nil, err
		}
		v.runs = append(v.runs, run)
	}
	for _, e := range l.expects {
		for i, c := range l.cures {
			if e.only != "" && e.only != c.name {
				continue
			}
			sick, err := v.runs[0].figure(e.figure)
			if err != nil {
				return nil, err
			}
			well, err := v.runs[i+1].figure(e.than)
			if err != nil {
				return nil, err
			}
			found := sick.value != nil && well.value != nil && e.holds(float64(*sick.value), float64(*well.value))
			v.checks = append(v.checks, lessonCheck{e.text, c.name, sick.String(), well.String(), found})
		}
	}
	return v, nil
}

// found says whether every inequality holds.
func (v *verdict) found() bool {
	return !slices.ContainsFunc(v.checks, func(c lessonCheck) bool { return !c.Found })
}

// scenariosCmd is the command scenarios with its flags.
type scenariosCmd struct {
	streams
	yaml bool
	json bool
	seed uint64
}

func newScenariosCmd(s streams) *cobra.Command {
	c := &scenariosCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "scenarios [NAME]",
		Short: "Learn what goes wrong: ready scenarios with their symptom and cure",
		Long: `Scenarios lists ready scenarios, each of which shows one thing that makes an
agent slow. With the name of one it says what you see, why, and what to do; runs
it as it is and once with each cure, with the same draws; and sets the figures
that matter side by side. Its verdict says whether the symptom that is expected
was found: if not, the exit code is 1.`,
		Example: `  firstsound scenarios                                list them
  firstsound scenarios connection-per-request         explain and run one
  firstsound scenarios batch-window --seed 7          with other draws
  firstsound scenarios batch-window --yaml > my.yaml  change it, then: firstsound run my.yaml`,
		Args: atMost(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenario.Library(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if c.yaml || cmd.Flags().Changed("seed") {
					return usagef("--yaml and --seed are about one scenario: name it; firstsound scenarios lists them")
				}
				return c.list()
			}
			var settings []string
			if cmd.Flags().Changed("seed") {
				settings = append(settings, "seed="+strconv.FormatUint(c.seed, 10))
			}
			return c.one(cmd.Context(), args[0], settings)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&c.yaml, "yaml", false, "print the scenario instead of running it")
	f.Uint64Var(&c.seed, "seed", 1, "seed of everything random (`N`)")
	f.BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

// list writes a line for each scenario, under its pitfall.
func (c *scenariosCmd) list() error {
	all, err := lessons()
	if err != nil {
		return err
	}
	if c.json {
		return writeIndented(c.out, struct {
			Format    string    `json:"format"`
			Scenarios []*lesson `json:"scenarios"`
		}{"firstsound.scenarios/1", all})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PITFALL\tSCENARIO\tWHAT YOU SEE THERE")
	before := ""
	for _, l := range all {
		shown := ""
		if l.Pitfall != before {
			before, shown = l.Pitfall, l.Pitfall
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", shown, l.Name, l.Title)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "\nExplain and run one: firstsound scenarios %s\n", all[0].Name)
	return err
}

// one explains and runs one scenario, or prints it.
func (c *scenariosCmd) one(ctx context.Context, name string, settings []string) error {
	yaml, ok := scenario.LibraryYAML(name)
	if !ok {
		if near := scenario.Nearest(name, scenario.Library()); near != "" {
			return usagef("there is no ready scenario %q; did you mean %s?", name, near)
		}
		return usagef("there is no ready scenario %q; there are %s", name, strings.Join(scenario.Library(), ", "))
	}
	if c.yaml {
		if c.json || len(settings) > 0 {
			return usagef("--yaml prints the scenario as it is, and goes with no other flag")
		}
		_, err := io.WriteString(c.out, yaml)
		return err
	}
	l, err := readLesson(name, yaml)
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as run does
	v, err := judge(ctx, l, settings...)
	if err != nil {
		return err
	}
	if c.json {
		err = v.writeJSON(c.out)
	} else {
		err = v.writeText(c.out)
	}
	if err == nil && !v.found() {
		err = errors.New("scenarios: the expected symptom of " + name + " was not found: see the lines that say so; with few turns another seed may miss it")
	}
	return err
}

// writeJSON writes the verdict for programs.
func (v *verdict) writeJSON(w io.Writer) error {
	type run struct {
		Name     string            `json:"name"` // scenario, or the cure's
		Settings []string          `json:"settings,omitempty"`
		Figures  map[string]*int64 `json:"figures"` // times in nanoseconds
	}
	var runs []run
	for i, r := range v.runs {
		one := run{Name: "scenario", Figures: map[string]*int64{}}
		if i > 0 {
			one.Name, one.Settings = v.lesson.cures[i-1].name, v.lesson.cures[i-1].settings
		}
		for _, name := range v.lesson.figures {
			f, err := r.figure(name)
			if err != nil {
				return err
			}
			one.Figures[name] = f.value
		}
		runs = append(runs, one)
	}
	return writeIndented(w, struct {
		Format string `json:"format"`
		*lesson
		Seed   uint64        `json:"seed"`
		Runs   []run         `json:"runs"`
		Checks []lessonCheck `json:"checks"`
		Found  bool          `json:"found"`
	}{"firstsound.scenario/1", v.lesson, v.runs[0].report.Run.Seed, runs, v.checks, v.found()})
}

// writeIndented writes v as indented JSON.
func writeIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeText writes the verdict for people.
func (v *verdict) writeText(w io.Writer) error {
	l := v.lesson
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", l.Name, l.Title)
	fmt.Fprintf(&b, "an example of the pitfall: %s\n", l.Pitfall)
	for _, p := range []struct{ head, text string }{{"What you see", l.See}, {"Why", l.Why}, {"What to do", l.Do}} {
		fmt.Fprintf(&b, "\n%s\n%s", p.head, wrap(p.text, 84, "  "))
	}
	b.WriteString("\nThe scenario and its cures  with the same draws\n")
	for _, c := range l.cures {
		var flags []string
		for _, s := range c.settings {
			flags = append(flags, "--set "+shellQuote(s))
		}
		fmt.Fprintf(&b, "  %s: %s\n", c.name, strings.Join(flags, " "))
	}
	b.WriteByte('\n')
	rows := [][]string{{"", "scenario"}}
	for _, c := range l.cures {
		rows[0] = append(rows[0], c.name)
	}
	for _, name := range l.figures {
		row := []string{figureTitle(name)}
		for _, r := range v.runs {
			f, err := r.figure(name)
			if err != nil {
				return err
			}
			row = append(row, f.String())
		}
		rows = append(rows, row)
	}
	writeTable(&b, rows)
	b.WriteString("\nThe symptom, against each cure\n")
	for _, c := range v.checks {
		word := "found    "
		if !c.Found {
			word = "NOT FOUND"
		}
		fmt.Fprintf(&b, "  %s  %s: %s; %s against %s\n", word, c.Cure, c.Expected, c.Scenario, c.Cured)
	}
	word := "found"
	if !v.found() {
		word = "not found"
	}
	fmt.Fprintf(&b, "\nVerdict: the symptom was %s.\n", word)
	fmt.Fprintf(&b, "Change it: firstsound scenarios %s --yaml > %[1]s.yaml, then firstsound run %[1]s.yaml\n", l.Name)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes rows with the first column to the left and the others to the
// right.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for k, field := range row {
			widths[k] = max(widths[k], len([]rune(field)))
		}
	}
	for _, row := range rows {
		for k, field := range row {
			pad := strings.Repeat(" ", widths[k]-len([]rune(field)))
			if k == 0 {
				b.WriteString("  " + field + pad)
			} else {
				b.WriteString("  " + pad + field)
			}
		}
		b.WriteByte('\n')
	}
}
