package diagnosis

import (
	"math"
	"slices"

	"firstsound/llm/record"
)

// hiddenRetries looks for retries inside a measured time, and for ones that the
// figures leave out. A mode of TTFT at least 350 ms (and 1.2 medians) above the others which is as
// narrow as they are in milliseconds: something waited for a fixed time (3 to
// 40 % of the requests, D ≥ 4, its quartiles not twice as far apart plus 30 ms).
// Where the server's own TTFT is known, at least 3 % of the requests are 350 ms
// slower for the client than for the server, beyond what the others are. And
// answers 429 or 503 that asked to come again, at least 3 and 2 %, where requests
// were asked again: who counts only the last attempt does not see that wait.
// Where none was, nobody waited, and the verdict is refused.
func hiddenRetries(v *view) *finding {
	if f := refused(v); f != nil {
		return f
	}
	if f := serverSawLess(v); f != nil {
		return f
	}
	if v.found["queueing"] {
		return nil // a queue has late modes of its own
	}
	return retryMode(v)
}

// refused finds attempts that were told to come later.
func refused(v *view) *finding {
	asked := where(v.all, func(a *record.Attempt) bool {
		return !a.Warmup && (a.Status == 429 || a.Status == 503 && a.RetryAfter > 0)
	})
	measured := where(v.all, func(a *record.Attempt) bool { return !a.Warmup })
	if len(asked) < 3 || 50*len(asked) < len(measured) {
		return nil
	}
	f := &finding{confidence: Strong, because: "the service says it", facts: []Fact{shareFact("attempts refused with 429 or 503", len(asked), len(measured), asked...)}}
	waits := values(asked, func(a *record.Attempt) (float64, bool) { return ms(a.RetryAfter), a.RetryAfter > 0 })
	if len(waits) > 0 {
		f.facts = append(f.facts, msFact("Retry-After, median", median(waits), len(waits)))
	}
	if !slices.ContainsFunc(measured, func(a *record.Attempt) bool { return a.Number > 1 }) {
		f.name = "refused"
		return f
	}
	again := where(v.ok, func(a *record.Attempt) bool { return a.Number > 1 })
	first := map[string]*record.Attempt{}
	for _, a := range v.all {
		if b := first[a.RequestID]; b == nil || a.Number < b.Number {
			first[a.RequestID] = a
		}
	}
	whole := values(again, func(a *record.Attempt) (float64, bool) { return between(first[a.RequestID].Send, a.FirstToken) })
	if len(whole) > 0 {
		f.facts = append(f.facts, msFact("first token after the first attempt, median of those that came again", median(whole), len(whole), again...),
			msFact("their TTFT as the last attempt has it, median", median(ttfts(again)), len(again)))
		f.explains = max(0, sum(whole, 0)-sum(ttfts(again), 0)) / float64(len(v.ok))
		f.outside = f.explains
	}
	return f
}

// gapToServer returns how much longer the client waited than the server says, with the
// set-up of the connection left out.
func gapToServer(a *record.Attempt) (float64, bool) {
	s, ok := serverTTFT(a)
	c, known := served(a)
	return c - s, ok && known
}

// serverTTFT returns the server's TTFT; its queue and prefill, where it tells
// only those.
func serverTTFT(a *record.Attempt) (float64, bool) {
	s := a.Server
	switch {
	case s == nil:
		return 0, false
	case s.TTFT != nil:
		return ms(*s.TTFT), true
	case s.Queue != nil && s.Prefill != nil:
		return ms(*s.Queue) + ms(*s.Prefill), true
	}
	return 0, false
}

// serverSawLess finds requests of which the server saw the last attempt only.
func serverSawLess(v *view) *finding {
	as := where(v.ok, func(a *record.Attempt) bool { _, ok := gapToServer(a); return ok && a.Level <= 1 })
	if len(as) < 30 {
		return nil
	}
	gaps := values(as, gapToServer)
	usual := quantileOf(gaps, 0.5)
	slow := where(as, func(a *record.Attempt) bool { g, _ := gapToServer(a); return g > usual+350 })
	low, _ := shareInterval(len(slow), len(as), z95)
	if low < 0.02 || 10*len(slow) > 4*len(as) {
		return nil
	}
	over := values(slow, gapToServer)
	return &finding{confidence: Strong, because: "client against server, request by request", explains: sum(over, usual) / float64(len(as)),
		facts: []Fact{
			shareFact("requests at least 350 ms slower for the client than for the server", len(slow), len(as), slow...),
			msFact("by how much, median", median(over)-usual, len(over)),
		}}
}

