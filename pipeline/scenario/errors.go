package scenario

import (
	"fmt"
	"strings"
)

// An Error says what is wrong with a scenario, and where.
type Error struct {
	Source       string // a file, or a setting such as "--set asr.timeout=800"
	Line, Column int    // in the file, from 1; 0 where there is none
	Key          string // the path of the key; may be empty
	Problem      string // what is wrong, and what to do
}

// Setting says whether the mistake was made in a setting, not in a file.
func (e *Error) Setting() bool { return strings.HasPrefix(e.Source, settingPrefix) }

const settingPrefix = "--set "

// Error returns all of it in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Source)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	b.WriteString(": ")
	if e.Key != "" && !(e.Setting() && strings.HasPrefix(e.Source, settingPrefix+e.Key+"=")) {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// errorf returns an Error about the value of key at p.
func (p place) errorf(key, format string, args ...any) error {
	return &Error{p.source, p.line, p.column, key, fmt.Sprintf(format, args...)}
}

// Nearest returns the one of names that was probably meant by name, or "".
func Nearest(name string, names []string) string {
	best, least := "", len(name)/3+2 // so that "rat" may be rate, but "x" not "to"
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	if best != "" || len(name) < 3 {
		return best
	}
	for _, n := range names { // a word left out: temp, timeout_ms
		if strings.HasPrefix(n, name) || strings.HasPrefix(name, n+"_") {
			return n
		}
	}
	return ""
}

// distance returns how many letters have to be changed, put in, left out, or
// swapped with the next one, to make b of a.
func distance(a, b string) int {
	s, t := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	var before, prev []int // the rows of the table above
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := range s {
		before, prev, row = prev, row, make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(prev[j+1]+1, row[j]+1, prev[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(t)]
}
