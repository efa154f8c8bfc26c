package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
	"firstsound/page"
)

// Report returns what the turns so far come to. Late are the problems that the
// Assembler's Close returned. If run does not say how many turns there were, it
// is how many the Summary was given.
func (s *Summary) Report(run RunInfo, late Problems) *Report {
	s.sortRows()
	if run.Turns == 0 {
		for _, n := range s.outcomes {
			run.Turns += n
		}
	}
	r := &Report{
		Format: ReportFormat, Run: run,
		Headline: s.headline(), Silence: s.silence(), Improve: s.improve(),
		Metrics: s.metricRows(), Sum: s.sumCheck(),
		Outcomes: s.outcomeRows(), Attempts: s.attempts, Detector: s.detector,
		Flags: s.flagRows(), Faults: s.faults(late),
	}
	t, why := s.inFull()
	r.TurnWhy = why
	if t != nil {
		r.Turn = t.Row()
	}
	r.Warnings = s.warnings(r)
	return r
}

// headline returns TTFS and how it meets the target.
func (s *Summary) headline() Headline {
	h := Headline{OK: s.outcomes[outcomeKey{outcome: OutcomeOK}], TTFS: s.values[MetricTTFS].Distribution()}
	if late := &s.values[MetricLateStart]; late.N() > 0 && late.Max() > 0 {
		d := s.values[MetricTTFSFromDue].Distribution()
		h.FromDue = &d
	}
	if s.opts.Target.Known {
		h.Target = s.target(&h.TTFS)
	}
	return h
}

// target holds TTFS against the target.
func (s *Summary) target(d *quantile.Distribution) *Target {
	t := &Target{TTFS: int64(s.opts.Target.At), Source: s.opts.TargetSource, Over: s.over}
	t.P50, t.P95 = verdict(d.P50, t.TTFS, "met", "missed"), verdict(d.P95, t.TTFS, "below", "above")
	for stage, n := range s.overCause {
		if n > t.CauseTurns || n == t.CauseTurns && string(stage) < t.Cause {
			t.CauseTurns, t.Cause = n, string(stage)
		}
	}
	t.Measured = d.N + s.ended(OutcomeFailed) + s.ended(OutcomeNoReply)
	t.Within = d.N - s.over
	return t
}

// verdict says on which side of the target a quantile is.
func verdict(f quantile.Figure, target int64, below, above string) string {
	switch {
	case f.Value == nil:
		return "not known: " + f.Absent
	case *f.Value <= target:
		return below
	}
	return above
}

// ended returns how many turns ended in o, whatever the kind of failure.
func (s *Summary) ended(o Outcome) int64 {
	sum := int64(0)
	for k, n := range s.outcomes {
		if k.outcome == o {
			sum += n
		}
	}
	return sum
}

// metricRows returns the metrics of the ok turns.
func (s *Summary) metricRows() []MetricRow {
	out := []MetricRow{}
	for m := range s.values {
		info := &Metrics[m]
		out = append(out, MetricRow{
			Key: info.Key, Title: info.Title, Unit: info.Unit, Means: info.Means,
			Values: s.values[m].Distribution(), Absent: s.lacking[m].sorted(),
		})
	}
	return out
}

// sorted returns the reasons, most frequent first.
func (r *reasons) sorted() []Reason {
	out := slices.Clone(r.list)
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Why, b.Why))
	})
	if r.rest > 0 {
		out = append(out, Reason{"other reasons", r.rest})
	}
	return out
}

// sumCheck returns the means of the terms of the time from the request to the
// end of the answer.
func (s *Summary) sumCheck() *SumCheck {
	n := s.sum.Turns
	if n == 0 {
		return nil
	}
	parts := apportion([]int64{s.sum.TTFT, s.sum.Decode, s.sum.Total - s.sum.TTFT - s.sum.Decode}, n)
	out := &SumCheck{Turns: n, TTFT: parts[0] / n, Decode: parts[1] / n, Speech: parts[2] / n}
	out.Total = out.TTFT + out.Decode + out.Speech
	out.Blame = blame(s.values[MetricTTFT].Distribution().P50, s.values[MetricTPOT].Distribution().P50)
	return out
}

