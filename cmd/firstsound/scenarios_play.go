package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// A lessonRun is one run of a lesson: sick, or with a cure.
type lessonRun struct {
	report *report.Report
	// The values of ok turns: of the first turns of calls, and of the later ones.
	first, later [report.MetricCount][]int64
}

// playLesson runs the scenario with settings laid over it.
func playLesson(ctx context.Context, l *lesson, settings ...string) (*lessonRun, error) {
	s, err := scenario.Load(l.Name+".yaml", []byte(l.yaml), settings...)
	if err != nil {
		return nil, err
	}
	run := &lessonRun{}
	run.report, err = simulateScenario(ctx, s, l.Name+".yaml", settings, func(t *report.Turn) {
		if t.Outcome != report.OutcomeOK {
			return
		}
		to := &run.later
		if t.ID.Turn == 1 {
			to = &run.first
		}
		for m := range report.MetricCount {
			if v := t.Value(m); v.OK {
				to[m] = append(to[m], v.N)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for m := range report.MetricCount {
		slices.Sort(run.first[m])
		slices.Sort(run.later[m])
	}
	return run, nil
}

// A lessonFigure is one number of a run; nil if the run cannot tell it.
type lessonFigure struct {
	value *int64
	unit  report.Unit
}

// String returns the figure with its unit, as people read it.
func (f lessonFigure) String() string {
	if f.value == nil {
		return "–"
	}
	switch f.unit {
	case report.UnitTime, report.UnitPerToken:
		return milliseconds(*f.value) + " ms"
	case report.UnitMillionth:
		return strconv.FormatFloat(float64(*f.value)/1e6, 'f', 3, 64)
	}
	return strconv.FormatInt(*f.value, 10)
}

// figure returns a number of the run by its name: a metric and what of it (p50,
// p95, p99, mean, min, max; first and later are the medians of the first turns of
// calls and of the others), a stage's part of the silence (path.STAGE at the
// median, tail.STAGE in the slowest turns), or a count.
func (run *lessonRun) figure(name string) (lessonFigure, error) {
	r := run.report
	head, of, _ := strings.Cut(name, ".")
	switch head {
	case "path", "tail":
		sum := int64(0)
		for _, row := range r.Silence.Rows {
			if row.Stage == of && head == "path" {
				sum += row.Median
			} else if row.Stage == of {
				sum += row.Tail
			}
		}
		if r.Silence.Absent != "" {
			return lessonFigure{nil, report.UnitTime}, nil
		}
		return lessonFigure{&sum, report.UnitTime}, nil
	case "turns", "attempts", "tokens":
		n, ok := map[string]int64{
			"turns.ok": r.Headline.OK, "turns.failed": failedTurns(r), "turns.forced": r.Detector.Forced, "turns.early": r.Detector.Early,
			"attempts.failed": r.Attempts.Failures, "attempts.adopted": r.Attempts.Adopted, "attempts.discarded": r.Attempts.Discarded,
			"tokens.wasted": r.Attempts.Wasted,
		}[name]
		if ok {
			return lessonFigure{&n, report.UnitCount}, nil
		}
	}
	for m, info := range report.Metrics {
		if strings.TrimSuffix(info.Key, "_ns") != head {
			continue
		}
		d, f := r.Metrics[m].Values, lessonFigure{unit: info.Unit}
		switch of {
		case "p50":
			f.value = d.P50.Value
		case "p95":
			f.value = d.P95.Value
		case "p99":
			f.value = d.P99.Value
		case "mean":
			f.value = d.Mean
		case "min":
			f.value = d.Min
		case "max":
			f.value = d.Max
		case "first", "later":
			values := run.first[m]
			if of == "later" {
				values = run.later[m]
			}
			if v, ok := quantile.Of(values, 0.5); ok {
				f.value = &v
			}
		default:
			return f, fmt.Errorf("there is no figure %q: a metric has p50, p95, p99, mean, min, max, first and later", name)
		}
		return f, nil
	}
	return lessonFigure{}, fmt.Errorf("there is no figure %q: write METRIC.p50, path.STAGE, tail.STAGE or a count such as turns.failed", name)
}

// figureTitle returns what people call a figure.
func figureTitle(name string) string {
	head, of, _ := strings.Cut(name, ".")
	switch head {
	case "path":
		return of + ", part of the silence at the median"
	case "tail":
		return of + ", part of the silence in the slowest 5 %"
	case "turns", "attempts":
		return head + " " + of
	case "tokens":
		return "tokens of discarded attempts"
	}
	for _, info := range report.Metrics {
		if strings.TrimSuffix(info.Key, "_ns") == head {
			what := map[string]string{"first": "first turns", "later": "later turns", "p50": "P50", "p95": "P95", "p99": "P99"}
			return info.Title + ", " + cmp.Or(what[of], of)
		}
	}
	return name
}

// failedTurns returns how many turns failed or got no answer.
func failedTurns(r *report.Report) int64 {
	n := int64(0)
	for _, o := range r.Outcomes {
		if strings.HasPrefix(o.Outcome, "failed") || o.Outcome == string(report.OutcomeNoReply) {
			n += o.Turns
		}
	}
	return n
}

// A verdict says whether a lesson's symptom is in its runs.
type verdict struct {
	lesson *lesson
	runs   []*lessonRun // the scenario's own, then those of the cures
	checks []lessonCheck
}

// A lessonCheck is an inequality and what became of it.
type lessonCheck struct {
	Expected string `json:"expected"`
	Cure     string `json:"cure"`
	Scenario string `json:"scenario_has"`
	Cured    string `json:"cure_has"`
	Found    bool   `json:"found"`
}

// judge runs the lesson and its cures with the settings, all with the same draws.
func judge(ctx context.Context, l *lesson, settings ...string) (*verdict, error) {
	v := &verdict{lesson: l}
	for _, c := range append([]cure{{}}, l.cures...) {
		run, err := playLesson(ctx, l, slices.Concat(settings, c.settings)...)
		if err != nil {
			return nil, err
		}
		v.runs = append(v.runs, run)
	}
	for _, e := range l.expects {
		for i, c := range l.cures {
			if e.only != "" && e.only != c.name {
				continue
			}
			sick, err := v.runs[0].figure(e.figure)
			if err != nil {
				return nil, err
			}
			well, err := v.runs[i+1].figure(e.than)
			if err != nil {
				return nil, err
			}
			found := sick.value != nil && well.value != nil && e.holds(float64(*sick.value), float64(*well.value))
			v.checks = append(v.checks, lessonCheck{e.text, c.name, sick.String(), well.String(), found})
		}
	}
	return v, nil
}

// found says whether every inequality holds.
func (v *verdict) found() bool {
	return !slices.ContainsFunc(v.checks, func(c lessonCheck) bool { return !c.Found })
}
