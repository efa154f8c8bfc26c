package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstsound/llm/llmsim"
	"firstsound/llm/serving"
	"firstsound/pipeline/scenario"
)

// replayCmd is the command replay with its flags.
type replayCmd struct {
	streams
	path   string
	format string
	server string
	limit  int
	seed   uint64
	json   bool
	made   maker
}

// serverFlags are the flags of replay that are keys of llm.server. They are texts:
// the scenario's reader says what is wrong with them.
var serverFlags = []struct{ flag, key, usage string }{
	{"gpu", "gpu", "the `CARD`: see firstsound list gpus (default h100-sxm)"},
	{"model", "model", "the `MODEL`: see firstsound list models (default llama-3.1-8b)"},
	{"tensor-parallel", "tensor_parallel", "`N` cards share the model (default 1)"},
	{"kv-blocks", "kv_blocks", "KV cache of `N` blocks of 16 tokens (default: from the card's memory)"},
	{"max-num-seqs", "max_num_seqs", "`N` requests at most run at once (default: vLLM's for the card)"},
	{"max-num-batched-tokens", "max_num_batched_tokens", "a step works on `N` tokens at most (default: vLLM's for the card)"},
	{"api", "api", "calibrate: the `TIME` of a request before it queues (default: the card's)"},
	{"c0", "c0", "calibrate: the `TIME` of every step besides the work (default: the card's)"},
}

