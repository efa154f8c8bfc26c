package report

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
)

// DefaultExact is how many values of a metric are kept one by one. Quantiles
// are exact up to it; beyond it they come from a sketch (quantile.SketchError).
const DefaultExact = 100_000

// ExactTTFS is the same for TTFS, which a run is judged by.
const ExactTTFS = 1_000_000

// Options say what a Summary shows.
type Options struct {
	// Percent is by how much the what-if makes a stage faster. It must be the
	// one that the Assembler was given. DefaultPercent is usual.
	Percent int
	// Target is what TTFS is held against; none if it is not known.
	Target Limit
	// TargetSource says where the target comes from.
	TargetSource string
	// Turn is the turn to show in full: "median", "slowest", an ID such as
	// "12.3" (session.turn), or a request ID. Empty is "median".
	Turn string
	// Exact is how many values and turns are kept one by one. 0 or
	// less is DefaultExact, and ExactTTFS values of TTFS.
	Exact int
	// Seed is of the draws beyond that.
	Seed uint64
}

// DefaultPercent is how much faster the what-if makes a stage, unless told
// otherwise.
const DefaultPercent = 25

// keptTurns is how many turns are kept whole, to show one that is near the
// median. Of more, these are drawn at random.
const keptTurns = 512

// A Summary adds turns up. Its memory is bounded, whatever their number. One
// goroutine at a time may use it.
type Summary struct {
	opts      Options
	wanted    wantedTurn
	values    [MetricCount]quantile.Series
	lacking   [MetricCount]reasons
	sum       SumCheck
	outcomes  map[outcomeKey]int64
	reached   map[trace.Mark]int64 // no_reply: the last mark
	warmFail  map[string]int64     // failure kinds within the warm-up
	attempts  AttemptTotals
	detector  Detector
	flags     map[Flag]int64
	problems  Problems
	over      int64
	overCause map[trace.Stage]int64
	noAnchor  int64 // ok turns without a TTFS

	columns columns
	rows    []pathRow
	okSeen  int64 // ok turns with a path
	draw    *rand.Rand

	kept     []*Turn
	keptSeen int64
	drawKept *rand.Rand
	slowest  *Turn
	first    *Turn // the first turn that is not a warm-up, in case none is ok
	chosen   *Turn // the one that was asked for by name
}

// An outcomeKey is an outcome and, of a failure, its kind.
type outcomeKey struct {
	outcome Outcome
	failure string
}

// NewSummary returns an empty Summary.
func NewSummary(o Options) *Summary {
	ttfs := o.Exact
	if o.Exact <= 0 {
		o.Exact, ttfs = DefaultExact, ExactTTFS
	}
	s := &Summary{
		opts: o, wanted: wanted(o.Turn),
		outcomes: map[outcomeKey]int64{}, reached: map[trace.Mark]int64{}, warmFail: map[string]int64{},
		flags: map[Flag]int64{}, overCause: map[trace.Stage]int64{},
		draw: rand.New(rand.NewPCG(o.Seed, 1)), drawKept: rand.New(rand.NewPCG(o.Seed, 2)),
	}
	for m := range s.values {
		s.values[m] = *quantile.New(o.Exact)
	}
	s.values[MetricTTFS] = *quantile.New(ttfs)
	return s
}

// Add takes a turn.
func (s *Summary) Add(t *Turn) {
	s.note(t)
	key := outcomeKey{outcome: t.Outcome}
	if t.Outcome == OutcomeFailed {
		key.failure = t.FailureKind
	}
	s.outcomes[key]++
	for i := range t.Problems {
		s.problems.add(t.Problems[i])
	}
	if t.Warmup {
		if t.FailureKind != "" {
			s.warmFail[t.FailureKind]++
		}
		return
	}
	if t.Outcome == OutcomeNoReply {
		s.reached[t.LastMark]++
	}
	s.addCounters(t)
	switch t.Outcome {
	case OutcomeOK:
		s.addOK(t)
	case OutcomeInterrupted:
		s.addValue(MetricBargeInStop, t)
	case OutcomeEarlyReply:
		s.addValue(MetricOverlap, t)
	}
}

// addValue adds the turn's value of one metric.
func (s *Summary) addValue(m Metric, t *Turn) {
	if v := &t.Values[m]; v.OK {
		s.values[m].Add(v.N)
	} else {
		s.lacking[m].add(v.Why)
	}
}

// addCounters adds what is counted over all turns but the warm-up.
func (s *Summary) addCounters(t *Turn) {
	c := &t.Counters
	s.attempts.Failures += int64(c.Failures)
	s.attempts.Retries += int64(c.Retries)
	s.attempts.Adopted += int64(c.Adopted)
	s.attempts.Discarded += int64(c.Discarded)
	s.attempts.Saved += int64(c.Saved)
	s.attempts.Wasted += c.Wasted
	s.attempts.WastedOf += int64(c.WastedOf)
	s.detector.Turns++
	if c.Dropped > 0 {
		s.detector.TakenBack++
		s.detector.Dropped += int64(c.Dropped)
	}
	for _, f := range t.Flags {
		switch f {
		case FlagEarlyTurn:
			s.detector.Early++
		case FlagStuckTurn:
			s.detector.Stuck++
		case FlagForcedTurn:
			s.detector.Forced++
		default:
			s.flags[f]++
		}
	}
}

