package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
	"firstsound/page"
)

// turn writes one turn in full.
func (p *sheet) turn(t *TurnRow, why string) {
	if t == nil {
		p.Section("4 One turn in full", "")
		p.Text("  ", "", why)
		return
	}
	p.Section("4 One turn in full", why)
	p.Text("  ", "", turnName(t))
	if t.Error != "" {
		p.Item("  error: ", page.Red, t.Error)
	}
	begin, anchored := t.Marks.Get(string(trace.SpeechEnd))
	if len(t.Segments) > 0 {
		p.waterfall(t, begin)
	} else {
		p.Text("  ", page.Dim, noSegments(t))
	}
	p.marks(t, begin, anchored)
	for _, f := range t.Flags {
		p.Line("  flag: %s", f)
	}
}

// turnName says which turn it is.
func turnName(t *TurnRow) string {
	parts := []string{fmt.Sprintf("turn %d.%d", t.Session, t.Turn)}
	if t.Request != "" {
		parts = append(parts, "request "+t.Request)
	}
	if t.Utterance != "" {
		parts = append(parts, "utterance "+t.Utterance)
	}
	if t.Bounds != "" {
		parts = append(parts, "speech bounds "+t.Bounds)
	}
	parts = append(parts, t.Outcome)
	if t.TTFS != nil {
		parts = append(parts, "TTFS "+signedTTFS(*t.TTFS))
	}
	return strings.Join(parts, " · ")
}

// signedTTFS returns a TTFS; a negative one shows its sign.
func signedTTFS(ns int64) string {
	if ns < 0 {
		return "−" + ms(-ns) + page.Tie + "ms"
	}
	return ms(ns) + page.Tie + "ms"
}

// noSegments says why a turn has no path.
func noSegments(t *TurnRow) string {
	switch {
	case t.TTFS == nil:
		if t.LastMark != "" {
			return "there was no first sound, so there is no path; the last mark reached is " + t.LastMark
		}
		return "there is no path: no time to first sound"
	case *t.TTFS < 0:
		return fmt.Sprintf("the answer sounded %s ms into the user's speech, so there is no silence to explain", ms(-*t.TTFS))
	}
	return "the answer sounded at the very end of the speech: there is no silence to explain"
}

// waterfall draws the path on a time axis, and what lies beside it.
func (p *sheet) waterfall(t *TurnRow, begin int64) {
	whole := t.Segments[len(t.Segments)-1].End - begin
	name, side := 14, 0
	for _, s := range t.Segments {
		name, side = max(name, page.Columns(s.Stage)), max(side, page.Columns(s.Setting))
	}
	for _, s := range t.Slacks {
		name, side = max(name, page.Columns(s.Mark)), max(side, len("slack 1234.5"))
	}
	name = min(name, 24)
	side = min(side, 28, p.Width-2-name-1-20-1-9-2) // at least 20 for the axis
	wide := p.Width - 2 - name - 1 - 1 - 9 - 2 - side
	p.Line("  %s %s", page.Blanks(name), p.Style(page.Dim, axis(whole, wide)))
	for _, s := range t.Segments {
		p.Line("  %s %s %s  %s", page.Left(page.Cut(page.Clean(s.Stage), name), name), p.Style(page.Cyan, page.Left(span(s.Start-begin, s.End-begin, whole, wide), wide)),
			page.Right(ms(s.End-s.Start), 9), p.Style(page.Dim, page.Cut(page.Clean(s.Setting), side)))
	}
	for _, s := range beside(t.Slacks, begin, begin+whole) {
		p.Line("  %s %s %s  %s", page.Left(page.Cut(page.Clean(s.Mark), name), name), p.Style(page.Dim, page.Left(point(s.At-begin, s.At+s.Slack-begin, whole, wide), wide)),
			page.Right("at "+ms(s.At-begin), 9), p.Style(page.Dim, "slack "+ms(s.Slack)))
	}
}

// beside returns the slacks that lie on the axis and are not nothing.
func beside(slacks []SlackRow, from, to int64) []SlackRow {
	var out []SlackRow
	for _, s := range slacks {
		if s.At >= from && s.At <= to && s.Slack != 0 {
			out = append(out, s)
		}
	}
	return out
}

// axis returns a time axis from 0 to whole, in ms.
func axis(whole int64, wide int) string {
	out := []rune(strings.Repeat("─", wide))
	for i := range 3 {
		label := []rune(fmt.Sprintf("┼%.0f", float64(whole)*float64(i)/3/1e6))
		copy(out[i*wide/3:], label)
	}
	end := []rune(fmt.Sprintf("%.0f ms┤", float64(whole)/1e6))
	if len(end)+6 < wide/3 {
		copy(out[wide-len(end):], end)
	}
	return string(out)
}

