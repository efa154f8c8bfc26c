package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"firstsound/llm/record"
)

// queueing tests three things. The server's word, where it tells its queue: 30 ms
// and 30 % of the mean TTFT, on average over all. In an open loop of at least 30 s and 30 requests:
// TTFT and the requests in flight both rise with time, each slope above 0 at
// 99.9 % (GuideLLM's over-saturation test, with a stricter interval), and TTFT
// by at least its median of the first quarter. In a closed loop: the median TTFT of the
// highest level is at least 2.5 times that of the lowest with p < 10⁻⁶, while TPOT is
// at most 1.6 times, or the server says that its queue is most of it.
func queueing(v *view) *finding {
	f := waiting(v)
	if f != nil {
		f.facts = append(f.facts, v.monitored()...)
	}
	return f
}

func waiting(v *view) *finding {
	if q := serverQueue(v.ok); len(q) >= 20 && 2*len(q) >= len(v.ok) && mean(q) > max(30, 0.3*v.meanTTFT) {
		queued := where(v.ok, func(a *record.Attempt) bool {
			return a.Server != nil && a.Server.Queue != nil && 2**a.Server.Queue > *a.TTFT
		})
		return &finding{confidence: Strong, because: "the server says it", explains: mean(q) * float64(len(q)) / float64(len(v.ok)), facts: []Fact{
			msFact("the server's queue, mean", mean(q), len(q), slowest(queued)...),
			msFact("… P95", quantileOf(q, 0.95), len(q)),
			shareFact("requests with more than half of their TTFT in it", len(queued), len(v.ok), slowest(queued)...),
		}}
	}
	for _, p := range v.parts {
		if p.phase == record.Rate || p.phase == record.Call {
			if f := saturated(v, p); f != nil {
				return f
			}
		}
	}
	l := v.settled(20)
	if len(l) < 2 {
		return nil
	}
	low, high := l[0], l[len(l)-1]
	a, b := values(high.as, served), values(low.as, served)
	if len(a) == 0 || len(b) == 0 || median(a) < 2.5*median(b) || median(a) < median(b)+30 || above(a, b) > 1e-6 {
		return nil
	}
	rise := mean(a) - mean(b)
	ta, tb := values(high.as, tpot), values(low.as, tpot)
	flat := len(ta) >= 10 && len(tb) >= 10 && median(ta) <= 1.6*median(tb)
	queued := serverQueue(high.as)
	told := len(queued) >= 10 && mean(queued) > rise/2
	if !flat && !told || clientOwn(v, low, high) > rise/2 {
		return nil
	}
	f := &finding{explains: levelCost(v, l, b), facts: []Fact{
		msFact(fmt.Sprintf("median TTFT at %d at once", high.level), median(a), len(a), slowest(high.as)...),
		msFact(fmt.Sprintf("… at %d", low.level), median(b), len(b)),
	}}
	f.confidence, f.because = sure(above(a, b), "TTFT of the highest level against the lowest, rank test")
	if len(ta) > 0 && len(tb) > 0 {
		f.facts = append(f.facts, timesFact("TPOT there, against the lowest level", median(ta)/median(tb), len(ta)))
	}
	if told {
		f.facts = append(f.facts, msFact("the server's queue there, in its own words, median", median(queued), len(queued)))
	} else {
		f.because += "; the queue is inferred, for the server does not tell it"
	}
	return f
}

// monitored tells the most requests that waited at once, by the server's
// monitoring: a gauge such as vllm:num_requests_waiting or sglang:num_queue_reqs.
func (v *view) monitored() []Fact {
	most, n := map[string]float64{}, 0
	for _, s := range v.samples {
		n++
		for name, x := range s.Values {
			if strings.Contains(name, "requests_waiting") || strings.Contains(name, "num_queue_reqs") {
				most[name] = max(most[name], x)
			}
		}
	}
	var facts []Fact
	for _, name := range slices.Sorted(maps.Keys(most)) {
		facts = append(facts, Fact{What: fmt.Sprintf("%s, the most of %s", name, countOf(n, "sample")), Value: most[name]})
	}
	return facts
}

// serverQueue returns the server's queue times, where it tells them.
func serverQueue(as []*record.Attempt) []float64 {
	return values(as, func(a *record.Attempt) (float64, bool) {
		if a.Server == nil || a.Server.Queue == nil {
			return 0, false
		}
		return ms(*a.Server.Queue), true
	})
}

