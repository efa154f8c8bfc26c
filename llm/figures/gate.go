package figures

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/llm/record"
)

// A Limit is the most that a metric of a good request may be.
type Limit struct {
	Metric string        `json:"metric"` // "ttft", "tpot", "e2e"
	Most   time.Duration `json:"most_ns"`
}

// ParseGoodput reads limits in milliseconds, as vLLM's users write them:
// "ttft:300,tpot:50,e2e:2000". A number may have a unit: "ttft:300ms".
func ParseGoodput(s string) ([]Limit, error) {
	var out []Limit
	for field := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), ":")
		if !ok || name != "ttft" && name != "tpot" && name != "e2e" {
			return nil, fmt.Errorf("%q is not ttft:MS, tpot:MS or e2e:MS", field)
		}
		if slices.ContainsFunc(out, func(l Limit) bool { return l.Metric == name }) {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		most, err := milliseconds(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, Limit{name, most})
	}
	return out, nil
}

// milliseconds reads a length of time above 0, in milliseconds unless it has a unit.
func milliseconds(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if f, bad := strconv.ParseFloat(s, 64); bad == nil {
		d, err = time.Duration(f*float64(time.Millisecond)), nil
	}
	if err != nil || d <= 0 || d > 24*time.Hour {
		return 0, fmt.Errorf("%q is no time such as 300, 300ms or 1.5s", s)
	}
	return d, nil
}

// isGood returns whether an ok attempt keeps to every limit. A TPOT that cannot
// be told, as of a reply of one token, breaks no limit.
func isGood(a *record.Attempt, limits []Limit) bool {
	for _, l := range limits {
		v := a.TTFT
		switch l.Metric {
		case "tpot":
			if v = a.TPOT; v == nil {
				continue
			}
		case "e2e":
			v = a.Total
		}
		if v == nil || *v > l.Most {
			return false
		}
	}
	return true
}

// A Gate is a condition on a report: "ttft.p95<400ms", "level10:tpot.p50<=30ms",
// "failures<1%", "goodput>95%". ParseGate makes them.
type Gate struct {
	Part   string  // the key of a part; empty: every part that is not a sweep
	Metric string  // short: "ttft"; or "failures", "goodput"
	Of     string  // "p50", "p95", "p99", "mean", "max"
	Below  bool    // else above
	Equal  bool    // the limit itself passes
	Limit  float64 // nanoseconds, tokens, or a share
	text   string
}

// String returns the gate as it was written.
func (g Gate) String() string { return g.text }

// ParseGate reads a gate. It has the form [PART:]METRIC.QUANTILE<LIMIT, with one of
// <, <=, > and >=; a limit is a time (milliseconds unless it has a unit), a number
// of tokens, or of failures and goodput per cent of the attempted requests.
func ParseGate(s string) (Gate, error) {
	g := Gate{text: s}
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return g, fmt.Errorf("%q: it has no <, <=, > or >=; write one like ttft.p95<400ms", s)
	}
	left, right := s[:at], s[at+1:]
	g.Below = s[at] == '<'
	right, g.Equal = strings.CutPrefix(right, "=")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	if part, rest, ok := strings.Cut(left, ":"); ok {
		g.Part, left = strings.ReplaceAll(part, " ", ""), rest
	}
	if left == "failures" || left == "goodput" {
		share, ok := strings.CutSuffix(right, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || !ok || !(v >= 0 && v <= 100) {
			return g, fmt.Errorf("%q: %q is no share from 0%% to 100%%", s, right)
		}
		g.Metric, g.Limit = left, v/100
		return g, nil
	}
	g.Metric, g.Of, _ = strings.Cut(left, ".")
	if g.Metric == "e2e" {
		g.Metric = "total"
	}
	unit := unitOf(g.Metric)
	if unit == "" {
		return g, fmt.Errorf("%q: there is no metric %q; there are %s, failures and goodput", s, g.Metric, strings.Join(shortNames(), ", "))
	}
	if !slices.Contains([]string{"p50", "p95", "p99", "mean", "max"}, g.Of) {
		return g, fmt.Errorf("%q: %s takes .p50, .p95, .p99, .mean or .max", s, g.Metric)
	}
	if unit == unitTokens {
		v, err := strconv.ParseInt(right, 10, 32)
		if err != nil || v < 0 {
			return g, fmt.Errorf("%q: %q is no number of tokens", s, right)
		}
		g.Limit = float64(v)
		return g, nil
	}
	d, err := milliseconds(right)
	if err != nil {
		return g, fmt.Errorf("%q: %w", s, err)
	}
	g.Limit = float64(d)
	return g, nil
}

// unitOf returns the unit of a metric by its short name; "" if there is none.
func unitOf(short string) string {
	for i := range metrics {
		if metrics[i].short == short {
			return metrics[i].unit
		}
	}
	return ""
}

