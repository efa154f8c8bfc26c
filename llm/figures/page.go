package figures

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"firstsound/page"
)

// TextOptions say how a text report looks.
type TextOptions struct {
	Width int  // in columns; 0 is 100, and less than 80 is taken as 80
	Color bool // whether ANSI colours are used
}

// A sheet is a text report as it grows.
type sheet struct {
	*page.Page
	shown int // numbered sections
}

func newSheet(o TextOptions) *sheet { return &sheet{Page: page.New(o.Width, o.Color)} }

// write writes the sheet.
func (p *sheet) write(w io.Writer) error {
	if _, err := p.WriteTo(w); err != nil {
		return fmt.Errorf("figures: writing text: %w", err)
	}
	return nil
}

// numbered writes a heading with the next number.
func (p *sheet) numbered(name, note string) {
	p.shown++
	p.Section(fmt.Sprintf("%d %s", p.shown, name), note)
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

func inMS(d time.Duration) string { return ms(int64(d)) + page.Tie + "ms" }

func msOrDash(ns *int64) string {
	if ns == nil {
		return "–"
	}
	return ms(*ns)
}

// signed returns ns in milliseconds with its sign.
func signed(ns int64) string { return page.Signed(ns, ms) }

// inUnit returns a value in the unit in which texts show it.
func inUnit(v int64, unit string) string {
	if unit == unitNS {
		return ms(v)
	}
	return strconv.FormatInt(v, 10)
}

func withUnit(v int64, unit string) string {
	if unit == unitNS {
		return ms(v) + page.Tie + "ms"
	}
	return inUnit(v, unit) + page.Tie + unit
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
	return side(q.Low) + page.Tie + "…" + page.Tie + side(q.High)
}

// countOf returns "3 requests", on one line.
func countOf(n int64, what string) string {
	return strings.Replace(page.Count(n, what), " ", page.Tie, 1)
}

// share returns n of all in per cent.
func share(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f%s%%", 100*float64(n)/float64(of), page.Tie)
}

func upper(s string) string { return strings.ToUpper(s) }

func joined(list []string, by string) string { return strings.Join(list, by) }

func withoutBlanks(s string) string { return strings.ReplaceAll(s, " ", "") }