// span returns a bar from start to end on an axis; a short one is a thin line.
func span(start, end, whole int64, wide int) string {
	a, b := float64(start)/float64(whole)*float64(wide), float64(end)/float64(whole)*float64(wide)
	from, to := int(a), int(b)
	if to == from {
		if from == wide {
			from--
		}
		return page.Blanks(from) + "▏"
	}
	out := page.Blanks(from)
	if a-float64(from) >= 0.5 {
		out += "▐"
	} else {
		out += "█"
	}
	out += strings.Repeat("█", to-from-1)
	if rest := int((b - float64(to)) * 8); rest > 0 {
		out += string(eighths[rest])
	}
	return out
}

// point returns a mark on an axis, and how far it could have moved.
func point(at, to, whole int64, wide int) string {
	a := min(int(float64(at)/float64(whole)*float64(wide)), wide-1)
	b := min(int(float64(to)/float64(whole)*float64(wide)), wide-1)
	return page.Blanks(a) + "•" + strings.Repeat("┄", max(b-a, 0))
}

// marks lists the marks, in ms after speech_end, else in ms of the run.
func (p *sheet) marks(t *TurnRow, begin int64, anchored bool) {
	from := "after speech_end"
	if !anchored {
		from, begin = "since the run began (there is no speech_end)", 0
	}
	var parts []string
	inTime := slices.Clone(t.Marks)
	slices.SortStableFunc(inTime, func(a, b NamedValue) int { return cmp.Compare(a.Value, b.Value) })
	for _, m := range inTime {
		if m.Name == string(trace.TurnClosed) || m.Name == string(trace.TurnOpened) {
			continue
		}
		parts = append(parts, m.Name+page.Tie+signed(m.Value-begin))
	}
	p.Text("  ", page.Dim, "marks, in ms "+from+": "+strings.Join(parts, ", "))
}

// metrics writes the stages' metrics.
func (p *sheet) metrics(r *Report) {
	p.Section("3 Stage metrics", "of the ok turns; – is not supported by n")
	p.Line("  %s", p.Style(page.Dim, page.Left("", 20)+page.Right("P50", 9)+page.Right("P95", 9)+page.Right("P99", 9)+page.Right("max", 9)+"  "+page.Left("unit", 9)+page.Right("n", 8)))
	var gone []MetricRow
	for _, m := range r.Metrics {
		switch {
		case m.Values.N == 0 && isRare(m.Key), m.Key == Metrics[MetricTTFS].Key:
		case m.Values.N == 0:
			gone = append(gone, m)
		default:
			p.metric(m)
		}
	}
	for _, m := range gone {
		p.Item("  "+page.Left(m.Title, 20)+" absent: ", page.Dim, whyAbsent(m))
	}
	if s := r.Sum; s != nil {
		p.Text("  ", "", fmt.Sprintf("TTFT %s + TPOT × (tokens − 1) %s + synthesis and playback %s = %s ms from the request to the end of the answer (means of %s)",
			ms(s.TTFT), ms(s.Decode), ms(s.Speech), ms(s.Total), page.Count(s.Turns, "turn")))
		p.Text("  ", "", s.Blame)
	}
}

// isRare returns whether a metric is left out where no turn has it.
func isRare(key string) bool {
	for i := range Metrics {
		if Metrics[i].Key == key {
			return Metrics[i].Rare
		}
	}
	return false
}

// whyAbsent gives the reasons for a metric that no turn has.
func whyAbsent(m MetricRow) string {
	if len(m.Absent) == 0 {
		return "no turn to tell it"
	}
	return reasonList(m.Absent)
}

// reasonList lists reasons with their counts.
func reasonList(list []Reason) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, fmt.Sprintf("%s (%s)", r.Why, page.Grouped(r.Turns)))
	}
	return strings.Join(parts, "; ")
}

// metric writes one metric.
func (p *sheet) metric(m MetricRow) {
	v := &m.Values
	row := page.Left(m.Title, 20)
	for _, f := range []quantile.Figure{v.P50, v.P95, v.P99, {Value: v.Max}} {
		row += page.Right(inUnit(f.Value, m.Unit), 9)
	}
	p.Line("  %s  %s%s", row, page.Left(shownUnit(m.Unit), 9), page.Right(page.Grouped(v.N), 8))
	if len(m.Absent) > 0 && m.Key != Metrics[MetricBargeInStop].Key && !isRare(m.Key) {
		p.Item("      absent in some: ", page.Dim, reasonList(m.Absent))
	}
}

