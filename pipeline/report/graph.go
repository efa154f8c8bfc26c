package report

import (
	"fmt"
	"time"

	"firstsound/clocks/trace"
)

// none is the index of no node.
const none = int32(-1)

// unixTime is the first time that cannot be one of a run: 10^18 ns is 31 years,
// and as a Unix time the year 2001.
const unixTime = time.Duration(1_000_000_000_000_000_000)

// A node is an event as a vertex of the turn's graph of causes.
type node struct {
	at       time.Duration
	lag      time.Duration // since latest
	late     time.Duration // the latest that it may be without moving first_sound; valid if bears
	stage    trace.Stage
	latest   int32 // the cause that came last, or none
	from, to int32 // its causes, in graph.causes
	kind     kind
	left     bool // left out: its time is impossible
	bears    bool // first_sound had waited for it
	onPath   bool
	step     int32 // its place in graph.steps; valid if bears
}

// A graph is the events of one turn with what each had waited for. Its memory
// is used again for the next turn.
type graph struct {
	events []trace.Event // in the order of their Seq
	nodes  []node
	causes []int32
	last   []int32 // by kind: the newest node so far

	speechEnd, firstSound int32
	stages                []trace.Stage // those on the critical path, speech_end's past included
	savings               []saving      // by stage
	path                  []int32       // from first_sound back
	packed                bool
	steps                 []step
	stepCauses            []int32
	moved                 []time.Duration
	stepStages            map[string]trace.Stage
	problems              *[]Problem
}

// problem notes that event i cannot be right.
func (g *graph) problem(i int, format string, args ...any) {
	e := &g.events[i]
	*g.problems = append(*g.problems, Problem{ID: e.ID, Seq: e.Seq, Text: fmt.Sprintf(format, args...)})
}

// build makes the graph of events. end is the run's end, if it is known.
func (g *graph) build(events []trace.Event, end Limit, problems *[]Problem) {
	g.events, g.problems = events, problems
	g.nodes, g.causes, g.stages = g.nodes[:0], g.causes[:0], g.stages[:0]
	g.speechEnd, g.firstSound = none, none
	if g.last == nil {
		g.last = make([]int32, len(usuals))
		g.stepStages = map[string]trace.Stage{}
	}
	for i := range g.last {
		g.last[i] = none
	}
	for i := range events {
		g.add(i, end)
	}
}

// add makes the node of event i.
func (g *graph) add(i int, end Limit) {
	e := &g.events[i]
	k := kindOf(e.Mark)
	from := int32(len(g.causes))
	g.nodes = append(g.nodes, node{at: e.At, kind: k, latest: none, from: from, to: from, stage: e.Stage})
	n := &g.nodes[i]
	if n.left = g.impossible(i, end); n.left {
		return
	}
	if len(e.Causes) > 0 {
		g.takeCauses(i)
	} else if k != kindOther {
		g.takeUsual(i)
	}
	if n.latest == none && k != kindOther {
		g.takeMilestone(i)
	}
	if n.latest != none {
		n.lag = n.at - g.nodes[n.latest].at
	}
	if k == kindOther {
		return
	}
	g.remember(i, k)
}

// remember makes node i known as the newest of its kind.
func (g *graph) remember(i int, k kind) {
	switch {
	case k == kindSpeechEnd && g.speechEnd != none:
		g.problem(i, "speech_end occurs again; the first one counts")
	case k == kindSpeechEnd:
		g.speechEnd = int32(i)
	case k == kindFirstSound && g.firstSound == none:
		g.firstSound = int32(i)
	}
	g.last[k] = int32(i)
}

// any returns whether there is a node of one of the kinds.
func (g *graph) any(kinds ...kind) bool {
	for _, k := range kinds {
		if g.last[k] != none {
			return true
		}
	}
	return false
}