// Above these a term counts as high. They are experience values, not limits:
// 750 ms is the most that Twilio's guide of Nov 2025 allows a voice agent's model
// (relayed by callsphere.ai); below 20 tokens a second a sentence takes longer
// than half a second to write (assumption: 12 tokens).
const (
	highTTFT = int64(750 * time.Millisecond)
	highTPOT = int64(50 * time.Millisecond)
)

// blame says which term is high, and what that usually means.
func blame(ttft, tpot quantile.Figure) string {
	waiting := ttft.Value != nil && *ttft.Value > highTTFT
	decoding := tpot.Value != nil && *tpot.Value > highTPOT
	switch {
	case waiting && decoding:
		return "TTFT and TPOT are both high: a server under load, or too small for the model"
	case waiting:
		return "TTFT is high and TPOT is not: waiting (connection, queue, prefill, load)"
	case decoding:
		return "TPOT is high and TTFT is not: decoding (engine, quantization, concurrency)"
	}
	return "neither TTFT nor TPOT is high: what takes long is the length of the answer, its synthesis or its playback"
}

// outcomeOrder is the order in which outcomes are shown.
var outcomeOrder = []Outcome{OutcomeOK, OutcomeInterrupted, OutcomeEarlyReply, OutcomeNoReply, OutcomeFailed, OutcomeUnfinished, OutcomeWarmup}

// outcomeRows counts the outcomes.
func (s *Summary) outcomeRows() []OutcomeRow {
	out := []OutcomeRow{}
	for _, o := range outcomeOrder {
		var kinds []string
		for k := range s.outcomes {
			if k.outcome == o {
				kinds = append(kinds, k.failure)
			}
		}
		slices.Sort(kinds)
		for _, failure := range kinds {
			row := OutcomeRow{Outcome: string(o), Turns: s.outcomes[outcomeKey{o, failure}], Note: s.outcomeNote(o)}
			if o == OutcomeFailed {
				row.Outcome += ":" + failure
			}
			out = append(out, row)
		}
	}
	return out
}

// outcomeNote explains an outcome.
func (s *Summary) outcomeNote(o Outcome) string {
	switch o {
	case OutcomeOK:
		if s.noAnchor > 0 {
			return fmt.Sprintf("%d of them without a TTFS: no speech_end", s.noAnchor)
		}
	case OutcomeInterrupted:
		return "the user cut the answer off; not in the figures above, but for barge-in stop"
	case OutcomeEarlyReply:
		return "the answer sounded into the user's speech; TTFS is negative, not in the figures above"
	case OutcomeNoReply:
		return "closed without an answer; the last mark reached: " + counted(s.reached)
	case OutcomeUnfinished:
		return "the events end before the turn was closed"
	case OutcomeWarmup:
		if len(s.warmFail) > 0 {
			return "left out of all figures; failed among them: " + counted(s.warmFail)
		}
		return "left out of all figures"
	}
	return ""
}

// counted lists what was counted: "tts_send (2), none (1)".
func counted[K ~string](m map[K]int64) string {
	var names []string
	for k := range m {
		names = append(names, string(k))
	}
	slices.Sort(names)
	out := ""
	for i, name := range names {
		if i > 0 {
			out += ", "
		}
		shown := name
		if shown == "" {
			shown = "none"
		}
		out += fmt.Sprintf("%s (%d)", shown, m[K(name)])
	}
	return out
}

// flagRows counts the flags that are not the turn detector's.
func (s *Summary) flagRows() []FlagRow {
	var out []FlagRow
	for f, n := range s.flags {
		out = append(out, FlagRow{f, n})
	}
	slices.SortFunc(out, func(a, b FlagRow) int { return cmp.Compare(a.Flag, b.Flag) })
	return out
}

// faults returns what cannot be right, of turns and of events without a turn.
func (s *Summary) faults(late Problems) Faults {
	out := Faults{Count: s.problems.Count + late.Count}
	for _, list := range [][]Problem{s.problems.First, late.First} {
		for _, p := range list {
			if len(out.First) < MaxProblems {
				out.First = append(out.First, FaultRow{p.ID.Session, p.ID.Turn, int32(p.Seq), p.Text})
			}
		}
	}
	return out
}

