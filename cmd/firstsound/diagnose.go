package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"firstsound/llm/diagnosis"
	"firstsound/llm/record"
)

// diagnoseWidth is how wide the text of diagnose and checklist is.
const diagnoseWidth = 100

// A measuredRun is a run's requests to the language model, from either kind of
// run folder.
type measuredRun struct {
	run      record.Run
	attempts []*record.Attempt
	samples  []record.Sample
	warnings []string
	calls    bool // from the events of the whole pipeline
}

// openMeasured reads the run at path: a folder of bench llm, or one of run (or a
// file of its events).
func openMeasured(path string) (*measuredRun, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, usagef("%s: there is no such run", path)
	}
	dir, ok := isLLMFolder(path)
	if !ok {
		return readCalls(path)
	}
	d, err := openLLMFolder(dir)
	if err != nil {
		return nil, err
	}
	m := &measuredRun{run: d.run, samples: d.samples}
	if err := d.attempts(func(a *record.Attempt) { m.attempts = append(m.attempts, a) }); err != nil {
		return nil, err
	}
	m.warnings = d.warnings
	return m, nil
}

// warn writes the warnings of reading to the error stream.
func (m *measuredRun) warn(s streams) {
	for _, w := range m.warnings {
		fmt.Fprintf(s.err, "warning: %s\n", w)
	}
}

// oneRun accepts one run folder as the argument.
func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s takes one run folder: %s", cmd.Name(), cmd.UseLine())
	}
	return nil
}

// wholeRun returns an error if the run is not complete: no gate passes on a part
// of what was to be measured.
func wholeRun(run record.Run) error {
	if how := incomplete(run); how != "" {
		return fmt.Errorf("gate: not decided: %s", how)
	}
	return nil
}

// ruleList returns the verdicts with their titles, a line each.
func ruleList() string {
	var b strings.Builder
	for _, r := range diagnosis.Rules() {
		fmt.Fprintf(&b, "  %-24s %-6s %s\n", r.Name, r.Severity, r.Title)
	}
	return b.String()
}

func newDiagnoseCmd(s streams) *cobra.Command {
	var asJSON, gate, rules bool
	cmd := &cobra.Command{
		Use:   "diagnose RUN",
		Short: "Name what makes the first token late, with evidence",
		Long: `Diagnose reads a run of "firstsound bench llm --out" or "firstsound run --out" and
says what is wrong with the service, the way to it, or the client: named verdicts,
each with the numbers that it rests on, how sure it is and why, how much of the
time to the first token it explains, and what to do. Each rule has a statistical
test of its own; a healthy run has no verdict (under 2 in 100 have one by chance).

The verdicts (fault: to be repaired; note: to be known when reading the figures):
` + ruleList() + `
Of a run of the whole pipeline only the marks of each request are kept. What needs
the events of an answer, more of its connection, or levels of load cannot be found
there: bursts, filters, fake streaming, compression, the 40 ms, HTTP/2, start-up
waves, the rise with concurrency. An answer that came whole shows as
proxy_buffering, load as queueing if the server tells its queue, and a wait for a
connection that grows with load as client_limit.`,
		Example: `  firstsound diagnose results
  firstsound diagnose results --json
  firstsound diagnose results --gate    exit code 1 if a fault is found, or the run is not complete
  firstsound diagnose --rules           what each rule needs and tests`,
		Args: func(cmd *cobra.Command, args []string) error {
			if rules && len(args) == 0 {
				return nil
			}
			return oneRun(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if rules {
				return writeRules(s, asJSON)
			}
			m, err := openMeasured(args[0])
			if err != nil {
				return err
			}
			verdicts := diagnosis.Find(m.run, m.attempts, m.samples)
			if asJSON {
				if verdicts == nil {
					verdicts = []diagnosis.Verdict{}
				}
				err = writeIndented(s.out, struct {
					Format   string              `json:"format"`
					Requests int                 `json:"requests"`
					Warnings []string            `json:"warnings,omitempty"`
					Verdicts []diagnosis.Verdict `json:"verdicts"`
				}{"firstsound.diagnosis/1", len(m.attempts), m.warnings, verdicts})
			} else {
				m.warn(s)
				fmt.Fprintf(s.out, "%s\n\n", plural(len(m.attempts), "request"))
				err = diagnosis.WriteText(s.out, verdicts, diagnoseWidth)
			}
			if err != nil || !gate {
				return err
			}
			if err := wholeRun(m.run); err != nil {
				return err
			}
			if n := diagnosis.Faults(verdicts); n > 0 {
				return fmt.Errorf("gate: %s found", plural(n, "fault"))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&gate, "gate", false, "exit code 1 if a fault is found, or the run is not complete")
	f.BoolVar(&rules, "rules", false, "explain the rules: what each needs and tests")
	return cmd
}

// plural writes a count and a word.
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// writeRules explains the rules.
func writeRules(s streams, asJSON bool) error {
	rules := diagnosis.Rules()
	if asJSON {
		var out []map[string]string
		for _, r := range rules {
			out = append(out, map[string]string{"name": r.Name, "title": r.Title, "severity": string(r.Severity), "needs": r.Needs, "test": r.Test, "advice": r.Advice})
		}
		return writeIndented(s.out, struct {
			Format string              `json:"format"`
			Rules  []map[string]string `json:"rules"`
		}{"firstsound.rules/1", out})
	}
	for i, r := range rules {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		fmt.Fprintf(s.out, "%s (%s)\n%s%s%s%s", r.Name, r.Severity, wrap(r.Title+".", diagnoseWidth, "  "),
			wrap("Needs: "+r.Needs+".", diagnoseWidth, "  "), wrap("Found if: "+r.Test+".", diagnoseWidth, "  "), wrap("What to do: "+r.Advice, diagnoseWidth, "  "))
	}
	return nil
}
