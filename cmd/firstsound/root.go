package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstsound/pipeline/scenario"
)

// The exit codes of the program.
const (
	exitOK     = 0
	exitFailed = 1 // something went wrong
	exitUsage  = 2 // the command line, or what it names to be run, is wrong
)

// streams are what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	tty      bool                // out is a terminal
	progress bool                // err is a terminal: somebody waits in front of it
	env      func(string) string // looks up an environment variable
}

// isTerminal says whether f is a terminal, as far as the standard library can
// tell: a character device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A usageError is a mistake on the command line.
type usageError struct{ error }

// Unwrap returns the error itself.
func (e usageError) Unwrap() error { return e.error }

// usagef returns a usageError.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// run runs the program with the arguments args and returns its exit code. The
// first interrupt ends the command's context; the next one ends the program.
func run(args []string, io streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	out := &output{Writer: io.out}
	io.out = out
	root := newRoot(io)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(io.err, "firstsound: %v\n", err)
	if !errors.As(err, new(usageError)) {
		return exitFailed
	}
	var wrong *scenario.Error
	if !errors.As(err, &wrong) || wrong.Setting() {
		fmt.Fprintf(io.err, "Try %q.\n", cmd.CommandPath()+" --help")
	}
	return exitUsage
}

// An output remembers the first error of writing to it: a command that prints
// line by line need not look.
type output struct {
	io.Writer
	err error
}

// Write writes p.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// newRoot returns the command that has all the others.
func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "firstsound",
		Short: "Explain the silence before a voice agent's answer",
		Long: `Firstsound replays recorded utterances through the stages of a voice agent
(speech recognition, turn detection, agent, language model, speech synthesis,
network, playout) and shows where the silence between the user's last word and
the first sound of the answer comes from. The stages are models or services; the
clock is virtual (hundreds of turns in a blink, the same every time) or real.`,
		Example: `  firstsound run                        the built-in scenario: no file, no network, no key
  firstsound run --set vad.stop=500ms   the same with one setting changed
  firstsound init                       write scenario.yaml, with every setting explained
  firstsound run scenario.yaml          run it after your changes
  firstsound list                       stages, providers and their options`,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newRunCmd(io), newProbeCmd(io), newBenchCmd(io), newMockCmd(io), newDiagnoseCmd(io), newChecklistCmd(io),
		newShowCmd(io), newSweepCmd(io), newCapacityCmd(io), newScenariosCmd(io), newReplayCmd(io), newSelftestCmd(io),
		newServeCmd(io), newCallCmd(io), newClientReportCmd(io), newImpairCmd(io), newInitCmd(io), newListCmd(io), newEnginesCmd(io), newVersionCmd(io),
	)
	root.SetHelpCommand(newHelpCmd(root))
	root.SetHelpTemplate(strings.TrimLeft(helpTemplate, "\n"))
	return root
}

const helpTemplate = `
{{or .Long .Short}}

Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{if .HasAvailableSubCommands}}
Commands:
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
Exit codes: 0 all is well, 1 something failed, 2 the command line or the scenario is wrong.
More about a command: {{.CommandPath}} COMMAND --help
{{end}}`

// unknownCommand refuses a word that is no command.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := scenario.Nearest(args[0], names); near != "" {
		return usagef("there is no command %q; did you mean %s?", args[0], near)
	}
	if strings.HasSuffix(args[0], ".yaml") || strings.HasSuffix(args[0], ".yml") {
		return usagef("there is no command %q; to run a scenario: firstsound run %[1]s", args[0])
	}
	return usagef("there is no command %q", args[0])
}

// flagError makes a mistake in a flag a usageError, and names the flag that was
// probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		name, names := unknown.GetSpecifiedName(), []string{}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := scenario.Nearest(name, names); near != "" {
			return usagef("there is no flag --%s; did you mean --%s?", name, near)
		}
		return usagef("there is no flag --%s", name)
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f := invalid.GetFlag()
		if want := map[string]string{"int": "a whole number", "duration": "a time such as 800ms", "bool": "true or false"}[f.Value.Type()]; want != "" {
			return usagef("--%s takes %s, not %q", f.Name, want, invalid.GetValue())
		}
	}
	return usageError{err}
}

// atMost accepts up to n arguments and says so otherwise.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		if n == 0 {
			return usagef("%s takes no arguments, and there is %q", cmd.Name(), args[0])
		}
		return usagef("%q is one argument too many: %s", args[n], cmd.UseLine())
	}
}

// newHelpCmd returns a help command that refuses what it does not know.
func newHelpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return unknownCommand(root, rest)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