// warnings says what the figures cannot bear.
func (s *Summary) warnings(r *Report) []string {
	var out []string
	if w := s.unanswered(); w != "" {
		out = append(out, w)
	}
	if t := r.Run.Timers; t != nil && t.P99 > int64(lateTimers) {
		out = append(out, fmt.Sprintf("the computer was late: timers fired %s after they were due at P99 (max %s), and that is in the figures", milliseconds(t.P99), milliseconds(t.Max)))
	}
	if t := r.Run.Replay; t != nil && t.P99 > int64(lateReplay) {
		out = append(out, fmt.Sprintf("late replay: sound reached the recognizer %s after it was there at P99 (max %s), and its figures are that much too long", milliseconds(t.P99), milliseconds(t.Max)))
	}
	if n := r.Headline.TTFS.N; n < 30 {
		out = append(out, fmt.Sprintf("only %d ok turns: take 30 to 50 or more before you trust the figures", n))
	} else if n < 100 {
		out = append(out, fmt.Sprintf("%d ok turns cannot tell P99: that needs 100", n))
	}
	if w := s.sketched(r); w != "" {
		out = append(out, w)
	}
	if h := s.values[MetricHarness]; h.N() > 0 && h.Max() > 0 {
		d := h.Distribution()
		if d.P95.Value != nil && r.Headline.TTFS.P50.Value != nil && *d.P95.Value*20 > *r.Headline.TTFS.P50.Value {
			out = append(out, fmt.Sprintf("the harness itself takes %s at P95, more than 5 %% of the median: it bends the figures", milliseconds(*d.P95.Value)))
		}
	}
	if s.unexplained(r) {
		out = append(out, fmt.Sprintf("some of the silence is %s: the events do not say what it was spent on", StageUnexplained))
	}
	if r.Run.State == StatePartial || r.Run.State == StateRunning {
		why := r.Run.Reason
		if why == "" {
			why = "its end was not recorded"
		}
		out = append(out, "the run is partial: "+why)
	}
	return out
}

// Beyond these a report begins with a warning.
const (
	unansweredPercent = 2 // of the measured turns
	lateTimers        = 5 * time.Millisecond
	lateReplay        = 2 * time.Millisecond
)

// unanswered says how many turns are not in the figures because they came to
// nothing, if they are many: the figures are of those that went well.
func (s *Summary) unanswered() string {
	failed, silent, open := s.ended(OutcomeFailed), s.ended(OutcomeNoReply), s.ended(OutcomeUnfinished)
	gone, all := failed+silent+open, s.detector.Turns
	if gone*100 <= all*unansweredPercent {
		return ""
	}
	return fmt.Sprintf("%s of %s (%.1f %%) were not answered: %s failed, %s without a reply, %s unfinished; the figures leave them out",
		page.Grouped(gone), page.Count(all, "measured turn"), 100*float64(gone)/float64(all), page.Grouped(failed), page.Grouped(silent), page.Grouped(open))
}

// sketched says which quantiles come from a sketch.
func (s *Summary) sketched(r *Report) string {
	what, limit := "", s.opts.Exact
	for i := range r.Metrics {
		if r.Metrics[i].Values.RelativeError != nil {
			what = "the stage metrics"
		}
	}
	if r.Headline.TTFS.RelativeError != nil {
		what, limit = "all metrics", s.values[MetricTTFS].Limit()
	}
	if what == "" {
		return ""
	}
	return fmt.Sprintf("more than %s values: the quantiles of %s come from a sketch with a relative error of %.1f %%, and their intervals are widened by it", page.Grouped(int64(limit)), what, 100*quantile.SketchError)
}

// unexplained returns whether some of the silence is.
func (s *Summary) unexplained(r *Report) bool {
	for _, row := range r.Silence.Rows {
		if trace.Stage(row.Stage) == StageUnexplained {
			return true
		}
	}
	return false
}