// inUnit returns a value as the text report shows it.
func inUnit(v *int64, u Unit) string {
	if v == nil {
		return "–"
	}
	switch u {
	case UnitTime:
		return ms(*v)
	case UnitPerToken:
		return fmt.Sprintf("%.2f", float64(*v)/1e6)
	case UnitMillionth:
		return fmt.Sprintf("%.3f", float64(*v)/1e6)
	}
	return page.Grouped(*v)
}

// shownUnit returns the unit that the text report shows.
func shownUnit(u Unit) string {
	switch u {
	case UnitTime:
		return "ms"
	case UnitPerToken:
		return "ms/token"
	case UnitMillionth:
		return "×"
	case UnitCount:
		return "times"
	}
	return string(u)
}

// outcomes writes how the turns ended, and what else was counted.
func (p *sheet) outcomes(r *Report) {
	p.Section("5 Outcomes", "")
	for _, o := range r.Outcomes {
		p.Item(fmt.Sprintf("  %s %s  ", page.Left(page.Clean(o.Outcome), 18), page.Right(page.Grouped(o.Turns), 8)), page.Dim, o.Note)
		if o.Note == "" {
			p.Line("  %s %s", page.Left(page.Clean(o.Outcome), 18), page.Right(page.Grouped(o.Turns), 8))
		}
	}
	a := &r.Attempts
	p.Line("  attempts: %d failed, %d retries", a.Failures, a.Retries)
	if a.Adopted+a.Discarded > 0 {
		p.Text("  ", "", speculation(a))
	}
	d := &r.Detector
	if d.Turns > 0 {
		p.Text("  ", "", fmt.Sprintf("turn detector, of %s: early %s, taken back %s, stuck %s, forced %s", page.Count(d.Turns, "turn"),
			rate(d.Early, d.Turns), takenBack(d), rate(d.Stuck, d.Turns), rate(d.Forced, d.Turns)))
	}
	for _, f := range r.Flags {
		p.Line("  flag %s: %s", f.Flag, page.Count(f.Turns, "turn"))
	}
}

// speculation says what speculative attempts gained and cost.
func speculation(a *AttemptTotals) string {
	out := fmt.Sprintf("speculative: %d adopted", a.Adopted)
	if a.Adopted > 0 {
		out += fmt.Sprintf(" (sent %s ms earlier on average)", ms(a.Saved/a.Adopted))
	}
	out += fmt.Sprintf(", %d discarded", a.Discarded)
	if a.WastedOf > 0 {
		out += fmt.Sprintf(" (%s tokens wasted, told by %d of them)", page.Grouped(a.Wasted), a.WastedOf)
	} else if a.Discarded > 0 {
		out += " (tokens wasted: not told)"
	}
	return out
}

// takenBack returns how many turns had a commit that was taken back, and how many
// commits that were.
func takenBack(d *Detector) string {
	out := rate(d.TakenBack, d.Turns)
	if d.Dropped != d.TakenBack {
		out += fmt.Sprintf(" by %d commits", d.Dropped)
	}
	return out
}

// rate returns a count and its part of n.
func rate(k, n int64) string { return fmt.Sprintf("%d (%s)", k, percent(k, n)) }

// run writes what has to be the same to get the same figures.
func (p *sheet) run(r *RunInfo) {
	if len(r.Fixed) > 0 {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(r.Fixed)) {
			parts = append(parts, strings.ReplaceAll(k+"="+r.Fixed[k], " ", page.Tie))
		}
		p.Line("")
		p.Item("  fixed: ", "", strings.Join(parts, " · "))
	}
	machine := strings.TrimSpace(strings.Join([]string{r.Tool, r.Go, strings.Trim(r.OS+"/"+r.Arch, "/")}, " "))
	if machine != "" {
		p.Item("  by:    ", page.Dim, machine+cpus(r.CPUs))
	}
	if t := r.Timers; t != nil {
		p.Line("  timers: %s, late by P50 %s ms, P99 %s ms, max %s ms", page.Count(int64(t.N), "wait"), ms(t.P50), ms(t.P99), ms(t.Max))
	}
	if r.Command != "" {
		p.Line("  again: %s", page.Clean(r.Command))
	}
}

// cpus says how many there were.
func cpus(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s", page.Count(int64(n), "CPU"))
}

// faults writes what cannot be right in the events.
func (p *sheet) faults(f *Faults) {
	if f.Count == 0 {
		return
	}
	p.Section("!! Faults in the events", "the figures of these turns may be wrong")
	for _, row := range f.First {
		where := fmt.Sprintf("  %d.%d", row.Session, row.Turn)
		if row.Seq > 0 {
			where += fmt.Sprintf(" event %d", row.Seq)
		}
		p.Item(where+": ", page.Red, row.Text)
	}
	if rest := f.Count - int64(len(f.First)); rest > 0 {
		p.Line("  and %s more", page.Grouped(rest))
	}
}
