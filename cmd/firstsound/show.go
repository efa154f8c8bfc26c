package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

func newShowCmd(s streams) *cobra.Command {
	var v view
	var target time.Duration
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show the report of a run that was kept",
		Long: `Show reads what "firstsound run --out FOLDER" has written, or an events.jsonl from
any other program, and shows the same report from the files alone. docs/results.md
says what is in them.`,
		Example: `  firstsound show results
  firstsound show results --turn slowest
  firstsound show results/events.jsonl --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("show takes one run folder, or one file of events")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(); err != nil {
				return err
			}
			if _, err := os.Stat(args[0]); err != nil {
				return usagef("%s: there is no such run", args[0])
			}
			src, err := report.Open(args[0])
			if err != nil {
				return err
			}
			source := "--target"
			if !cmd.Flags().Changed("target") {
				target, source = recordedTarget(src.Info.Scenario)
			}
			if err := v.checkTarget(target); err != nil {
				return err
			}
			r, err := report.Read(args[0], v.options(target, source, src.Info.Seed))
			if err != nil {
				return err
			}
			return v.show(r, s)
		},
	}
	cmd.Flags().DurationVar(&target, "target", 0, "what the time to first sound is held against (`TIME`; the scenario's own if not given)")
	v.flags(cmd)
	return cmd
}

// recordedTarget returns the target of the scenario that is kept with a run; 0
// if there is none, or it cannot be read any more.
func recordedTarget(text string) (time.Duration, string) {
	if text == "" {
		return 0, ""
	}
	s, err := scenario.Load("run.json", []byte(text))
	if err != nil {
		return 0, ""
	}
	return s.Target, targetSource(s.Target)
}
