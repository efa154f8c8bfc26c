package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstsound/llm"
	"firstsound/llm/bench"
	llmfigures "firstsound/llm/figures"
	"firstsound/llm/record"
	"firstsound/llm/tokens"
)

// newBenchCmd returns the command that has the benchmarks.
func newBenchCmd(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a stage by itself: a language model, a recognizer, a synthesizer, a speech-to-speech agent",
		Long:  "Bench measures a service of a voice agent by itself, over the wire.",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchLLMCmd(s), newBenchASRCmd(s), newBenchTTSCmd(s), newBenchS2SCmd(s))
	return cmd
}

// A benchLLM is the command bench llm with its flags.
type benchLLM struct {
	streams
	serviceFlags
	command string

	plan     bench.Options
	arrivals string
	burst    float64
	p95      bool
	quick    bool
	dryRun   bool
	limit    int // --max-concurrency
	endpoint string

	language, prefix, prompts string
	maxTokens                 int
	temperature               string
	ignoreEOS, tools          bool
	tokenizer                 string
	seed                      uint64

	place, network string
	out            string
	keepReads      bool
	noSelfTest     bool
	logs           serverLogs
	metrics        string // URL of the server's monitoring

	benchView
}

// partFlags are the flags that name parts of the plan: if one is given, only the
// named parts are run.
var partFlags = []string{"single", "p95", "concurrency", "rate", "prompt-tokens", "turns", "new-connections", "idle", "max-concurrency", "quick"}

// foreignFlags are names of flags that users of other benchmarks know: of vLLM's
// bench serve and of AIPerf.
var foreignFlags = map[string]string{
	"base-url": "url", "request-rate": "rate", "num-prompts": "requests", "request-count": "requests",
	"num-warmups": "warmup", "warmup-request-count": "warmup", "benchmark-duration": "duration",
	"arrival-pattern": "arrivals", "random-seed": "seed", "osl": "max-tokens", "output-tokens-mean": "max-tokens",
	"isl": "prompt-tokens", "synthetic-input-tokens-mean": "prompt-tokens", "input-file": "prompts", "dataset-path": "prompts",
	"output-dir": "out", "result-dir": "out", "percentile-gate": "gate",
}

const benchLLMLong = `Bench llm asks a language model as a voice agent does and shows how long the first
token takes, how fast the others follow, how that changes from one request at a
time to many at once, and what is behind it.

Without a flag that names parts of the plan it runs, after one first request:
  one at a time    5 requests of warm-up, then 30
  1, 5, 10, 20 at once   each warmed up, then measured for 60 s
That takes 4 minutes, the 35 requests, and one more for each level: about 5
minutes if a request takes a second. The time a plan will take is shown before it
begins; --dry-run shows it and measures nothing: it sends up to three requests (the
list of models, one to see what the service refuses, one to time). --quick measures
1 and 5 at once for 10 s each. If you name parts, only those are run:
  --single N, --p95        one at a time (N or 130, as many as P95 needs)
  --concurrency 1,5,10     at once, each for --duration or --requests
  --rate 2,5               requests a second that wait for no answer
  --prompt-tokens 50,500   one at a time, at lengths of the prompt
  --turns 10               conversations that grow by the replies just received
  --new-connections        each request over a connection of its own
  --idle 1s,30s            requests after the connection was left alone

Times are in nanoseconds from the arrival of the bytes at this host. Keys are
taken from the environment or a file and kept nowhere. Proxies that the environment
names (HTTPS_PROXY) are not used: the way that is measured is the direct one. A
Retry-After is counted and not waited for: clients rest at most 1 s. An interrupt (Ctrl-C) ends
the run; what was measured until then is kept and reported.

Names that other tools use are understood too: --base-url, --request-rate,
--num-prompts, --request-count, --num-warmups, --benchmark-duration,
--max-concurrency (without --rate it is --concurrency), --burstiness, --endpoint.`

func newBenchLLMCmd(s streams) *cobra.Command { return newBenchLLMFor(&benchLLM{streams: s}) }

