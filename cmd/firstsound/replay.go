package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstsound/llm/llmsim"
	"firstsound/llm/serving"
	"firstsound/pipeline/report"
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
interval that the measured one has by chance alone (95 %, bootstrap). KS is the
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
			c.path = args[0]
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
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	return r.print(c.out)
}

// asked is a request of a trace. Its spans are what earlier requests of a run
// leave in the prefix cache.
type asked struct {
	serving.Arrival
	shared, session serving.Span
}

// A recordedTrace is what replay reads.
type recordedTrace struct {
	path, format string
	asked        []asked
	left         []leftOut
	connected    bool // times count from the connection
}

// leftOut counts the requests that cannot be replayed, by reason.
type leftOut struct {
	Requests int    `json:"requests"`
	Why      string `json:"why"`
}

func (t *recordedTrace) leave(why string, n int) {
	if n == 0 {
		return
	}
	for i := range t.left {
		if t.left[i].Why == why {
			t.left[i].Requests += n
			return
		}
	}
	t.left = append(t.left, leftOut{n, why})
}

// omitted says what is left out, in parentheses.
func (t *recordedTrace) omitted() string {
	var all []string
	for _, l := range t.left {
		all = append(all, fmt.Sprintf("%d left out: %s", l.Requests, l.Why))
	}
	if all == nil {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// readTrace reads a trace of a format, or finds out which it is.
func readTrace(ctx context.Context, path, format string) (*recordedTrace, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%s: there is no such trace", path)
	}
	if err != nil {
		return nil, err
	}
	if format == "run" || format == "auto" && info.IsDir() {
		return readRun(ctx, path)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, and --format %s is a file", path, format)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(untilDone{ctx, file}, 1<<16)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted while reading %s", path)
	}
	if format == "auto" {
		if format, err = detect(path, in); err != nil {
			return nil, err
		}
	}
	t := &recordedTrace{path: path, format: format}
	var all []serving.Arrival
	switch format {
	case "run":
		return readRun(ctx, path)
	case "azure":
		var empty int
		all, empty, err = serving.ReadAzure(in)
		t.leave("0 tokens out", empty)
	default:
		all, err = serving.ReadVLLM(in)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted while reading %s", path)
		}
		var at *serving.LineError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%s:%d: %w", path, at.Line, at.Err)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.asked = make([]asked, len(all))
	for i, a := range all {
		t.asked[i].Arrival = a
	}
	return t, nil
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// detect says what a file is by its first line that has something in it.
func detect(path string, in *bufio.Reader) (string, error) {
	head, err := in.Peek(in.Size())
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	text := bytes.TrimPrefix(head, []byte("\ufeff"))
	n := 1 + bytes.Count(text[:len(text)-len(bytes.TrimLeft(text, " \t\r\n"))], []byte("\n"))
	text, _, _ = bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	if len(text) == 0 {
		return "", fmt.Errorf("%s is empty", path)
	}
	var keys map[string]json.RawMessage
	switch isObject := json.Unmarshal(text, &keys) == nil; {
	case bytes.HasPrefix(text, []byte("TIMESTAMP,")):
		return "azure", nil
	case isObject && (keys["input_toks"] != nil || keys["output_toks"] != nil || keys["queued_ts"] != nil):
		return "vllm", nil
	case isObject && keys["t_ns"] != nil:
		return "run", nil
	case isObject && keys["marks"] != nil && keys["outcome"] != nil:
		return "", fmt.Errorf("%s has the turns of a run, without the tokens of its requests: name the run's folder, or its %s", path, report.EventsFile)
	}
	return "", fmt.Errorf("%s:%d: neither a vLLM trace (JSON lines with input_toks, output_toks, queued_ts), nor an Azure trace (CSV with TIMESTAMP,ContextTokens,GeneratedTokens), nor the events of a run; --format says which it is meant to be", path, n)
}

// A player plays a trace to a fleet of modelled servers.
type player struct {
	trace     *recordedTrace
	fleet     serving.FleetOptions
	neighbour *serving.Neighbour
	seed      uint64
	progress  *counter

	loop    serving.Loop
	servers []*serving.Server // all that there ever were
	jobs    []*serving.Job    // nil: no replica took the request
	ended   int
	stats   []serving.Stats // of servers, when the last request ended
	failed  error
}

// slice is how long the model runs, by its clock, between two looks at whether
// somebody wants it to stop.
const slice = 10 * time.Second

func (p *player) play(ctx context.Context) error {
	fleet, err := serving.NewFleet(&p.loop, p.fleet)
	if err != nil {
		return usageError{err}
	}
	p.meet(fleet)
	if p.neighbour != nil {
		if err := p.neighbour.Move(&p.loop, p.seed, fleet.Submit); err != nil {
			return usageError{err}
		}
	}
	all := p.trace.asked
	p.jobs = make([]*serving.Job, 0, len(all))
	one := func() {
		p.ended++
		p.progress.one()
		if p.ended == len(all) { // a neighbour goes on
			p.loop.At(p.loop.Now(), func() {
				p.meet(fleet)
				for _, s := range p.servers {
					p.stats = append(p.stats, s.Stats())
				}
			})
		}
	}
	told := func(e serving.Event) {
		if e.Kind == serving.Done || e.Kind == serving.Failed {
			one()
		}
	}
	var next func()
	next = func() {
		i := len(p.jobs)
		a := &all[i]
		job, err := fleet.Submit(serving.Request{Prompt: a.Prompt, Output: a.Output, Shared: a.shared, Session: a.session, Told: told, Tag: i})
		if errors.Is(err, serving.ErrNoReplica) {
			one()
		} else if err != nil {
			p.failed = fmt.Errorf("%s: request %d, at %v: %w", p.trace.path, i+1, a.At, err)
			return
		}
		if p.fleet.Autoscale != nil {
			p.meet(fleet)
		}
		if p.jobs = append(p.jobs, job); len(p.jobs) < len(all) && ctx.Err() == nil {
			p.loop.At(all[i+1].At, next)
		}
	}
	p.loop.At(all[0].At, next)
	for end := slice; p.ended < len(all) && p.failed == nil; end += slice {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %d requests", p.ended, len(all))
		}
		p.loop.Run(end)
	}
	return p.failed
}

