package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"firstsound/pipeline/report/cases"
)

func newSelftestCmd(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "selftest",
		Short: "Check the measuring against cases from the field with known answers",
		Long: `Selftest plays small cases, each a public report of how a voice agent's latency
was measured wrongly, and compares what firstsound says with the right value.`,
		Args: atMost(0),
		RunE: func(*cobra.Command, []string) error {
			failed := 0
			all := cases.Cases()
			for i := range all {
				c := &all[i]
				got, want, err := c.Check()
				verdict := "ok"
				if err != nil || got != want {
					verdict = "FAILED"
					failed++
				}
				fmt.Fprintf(s.out, "%-6s  %-4s %s\n        %s\n        right: %s\n", verdict, c.Number, c.Source, c.Story, want)
				if err != nil {
					fmt.Fprintf(s.out, "        error: %v\n", err)
				} else if got != want {
					fmt.Fprintf(s.out, "        got:   %s\n", got)
				}
			}
			fmt.Fprintf(s.out, "%d passed, %d failed\n", len(all)-failed, failed)
			if failed > 0 {
				return fmt.Errorf("selftest: %d of %d cases failed", failed, len(all))
			}
			return nil
		},
	}
}
