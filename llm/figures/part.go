package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
	"firstsound/page"
)

// A partKey names the attempts whose figures belong together.
type partKey struct {
	phase  record.Phase
	level  int
	rate   float64
	prompt int
	pause  time.Duration
	turn   int
}

// keyOf returns the part that an attempt belongs to.
func keyOf(a *record.Attempt) partKey {
	k := partKey{phase: a.Phase}
	switch a.Phase {
	case record.Level:
		k.level = a.Level
	case record.Rate:
		k.rate = a.AskedRate
	case record.PromptSize:
		k.prompt = a.PromptTarget
	case record.Conversation:
		k.turn = a.Turn
	case record.IdleGap:
		k.pause = a.Pause
	}
	return k
}

// name returns the part's name for people; its key is that without blanks.
func (k partKey) name() string {
	switch k.phase {
	case record.Level:
		return fmt.Sprintf("level %d", k.level)
	case record.Rate:
		return fmt.Sprintf("rate %s/s", number(k.rate))
	case record.PromptSize:
		return fmt.Sprintf("prompt %d", k.prompt)
	case record.Conversation:
		return fmt.Sprintf("turn %d", k.turn)
	case record.IdleGap:
		return fmt.Sprintf("idle %s", k.pause)
	}
	return page.Clean(string(k.phase))
}

// number returns f in as few digits as it has.
func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// phaseOrder is the order in which the parts are shown.
var phaseOrder = []record.Phase{record.Single, record.Level, record.Rate, record.PromptSize, record.Conversation, record.NewConn, record.IdleGap, record.Call}

// compareKeys orders parts.
func compareKeys(a, b partKey) int {
	place := func(p record.Phase) int {
		if i := slices.Index(phaseOrder, p); i >= 0 {
			return i
		}
		return len(phaseOrder)
	}
	return cmp.Or(cmp.Compare(place(a.phase), place(b.phase)), cmp.Compare(a.phase, b.phase), cmp.Compare(a.level, b.level),
		cmp.Compare(a.rate, b.rate), cmp.Compare(a.prompt, b.prompt), cmp.Compare(a.turn, b.turn), cmp.Compare(a.pause, b.pause))
}

// A part gathers the attempts of one part of a run.
type part struct {
	key     partKey
	exact   int
	goodput []Limit

	values       [metricCount]*quantile.Series
	sampled      map[int]*sample // ttft and tpot, for bootstrap intervals
	warmup       int64
	warmTTFT     *quantile.Series
	attempted    int64
	ends         names // by kind, ok included
	failed       int64
	open         *quantile.Series // how long the unfinished ones had been open
	good         int64
	merged       int64 // gaps between content events that are not known
	bounds       bounds
	noTPOT       names
	tokens       int64 // of output, of ok attempts
	counted      int64 // ok attempts with a count of them
	asked, below int64 // replies with max_tokens; those shorter

	firstSend, lastSend, firstDue, lastDue, lastEnd *time.Duration

	sum    sums
	server served
}

// sums are what R12 adds up, of the attempts that have all of it.
type sums struct{ n, ttft, decode, total int64 }

func newPart(k partKey, o Options) *part {
	p := &part{key: k, exact: o.Exact, goodput: o.Goodput, ends: names{}, noTPOT: names{},
		warmTTFT: quantile.New(o.Exact), open: quantile.New(o.Exact),
		sampled: map[int]*sample{ttft: newSample(), tpot: newSample()}}
	for m := range p.values {
		p.values[m] = quantile.New(o.Exact)
	}
	p.bounds.low = quantile.New(o.Exact)
	p.server = newServed(o.Exact)
	return p
}

// kind names how an attempt ended.
func kind(a *record.Attempt) string {
	if a.Class == record.HTTPError {
		return fmt.Sprintf("%s(%d)", a.Class, a.Status)
	}
	return string(a.Class)
}

// isFailure returns whether an attempt of this class failed: no usable answer
// came, and neither the client nor the end of the run was the reason.
func isFailure(c record.Class) bool {
	switch c {
	case record.OK, record.ToolOnly, record.ReasoningOnly, record.Cancelled, record.Unfinished:
		return false
	}
	return true
}

// add takes an attempt of the part.
func (p *part) add(a *record.Attempt) {
	if a.Warmup {
		p.warmup++
		if a.Class == record.OK && a.TTFT != nil {
			p.warmTTFT.Add(int64(*a.TTFT))
		}
		return
	}
	p.attempted++
	p.ends.add(kind(a))
	p.window(a)
	if isFailure(a.Class) {
		p.failed++
	}
	if late := between(a.Due, a.Send); late != nil {
		p.values[sendLate].Add(*late)
	}
	if a.Class == record.Unfinished && a.Total != nil {
		p.open.Add(int64(*a.Total))
	}
	if a.Class == record.OK {
		p.addOK(a)
	}
}

// window widens the time in which the part was measured.
func (p *part) window(a *record.Attempt) {
	least := func(at **time.Duration, d *time.Duration) {
		if d != nil && (*at == nil || *d < **at) {
			*at = new(*d)
		}
	}
	most := func(at **time.Duration, d *time.Duration) {
		if d != nil && (*at == nil || *d > **at) {
			*at = new(*d)
		}
	}
	least(&p.firstSend, a.Send)
	most(&p.lastSend, a.Send)
	least(&p.firstDue, a.Due)
	most(&p.lastDue, a.Due)
	most(&p.lastEnd, a.End)
}

// addOK takes the latencies of an attempt.
func (p *part) addOK(a *record.Attempt) {
	for m := range metrics {
		if metrics[m].of == nil || m == sendLate {
			continue
		}
		if v := metrics[m].of(a); v != nil {
			p.values[m].Add(*v)
			if s := p.sampled[m]; s != nil {
				s.add(*v)
			}
		}
	}
	p.bounds.add(a)
	g := gapsOf(a.Chunks, p.values[itl].Add)
	p.merged += g.merged
	if g.n > 0 {
		p.values[itlMean].Add(g.sum / g.n)
	}
	if g.longest != nil {
		p.values[stall].Add(*g.longest)
	}
	if a.TPOT == nil {
		p.noTPOT.add(cmp.Or(a.TPOTAbsent, "no reason given"))
	}
	if n := count(a.OutputTokens); n != nil {
		p.tokens += *n
		p.counted++
		if a.MaxTokens > 0 {
			p.asked++
			if *n < int64(a.MaxTokens) {
				p.below++
			}
		}
	}
	if isGood(a, p.goodput) {
		p.good++
	}
	if decode, ok := decoding(a); ok && a.TTFT != nil && a.Total != nil {
		p.sum.n++
		p.sum.ttft += int64(*a.TTFT)
		p.sum.decode += decode
		p.sum.total += int64(*a.Total)
	}
	p.server.add(a)
}
