// Package cases holds reports from the field on how a voice agent's latency was
// measured wrongly, each as a short list of events with the right value. They
// need no pipeline: the events go through package report.
package cases

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
)

// A Case is one report from the field.
type Case struct {
	Number string // the case's own; one that is also played through the pipeline has the same number there
	Source string // where it was reported
	Story  string // what went wrong there, in our words
	Right  string // what is right, in a few words
	Events []trace.Event
	Want   string // what the report must say of the events, to the nanosecond

	target report.Limit
	got    func(*Run) string
}

// Check takes the events through the report, and returns what it says and what
// it must say. An error says that it could say nothing.
func (c *Case) Check() (got, want string, err error) {
	r, err := Read(c.Events, c.target)
	if err != nil {
		return "", c.Want, fmt.Errorf("case %s: %w", c.Number, err)
	}
	return c.got(r), c.Want, nil
}

// A Run is what the events of a case come to.
type Run struct {
	Events []trace.Event
	Turns  []*report.Turn
	Report *report.Report
}

// Read takes events through the report. The target may be unknown.
func Read(events []trace.Event, target report.Limit) (*Run, error) {
	r := &Run{Events: events}
	sum := report.NewSummary(report.Options{Percent: report.DefaultPercent, Target: target})
	a, err := report.NewAssembler(report.Limit{}, report.DefaultPercent, func(t *report.Turn) {
		sum.Add(t)
		r.Turns = append(r.Turns, t.Clone())
	})
	if err != nil {
		return nil, err
	}
	for i := range events {
		a.Add(&events[i])
	}
	late := a.Close()
	if len(r.Turns) == 0 {
		return nil, errors.New("its events make no turn")
	}
	r.Report = sum.Report(report.RunInfo{}, late)
	return r, nil
}

// show writes a value in its unit, times in ms, or why it is absent.
func show(m report.Metric, v report.Value) string {
	switch {
	case !v.OK:
		return "absent (" + v.Why + ")"
	case report.Metrics[m].Unit == report.UnitTime:
		return Milliseconds(time.Duration(v.N))
	}
	return strconv.FormatInt(v.N, 10)
}

// Milliseconds writes d to the nanosecond, in ms.
func Milliseconds(d time.Duration) string { return fmt.Sprintf("%g ms", float64(d)/1e6) }

// Of writes metrics of the first turn.
func Of(metrics ...report.Metric) func(*Run) string {
	return func(r *Run) string {
		var parts []string
		for _, m := range metrics {
			parts = append(parts, report.Metrics[m].Title+" "+show(m, r.Turns[0].Value(m)))
		}
		return strings.Join(parts, "; ")
	}
}

// Between writes the time between two marks of the first turn.
func Between(from, to trace.Mark) func(*Run) string {
	return func(r *Run) string {
		return fmt.Sprintf("%s to %s %s", from, to, show(report.MetricTTFS, r.Turns[0].Between(from, to)))
	}
}

// Path writes the segments of the first turn, and their sum.
func Path(r *Run) string {
	var parts []string
	sum := time.Duration(0)
	for _, s := range r.Turns[0].Segments {
		text := fmt.Sprintf("%s %g", s.Stage, float64(s.End-s.Start)/1e6)
		if s.Setting != "" {
			text += " [" + s.Setting + "]"
		}
		parts = append(parts, text)
		sum += s.End - s.Start
	}
	return fmt.Sprintf("%s = %s", strings.Join(parts, " + "), Milliseconds(sum))
}

// Flags writes the flags of the first turn.
func Flags(r *Run) string { return fmt.Sprint("flags ", r.Turns[0].Flags) }

// Outcome writes how the first turn ended.
func Outcome(r *Run) string { return r.Turns[0].OutcomeKey() }

// Request writes the ID of the first turn's request.
func Request(r *Run) string { return "request " + r.Turns[0].Request }

// Attempts writes the attempts of the first turn.
func Attempts(r *Run) string {
	c := &r.Turns[0].Counters
	return fmt.Sprintf("failed %d, retries %d", c.Failures, c.Retries)
}

// Speculation writes what came of asking the model early in the first turn.
func Speculation(r *Run) string {
	c := &r.Turns[0].Counters
	return fmt.Sprintf("adopted %d, %v saved, discarded %d, %d tokens wasted", c.Adopted, c.Saved, c.Discarded, c.Wasted)
}

// OKTurns writes how many turns were ok.
func OKTurns(r *Run) string { return fmt.Sprintf("%d ok turn", r.Report.Headline.OK) }

// Detector writes how the turn detector went wrong.
func Detector(r *Run) string {
	d := r.Report.Detector
	return fmt.Sprintf("of %d turns early %d, stuck %d, forced %d", d.Turns, d.Early, d.Stuck, d.Forced)
}

// Faults writes what was wrong with the record.
func Faults(r *Run) string {
	f := r.Report.Faults
	if f.Count == 0 {
		return "no fault"
	}
	var texts []string
	for _, p := range f.First {
		texts = append(texts, p.Text)
	}
	word := "fault"
	if f.Count > 1 {
		word = "faults"
	}
	return fmt.Sprintf("%d %s: %s", f.Count, word, strings.Join(texts, ", "))
}

// All joins what several functions write.
func All(list ...func(*Run) string) func(*Run) string {
	return func(r *Run) string {
		var parts []string
		for _, f := range list {
			parts = append(parts, f(r))
		}
		return strings.Join(parts, "; ")
	}
}

// InTurn writes what f writes of the turn with this number.
func InTurn(n int, f func(*Run) string) func(*Run) string {
	return func(r *Run) string {
		if n > len(r.Turns) {
			return fmt.Sprintf("no turn %d", n)
		}
		one := *r
		one.Turns = r.Turns[n-1:]
		return f(&one)
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
