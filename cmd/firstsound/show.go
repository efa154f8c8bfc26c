package main

import (
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// A showCmd is the command show with its flags. Those of a run of the whole
// pipeline and those of a benchmark share their names where they mean the same.
type showCmd struct {
	streams
	view
	bench   benchView // goodput, targets and gates of either kind
	logs    serverLogs
	against string
	reads   bool
}

// The flags that only one kind of run has.
var (
	pipelineFlags = []string{"turn", "what-if", "strict"}
	benchFlags    = []string{"goodput", "server-log", "server-log-format", "server-log-map", "against", "reads"}
)

func newShowCmd(s streams) *cobra.Command {
	c := &showCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show the report of a run that was kept",
		Long: `Show reads what "firstsound run --out FOLDER" has written, or an events.jsonl from
any other program, and shows the same report from the files alone. docs/results.md
says what is in them.

Of a folder of "firstsound bench llm --out FOLDER" it shows the report of the
benchmark. A log of the server that was fetched later is joined by --server-log,
and stays joined. --against holds the run against another one, and names the
fixed variables in which they differ. --reads analyses the answers again from the
bytes that --keep-reads has kept, and says where that differs from the record.`,
		Example: `  firstsound show results
  firstsound show results --turn slowest
  firstsound show results/events.jsonl --json
  firstsound show results --target 800ms --gate p95

  firstsound show bench1 --goodput ttft:300 --gate 'ttft.p95<400ms'
  firstsound show bench1 --server-log vllm.log
  firstsound show bench2 --against bench1
  firstsound show bench1 --reads`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("show takes one run folder, or one file of events")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err != nil {
				return usagef("%s: there is no such run", args[0])
			}
			c.bench.json, c.bench.width, c.bench.color = c.json, c.width, c.color
			if dir, ok := isLLMFolder(args[0]); ok {
				if err := onlyOf(cmd.Flags(), pipelineFlags, "of a run of the whole pipeline, and this is one of bench llm"); err != nil {
					return err
				}
				return c.showBench(dir)
			}
			if err := onlyOf(cmd.Flags(), benchFlags, "of a run of bench llm, and this is none"); err != nil {
				return err
			}
			return c.showPipeline(args[0])
		},
	}
	f := cmd.Flags()
	c.looks(cmd)
	f.StringArrayVar(&c.bench.targets, "target", nil, "what the time to first sound is held against (`TIME`; the scenario's own if\nnot given); of a benchmark, a limit of yours such as 'ttft.p50<300ms'")
	f.StringArrayVar(&c.bench.gates, "gate", nil, "exit 1 if this `QUANTILE` (p50, p95, p99; no answer counts as late) is above\nthe target; of a benchmark, if this does not hold, such as 'ttft.p95<400ms'")
	c.bench.goodputFlag(f)
	c.logs.flags(f)
	f.StringVar(&c.against, "against", "", "compare with this `RUN` of bench llm: how much worse or better is the one shown")
	f.BoolVar(&c.reads, "reads", false, "analyse again what --keep-reads has kept, and say what differs")
	return cmd
}

// onlyOf refuses flags that were given and mean nothing here.
func onlyOf(f *pflag.FlagSet, names []string, why string) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		if slices.Contains(names, flag.Name) {
			err = usagef("--%s is %s", flag.Name, why)
		}
	})
	return err
}

// showPipeline shows a run of the whole pipeline.
func (c *showCmd) showPipeline(path string) error {
	if len(c.bench.gates) > 1 || len(c.bench.targets) > 1 {
		return usagef("there is one --target and one --gate of a run of the whole pipeline")
	}
	for _, gate := range c.bench.gates {
		c.gate = gate
	}
	if err := c.view.check(); err != nil {
		return err
	}
	src, err := report.Open(path)
	if err != nil {
		return err
	}
	target, source := recordedTarget(src.Info.Scenario)
	for _, text := range c.bench.targets {
		if target, err = time.ParseDuration(text); err != nil {
			return usagef("--target takes a time such as 800ms, not %q", text)
		}
		source = "--target"
	}
	if err := c.checkTarget(target); err != nil {
		return err
	}
	r, err := report.Read(path, c.view.options(target, source, src.Info.Seed))
	if err != nil {
		return err
	}
	return c.view.show(r, c.streams)
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
