package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/quantile"
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
	p := &page{width: o.Width, color: o.Color, gate: o.Gate}
	if p.width == 0 {
		p.width = 100
	}
	p.width = max(p.width, 80)
	p.title(r)
	p.headline(&r.Headline)
	p.silence(&r.Silence, r.Headline.OK)
	p.improve(&r.Improve)
	p.metrics(r)
	p.turn(r.Turn, r.TurnWhy)
	p.outcomes(r)
	p.run(&r.Run)
	p.faults(&r.Faults)
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("report: writing text: %w", err)
	}
	return nil
}

// A page is the text report as it grows.
type page struct {
	b     strings.Builder
	width int
	color bool
	gate  string
}

// The styles, as ANSI codes.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

// style returns s in a style, if colours are wanted.
func (p *page) style(code, s string) string {
	if !p.color || code == "" || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// line writes one line, without blanks at its end.
func (p *page) line(format string, args ...any) {
	p.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	p.b.WriteByte('\n')
}

// section writes a heading.
func (p *page) section(name, note string) {
	p.line("")
	if note == "" {
		p.line("%s", p.style(bold, name))
		return
	}
	p.line("%s  %s", p.style(bold, name), p.style(dim, cut(note, p.width-textWidth(name)-2)))
}

// text writes a text that may take several lines.
func (p *page) text(indent, code, s string) {
	for _, l := range wrap(clean(s), p.width-textWidth(indent)) {
		p.line("%s%s", indent, p.style(code, l))
	}
}

// item writes a text after a mark; its further lines are indented.
func (p *page) item(mark, code, s string) {
	for i, l := range wrap(clean(s), p.width-textWidth(mark)) {
		if i > 0 {
			mark = blanks(textWidth(mark))
		}
		p.line("%s%s", mark, p.style(code, l))
	}
}

// title writes what was run, and what is wrong.
func (p *page) title(r *Report) {
	parts := []string{}
	if r.Run.Name != "" {
		parts = append(parts, clean(r.Run.Name))
	}
	if r.Run.Clock != "" {
		parts = append(parts, clean(r.Run.Clock)+" clock")
	}
	if r.Run.Format != "" { // of a file of events alone nothing is known
		parts = append(parts, fmt.Sprintf("seed %d", r.Run.Seed))
	}
	parts = append(parts, countOf(r.Run.Turns, "turn"), countOf(r.Run.Events, "event"))
	p.line("%s  %s", p.style(bold, "firstsound"), cut(strings.Join(parts, " · "), p.width-12))
	if r.Faults.Count > 0 {
		p.line("%s", p.style(red, cut(fmt.Sprintf("!! %s in the events: see the end", countOf(r.Faults.Count, "FAULT")), p.width)))
	}
	for _, w := range r.Warnings {
		p.item("!  ", red, w)
	}
}

// countOf returns "3 turns".
func countOf(n int64, what string) string {
	s := grouped(n) + " " + what
	if n == 1 {
		return s
	}
	if what == "FAULT" {
		return s + "S"
	}
	return s + "s"
}

// grouped returns n with a comma at each third digit.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ms returns ns in milliseconds, rounded to a tenth, without the unit.
func ms(ns int64) string {
	return strconv.FormatFloat(float64(ns)/float64(time.Millisecond), 'f', 1, 64)
}

// headline writes time to first sound.
func (p *page) headline(h *Headline) {
	p.section("1 Time to first sound", "from the end of the user's speech to the first sound of the answer")
	if h.TTFS.N == 0 {
		p.line("  no ok turn: there is no time to first sound")
		return
	}
	rows := []struct {
		name string
		f    quantile.Figure
	}{{"P50", h.TTFS.P50}, {"P95", h.TTFS.P95}, {"P99", h.TTFS.P99}, {"max", quantile.Figure{Value: h.TTFS.Max}}}
	for _, row := range rows {
		p.line("  %s  %s   %s", p.style(bold, row.name), p.figure(row.f), p.beside(row.name, row.f, h.Target))
	}
	spread := ""
	if h.TTFS.SD != nil {
		spread = fmt.Sprintf(", standard deviation %s ms", ms(*h.TTFS.SD))
	}
	p.line("  %s ms on average%s, %s", ms(*h.TTFS.Mean), spread, countOf(h.TTFS.N, "ok turn"))
	if h.Target != nil {
		p.target(h)
	}
	if h.FromDue != nil {
		p.line("  counted from when each turn was due: P50 %s, P95 %s, max %s ms", orDash(h.FromDue.P50), orDash(h.FromDue.P95), ms(*h.FromDue.Max))
	}
}

// figure returns a quantile in a column of its own.
func (p *page) figure(f quantile.Figure) string {
	if f.Value == nil {
		return p.style(dim, right("–", 9)+"   ")
	}
	return p.style(bold, right(ms(*f.Value), 9)) + " ms"
}

// beside returns what stands beside a quantile: interval, verdict, or why it
// cannot be told.
func (p *page) beside(name string, f quantile.Figure, t *Target) string {
	if f.Value == nil {
		return p.style(dim, "not supported by n: "+f.Absent)
	}
	if name == "max" {
		return ""
	}
	out := p.style(dim, left(interval(f), 30)) + "  "
	judged := name == "P50" || strings.EqualFold(name, p.gate)
	switch {
	case t == nil || name == "P99" && !judged:
		return p.style(dim, interval(f))
	case judged && *f.Value <= t.TTFS:
		return out + p.style(green, "✓ within the target")
	case judged:
		return out + p.style(red, fmt.Sprintf("✗ over by %s ms", ms(*f.Value-t.TTFS)))
	case *f.Value <= t.TTFS:
		return out + p.style(dim, fmt.Sprintf("below by %s ms", ms(t.TTFS-*f.Value)))
	}
	return out + p.style(dim, fmt.Sprintf("above by %s ms", ms(*f.Value-t.TTFS)))
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
func (p *page) target(h *Headline) {
	t := h.Target
	out := fmt.Sprintf("target (for the median) %s ms", ms(t.TTFS))
	if t.Source != "" {
		out += " (" + t.Source + ")"
	}
	out += fmt.Sprintf(": P50 %s, P95 %s; %s of %s above it", t.P50, t.P95, grouped(t.Over), countOf(h.TTFS.N, "ok turn"))
	if t.Over > 0 {
		out += fmt.Sprintf(", whose largest part is most often%s%s%s(%s of %s)", tie, t.Cause, tie, grouped(t.CauseTurns), grouped(t.Over))
	}
	if unanswered := t.Measured - h.TTFS.N; unanswered > 0 {
		out += fmt.Sprintf("; with the %s that failed or had no reply, %s of %s are within it", grouped(unanswered), grouped(t.Within), grouped(t.Measured))
	}
	p.text("  ", "", out)
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
func (p *page) silence(s *Silence, ok int64) {
	p.section("2 Where the silence goes", "on the critical path, in ms; each column is a mean and adds up")
	if s.Absent != "" {
		p.line("  %s", s.Absent)
		return
	}
	const tenth = int64(time.Millisecond) / 10
	median, tail := make([]int64, len(s.Rows)), make([]int64, len(s.Rows))
	name := len("stage")
	for i, r := range s.Rows {
		median[i], tail[i] = r.Median, r.Tail
		name = max(name, textWidth(r.Stage))
	}
	name = min(name, 24)
	most, mostTail := slices.Max(append(median, 1)), slices.Max(append(tail, 1))
	median, tail = apportion(median, tenth), apportion(tail, tenth)
	wide := p.barWidth(s, name)
	p.line("  %s  %s  %s  %s", left("stage", name), left("  at the median", 16+wide), left("  in the slowest 5 %", 16+wide), cut("owned by setting", p.width-40-name-2*wide))
	for i, r := range s.Rows {
		p.line("  %s  %s  %s  %s", left(cut(clean(r.Stage), name), name),
			p.share(median[i], s.MedianTTFS, most, wide), p.share(tail[i], s.TailTTFS, mostTail, wide), p.style(cyan, cut(clean(r.Setting), p.width-40-name-2*wide)))
	}
	p.line("  %s  %s  %s", left("sum", name), p.style(bold, p.share(floor(s.MedianTTFS+tenth/2, tenth), s.MedianTTFS, 0, wide)),
		p.style(bold, p.share(floor(s.TailTTFS+tenth/2, tenth), s.TailTTFS, 0, wide)))
	p.text("  ", dim, p.shareNote(s, ok))
}

// barWidth returns how wide the bars may be beside names and settings.
func (p *page) barWidth(s *Silence, name int) int {
	setting := len("owned by setting")
	for _, r := range s.Rows {
		setting = max(setting, textWidth(r.Setting))
	}
	return min(max((p.width-2-name-2-16-2-16-2-setting)/2, 4), 24)
}

// share returns one share: time, part and bar, 16 columns and the bar.
func (p *page) share(part, whole, most int64, wide int) string {
	return right(ms(part), 8) + right(percent(part, whole), 6) + "  " + p.style(cyan, left(bar(part, most, wide), wide))
}

// shareNote says which turns the shares are of.
func (p *page) shareNote(s *Silence, ok int64) string {
	out := fmt.Sprintf("median: %s of rank 45–55 %%; slowest 5 %%: %s", countOf(int64(s.MedianTurns), "turn"), countOf(int64(s.TailTurns), "turn"))
	if s.Sampled > 0 {
		out += fmt.Sprintf("; from %s of %s turns, drawn at random", grouped(int64(s.Sampled)), grouped(ok))
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
func (p *page) improve(im *Improve) {
	if im.Absent != "" {
		return
	}
	p.line("")
	p.text("  ", bold, im.Sentence)
	for i, r := range im.Rows {
		if i == 3 {
			break
		}
		p.line("  %d. %s  P50 %s ms (%s)%s", i+1, left(cut(clean(r.Stage), 24), 18), right(ms(r.P50), 8), signed(-r.P50Gain), tailGain(r))
	}
	if len(im.Rows) > 0 {
		p.text("  ", dim, "by running the causes of every turn again with that stage faster, not by subtracting: what waits beside it then shows")
	}
}

// tailGain returns what a faster stage does to P95.
func tailGain(r WhatIfRow) string {
	if r.P95 == nil {
		return "   P95 not supported by n"
	}
	return fmt.Sprintf("   P95 %s ms (%s)", right(ms(*r.P95), 8), signed(-*r.P95Gain))
}

// signed returns ns in milliseconds with its sign.
func signed(ns int64) string {
	switch {
	case ns > 0:
		return "+" + ms(ns)
	case ns < 0:
		return "−" + ms(-ns)
	}
	return "±0.0"
}