// meet remembers the servers of a fleet: it forgets those that have ended.
func (p *player) meet(f *serving.Fleet) {
	known := map[*serving.Server]bool{}
	for _, s := range p.servers {
		known[s] = true
	}
	for _, s := range f.Servers() {
		if !known[s] {
			p.servers = append(p.servers, s)
		}
	}
}

// A replayed is the result, as --json shows it.
type replayed struct {
	Format   string          `json:"format"`
	Trace    replayedTrace   `json:"trace"`
	Server   replayedServer  `json:"server"`
	Metrics  []compared      `json:"metrics"`
	Counters replayedCounter `json:"counters"`
}

type replayedTrace struct {
	Path         string    `json:"path"`
	Format       string    `json:"format"`
	Requests     int       `json:"requests"`
	Measured     int       `json:"measured"` // of these, the ones whose times the trace tells
	LeftOut      []leftOut `json:"left_out,omitempty"`
	Span         int64     `json:"span_ns"` // from the first arrival to the last
	PromptTokens int64     `json:"prompt_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	Since        string    `json:"times_since"`
}

type replayedServer struct {
	GPU            string  `json:"gpu"`
	Note           string  `json:"gpu_note,omitempty"`
	Model          string  `json:"model"`
	TensorParallel int     `json:"tensor_parallel"`
	KVBlocks       int     `json:"kv_blocks"`
	MaxSeqs        int     `json:"max_num_seqs"`
	BatchedTokens  int     `json:"max_num_batched_tokens"`
	PrefixCache    bool    `json:"prefix_cache"`
	API            int64   `json:"api_ns"`
	C0             int64   `json:"c0_ns"`
	Replicas       int     `json:"replicas"` // at the beginning
	Routing        string  `json:"routing,omitempty"`
	Autoscale      bool    `json:"autoscale,omitempty"`
	Failures       int     `json:"failures,omitempty"`
	Neighbour      float64 `json:"neighbour_rate,omitempty"`
}

// A compared metric. Measured figures, errors and intervals are absent where the
// trace tells no times.
type compared struct {
	Name      string           `json:"name"`
	Unit      string           `json:"unit"`
	Measured  int              `json:"measured_values"`
	Simulated int              `json:"simulated_values"`
	Figures   []comparedFigure `json:"figures"`
	KS        *float64         `json:"ks,omitempty"`
	W1        *float64         `json:"w1_over_mean,omitempty"`
}

type comparedFigure struct {
	Figure    string   `json:"figure"` // mean, p50, p90, p95, p99
	Measured  *float64 `json:"measured,omitempty"`
	Simulated float64  `json:"simulated"`
	Error     *float64 `json:"error,omitempty"` // (simulated − measured) / measured
	Low       *float64 `json:"low,omitempty"`   // 95 % bootstrap interval of the measured figure
	High      *float64 `json:"high,omitempty"`
	Inside    *bool    `json:"inside,omitempty"` // the simulated figure lies in it
}

type replayedCounter struct {
	Finished     int   `json:"finished"` // of the trace's requests
	Failed       int   `json:"failed"`   // of these: their server died, or there was none
	Preempted    int   `json:"preempted_requests"`
	Preemptions  int   `json:"preemptions"`
	KVBlocks     int   `json:"kv_blocks"`      // of the replica with the fullest cache
	KVPeak       int   `json:"kv_peak_blocks"` // most in use at once there
	Steps        int64 `json:"steps"`
	Busy         int64 `json:"busy_ns"`
	End          int64 `json:"end_ns"`                 // the last request's end, since the first arrival
	PromptTokens int64 `json:"prompt_tokens_computed"` // recomputed ones too
	CachedTokens int64 `json:"prompt_tokens_cached"`
	OutputTokens int64 `json:"output_tokens"`
	Replicas     int   `json:"replicas"` // that there were in all
}

// finite returns x if JSON has it, or nil.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (p *player) result(ctx context.Context) (*replayed, error) {
	all := p.trace.asked
	o := p.servers[0].Options()
	r := &replayed{
		Format: "firstsound.replay/1",
		Trace: replayedTrace{Path: p.trace.path, Format: p.trace.format, Requests: len(all), LeftOut: p.trace.left,
			Span: int64(all[len(all)-1].At), Since: "arrival"},
		Server: replayedServer{GPU: cmp.Or(o.GPU.Name, "own card"), Note: o.GPU.Note, Model: cmp.Or(o.Model.Name, "own model"), TensorParallel: o.TensorParallel, KVBlocks: o.KVBlocks,
			MaxSeqs: o.MaxSeqs, BatchedTokens: o.BatchedTokens, PrefixCache: !o.NoPrefixCache, API: int64(o.GPU.API), C0: int64(o.GPU.Step),
			Replicas: max(1, p.fleet.Replicas), Routing: string(p.fleet.Routing), Autoscale: p.fleet.Autoscale != nil, Failures: len(p.fleet.Failures)},
	}
	if p.trace.format == "run" {
		r.Trace.Since = "llm_send"
		if p.trace.connected {
			r.Trace.Since = "llm_connected"
		}
	}
	if p.neighbour != nil {
		r.Server.Neighbour = p.neighbour.Rate
	}
	var arrivals []serving.Arrival
	var records, alike []serving.Record // alike: of the requests that were measured
	for i, a := range all {
		r.Trace.PromptTokens += int64(a.Prompt)
		r.Trace.OutputTokens += int64(a.Output)
		rec := serving.Record{State: serving.Dead}
		if p.jobs[i] != nil {
			rec = p.jobs[i].Record()
		}
		records = append(records, rec)
		if rec.Preempts > 0 {
			r.Counters.Preempted++
		}
		if rec.State != serving.Finished {
			r.Counters.Failed++
			continue
		}
		r.Counters.Finished++
		r.Counters.End = max(r.Counters.End, int64(rec.Ended))
		if a.Measured {
			r.Trace.Measured++
			arrivals, alike = append(arrivals, a.Arrival), append(alike, rec)
		}
	}
	fullest := -1.0
	for _, st := range p.stats {
		r.Counters.Preemptions += st.Preemptions
		r.Counters.Steps += st.Steps
		r.Counters.Busy += int64(st.Busy)
		r.Counters.PromptTokens += st.PromptTokens
		r.Counters.CachedTokens += st.CachedTokens
		r.Counters.OutputTokens += st.OutputTokens
		if share := float64(st.KVPeak) / float64(st.KVBlocks); share > fullest {
			fullest, r.Counters.KVBlocks, r.Counters.KVPeak = share, st.KVBlocks, st.KVPeak
		}
	}
	r.Counters.Replicas = len(p.servers)
	if r.Counters.Finished == 0 {
		return nil, fmt.Errorf("none of the %d requests was answered: is there always a replica?", len(all))
	}
	if r.Trace.Measured > 0 {
		records = alike
	}
	m, s := serving.MeasuredFigures(arrivals), serving.FiguresOf(records)
	done := make(chan []compared, 1)
	go func() { // the bootstrap of a million values takes a while, and nobody has to wait for it
		done <- []compared{compare("ttft", m.TTFT, s.TTFT, p.seed), compare("tpot", m.TPOT, s.TPOT, p.seed), compare("e2e", m.E2E, s.E2E, p.seed)}
	}()
	select {
	case r.Metrics = <-done:
		return r, nil
	case <-ctx.Done():
		return nil, errors.New("interrupted before the figures were there")
	}
}

// compare returns the figures of a metric, in ms.
func compare(name string, measured, simulated []float64, seed uint64) compared {
	out := compared{Name: name, Unit: "ms", Measured: len(measured), Simulated: len(simulated), Figures: []comparedFigure{}}
	if len(simulated) == 0 { // all answers are of one token: there is no TPOT
		return out
	}
	if len(measured) == 0 {
		sorted := slices.Sorted(slices.Values(simulated))
		sum := 0.0
		for _, v := range sorted {
			sum += v
		}
		out.Figures = append(out.Figures, comparedFigure{Figure: "mean", Simulated: sum / float64(len(sorted))})
		for _, p := range []float64{.5, .9, .95, .99} {
			out.Figures = append(out.Figures, comparedFigure{Figure: quantileName(p), Simulated: serving.Quantile(sorted, p)})
		}
		return out
	}
	c := serving.Compare(name, measured, simulated, seed)
	for _, e := range append([]serving.Error{c.Mean}, c.Quantiles...) {
		inside := e.Inside(0)
		out.Figures = append(out.Figures, comparedFigure{Figure: quantileName(e.P), Simulated: e.Simulated, Measured: finite(e.Measured),
			Error: finite(e.Relative), Low: finite(e.Low), High: finite(e.High), Inside: &inside})
	}
	out.KS, out.W1 = finite(c.KS), finite(c.W1)
	return out
}

// quantileName returns p95 for 0.95, and mean for 0.
func quantileName(p float64) string {
	if p == 0 {
		return "mean"
	}
	return "p" + strconv.FormatFloat(p*100, 'f', -1, 64)
}

func (r *replayed) print(w io.Writer) error {
	var b strings.Builder
	t, s, c := r.Trace, r.Server, r.Counters
	fmt.Fprintf(&b, "%s (%s): %d requests in %.1f s, %.0f tokens in and %.0f out in the mean", t.Path, t.Format, t.Requests,
		float64(t.Span)/1e9, float64(t.PromptTokens)/float64(t.Requests), float64(t.OutputTokens)/float64(t.Requests))
	if n := t.Requests - t.Measured; t.Measured > 0 && n > 0 {
		fmt.Fprintf(&b, "; %d load the server and are not compared", n)
	}
	b.WriteString("\n")
	for _, l := range t.LeftOut {
		fmt.Fprintf(&b, "  %d left out: %s\n", l.Requests, l.Why)
	}
	if t.Since != "arrival" {
		fmt.Fprintf(&b, "  times count from %s on\n", t.Since)
	}
	fmt.Fprintf(&b, "%s on %d × %s: %d KV blocks, max_num_seqs %d, max_num_batched_tokens %d, api %v, c0 %v", s.Model, s.TensorParallel, s.GPU, s.KVBlocks,
		s.MaxSeqs, s.BatchedTokens, time.Duration(s.API), time.Duration(s.C0))
	if !s.PrefixCache {
		b.WriteString(", no prefix cache")
	}
	if s.Replicas > 1 || s.Autoscale {
		fmt.Fprintf(&b, ", %d replicas, %d in all", s.Replicas, c.Replicas)
	}
	if s.Neighbour > 0 {
		fmt.Fprintf(&b, ", a neighbour with %g requests a second", s.Neighbour)
	}
	b.WriteString("\n")
	if s.Note != "" {
		fmt.Fprintf(&b, "  %s: %s\n", s.GPU, s.Note)
	}
	b.WriteString("\n")
	tab := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	if t.Measured > 0 {
		fmt.Fprintln(tab, "ms       \tmeasured\tsimulated\terror\tby chance (95 %)\tinside\t")
	} else {
		fmt.Fprintln(tab, "ms       \tsimulated\t")
	}
	for _, m := range r.Metrics {
		for _, f := range m.Figures {
			name := fmt.Sprintf("%-9s", strings.ToUpper(m.Name)+" "+f.Figure)
			if f.Measured == nil {
				fmt.Fprintf(tab, "%s\t%.1f\t\n", name, f.Simulated)
				continue
			}
			inside, off := "no", "–"
			if *f.Inside {
				inside = "yes"
			}
			if f.Error != nil {
				off = fmt.Sprintf("%+.1f %%", *f.Error*100)
			}
			fmt.Fprintf(tab, "%s\t%.1f\t%.1f\t%s\t%.1f … %.1f\t%s\t\n", name, *f.Measured, f.Simulated, off, *f.Low, *f.High, inside)
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	for _, m := range r.Metrics {
		if m.KS != nil && m.W1 != nil {
			fmt.Fprintf(&b, "%-4s  KS %.3f, W1/mean %.3f, %d values\n", strings.ToUpper(m.Name), *m.KS, *m.W1, m.Measured)
		}
	}
	if t.Measured == 0 {
		b.WriteString("The trace tells no times, so there is nothing to hold these against.\n")
	}
	fmt.Fprintf(&b, "server: %d finished, %d failed; %d preemptions of %d requests; KV peak %d of %d blocks (%.0f %%); %d steps, busy %.1f of %.1f s\n",
		c.Finished, c.Failed, c.Preemptions, c.Preempted, c.KVPeak, c.KVBlocks, float64(c.KVPeak)/float64(c.KVBlocks)*100, c.Steps,
		float64(c.Busy)/1e9, float64(c.End)/1e9)
	_, err := io.WriteString(w, b.String())
	return err
}

// runPath says which file of a run a mistake is in.
func runPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, report.EventsFile)
	}
	return path
}