// newBenchLLMFor returns the command whose flags b holds.
func newBenchLLMFor(b *benchLLM) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "llm --url URL [--model MODEL]",
		Short: "Time to first token of a language model, alone and under load",
		Long:  benchLLMLong,
		Example: `  firstsound bench llm --url http://127.0.0.1:8000/v1 --model qwen3-8b
  firstsound bench llm --url http://127.0.0.1:8000/v1 --quick
  firstsound bench llm --url https://api.openai.com/v1 -m gpt-4o-mini --place Frankfurt --network fibre --out run1
  firstsound bench llm -u URL --p95 --gate 'ttft.p95<400ms'     exit 1 if it is slower
  firstsound bench llm -u URL --rate 2,5 --arrivals poisson --duration 60s
  firstsound bench llm -u URL --prompt-tokens 50,500,2000 --turns 10
  firstsound bench llm -u URL --concurrency 20 --requests 200 --prompts mine.jsonl
  firstsound bench llm -u URL --server-log vllm.log --server-metrics http://127.0.0.1:8000/metrics`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("bench llm takes no arguments, and there is %q; the service is named by --url", publicAddress(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	b.serviceFlags.add(f, true)
	f.IntVar(&b.plan.Single, "single", bench.DefaultSingle, "requests one at a time (`N`)")
	f.BoolVar(&b.p95, "p95", false, fmt.Sprintf("%d of them, so that P95 can be held against a limit", bench.HoldP95))
	f.IntSliceVar(&b.plan.Levels, "concurrency", bench.DefaultLevels, "levels of requests at once (`N,N`)")
	f.Float64SliceVar(&b.plan.Rates, "rate", nil, "requests a second, in an open loop (`N,N`)")
	f.StringVar(&b.arrivals, "arrivals", "poisson", "`HOW` the requests of --rate come: poisson, constant or gamma:CV")
	f.IntVar(&b.limit, "max-concurrency", 0, "most open requests of an open loop (`N`); the wait beyond it counts")
	f.DurationVar(&b.plan.Duration, "duration", time.Minute, "how long each level and rate is measured (`TIME`)")
	f.IntVar(&b.plan.Requests, "requests", 0, "measure `N` requests of each level and rate, whatever time they take")
	f.IntVar(&b.plan.Warmup, "warmup", bench.DefaultWarmup, "requests at the head of each part that are left out (`N`)")
	f.IntSliceVar(&b.plan.PromptTokens, "prompt-tokens", nil, "lengths of prompts (`N,N`)")
	f.IntVar(&b.plan.Turns, "turns", 0, "turns of each growing conversation (`N`)")
	f.BoolVar(&b.plan.NewConnections, "new-connections", false, "requests over new connections")
	f.DurationSliceVar(&b.plan.Idle, "idle", nil, "pauses before requests (`TIME,TIME`)")
	f.BoolVar(&b.quick, "quick", false, "a short look: 1 and 5 at once, 10 s each")
	f.BoolVar(&b.dryRun, "dry-run", false, "show the plan and how long it takes, and end; up to three requests are sent")
	f.StringVar(&b.language, "language", "both", "`LANGUAGE` of the built-in conversations: en, zh or both")
	f.StringVar(&b.prompts, "prompts", "", "your own prompts: a `FILE` with lines {\"messages\":[...]}, {\"prompt\":\"...\"} or {\"text\":\"...\"}")
	f.StringVar(&b.prefix, "prefix", "nonce", "`HOW` prompts begin: nonce (no prefix cache helps) or shared (it may)")
	f.IntVar(&b.maxTokens, "max-tokens", 128, "most tokens of an answer (`N`); 0 leaves it to the service")
	f.StringVar(&b.temperature, "temperature", "0", "`NUMBER`, or default to leave it to the service")
	f.BoolVar(&b.ignoreEOS, "ignore-eos", false, "ask for answers of the full length (vLLM, SGLang, llama.cpp)")
	f.BoolVar(&b.tools, "tools", false, "declare the tools of the conversations in the requests")
	f.StringVar(&b.tokenizer, "tokenizer", "", "`VOCABULARY` that counts tokens here: o200k_base, cl100k_base, ...")
	f.Uint64Var(&b.seed, "seed", 1, "seed of the arrivals (`N`)")
	f.StringVar(&b.place, "place", "", "where this machine is, in your `WORDS`")
	f.StringVar(&b.network, "network", "", "how it is connected, in your `WORDS`")
	f.StringVar(&b.out, "out", "", "write run.json and requests.jsonl to this `FOLDER`, as they come")
	f.BoolVar(&b.keepReads, "keep-reads", false, "keep the bytes of all answers as they came, in reads.jsonl of --out")
	f.BoolVar(&b.noSelfTest, "no-self-test", false, "do not measure first what this machine adds by itself (3 s)")
	b.logs.flags(f)
	f.StringVar(&b.metrics, "server-metrics", "", "ask the server's Prometheus metrics each second meanwhile (`URL`, such as http://127.0.0.1:8000/metrics)")
	b.benchView.flags(f)
	f.Float64Var(&b.burst, "burstiness", 1, "")
	f.StringVar(&b.endpoint, "endpoint", "", "")
	for _, hidden := range []string{"burstiness", "endpoint"} {
		if err := f.MarkHidden(hidden); err != nil {
			panic(err) // they are defined above
		}
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if own, ok := foreignFlags[name]; ok {
			name = own
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// check completes the plan from the flags that were given.
func (b *benchLLM) check(f *pflag.FlagSet) error {
	if b.url == "" && b.dialect == dialectAuto {
		return usagef("name the service: --url http://127.0.0.1:8000/v1, or --dialect openai for a service with an address of its own")
	}
	if f.Changed("endpoint") {
		b.url = strings.TrimRight(b.url, "/") + "/" + strings.TrimLeft(b.endpoint, "/")
	}
	if err := b.checkPlan(f); err != nil {
		return err
	}
	switch {
	case b.prefix != "nonce" && b.prefix != "shared":
		return usagef("--prefix takes nonce or shared, not %q", b.prefix)
	case b.maxTokens < 0:
		return usagef("--max-tokens takes 0 or more, not %d", b.maxTokens)
	case b.keepReads && b.out == "":
		return usagef("--keep-reads writes to the folder of --out: name one")
	case b.prompts != "" && (len(b.plan.PromptTokens) > 0 || b.plan.Turns > 0):
		return usagef("--prompt-tokens and --turns are made of the built-in conversations: leave out --prompts")
	case b.prompts != "" && f.Changed("language"):
		return usagef("--language is that of the built-in conversations: leave it out with --prompts")
	}
	if _, err := bench.ParseURL(b.metrics); b.metrics != "" && err != nil {
		return usagef("--server-metrics takes a URL of http or https, such as http://127.0.0.1:8000/metrics")
	}
	if err := b.logs.check(); err != nil {
		return err
	}
	if b.out != "" {
		if err := record.Free(b.out); err != nil {
			return err
		}
	}
	return b.benchView.check()
}

// The most of what a plan may have: more is a mistake on the command line.
const (
	maxLevel    = 10_000
	maxRate     = 100_000
	maxRequests = 10_000_000
	maxPrompt   = 1_000_000
	maxTurns    = 1000
)

// checkPlan completes the plan.
func (b *benchLLM) checkPlan(f *pflag.FlagSet) error {
	p := &b.plan
	named := slices.ContainsFunc(partFlags, f.Changed)
	if named && !f.Changed("single") {
		p.Single = 0
	}
	if named && !f.Changed("concurrency") {
		p.Levels = nil
	}
	switch {
	case b.quick:
		if f.Changed("duration") || f.Changed("concurrency") {
			return usagef("--quick is a plan of its own: leave out --concurrency and --duration")
		}
		p.Levels, p.Duration = []int{1, 5}, 10*time.Second
	case b.limit > 0 && len(p.Rates) == 0 && f.Changed("concurrency"):
		return usagef("--max-concurrency bounds the open loop of --rate; --concurrency says how many requests there are at once")
	case b.limit > 0 && len(p.Rates) == 0:
		p.Levels, b.limit = []int{b.limit}, 0
	}
	if b.p95 {
		p.Single = bench.HoldP95
	}
	if f.Changed("burstiness") {
		if f.Changed("arrivals") {
			return usagef("give --arrivals or --burstiness, not both")
		}
		b.arrivals = "gamma:" + strconv.FormatFloat(1/math.Sqrt(b.burst), 'g', -1, 64)
		if b.burst == 1 {
			b.arrivals = "poisson"
		}
	}
	var err error
	if p.Arrivals, err = bench.ParseArrivals(b.arrivals); err != nil {
		return usagef("--arrivals: %w", err)
	}
	switch {
	case b.p95 && f.Changed("single"):
		return usagef("--p95 is --single %d: give one of the two", bench.HoldP95)
	case f.Changed("requests") && f.Changed("duration"):
		return usagef("--requests and --duration both say how long a level or rate is measured: give one of the two")
	case len(p.Rates) == 0 && (f.Changed("arrivals") || f.Changed("burstiness")):
		return usagef("--arrivals says how the requests of --rate come: name a rate")
	}
	for _, wrong := range []struct {
		flag string
		bad  bool
		want string
	}{
		{"single", p.Single < 0 || p.Single > maxRequests, "0 to 10,000,000 requests"},
		{"warmup", p.Warmup < 0 || p.Warmup > maxRequests, "0 to 10,000,000 requests"},
		{"requests", p.Requests < 0 || p.Requests > maxRequests, "1 to 10,000,000 requests"},
		{"concurrency", slices.ContainsFunc(p.Levels, func(n int) bool { return n < 1 || n > maxLevel }), "levels from 1 to 10,000, such as 1,5,10"},
		{"max-concurrency", b.limit < 0 || b.limit > maxLevel, "1 to 10,000 requests"},
		{"rate", slices.ContainsFunc(p.Rates, func(r float64) bool { return !(r > 0) || r > maxRate }), "requests a second above 0, such as 2,5 (for as fast as possible, use --concurrency)"},
		{"duration", p.Duration <= 0, "a time above zero, such as 60s"},
		{"prompt-tokens", slices.ContainsFunc(p.PromptTokens, func(n int) bool { return n < 1 || n > maxPrompt }), "lengths in tokens, such as 50,500,2000"},
		{"turns", p.Turns < 0 || p.Turns > maxTurns, "1 to 1,000 turns"},
		{"idle", slices.ContainsFunc(p.Idle, func(d time.Duration) bool { return d <= 0 }), "times above zero, such as 1s,30s"},
	} {
		if wrong.bad {
			return usagef("--%s takes %s, not %s", wrong.flag, wrong.want, f.Lookup(wrong.flag).Value)
		}
	}
	if len(p.Plan()) == 0 {
		return usagef("the plan is empty: name a part of it, such as --single 30")
	}
	return nil
}

// params are the fixed parameters of the requests.
func (b *benchLLM) params() (llm.Params, error) {
	p := llm.Params{Model: b.model, MaxTokens: b.maxTokens}
	if b.temperature == "default" {
		return p, nil
	}
	t, err := strconv.ParseFloat(b.temperature, 64)
	if err != nil || !(t >= 0 && t <= 10) {
		return p, usagef("--temperature takes a number such as 0.7, or default, not %q", b.temperature)
	}
	p.Temperature = &t
	return p, nil
}

// loadPrompts makes the prompts, and those of a given length.
func (b *benchLLM) loadPrompts(counter *tokens.Counter) (*bench.Prompts, error) {
	if _, err := counter.Count("a"); err != nil { // it loads its vocabulary
		return nil, err
	}
	count := func(text string) int {
		n, err := counter.Count(text)
		if err != nil {
			return llm.EstimateTokens(text)
		}
		return n
	}
	o := bench.PromptOptions{Language: b.language, Shared: b.prefix == "shared", Count: count, Nonce: random64()}
	if b.prompts != "" {
		f, err := os.Open(b.prompts)
		if err != nil {
			return nil, usagef("--prompts: %w", err)
		}
		defer f.Close()
		p, err := bench.ReadPrompts(b.prompts, f, o)
		if err != nil {
			return nil, usagef("--prompts: %w", err)
		}
		return p, nil
	}
	p, err := bench.NewPrompts(o)
	if err != nil {
		return nil, usagef("--language: %w", err)
	}
	for _, n := range b.plan.PromptTokens {
		if err := p.Prepare(n); err != nil {
			return nil, usagef("--prompt-tokens: %w", err)
		}
	}
	return p, nil
}

// random64 returns a number that no other run has.
func random64() uint64 {
	var n [8]byte
	rand.Read(n[:]) // never fails: crypto/rand ends the program first
	return binary.LittleEndian.Uint64(n[:])
}

// run runs the benchmark.
func (b *benchLLM) run(cmd *cobra.Command) error {
	if err := b.check(cmd.Flags()); err != nil {
		return err
	}
	options, gates, err := b.options(b.goodput, b.targets)
	if err != nil {
		return err
	}
	params, err := b.params()
	if err != nil {
		return err
	}
	var extra map[string]any
	if b.ignoreEOS {
		extra = map[string]any{"ignore_eos": true}
	}
	service, err := b.serviceFlags.open(b.env, extra)
	if err != nil {
		return err
	}
	counter, err := tokens.New(b.tokenizer)
	if err != nil {
		return usagef("--tokenizer: %w", err)
	}
	prompts, err := b.loadPrompts(counter)
	if err != nil {
		return err
	}
	r := &benchRun{benchLLM: b, service: service, params: params, prompts: prompts, counter: counter, parts: b.plan.Plan(),
		options: options, command: service.clean(commandLine(cmd, nil))}
	r.summary = llmfigures.New(options)
	defer r.close()
	if err := r.prepare(cmd.Context()); cmd.Context().Err() != nil {
		return errors.New("interrupted before the first measurement")
	} else if err != nil {
		return errors.New(service.clean(err.Error()))
	}
	if b.dryRun {
		r.showPlan(b.streams.out)
		return nil
	}
	if err := r.measure(cmd.Context()); err != nil {
		return err
	}
	return r.show(gates)
}

// fixed are the variables that have to be the same in runs that are compared.
func (r *benchRun) fixed() map[string]string {
	b := r.benchLLM
	prompts := "built-in, " + b.language
	if b.prompts != "" {
		prompts = b.prompts + ", " + r.prompts.Digest()
	}
	least, median, most := r.prompts.Lengths()
	f := map[string]string{
		"model": r.service.modelName(), "dialect": r.service.protocol.Name(), "stream": "true",
		"max_tokens": strconv.Itoa(b.maxTokens), "temperature": b.temperature, "ignore_eos": strconv.FormatBool(b.ignoreEOS),
		"protocol": "HTTP/" + b.http, "prompts": prompts, "prefix": b.prefix, "tools": strconv.FormatBool(b.tools),
		"prompt_tokens": fmt.Sprintf("%d to %d, median %d (%s)", least, most, median, r.counter.Name()),
		"timeout":       b.timeout.String(), "warmup": strconv.Itoa(b.plan.Warmup), "tokenizer": r.counter.Name(),
	}
	for name, set := range map[string]string{
		"concurrency": joined(b.plan.Levels), "rate": joined(b.plan.Rates), "sweep_tokens": joined(b.plan.PromptTokens),
		"extra_body": r.service.publicBody(),
	} {
		if set != "" {
			f[name] = set
		}
	}
	if len(b.plan.Rates) > 0 {
		f["arrivals"], f["max_concurrency"] = b.plan.Arrivals.String(), strconv.Itoa(b.limit)
	}
	if b.plan.Turns > 0 {
		f["turns"] = strconv.Itoa(b.plan.Turns)
	}
	return f
}

// joined writes numbers with commas between them.
func joined[T int | float64](numbers []T) string {
	var out []string
	for _, n := range numbers {
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, ",")
}

// reached says whether a class is that of a service that answered as it should.
func reached(c record.Class) bool {
	return slices.Contains([]record.Class{record.OK, record.Empty, record.ToolOnly, record.ReasoningOnly}, c)
}
