package figures

import (
	"slices"

	"firstsound/page"
)

// A Scene is a row of the selection table: what a use of a model should watch.
type Scene struct {
	Scene string   `json:"scene"`
	Watch []string `json:"watch"` // gates' words: "ttft.p50"
	// Reference is an experience value, not a limit; Source says whose, and how
	// good: A primary, B a third party's benchmark with method, C a blog's or
	// vendor's claim. Both are empty where we know of none.
	Reference string  `json:"reference,omitempty"`
	Source    string  `json:"source,omitempty"`
	Measured  []Found `json:"measured"` // of the headline part
	Part      string  `json:"part,omitempty"`
}

// A Found is a value that a scene watches.
type Found struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Unit      string `json:"unit"`
	Value     *int64 `json:"value,omitempty"` // in Unit
	Supported bool   `json:"supported"`
}

// sceneTable has the scenes. Its figures are those of docs/simulator.md, section 3,
// with the grades given there.
var sceneTable = []Scene{
	{Scene: "voice agent", Watch: []string{"ttft.p50", "ttft.p95", "first_segment.p95"},
		Reference: "TTFT 375 ms at the median, 750 ms at most", Source: "Twilio's guide of Nov 2025, relayed by callsphere.ai (C)"},
	{Scene: "chat on a screen", Watch: []string{"ttft.p95", "tpot.p50", "stall.p95"},
		Reference: "TTFT 321 to 912 ms, TPOT 5.2 to 22 ms (192 to 45 tokens/s)", Source: "three hosted models, measured by jonathanwrede.de: tiny prompt, one place, n = 17 (B)"},
	{Scene: "tool use", Watch: []string{"ttft.p95", "total.p95"},
		Reference: "the tool itself about 300 ms more at the median", Source: "blogs, illustrative (C); nothing is said before the call is whole: watch the total"},
	{Scene: "long prompts, retrieval", Watch: []string{"ttft.p95", "cached_tokens.p50"},
		Reference: "250 ms per 1,000 prompt tokens (8B on an H100), 500 ms (70B on eight)", Source: "profiles of llm-d-inference-sim: its own order-of-magnitude estimates (C)"},
	{Scene: "batch", Watch: []string{"total.p99", "output_tokens.p50"}},
}

// A TargetRow holds a part against one of the user's targets.
type TargetRow struct {
	Part    string `json:"part"`
	Target  string `json:"target"`
	Verdict string `json:"verdict"` // "met", "missed", "not decided", "not supported by n", "not measured"
	Why     string `json:"why"`
}

// targetRows holds the parts that are no sweep, or the part that is named, against
// the targets: a quantile by its interval, all else by its value.
func (r *Report) targetRows(targets []Gate) []TargetRow {
	var out []TargetRow
	for _, g := range targets {
		n := len(out)
		for _, p := range r.Parts {
			if g.Part != "" && p.Key != g.Part || g.Part == "" && !isMain(p.Phase) {
				continue
			}
			ok, why := p.pass(g)
			row := TargetRow{Part: p.Key, Target: g.String(), Verdict: "missed", Why: why}
			m := p.metric(g.Metric)
			switch {
			case m != nil && quantileOf[g.Of] > 0:
				q := m.Values.pick(g.Of)
				row.Verdict = g.judge(q)
				if row.Verdict != notEnough {
					row.Why = m.Title + page.Tie + upper(g.Of) + page.Tie + withUnit(*q.Value, m.Unit) + ", 95 % " + intervalOf(q, m.Unit)
				}
			case m == nil && unitOf(g.Metric) != "":
				row.Verdict = "not measured"
			case ok:
				row.Verdict = "met"
			}
			row.Why = plain(row.Why)
			out = append(out, row)
		}
		if len(out) == n {
			out = append(out, TargetRow{Part: g.Part, Target: g.String(), Verdict: "not measured", Why: "no such part in the run"})
		}
	}
	return out
}

// scenes returns the selection table with what was measured in the headline part.
func (r *Report) scenes() []Scene {
	out := slices.Clone(sceneTable)
	head := r.headline()
	for i := range out {
		out[i].Measured = []Found{}
		if head == nil {
			continue
		}
		out[i].Part = head.Key
		for _, name := range out[i].Watch {
			g, err := ParseGate(name + "<1")
			if err != nil {
				panic("figures: the selection table watches what there is not: " + err.Error())
			}
			if m := head.metric(g.Metric); m != nil {
				q := m.Values.pick(g.Of)
				out[i].Measured = append(out[i].Measured, Found{name, m.Title, m.Unit, q.Value, q.Supported})
			}
		}
	}
	return out
}