// impossible reports an event whose time cannot be one of the run.
func (g *graph) impossible(i int, end Limit) bool {
	e := &g.events[i]
	switch {
	case e.At >= unixTime:
		g.problem(i, "%s is at %d ns: that looks like a Unix time, not a time since the run began; it is left out", e.Mark, int64(e.At))
	case e.At < 0:
		g.problem(i, "%s is at %d ns, before the run began; it is left out", e.Mark, int64(e.At))
	case end.Known && e.At > end.At:
		g.problem(i, "%s is at %d ns, after the run's end at %d ns; it is left out", e.Mark, int64(e.At), int64(end.At))
	default:
		return false
	}
	return true
}

// take makes node c a cause of node i.
func (g *graph) take(i int, c int32) (newest bool) {
	n := &g.nodes[i]
	g.causes = append(g.causes, c)
	n.to = int32(len(g.causes))
	if n.latest != none {
		l := &g.nodes[n.latest]
		if l.at > g.nodes[c].at || l.at == g.nodes[c].at && n.latest > c {
			return false
		}
	}
	n.latest = c
	return true
}

// takeCauses takes the causes that event i names.
func (g *graph) takeCauses(i int) {
	e, n := &g.events[i], &g.nodes[i]
	for _, ref := range e.Causes {
		c := g.find(ref, i)
		switch {
		case c == none:
			g.problem(i, "%s names event %d as its cause, which is not before it", e.Mark, ref)
		case g.nodes[c].left:
		case g.nodes[c].at > n.at:
			g.problem(i, "%s at %d ns is before its cause %s at %d ns", e.Mark, int64(e.At), g.events[c].Mark, int64(g.nodes[c].at))
		default:
			g.take(i, c)
		}
	}
	if n.stage == "" && n.latest != none {
		n.stage = g.stageAfter(i, g.nodes[n.latest].kind)
	}
}

// find returns the node before i whose event is ref, or none.
func (g *graph) find(ref trace.Ref, i int) int32 {
	if at := int(ref) - 1; at >= 0 && at < i && g.events[at].Seq == ref {
		return int32(at)
	}
	for j := i - 1; j >= 0; j-- { // the numbers have gaps: the file is not whole
		if g.events[j].Seq == ref {
			return int32(j)
		}
	}
	return none
}

// stageAfter returns the usual stage of the time between a mark of kind after
// and event i.
func (g *graph) stageAfter(i int, after kind) trace.Stage {
	k := g.nodes[i].kind
	if k == kindOther || len(usualWaits[k]) == 0 {
		return StageUnexplained
	}
	if k == kindStepEnd {
		return g.stepStage(i)
	}
	for _, w := range usualWaits[k] {
		if w.kind == after {
			return w.stage
		}
	}
	return usualWaits[k][0].stage
}

// takeUsual takes the usual causes of event i.
func (g *graph) takeUsual(i int) {
	n := &g.nodes[i]
	if n.kind == kindStepEnd {
		g.takeStep(i)
		return
	}
	for _, w := range usualWaits[n.kind] {
		c := g.before(w.kind, n.at)
		if c != none && g.take(i, c) && g.events[i].Stage == "" {
			n.stage = w.stage
		}
	}
}

// takeStep takes the start of the step that event i ends.
func (g *graph) takeStep(i int) {
	n, step := &g.nodes[i], text(&g.events[i], trace.AttrStep)
	for c := i - 1; c >= 0; c-- {
		m := &g.nodes[c]
		if m.kind == kindStepStart && !m.left && m.at <= n.at && text(&g.events[c], trace.AttrStep) == step {
			g.take(i, int32(c))
			break
		}
	}
	if n.stage == "" {
		n.stage = g.stepStage(i)
	}
}

// stepStage returns the stage of the step of event i.
func (g *graph) stepStage(i int) trace.Stage {
	step := text(&g.events[i], trace.AttrStep)
	if step == "" {
		return trace.StageAgent
	}
	s, ok := g.stepStages[step]
	if !ok {
		s = trace.AgentStep(step)
		if len(g.stepStages) < 1000 { // a name per turn must not fill the memory
			g.stepStages[step] = s
		}
	}
	return s
}

