package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"firstsound/llm/serving"
)

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
	GPU               string  `json:"gpu"`
	Note              string  `json:"gpu_note,omitempty"`
	Model             string  `json:"model"`
	TensorParallel    int     `json:"tensor_parallel"`
	KVBlocks          int     `json:"kv_blocks"`
	MaxSeqs           int     `json:"max_num_seqs"`
	BatchedTokens     int     `json:"max_num_batched_tokens"`
	PrefixCache       bool    `json:"prefix_cache"`
	API               int64   `json:"api_ns"`
	C0                int64   `json:"c0_ns"`
	Replicas          int     `json:"replicas"` // at the beginning
	Routing           string  `json:"routing,omitempty"`
	Autoscale         bool    `json:"autoscale,omitempty"`
	Failures          int     `json:"failures,omitempty"`
	Neighbour         float64 `json:"neighbour_rate,omitempty"` // requests a second; its workload's if absent
	NeighbourWorkload string  `json:"neighbour_workload,omitempty"`
}

// A compared metric. Measured figures, errors and intervals are absent where the
// trace tells no times.
type compared struct {
	Name      string           `json:"name"`
	Unit      string           `json:"unit"`
	Measured  int              `json:"measured_values"`
	Simulated int              `json:"simulated_values"`
	Figures   []comparedFigure `json:"figures"`
	Absent    []string         `json:"absent,omitempty"` // the quantiles that so few values cannot bear
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
		r.Server.NeighbourWorkload = p.neighbour.Workload
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
	for _, p := range []float64{.5, .9, .95, .99} {
		if !bears(len(simulated), p) {
			out.Absent = append(out.Absent, quantileName(p))
		}
	}
	if len(measured) == 0 {
		sorted := slices.Sorted(slices.Values(simulated))
		sum := 0.0
		for _, v := range sorted {
			sum += v
		}
		out.Figures = append(out.Figures, comparedFigure{Figure: "mean", Simulated: sum / float64(len(sorted))})
		for _, p := range []float64{.5, .9, .95, .99} {
			if bears(len(sorted), p) {
				out.Figures = append(out.Figures, comparedFigure{Figure: quantileName(p), Simulated: serving.Quantile(sorted, p)})
			}
		}
		return out
	}
	c := serving.Compare(name, measured, simulated, seed)
	for _, e := range append([]serving.Error{c.Mean}, c.Quantiles...) {
		if !bears(len(measured), e.P) {
			continue
		}
		inside := e.Inside(0)
		out.Figures = append(out.Figures, comparedFigure{Figure: quantileName(e.P), Simulated: e.Simulated, Measured: finite(e.Measured),
			Error: finite(e.Relative), Low: finite(e.Low), High: finite(e.High), Inside: &inside})
	}
	out.KS, out.W1 = finite(c.KS), finite(c.W1)
	return out
}

// bears says whether n values can tell a quantile: with fewer than 1/(1−p) it is
// their maximum (docs/metrics.md). The mean has p 0.
func bears(n int, p float64) bool { return float64(n)*(1-p) > 1-1e-9 }

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
	neighbour := s.Neighbour > 0 || s.NeighbourWorkload != ""
	if neighbour {
		b.WriteString(", a neighbour")
	}
	if s.NeighbourWorkload != "" {
		b.WriteString(" like " + s.NeighbourWorkload)
	}
	if s.Neighbour > 0 {
		fmt.Fprintf(&b, " with %g requests a second", s.Neighbour)
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
	for _, m := range r.Metrics {
		if m.Absent != nil {
			fmt.Fprintf(&b, "%s of %d values has no %s\n", strings.ToUpper(m.Name), m.Simulated, strings.Join(m.Absent, ", "))
		}
	}
	if t.Measured == 0 {
		b.WriteString("The trace tells no times, so there is nothing to hold these against.\n")
	}
	preempted := fmt.Sprintf("%d preemptions of %d requests", c.Preemptions, c.Preempted)
	if neighbour {
		preempted = fmt.Sprintf("%d preemptions, the neighbour's with them, and %d requests of the trace among the preempted", c.Preemptions, c.Preempted)
	}
	each := ""
	if c.Replicas > 1 {
		each = ", all replicas together,"
	}
	fmt.Fprintf(&b, "server: %d finished, %d failed; %s; KV peak %d of %d blocks (%.0f %%); %d steps, busy %.1f s%s of %.1f s\n",
		c.Finished, c.Failed, preempted, c.KVPeak, c.KVBlocks, float64(c.KVPeak)/float64(c.KVBlocks)*100, c.Steps,
		float64(c.Busy)/1e9, each, float64(c.End)/1e9)
	_, err := io.WriteString(w, b.String())
	return err
}
