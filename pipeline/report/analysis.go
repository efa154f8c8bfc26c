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
	dropped  []int32 // the turn_end events that were taken back
	stop     int32   // the play_stopped that a barge_in led to
	tiled    bool    // the segments are there and sum to TTFS
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
	a.chooseTurnEnd()
	a.chooseStop()
}

// chooseTurnEnd takes the turn_end that stood: of those that were not taken back
// the last one that first_sound had waited for, else the last. There is none if
// all of them were taken back.
func (a *analysis) chooseTurnEnd() {
	a.dropped = a.dropped[:0]
	if !a.g.any(kindTurnDropped) {
		if a.reached[kindTurnEnd] == none {
			a.chosen[kindTurnEnd] = a.g.last[kindTurnEnd]
		}
		return
	}
	for i := range a.g.nodes {
		if n := &a.g.nodes[i]; n.kind == kindTurnDropped && !n.left {
			a.turn.Counters.Dropped++
			a.dropped = append(a.dropped, a.commitBefore(i))
		}
	}
	stood, reached := none, none
	for i := range a.g.nodes {
		n := &a.g.nodes[i]
		if n.kind != kindTurnEnd || n.left || slices.Contains(a.dropped, int32(i)) {
			continue
		}
		stood = int32(i)
		if n.bears {
			reached = int32(i)
		}
	}
	if reached != none {
		stood = reached
	}
	a.chosen[kindTurnEnd] = stood
}

// commitBefore returns the turn_end that the turn_dropped of node i takes back:
// the one that it names, else the one right before it.
func (a *analysis) commitBefore(i int) int32 {
	n := &a.g.nodes[i]
	for _, c := range a.g.causes[n.from:n.to] {
		if a.g.nodes[c].kind == kindTurnEnd {
			return c
		}
	}
	for c := int32(i) - 1; c >= 0; c-- {
		if m := &a.g.nodes[c]; m.kind == kindTurnEnd && !m.left && m.at <= n.at {
			return c
		}
	}
	return none
}

// chooseStop takes the first play_stopped after the barge_in: an answer may have
// been stopped before, because the user had not finished.
func (a *analysis) chooseStop() {
	a.stop = none
	barge := a.chosen[kindBargeIn]
	if barge == none {
		return
	}
	if a.stop = a.first(kindPlayStopped, a.g.nodes[barge].at); a.stop != none {
		a.chosen[kindPlayStopped] = a.stop
	}
}

// first returns the first event of kind k, in the order of time, that is not
// before at.
func (a *analysis) first(k kind, at time.Duration) int32 {
	found := none
	for i := range a.g.nodes {
		n := &a.g.nodes[i]
		if n.kind == k && !n.left && n.at >= at && (found == none || n.at < a.g.nodes[found].at) {
			found = int32(i)
		}
	}
	return found
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
			a.disorder(i, j)
		}
	}
	if i, j := a.chosen[kindBargeIn], a.chosen[kindPlayStopped]; i != none && j != none && a.stop == none && !a.playedAfter(j) {
		a.disorder(i, j)
	}
}

// disorder reports that event j is before event i, which cannot be.
func (a *analysis) disorder(i, j int32) {
	a.g.problem(int(j), "%s at %d ns is before %s at %d ns", a.g.events[j].Mark, int64(a.g.nodes[j].at), a.g.events[i].Mark, int64(a.g.nodes[i].at))
}

// playedAfter returns whether something was played after the stop of event j, so
// that the user could still speak into it.
func (a *analysis) playedAfter(j int32) bool {
	for _, k := range [...]kind{kindPlayQueued, kindPlayStart, kindFirstSound, kindPlayEnd} {
		if i := a.g.last[k]; i != none && i > j && a.g.nodes[i].at >= a.g.nodes[j].at {
			return true
		}
	}
	return false
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
		t.LastMark = a.lastMark()
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
	return a.chosen[kindBargeIn] != none && (a.stop != none || a.chosen[kindPlayEnd] == none)
}

// lastMark returns the latest mark on the way to an answer. What the user does
// meanwhile, a filler and the turn's own bounds do not lead there.
func (a *analysis) lastMark() trace.Mark {
	filler := a.g.any(kindFirstFiller)
	last := none
	for i := range a.g.nodes {
		n := &a.g.nodes[i]
		switch k := n.kind; {
		case n.left, k == kindOther, k == kindTurnOpened, k == kindTurnClosed, k == kindTurnFailed, k == kindFault, k == kindAudioEnd, k == kindBargeIn:
		case filler && (k == kindFirstFiller || k >= kindPlayQueued && k <= kindPlayStopped):
		case last == none || n.at >= a.g.nodes[last].at:
			last = int32(i)
		}
	}
	if last == none {
		return ""
	}
	return a.g.events[last].Mark
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
