package figures

import (
	"fmt"
	"slices"
)

// A Worsening is how much longer a quantile is at a level than at the base.
type Worsening struct {
	From   string `json:"from"` // key of a part
	To     string `json:"to"`
	Metric string `json:"metric"` // "ttft_ns", "tpot_ns"
	Of     string `json:"quantile"`
	// Ratio is absent where n does not support the quantile. Low and High hold it
	// at 95 % (bootstrap over the requests of both parts).
	Ratio   *float64 `json:"ratio,omitempty"`
	Low     *float64 `json:"ratio_low,omitempty"`
	High    *float64 `json:"ratio_high,omitempty"`
	Verdict string   `json:"verdict"` // "worse", "better", "no difference shown", "not supported by n"
}

// The verdicts of a comparison.
const (
	worse     = "worse"
	better    = "better"
	noShown   = "no difference shown"
	notEnough = "not supported by n"
	notKept   = "not known: the single values are not kept"
	noValues  = "not measured in both"
)

// quantileNames are the quantiles of a table, in order.
var quantileNames = []string{"p50", "p95", "p99"}

// worsening returns how TTFT and TPOT differ from base to p.
func worsening(base, p *Part) []Worsening {
	var out []Worsening
	for _, m := range []int{ttft, tpot} {
		for _, d := range differences(base, p, m, quantileNames, millionths, 1e6) {
			w := Worsening{From: base.Key, To: p.Key, Metric: metrics[m].key, Of: d.of, Verdict: d.verdict}
			if d.known {
				w.Ratio, w.Low, w.High = new(float64(d.at)/1e6), new(float64(d.low)/1e6), new(float64(d.high)/1e6)
			}
			out = append(out, w)
		}
	}
	return out
}

// A difference is how a quantile of b stands to that of a, in a measure for which
// none means that they are equal.
type difference struct {
	of            string
	known         bool
	at, low, high int64
	verdict       string
}

// differences compares quantiles of a metric of two parts, by a measure of two
// values.
func differences(a, b *Part, m int, of []string, how func(b, a int64) int64, none int64) []difference {
	x, y := a.metric(metrics[m].key), b.metric(metrics[m].key)
	out := make([]difference, len(of))
	var qs []float64
	for i, q := range of {
		out[i].of = q
		qs = append(qs, quantileOf[q])
		switch {
		case x == nil || y == nil:
			out[i].verdict = noValues
		case !x.Values.pick(q).Supported || !y.Values.pick(q).Supported:
			out[i].verdict = notEnough
		case a.sampled[m] == nil || b.sampled[m] == nil:
			out[i].verdict = notKept
		}
	}
	if !slices.ContainsFunc(out, func(d difference) bool { return d.verdict == "" }) {
		return out
	}
	low, high := between95(a.sampled[m], b.sampled[m], qs, how)
	for i := range out {
		d := &out[i]
		if d.verdict != "" {
			continue
		}
		d.known, d.at, d.low, d.high = true, how(*y.Values.pick(d.of).Value, *x.Values.pick(d.of).Value), low[i], high[i]
		switch {
		case d.low > none:
			d.verdict = worse
		case d.high < none:
			d.verdict = better
		default:
			d.verdict = noShown
		}
	}
	return out
}

// high is from when on a median counts as high beside the same one at the base:
// half as much again (assumption; R12 asks for high or normal and names no bound).
const high = 1.5

// judge says which term of the sum is to blame: each is held against the user's
// target for it, where there is one, else against the base.
func (s *Sum) judge(p, base *Part, targets []Gate) {
	s.Blame, s.Reference = "no reference", "none"
	long, by := map[string]bool{}, []string{}
	for _, name := range []string{"ttft", "tpot", "total"} {
		m := p.metric(name)
		at := slices.IndexFunc(targets, func(g Gate) bool {
			return g.Metric == name && g.Below && quantileOf[g.Of] > 0 && (g.Part == "" || g.Part == p.Key)
		})
		switch {
		case m == nil:
			continue
		case at >= 0:
			by = append(by, targets[at].String())
			long[name] = targets[at].judge(m.Values.pick(targets[at].Of)) == "missed"
		case base != nil && base != p:
			ref := base.metric(name)
			if ref == nil || !m.Values.P50.Supported || !ref.Values.P50.Supported {
				continue
			}
			by = append(by, name+" of "+base.Name)
			long[name] = float64(*m.Values.P50.Value) > high*float64(*ref.Values.P50.Value)
		}
	}
	if len(by) == 0 {
		s.Sentence = "no reference: give targets (ttft.p50<400ms), or measure one at a time beside several at once"
		return
	}
	s.Reference = joined(by, ", ")
	switch {
	case long["ttft"] && long["tpot"]:
		s.Blame, s.Sentence = "both", "TTFT and TPOT are both high: a server under load, or too small for the model"
	case long["ttft"]:
		s.Blame, s.Sentence = "waiting", "TTFT is high and TPOT is not: waiting (connection, queue, prefill, load)"
	case long["tpot"]:
		s.Blame, s.Sentence = "decoding", "TPOT is high and TTFT is not: decoding (engine, quantization, concurrency)"
	case long["total"]:
		s.Blame, s.Sentence = "output length", "TTFT and TPOT are normal and the total is high: the length of the answer"
	default:
		s.Blame, s.Sentence = "none", "no term is high"
	}
	s.Sentence += fmt.Sprintf(" (held against: %s)", s.Reference)
}
