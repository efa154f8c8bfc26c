package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firstsound/pipeline/scenario"
)

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
