package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/page"
)

// TextOptions say how the text report looks.
type TextOptions struct {
	Width int  // in columns; 0 is 100, and less than 80 is taken as 80
	Color bool // whether ANSI colours are used

	// Gate is the quantile that has to meet the target, besides the median: p50,
	// p95, p99 or none.
	Gate string
}

// WriteText writes the report for people, in plain text.
func (r *Report) WriteText(w io.Writer, o TextOptions) error {
	p := &sheet{page.New(o.Width, o.Color), o.Gate}
	p.title(r)
	p.headline(&r.Headline)
	p.silence(&r.Silence, r.Headline.OK)
	p.improve(&r.Improve)
	p.metrics(r)
	p.turn(r.Turn, r.TurnWhy)
	p.outcomes(r)
	p.run(&r.Run)
	p.faults(&r.Faults)
	if _, err := p.WriteTo(w); err != nil {
		return fmt.Errorf("report: writing text: %w", err)
	}
	return nil
}

// A sheet is the text report as it grows.
type sheet struct {
	*page.Page
	gate string
}

// title writes what was run, and what is wrong.
func (p *sheet) title(r *Report) {
	parts := []string{}
	if r.Run.Name != "" {
		parts = append(parts, page.Clean(r.Run.Name))
	}
	if r.Run.Clock != "" {
		parts = append(parts, page.Clean(r.Run.Clock)+" clock")
	}
	if r.Run.Format != "" { // of a file of events alone nothing is known
		parts = append(parts, fmt.Sprintf("seed %d", r.Run.Seed))
	}
	parts = append(parts, page.Count(r.Run.Turns, "turn"), page.Count(r.Run.Events, "event"))
	p.Line("%s  %s", p.Style(page.Bold, "firstsound"), page.Cut(strings.Join(parts, " · "), p.Width-12))
	if r.Faults.Count > 0 {
		p.Line("%s", p.Style(page.Red, page.Cut(fmt.Sprintf("!! %s in the events: see the end", strings.ToUpper(page.Count(r.Faults.Count, "fault"))), p.Width)))
	}
	for _, w := range r.Warnings {
		p.Item("!  ", page.Red, w)
	}
}

// ms returns ns in milliseconds, rounded to a tenth, without the unit.
func ms(ns int64) string { return page.Tenths(ns) }

// headline writes time to first sound.
func (p *sheet) headline(h *Headline) {
	p.Section("1 Time to first sound", "from the end of the user's speech to the first sound of the answer")
	if h.TTFS.N == 0 {
		p.Line("  no ok turn: there is no time to first sound")
		return
	}
	rows := []struct {
		name string
		f    quantile.Figure
	}{{"P50", h.TTFS.P50}, {"P95", h.TTFS.P95}, {"P99", h.TTFS.P99}, {"max", quantile.Figure{Value: h.TTFS.Max}}}
	for _, row := range rows {
		p.Line("  %s  %s   %s", p.Style(page.Bold, row.name), p.figure(row.f), p.beside(row.name, row.f, h.Target))
	}
	spread := ""
	if h.TTFS.SD != nil {
		spread = fmt.Sprintf(", standard deviation %s ms", ms(*h.TTFS.SD))
	}
	p.Line("  %s ms on average%s, %s", ms(*h.TTFS.Mean), spread, page.Count(h.TTFS.N, "ok turn"))
	if h.Target != nil {
		p.target(h)
	}
	if h.FromDue != nil {
		p.Line("  counted from when each turn was due: P50 %s, P95 %s, max %s ms", orDash(h.FromDue.P50), orDash(h.FromDue.P95), ms(*h.FromDue.Max))
	}
}

// figure returns a quantile in a column of its own.
func (p *sheet) figure(f quantile.Figure) string {
	if f.Value == nil {
		return p.Style(page.Dim, page.Right("–", 9)+"   ")
	}
	return p.Style(page.Bold, page.Right(ms(*f.Value), 9)) + " ms"
}

