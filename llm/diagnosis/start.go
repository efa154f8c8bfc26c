package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"firstsound/llm/record"
)

// startupWave compares, at each level of at least 5 at once, as many first
// requests as the level has with the later ones. A level has a wave if their
// median is at least twice as high with p < 0.001, and at most a twentieth of the
// later ones are nearly as slow, at this level and below. It is found at two levels, or at one of at least
// 10 with p < 10⁻⁵.
func startupWave(v *view) *finding {
	var facts []Fact
	hits, extra, least, product := 0, 0.0, 1.0, 1.0
	for _, p := range v.parts {
		if p.phase != record.Level || p.level < 5 || len(p.as) < 3*p.level {
			continue
		}
		first, later := ttfts(p.as[:p.level]), ttfts(p.as[p.level:])
		a, b, chance := median(first), median(later), above(first, later)
		if a < 2*b || chance > 1e-3 || v.slowAgain(p.level, 0.8*a) {
			continue // by chance, or slow times that come and go
		}
		hits++
		product *= chance
		if p.level >= 10 {
			least = min(least, chance)
		}
		extra += (mean(first) - b) * float64(p.level)
		facts = append(facts, msFact(fmt.Sprintf("median TTFT of the first %d at level %d", p.level, p.level), a, p.level, p.as[:p.level]...),
			msFact(fmt.Sprintf("… of the later ones at level %d", p.level), b, len(later)))
	}
	if hits < 2 && least > 1e-5 {
		return nil
	}
	f := &finding{explains: extra / float64(len(v.ok)), facts: facts}
	f.confidence, f.because = sure(product, fmt.Sprintf("first requests against later ones at %s, rank tests", countOf(hits, "level")))
	return f
}

// slowAgain says whether more than a twentieth of the requests with up to so many at
// once took longer than a limit in ms, the first of each part left out.
func (v *view) slowAgain(level int, limit float64) bool {
	n, slow := 0, 0
	for _, p := range v.parts {
		if p.phase != record.Level && p.phase != record.Single || p.level > level {
			continue
		}
		for _, t := range ttfts(p.as[min(len(p.as), max(1, p.level)):]) {
			n++
			if t > limit {
				slow++
			}
		}
	}
	return 20*slow > n
}

// coldStart looks at the run's first requests, warm-ups among them: one with more than 8 times
// the median TTFT and twice the highest of the others, or at least two in a row
// with more than 3 times the median. Or: connections that the first requests
// (of the run, or of each session) opened took at least 100 ms and half the
// median TTFT, while the later requests had theirs, and other new connections, if
// there are any, did not take nearly as long. By chance, as the others are, the first ones
// would be so slow in less than one run in 1,000.
func coldStart(v *view) *finding {
	if len(v.sent) < 15 {
		return nil
	}
	if f := firstSlow(v); f != nil {
		return f
	}
	return firstConnects(v)
}

