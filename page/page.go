// Package page is what reports for people are written on: a text of so many
// columns of a terminal, with headings, wrapped texts, colours if they are wanted,
// and numbers as people read them.
package page

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// The styles, as ANSI codes (ECMA-48, SGR).
const (
	Bold  = "1"
	Dim   = "2"
	Red   = "31"
	Green = "32"
	Cyan  = "36"
)

// The width of a page in columns: least and usual.
const (
	least = 80
	usual = 100
)

// A Page is a text as it grows.
type Page struct {
	Width int // in columns
	color bool
	b     strings.Builder
}

// New returns an empty page of so many columns, at least 80: 100 if width is 0. If
// color is false there is no ANSI code in it.
func New(width int, color bool) *Page {
	if width == 0 {
		width = usual
	}
	return &Page{Width: max(width, least), color: color}
}

// WriteTo writes the page.
func (p *Page) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, p.b.String())
	return int64(n), err
}

// Style returns s in a style, if colours are wanted.
func (p *Page) Style(code, s string) string {
	if !p.color || code == "" || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Line writes one line, without blanks at its end.
func (p *Page) Line(format string, args ...any) {
	p.b.WriteString(strings.TrimRight(untie(fmt.Sprintf(format, args...)), " "))
	p.b.WriteByte('\n')
}

// Section writes a heading, and a note beside it if that is not empty.
func (p *Page) Section(name, note string) {
	p.Line("")
	if note == "" {
		p.Line("%s", p.Style(Bold, name))
		return
	}
	p.Line("%s  %s", p.Style(Bold, name), p.Style(Dim, Cut(note, p.Width-Columns(name)-2)))
}

// Text writes a text that may take several lines.
func (p *Page) Text(indent, code, s string) {
	for _, l := range Wrap(Clean(s), p.Width-Columns(indent)) {
		p.Line("%s%s", indent, p.Style(code, l))
	}
}

// Item writes a text after a mark; its further lines are indented.
func (p *Page) Item(mark, code, s string) {
	for _, l := range Wrap(Clean(s), p.Width-Columns(mark)) {
		p.Line("%s%s", mark, p.Style(code, l))
		mark = Blanks(Columns(mark))
	}
}

// Grouped returns n with a comma at each third digit.
func Grouped(n int64) string {
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

// Count returns "3 requests", or "1 reply" and "2 replies".
func Count(n int64, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = what[:len(what)-1] + "ies"
	default:
		what += "s"
	}
	return Grouped(n) + " " + what
}

// Tenths returns ns in milliseconds, rounded to a tenth, without the unit.
func Tenths(ns int64) string {
	return strconv.FormatFloat(float64(ns)/float64(time.Millisecond), 'f', 1, 64)
}

// Signed returns ns with its sign, as of writes what has none.
func Signed(ns int64, of func(ns int64) string) string {
	switch {
	case ns > 0:
		return "+" + of(ns)
	case ns < 0:
		return "−" + of(-ns)
	}
	return "±0.0"
}
