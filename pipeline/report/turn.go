package report

import (
	"slices"
	"time"

	"firstsound/clocks/trace"
)

// An Outcome says how a turn ended. Every turn has exactly one.
type Outcome string

// The outcomes. A failed turn has OutcomeFailed and a kind, together
// "failed:timeout" and the like: see Turn.OutcomeKey.
const (
	OutcomeOK          Outcome = "ok"          // the answer was heard after the user had finished
	OutcomeWarmup      Outcome = "warmup"      // a warm-up turn, whatever became of it
	OutcomeInterrupted Outcome = "interrupted" // the user cut the answer off
	OutcomeEarlyReply  Outcome = "early_reply" // the answer sounded while the user still spoke
	OutcomeNoReply     Outcome = "no_reply"    // closed without an answer, and without a failure
	OutcomeFailed      Outcome = "failed"      // could not be answered
	OutcomeUnfinished  Outcome = "unfinished"  // the events end before the turn was closed
)

// A Value is one number of a turn: there, or absent with a reason.
type Value struct {
	N   int64  // in the unit of its metric
	OK  bool   // whether there is a value
	Why string // if not, why not
}

// here returns the value n.
func here(n int64) Value { return Value{N: n, OK: true} }

// absent returns no value, because of why.
func absent(why string) Value { return Value{Why: why} }

// A Moment is when a turn passed a mark.
type Moment struct {
	Mark trace.Mark
	At   time.Duration // since the run began
}

// A Segment is a piece of the silence that is charged to one stage.
type Segment struct {
	Stage   trace.Stage
	Setting string        // the setting, as key=value, that owns the time; empty if none does
	Start   time.Duration // since the run began
	End     time.Duration // since the run began
}

// A Slack is how much later a mark off the critical path could have been
// without moving first_sound, all else being equal.
type Slack struct {
	Mark  trace.Mark
	At    time.Duration // since the run began
	Stage trace.Stage   // what the time before the mark is charged to
	Slack time.Duration
}

// A WhatIf is the TTFS of a turn if one stage were faster, by running the
// max-plus recurrence over the turn's events again.
type WhatIf struct {
	Stage trace.Stage
	TTFS  time.Duration
}

// A Flag is a remark on a turn that is not a fault.
type Flag string

// The flags of turns.
const (
	FlagEarlyTurn      Flag = "turn_end_before_speech_end"  // the turn was committed while the user still spoke
	FlagStuckTurn      Flag = "turn_never_committed"        // the turn detector never made up its mind
	FlagForcedTurn     Flag = "turn_end_forced"             // a maximum delay committed the turn
	FlagEarlyFinal     Flag = "asr_final_before_speech_end" // the final transcript came while the user still spoke
	FlagSlowCompletion Flag = "slow_completion"             // the LLM stream ended more than 3 s after first_sound
)

// SlowCompletion is how long after first_sound the LLM stream may end before
// the turn is flagged: some observers give up then and lose the measurement.
const SlowCompletion = 3 * time.Second

// Counters are what a turn did besides its answer.
type Counters struct {
	Failures  int           // failed attempts of LLM and TTS
	Retries   int           // attempts that followed a failed one
	Adopted   int           // speculative LLM attempts that became the answer
	Discarded int           // speculative LLM attempts that were thrown away
	Saved     time.Duration // how much earlier the adopted ones were sent
	Wasted    int64         // tokens that discarded attempts had produced, where known
	WastedOf  int           // discarded attempts that told their tokens
	Dropped   int           // commits of the turn that were taken back
}

// A Problem is something in the events that cannot be right.
type Problem struct {
	ID   trace.ID
	Seq  trace.Ref // the event; trace.None where it is not one event
	Text string
}

// A Turn is what the events of one turn come to.
type Turn struct {
	ID        trace.ID
	Request   string // request ID; empty if the events have none
	Utterance string
	Bounds    string // annotated or detected: where speech_end comes from; empty if not told

	Outcome     Outcome
	FailureKind string     // of a failed turn, also if it was a warm-up
	FailureText string     // in the provider's own words
	LastMark    trace.Mark // of a turn without first sound: the latest mark on the way to an answer
	Warmup      bool

	TTFS        Value // ns, signed; of interrupted and early turns too
	TokenSource string

	Marks    []Moment // one event of each mark, in the order of a plain cascade
	Segments []Segment
	Values   [MetricCount]Value
	Slacks   []Slack
	WhatIfs  []WhatIf
	Counters Counters
	Flags    []Flag
	Problems []Problem
}

// OutcomeKey returns the outcome, for a failed turn with its kind: failed:llm.
func (t *Turn) OutcomeKey() string {
	if t.Outcome != OutcomeFailed {
		return string(t.Outcome)
	}
	return string(OutcomeFailed) + ":" + t.FailureKind
}

// At returns when the turn passed m, and whether it did. Where m occurred
// several times, it is the last one that first_sound had waited for; else the
// first one that is not of a failed or discarded attempt; else the first. A
// turn_end that was taken back is none, and of play_stopped it is the first one
// after the barge_in.
func (t *Turn) At(m trace.Mark) (time.Duration, bool) {
	for i := range t.Marks {
		if t.Marks[i].Mark == m {
			return t.Marks[i].At, true
		}
	}
	return 0, false
}

// Between returns to − from, signed, or absent with the mark that is missing.
func (t *Turn) Between(from, to trace.Mark) Value {
	a, ok := t.At(from)
	if !ok {
		return absent("no " + string(from))
	}
	b, ok := t.At(to)
	if !ok {
		return absent("no " + string(to))
	}
	return here(int64(b - a))
}

// Value returns the turn's value of m.
func (t *Turn) Value(m Metric) Value { return t.Values[m] }

// Has returns whether the turn carries f.
func (t *Turn) Has(f Flag) bool { return slices.Contains(t.Flags, f) }

// Clone returns a copy that shares nothing with t. The turns that an Assembler
// hands out are valid during the call only; a clone stays.
func (t *Turn) Clone() *Turn {
	c := *t
	c.Marks = slices.Clone(t.Marks)
	c.Segments = slices.Clone(t.Segments)
	c.Slacks = slices.Clone(t.Slacks)
	c.WhatIfs = slices.Clone(t.WhatIfs)
	c.Flags = slices.Clone(t.Flags)
	c.Problems = slices.Clone(t.Problems)
	return &c
}

// reset empties t and keeps its memory.
func (t *Turn) reset() {
	*t = Turn{
		Marks: t.Marks[:0], Segments: t.Segments[:0], Slacks: t.Slacks[:0],
		WhatIfs: t.WhatIfs[:0], Flags: t.Flags[:0], Problems: t.Problems[:0],
	}
}