// before returns the newest node of kind k that is not after at, or none.
func (g *graph) before(k kind, at time.Duration) int32 {
	c := g.last[k]
	if c == none || g.nodes[c].at <= at {
		return c
	}
	for c--; c >= 0; c-- {
		if n := &g.nodes[c]; n.kind == k && !n.left && n.at <= at {
			return c
		}
	}
	return none
}

// takeMilestone gives node i, which has found none of its causes, the latest
// milestone that stands before it in a plain cascade.
func (g *graph) takeMilestone(i int) {
	n := &g.nodes[i]
	for _, k := range fallbacks[n.kind] {
		if c := g.before(k, n.at); c != none {
			g.take(i, c)
		}
	}
	if n.stage == "" {
		n.stage = StageUnexplained
	}
}

// walk follows the latest causes back from first_sound, marks the path, and
// appends its segments, in order, to out. They tile [speech_end, first_sound].
func (g *graph) walk(out []Segment) []Segment {
	g.path = g.path[:0]
	begin := g.nodes[g.speechEnd].at
	i := g.firstSound
	for open := true; ; {
		n := &g.nodes[i]
		n.onPath = true
		g.path = append(g.path, i)
		if n.at <= begin {
			open = false
		}
		if n.latest == none {
			if open {
				out = charge(out, Segment{Stage: StageUnexplained, Start: begin, End: n.at})
			}
			break
		}
		c := &g.nodes[n.latest]
		if open {
			out = charge(out, Segment{Stage: n.stage, Setting: g.events[i].Setting, Start: max(c.at, begin), End: n.at})
		}
		i = n.latest
	}
	reverse(out)
	return out
}

// charge appends s, which lies right before the last segment of out.
func charge(out []Segment, s Segment) []Segment {
	if s.Start == s.End {
		return out
	}
	if n := len(out); n > 0 && out[n-1].Stage == s.Stage && out[n-1].Setting == s.Setting {
		out[n-1].Start = s.Start
		return out
	}
	return append(out, s)
}

func reverse(s []Segment) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}

// A saving is what a what-if takes off the critical path by making one stage
// faster. If it is too deep, another path may become the longest one.
type saving struct {
	time time.Duration
	deep bool
}

// shorten works out the savings of all stages of the path. Another path leaves this
// one, seen from first_sound, at a mark's cause that was not its latest, and is
// shorter by at least the gap between the two. So a saving is too deep if what it
// takes off before such a mark is more than that gap.
func (g *graph) shorten(percent int64) {
	g.stages, g.savings, g.packed = g.stages[:0], g.savings[:0], false
	for k := len(g.path) - 1; k >= 0; k-- {
		n := &g.nodes[g.path[k]]
		if n.to-n.from > 1 {
			g.compare(g.gap(n))
		}
		if n.lag > 0 {
			g.savings[g.stageOfPath(n.stage)].time += n.lag * time.Duration(percent) / 100
		}
	}
}

// gap returns how much earlier than the latest cause of n the next one was.
func (g *graph) gap(n *node) time.Duration {
	latest, gap := g.nodes[n.latest].at, unixTime
	for _, c := range g.causes[n.from:n.to] {
		if c != n.latest {
			gap = min(gap, latest-g.nodes[c].at)
		}
	}
	return gap
}

// compare marks the savings that are deeper than gap.
func (g *graph) compare(gap time.Duration) {
	for i := range g.savings {
		g.savings[i].deep = g.savings[i].deep || g.savings[i].time > gap
	}
}

// stageOfPath returns the place of a stage, which it adds if need be.
func (g *graph) stageOfPath(s trace.Stage) int16 {
	i := g.stageNumber(s)
	if i < 0 {
		g.stages, g.savings = append(g.stages, s), append(g.savings, saving{})
		i = int16(len(g.stages) - 1)
	}
	return i
}

