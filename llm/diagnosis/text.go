package diagnosis

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"firstsound/page"
)

// WriteText writes verdicts for people, in lines of at most width characters
// (at least 40).
func WriteText(w io.Writer, verdicts []Verdict, width int) error {
	var b strings.Builder
	width = max(width, 40)
	if len(verdicts) == 0 {
		wrap(&b, width, "", "Nothing was found: no rule's test says that something is wrong. (A rule that lacks its records says nothing.)")
	}
	for i := range verdicts {
		v := &verdicts[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		wrap(&b, width, "", strings.ToUpper(string(v.Severity))+"  "+v.Name+": "+v.Title)
		how := string(v.Confidence) + " (" + v.Because + ")"
		if v.Share >= 0.005 {
			how = fmt.Sprintf("it explains %.0f %% of the time, %.0f ms on average; ", 100*v.Share, float64(v.Explains)/1e6) + how
		}
		wrap(&b, width, "  ", how)
		for _, f := range v.Evidence {
			wrap(&b, width, "    ", f.String())
		}
		wrap(&b, width, "  ", "What to do: "+v.Advice)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String returns the fact as a line of text.
func (f Fact) String() string {
	s := f.What + ": " + number(f.Value) + unit(f.Unit)
	if f.Low != nil && f.High != nil {
		s += " (95 %: " + number(*f.Low) + " to " + number(*f.High) + ")"
	}
	if f.N > 0 {
		s += ", n " + strconv.Itoa(f.N)
	}
	if len(f.Requests) > 0 {
		s += "; such as " + strings.Join(f.Requests, ", ")
	}
	return s
}

func unit(u string) string {
	switch u {
	case "":
		return ""
	case "x":
		return " times"
	}
	return " " + u
}

// number writes a number with as many digits as people read.
func number(x float64) string {
	switch abs := max(x, -x); {
	case abs >= 100 || x == float64(int64(x)):
		return strconv.FormatFloat(x, 'f', 0, 64)
	case abs >= 1:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

// countOf returns "3 requests", or "1 request".
func countOf(n int, what string) string { return page.Count(int64(n), what) }

// wrap writes text in lines of at most width columns, the first behind the indent
// and the others two further in.
func wrap(b *strings.Builder, width int, indent, text string) {
	b.WriteString(page.Behind(indent, text, width, 2))
}
