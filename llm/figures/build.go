package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
)

// Report returns what the attempts so far come to. The Summary can go on after it,
// and the report stays as it is.
func (s *Summary) Report(run record.Run) *Report {
	r := &Report{Format: ReportFormat, Parts: []*Part{}, GoodputAsked: s.opts.Goodput}
	r.Head = Head{Run: run, Attempts: s.attempts, Warmups: s.warmups, Stamps: maps.Clone(s.stamps), Protocols: maps.Clone(s.protocols)}
	for _, p := range s.sortedParts() {
		out := p.report(run)
		r.Parts = append(r.Parts, out)
		r.Head.Measured += out.Attempted
		r.Head.OK += out.OK
		r.Tokens.Below += p.below
		r.Tokens.Asked += p.asked
	}
	base := r.base()
	for _, p := range r.Parts {
		if p.Sum != nil {
			p.Sum.judge(p, base, s.opts.Targets)
		}
		if p != base && base != nil && p.Phase == record.Level {
			r.Worsening = append(r.Worsening, worsening(base, p)...)
		}
	}
	r.Tokens.Output, r.Tokens.Prompt = maps.Clone(s.tokenSources), maps.Clone(s.promptSources)
	if s.cached.N() > 0 {
		r.Tokens.Cached = new(valuesOf(s.cached))
	}
	if s.retried.N() > 0 {
		r.Retried = new(valuesOf(s.retried))
	}
	r.Connections = s.conn.report()
	r.Sweep = s.sweepReport()
	r.Network = s.network()
	r.Tool = s.tool(r)
	r.Targets = r.targetRows(s.opts.Targets)
	r.Scenes = r.scenes()
	r.Warnings = s.warnings(r)
	return r
}

func (s *Summary) sortedParts() []*part {
	var out []*part
	for _, p := range s.parts {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *part) int { return compareKeys(a.key, b.key) })
	return out
}

// base returns the part that load is held against: requests one at a time, else
// the level of one; nil if neither has ok requests.
func (r *Report) base() *Part {
	for _, p := range r.Parts {
		if p.OK > 0 && (p.Phase == record.Single || p.Phase == record.Level && p.Level == 1) {
			return p
		}
	}
	return nil
}

// headline returns the part whose figures stand for the run: the base, else the
// first that is no sweep, else the first; nil if there is none.
func (r *Report) headline() *Part {
	if b := r.base(); b != nil {
		return b
	}
	for _, p := range r.Parts {
		if isMain(p.Phase) && p.OK > 0 {
			return p
		}
	}
	if len(r.Parts) > 0 {
		return r.Parts[0]
	}
	return nil
}

// report returns what the attempts of a part come to.
func (p *part) report(run record.Run) *Part {
	k := p.key
	name := k.name()
	out := &Part{Key: withoutBlanks(name), Name: name, Phase: k.phase, Level: k.level, AskedRate: k.rate, PromptTarget: k.prompt, Turn: k.turn, Pause: int64(k.pause),
		Attempted: p.attempted, OK: p.ends[string(record.OK)], Failed: p.failed, FailedShare: ratio(p.failed, p.attempted),
		Warmup: Warmup{N: p.warmup, TTFT: valuesOf(p.warmTTFT)}, Metrics: []Metric{}, MergedITL: p.merged, MergedITLShare: ratio(p.merged, p.merged+p.values[itl].N()), Bounds: p.bounds.report(p.values[ttft]), key: k, sampled: map[int][]int64{}}
	for m, s := range p.sampled {
		out.sampled[m] = s.sorted()
	}
	for _, e := range endings(p.ends, p.attempted) {
		if e.Kind != string(record.OK) {
			out.NotOK = append(out.NotOK, e)
		}
	}
	if n := p.ends[string(record.Unfinished)]; n > 0 {
		out.Open = &Censored{N: n}
		if v := valuesOf(p.open); v.N > 0 {
			out.Open.Least, out.Open.Most = *v.Min, *v.Max
		}
	}
	out.NoTPOT = endings(p.noTPOT, out.OK)
	for m := range metrics {
		if p.values[m].N() == 0 {
			continue
		}
		i := &metrics[m]
		row := Metric{Key: i.key, Title: i.title, Unit: i.unit, Means: i.means, Values: valuesOf(p.values[m])}
		if m == itl {
			row.Values.leaveOut(out.MergedITLShare, plain(fmt.Sprintf("%s of the gaps are not known, and likely the longest", share(p.merged, p.merged+row.Values.N))))
		}
		if m == ttft && p.values[firstReasoning].N() > 0 {
			row.Title = "TTFT, answer"
			row.Means += ": the first answer token, after reasoning"
		}
		out.Metrics = append(out.Metrics, row)
	}
	if k.phase != record.Conversation {
		out.Throughput = p.throughput(run, out.OK)
	}
	out.Sum = p.sum.report()
	out.Server = p.server.report(out.OK)
	return out
}

