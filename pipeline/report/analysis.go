package report

import (
	"slices"
	"time"

	"firstsound/clocks/trace"
)

// An analysis turns the events of one turn into a Turn. Its memory is used
// again for the next one.
type analysis struct {
	g        graph
	turn     Turn
	end      Limit
	percent  int64
	chosen   []int32 // by kind: the event that the metrics read
	reached  []int32 // by kind: the last one that bears on first_sound
	good     []int32 // by kind: the first one of no failed or discarded attempt
	stepEnds []int32
	tiled    bool // the segments are there and sum to TTFS
	others   []int32
}

// newAnalysis returns an analysis whose what-if makes stages percent faster.
func newAnalysis(end Limit, percent int) *analysis {
	a := &analysis{end: end, percent: int64(percent)}
	a.chosen = make([]int32, len(usuals))
	a.reached = make([]int32, len(usuals))
	a.good = make([]int32, len(usuals))
	return a
}

// analyse returns the turn of events, which are in the order of their Seq.
// closed says whether its end is among them. The turn is valid until the next
// call.
func (a *analysis) analyse(id trace.ID, events []trace.Event, problems []Problem, closed bool) *Turn {
	t := &a.turn
	t.reset()
	t.ID = id
	t.Problems = append(t.Problems, problems...)
	a.tiled = false
	a.g.build(events, a.end, &t.Problems)
	if a.g.firstSound != none {
		a.g.backward()
	}
	a.choose()
	a.describe()
	a.checkOrder()
	a.ttfs()
	t.Outcome = a.outcome(closed)
	a.path()
	a.measure()
	a.count()
	a.flag(closed)
	return t
}

// choose takes one event of each kind for the metrics, by the rule that
// Turn.At states.
func (a *analysis) choose() {
	for k := range a.chosen {
		a.chosen[k], a.reached[k], a.good[k] = none, none, none
	}
	a.stepEnds, a.others = a.stepEnds[:0], a.others[:0]
	lost := a.lostAttempts()
	for i := range a.g.nodes {
		n := &a.g.nodes[i]
		if n.left {
			continue
		}
		if n.kind == kindOther {
			a.others = append(a.others, int32(i))
			continue
		}
		if n.kind == kindStepEnd {
			a.stepEnds = append(a.stepEnds, int32(i))
		}
		if a.chosen[n.kind] == none {
			a.chosen[n.kind] = int32(i)
		}
		if n.bears {
			a.reached[n.kind] = int32(i)
		}
		if a.good[n.kind] == none && (lost == attempts{} || !lost.has(n.kind, a.g.events[i].Attempt)) {
			a.good[n.kind] = int32(i)
		}
	}
	for k := range a.chosen {
		switch {
		case kind(k) == kindSpeechEnd:
			a.chosen[k] = a.g.speechEnd
		case kind(k) == kindFirstSound:
			a.chosen[k] = a.g.firstSound
		case a.reached[k] != none:
			a.chosen[k] = a.reached[k]
		case a.good[k] != none:
			a.chosen[k] = a.good[k]
		}
	}
}

// attempts holds the numbers, up to 63, of attempts that came to nothing.
type attempts struct{ llm, tts uint64 }

// lostAttempts returns the failed and the discarded attempts.
func (a *analysis) lostAttempts() attempts {
	var out attempts
	if !a.g.any(kindLLMFailed, kindLLMDiscarded, kindTTSFailed) {
		return out
	}
	for i := range a.g.nodes {
		k, n := a.g.nodes[i].kind, a.g.events[i].Attempt
		if n < 1 || n > 63 {
			continue
		}
		switch k {
		case kindLLMFailed, kindLLMDiscarded:
			out.llm |= 1 << n
		case kindTTSFailed:
			out.tts |= 1 << n
		}
	}
	return out
}

// has returns whether a mark of kind k in attempt n came to nothing.
func (l attempts) has(k kind, n int) bool {
	switch {
	case n < 1 || n > 63:
		return false
	case k >= kindLLMSend && k <= kindLLMAdopted:
		return l.llm&(1<<n) != 0
	case k >= kindTTSSend && k <= kindTTSFailed:
		return l.tts&(1<<n) != 0
	}
	return false
}