func firstSlow(v *view) *finding {
	head := v.sent[0]
	like := where(v.sent, func(a *record.Attempt) bool { return a.Phase == head.Phase && a.Level == head.Level })
	if len(like) < 12 {
		like = v.sent
	}
	if head.Phase == record.Level && v.found["startup_wave"] {
		return nil // it has told of them
	}
	middle := median(ttfts(like))
	k := 0
	for k < len(v.sent)/3 && ms(*v.sent[k].TTFT) > 3*middle {
		k++
	}
	if k == 0 {
		return nil
	}
	lead := v.sent[:k]
	rest := where(like, func(a *record.Attempt) bool { return !slices.Contains(lead, a) })
	if len(rest) < 10 {
		return nil
	}
	middle = median(ttfts(rest))
	worst := slices.Max(ttfts(rest))
	first := ms(*lead[0].TTFT)
	slow, usual := 0, 0
	for _, p := range v.steady(1) {
		for _, a := range p.as {
			if usual++; ms(*a.TTFT) > 3*middle {
				slow++
			}
		}
	}
	chance := pow((float64(slow)+1)/(float64(usual)+1), k)
	if k == 1 && (first < 8*middle || first < 2*worst || chance > 0.05) || k > 1 && chance > 1e-3 {
		return nil
	}
	f := &finding{confidence: Fair, because: "one request, slower than any other", explains: sum(ttfts(lead), middle) / float64(len(v.sent))}
	if k >= 2 {
		f.confidence, f.because = sure(chance, fmt.Sprintf("%d in a row, where %d of %d others are as slow", k, slow, usual))
	}
	f.facts = []Fact{
		msFact(fmt.Sprintf("median TTFT of the first %d", k), median(ttfts(lead)), k, lead...),
		msFact("median TTFT of the others of that part", middle, len(rest)),
	}
	if a, b := values(lead, tpot), values(rest, tpot); len(a) > 0 && len(b) > 0 {
		f.facts = append(f.facts, Fact{What: "their TPOT", Value: round(median(a)), Unit: "ms", N: len(a)},
			Fact{What: "TPOT of the others", Value: round(median(b)), Unit: "ms", N: len(b)})
	}
	if s := values(lead, setup); len(s) > 0 {
		f.facts = append(f.facts, msFact("of it the connection's set-up, median", median(s), len(s)))
	}
	load := values(lead, func(a *record.Attempt) (float64, bool) {
		if a.Server == nil || a.Server.Load == nil {
			return 0, false
		}
		return ms(*a.Server.Load), true
	})
	if len(load) > 0 && median(load) > middle {
		f.confidence, f.because = Strong, "the server says that it loaded the model"
		f.facts = append(f.facts, msFact("loading the model, in the server's words", median(load), len(load)))
	}
	return f
}

// firstConnects finds first requests that are slow by their connections.
func firstConnects(v *view) *finding {
	if v.pooled {
		return nil
	}
	first := v.sent[:1]
	if head := v.sent[0]; head.Session > 0 && head.Phase == record.Call {
		first = where(v.sent, func(a *record.Attempt) bool { return a.Turn == 1 })
	}
	rest := where(v.sent, func(a *record.Attempt) bool { return !slices.Contains(first, a) && a.Phase == first[0].Phase })
	a, b := values(first, setup), values(rest, setup)
	if len(a) == 0 || len(b) < 10 {
		return nil
	}
	middle := median(values(rest, ttft))
	took := median(a)
	if took < 100 || took < middle/2 || quantileOf(b, 0.75) > took/4 {
		return nil
	}
	later := values(where(v.sent, func(q *record.Attempt) bool { isNew, ok := opened(q); return ok && isNew && !slices.Contains(first, q) }), setup)
	if len(later) >= 3 && took < 2.5*median(later) {
		return nil // every new connection takes that long: slow_connect
	}
	return &finding{
		confidence: Strong, because: "by the connections' own marks", explains: sum(a, 0) / float64(len(v.sent)),
		facts: []Fact{
			msFact("set-up of the connection in the first requests, median", took, len(a), first...),
			msFact("wait for the connection in the later ones, median", median(b), len(b)),
			msFact("median TTFT of the later ones", middle, len(rest)),
		},
	}
}

// sum returns the sum of x, each less a value.
func sum(x []float64, less float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v - less
	}
	return s
}

func pow(x float64, n int) float64 {
	p := 1.0
	for range n {
		p *= x
	}
	return p
}

