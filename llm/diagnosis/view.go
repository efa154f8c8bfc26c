package diagnosis

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"firstsound/llm/record"
)

// A view is a run as the rules look at it.
type view struct {
	run     record.Run
	samples []record.Sample
	all     []*record.Attempt // by Send, as far as they have one
	sent    []*record.Attempt // those of them that brought a first token and ended well, warm-ups too
	ok      []*record.Attempt // … without warm-ups
	parts   []part            // of ok, in the order of their first request
	found   map[string]bool   // verdicts so far

	meanTTFT   float64 // of ok, ms
	medianTTFT float64
	shapes     map[*record.Attempt]shape
	idle       map[*record.Attempt]time.Duration
	pooled     bool // waits for connections are those of a pool
}

// A part is the measured requests that were sent under the same conditions.
type part struct {
	phase record.Phase
	level int
	rate  float64
	size  int
	pause time.Duration
	as    []*record.Attempt
}

func newView(run record.Run, attempts []*record.Attempt, samples []record.Sample) *view {
	v := &view{run: run, samples: samples, found: map[string]bool{}, shapes: map[*record.Attempt]shape{}}
	for _, a := range attempts {
		if a.Send != nil {
			v.all = append(v.all, a)
		}
	}
	slices.SortStableFunc(v.all, func(a, b *record.Attempt) int { return cmp.Compare(*a.Send, *b.Send) })
	for _, a := range v.all {
		if a.Class != record.OK || a.TTFT == nil || *a.TTFT <= 0 || a.FirstToken == nil {
			continue
		}
		v.sent = append(v.sent, a)
		if a.Warmup {
			continue
		}
		v.ok = append(v.ok, a)
		p := part{phase: a.Phase, level: a.Level, rate: a.AskedRate, size: a.PromptTarget, pause: a.Pause}
		i := slices.IndexFunc(v.parts, func(q part) bool {
			return q.phase == p.phase && q.level == p.level && q.rate == p.rate && q.size == p.size && q.pause == p.pause
		})
		if i < 0 {
			i = len(v.parts)
			v.parts = append(v.parts, p)
		}
		v.parts[i].as = append(v.parts[i].as, a)
	}
	if t := ttfts(v.ok); len(t) > 0 {
		v.meanTTFT, v.medianTTFT = mean(t), median(t)
	}
	return v
}

// of returns the measured requests of the phases.
func (v *view) of(phases ...record.Phase) []*record.Attempt {
	var out []*record.Attempt
	for _, a := range v.ok {
		if slices.Contains(phases, a.Phase) {
			out = append(out, a)
		}
	}
	return out
}

// levels returns the parts of closed-loop load with at least n requests, by
// level. Requests one at a time count as level 1, where it has no part.
func (v *view) levels(n int) []part {
	var out []part
	single := part{phase: record.Level, level: 1}
	for _, p := range v.parts {
		switch {
		case p.phase == record.Single || p.phase == record.Level && p.level == 1:
			single.as = append(single.as, p.as...)
		case p.phase == record.Level && len(p.as) >= n:
			out = append(out, p)
		}
	}
	if len(single.as) >= n {
		out = append(out, single)
	}
	slices.SortFunc(out, func(a, b part) int { return cmp.Compare(a.level, b.level) })
	return out
}

// settled returns the levels without their start-up waves, where there are such.
func (v *view) settled(n int) []part {
	l := v.levels(n)
	if v.found["startup_wave"] {
		for i := range l {
			if l[i].level >= 5 && len(l[i].as) >= l[i].level+n {
				l[i].as = l[i].as[l[i].level:]
			}
		}
	}
	return l
}

// quiet returns the measured requests under the least load: one at a time if
// there are any, else the lowest level, else the turns of calls, else all.
func (v *view) quiet() []*record.Attempt {
	if l := v.levels(10); len(l) > 0 {
		return l[0].as
	}
	if q := v.of(record.PromptSize, record.Conversation, record.Call); len(q) >= 10 {
		return q
	}
	return v.ok
}

