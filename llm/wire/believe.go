package wire

import "fmt"

// maxTokens is more tokens than any model takes or gives in one request
// (assumption: the longest contexts have some ten million).
const maxTokens = 100_000_000

// believe takes out of an event what no service can have counted: less than
// nothing, more than any model holds, or more tokens of text than the body has
// bytes so far. What is left out is told in the record.
func (t *tape) believe(e *Event) {
	u := e.Usage
	if u == nil {
		return
	}
	refuse := func(what string, count **int, why string) {
		if t.a.UsageRefused == "" {
			t.a.UsageRefused = fmt.Sprintf("%d %s tokens: %s", **count, what, why)
		}
		*count = nil
	}
	for _, c := range []struct {
		what  string
		count **int
	}{{"prompt", &u.Prompt}, {"cached", &u.Cached}, {"output", &u.Output}, {"reasoning", &u.Reasoning}} {
		switch n := *c.count; {
		case n == nil:
		case *n < 0:
			refuse(c.what, c.count, "less than none")
		case *n > maxTokens:
			refuse(c.what, c.count, "more than any model holds")
		}
	}
	if u.Output != nil {
		text := *u.Output // reasoning that is counted apart need not be in the body
		if u.Reasoning != nil {
			text -= *u.Reasoning
		}
		if int64(text) > t.a.Bytes {
			refuse("output", &u.Output, fmt.Sprintf("more than the body has bytes (%d)", t.a.Bytes))
		}
	}
	if *u == (Usage{}) {
		e.Usage = nil
	}
}
