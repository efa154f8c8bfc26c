package diagnosis

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strings"

	"firstsound/llm/record"
)

// clientLimit looks for the client's own part, sign by sign; each is enough:
//
//   - in an open loop, a twentieth of the requests was sent more than 50 ms and a
//     tenth of the median TTFT after it was due, or the pace of the sends was
//     below 98 % of that which was asked for (and the last was at least 1 s late);
//   - more than 5 % (at 99 %) of the requests on reused connections waited at
//     least 5 ms and 5 % of the median TTFT for theirs: a limit of the pool;
//   - where that is not recorded: the wait grows with the requests in flight
//     (slope above 0 at 99.9 %, correlation 0.5) and is above 50 ms at P95;
//   - the time from an event's arrival to its read is above 20 ms and a tenth of
//     the median TTFT at P95: a note alone, where arrivals are the kernel's and the
//     lower bounds of TTFT are within 5 % of it at P50 and P95 (events that share
//     a read have only bounds);
//   - the difference between the client's and the server's TTFT grows from the
//     lowest level to the highest by 50 ms and half of the client's rise, p < 10⁻⁴;
//   - where requests were due at set times, timers were late at P99 by a twentieth
//     of the least median TTFT; or the process used 80 % of all processors;
//   - the self-test's error at P99 is above 5 % of the median TTFT.
func clientLimit(v *view) *finding {
	f := &finding{confidence: Strong, because: "measured in the client itself"}
	bent := v.lags(f)
	late := len(f.facts)
	v.lateSends(f)
	v.poolWaits(f)
	v.clientRise(f)
	v.machine(f)
	switch {
	case len(f.facts) == 0:
		return nil
	case len(f.facts) == late && !bent:
		f.severity = Note // late reads that moved nothing
	}
	return f
}

func (v *view) lateSends(f *finding) {
	for _, p := range v.parts {
		if p.phase != record.Rate {
			continue
		}
		late := values(p.as, func(a *record.Attempt) (float64, bool) { return between(a.Due, a.Send) })
		if len(late) < 10 {
			continue
		}
		p95 := quantileOf(late, 0.95)
		if p95 > max(50, v.medianTTFT/10) {
			f.facts = append(f.facts, msFact("sent after it was due, P95, at "+p.name(), p95, len(late), p.as...))
			f.explains += sum(late, 0) / float64(len(v.ok))
			f.outside += sum(late, 0) / float64(len(v.ok))
		}
		a, b := p.as[0], p.as[len(p.as)-1]
		if a.Due == nil || b.Due == nil || *b.Due <= *a.Due {
			continue
		}
		asked, got := ms(*b.Due-*a.Due), ms(*b.Send-*a.Send)
		if got > asked/0.98 && got-asked > 1000 {
			f.facts = append(f.facts, Fact{What: "achieved of the asked rate of " + p.name(), Value: round(100 * asked / got), Unit: "%", N: len(p.as)})
		}
	}
}

func (v *view) poolWaits(f *finding) {
	if v.crowded(f) {
		return
	}
	var waited []*record.Attempt
	var took []float64
	n := 0
	for _, a := range v.ok {
		s, ok := setup(a)
		if !ok || a.Reused == nil || !*a.Reused || a.ConnectStart != nil {
			continue
		}
		n++
		if s >= max(5, 0.05*v.medianTTFT) {
			waited = append(waited, a)
			took = append(took, s)
		}
	}
	if low, _ := shareInterval(len(waited), n, z99); n < 20 || low < 0.05 {
		return
	}
	f.facts = append(f.facts, shareFact("requests that waited for a connection to be free", len(waited), n, slowest(waited)...),
		msFact("their wait, median", median(took), len(took)))
	f.explains += sum(took, 0) / float64(len(v.ok))
}

// crowded finds the waits where the records do not say who reused a connection:
// the wait grows with the requests in flight (slope above 0 at 99.9 %, correlation
// of 0.5 and more) and is above 50 ms at P95.
func (v *view) crowded(f *finding) bool {
	var open, wait []float64
	for _, a := range v.ok {
		if s, ok := setup(a); ok && a.Reused == nil {
			open, wait = append(open, float64(a.InFlight)), append(wait, s)
		}
	}
	if len(wait) < 30 || quantileOf(wait, 0.95) < 50 {
		return false
	}
	l := fit(open, wait)
	if low, _ := l.interval(z999); low <= 0 || l.r < 0.5 {
		return false
	}
	f.facts = append(f.facts, msFact("wait for a connection, P95", quantileOf(wait, 0.95), len(wait)),
		Fact{What: "it grows by, for each request in flight", Value: round(l.slope), Unit: "ms", N: l.n})
	f.explains += sum(wait, 0) / float64(len(v.ok))
	v.pooled = true
	return true
}

