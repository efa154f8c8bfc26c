package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"firstsound/pipeline/scenario"
)

//go:embed local-chain.yaml
var localChainYAML string

// newInitCmd returns the command that writes the default scenario for the user
// to change.
func newInitCmd(io streams) *cobra.Command {
	var force, local bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a scenario file with every setting explained",
		Long: `Init writes the default scenario with all its comments to FILE: scenario.yaml if
you do not name one, the standard output if it is "-". Change what you like and
delete the rest: what is not in the file is as in the default scenario.

--local writes local-chain.yaml: a whole real chain on one computer, without a key.`,
		Example: `  firstsound init                     write scenario.yaml
  firstsound init wifi.yaml           write wifi.yaml
  firstsound init - | less            read it without writing a file
  firstsound init --local             write local-chain.yaml: PocketSphinx, your model, Flite`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name, text := "scenario.yaml", scenario.DefaultYAML()
			if local {
				name, text = "local-chain.yaml", localChainYAML
			}
			if len(args) > 0 {
				name = args[0]
			}
			if name == "" {
				return usagef("init takes the name of a file, or - for the output")
			}
			if name == "-" {
				_, err := fmt.Fprint(io.out, text)
				return err
			}
			if err := writeScenario(name, text, force); err != nil {
				return err
			}
			first := ""
			if local {
				first = "start its model (firstsound mock llm --listen 127.0.0.1:8010), "
			}
			_, err := fmt.Fprintf(io.out, "Wrote %s. Change it, %sthen: firstsound run %[1]s\n", name, first)
			return err
		},
	}
	cmd.Flags().BoolVar(&local, "local", false, "write the scenario of a real chain on this computer")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file if there is one")
	return cmd
}

// writeScenario writes a scenario to a file that is not there yet, or in place of
// the one that is if force says so.
func writeScenario(name, text string, force bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(name, mode, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("init: there is a %s already: name another file, or overwrite it with --force", name)
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	return nil
}