// describe fills in who the turn is, and its marks.
func (a *analysis) describe() {
	t := &a.turn
	if i := a.chosen[kindTurnOpened]; i != none {
		e := &a.g.events[i]
		t.Request, t.Utterance, t.Bounds = text(e, trace.AttrRequest), text(e, trace.AttrUtterance), text(e, trace.AttrBounds)
		warm, _ := number(e, trace.AttrWarmup)
		t.Warmup = warm == 1
	}
	for k, i := range a.chosen {
		if i != none && kind(k) != kindFault {
			t.Marks = append(t.Marks, Moment{usuals[k].mark, a.g.nodes[i].at})
		}
	}
	for _, i := range a.others {
		if _, seen := t.At(a.g.events[i].Mark); !seen {
			t.Marks = append(t.Marks, Moment{a.g.events[i].Mark, a.g.nodes[i].at})
		}
	}
	if !a.g.any(kindFault) {
		return
	}
	for i := range a.g.nodes {
		if a.g.nodes[i].kind == kindFault {
			a.g.problem(i, "%s", text(&a.g.events[i], trace.AttrError))
		}
	}
}

// An order is two marks whose times can have only one order.
type order struct {
	before, after kind
	sound         bool // of the answer's sound, which a filler's may precede
}

// orders are the pairs of marks that are checked in every turn.
var orders = []order{
	{before: kindOf(trace.SpeechStart), after: kindSpeechEnd},
	{before: kindOf(trace.SpeechEnd), after: kindOf(trace.SpeechHeard)},
	{before: kindAgentStart, after: kindAgentEnd},
	{before: kindStepStart, after: kindStepEnd},
	{before: kindLLMSend, after: kindLLMFirstToken},
	{before: kindLLMFirstToken, after: kindLLMEnd},
	{before: kindTTSSend, after: kindTTSFirstFrame},
	{before: kindTTSFirstFrame, after: kindPlayQueued, sound: true},
	{before: kindTTSFirstFrame, after: kindPlayStart, sound: true},
	{before: kindTTSFirstFrame, after: kindFirstSound},
	{before: kindPlayQueued, after: kindPlayStart, sound: true},
	{before: kindPlayStart, after: kindFirstSound, sound: true},
	{before: kindBargeIn, after: kindPlayStopped},
}

// checkOrder reports marks that are out of order, whatever their causes.
func (a *analysis) checkOrder() {
	filler := a.chosen[kindFirstFiller] != none
	for _, o := range orders {
		i, j := a.chosen[o.before], a.chosen[o.after]
		if i == none || j == none || o.sound && filler {
			continue
		}
		if n, m := a.g.events[i].Attempt, a.g.events[j].Attempt; n != m && n > 0 && m > 0 {
			continue // of different attempts: the model has called a tool between them
		}
		if a.g.nodes[i].at > a.g.nodes[j].at && a.g.before(o.before, a.g.nodes[j].at) == none {
			a.g.problem(int(j), "%s at %d ns is before %s at %d ns", a.g.events[j].Mark, int64(a.g.nodes[j].at), a.g.events[i].Mark, int64(a.g.nodes[i].at))
		}
	}
}

// ttfs works out the time to first sound, with its sign.
func (a *analysis) ttfs() { a.turn.TTFS = a.between(kindSpeechEnd, kindFirstSound) }

// outcome returns how the turn ended.
func (a *analysis) outcome(closed bool) Outcome {
	t := &a.turn
	failed := a.chosen[kindTurnFailed]
	if failed != none {
		t.FailureKind, t.FailureText = text(&a.g.events[failed], trace.AttrKind), text(&a.g.events[failed], trace.AttrError)
		if t.FailureKind == "" {
			t.FailureKind = "unknown"
		}
	}
	if a.g.firstSound == none {
		t.LastMark = a.lastMilestone()
	}
	switch {
	case t.Warmup:
		return OutcomeWarmup
	case !closed:
		return OutcomeUnfinished
	case failed != none:
		return OutcomeFailed
	case t.TTFS.OK && t.TTFS.N < 0:
		return OutcomeEarlyReply
	case a.interrupted():
		return OutcomeInterrupted
	case a.g.firstSound == none:
		return OutcomeNoReply
	}
	return OutcomeOK
}

// interrupted returns whether the user cut the answer off. Speech into the
// answer that does not stop it (a backchannel) is no interruption.
func (a *analysis) interrupted() bool {
	return a.chosen[kindBargeIn] != none && (a.chosen[kindPlayStopped] != none || a.chosen[kindPlayEnd] == none)
}

// lastMilestone returns the farthest mark of a plain cascade that was reached.
func (a *analysis) lastMilestone() trace.Mark {
	last := trace.Mark("")
	for _, m := range milestones {
		if a.chosen[kindOf(m)] != none {
			last = m
		}
	}
	return last
}