// addOK adds the figures of an ok turn.
func (s *Summary) addOK(t *Turn) {
	for m := range t.Values {
		s.addValue(Metric(m), t)
	}
	s.addSum(t)
	if !t.TTFS.OK {
		s.noAnchor++
		return
	}
	if s.opts.Target.Known && t.TTFS.N > int64(s.opts.Target.At) {
		s.over++
		s.overCause[largest(t.Segments)]++
	}
	s.addPath(t)
}

// addSum adds the terms of the time from the request to the end of the answer.
func (s *Summary) addSum(t *Turn) {
	ttft, tpot, n := t.Values[MetricTTFT], t.Values[MetricTPOT], t.Values[MetricOutput]
	total := t.Between(trace.LLMSend, trace.PlayEnd)
	if !ttft.OK || !tpot.OK || !total.OK || !n.OK {
		return
	}
	s.sum.Turns++
	s.sum.TTFT += ttft.N
	s.sum.Decode += tpot.N * (n.N - 1)
	s.sum.Total += total.N
}

// largest returns the stage that has the largest part in the segments; of
// equal ones the first.
func largest(segments []Segment) trace.Stage {
	stage, most := StageUnexplained, time.Duration(0)
	for i, s := range segments {
		sum := time.Duration(0)
		for _, o := range segments[i:] {
			if o.Stage == s.Stage {
				sum += o.End - o.Start
			}
		}
		if sum > most {
			stage, most = s.Stage, sum
		}
	}
	return stage
}

// A reasons counts why a metric was absent. It holds few different ones; the
// rest is counted together.
type reasons struct {
	list []Reason
	rest int64
}

func (r *reasons) add(why string) {
	for i := range r.list {
		if r.list[i].Why == why {
			r.list[i].Turns++
			return
		}
	}
	if len(r.list) < 8 {
		r.list = append(r.list, Reason{why, 1})
		return
	}
	r.rest++
}

// A wantedTurn is a turn that was asked for.
type wantedTurn struct {
	name    string
	id      trace.ID
	hasID   bool
	request bool
}

// wanted reads the name of a turn: see Options.Turn.
func wanted(name string) wantedTurn {
	if name == "" {
		name = "median"
	}
	w := wantedTurn{name: name}
	if name == "median" || name == "slowest" {
		return w
	}
	w.request = true
	session, turn, ok := strings.Cut(name, ".")
	a, err1 := strconv.Atoi(session)
	b, err2 := strconv.Atoi(turn)
	if ok && err1 == nil && err2 == nil {
		w.id, w.hasID = trace.ID{Session: a, Turn: b}, true
	}
	return w
}

// is returns whether t is the turn that was asked for by ID or request ID.
func (w *wantedTurn) is(t *Turn) bool {
	return w.request && (w.hasID && t.ID == w.id || t.Request == w.name)
}

// note keeps turns that may be shown in full.
func (s *Summary) note(t *Turn) {
	if s.chosen == nil && s.wanted.is(t) {
		s.chosen = t.Clone()
	}
	if s.first == nil && !t.Warmup {
		s.first = t.Clone()
	}
	if t.Outcome != OutcomeOK || !t.TTFS.OK {
		return
	}
	if s.slowest == nil || t.TTFS.N > s.slowest.TTFS.N {
		s.slowest = t.Clone()
	}
	s.keptSeen++
	if len(s.kept) < keptTurns {
		s.kept = append(s.kept, t.Clone())
	} else if i := s.drawKept.Int64N(s.keptSeen); i < keptTurns {
		s.kept[i] = t.Clone()
	}
}

// inFull returns the turn to show, and why this one.
func (s *Summary) inFull() (*Turn, string) {
	if s.wanted.request {
		if s.chosen == nil {
			return nil, fmt.Sprintf("there is no turn %q: give median, slowest, session.turn such as 12.3, or a request ID", s.wanted.name)
		}
		return s.chosen, "the turn that was asked for"
	}
	if s.slowest == nil {
		if s.first == nil {
			return nil, "no turn to show"
		}
		return s.first, "no turn was answered in full; this is the first one"
	}
	if s.wanted.name == "slowest" {
		return s.slowest, "the slowest ok turn"
	}
	return s.nearMedian()
}

// nearMedian returns the kept turn whose TTFS is nearest to the median.
func (s *Summary) nearMedian() (*Turn, string) {
	median := s.values[MetricTTFS].Of(0.5)
	best := s.kept[0]
	for _, t := range s.kept[1:] {
		d, have := distance(t.TTFS.N, median), distance(best.TTFS.N, median)
		if d < have || d == have && before(t.ID, best.ID) {
			best = t
		}
	}
	why := "the ok turn nearest to the median"
	if s.keptSeen > keptTurns {
		why += fmt.Sprintf(", of %d drawn at random", keptTurns)
	}
	return best, why
}

// distance returns how far a and b are apart.
func distance(a, b int64) int64 { return max(a, b) - min(a, b) }

// before orders IDs.
func before(a, b trace.ID) bool {
	if a.Session != b.Session {
		return a.Session < b.Session
	}
	return a.Turn < b.Turn
}
