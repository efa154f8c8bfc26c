package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"firstsound/pipeline/report/cases"
)

// A fieldCase is a report from the field with a known right answer.
type fieldCase struct {
	number, source, story, right string
	checks                       []check
}

// A check is one way to ask for the answer.
type check struct {
	form string // events, played, or what it is about
	run  func() (got, want string, err error)
}

// fieldCases returns all cases in the order of their numbers. A case may be there
// as events of another program, where the report has to find the causes by
// itself, and played through the pipeline: either can go wrong alone.
func fieldCases() []fieldCase {
	var out []fieldCase
	add := func(c fieldCase) {
		if i := slices.IndexFunc(out, func(o fieldCase) bool { return o.number == c.number }); i >= 0 {
			out[i].checks = append(out[i].checks, c.checks...)
			return
		}
		out = append(out, c)
	}
	for _, c := range cases.Cases() {
		add(fieldCase{c.Number, c.Source, c.Story, c.Right, []check{{"events", c.Check}}})
	}
	for _, c := range playedCases() {
		add(fieldCase{c.number, c.source, c.story, c.right, []check{{"played", c.check}}})
	}
	add(fieldCase{number: "47", checks: []check{{"resampler", resampled}}})
	slices.SortFunc(out, func(a, b fieldCase) int { return cmp.Compare(rank(a.number), rank(b.number)) })
	return out
}

// rank puts plain numbers before the faults of sources (S) and of marks (F).
func rank(number string) int {
	plain := strings.TrimLeft(number, "SF")
	n, _ := strconv.Atoi(plain)
	switch {
	case plain == number:
		return n
	case number[0] == 'S':
		return 1000 + n
	}
	return 2000 + n
}

// A caseResult is what became of a case: an element of the JSON output.
type caseResult struct {
	Number string        `json:"number"`
	Source string        `json:"source"`
	Story  string        `json:"story"`
	Right  string        `json:"right"`
	OK     bool          `json:"ok"`
	Checks []checkResult `json:"checks"`
}

// A checkResult is what became of one check of a case.
type checkResult struct {
	Form  string `json:"form"`
	OK    bool   `json:"ok"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	Error string `json:"error,omitempty"`
}

// run checks the case.
func (c *fieldCase) run() caseResult {
	r := caseResult{Number: c.number, Source: c.source, Story: c.story, Right: c.right, OK: true}
	for _, check := range c.checks {
		got, want, err := check.run()
		one := checkResult{Form: check.form, OK: err == nil && got == want, Want: want, Got: got}
		if err != nil {
			one.Error = err.Error()
		}
		r.OK = r.OK && one.OK
		r.Checks = append(r.Checks, one)
	}
	return r
}

func newSelftestCmd(s streams) *cobra.Command {
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Check the measuring against cases from the field with known answers",
		Long: `Selftest goes through small cases, each a public report of how a voice agent's
latency was measured wrongly, and compares what firstsound says with the right
value, to the nanosecond. Some are lists of events for the report, others are
scenarios that are played through the whole pipeline on the virtual clock; many
are both.`,
		Example: `  firstsound selftest             a line for each case
  firstsound selftest --verbose   what went wrong in the field, and the whole right answer`,
		Args: atMost(0),
		RunE: func(*cobra.Command, []string) error {
			var results []caseResult
			failed := 0
			for _, c := range fieldCases() {
				r := c.run()
				if !r.OK {
					failed++
				}
				results = append(results, r)
			}
			var err error
			if asJSON {
				err = writeCasesJSON(s.out, results, failed)
			} else {
				_, err = io.WriteString(s.out, caseTable(results, failed, verbose))
			}
			if err == nil && failed > 0 {
				err = fmt.Errorf("selftest: %d of %d cases failed", failed, len(results))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&verbose, "verbose", false, "say of each case what went wrong in the field, and the whole right answer")
	f.BoolVar(&asJSON, "json", false, "print the cases as JSON")
	return cmd
}

func writeCasesJSON(w io.Writer, results []caseResult, failed int) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Passed int          `json:"passed"`
		Failed int          `json:"failed"`
		Cases  []caseResult `json:"cases"`
	}{len(results) - failed, failed, results})
}

// caseTable writes the results: a line for each case that is ok, and all of those
// that are not.
func caseTable(results []caseResult, failed int, verbose bool) string {
	var b strings.Builder
	for _, r := range results {
		if r.OK && !verbose {
			source, _, _ := strings.Cut(r.Source, ", ") // the first report tells it
			fmt.Fprintf(&b, "ok  %-3s  %-33s  %s\n", r.Number, source, r.Right)
			continue
		}
		verdict := "ok"
		if !r.OK {
			verdict = "FAILED"
		}
		fmt.Fprintf(&b, "%s  %-3s  %s\n", verdict, r.Number, r.Source)
		fmt.Fprintf(&b, "    wrong: %s\n    right: %s\n", r.Story, r.Right)
		for _, c := range r.Checks {
			if !c.OK || verbose {
				c.write(&b)
			}
		}
	}
	fmt.Fprintf(&b, "%d cases, %d failed\n", len(results), failed)
	return b.String()
}

// write writes the check, each setup of a played case on a line of its own.
func (c *checkResult) write(b *strings.Builder) {
	head := c.Form
	if !c.OK {
		head += " must be"
	}
	answer(b, head, c.Want)
	if !c.OK {
		answer(b, "but is", c.Got)
	}
	if c.Error != "" {
		answer(b, "error", c.Error)
	}
}

func answer(b *strings.Builder, head, text string) {
	fmt.Fprintf(b, "    %s:\n", head)
	for line := range strings.SplitSeq(text, setupSeparator) {
		fmt.Fprintf(b, "      %s\n", line)
	}
}
