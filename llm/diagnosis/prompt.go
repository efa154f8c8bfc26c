package diagnosis

import (
	"fmt"
	"math"

	"firstsound/llm/record"
)

// uncached returns the prompt tokens that the server had to compute.
func uncached(a *record.Attempt) (float64, bool) {
	if a.PromptTokens == nil {
		return 0, false
	}
	n := *a.PromptTokens
	if a.CachedTokens != nil {
		n -= *a.CachedTokens
	}
	return float64(max(n, 0)), true
}

// prefillGrowth fits TTFT, without the connection's set-up and cut off at 5 times
// the median, against the prompt tokens that were not cached, over requests under
// light load: least squares with White's errors. It is found if the slope is
// above 0 at 99.9 % and, over the middle 90 % of the prompts, makes at least
// 40 ms and a quarter of the median TTFT; a fault if it makes half of it at the
// long end. Where a line that is flat up to a knee leaves 5 % less of the
// squares, the knee is told, and the slope is that after it.
func prefillGrowth(v *view) *finding {
	var as []*record.Attempt
	for _, p := range v.parts {
		switch p.phase {
		case record.Single, record.PromptSize, record.Conversation, record.Call:
			as = append(as, p.as...)
		case record.Level:
			if p.level == 1 {
				as = append(as, p.as...)
			}
		}
	}
	var x, y []float64
	for _, a := range as {
		n, ok := uncached(a)
		t, known := served(a)
		if ok && known {
			x, y = append(x, n), append(y, t)
		}
	}
	if len(x) < 20 {
		return nil
	}
	sortedX, middle := ordered(x), median(y)
	short, long := at(sortedX, 0.05), at(sortedX, 0.95)
	if long-short < 150 {
		return prefillTold(v, as)
	}
	// The long prompts' times are meant to be high: only what is far above the
	// line is cut off.
	first := fit(x, y)
	for i := range y {
		y[i] = min(y[i], max(5*middle, 2*(first.level+first.slope*x[i])))
	}
	l := fit(x, y)
	low, _ := l.interval(z999)
	grows := l.slope * (long - short)
	if low <= 0 || grows < 40 || grows < middle/4 {
		return prefillTold(v, as)
	}
	f := &finding{explains: max(0, l.slope*(mean(x)-sortedX[0])) * float64(len(x)) / float64(len(v.ok))}
	f.confidence, f.because = sure(tail(l.slope/l.se), "slope of TTFT over prompt tokens, t-test")
	if l.slope*(long-short) < 0.5*(l.level+l.slope*long) {
		f.severity = Note
	}
	if knee, after, ok := kneeOf(x, y, l); ok {
		f.facts = append(f.facts, slopeFact("TTFT grows, after the knee, by", after), Fact{What: "knee: flat up to", Value: math.Round(knee), Unit: "prompt tokens", N: len(x)})
	} else {
		f.facts = append(f.facts, slopeFact("TTFT grows by", l))
	}
	f.facts = append(f.facts, msFact(fmt.Sprintf("from %.0f to %.0f prompt tokens that makes", short, long), grows, len(x), slowest(as)...), msFact("median TTFT", middle, len(x)))
	return f
}

// prefillTold looks at prompts that are all long: the server tells its prefill,
// it grows with the prompt's uncached tokens (99.9 %), and that slope times the
// median prompt is at least 50 ms and half of the median TTFT.
func prefillTold(v *view, as []*record.Attempt) *finding {
	var x, y []float64
	for _, a := range as {
		if n, ok := uncached(a); ok && a.Server != nil && a.Server.Prefill != nil {
			x, y = append(x, n), append(y, ms(*a.Server.Prefill))
		}
	}
	if len(x) < 30 {
		return nil
	}
	l := fit(x, y)
	low, _ := l.interval(z999)
	prompt, whole := median(x), median(ttfts(as))
	cost := low * prompt
	if cost < 50 || cost < whole/2 || cost > 1.2*median(y) {
		return nil
	}
	f := &finding{explains: l.slope * mean(x) * float64(len(x)) / float64(len(v.ok)), facts: []Fact{
		slopeFact("the server's prefill grows by", l),
		msFact(fmt.Sprintf("for the median prompt of %.0f tokens that makes", prompt), l.slope*prompt, len(x), slowest(as)...),
		msFact("median TTFT", whole, len(as)),
	}}
	f.confidence, f.because = sure(tail(l.slope/l.se), "slope of the server's prefill over prompt tokens, t-test")
	return f
}

// slopeFact tells a slope per 1,000 tokens.
func slopeFact(what string, l line) Fact {
	low, high := l.interval(z95)
	low, high = round(1000*low), round(1000*high)
	return Fact{What: what, Value: round(1000 * l.slope), Unit: "ms per 1,000 prompt tokens", N: l.n, Low: &low, High: &high}
}