// endings returns what was counted, most first.
func endings(n names, of int64) []Ending {
	var out []Ending
	for kind, count := range n {
		out = append(out, Ending{kind, count, ratio(count, of)})
	}
	slices.SortFunc(out, func(a, b Ending) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Kind, b.Kind)) })
	return out
}

// ratio returns n/of; 0 of nothing is 0.
func ratio(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// throughput returns how much came of a part, per second of the time in which it
// was measured: as the plan says, else from the first send to the last end.
func (p *part) throughput(run record.Run, ok int64) Throughput {
	out := Throughput{}
	window := between(p.firstSend, p.lastEnd)
	for _, plan := range run.Plan {
		k := keyOf(&record.Attempt{Phase: plan.Phase, Level: plan.Level, AskedRate: plan.AskedRate, PromptTarget: plan.PromptTarget, Pause: plan.Pause})
		if k == p.key && plan.Began != nil && plan.Ended != nil {
			window = between(plan.Began, plan.Ended)
		}
	}
	perSecond := func(n int64) *float64 { return new(float64(n) / time.Duration(*window).Seconds()) }
	if window != nil && *window > 0 {
		out.Window, out.Requests = window, perSecond(ok)
		if p.counted > 0 {
			out.Tokens = perSecond(p.tokens)
		}
	}
	if p.goodput != nil && p.attempted > 0 {
		out.Goodput = &Goodput{Good: p.good, Of: p.attempted, Share: ratio(p.good, p.attempted)}
		if out.Window != nil {
			out.Goodput.PerS = perSecond(p.good)
		}
	}
	if p.key.phase != record.Rate {
		return out
	}
	between1 := func(from, to *time.Duration) *float64 { // n requests have n−1 gaps
		if d := between(from, to); d != nil && *d > 0 && p.attempted > 1 {
			return new(float64(p.attempted-1) / time.Duration(*d).Seconds())
		}
		return nil
	}
	out.Asked, out.Due, out.Sent = &p.key.rate, between1(p.firstDue, p.lastDue), between1(p.firstSend, p.lastSend)
	return out
}

// underDelivered returns whether requests were sent at less than 98 % of the rate
// at which they were due; where that is not known, of the rate asked for, less
// three standard deviations of a Poisson count.
func (t *Throughput) underDelivered(n int64) bool {
	switch {
	case t.Sent == nil || t.Asked == nil:
		return false
	case t.Due != nil && *t.Sent < 0.98**t.Due:
		return true
	}
	return *t.Sent < 0.98**t.Asked*(1-3/math.Sqrt(float64(max(n, 9))))
}

// report returns the means of the terms; nil without an attempt that has all.
func (s *sums) report() *Sum {
	if s.n == 0 {
		return nil
	}
	out := &Sum{N: s.n, TTFT: s.ttft / s.n, Decode: s.decode / s.n, Total: s.total / s.n}
	out.Rest = out.Total - out.TTFT - out.Decode
	return out
}

// report returns what setting up connections took.
func (c *connections) report() Connections {
	return Connections{New: c.fresh, Reused: c.reused, Unknown: c.unknown, DNS: valuesOf(c.dns), TCP: valuesOf(c.tcp), TLS: valuesOf(c.tls),
		TTFTNew: valuesOf(c.ttft[0]), TTFTReused: valuesOf(c.ttft[1])}
}

// sweepReport returns how TTFT grows with the prompt; nil if that was not measured.
func (s *Summary) sweepReport() *Sweep {
	if s.sweep.n == 0 {
		return nil
	}
	out := &Sweep{N: s.sweep.n, Method: "least squares over the requests, 95 % t-interval of the slope; prompt tokens as counted, else as aimed at"}
	at, half, ok := s.sweep.slope()
	if !ok {
		out.Absent = "a slope needs 12 requests and two lengths"
		return out
	}
	const unit = 1000 / 1e6 // ns a token -> ms a thousand tokens
	out.Slope, out.Low, out.High = new(at*unit), new((at-half)*unit), new((at+half)*unit)
	return out
}

// network returns the network's part of TTFT, where there is no server's word.
func (s *Summary) network() *Network {
	if s.rtt.N() == 0 || len(s.serverSources) > 0 {
		return nil
	}
	mean := func(q *quantile.Series) float64 { return float64(*q.Distribution().Mean) }
	out := &Network{N: s.rtt.N(), RTT: valuesOf(s.rtt), MinRTT: valuesOf(s.minRTT), TTFT: valuesOf(s.netTTFT)}
	if t := mean(s.netTTFT); t > 0 {
		out.Share = mean(s.minRTT) / t
	}
	return out
}
