package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firstsound/llm/serving"
	"firstsound/page"
	"firstsound/pipeline/scenario"
)

// A provider is a choice for a stage.
type provider struct {
	stage   string // the scenario's key of the stage's block: line, vad, asr, turn, agent.steps, agent.tools, llm, tts
	name    string // what the block's key provider names
	about   string // one line: what it is
	options any    // its options with their defaults: a struct, or a pointer to one, with yaml tags; nil: none
	like    any    // of a service by name: the options of the stage's plain model, which it differs from
	needs   needs  // of a real one
}

// newListCmd returns the command that shows what a scenario can be made of.
func newListCmd(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "list [stages|providers|gpus|models|NAME]",
		Short: "Show the stages, their providers and the options of each",
		Long: `List shows the stages of the pipeline and the providers that each can have.
With the name of a stage, of a provider, or of both (asr.sim) it shows their
options: the key in the scenario, the default, and what it means. Gpus and models
are the cards and the shapes of models that llm.server and "firstsound replay" know.`,
		Example: `  firstsound list                     all stages and providers
  firstsound list asr                 the stage asr with the options of its providers
  firstsound list llm.sim             one provider of one stage
  firstsound list providers           all options of all providers
  firstsound list gpus                cards of the modelled inference server, and where their numbers are from
  firstsound list models              shapes of language models`,
		Args: atMost(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return listNames(registry()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			all := registry()
			if len(args) == 0 || args[0] == "stages" {
				return listStages(io.out, all)
			}
			switch args[0] {
			case "gpus":
				return listGPUs(io.out)
			case "models":
				return listModels(io.out)
			}
			found := slices.DeleteFunc(slices.Clone(all), func(p provider) bool { return !p.answersTo(args[0]) })
			if len(found) == 0 {
				if near := scenario.Nearest(args[0], listNames(all)); near != "" {
					return usagef("there is no stage or provider %q; did you mean %s?", args[0], near)
				}
				return usagef("there is no stage or provider %q; there are %s", args[0], strings.Join(listNames(all), ", "))
			}
			return listProviders(io.out, found)
		},
	}
}

// answersTo says whether the user means p, perhaps among others, by name.
func (p provider) answersTo(name string) bool {
	return name == "providers" || name == p.stage || name == p.name || name == p.stage+"."+p.name
}

// listNames returns all names that list takes.
func listNames(all []provider) []string {
	names := []string{"stages", "providers", "gpus", "models"}
	for _, p := range all {
		for _, name := range []string{p.stage, p.name} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// listStages writes a line for each provider, under its stage.
func listStages(w io.Writer, all []provider) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STAGE\tPROVIDER\tWHAT IT IS")
	stage := ""
	for _, p := range all {
		shown := ""
		if p.stage != stage {
			stage, shown = p.stage, p.stage
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", shown, p.name, p.about)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nOptions: firstsound list STAGE.PROVIDER, such as asr.sim\nIn a scenario: asr: {provider: sim, ...}; for one run: --set asr.provider=sim")
	return err
}

// listGPUs writes the cards that the model of an inference server knows.
func listGPUs(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "GPU           \tTFLOPS\tGB/s\tGB\tbytes W/KV\tηc\tηw\tηkv\tηa\tμ\tc0\tcs\tapi\tserial_api\tall_reduce\tlink GB/s\t")
	for _, g := range serving.GPUs() {
		link := "–"
		if g.LinkGBps > 0 {
			link = fmt.Sprint(g.LinkGBps)
		}
		fmt.Fprintf(t, "%-14s\t%g\t%g\t%g\t%g/%g\t%g\t%g\t%g\t%g\t%g\t%v\t%v\t%v\t%v\t%v\t%s\t\n", g.Name, g.TFLOPS, g.GBps, g.MemoryGB, g.WeightBytes, g.KVBytes,
			g.Compute, g.Weights, g.KV, g.Attention, g.Mix, g.Step, g.Seq, g.API, g.SerialAPI, g.AllReduce, link)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nη are the shares of the data sheet that an engine reached: of TFLOPS in matrix products (c) and prompt\n"+
		"attention (a), of GB/s in reading weights (w) and KV cache (kv). μ: decode attention beside a prompt's chunk.\n"+
		"c0 is the time of every step, cs of each sequence in it, api of a request before it queues. docs/models.md\n"+
		"has the formula. The data sheet's figures are the vendors'; the others:")
	for _, g := range serving.GPUs() {
		fmt.Fprintf(w, "  %-15s %s\n", g.Name, g.Note)
	}
	_, err := fmt.Fprintln(w, "\nIn a scenario: llm: {server: {gpu: h100-sxm}}. One of your own, like one of these but for some of the columns:\n"+
		"llm: {server: {card: {like: h100-sxm, gbps: 4800, memory_gb: 141}}}.")
	return err
}

// listModels writes the shapes that the model of an inference server knows.
func listModels(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "MODEL           \tblocks (10⁹)\thead (10⁹)\ttied\tlayers\theads\tkv_heads\thead_dim\thidden\tKV bytes/token\t")
	for _, m := range serving.Models() {
		tied := "no"
		if m.Tied {
			tied = "yes"
		}
		fmt.Fprintf(t, "%-16s\t%g\t%g\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", m.Name, m.Blocks, m.Head, tied, m.Layers, m.Heads, m.KVHeads, m.HeadDim, m.Hidden,
			2*2*m.Layers*m.KVHeads*m.HeadDim)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nBlocks are the parameters of all layers, head those of the output matrix; the shapes are from the models'\n"+
		"published config.json. KV bytes are for a card that keeps 2 bytes a number. Only the shape decides the speed:\n"+
		"in a scenario llm: {server: {model: qwen3-32b}}, or one of your own,\n"+
		"llm: {server: {shape: {like: qwen3-32b, layers: 40}}}; without like, all columns have to be there.")
	return err
}

// listProviders writes providers with their options.
func listProviders(w io.Writer, found []provider) error {
	for i, p := range found {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintf(w, "%s: provider %s, %s\n", p.stage, p.name, p.about); err != nil {
			return err
		}
		options := scenario.Options(p.options)
		if p.like != nil {
			plain := scenario.Options(p.like)
			options = slices.DeleteFunc(options, func(o scenario.KV) bool { return slices.Contains(plain, o) })
			fmt.Fprintf(w, "  as %s.sim, but for:\n", p.stage)
		} else if len(options) == 0 {
			fmt.Fprintln(w, "  no options")
		}
		for _, o := range options {
			fmt.Fprintf(w, "\n  %s: %s\n", o.Key, o.Value)
			if c := p.comment(o.Key); c != "" && p.like == nil {
				fmt.Fprint(w, wrap(c, 80, "      "))
			}
		}
	}
	return nil
}

// comment returns what is said about an option of p: by its struct's tag "about",
// else by the default scenario; nothing if that does not mention it.
func (p provider) comment(key string) string {
	if t := reflect.TypeOf(p.options); t != nil && t.Kind() == reflect.Struct {
		if text := aboutTag(t, key); text != "" {
			return text
		}
	}
	if p.real() {
		return p.speechComment(key)
	}
	if p.stage == "agent.steps" || p.stage == "agent.tools" {
		return scenario.Comment(p.stage + ".0." + key)
	}
	return scenario.Comment(p.stage + "." + key)
}

// wrap breaks text into lines of at most width columns, each behind an indent.
func wrap(text string, width int, indent string) string { return page.Behind(indent, text, width, 0) }
