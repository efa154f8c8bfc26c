package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
	"firstsound/page"
)

// A column is one line of the shares table: a stage, and the setting that owns
// the time, if any. Settings that differ in their value only are one column.
type column struct {
	stage   trace.Stage
	key     string // of the setting
	setting string // key=value, or key=varies
}

// columns are the lines of the shares table in the order of first use.
type columns []column

// findNear is find that looks at the column after last first: the segments of
// most turns come in the same order.
func (c *columns) findNear(last int, stage trace.Stage, setting string) uint16 {
	if last++; last < len(*c) {
		if l := &(*c)[last]; l.stage == stage && l.setting == setting {
			return uint16(last)
		}
	}
	return c.find(stage, setting)
}

// find returns the place of a segment's column, which it adds if need be.
func (c *columns) find(stage trace.Stage, setting string) uint16 {
	for i := range *c {
		if l := &(*c)[i]; l.stage == stage && l.setting == setting {
			return uint16(i)
		}
	}
	key, _, _ := strings.Cut(setting, "=")
	for i := range *c {
		if l := &(*c)[i]; l.stage == stage && l.key == key {
			l.setting = key + "=varies"
			return uint16(i)
		}
	}
	if len(*c) >= maxColumns { // a stage per turn must not fill the memory
		stage, key, setting = "other", "", ""
		for i := range *c {
			if (*c)[i].stage == stage {
				return uint16(i)
			}
		}
	}
	*c = append(*c, column{stage, key, setting})
	return uint16(len(*c) - 1)
}

// maxColumns bounds the lines of the shares table.
const maxColumns = 1000

// A cell is a column's part of one turn.
type cell struct {
	column uint16
	time   int64
	gain   int64 // of the stage, at the first of its cells
}

// A pathRow is what is kept of an ok turn to say where the silence goes.
type pathRow struct {
	id    trace.ID
	ttfs  int64
	cells []cell
}

// addPath keeps the path of an ok turn: all of them up to the exact limit, then
// a random sample of that size, in which each turn has the same chance
// (Vitter's algorithm R).
func (s *Summary) addPath(t *Turn) {
	s.okSeen++
	if len(s.rows) < s.opts.Exact {
		s.rows = append(s.rows, pathRow{})
		s.fill(&s.rows[len(s.rows)-1], t)
	} else if i := s.draw.Int64N(s.okSeen); i < int64(len(s.rows)) {
		s.fill(&s.rows[i], t)
	}
}

// fill makes r the path of t.
func (s *Summary) fill(r *pathRow, t *Turn) {
	r.id, r.ttfs = t.ID, t.TTFS.N
	if r.cells == nil {
		r.cells = make([]cell, 0, len(t.Segments)+2)
	}
	r.cells = r.cells[:0]
	last := -1
	for i := range t.Segments {
		seg := &t.Segments[i]
		column := s.columns.findNear(last, seg.Stage, seg.Setting)
		r.add(column, int64(seg.End-seg.Start))
		last = int(column)
	}
	for _, w := range t.WhatIfs {
		if gain := t.TTFS.N - int64(w.TTFS); gain != 0 {
			r.addGain(s.columns, s.columns.stage(w.Stage), w.Stage, gain)
		}
	}
}

// add adds time to the cell of a column.
func (r *pathRow) add(column uint16, time int64) {
	for i := range r.cells {
		if r.cells[i].column == column {
			r.cells[i].time += time
			return
		}
	}
	r.cells = append(r.cells, cell{column: column, time: time})
}

// addGain notes what a faster stage gains. Where the stage lies before
// speech_end only, it has no cell yet.
func (r *pathRow) addGain(c columns, column uint16, stage trace.Stage, gain int64) {
	for i := range r.cells {
		if c[r.cells[i].column].stage == stage {
			r.cells[i].gain = gain
			return
		}
	}
	r.cells = append(r.cells, cell{column: column, gain: gain})
}

// stage returns the place of the first column of a stage.
func (c *columns) stage(stage trace.Stage) uint16 {
	for i := range *c {
		if (*c)[i].stage == stage {
			return uint16(i)
		}
	}
	return c.find(stage, "")
}

// sortRows orders the rows by TTFS, then by ID.
func (s *Summary) sortRows() {
	slices.SortFunc(s.rows, func(a, b pathRow) int {
		return cmp.Or(cmp.Compare(a.ttfs, b.ttfs), cmp.Compare(a.id.Session, b.id.Session), cmp.Compare(a.id.Turn, b.id.Turn))
	})
}

// silence returns where the silence goes. The rows must be sorted.
func (s *Summary) silence() Silence {
	n := len(s.rows)
	if n == 0 {
		return Silence{Absent: "no ok turn", Rows: []ShareRow{}}
	}
	from, to := n*45/100, (n*55+99)/100
	middle, tail := s.rows[from:to], s.rows[n-(n*5+99)/100:]
	out := Silence{MedianTurns: len(middle), TailTurns: len(tail), Rows: []ShareRow{}}
	if s.okSeen > int64(n) {
		out.Sampled = n
	}
	var median, slow []int64
	median, out.MedianTTFS = s.means(middle)
	slow, out.TailTTFS = s.means(tail)
	for _, i := range s.columns.order() {
		if median[i] != 0 || slow[i] != 0 {
			c := s.columns[i]
			out.Rows = append(out.Rows, ShareRow{string(c.stage), c.setting, median[i], slow[i]})
		}
	}
	return out
}

// means returns the mean of each column over the rows, which sum to the mean
// TTFS, and that.
func (s *Summary) means(rows []pathRow) (means []int64, ttfs int64) {
	sums, n := make([]int64, len(s.columns)), int64(len(rows))
	for _, r := range rows {
		for _, c := range r.cells {
			sums[c.column] += c.time
		}
	}
	means = apportion(sums, n)
	for i := range means {
		means[i] /= n
		ttfs += means[i]
	}
	return means, ttfs
}