// path fills in the segments, the slacks and the what-ifs. A turn without a
// positive TTFS has none.
func (a *analysis) path() {
	t := &a.turn
	if !t.TTFS.OK || t.TTFS.N < 0 {
		return
	}
	t.Segments = a.g.walk(t.Segments)
	a.checkTiling()
	a.slack()
	a.g.shorten(a.percent)
	begin := a.g.nodes[a.g.speechEnd].at
	for s, stage := range a.g.stages {
		if stage != StageUnexplained {
			t.WhatIfs = append(t.WhatIfs, WhatIf{stage, a.g.whatIf(int16(s), a.percent) - begin})
		}
	}
}

// checkTiling makes sure that the segments lie end to end from speech_end to
// first_sound, so that they sum to TTFS to the nanosecond.
func (a *analysis) checkTiling() {
	t := &a.turn
	at := a.g.nodes[a.g.speechEnd].at
	a.tiled = true
	for _, s := range t.Segments {
		a.tiled = a.tiled && s.Start == at && s.End > s.Start
		at = s.End
	}
	a.tiled = a.tiled && at == a.g.nodes[a.g.firstSound].at
	if !a.tiled {
		a.g.problem(int(a.g.firstSound), "THE SEGMENTS DO NOT SUM TO TTFS: %v; this is a fault of the report, please tell its makers", t.Segments)
	}
}

// slack lists what bears on first_sound but is not on its path.
func (a *analysis) slack() {
	t := &a.turn
	for i := range a.g.nodes[:a.g.firstSound] {
		n := &a.g.nodes[i]
		if n.bears && !n.onPath {
			t.Slacks = append(t.Slacks, Slack{a.g.events[i].Mark, n.at, n.stage, n.late - n.at})
		}
	}
}

// count counts attempts.
func (a *analysis) count() {
	if !a.g.any(kindLLMFailed, kindTTSFailed, kindLLMAdopted, kindLLMDiscarded) {
		return
	}
	c := &a.turn.Counters
	llmFailed, ttsFailed := false, false
	for i := range a.g.nodes {
		switch k := a.g.nodes[i].kind; k {
		case kindLLMFailed, kindTTSFailed:
			c.Failures++
			llmFailed, ttsFailed = llmFailed || k == kindLLMFailed, ttsFailed || k == kindTTSFailed
		case kindLLMSend:
			if llmFailed {
				c.Retries, llmFailed = c.Retries+1, false
			}
		case kindTTSSend:
			if ttsFailed {
				c.Retries, ttsFailed = c.Retries+1, false
			}
		case kindLLMAdopted:
			c.Adopted++
			saved, _ := number(&a.g.events[i], trace.AttrSaved)
			c.Saved += time.Duration(saved)
		case kindLLMDiscarded:
			c.Discarded++
			if n, ok := a.wasted(i); ok {
				c.Wasted += n
				c.WastedOf++
			}
		}
	}
}

// wasted returns the tokens of the attempt that event i discards, if told.
func (a *analysis) wasted(i int) (int64, bool) {
	if n, ok := number(&a.g.events[i], trace.AttrTokens); ok {
		return n, true
	}
	for j := range a.g.nodes {
		if k := a.g.nodes[j].kind; (k == kindLLMEnd || k == kindLLMLastToken) && a.g.events[j].Attempt == a.g.events[i].Attempt {
			if n, ok := number(&a.g.events[j], trace.AttrTokens); ok {
				return n, true
			}
		}
	}
	return 0, false
}

// flag adds the flags.
func (a *analysis) flag(closed bool) {
	t := &a.turn
	add := func(f Flag, yes bool) {
		if yes && !slices.Contains(t.Flags, f) {
			t.Flags = append(t.Flags, f)
		}
	}
	end := a.chosen[kindTurnEnd]
	if end != none {
		forced, _ := number(&a.g.events[end], trace.AttrForced)
		add(FlagForcedTurn, forced == 1)
	}
	add(FlagEarlyTurn, t.Values[MetricEndpointing].OK && t.Values[MetricEndpointing].N < 0)
	add(FlagStuckTurn, closed && end == none && a.g.firstSound == none && a.g.speechEnd != none && a.chosen[kindTurnFailed] == none)
	add(FlagEarlyFinal, t.Values[MetricASRFinalization].OK && t.Values[MetricASRFinalization].N < 0)
	if done := a.between(kindFirstSound, kindLLMEnd); done.OK {
		add(FlagSlowCompletion, done.N > int64(SlowCompletion))
	}
}