// beside returns what stands beside a quantile: interval, verdict, or why it
// cannot be told.
func (p *sheet) beside(name string, f quantile.Figure, t *Target) string {
	if f.Value == nil {
		return p.Style(page.Dim, "not supported by n: "+f.Absent)
	}
	if name == "max" {
		return ""
	}
	out := p.Style(page.Dim, page.Left(interval(f), 30)) + "  "
	judged := name == "P50" || strings.EqualFold(name, p.gate)
	switch {
	case t == nil || name == "P99" && !judged:
		return p.Style(page.Dim, interval(f))
	case judged && *f.Value <= t.TTFS:
		return out + p.Style(page.Green, "✓ within the target")
	case judged:
		return out + p.Style(page.Red, fmt.Sprintf("✗ over by %s ms", ms(*f.Value-t.TTFS)))
	case *f.Value <= t.TTFS:
		return out + p.Style(page.Dim, fmt.Sprintf("below by %s ms", ms(t.TTFS-*f.Value)))
	}
	return out + p.Style(page.Dim, fmt.Sprintf("above by %s ms", ms(*f.Value-t.TTFS)))
}

// interval returns the 95 % interval of a quantile.
func interval(f quantile.Figure) string {
	switch {
	case f.Low != nil && f.High != nil:
		return fmt.Sprintf("95 %% interval %s … %s", ms(*f.Low), ms(*f.High))
	case f.Low != nil:
		return fmt.Sprintf("95 %% interval %s … n too small", ms(*f.Low))
	case f.High != nil:
		return fmt.Sprintf("95 %% interval n too small … %s", ms(*f.High))
	}
	return "n too small for an interval"
}

// orDash returns a quantile in milliseconds.
func orDash(f quantile.Figure) string {
	if f.Value == nil {
		return "–"
	}
	return ms(*f.Value) + " ms"
}

// target writes how many turns miss the target, and why.
func (p *sheet) target(h *Headline) {
	t := h.Target
	out := fmt.Sprintf("target (for the median) %s ms", ms(t.TTFS))
	if t.Source != "" {
		out += " (" + t.Source + ")"
	}
	out += fmt.Sprintf(": P50 %s, P95 %s; %s of %s above it", t.P50, t.P95, page.Grouped(t.Over), page.Count(h.TTFS.N, "ok turn"))
	if t.Over > 0 {
		out += fmt.Sprintf(", whose largest part is most often%s%s%s(%s of %s)", page.Tie, t.Cause, page.Tie, page.Grouped(t.CauseTurns), page.Grouped(t.Over))
	}
	if unanswered := t.Measured - h.TTFS.N; unanswered > 0 {
		out += fmt.Sprintf("; with the %s that failed or had no reply, %s of %s are within it", page.Grouped(unanswered), page.Grouped(t.Within), page.Grouped(t.Measured))
	}
	p.Text("  ", "", out)
}

// eighths are the bars that fill a part of a column.
var eighths = []rune(" ▏▎▍▌▋▊▉")

// bar returns a bar of width·part/whole columns.
func bar(part, whole int64, width int) string {
	if part <= 0 || whole <= 0 {
		return ""
	}
	n := int(float64(part) / float64(whole) * float64(width) * 8)
	n = max(n, 1) // what is there is seen
	out := strings.Repeat("█", n/8)
	if n%8 > 0 {
		out += string(eighths[n%8])
	}
	return out
}