// kneeOf fits a line that is flat up to a knee, at the tenths of x.
func kneeOf(x, y []float64, straight line) (knee float64, after line, ok bool) {
	s := ordered(x)
	best := squares(x, y, straight) * 0.95
	moved := make([]float64, len(x))
	for q := 0.1; q < 0.85; q += 0.1 {
		k := at(s, q)
		for i := range x {
			moved[i] = max(0, x[i]-k)
		}
		l := fit(moved, y)
		if e := squares(moved, y, l); e < best && l.slope > 0 && !math.IsInf(l.se, 0) {
			best, knee, after, ok = e, k, l, true
		}
	}
	return knee, after, ok
}

func squares(x, y []float64, l line) float64 {
	sum := 0.0
	for i := range x {
		e := y[i] - l.level - l.slope*x[i]
		sum += e * e
	}
	return sum
}

// prefixCache finds a prefill that the prefix cache hides. By the service's word:
// at least half of the prompt's tokens were cached in at least half of the
// requests of the load and of single requests, with at least 100 tokens each
// (conversations are meant to be cached, and are left out). Else by the times:
// in at least three parts the first request, warm-ups among them, took 2.5 times
// the later ones' median, and no other connection.
func prefixCache(v *view) *finding {
	as := where(v.ok, func(a *record.Attempt) bool {
		return a.PromptTokens != nil && a.CachedTokens != nil && *a.PromptTokens > 0 && a.Phase != record.Conversation && a.Phase != record.Call
	})
	hit := where(as, func(a *record.Attempt) bool { return *a.CachedTokens >= 100 && 2**a.CachedTokens >= *a.PromptTokens })
	if len(as) >= 10 && 2*len(hit) >= len(as) {
		part := values(hit, func(a *record.Attempt) (float64, bool) {
			return 100 * float64(*a.CachedTokens) / float64(*a.PromptTokens), true
		})
		return &finding{confidence: Strong, because: "the service says it", facts: []Fact{
			shareFact("requests with half of their prompt and more in the cache", len(hit), len(as), hit...),
			{What: "cached part of their prompts, median", Value: round(median(part)), Unit: "%", N: len(hit)},
			msFact("their TTFT, median", median(ttfts(hit)), len(hit)),
		}}
	}
	return firstOfEach(v)
}

// firstOfEach finds parts in which the first prompt was slow and its repeats were
// not.
func firstOfEach(v *view) *finding {
	slow, tested := 0, 0
	var ratios []float64
	var which []*record.Attempt
	for _, p := range v.parts {
		if p.phase != record.PromptSize && p.phase != record.Single || len(p.as) < 5 {
			continue
		}
		all := where(v.sent, func(a *record.Attempt) bool { return a.Phase == p.phase && a.PromptTarget == p.size })
		first, ok := served(all[0])
		later := median(values(all[1:], served))
		if !ok {
			continue
		}
		tested++
		ratios = append(ratios, first/later)
		if first > 2.5*later {
			slow++
			which = append(which, all[0])
		}
	}
	if slow < 3 || 3*slow < 2*tested {
		return nil
	}
	return &finding{confidence: Fair, because: fmt.Sprintf("%d of %d parts; if 2 %% of requests are slow by chance, p < %s", slow, tested, short(pow(0.04, slow))), facts: []Fact{
		{What: "prompts whose first request was slow and whose repeats were not", Value: float64(slow), N: tested, Requests: examples(which)},
		timesFact("the first against the repeats, median", median(ratios), tested),
	}}
}

// workBefore is the name of work_before_first_token.
const workBefore = "work_before_first_token"

// workBeforeFirstToken finds what comes before the answer and is not the model's
// TTFT. In calls: the time from the turn's commit (Due) to the request is at
// least 200 ms and half as long as the TTFT (medians). And reasoning, or a tool
// call, before the content: at least half of the TTFT in at least half of the requests.
func workBeforeFirstToken(v *view) *finding {
	calls := v.of(record.Call)
	work := values(calls, func(a *record.Attempt) (float64, bool) { return between(a.Due, a.Send) })
	if len(work) >= 10 {
		if w, t := median(work), median(ttfts(calls)); w >= 200 && w >= t/2 {
			return &finding{confidence: Strong, because: "by the marks of each turn", explains: mean(work) * float64(len(work)) / float64(len(v.ok)), facts: []Fact{
				msFact("from the end of the turn to the request, median", w, len(work), calls...),
				msFact("TTFT of the request, median", t, len(calls)),
			}}
		}
	}
	var thought []float64
	hit := where(v.ok, func(a *record.Attempt) bool {
		for _, from := range []*record.Attempt{a} {
			d, ok := between(from.FirstReasoning, a.FirstToken)
			if e, tool := between(from.FirstToolCall, a.FirstToken); tool && e > d {
				d, ok = e, true
			}
			if ok && d >= ms(*a.TTFT)/2 {
				thought = append(thought, d)
				return true
			}
		}
		return false
	})
	if len(hit) < 5 || 2*len(hit) < len(v.ok) {
		return nil
	}
	return &finding{confidence: Strong, because: "by the events of each answer", explains: sum(thought, 0) / float64(len(v.ok)), facts: []Fact{
		shareFact("answers with half of their TTFT and more in reasoning or a tool call", len(hit), len(v.ok), hit...),
		msFact("from the first of it to the first token, median", median(thought), len(hit)),
	}}
}