// lags returns whether late reads may have moved TTFT.
func (v *view) lags(f *finding) (bent bool) {
	lag := values(v.ok, func(a *record.Attempt) (float64, bool) { return ms(a.LagMax), a.Events > 0 })
	if len(lag) < 10 {
		return false
	}
	p95 := quantileOf(lag, 0.95)
	if p95 <= max(20, v.medianTTFT/10) {
		return false
	}
	f.facts = append(f.facts, msFact("an event's longest wait from its arrival to its read, P95", p95, len(lag)))
	// The kernel's stamp holds for the last event of a read, whenever that was.
	first := values(v.ok, func(a *record.Attempt) (float64, bool) {
		if len(a.Chunks) == 0 {
			return 0, false
		}
		return ms(a.Chunks[0].Lag), a.Stamps != record.ByKernel
	})
	f.explains += sum(first, 0) / float64(len(v.ok))
	// The others came earlier, up to their lower bound.
	merged := where(v.ok, func(a *record.Attempt) bool { return earlier(a) > 0 })
	if len(merged) == 0 {
		return len(first) > 0
	}
	f.facts = append(f.facts, shareFact("requests whose TTFT is an upper bound: their first events came with others in one read", len(merged), len(v.ok), merged...),
		msFact("by how much it is too high at most, median", median(values(merged, func(a *record.Attempt) (float64, bool) { return earlier(a), true })), len(merged)))
	return len(first) > 0 || v.apart()
}

// earlier returns by how much the first content may have come before TTFT has it,
// ms: it arrived between its lower bound, or the request, and the end of the read.
func earlier(a *record.Attempt) float64 {
	if len(a.Chunks) == 0 || !a.Chunks[0].Merged() {
		return 0
	}
	return min(ms(*a.TTFT), max(0, ms(*a.FirstToken-*a.Chunks[0].Earliest)))
}

// apart returns whether P50 or P95 of TTFT by its lower bounds are more than 5 %
// below it in one of the parts.
func (v *view) apart() bool {
	for _, p := range v.parts {
		high := ttfts(p.as)
		low := values(p.as, func(a *record.Attempt) (float64, bool) { return ms(*a.TTFT) - earlier(a), true })
		for _, q := range []float64{0.50, 0.95} {
			if quantileOf(low, q) < 0.95*quantileOf(high, q) {
				return true
			}
		}
	}
	return false
}

// lateTimers returns whether timers moved the sends: requests were due at set
// times, and the timers were late by a twentieth of the least median TTFT of the
// parts that are no sweep. It is the rule that reports judge the tool by.
func (v *view) lateTimers() bool {
	least, open := math.Inf(1), false
	for _, p := range v.parts {
		switch p.phase {
		case record.Rate:
			open = true
		case record.PromptSize, record.Conversation, record.NewConn, record.IdleGap:
			continue
		}
		least = min(least, median(ttfts(p.as)))
	}
	return open && ms(v.run.Resources.TimerLateP99) > least/20
}

func (v *view) clientRise(f *finding) {
	l := v.levels(15)
	if len(l) < 2 {
		return
	}
	gap := func(a *record.Attempt) (float64, bool) {
		s, ok := serverTTFT(a)
		return ms(*a.TTFT) - s, ok
	}
	low, high := l[0], l[len(l)-1]
	a, b := values(high.as, gap), values(low.as, gap)
	if len(a) < 15 || len(b) < 15 {
		return
	}
	rise, whole := median(a)-median(b), median(ttfts(high.as))-median(ttfts(low.as))
	if rise < 50 || rise < whole/2 || above(a, b) > 1e-4 {
		return
	}
	f.facts = append(f.facts,
		msFact(fmt.Sprintf("client TTFT less server TTFT at %d at once, median", high.level), median(a), len(a), slowest(high.as)...),
		msFact(fmt.Sprintf("… at %d", low.level), median(b), len(b)))
	f.explains += rise * float64(len(a)) / float64(len(v.ok))
}