// percent returns the share of part in whole.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// silence writes where it goes.
func (p *sheet) silence(s *Silence, ok int64) {
	p.Section("2 Where the silence goes", "on the critical path, in ms; each column is a mean and adds up")
	if s.Absent != "" {
		p.Line("  %s", s.Absent)
		return
	}
	const tenth = int64(time.Millisecond) / 10
	median, tail := make([]int64, len(s.Rows)), make([]int64, len(s.Rows))
	name := len("stage")
	for i, r := range s.Rows {
		median[i], tail[i] = r.Median, r.Tail
		name = max(name, page.Columns(r.Stage))
	}
	name = min(name, 24)
	most, mostTail := slices.Max(append(median, 1)), slices.Max(append(tail, 1))
	median, tail = apportion(median, tenth), apportion(tail, tenth)
	wide := p.barWidth(s, name)
	p.Line("  %s  %s  %s  %s", page.Left("stage", name), page.Left("  at the median", 16+wide), page.Left("  in the slowest 5 %", 16+wide), page.Cut("owned by setting", p.Width-40-name-2*wide))
	for i, r := range s.Rows {
		p.Line("  %s  %s  %s  %s", page.Left(page.Cut(page.Clean(r.Stage), name), name),
			p.share(median[i], s.MedianTTFS, most, wide), p.share(tail[i], s.TailTTFS, mostTail, wide), p.Style(page.Cyan, page.Cut(page.Clean(r.Setting), p.Width-40-name-2*wide)))
	}
	p.Line("  %s  %s  %s", page.Left("sum", name), p.Style(page.Bold, p.share(floor(s.MedianTTFS+tenth/2, tenth), s.MedianTTFS, 0, wide)),
		p.Style(page.Bold, p.share(floor(s.TailTTFS+tenth/2, tenth), s.TailTTFS, 0, wide)))
	p.Text("  ", page.Dim, p.shareNote(s, ok))
}

// barWidth returns how wide the bars may be beside names and settings.
func (p *sheet) barWidth(s *Silence, name int) int {
	setting := len("owned by setting")
	for _, r := range s.Rows {
		setting = max(setting, page.Columns(r.Setting))
	}
	return min(max((p.Width-2-name-2-16-2-16-2-setting)/2, 4), 24)
}

// share returns one share: time, part and bar, 16 columns and the bar.
func (p *sheet) share(part, whole, most int64, wide int) string {
	return page.Right(ms(part), 8) + page.Right(percent(part, whole), 6) + "  " + p.Style(page.Cyan, page.Left(bar(part, most, wide), wide))
}

// shareNote says which turns the shares are of.
func (p *sheet) shareNote(s *Silence, ok int64) string {
	out := fmt.Sprintf("median: %s of rank 45–55 %%; slowest 5 %%: %s", page.Count(int64(s.MedianTurns), "turn"), page.Count(int64(s.TailTurns), "turn"))
	if s.Sampled > 0 {
		out += fmt.Sprintf("; from %s of %s turns, drawn at random", page.Grouped(int64(s.Sampled)), page.Grouped(ok))
	}
	if severalRows(s.Rows) {
		out += "; a stage has a row for each setting that owns its time"
	}
	if s.TailTurns < 5 || s.MedianTurns < 5 {
		out += "; n is too small to say much"
	}
	return out
}

// severalRows returns whether a stage has more than one row.
func severalRows(rows []ShareRow) bool {
	for i := range rows {
		if i > 0 && rows[i].Stage == rows[i-1].Stage {
			return true
		}
	}
	return false
}

// improve writes which stage to improve first.
func (p *sheet) improve(im *Improve) {
	if im.Absent != "" {
		return
	}
	p.Line("")
	p.Text("  ", page.Bold, im.Sentence)
	for i, r := range im.Rows {
		if i == 3 {
			break
		}
		p.Line("  %d. %s  P50 %s ms (%s)%s", i+1, page.Left(page.Cut(page.Clean(r.Stage), 24), 18), page.Right(ms(r.P50), 8), signed(-r.P50Gain), tailGain(r))
	}
	if len(im.Rows) > 0 {
		p.Text("  ", page.Dim, "by running the causes of every turn again with that stage faster, not by subtracting: what waits beside it then shows")
	}
}

// tailGain returns what a faster stage does to P95.
func tailGain(r WhatIfRow) string {
	if r.P95 == nil {
		return "   P95 not supported by n"
	}
	return fmt.Sprintf("   P95 %s ms (%s)", page.Right(ms(*r.P95), 8), signed(-*r.P95Gain))
}

// signed returns ns in milliseconds with its sign.
func signed(ns int64) string { return page.Signed(ns, ms) }
