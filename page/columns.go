package page

import (
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// terminal measures as terminals do that are not set to an East Asian locale.
var terminal = runewidth.Condition{StrictEmojiNeutral: true}

// Columns returns how many columns of a terminal s takes: East Asian wide runes
// and emoji take two.
func Columns(s string) int { return terminal.StringWidth(s) }

// Left pads s with blanks on the right to n columns.
func Left(s string, n int) string { return s + Blanks(n-Columns(s)) }

// Right pads s with blanks on the left to n columns.
func Right(s string, n int) string { return Blanks(n-Columns(s)) + s }

// Blanks returns n blanks; none if n is negative, for a text that is too wide.
func Blanks(n int) string { return strings.Repeat(" ", max(n, 0)) }

// Cut shortens s to n columns, with an ellipsis where it was cut.
func Cut(s string, n int) string { return terminal.Truncate(s, n, "…") }

// Clean replaces what would move a terminal's cursor or change its colours: the
// texts of providers are not ours.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '·'
		}
		return r
	}, s)
}

// Tie stands between words that stay on one line; it is written as a blank.
const Tie = "\u00a0"

func untie(s string) string { return strings.ReplaceAll(s, Tie, " ") }

// Wrap breaks s into lines of at most n columns, at blanks, or within a word that
// is too long or a text without blanks.
func Wrap(s string, n int) []string {
	var lines []string
	line, used := "", 0
	flush := func() {
		if line != "" {
			lines = append(lines, untie(line))
		}
		line, used = "", 0
	}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' || r == '\n' }) {
		if used > 0 && used+1+Columns(word) > n {
			flush()
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		for _, r := range word {
			w := terminal.RuneWidth(r)
			if used+w > n {
				flush()
			}
			line, used = line+string(r), used+w
		}
	}
	flush()
	return lines
}

// Behind returns s as lines of at most width columns, each with an end of line, the
// first behind the indent and the others hang two further in.
func Behind(indent, s string, width, hang int) string {
	var b strings.Builder
	for i, l := range Wrap(s, width-Columns(indent)-hang) {
		if i == 1 {
			indent += Blanks(hang)
		}
		b.WriteString(indent + l + "\n")
	}
	return b.String()
}