func (v *view) machine(f *finding) {
	if r := v.run.Resources; r != nil {
		if v.lateTimers() {
			f.facts = append(f.facts, msFact("the client's timers were late, P99, and requests were due at set times", ms(r.TimerLateP99), 0))
		}
		if r.Elapsed > 0 && v.run.CPUs > 0 {
			if used := float64(r.CPU) / float64(r.Elapsed) / float64(v.run.CPUs); used > 0.8 {
				f.facts = append(f.facts, Fact{What: "of all processors used by the client", Value: round(100 * used), Unit: "%"})
			}
		}
	}
	if s := v.run.SelfTest; s != nil && v.medianTTFT > 0 && ms(s.TTFT99) > 0.05*v.medianTTFT {
		f.facts = append(f.facts, msFact(fmt.Sprintf("what client and machine add to TTFT at %s, P99, by the self-test", countOf(s.Streams, "stream")), ms(s.TTFT99), s.Streams))
	}
}

// mismatch compares the client's TTFT, set-up left out, with the server's, under
// light load: their median difference (its 99 % interval from order statistics)
// is more than 10 ms, twice the round trip and 10 % of TTFT away from 0, where the
// round trip is known; else more than 25 % of TTFT and 50 ms. The bands are AIPerf's: up to
// 10 % within a data centre, 25 % across zones, above 50 % broken. A negative
// difference, beyond 5 ms and 5 %, cannot be.
func mismatch(v *view) *finding {
	if v.found["client_limit"] && len(v.levels(15)) > 1 && len(v.of(record.Single)) < 10 {
		return nil
	}
	var as []*record.Attempt
	for _, a := range v.quiet() {
		if _, ok := gapToServer(a); ok {
			as = append(as, a)
		}
	}
	if len(as) < 10 {
		return nil
	}
	gaps := ordered(values(as, gapToServer))
	low, high := medianInterval(gaps)
	middle := at(gaps, 0.5)
	ours := median(values(as, served))
	trips := values(as, func(a *record.Attempt) (float64, bool) {
		if a.TCP == nil || a.TCP.RTT <= 0 {
			return 0, false
		}
		return ms(a.TCP.RTT), true
	})
	allowed := max(ours/4, 50)
	if len(trips) > 0 {
		allowed = max(2*median(trips)+10, ours/10)
	}
	if !(low > allowed) && !(high < -max(5, ours/20)) {
		return nil
	}
	lo, hi := round(low), round(high)
	f := &finding{confidence: Strong, because: "99 % interval of the median difference, request by request", explains: max(0, middle), facts: []Fact{
		{What: "client TTFT less server TTFT, median", Value: round(middle), Unit: "ms", N: len(as), Low: &lo, High: &hi, Requests: examples(as)},
		msFact("client TTFT, median, set-up left out", ours, len(as)),
	}}
	if len(trips) > 0 {
		f.facts = append(f.facts, msFact("round trip of TCP, median", median(trips), len(trips)))
	} else {
		f.because += "; the round trip is not known, so a quarter of TTFT and 50 ms are allowed for it"
	}
	for _, source := range as {
		f.facts[0].What += " (" + source.Server.Source + ")"
		break
	}
	if middle < ours/4 && middle > 0 {
		f.severity = Note
	}
	return f
}

// medianInterval returns the 99 % interval of the median of sorted values from
// order statistics (Le Boudec, section 2.2).
func medianInterval(sorted []float64) (low, high float64) {
	n := float64(len(sorted))
	d := z99 * 0.5 * math.Sqrt(n)
	i, j := int(n/2-d), int(n/2+d)
	return sorted[max(0, i)], sorted[min(len(sorted)-1, j)]
}

// loopbackTarget: the service is on this machine, by its URL or the addresses
// that connections went to.
func loopbackTarget(v *view) *finding {
	var which []*record.Attempt
	host := ""
	if u, err := url.Parse(v.run.Target.URL); err == nil {
		host = u.Hostname()
	}
	is := loopback(host)
	for _, a := range v.run.Target.Addresses {
		is = is || loopback(a)
	}
	for _, a := range v.ok {
		if loopback(a.Remote) {
			which = append(which, a)
		}
	}
	if !is && 2*len(which) <= len(v.ok) {
		return nil
	}
	n := len(which)
	if n == 0 {
		n = len(v.ok)
	}
	return &finding{confidence: Strong, because: "by the address", facts: []Fact{{What: "requests that stayed on this machine", Value: float64(n), N: len(v.ok), Requests: examples(which)}}}
}

// loopback says whether an address, with or without a port, is this machine's own.
func loopback(s string) bool {
	if s == "localhost" || strings.HasPrefix(s, "localhost:") {
		return true
	}
	if p, err := netip.ParseAddrPort(s); err == nil {
		return p.Addr().IsLoopback()
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return err == nil && a.IsLoopback()
}