// connectionPerRequest: more than 30 % (at 95 %) of the requests, those apart
// that were told to or are a call's first, opened a connection, and at least 10 more than were ever
// open at once.
func connectionPerRequest(v *view) *finding {
	if v.pooled {
		return nil
	}
	as := where(v.ok, func(a *record.Attempt) bool {
		first := a.Phase == record.Call && a.Turn <= 1 // a call may have its own
		return a.Phase != record.NewConn && a.Phase != record.IdleGap && !first && idleBefore(v, a) < idleBound
	})
	fresh, known, peak := 0, 0, 0
	var took []float64
	var which []*record.Attempt
	for _, a := range as {
		peak = max(peak, a.InFlight)
		isNew, ok := opened(a)
		if !ok {
			continue
		}
		known++
		if isNew {
			fresh++
			which = append(which, a)
			if s, ok := setup(a); ok {
				took = append(took, s)
			}
		}
	}
	low, _ := shareInterval(fresh, known, z95)
	if known < 20 || low < 0.30 || fresh < peak+10 {
		return nil
	}
	f := &finding{confidence: Strong, because: "by the connections' own marks", facts: []Fact{shareFact("requests that opened a connection", fresh, known, which...)}}
	if len(took) > 0 {
		f.explains = sum(took, 0) / float64(len(v.ok))
		f.facts = append(f.facts, msFact("set-up of it, median", median(took), len(took)))
		f.facts = append(f.facts, steps(which)...)
		if f.explains < 0.05*v.meanTTFT {
			f.severity = Note // a short way: it costs little
		}
	}
	return f
}

// steps returns what of the set-up was names, TCP and TLS.
func steps(as []*record.Attempt) []Fact {
	var facts []Fact
	for _, s := range []struct {
		name     string
		from, to func(*record.Attempt) *time.Duration
	}{
		{"DNS", func(a *record.Attempt) *time.Duration { return a.DNSStart }, func(a *record.Attempt) *time.Duration { return a.DNSDone }},
		{"TCP", func(a *record.Attempt) *time.Duration { return a.ConnectStart }, func(a *record.Attempt) *time.Duration { return a.ConnectDone }},
		{"TLS", func(a *record.Attempt) *time.Duration { return a.TLSStart }, func(a *record.Attempt) *time.Duration { return a.TLSDone }},
	} {
		x := values(as, func(a *record.Attempt) (float64, bool) { return between(s.from(a), s.to(a)) })
		if len(x) > 0 {
			facts = append(facts, msFact("… of it "+s.name+", median", median(x), len(x)))
		}
	}
	return facts
}

// slowConnect: at least 3 connections were opened, and the median set-up is at
// least 100 ms (public handshakes are 100 to 300 ms; R52). Whether it hurts
// depends on how many requests open one, which connection_per_request and
// idle_reconnect say: alone it is a note.
func slowConnect(v *view) *finding {
	fresh := where(v.sent, func(a *record.Attempt) bool { isNew, ok := opened(a); return ok && isNew && waitedToOpen(a) })
	took := values(fresh, setup)
	if v.pooled || len(took) < 3 || median(took) < 100 {
		return nil
	}
	measured := values(where(fresh, func(a *record.Attempt) bool { return !a.Warmup && a.Phase != record.NewConn }), setup)
	return &finding{
		confidence: Strong, because: "by the connections' own marks", severity: Note, explains: sum(measured, 0) / float64(max(1, len(v.ok))),
		facts: append([]Fact{msFact("set-up of a new connection, median", median(took), len(took), slowest(fresh)...)}, steps(fresh)...),
	}
}

// waitedToOpen says whether the wait for the connection was its set-up, not one
// for a place in a pool.
func waitedToOpen(a *record.Attempt) bool {
	return a.Reused != nil || a.ConnectStart != nil || a.InFlight <= 5
}

// idleBound is uvicorn's keep-alive, the shortest among the usual servers.
const idleBound = 5 * time.Second

// idleBefore returns how long the connection of the attempt had not been used:
// as the plan or the record has it, in calls since the session's last answer.
func idleBefore(v *view, a *record.Attempt) time.Duration {
	if a.Phase == record.Call && a.Turn > 1 {
		return v.pauses()[a]
	}
	idle := a.Pause
	if a.Idle != nil {
		idle = max(idle, *a.Idle)
	}
	return idle
}