// backward finds what first_sound had waited for, and how much later each of
// it may have been: late(c) = min over m that waited for c of late(m) − lag(m).
func (g *graph) backward() {
	f := &g.nodes[g.firstSound]
	f.bears, f.late = true, f.at
	for i := g.firstSound; i >= 0; i-- {
		n := &g.nodes[i]
		if !n.bears {
			continue
		}
		late := n.late - n.lag
		for _, ci := range g.causes[n.from:n.to] {
			c := &g.nodes[ci]
			if !c.bears || late < c.late {
				c.bears, c.late = true, late
			}
		}
	}
}

// A step is a node that bears on first_sound, packed for the recurrence.
type step struct {
	at, lag  time.Duration
	from, to int32 // its causes, in graph.stepCauses; none of a mark without causes
	stage    int16 // its place in graph.stages, or -1
}

// pack makes the steps of the recurrence, in the order of their causes.
func (g *graph) pack() {
	g.steps, g.stepCauses = g.steps[:0], g.stepCauses[:0]
	for i := range g.nodes[:g.firstSound+1] {
		n := &g.nodes[i]
		if !n.bears {
			continue
		}
		s := step{at: n.at, lag: n.lag, from: int32(len(g.stepCauses)), stage: -1}
		for _, c := range g.causes[n.from:n.to] {
			g.stepCauses = append(g.stepCauses, g.nodes[c].step)
		}
		s.to = int32(len(g.stepCauses))
		if s.from < s.to && n.lag > 0 {
			s.stage = g.stageNumber(n.stage)
		}
		n.step = int32(len(g.steps))
		g.steps = append(g.steps, s)
	}
	if cap(g.moved) < len(g.steps) {
		g.moved = make([]time.Duration, 2*len(g.steps))
	}
}

// stageNumber returns the place of a stage of the path, or -1.
func (g *graph) stageNumber(stage trace.Stage) int16 {
	for i, s := range g.stages {
		if s == stage {
			return int16(i)
		}
	}
	return -1
}

// whatIf returns when first_sound would be if stage number s took percent less
// time. If that cannot make another path the longest, the recurrence need not
// be run: its result is the saving (a test holds the two against each other).
func (g *graph) whatIf(s int16, percent int64) time.Duration {
	if c := g.savings[s]; !c.deep {
		return g.nodes[g.firstSound].at - c.time
	}
	if !g.packed {
		g.pack()
		g.packed = true
	}
	return g.recur(s, percent)
}

// recur runs the max-plus recurrence t'(m) = max over its causes c of t'(c),
// + lag(m), in which the lags of stage number s are percent shorter. A mark
// without causes stays where it is.
func (g *graph) recur(s int16, percent int64) time.Duration {
	moved := g.moved[:len(g.steps)]
	changed := false
	for i := range g.steps {
		n := &g.steps[i]
		changed = changed || n.stage == s
		if !changed || n.from == n.to { // nothing before it has moved
			moved[i] = n.at
			continue
		}
		lag := n.lag
		if n.stage == s {
			lag -= lag * time.Duration(percent) / 100
		}
		causes := g.stepCauses[n.from:n.to]
		latest := moved[causes[0]]
		for _, c := range causes[1:] {
			latest = max(latest, moved[c])
		}
		moved[i] = latest + lag
	}
	return moved[len(moved)-1]
}

// text returns the text of e's attribute key, or nothing.
func text(e *trace.Event, key string) string {
	for i := range e.Attrs {
		if e.Attrs[i].Key == key {
			return e.Attrs[i].Text
		}
	}
	return ""
}

// number returns the whole number of e's attribute key, and whether it is there.
func number(e *trace.Event, key string) (int64, bool) {
	for i := range e.Attrs {
		if a := &e.Attrs[i]; a.Key == key && a.Text == "" {
			return a.Int, true
		}
	}
	return 0, false
}