// retryMode finds a narrow late mode.
func retryMode(v *view) *finding {
	var as []*record.Attempt
	for _, p := range v.steady(20) {
		if p.level <= 1 || p.phase != record.Level {
			as = append(as, p.as...)
		}
	}
	if len(as) < 40 {
		as = nil
		for _, p := range v.steady(20) {
			as = append(as, p.as...)
		}
	}
	x := values(as, served)
	m, ok := split(x)
	if !ok || len(x) < 40 || m.separation < max(350, 1.2*median(x)) || m.ashmanD < 4 || m.share > 0.4 || m.nHigh < 4 {
		return nil
	}
	var low, high []float64
	for _, t := range x {
		if t < m.cut {
			low = append(low, t)
		} else {
			high = append(high, t)
		}
	}
	if least, _ := shareInterval(m.nHigh, len(x), z95); least < 0.025 {
		return nil
	}
	fast, slow := ordered(low), ordered(high)
	a, b := at(fast, 0.75)-at(fast, 0.25), at(slow, 0.75)-at(slow, 0.25)
	// A mode that is wide in proportion to its height is a queue or a load,
	// which noisy_levels tells; so is one whose spread could be that.
	proportional := a * m.high / m.low
	if b > 2*a+30 || b > 0.7*proportional {
		return nil
	}
	which := where(as, func(q *record.Attempt) bool { s, _ := served(q); return s >= m.cut })
	d := at(slow, 0.5) - at(fast, 0.5)
	return &finding{confidence: Fair, because: "a late mode as narrow as the early one: D = " + short(m.ashmanD) + "; no word from the server", explains: d * m.share,
		facts: []Fact{
			shareFact("requests in the late mode", m.nHigh, len(x), which...),
			msFact("by how much it is later", d, len(x)),
			msFact("its quartiles are apart", b, len(high)),
			msFact("those of the others", a, len(low)),
		}}
}

// leastLoaded returns the requests that had the fewest others in flight: the
// lowest quarter, and all that had as few.
func leastLoaded(as []*record.Attempt) []*record.Attempt {
	few := quantileOf(values(as, func(a *record.Attempt) (float64, bool) { return float64(a.InFlight), true }), 0.25)
	return where(as, func(a *record.Attempt) bool { return float64(a.InFlight) <= few })
}

// noisyLevels looks for two levels of TTFT, or a tail that lognormal noise does
// not give, where load, window, retries and connections do not explain it: in the
// logarithm two modes with D ≥ 3.7 that are 2.5 times apart, at least 8 % in the
// smaller; or more than 4 % of the requests (at 99 %) above 3 times the median.
// Only parts of light or steady load count; where a queue was found, only the
// requests with the fewest others in flight, for its own load makes the others slow.
func noisyLevels(v *view) *finding {
	for _, other := range []string{"batch_window", "bimodal_40ms", "hidden_retries", "startup_wave"} {
		if v.found[other] {
			return nil
		}
	}
	var relative []float64
	var as []*record.Attempt
	for _, p := range v.steady(20) {
		if p.phase == record.Rate && v.found["queueing"] || p.phase == record.Level && p.level > 1 && (v.found["concurrency_storm"] || v.found["queueing"]) {
			continue
		}
		own := p.as
		if v.found["queueing"] {
			own = leastLoaded(p.as)
		}
		x := values(own, served)
		if len(x) < len(own) {
			continue
		}
		fast := at(ordered(x), 0.25)
		for i, t := range x {
			relative = append(relative, t/fast)
			as = append(as, own[i])
		}
	}
	if len(relative) < 30 {
		return nil
	}
	m, ok := split(logs(relative))
	smaller, _ := shareInterval(min(m.nLow, m.nHigh), len(relative), z99)
	two := ok && m.ashmanD >= 3.7 && m.separation >= math.Log(2.5) && min(m.share, 1-m.share) >= 0.08 && smaller > 0.03
	bound := 3 * median(relative)
	if two {
		bound = math.Exp(m.cut) * (1 - 1e-9)
	}
	var slow, fast []*record.Attempt
	for i, r := range relative {
		if r > bound {
			slow = append(slow, as[i])
		} else {
			fast = append(fast, as[i])
		}
	}
	low, _ := shareInterval(len(slow), len(as), z99)
	if !two && low < 0.04 {
		return nil
	}
	usual := median(values(fast, served))
	f := &finding{confidence: Fair, because: "the share above 3 times the median is beyond 4 % at 99 %", explains: sum(values(slow, served), usual) / float64(len(as))}
	if two {
		f.confidence, f.because = Strong, "two modes of the logarithm with a valley between: D = "+short(m.ashmanD)
	}
	f.facts = []Fact{
		shareFact("requests on the slow level", len(slow), len(as), slow...),
		msFact("its median TTFT", median(values(slow, served)), len(slow)),
		msFact("median TTFT of the others", usual, len(fast)),
	}
	queue := func(a *record.Attempt) (float64, bool) {
		if a.Server == nil || a.Server.Queue == nil {
			return 0, false
		}
		return ms(*a.Server.Queue), true
	}
	if a, b := values(slow, queue), values(fast, queue); len(a) > 0 && len(b) > 0 {
		f.facts = append(f.facts, msFact("the server's queue in the slow ones, median", median(a), len(a)), msFact("… in the others", median(b), len(b)))
	}
	return f
}