func shortNames() []string {
	var out []string
	for i := range metrics {
		out = append(out, metrics[i].short)
	}
	return out
}

// A Passed says whether a gate holds, and why not.
type Passed struct {
	OK  bool
	Why []string // a sentence for each part that it was held against
}

// Pass holds the report against a gate. What cannot be told does not pass: a
// run that is not complete, a part that was not measured, a metric without values, or failures beyond the
// quantile, since no answer counts as late. Where n does not support a quantile,
// the maximum is held against the limit in its place.
func (r *Report) Pass(g Gate) Passed {
	out := Passed{OK: true}
	if run := &r.Head.Run; run.State != record.Complete {
		return Passed{Why: []string{notWhole(run)}}
	}
	held := 0
	for _, p := range r.Parts {
		if g.Part != "" && p.Key != g.Part || g.Part == "" && !isMain(p.Phase) {
			continue
		}
		held++
		ok, why := p.pass(g)
		out.OK = out.OK && ok
		out.Why = append(out.Why, p.Name+": "+plain(why))
	}
	if held == 0 {
		out.OK = false
		why := "no part that is no sweep was measured"
		if g.Part != "" {
			why = "no part " + g.Part + " was measured"
		}
		out.Why = append(out.Why, why)
	}
	return out
}

// isMain returns whether a phase is no sweep over something: tables show it in
// full, and gates without a part hold for it.
func isMain(p record.Phase) bool {
	switch p {
	case record.PromptSize, record.Conversation, record.NewConn, record.IdleGap:
		return false
	}
	return true
}

// holds returns whether a value passes.
func (g Gate) holds(v float64) bool {
	if v == g.Limit {
		return g.Equal
	}
	return (v < g.Limit) == g.Below
}

// pass holds one part against a gate.
func (p *Part) pass(g Gate) (bool, string) {
	switch g.Metric {
	case "failures":
		return g.holds(p.FailedShare), fmt.Sprintf("%s of %s failed", share(p.Failed, p.Attempted), countOf(p.Attempted, "request"))
	case "goodput":
		if p.Throughput.Goodput == nil {
			return false, "no goodput: its limits were not given"
		}
		good := p.Throughput.Goodput
		return g.holds(good.Share), fmt.Sprintf("%s of %s good", share(good.Good, good.Of), countOf(good.Of, "request"))
	}
	m := p.metric(g.Metric)
	if m == nil && g.Metric == metrics[itl].short && p.MergedITL > 0 {
		return false, "no gap is known: events came with one read"
	}
	if m == nil {
		return false, "no values of " + g.Metric
	}
	v, what := m.Values.Mean, g.Of
	switch g.Of {
	case "max":
		v = m.Values.Max
	case "p50", "p95", "p99":
		q := m.Values.pick(g.Of)
		v = q.Value
		if lost := p.lost(); g.Below && float64(lost) > (1-quantileOf[g.Of])*float64(p.Attempted) {
			return false, fmt.Sprintf("%s of %s got no answer, which counts as late: there is no %s", share(lost, p.Attempted), countOf(p.Attempted, "request"), strings.ToUpper(g.Of))
		}
		if q.Because != "" {
			return false, fmt.Sprintf("there is no %s: %s; hold stall against it", strings.ToUpper(g.Of), q.Because)
		}
		if !q.Supported {
			v, what = m.Values.Max, fmt.Sprintf("the maximum (n = %d does not support %s, which needs %d)", m.Values.N, strings.ToUpper(g.Of), q.Needs)
			if !g.Below {
				v, what = m.Values.Min, strings.Replace(what, "maximum", "minimum", 1)
			}
		}
	}
	return g.holds(float64(*v)), fmt.Sprintf("%s %s is %s", m.Title, what, withUnit(*v, m.Unit))
}

// quantileOf is what the names of quantiles mean.
var quantileOf = map[string]float64{"p50": 0.50, "p95": 0.95, "p99": 0.99}

// lost returns how many requests got no answer: failed, or still open.
func (p *Part) lost() int64 {
	n := p.Failed
	if p.Open != nil {
		n += p.Open.N
	}
	return n
}

// judge says whether a quantile of a metric meets a target, by its interval:
// "met", "missed", or "not decided" if the interval holds the limit.
func (g Gate) judge(q Quantile) string {
	switch {
	case !q.Supported || q.Value == nil:
		return "not supported by n"
	case q.Low == nil || q.High == nil:
		return "not decided"
	}
	low, high := g.holds(float64(*q.Low)), g.holds(float64(*q.High))
	switch {
	case low && high:
		return "met"
	case !low && !high:
		return "missed"
	}
	return "not decided"
}
