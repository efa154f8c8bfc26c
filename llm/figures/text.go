package figures

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"firstsound/llm/record"
	"firstsound/page"
)

// WriteText writes the report for people, in plain text.
func (r *Report) WriteText(w io.Writer, o TextOptions) error {
	p := newSheet(o)
	p.title(r)
	p.overview(r)
	p.parts(r)
	p.load(r)
	p.prompts(r)
	p.connections(r)
	p.sums(r)
	p.servers(r)
	p.tool(&r.Tool)
	p.selection(r)
	p.run(r)
	return p.write(w)
}

// title writes what was measured, and what is wrong with it.
func (p *sheet) title(r *Report) {
	run := &r.Head.Run
	parts := []string{"bench llm"}
	for _, s := range []string{run.Target.Model, run.Target.Dialect} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if run.Clock != "" {
		parts = append(parts, run.Clock+" clock")
	}
	parts = append(parts, fmt.Sprintf("seed %d", run.Seed), countOf(r.Head.Measured, "request"), orState(run.State))
	p.Line("%s  %s", p.Style(page.Bold, "firstsound"), page.Cut(plain(page.Clean(strings.Join(parts, " · "))), p.Width-12))
	where := run.Target.URL
	if len(run.Target.Addresses) > 0 {
		where += " (" + joined(run.Target.Addresses, ", ") + ")"
	}
	p.Text("  ", "", fmt.Sprintf("target %s over %s; tester: %s, network: %s", orUnknown(where), orUnknown(listed(r.Head.Protocols)), orUnknown(run.Tester.Place), orUnknown(run.Tester.Network)))
	p.Text("  ", "", fmt.Sprintf("%s: %s ok, %s not; %s more left out as warm-up; arrivals timed by %s", countOf(r.Head.Measured, "request"), page.Grouped(r.Head.OK), page.Grouped(r.Head.Measured-r.Head.OK),
		page.Grouped(r.Head.Warmups), orUnknown(listed(r.Head.Stamps))))
	for _, w := range r.Warnings {
		p.Item("!  ", page.Red, w.Text)
	}
}

// plain writes ties as the blanks that they stand for.
func plain(s string) string { return strings.ReplaceAll(s, page.Tie, " ") }

// orUnknown returns s, or that it is not known.
func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}

// cell returns a quantile for a table. Where n does not support it, the maximum
// stands in its place, in brackets; nothing does where values were left out.
func cell(v *Values, q Quantile, unit string) string {
	switch {
	case q.Supported && q.Value != nil:
		return inUnit(*q.Value, unit)
	case q.Because != "":
		return "–"
	case v.Max != nil:
		return "(" + inUnit(*v.Max, unit) + ")"
	}
	return "–"
}

// overview writes the headline: TTFT and TPOT of every part that is no sweep.
func (p *sheet) overview(r *Report) {
	p.numbered("Time to first token", "client view: from sending the request to the first visible content, in ms")
	p.Line("  %s%s%s%s%s%s%s%s%s", page.Left("", 11), page.Right("P50", 10), page.Right("P95", 10), page.Right("P99", 10), page.Right("max", 9), page.Right("TPOT P50", 9), page.Right("n", 6), page.Right("failed", 8), page.Right("open", 5))
	shown := 0
	for _, part := range r.Parts {
		if !isMain(part.Phase) {
			continue
		}
		shown++
		row := "  " + page.Left(page.Cut(page.Clean(part.Name), 10), 11)
		if m := part.metric("ttft"); m != nil {
			v := &m.Values
			row += p.Style(page.Bold, page.Right(cell(v, v.P50, unitNS), 10)) + page.Right(cell(v, v.P95, unitNS), 10) + page.Right(cell(v, v.P99, unitNS), 10) + page.Right(msOrDash(v.Max), 9)
		} else {
			row += strings.Repeat(page.Right("–", 10), 3) + page.Right("–", 9)
		}
		tp := "–"
		if m := part.metric("tpot"); m != nil {
			tp = cell(&m.Values, m.Values.P50, unitNS)
		}
		open := int64(0)
		if part.Open != nil {
			open = part.Open.N
		}
		p.Line("%s%s%s%s%s", row, page.Right(tp, 9), page.Right(page.Grouped(part.OK), 6), page.Right(plain(share(part.Failed, part.Attempted)), 8), page.Right(page.Grouped(open), 5))
	}
	if shown == 0 {
		p.Line("  no part was measured with requests one at a time, at a level or at a rate")
		return
	}
	p.Text("  ", page.Dim, fmt.Sprintf("( ): not supported by n, the maximum in its place; P50 needs %d values, P95 %d, P99 %d. Failed and still open requests have no latency and are in no quantile",
		needs["p50"], needs["p95"], needs["p99"]))
}

