package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"firstsound/llm/diagnosis"
	llmfigures "firstsound/llm/figures"
	"firstsound/llm/record"
	"firstsound/llm/serverside"
)

// benchView are the flags that say how the report of a benchmark looks and what
// it is held against.
type benchView struct {
	json    bool
	width   int
	color   string
	goodput []string
	targets []string
	gates   []string
}

func (v *benchView) flags(f *pflag.FlagSet) {
	v.goodputFlag(f)
	f.StringArrayVar(&v.targets, "target", nil, "hold the figures against your own target (`GATE`), such as 'ttft.p50<300ms'")
	f.StringArrayVar(&v.gates, "gate", nil, "exit 1 if this does not hold (`GATE`), such as 'ttft.p95<400ms' or 'failures<1%'")
	f.BoolVar(&v.json, "json", false, "print the report as JSON")
	f.IntVar(&v.width, "width", 100, "columns of the text, at least 80")
	f.StringVar(&v.color, "color", "auto", "auto, always or never")
}

func (v *benchView) goodputFlag(f *pflag.FlagSet) {
	f.StringSliceVar(&v.goodput, "goodput", nil, "what a good request keeps to (`METRIC:MS,...`), such as ttft:300,tpot:50")
}

func (v *benchView) check() error {
	switch {
	case v.width < 80 || v.width > 1000:
		return usagef("--width takes 80 to 1000 columns, not %d", v.width)
	case v.color != "auto" && v.color != "always" && v.color != "never":
		return usagef("--color takes auto, always or never, not %q", v.color)
	}
	return nil
}

// options are those of the figures, and the gates.
func (v *benchView) options(goodput, targets []string) (o llmfigures.Options, gates []llmfigures.Gate, err error) {
	if len(goodput) > 0 {
		if o.Goodput, err = llmfigures.ParseGoodput(strings.Join(goodput, ",")); err != nil {
			return o, nil, usagef("--goodput: %w", err)
		}
	}
	if o.Targets, err = parseGates("target", targets); err != nil {
		return o, nil, err
	}
	gates, err = parseGates("gate", v.gates)
	return o, gates, err
}

func parseGates(flag string, texts []string) (gates []llmfigures.Gate, err error) {
	for _, text := range texts {
		g, err := llmfigures.ParseGate(text)
		if err != nil {
			return nil, usagef("--%s: %w", flag, err)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// maxDiagnosed is how many attempts the diagnosis of a benchmark's report looks
// at: they are kept in memory, 3 kB each for an answer of 64 tokens.
const maxDiagnosed = 20_000

// A benchResult is what a run of bench llm came to.
type benchResult struct {
	info     record.Run
	summary  *llmfigures.Summary
	attempts []*record.Attempt // the first maxDiagnosed; all, if somebody needs them
	left     int               // attempts that are not among them
	sent     int               // requests that the server can know of
	samples  []record.Sample
	joins    []joinedLog
}

// take takes an attempt.
func (r *benchResult) take(a *record.Attempt, all bool) {
	r.summary.Add(a)
	if a.WroteRequest != nil || a.Headers != nil {
		r.sent++
	}
	if all || len(r.attempts) < maxDiagnosed {
		r.attempts = append(r.attempts, a)
	} else {
		r.left++
	}
}

// verdicts returns what the diagnosis finds.
func (r *benchResult) verdicts() []diagnosis.Verdict {
	v := diagnosis.Find(r.info, r.attempts[:min(len(r.attempts), maxDiagnosed)], r.samples)
	if v == nil {
		v = []diagnosis.Verdict{}
	}
	return v
}

// A benchReport is the JSON report of bench llm.
type benchReport struct {
	*llmfigures.Report
	ServerLogs    []joinedLog         `json:"server_logs,omitempty"`
	ServerMetrics *monitoring         `json:"server_metrics,omitempty"`
	Diagnosis     []diagnosis.Verdict `json:"diagnosis"`
}

// print prints the report of a run.
func (v *benchView) print(s streams, r *benchResult) (*llmfigures.Report, error) {
	report := r.summary.Report(r.info)
	m := newMonitoring(r.samples, r.sent)
	if v.json {
		return report, writeIndented(s.out, benchReport{report, r.joins, m, r.verdicts()})
	}
	if err := report.WriteText(s.out, v.text(s)); err != nil {
		return report, err
	}
	for i := range r.joins {
		fmt.Fprint(s.out, r.joins[i].text(v.width))
	}
	if m != nil {
		fmt.Fprint(s.out, m.text(v.width))
	}
	fmt.Fprintf(s.out, "\nDiagnosis\n")
	return report, diagnosis.WriteText(s.out, r.verdicts(), v.width)
}

// text says how texts look.
func (v *benchView) text(s streams) llmfigures.TextOptions {
	color := v.color == "always" || v.color == "auto" && s.tty && s.env("NO_COLOR") == ""
	return llmfigures.TextOptions{Width: v.width, Color: color}
}

// passGates returns an error if a gate does not hold.
func passGates(report *llmfigures.Report, gates []llmfigures.Gate) error {
	var broken []string
	for _, g := range gates {
		if p := report.Pass(g); !p.OK {
			broken = append(broken, fmt.Sprintf("gate %s: %s", g, strings.Join(p.Why, "; ")))
		}
	}
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "\n"))
	}
	return nil
}

// A monitoring is what the server's monitoring said during a run.
type monitoring struct {
	Samples int               `json:"samples"`
	Peaks   []serverside.Peak `json:"gauges,omitempty"`
	Means   []serverside.Mean `json:"means,omitempty"`
}

// newMonitoring returns nil if there are no samples.
func newMonitoring(samples []record.Sample, sent int) *monitoring {
	if len(samples) == 0 {
		return nil
	}
	return &monitoring{len(samples), serverside.Peaks(samples), serverside.Means(samples, sent)}
}

// text is the section of a report.
func (m *monitoring) text(width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nServer's monitoring  %s, for all of its clients\n", plural(m.Samples, "sample"))
	for _, p := range m.Peaks {
		unit := func(x float64) string { return fmt.Sprintf("%.1f", x) }
		if p.Role == serverside.RoleKVUsage {
			unit = func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }
		}
		fmt.Fprintf(&b, "  %-10s mean %8s   most %8s at %.1f s   %s\n", p.Role, unit(p.Mean), unit(p.Max), p.MaxAt.Seconds(), p.Name)
	}
	for _, mean := range m.Means {
		value, of := "–", ""
		if mean.Mean != nil {
			value, of = millis(*mean.Mean), fmt.Sprintf(" of %d", mean.Count)
		}
		fmt.Fprintf(&b, "  %-10s mean %11s%s   %s\n", mean.Role, value, of, mean.Name)
		if mean.Note != "" {
			b.WriteString(wrap(mean.Note, width, "             "))
		}
	}
	return b.String()
}
