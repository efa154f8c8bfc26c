package report

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// wide are the ranges of runes that take two columns in a terminal: East Asian
// wide and full-width ones, and emoji (Unicode's EastAsianWidth, rounded to
// whole blocks).
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0x33ff, Stride: 1},
		{Lo: 0x3400, Hi: 0x4dbf, Stride: 1}, {Lo: 0x4e00, Hi: 0x9fff, Stride: 1}, {Lo: 0xa000, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// runeWidth returns how many columns r takes.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// textWidth returns how many columns s takes.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// left pads s with blanks on the right to n columns.
func left(s string, n int) string { return s + blanks(n-textWidth(s)) }

// right pads s with blanks on the left to n columns.
func right(s string, n int) string { return blanks(n-textWidth(s)) + s }

// blanks returns n blanks; none if n is negative, for a text that is too wide.
func blanks(n int) string { return strings.Repeat(" ", max(n, 0)) }

// cut shortens s to n columns, with an ellipsis where it was cut.
func cut(s string, n int) string {
	if textWidth(s) <= n {
		return s
	}
	var b strings.Builder
	used := 0
	for _, r := range s {
		if used+runeWidth(r) > n-1 {
			break
		}
		used += runeWidth(r)
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// clean replaces what would move a terminal's cursor or change its colours: the
// texts of providers are not ours.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '·'
		}
		return r
	}, s)
}

// tie stands between words that wrap keeps on one line; it is written as a blank.
const tie = "\u00a0"

// wrap breaks s into lines of at most n columns, at blanks, or within a word
// that is too long or a text without blanks.
func wrap(s string, n int) []string {
	var lines []string
	line, used := "", 0
	flush := func() {
		if line != "" {
			lines = append(lines, strings.ReplaceAll(line, tie, " "))
		}
		line, used = "", 0
	}
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' }) {
		w := textWidth(word)
		if used > 0 && used+1+w > n {
			flush()
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		for _, r := range word {
			if used+runeWidth(r) > n {
				flush()
			}
			line, used = line+string(r), used+runeWidth(r)
		}
	}
	flush()
	return lines
}

// sortedKeys returns the keys of m in order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