// order returns the columns' places in the order of a plain cascade: the steps
// of the agent at the agent, stages of other makes by name, and at last what
// is unexplained.
func (c columns) order() []int {
	out := make([]int, len(c))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(stageRank(c[a].stage), stageRank(c[b].stage)),
			cmp.Compare(c[a].stage, c[b].stage), cmp.Compare(c[a].setting, c[b].setting))
	})
	return out
}

// stageRank returns the place of a stage in a plain cascade.
func stageRank(s trace.Stage) int {
	if s == StageUnexplained {
		return len(trace.Stages) + 1
	}
	if strings.HasPrefix(string(s), string(trace.StageAgent)+".") {
		s = trace.StageAgent
	}
	if i := slices.Index(trace.Stages, s); i >= 0 {
		return i
	}
	return len(trace.Stages)
}

// improve returns what faster stages would gain. The rows must be sorted.
func (s *Summary) improve() Improve {
	out := Improve{Percent: s.opts.Percent, Rows: []WhatIfRow{}}
	if len(s.rows) == 0 {
		out.Absent = "no ok turn"
		return out
	}
	if !quantile.Resolves(int64(len(s.rows)), 0.50) {
		out.Absent = "too few ok turns for a median"
		return out
	}
	base := make([]int64, len(s.rows))
	for i := range s.rows {
		base[i] = s.rows[i].ttfs
	}
	// The gains are those of the rows, which may be a sample; what they are
	// gained on are the quantiles of all turns, as the headline has them.
	drawn50, _ := quantile.Of(base, 0.50)
	drawn95, _ := quantile.Of(base, 0.95)
	p50, p95 := s.values[MetricTTFS].Of(0.50), s.values[MetricTTFS].Of(0.95)
	for _, stage := range s.columns.stages() {
		row := WhatIfRow{Stage: string(stage), Setting: s.columns.settings(stage)}
		changed := s.without(stage)
		at50, _ := quantile.Of(changed, 0.50)
		row.P50Gain = drawn50 - at50
		row.P50 = p50 - row.P50Gain
		if quantile.Resolves(int64(len(base)), 0.95) {
			v, _ := quantile.Of(changed, 0.95)
			gain := drawn95 - v
			v = p95 - gain
			row.P95, row.P95Gain = &v, &gain
		}
		if row.P50Gain != 0 || row.P95Gain != nil && *row.P95Gain != 0 {
			out.Rows = append(out.Rows, row)
		}
	}
	slices.SortStableFunc(out.Rows, func(a, b WhatIfRow) int {
		return cmp.Or(cmp.Compare(b.P50Gain, a.P50Gain), cmp.Compare(gainOf(b.P95Gain), gainOf(a.P95Gain)))
	})
	out.Sentence = sentence(out, p50, p95)
	return out
}

// gainOf returns the gain; one that cannot be told orders like none.
func gainOf(g *int64) int64 {
	if g == nil {
		return 0
	}
	return *g
}

// without returns the TTFS of all rows, sorted, if the stage were faster.
func (s *Summary) without(stage trace.Stage) []int64 {
	out := make([]int64, len(s.rows))
	for i := range s.rows {
		out[i] = s.rows[i].ttfs
		for _, c := range s.rows[i].cells {
			if s.columns[c.column].stage == stage {
				out[i] -= c.gain
			}
		}
	}
	slices.Sort(out)
	return out
}

// stages returns the stages of the columns in the order of a plain cascade.
func (c columns) stages() []trace.Stage {
	var out []trace.Stage
	for _, i := range c.order() {
		if s := c[i].stage; s != StageUnexplained && (len(out) == 0 || out[len(out)-1] != s) {
			out = append(out, s)
		}
	}
	return out
}

// settings returns the settings that own time of a stage.
func (c columns) settings(stage trace.Stage) []string {
	var out []string
	for _, i := range c.order() {
		if c[i].stage == stage && c[i].setting != "" {
			out = append(out, c[i].setting)
		}
	}
	return out
}

// sentence says which stage to improve first.
func sentence(im Improve, p50, p95 int64) string {
	if len(im.Rows) == 0 {
		return "No single stage that is faster would move the median."
	}
	top := im.Rows[0]
	out := fmt.Sprintf("Improve %s first: %d%s%% less of it takes P50 from %s to %s", top.Stage, im.Percent, page.Tie, milliseconds(p50), milliseconds(top.P50))
	if top.P95 != nil {
		out += fmt.Sprintf(" and P95 from %s to %s", milliseconds(p95), milliseconds(*top.P95))
	}
	out += "." + owners(top)
	tail := top
	for _, r := range im.Rows {
		if gainOf(r.P95Gain) > gainOf(tail.P95Gain) {
			tail = r
		}
	}
	if tail.Stage != top.Stage {
		out += fmt.Sprintf(" The slow turns gain most from %s: %d%s%% less of it takes P95 to %s.", tail.Stage, im.Percent, page.Tie, milliseconds(*tail.P95)) + owners(tail)
	}
	return out
}

// owners says which settings own time of a stage.
func owners(r WhatIfRow) string {
	if len(r.Setting) == 0 {
		return ""
	}
	return fmt.Sprintf(" Some of %s is set, not spent: %s.", r.Stage, strings.Join(r.Setting, ", "))
}

// milliseconds returns ns as "12.3 ms".
func milliseconds(ns int64) string {
	return fmt.Sprintf("%.1f%sms", float64(ns)/float64(time.Millisecond), page.Tie)
}