// parts writes the metrics of every part that is no sweep.
func (p *sheet) parts(r *Report) {
	p.numbered("All metrics", "client view, of the ok requests, in ms; second lines: 95 % intervals")
	for _, part := range r.Parts {
		if !isMain(part.Phase) {
			continue
		}
		p.Line("  %s%s%s%s%s%s%s", p.Style(page.Bold, page.Left(page.Cut(page.Clean(part.Name), 17), 18)), page.Right("P50", 10), page.Right("P95", 10), page.Right("P99", 10), page.Right("max", 10), page.Right("mean", 10), page.Right("n", 8))
		for i := range part.Metrics {
			p.metric(&part.Metrics[i])
		}
		p.beside(part)
		p.Line("")
	}
	if r.Retried != nil {
		p.Text("  ", "", fmt.Sprintf("asked again: %s ok at a later attempt; counted from their first, TTFT is %s ms at the median, %s at most", countOf(r.Retried.N, "request"), cell(r.Retried, r.Retried.P50, unitNS), msOrDash(r.Retried.Max)))
	}
	p.Text("  ", page.Dim, "ITL, each gap: all gaps pooled, so that long answers weigh more; by request: each request's mean, every request the same. The gaps of a request are alike: the interval of the pooled ones is too narrow")
}

// metric writes a metric and its intervals.
func (p *sheet) metric(m *Metric) {
	v := &m.Values
	p.Line("  %s%s%s%s%s%s%s", page.Left(m.Title, 18), page.Right(cell(v, v.P50, m.Unit), 10), page.Right(cell(v, v.P95, m.Unit), 10), page.Right(cell(v, v.P99, m.Unit), 10),
		page.Right(inUnit(*v.Max, m.Unit), 10), page.Right(inUnit(*v.Mean, m.Unit), 10), page.Right(page.Grouped(v.N), 8))
	var intervals []string
	for _, name := range quantileNames {
		if q := v.pick(name); q.Supported && (q.Low == nil || q.High == nil || *q.Low != *q.High) {
			intervals = append(intervals, upper(name)+page.Tie+intervalOf(q, m.Unit))
		}
	}
	if len(intervals) > 0 {
		p.Text("    ", page.Dim, joined(intervals, " · "))
	}
}