// levelCost returns what the levels add to TTFT over the lowest, on average over the
// measured requests.
func levelCost(v *view, levels []part, lowest []float64) float64 {
	sum, base := 0.0, mean(lowest)
	for _, p := range levels[1:] {
		for _, t := range values(p.as, served) {
			sum += t - base
		}
	}
	return max(0, sum/float64(len(v.ok)))
}

// saturated tests an open loop.
func saturated(v *view, p part) *finding {
	if len(p.as) < 30 || *p.as[len(p.as)-1].Send-*p.as[0].Send < 30e9 {
		return nil
	}
	var at, late, open []float64
	from := *p.as[0].Send
	for _, a := range p.as {
		at = append(at, (*a.Send - from).Seconds())
		late = append(late, ms(*a.TTFT))
		open = append(open, float64(a.InFlight))
	}
	l, o := fit(at, late), fit(at, open)
	lowL, _ := l.interval(z999)
	lowO, _ := o.interval(z999)
	before := median(late[:max(5, len(late)/4)])
	if lowL <= 0 || lowO <= 0 || l.slope*at[len(at)-1] < before {
		return nil
	}
	lo, hi := l.interval(z95)
	lo, hi = round(lo), round(hi)
	f := &finding{explains: max(0, (mean(late)-before)*float64(len(late))/float64(len(v.ok))), facts: []Fact{
		{What: "TTFT rises by, at " + p.name(), Value: round(l.slope), Unit: "ms per s", N: l.n, Low: &lo, High: &hi, Requests: examples(slowest(p.as))},
		{What: "requests in flight rise by", Value: round(o.slope), Unit: "per s", N: o.n},
		msFact("median TTFT of the first quarter", before, len(late)/4),
		msFact("… of the last", median(late[len(late)*3/4:]), len(late)-len(late)*3/4),
	}}
	f.confidence, f.because = sure(max(tail(l.slope/l.se), tail(o.slope/o.se)), "slopes of TTFT and of the requests in flight over time, t-tests")
	return f
}

// concurrencyStorm: at the highest level more than 5 % of the requests (at 99 %)
// are above twice the P95 of the lowest, which says that P95 has more than
// doubled (R73).
func concurrencyStorm(v *view) *finding {
	l := v.settled(20)
	if len(l) < 2 {
		return nil
	}
	low, high := l[0], l[len(l)-1]
	a, b := ttfts(high.as), ttfts(low.as)
	p95 := quantileOf(b, 0.95)
	over := where(high.as, func(q *record.Attempt) bool { return ms(*q.TTFT) > 2*p95 })
	least, _ := shareInterval(len(over), len(a), z99)
	if least < 0.05 {
		return nil
	}
	f := &finding{confidence: Fair, because: "at 99 % more than 5 % of the highest level's requests are above twice the lowest's P95", explains: levelCost(v, l, b)}
	if surely, _ := shareInterval(len(over), len(a), 4.9); surely > 0.05 { // p < 10⁻⁶, two-sided
		f.confidence, f.because = Strong, "more than 5 % of the highest level's requests are above twice the lowest's P95: p < 0.000001"
	}
	f.facts = []Fact{shareFact(fmt.Sprintf("requests at %d at once above twice the P95 of %d", high.level, low.level), len(over), len(a), slowest(over)...)}
	for _, p := range l {
		f.facts = append(f.facts, msFact(fmt.Sprintf("P95 of TTFT at %d", p.level), quantileOf(ttfts(p.as), 0.95), len(p.as)))
	}
	rise := mean(a) - mean(b)
	for _, part := range []struct {
		name string
		x    float64
		ok   bool
	}{
		{"the client's own waits", clientOwn(v, low, high), true},
		{"the server's queue", meanOr(serverQueue(high.as)) - meanOr(serverQueue(low.as)), len(serverQueue(high.as)) > 0},
		{"the server's prefill", meanOr(prefills(high.as)) - meanOr(prefills(low.as)), len(prefills(high.as)) > 0},
	} {
		if part.ok && rise > 0 {
			f.facts = append(f.facts, Fact{What: "of the rise, " + part.name, Value: round(100 * part.x / rise), Unit: "%", N: len(a)})
		}
	}
	if ta, tb := values(high.as, tpot), values(low.as, tpot); len(ta) > 0 && len(tb) > 0 {
		f.facts = append(f.facts, timesFact("TPOT there, against the lowest level", median(ta)/median(tb), len(ta)))
	}
	return f
}

func meanOr(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return mean(x)
}

func prefills(as []*record.Attempt) []float64 {
	return values(as, func(a *record.Attempt) (float64, bool) {
		if a.Server == nil || a.Server.Prefill == nil {
			return 0, false
		}
		return ms(*a.Server.Prefill), true
	})
}

