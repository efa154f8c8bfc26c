package figures

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// TextOptions say how a text report looks.
type TextOptions struct {
	Width int  // in columns; 0 is 100, and less than 80 is taken as 80
	Color bool // whether ANSI colours are used
}

// A page is a text report as it grows.
type page struct {
	b     strings.Builder
	width int
	color bool
	shown int // numbered sections
}

func newPage(o TextOptions) *page {
	p := &page{width: max(o.Width, 80), color: o.Color}
	if o.Width == 0 {
		p.width = 100
	}
	return p
}

// write writes the page.
func (p *page) write(w io.Writer) error {
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("figures: writing text: %w", err)
	}
	return nil
}

// The styles, as ANSI codes.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
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
	p.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// section writes a heading and a note beside it.
func (p *page) section(name, note string) {
	p.line("")
	p.line("%s  %s", p.style(bold, name), p.style(dim, cut(note, p.width-columns(name)-2)))
}

// numbered writes a heading with the next number.
func (p *page) numbered(name, note string) {
	p.shown++
	p.section(fmt.Sprintf("%d %s", p.shown, name), note)
}

// text writes a text that may take several lines.
func (p *page) text(indent, code, s string) {
	for _, l := range wrap(s, p.width-columns(indent)) {
		p.line("%s%s", indent, p.style(code, l))
	}
}

// item writes a text after a mark; its further lines are indented.
func (p *page) item(mark, code, s string) {
	for _, l := range wrap(s, p.width-columns(mark)) {
		p.line("%s%s", mark, p.style(code, l))
		mark = blanks(columns(mark))
	}
}

// columnsOf returns how many columns of a terminal r takes: two for East Asian
// wide runes and emoji (Unicode's EastAsianWidth, by whole blocks), as in
// pipeline/report.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r < 0x1100:
		return 1
	}
	for _, block := range [...][2]rune{{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},
		{0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}} {
		if block[0] <= r && r <= block[1] {
			return 2
		}
	}
	return 1
}

// columns returns how many columns s takes.
func columns(s string) (n int) {
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func left(s string, n int) string  { return s + blanks(n-columns(s)) }
func right(s string, n int) string { return blanks(n-columns(s)) + s }
func blanks(n int) string          { return strings.Repeat(" ", max(n, 0)) }

// cut shortens s to n columns, with an ellipsis where it was cut.
func cut(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	used := 1
	for i, r := range s {
		if used += columnsOf(r); used > n {
			return s[:i] + "…"
		}
	}
	return s
}

// clean replaces what would move a terminal's cursor or change its colours: the
// texts of services are not ours.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '·'
		}
		return r
	}, s)
}

// tie stands between words that stay on one line; it is written as a blank.
const tie = "\u00a0"

// wrap breaks s, cleaned, into lines of at most n columns: at blanks, or within a
// word that is longer.
func wrap(s string, n int) (lines []string) {
	line := ""
	end := func() {
		if line != "" {
			lines = append(lines, strings.ReplaceAll(line, tie, " "))
		}
		line = ""
	}
	for word := range strings.SplitSeq(clean(s), " ") {
		if word == "" {
			continue
		}
		switch {
		case line == "":
		case columns(line)+1+columns(word) <= n:
			line += " "
		default:
			end()
		}
		used := columns(line)
		for _, r := range word {
			if used += columnsOf(r); used > n {
				end()
				used = columnsOf(r)
			}
			line += string(r)
		}
	}
	end()
	return lines
}

// Numbers for people.

// ms returns ns in milliseconds: a tenth where it is 10 ms or more, else two digits
// behind the point, below 0.1 ms three.
func ms(ns int64) string {
	v := float64(ns) / float64(time.Millisecond)
	digits := 3
	switch size := max(v, -v); {
	case size >= 10 || size == 0:
		digits = 1
	case size >= 0.1:
		digits = 2
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func inMS(d time.Duration) string { return ms(int64(d)) + tie + "ms" }

func msOrDash(ns *int64) string {
	if ns == nil {
		return "–"
	}
	return ms(*ns)
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

// inUnit returns a value in the unit in which texts show it.
func inUnit(v int64, unit string) string {
	if unit == unitNS {
		return ms(v)
	}
	return strconv.FormatInt(v, 10)
}

func withUnit(v int64, unit string) string {
	if unit == unitNS {
		return ms(v) + tie + "ms"
	}
	return inUnit(v, unit) + tie + unit
}

// intervalOf returns the interval of a quantile.
func intervalOf(q Quantile, unit string) string {
	side := func(v *int64) string {
		if v == nil {
			return "n too small"
		}
		return inUnit(*v, unit)
	}
	if q.Low == nil && q.High == nil {
		return "n too small"
	}
	return side(q.Low) + tie + "…" + tie + side(q.High)
}

// grouped returns n with a comma at each third digit.
func grouped(n int64) string {
	s, sign := strconv.FormatInt(n, 10), ""
	if n < 0 {
		s, sign = s[1:], "−"
	}
	out := ""
	for len(s) > 3 {
		out = "," + s[len(s)-3:] + out
		s = s[:len(s)-3]
	}
	return sign + s + out
}

// countOf returns "3 requests", or "1 reply" and "2 replies".
func countOf(n int64, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = what[:len(what)-1] + "ies"
	default:
		what += "s"
	}
	return grouped(n) + tie + what
}

// share returns n of all in per cent.
func share(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f%s%%", 100*float64(n)/float64(of), tie)
}

func upper(s string) string { return strings.ToUpper(s) }

func joined(list []string, by string) string { return strings.Join(list, by) }

func withoutBlanks(s string) string { return strings.ReplaceAll(s, " ", "") }
