package figures

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
	"firstsound/page"
)

// Bounds say how far TTFT is known where the first content event came with others
// in one read: it arrived with the last of them at the latest, which is what TTFT
// has, and when the first of them may have at the earliest.
type Bounds struct {
	N   int64  `json:"upper_bounds"` // requests whose TTFT is an upper bound
	Of  int64  `json:"ok"`
	Low Values `json:"lower_ns"` // TTFT of all, with the lower bound of those
	// Apart says that P50 or P95 of the bounds differ by more than 5 %: then TTFT
	// is not known as well as its interval says.
	Apart bool `json:"apart"`

	high Values
}

// bounds gathers lower bounds of TTFT.
type bounds struct {
	low *quantile.Series
	n   int64 // below TTFT
}

// add takes the lower bound of an ok attempt: that of its first event, but no
// request is answered before it is sent.
func (b *bounds) add(a *record.Attempt) {
	if a.TTFT == nil {
		return
	}
	low := *a.TTFT
	if len(a.Chunks) > 0 && a.Chunks[0].Merged() && a.Send != nil {
		b.n++
		low = min(low, max(*a.Chunks[0].Earliest-*a.Send, 0))
	}
	b.low.Add(int64(low))
}

// report returns the bounds beside the upper ones; nil if there are none.
func (b *bounds) report(high *quantile.Series) *Bounds {
	if b.n == 0 {
		return nil
	}
	out := &Bounds{N: b.n, Of: b.low.N(), Low: valuesOf(b.low), high: valuesOf(high)}
	for _, name := range []string{"p50", "p95"} {
		low, high := out.pair(name)
		out.Apart = out.Apart || low != nil && high != nil && float64(*high-*low) > bentShare*float64(*high)
	}
	return out
}

// pair returns a quantile by the lower bounds and by the upper ones, as tables
// show them.
func (b *Bounds) pair(name string) (low, high *int64) {
	return b.Low.shown(b.Low.pick(name)), b.high.shown(b.high.pick(name))
}

// text says whose TTFT is an upper bound, and what it is by the lower ones.
func (b *Bounds) text() string {
	out := fmt.Sprintf("TTFT of %s of %s is an upper bound (their first events came with others in one read); by the lower bounds:", page.Grouped(b.N), page.Grouped(b.Of))
	for i, name := range quantileNames {
		if i > 0 {
			out += ","
		}
		out += " " + upper(name) + page.Tie + cell(&b.Low, b.Low.pick(name), unitNS)
	}
	return out
}

// apart returns the parts whose bounds of TTFT are apart, with them.
func (r *Report) apart() []string {
	var out []string
	for _, p := range r.Parts {
		b := p.Bounds
		if b == nil || !b.Apart {
			continue
		}
		line := fmt.Sprintf("%s (%s of %s:", p.Name, page.Grouped(b.N), page.Grouped(b.Of))
		for i, name := range []string{"p50", "p95"} {
			low, high := b.pair(name)
			what := upper(name)
			if !b.high.pick(name).Supported {
				what = "max"
			}
			if i > 0 {
				line += ","
			}
			line += fmt.Sprintf(" %s %s to %s", what, ms(*low), ms(*high))
		}
		out = append(out, line+" ms)")
	}
	return out
}

// mergedGaps says which gaps are not among the values of ITL, and what that does.
func (p *Part) mergedGaps() string {
	m := p.metric(metrics[itl].key)
	if m == nil {
		return fmt.Sprintf("ITL: none of %s is known, their events came with one read", countOf(p.MergedITL, "gap"))
	}
	out := fmt.Sprintf("ITL: %s of %s left out (%s), their events came with one read; the longest are likely among them", page.Grouped(p.MergedITL), countOf(p.MergedITL+m.Values.N, "gap"), share(p.MergedITL, p.MergedITL+m.Values.N))
	var lost []string
	for _, name := range quantileNames {
		if m.Values.pick(name).Because != "" {
			lost = append(lost, upper(name))
		}
	}
	if len(lost) > 0 {
		out += ": not supported: " + joined(lost, ", ")
	}
	return out
}

// notStreamed returns whether the answer came as one JSON object. (Some services
// stream events under that type.)
func notStreamed(a *record.Attempt) bool {
	return strings.HasPrefix(strings.ToLower(a.Header["content-type"]), "application/json") && a.Events <= 1 && len(a.Chunks) <= 1
}

// A recordKey names an attempt.
type recordKey struct {
	id     string
	number int
}

// wrongIn says why a record cannot be right; "" if it can.
func (s *Summary) wrongIn(a *record.Attempt) string {
	key := recordKey{a.RequestID, a.Number}
	twice := a.RequestID != "" && s.seen[key]
	if a.RequestID != "" && len(s.seen) < maxSeen {
		s.seen[key] = true
	}
	switch {
	case twice:
		return "the same request and attempt is there twice"
	case !slices.Contains(record.Classes, a.Class):
		return "its class is not known"
	}
	for _, d := range []*time.Duration{a.TTFT, a.TPOT, a.Total} {
		if d != nil && *d < 0 {
			return "a time is below nothing"
		}
	}
	for _, n := range []*int{a.PromptTokens, a.CachedTokens, a.OutputTokens} {
		if n != nil && count(n) == nil {
			return "no count of tokens is so"
		}
	}
	return ""
}