// clientOwn returns by how much the client's own waits (for a connection, and from
// arrival to read) grow from one part to another, ms.
func clientOwn(_ *view, low, high part) float64 {
	own := func(p part) float64 {
		sum := 0.0
		for _, a := range p.as {
			s, _ := setup(a)
			lag := 0.0
			if len(a.Chunks) > 0 {
				lag = ms(a.Chunks[0].Lag)
			}
			sum += s + lag
		}
		return sum / float64(len(p.as))
	}
	return own(high) - own(low)
}

// decodeContention: the median TPOT of the highest level is at least twice that
// of the lowest, by at least 5 ms, with p < 10⁻⁶.
func decodeContention(v *view) *finding {
	l := v.levels(20)
	if len(l) < 2 {
		return nil
	}
	low, high := l[0], l[len(l)-1]
	a, b := values(high.as, tpot), values(low.as, tpot)
	if len(a) < 15 || len(b) < 15 || median(a) < 2*median(b) || median(a) < median(b)+5 || above(a, b) > 1e-6 {
		return nil
	}
	f := &finding{facts: []Fact{
		{What: fmt.Sprintf("median TPOT at %d at once", high.level), Value: round(median(a)), Unit: "ms", N: len(a), Requests: examples(high.as)},
		{What: fmt.Sprintf("… at %d", low.level), Value: round(median(b)), Unit: "ms", N: len(b)},
	}}
	f.confidence, f.because = sure(above(a, b), "TPOT of the highest level against the lowest, rank test")
	return f
}

// slowDecoding: from the first token to the first piece that is spoken takes
// longer than the TTFT, and at least 500 ms (medians): the silence goes on after
// the first token.
func slowDecoding(v *view) *finding {
	as := v.quiet()
	x := values(as, func(a *record.Attempt) (float64, bool) { return between(a.FirstToken, a.FirstSegment) })
	if len(x) < 15 {
		return nil
	}
	t, s := median(ttfts(as)), median(x)
	if s < 500 || s < t {
		return nil
	}
	f := &finding{confidence: Strong, because: "medians; the least of the middle half is above 250 ms", facts: []Fact{
		msFact("from the first token to the first piece that can be spoken, median", s, len(x), as...),
		msFact("TTFT, median", t, len(as)),
	}}
	if quantileOf(x, 0.25) < 250 {
		f.confidence, f.because = Fair, "medians; the least of the middle half is below 250 ms"
	}
	if pace := values(as, tpot); len(pace) > 0 {
		f.facts = append(f.facts, Fact{What: "TPOT, median", Value: round(median(pace)), Unit: "ms", N: len(pace)})
		if median(pace) < 40 {
			f.severity = Note // the sentence is long, the model is not slow
		}
	}
	return f
}

// http2Window: over HTTP/2, answers stop for at least 150 ms and 8 times their
// median gap: at the highest level (at least 10 at once) in more than 15 % of
// the answers (at 99 %), and there at least 5 times as often as at the lowest.
// Stalls of different answers at the same time point to the connection that they share.
func http2Window(v *view) *finding {
	l := v.levels(15)
	if len(l) < 2 || l[len(l)-1].level < 10 {
		return nil
	}
	low, high := l[0], l[len(l)-1]
	stalled := func(a *record.Attempt) bool {
		if len(a.Chunks) < leastChunks || a.Protocol != "HTTP/2.0" {
			return false
		}
		gaps := gapsOf(a)
		return slices.Max(gaps) >= max(150, 8*median(gaps))
	}
	a, b := where(high.as, stalled), where(low.as, stalled)
	least, _ := shareInterval(len(a), len(high.as), z99)
	if least < 0.15 || float64(len(a))/float64(len(high.as)) < 5*float64(len(b))/float64(len(low.as)) {
		return nil
	}
	longest := values(a, func(q *record.Attempt) (float64, bool) { return slices.Max(gapsOf(q)), true })
	return &finding{confidence: Fair, because: fmt.Sprintf("more than 15 %% of the answers at 99 %%, against %d of %d at the lowest level; HTTP/1.1 was not tried beside it", len(b), len(low.as)),
		facts: []Fact{
			shareFact(fmt.Sprintf("answers that stalled at %d streams over HTTP/2", high.level), len(a), len(high.as), a...),
			msFact("the longest stall of each, median", median(longest), len(a)),
			shareFact(fmt.Sprintf("answers that stalled at %d", low.level), len(b), len(low.as)),
		}}
}
