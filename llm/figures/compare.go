package figures

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"firstsound/llm/record"
	"firstsound/page"
)

// A Comparison holds one run against another, part by part.
type Comparison struct {
	// Fixed are the fixed variables that differ: where there are any, what differs
	// in the figures need not be what was meant to be compared.
	Fixed []FixedDifference `json:"fixed_differences,omitempty"`
	Rows  []CompareRow      `json:"rows"`
	Only  []string          `json:"parts_of_one_run_only,omitempty"`
}

// A FixedDifference is a fixed variable that two runs do not share.
type FixedDifference struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// A CompareRow is how a quantile of a metric differs from run a to run b.
type CompareRow struct {
	Part   string `json:"part"`
	Metric string `json:"metric"` // "ttft_ns", "tpot_ns"
	Of     string `json:"quantile"`
	A      *int64 `json:"a_ns,omitempty"`
	B      *int64 `json:"b_ns,omitempty"`
	// Difference is b − a; Low and High hold it at 95 % (bootstrap over the kept
	// values of both runs). They are absent where the verdict says why.
	Difference *int64  `json:"difference_ns,omitempty"`
	Low        *int64  `json:"difference_low_ns,omitempty"`
	High       *int64  `json:"difference_high_ns,omitempty"`
	Verdict    string  `json:"verdict"` // of b: "worse", "better", "no difference shown" …
	FailedA    float64 `json:"failed_share_a"`
	FailedB    float64 `json:"failed_share_b"`
}

// Compare holds run b against run a: the medians and P95 of TTFT and TPOT of the
// parts that both have. Both reports are as Summary.Report returned them; one
// that was read back from JSON has no single values, and the rows say so.
func Compare(a, b *Report) *Comparison {
	c := &Comparison{Fixed: fixedDifferences(a.Head, b.Head), Rows: []CompareRow{}}
	for _, x := range a.Parts {
		y := b.part(x.Key)
		if y == nil {
			c.Only = append(c.Only, x.Name+" (a)")
			continue
		}
		for _, m := range []int{ttft, tpot} {
			p, q := x.metric(metrics[m].key), y.metric(metrics[m].key)
			for _, d := range differences(x, y, m, []string{"p50", "p95"}, func(b, a int64) int64 { return b - a }, 0) {
				row := CompareRow{Part: x.Key, Metric: metrics[m].key, Of: d.of, Verdict: d.verdict, FailedA: x.FailedShare, FailedB: y.FailedShare}
				if p != nil {
					row.A = p.Values.pick(d.of).Value
				}
				if q != nil {
					row.B = q.Values.pick(d.of).Value
				}
				if d.known {
					row.Difference, row.Low, row.High = &d.at, &d.low, &d.high
				}
				c.Rows = append(c.Rows, row)
			}
		}
	}
	for _, y := range b.Parts {
		if a.part(y.Key) == nil {
			c.Only = append(c.Only, y.Name+" (b)")
		}
	}
	return c
}

// fixedDifferences returns what R22 asks to be the same and is not.
func fixedDifferences(a, b Head) []FixedDifference {
	x, y := fixedOf(a), fixedOf(b)
	all := maps.Clone(x)
	maps.Copy(all, y)
	var out []FixedDifference
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if x[name] != y[name] {
			out = append(out, FixedDifference{name, x[name], y[name]})
		}
	}
	return out
}

// fixedOf returns all fixed variables of a run.
func fixedOf(h Head) map[string]string {
	r := h.Run
	out := map[string]string{
		"target.url": r.Target.URL, "target.model": r.Target.Model, "target.version": r.Target.Version, "target.dialect": r.Target.Dialect,
		"target.loopback": fmt.Sprint(r.Target.Loopback), "tester.place": r.Tester.Place, "tester.network": r.Tester.Network,
		"clock": r.Clock, "stamps": listed(h.Stamps), "protocols": listed(h.Protocols),
	}
	maps.Copy(out, r.Fixed)
	return out
}

// listed returns the names of a count, in order.
func listed(n map[string]int64) string {
	return joined(slices.Sorted(maps.Keys(n)), " ")
}

// WriteText writes the comparison for people, in plain text.
func (c *Comparison) WriteText(w io.Writer, o TextOptions) error {
	p := newSheet(o)
	p.Line("%s  run b against run a; more is worse", p.Style(page.Bold, "firstsound"))
	for _, f := range c.Fixed {
		p.Item("!  ", page.Red, fmt.Sprintf("%s differs: %s in a, %s in b", f.Name, orNothing(f.A), orNothing(f.B)))
	}
	if len(c.Fixed) > 0 {
		p.Item("!  ", page.Red, "what differs below may come from this")
	}
	if len(c.Rows) == 0 {
		p.Line("  no part is in both runs")
	}
	part := ""
	for _, row := range c.Rows {
		if row.Part != part {
			part = row.Part
			p.Section(part, fmt.Sprintf("failed: a %.1f %%, b %.1f %%", 100*row.FailedA, 100*row.FailedB))
			p.Line("  %s%s%s%s  %s", page.Left("", 10), page.Right("a", 9), page.Right("b", 10), page.Right("b − a", 10), "95 % interval, in ms")
		}
		name := "TTFT"
		if row.Metric == metrics[tpot].key {
			name = "TPOT"
		}
		verdict, style := row.Verdict, ""
		if row.Difference == nil {
			p.Line("  %s%s%s%s  %s", page.Left(name+" "+upper(row.Of), 10), page.Right(msOrDash(row.A), 9), page.Right(msOrDash(row.B), 10), page.Right("–", 10), p.Style(page.Dim, verdict))
			continue
		}
		switch verdict {
		case worse:
			style = page.Red
		case better:
			style = page.Green
		}
		p.Line("  %s%s%s%s  %s  %s", page.Left(name+" "+upper(row.Of), 10), page.Right(msOrDash(row.A), 9), page.Right(msOrDash(row.B), 10), page.Right(signed(*row.Difference), 10),
			page.Left(signed(*row.Low)+" … "+signed(*row.High), 22), p.Style(style, verdict))
	}
	if len(c.Rows) > 0 {
		p.Line("")
		p.Text("  ", page.Dim, "each interval misses the true difference in about 1 of 20 comparisons: of many, some differ by chance")
	}
	if len(c.Only) > 0 {
		p.Text("  ", page.Dim, "in one run only: "+joined(c.Only, ", "))
	}
	return p.write(w)
}

// orNothing returns s, or that there is none.
func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// mixed returns whether attempts went over more than one protocol.
func (h *Head) mixed() bool { return len(h.Protocols) > 1 }

// by returns how many attempts have their arrivals from a source.
func (h *Head) by(s record.StampSource) int64 { return h.Stamps[string(s)] }
