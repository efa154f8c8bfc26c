// Package cases holds reports from the field on how a voice agent's latency was
// measured wrongly, each as a short list of events with the right value. They
// need no pipeline: the events go through package report.
package cases

import (
	"fmt"
	"math"
	"strings"
	"time"

	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
)

// A Case is one report from the field.
type Case struct {
	Number string // in voice-cases.md
	Source string // where it was reported
	Story  string // what went wrong there, in our words
	Events []trace.Event
	Want   string // what the report must say of the events

	target report.Limit
	got    func(*run) string
}

// Check takes the events through the report, and returns what it says and what
// it must say. An error says that it could say nothing.
func (c *Case) Check() (got, want string, err error) {
	r := &run{}
	sum := report.NewSummary(report.Options{Percent: report.DefaultPercent, Target: c.target})
	a, err := report.NewAssembler(report.Limit{}, report.DefaultPercent, func(t *report.Turn) {
		sum.Add(t)
		r.turns = append(r.turns, t.Clone())
	})
	if err != nil {
		return "", c.Want, err
	}
	for i := range c.Events {
		a.Add(&c.Events[i])
	}
	late := a.Close()
	if len(r.turns) == 0 {
		return "", c.Want, fmt.Errorf("case %s: its events make no turn", c.Number)
	}
	r.report = sum.Report(report.RunInfo{}, late)
	return c.got(r), c.Want, nil
}

// A run is what the events of a case come to.
type run struct {
	turns  []*report.Turn
	report *report.Report
}

// show writes a value in ms, or why it is absent.
func show(v report.Value) string {
	if !v.OK {
		return "absent (" + v.Why + ")"
	}
	return fmt.Sprintf("%g ms", float64(v.N)/1e6)
}

// of writes metrics of the first turn.
func of(metrics ...report.Metric) func(*run) string {
	return func(r *run) string {
		var parts []string
		for _, m := range metrics {
			parts = append(parts, report.Metrics[m].Title+" "+show(r.turns[0].Value(m)))
		}
		return strings.Join(parts, "; ")
	}
}

// between writes the time between two marks of the first turn.
func between(from, to trace.Mark) func(*run) string {
	return func(r *run) string {
		return fmt.Sprintf("%s to %s %s", from, to, show(r.turns[0].Between(from, to)))
	}
}

// path writes the segments of the first turn, and their sum.
func path(r *run) string {
	var parts []string
	sum := time.Duration(0)
	for _, s := range r.turns[0].Segments {
		text := fmt.Sprintf("%s %g", s.Stage, float64(s.End-s.Start)/1e6)
		if s.Setting != "" {
			text += " [" + s.Setting + "]"
		}
		parts = append(parts, text)
		sum += s.End - s.Start
	}
	return fmt.Sprintf("%s = %g ms", strings.Join(parts, " + "), float64(sum)/1e6)
}

// flags writes the flags of the first turn.
func flags(r *run) string { return fmt.Sprint("flags ", r.turns[0].Flags) }

// attempts writes the attempts of the first turn.
func attempts(r *run) string {
	c := &r.turns[0].Counters
	return fmt.Sprintf("failed %d, retries %d", c.Failures, c.Retries)
}

// all joins what several functions write.
func all(list ...func(*run) string) func(*run) string {
	return func(r *run) string {
		var parts []string
		for _, f := range list {
			parts = append(parts, f(r))
		}
		return strings.Join(parts, "; ")
	}
}

// An option changes an event.
type option func(*trace.Event)

func setting(s string) option { return func(e *trace.Event) { e.Setting = s } }
func attempt(n int) option    { return func(e *trace.Event) { e.Attempt = n } }
func text(key, s string) option {
	return func(e *trace.Event) { e.Attrs = append(e.Attrs, trace.Attr{Key: key, Text: s}) }
}
func number(key string, n int64) option {
	return func(e *trace.Event) { e.Attrs = append(e.Attrs, trace.Attr{Key: key, Int: n}) }
}

// at makes an event at a time in seconds.
func at(seconds float64, m trace.Mark, options ...option) trace.Event {
	e := trace.Event{At: time.Duration(math.Round(seconds * 1e9)), Mark: m}
	for _, o := range options {
		o(&e)
	}
	return e
}

// turn numbers the events of one turn, and closes it a second after the last.
func turn(n int, events ...trace.Event) []trace.Event {
	last := time.Duration(0)
	for _, e := range events {
		if e.At < time.Hour { // one case has a time from another clock
			last = max(last, e.At)
		}
	}
	events = append(events, trace.Event{At: last + time.Second, Mark: trace.TurnClosed})
	for i := range events {
		events[i].ID, events[i].Seq = trace.ID{Session: 1, Turn: n}, trace.Ref(i+1)
	}
	return events
}

// turns puts several turns one after another.
func turns(list ...[]trace.Event) []trace.Event {
	var out []trace.Event
	for _, t := range list {
		out = append(out, t...)
	}
	return out
}