// steady returns the parts whose requests are alike: load that does not exceed
// five at once, open loop, calls.
func (v *view) steady(n int) []part {
	var out []part
	for _, p := range v.parts {
		like := p.phase == record.Single || p.phase == record.Rate || p.phase == record.Call || p.phase == record.Level && p.level <= 5
		if like && len(p.as) >= n {
			out = append(out, p)
		}
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// values returns f of the attempts for which it is known.
func values(as []*record.Attempt, f func(*record.Attempt) (float64, bool)) []float64 {
	out := make([]float64, 0, len(as))
	for _, a := range as {
		if x, ok := f(a); ok {
			out = append(out, x)
		}
	}
	return out
}

func ttft(a *record.Attempt) (float64, bool) { return ms(*a.TTFT), true }

func ttfts(as []*record.Attempt) []float64 { return values(as, ttft) }

func tpot(a *record.Attempt) (float64, bool) {
	if a.TPOT == nil {
		return 0, false
	}
	return ms(*a.TPOT), true
}

// between returns the time from one moment to another, if both are known and in
// this order.
func between(from, to *time.Duration) (float64, bool) {
	if from == nil || to == nil || *to < *from {
		return 0, false
	}
	return ms(*to - *from), true
}

// setup returns how long the attempt waited for its connection.
func setup(a *record.Attempt) (float64, bool) { return between(a.Send, a.Connected) }

// served returns the time from the ready connection to the first token.
func served(a *record.Attempt) (float64, bool) {
	if a.Connected == nil {
		return ttft(a)
	}
	return between(a.Connected, a.FirstToken)
}

// opened says whether the attempt opened a connection: as the record has it, else
// by a wait of at least 5 ms for it, which is a handshake over a short distance.
func opened(a *record.Attempt) (opened, known bool) {
	if a.Reused != nil {
		return !*a.Reused, true
	}
	s, ok := setup(a)
	return s >= 5, ok
}

// output returns the output tokens, else the content events.
func output(a *record.Attempt) int {
	if a.OutputTokens != nil {
		return *a.OutputTokens
	}
	return len(a.Chunks)
}

// examples returns the IDs of at most three attempts.
func examples(as []*record.Attempt) []string {
	var out []string
	for _, a := range as[:min(3, len(as))] {
		out = append(out, a.RequestID)
	}
	return out
}

// slowest returns the attempts with the longest TTFT first.
func slowest(as []*record.Attempt) []*record.Attempt {
	out := slices.Clone(as)
	slices.SortStableFunc(out, func(a, b *record.Attempt) int { return cmp.Compare(*b.TTFT, *a.TTFT) })
	return out
}

// where returns the attempts for which keep is true.
func where(as []*record.Attempt, keep func(*record.Attempt) bool) []*record.Attempt {
	var out []*record.Attempt
	for _, a := range as {
		if keep(a) {
			out = append(out, a)
		}
	}
	return out
}

// short writes a number with three digits that count.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// msFact is a fact in milliseconds.
func msFact(what string, value float64, n int, of ...*record.Attempt) Fact {
	return Fact{What: what, Value: round(value), Unit: "ms", N: n, Requests: examples(of)}
}

// shareFact is a share of k in n, in per cent, with its interval.
func shareFact(what string, k, n int, of ...*record.Attempt) Fact {
	low, high := shareInterval(k, n, z95)
	low, high = round(100*low), round(100*high)
	return Fact{What: what, Value: round(100 * float64(k) / float64(n)), Unit: "%", N: n, Low: &low, High: &high, Requests: examples(of)}
}

// timesFact is a ratio.
func timesFact(what string, value float64, n int) Fact {
	return Fact{What: what, Value: round(value), Unit: "x", N: n}
}

// round keeps three decimal places: microseconds, where the unit is ms.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