// pauses returns, for the turns of calls, the time since the session's answer
// before.
func (v *view) pauses() map[*record.Attempt]time.Duration {
	if v.idle != nil {
		return v.idle
	}
	v.idle = map[*record.Attempt]time.Duration{}
	last := map[int]*record.Attempt{}
	for _, a := range v.all {
		if a.Phase != record.Call {
			continue
		}
		if b := last[a.Session]; b != nil && b.End != nil && *a.Send > *b.End {
			v.idle[a] = *a.Send - *b.End
		}
		last[a.Session] = a
	}
	return v.idle
}

// idleReconnect compares requests after a pause of at least 5 s with those
// without: at least half of them, and at least 5, opened a connection while at
// most a tenth of the others did; or their TTFT is half as high again with p <
// 10⁻⁴ and 20 ms. In calls every later turn comes after a pause, so there it
// is enough that most opened one.
func idleReconnect(v *view) *finding {
	var after, before []*record.Attempt
	shortest := time.Duration(0)
	for _, a := range v.ok {
		if a.Phase == record.NewConn {
			continue
		}
		if idle := idleBefore(v, a); idle >= idleBound {
			after = append(after, a)
		} else if a.Phase == record.Single || a.Phase == record.IdleGap || a.Phase == record.Call && a.Turn > 1 {
			before = append(before, a)
		}
	}
	if len(after) < 5 || v.pooled {
		return nil
	}
	fresh := where(after, func(a *record.Attempt) bool { isNew, _ := opened(a); return isNew })
	others := where(before, func(a *record.Attempt) bool { isNew, _ := opened(a); return isNew })
	for _, a := range fresh {
		if idle := idleBefore(v, a); shortest == 0 || idle < shortest {
			shortest = idle
		}
	}
	a, b := ttfts(after), ttfts(before)
	reconnects := len(fresh) >= 5 && 2*len(fresh) >= len(after) && (len(before) < 10 || 10*len(others) <= len(before))
	slower := len(b) >= 10 && after[0].Phase != record.Call && median(a) > 1.5*median(b) && median(a) > median(b)+20 && above(a, b) < 1e-4
	if !reconnects && !slower {
		return nil
	}
	f := &finding{facts: []Fact{msFact(fmt.Sprintf("median TTFT after %.0f s and more without a request", idleBound.Seconds()), median(a), len(a), slowest(after)...)}}
	if len(b) > 0 {
		f.facts = append(f.facts, msFact("median TTFT without such a pause", median(b), len(b)))
	}
	if slower {
		f.confidence, f.because = sure(above(a, b), "TTFT after a pause against without, rank test")
		f.explains = (mean(a) - mean(b)) * float64(len(a)) / float64(len(v.ok))
	}
	if reconnects {
		f.confidence, f.because = Strong, "by the connections' own marks"
		f.facts = append(f.facts, shareFact("of them opened a connection", len(fresh), len(after), fresh...),
			Fact{What: "shortest pause after which one was opened", Value: round(shortest.Seconds()), Unit: "s", N: len(fresh)})
		took := values(fresh, setup)
		if len(took) > 0 {
			f.explains = sum(took, 0) / float64(len(v.ok))
			f.facts = append(f.facts, msFact("set-up of it, median", median(took), len(took)))
		}
		if !slower && median(append(took, 0)) < max(20, 0.05*v.medianTTFT) {
			f.severity = Note
		}
	}
	return f
}

// name says where a part is in the plan.
func (p part) name() string {
	switch p.phase {
	case record.Level:
		return fmt.Sprintf("%d at once", p.level)
	case record.Rate:
		return fmt.Sprintf("%s/s", short(p.rate))
	}
	return cmp.Or(map[record.Phase]string{record.Single: "one at a time", record.Call: "calls"}[p.phase], string(p.phase))
}