func newReplayCmd(s streams) *cobra.Command {
	c := &replayCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Replay recorded requests through the model of an inference server, against what was measured",
		Long: `Replay sends the requests of a trace, at the times when they came, to the model of
an inference server (see docs/models.md), and sets the latencies that come out
against those that the trace says were measured: is the model right about your
server? Without measurements it shows what that server would do under that load.

TRACE is one of these, told apart by what is in it:
  vllm    JSON lines with input_toks, output_toks, queued_ts, and, if measured,
          first_token_ts and last_token_ts, in seconds
  azure   CSV with TIMESTAMP,ContextTokens,GeneratedTokens: Azure's LLM traces
  run     a folder that "firstsound run --out FOLDER" has written, or an events.jsonl
          from any other program: each attempt to ask the model is a request. Times
          count from llm_connected where it is told, since the server does not see
          the connection; the network's way there and back is part of --api

The table has a row for each figure: measured, simulated, the error (+10 % says
that the model is 10 % above), and whether the simulated figure lies inside the
interval that the measured one has by chance alone (95 %, bootstrap). A quantile
that so few values cannot bear, such as a P99 of fewer than 100, is left out. KS is the
largest distance of the two distribution functions, W1/mean the mean distance
between equal ranks. Describe your server as it was started: with the KV blocks,
max_num_seqs and max_num_batched_tokens that it printed. If the figures are off by
a constant, turn --api (TTFT) and --c0 (TPOT), and nothing else.`,
		Example: `  firstsound replay traces/RTX4090_Llama-3.1-8B.requests.jsonl --gpu rtx-4090 --kv-blocks 2588 \
      --max-num-seqs 256 --max-num-batched-tokens 2048
  firstsound replay AzureLLMInferenceTrace_conv.csv --limit 5000 --gpu l4 --model qwen2.5-7b
  firstsound run --set "llm.server={gpu: h100-sxm}" --out results
  firstsound replay results --c0 1ms --json
  firstsound replay trace.jsonl --server '{replicas: 2, routing: least-loaded}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("replay takes one trace: a file, or a run folder")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.path, c.made = args[0], made(cmd, args, scenario.Virtual)
			return c.run(cmd.Context(), cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	for _, s := range serverFlags {
		f.String(s.flag, "", s.usage)
	}
	f.Bool("no-prefix-cache", false, "compute every prompt anew")
	f.StringVar(&c.server, "server", "", "the whole server as `YAML`, as llm.server of a scenario has it")
	f.StringVar(&c.format, "format", "auto", "the `FORMAT` of the trace: auto, vllm, azure or run")
	f.IntVar(&c.limit, "limit", 0, "replay the first `N` requests only (0: all)")
	f.Uint64Var(&c.seed, "seed", 1, "the `N` that the bootstrap draws with, and a neighbour")
	f.BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

// options returns the server that the flags describe.
func (c *replayCmd) options(flags *pflag.FlagSet) (*llmsim.Server, serving.FleetOptions, error) {
	fail := func(err error) (*llmsim.Server, serving.FleetOptions, error) {
		return nil, serving.FleetOptions{}, usageError{err}
	}
	const key = "llm.server"
	whole := c.server
	if !flags.Changed("server") {
		whole = "{}"
	}
	settings := []string{"llm.provider=sim", key + "=" + whole}
	for _, s := range serverFlags {
		if v := flags.Lookup(s.flag); v.Changed {
			settings = append(settings, key+"."+s.key+"="+v.Value.String())
		}
	}
	if v := flags.Lookup("no-prefix-cache"); v.Changed {
		settings = append(settings, key+".no_prefix_cache="+v.Value.String())
	}
	said := func(err error) error { // a mistake in the words of this command's flags
		var wrong *scenario.Error
		if !errors.As(err, &wrong) {
			return err
		}
		setting, isSetting := strings.CutPrefix(wrong.Source, "--set "+key)
		at := strings.TrimPrefix(strings.TrimPrefix(wrong.Key, key), ".")
		if !isSetting {
			return fmt.Errorf("server: %s", wrong.Problem)
		}
		if value, ok := strings.CutPrefix(setting, "="); ok {
			if at != "" {
				at += ": "
			}
			return fmt.Errorf("--server %s: %s%s", value, at, wrong.Problem)
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(setting, "."), "=")
		return fmt.Errorf("--%s %s: %s", strings.ReplaceAll(name, "_", "-"), value, wrong.Problem)
	}
	s, err := scenario.Load("", nil, settings...)
	if err != nil {
		return fail(said(err))
	}
	o := llmsim.Defaults()
	if err := s.LLM.Decode(&o); err != nil {
		return fail(said(err))
	}
	switch {
	case o.Server == nil:
		return fail(fmt.Errorf("--server %s: a mapping is expected, such as {gpu: l4}", whole))
	case o.Server.Card != nil && flags.Changed("gpu"):
		return fail(fmt.Errorf("--gpu and a card in --server: one of them says what the card is"))
	case o.Server.Shape != nil && flags.Changed("model"):
		return fail(fmt.Errorf("--model and a shape in --server: one of them says what the model is"))
	}
	fo, err := o.Server.Fleet()
	if err != nil {
		return fail(err)
	}
	return o.Server, fo, nil
}

func (c *replayCmd) run(ctx context.Context, flags *pflag.FlagSet) error {
	if c.limit < 0 {
		return usagef("--limit takes 0 or more, not %d", c.limit)
	}
	switch c.format {
	case "auto", "vllm", "azure", "run":
	default:
		return usagef("--format takes auto, vllm, azure or run, not %q", c.format)
	}
	server, fo, err := c.options(flags)
	if err != nil {
		return err
	}
	t, err := readTrace(ctx, c.path, c.format)
	if err != nil {
		return err
	}
	if c.limit > 0 && c.limit < len(t.asked) {
		t.asked = t.asked[:c.limit]
	}
	if len(t.asked) == 0 {
		return fmt.Errorf("%s has no request that could be replayed%s", c.path, t.omitted())
	}
	p := &player{trace: t, fleet: fo, neighbour: server.Neighbour, seed: c.seed, progress: newCounter(c.streams, len(t.asked), "requests")}
	err = p.play(ctx)
	p.progress.done()
	if err != nil {
		return err
	}
	r, err := p.result(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return writeIndented(c.out, signed{c.made, r})
	}
	return r.print(c.out)
}
