package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"firstsound/llm/diagnosis"
)

func newChecklistCmd(s streams) *cobra.Command {
	var asJSON, gate bool
	cmd := &cobra.Command{
		Use:   "checklist RUN",
		Short: "Fill in the release checklist from a run's own records",
		Long: `Checklist reads a run of "firstsound bench llm --out" or "firstsound run --out" and
answers ten questions that a figure must stand up to before it is released, each
passed, failed or not known, with the evidence from the run's own records:

   1  warm-up of at least 5 requests
   2  model, prompt length, max_tokens and temperature recorded
   3  streaming everywhere, and no layer that buffers
   4  TTFT, TPOT, total time and output length measured apart
   5  P50, P95 and P99 (130 requests hold P95, 662 hold P99)
   6  the tester's place and network recorded
   7  real prompts, not "hello"
   8  one request at a time and several at once
   9  the client ruled out as the bottleneck
  10  cross-checked with the server's own times`,
		Example: `  firstsound checklist results
  firstsound checklist results --gate    exit code 1 if a point failed, or the run is not complete
  firstsound checklist results --json`,
		Args: oneRun,
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := openMeasured(args[0])
			if err != nil {
				return err
			}
			points := diagnosis.Checklist(m.run, m.attempts, m.samples, diagnosis.Find(m.run, m.attempts, m.samples))
			if asJSON {
				err = writeIndented(s.out, struct {
					Format   string            `json:"format"`
					Warnings []string          `json:"warnings,omitempty"`
					Points   []diagnosis.Point `json:"points"`
				}{"firstsound.checklist/1", m.warnings, points})
			} else {
				m.warn(s)
				err = diagnosis.WritePoints(s.out, points, diagnoseWidth)
			}
			if err != nil || !gate {
				return err
			}
			if err := wholeRun(m.run); err != nil {
				return err
			}
			if n := diagnosis.FailedPoints(points); n > 0 {
				return fmt.Errorf("gate: %s of the checklist failed", plural(n, "point"))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&gate, "gate", false, "exit code 1 if a point failed, or the run is not complete")
	return cmd
}