// beside writes what stands beside the quantiles of a part: who is not in them.
func (p *sheet) beside(part *Part) {
	style := page.Dim
	out := fmt.Sprintf("not ok: none of %s", countOf(part.Attempted, "attempt"))
	if len(part.NotOK) > 0 {
		var kinds []string
		for _, e := range part.NotOK {
			kinds = append(kinds, fmt.Sprintf("%s%s%s (%s)", e.Kind, page.Tie, page.Grouped(e.N), share(e.N, part.Attempted)))
		}
		style = page.Red
		out = fmt.Sprintf("not ok, of %s: %s", countOf(part.Attempted, "attempt"), joined(kinds, ", "))
		if o := part.Open; o != nil {
			out += fmt.Sprintf("; still open at the end: ≥%s%s", page.Tie, withUnit(o.Least, unitNS))
			if o.Most > o.Least {
				out += fmt.Sprintf(" to ≥%s%s", page.Tie, withUnit(o.Most, unitNS))
			}
		}
	}
	p.Text("    ", style, out)
	if w := part.Warmup; w.N > 0 {
		out := fmt.Sprintf("warm-up, left out: %s", countOf(w.N, "request"))
		if w.TTFT.P50.Value != nil {
			out += fmt.Sprintf(", TTFT %s at the median, %s at most", withUnit(*w.TTFT.P50.Value, unitNS), withUnit(*w.TTFT.Max, unitNS))
		}
		p.Text("    ", page.Dim, out)
	}
	if b := part.Bounds; b != nil {
		p.Text("    ", page.Dim, b.text())
	}
	if part.MergedITL > 0 {
		p.Text("    ", page.Dim, part.mergedGaps())
	}
	for _, e := range part.NoTPOT {
		p.Text("    ", page.Dim, fmt.Sprintf("TPOT not measurable in %s: %s", countOf(e.N, "reply"), e.Kind))
	}
}

// load writes throughput, and how load lengthens the latencies.
func (p *sheet) load(r *Report) {
	p.numbered("Load", "throughput per second of the measured time; goodput over all attempts")
	p.Line("  %s%s%s%s%s%s%s%s", page.Left("", 12), page.Right("ok req/s", 10), page.Right("tokens/s", 10), page.Right("asked/s", 9), page.Right("due/s", 9), page.Right("sent/s", 9), page.Right("good", 9), page.Right("good/s", 9))
	for _, part := range r.Parts {
		t := &part.Throughput
		if !isMain(part.Phase) {
			continue
		}
		good, rate := "–", "–"
		if g := t.Goodput; g != nil {
			good, rate = plain(share(g.Good, g.Of)), perSecond(g.PerS)
		}
		p.Line("  %s%s%s%s%s%s%s%s", page.Left(page.Cut(page.Clean(part.Name), 12), 12), page.Right(perSecond(t.Requests), 10), page.Right(perSecond(t.Tokens), 10), page.Right(perSecond(t.Asked), 9), page.Right(perSecond(t.Due), 9), page.Right(perSecond(t.Sent), 9), page.Right(good, 9), page.Right(rate, 9))
	}
	if len(r.GoodputAsked) > 0 {
		var limits []string
		for _, l := range r.GoodputAsked {
			limits = append(limits, l.Metric+" ≤"+page.Tie+inMS(l.Most))
		}
		p.Text("  ", page.Dim, "good, of all attempts: "+joined(limits, ", "))
	} else {
		p.Text("  ", page.Dim, "no goodput: no limits were given (ttft:300,tpot:50,e2e:2000)")
	}
	if len(r.Worsening) == 0 {
		return
	}
	p.Line("")
	p.Line("  how many times as long as in %s, with 95 %% intervals (bootstrap)", r.Worsening[0].From)
	for i := 0; i+2 < len(r.Worsening); i += 3 {
		w := r.Worsening[i]
		name := "TTFT"
		if w.Metric == metrics[tpot].key {
			name = "TPOT"
		}
		part := r.part(w.To)
		var cells []string
		for _, w := range r.Worsening[i : i+3] {
			cells = append(cells, upper(w.Of)+page.Tie+strings.ReplaceAll(w.text(), " ", page.Tie))
		}
		p.Item("  "+page.Left(part.Name, 12)+name+"  ", "", joined(cells, " · "))
	}
}

// text returns the ratio with its interval, or why there is none.
func (w *Worsening) text() string {
	if w.Ratio == nil {
		return w.Verdict
	}
	out := fmt.Sprintf("×%.2f (%.2f … %.2f)", *w.Ratio, *w.Low, *w.High)
	if w.Verdict == noShown {
		out += " " + noShown
	}
	return out
}

// perSecond returns a rate.
func perSecond(f *float64) string {
	switch {
	case f == nil:
		return "–"
	case *f >= 100:
		return fmt.Sprintf("%.0f", *f)
	}
	return fmt.Sprintf("%.2f", *f)
}

// prompts writes TTFT by the length of the prompt, and by turn.
func (p *sheet) prompts(r *Report) {
	p.sweepTable(r, record.PromptSize, "Prompt length", "one at a time; TTFT in ms, tokens at the median")
	if s := r.Sweep; s != nil && s.Slope != nil {
		out := fmt.Sprintf("TTFT grows by %.1f ms per 1,000 prompt tokens (95 %% %.1f … %.1f; %s)", *s.Slope, *s.Low, *s.High, s.Method)
		if *s.Low <= 0 && *s.High >= 0 {
			out += ": no growth shown"
		}
		p.Text("  ", "", out)
	} else if s != nil {
		p.Text("  ", page.Dim, "no slope: "+s.Absent)
	}
	p.sweepTable(r, record.Conversation, "Conversation", "TTFT by turn in ms, tokens at the median")
}

// sweepTable writes a line for each part of a phase.
func (p *sheet) sweepTable(r *Report, phase record.Phase, name, note string) {
	first := true
	for _, part := range r.Parts {
		if part.Phase != phase {
			continue
		}
		if first {
			p.numbered(name, note)
			p.Line("  %s%s%s%s%s%s%s%s", page.Left("", 14), page.Right("P50", 10), page.Right("P95", 10), page.Right("max", 10), page.Right("prompt", 9), page.Right("cached", 8), page.Right("n", 8), page.Right("failed", 9))
			first = false
		}
		row := "  " + page.Left(part.Name, 14)
		if m := part.metric("ttft"); m != nil {
			v := &m.Values
			row += p.Style(page.Bold, page.Right(cell(v, v.P50, unitNS), 10)) + page.Right(cell(v, v.P95, unitNS), 10) + page.Right(msOrDash(v.Max), 10)
		} else {
			row += strings.Repeat(page.Right("–", 10), 3)
		}
		p.Line("%s%s%s%s%s", row, page.Right(medianTokens(part, "prompt_tokens"), 9), page.Right(medianTokens(part, "cached_tokens"), 8), page.Right(page.Grouped(part.OK), 8), page.Right(plain(share(part.Failed, part.Attempted)), 9))
	}
}

// medianTokens returns the median of a count, which the sample has or has not.
func medianTokens(part *Part, name string) string {
	if m := part.metric(name); m != nil && m.Values.P50.Value != nil {
		return page.Grouped(*m.Values.P50.Value)
	}
	return "–"
}

// run writes what has to be known to trust the figures and make them again.
func (p *sheet) run(r *Report) {
	run := &r.Head.Run
	p.Line("")
	out := fmt.Sprintf("tokens: output by %s; prompt by %s", orUnknown(counts(r.Tokens.Output)), orUnknown(counts(r.Tokens.Prompt)))
	if r.Tokens.Asked > 0 {
		out += fmt.Sprintf("; %s of the replies are shorter than max_tokens", share(r.Tokens.Below, r.Tokens.Asked))
	}
	if c := r.Tokens.Cached; c != nil {
		out += fmt.Sprintf("; cached prompt tokens: %d on average, %d at most", *c.Mean, *c.Max)
	}
	p.Text("  ", "", out)
	var fixed []string
	for _, k := range slices.Sorted(maps.Keys(run.Fixed)) {
		fixed = append(fixed, strings.ReplaceAll(k+"="+run.Fixed[k], " ", page.Tie))
	}
	p.Item("  fixed: ", "", joined(fixed, " · "))
	for _, n := range run.Notes {
		p.Item("  note:  ", "", n)
	}
	p.Item("  by:    ", page.Dim, fmt.Sprintf("%s %s %s/%s, %d CPUs", run.Tool, run.Go, run.OS, run.Arch, run.CPUs))
	p.Item("  again: ", page.Dim, run.Command)
}
