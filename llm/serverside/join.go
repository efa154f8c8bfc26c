package serverside

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"firstsound/llm/record"
)

// A Pair is an attempt and what a log has of it: both views side by side.
type Pair struct {
	Attempt *record.Attempt
	Entry   *Entry
	ByOrder bool // found by the order of requests, not by an ID
}

// A Result is what came of a join.
type Result struct {
	Source string `json:"source"`

	Sent   int `json:"sent"`   // attempts that the server can know of
	Joined int `json:"joined"` // of them
	Timed  int `json:"timed"`  // joined ones of which the log tells a duration
	// ByOrder says that the log has no IDs, and that the requests of both sides
	// follow each other in one way only.
	ByOrder bool `json:"by_order,omitempty"`
	// Refused says why a log without IDs was not joined.
	Refused string `json:"refused,omitempty"`

	NoEntry    Some `json:"no_entry"`   // sent, and not in the log
	NoAttempt  Some `json:"no_attempt"` // in the log, and not from here: other clients, or requests that were made before
	Duplicates Some `json:"duplicates"` // IDs that the log has more often than they were sent: a proxy or a library asks again
	Ambiguous  Some `json:"ambiguous"`  // IDs that were sent more often than the log has them: which one came through is not known
	// Faults are joins in which the server says that something took longer than
	// the client saw all of it take: one of the clocks or of the joins is wrong.
	Faults Some `json:"faults"`

	Pairs []Pair `json:"-"`
}

// Join finds the entry of each attempt and fills in Attempt.Server.
//
// An entry belongs to an attempt if its ID is the attempt's request ID, or an ID
// that the response's headers gave it; a prefix as vLLM's "chatcmpl-" and
// endings as "-0" and "-1a2b3c4d" are taken off if the ID as it stands is
// unknown. Attempts with the same ID are told apart by the order of time. In a
// log without any ID, entries and attempts are joined by order if no two
// attempts overlap and there is only one way to do it; Server.Source then ends
// in ", by order".
//
// What the log says replaces what the response itself said, field by field; the
// moments (Arrived, FirstToken, Done) are replaced together, as they are of one
// clock. Source names both, the winner first: "vllm log over llama.cpp timings".
// What was joined by order is weaker: it fills in only what the response left
// out ("llama.cpp timings over llama.cpp log, by order"). A second log may be
// joined after the first, such as nginx's and then vLLM's: the later wins.
func Join(attempts []*record.Attempt, log *Log) *Result {
	r := &Result{Source: log.Source()}
	var sent []*record.Attempt
	for _, a := range attempts {
		if wasSent(a) {
			sent = append(sent, a)
		}
	}
	r.Sent = len(sent)
	if len(log.Entries) > 0 && !slices.ContainsFunc(log.Entries, func(e Entry) bool { return e.ID != "" }) {
		r.byOrder(sent, log)
	} else {
		r.byID(attempts, log)
	}
	for _, p := range r.Pairs {
		r.check(p, log.DurationGrain)
		fill(p)
		if p.Entry.Timed() {
			r.Timed++
		}
	}
	r.Joined = len(r.Pairs)
	return r
}

// String is one line for people.
func (r *Result) String() string {
	s := fmt.Sprintf("%s: joined %d of %d, %d with times", r.Source, r.Joined, r.Sent, r.Timed)
	if r.ByOrder {
		s += ", by order"
	}
	if r.Refused != "" {
		s += ": " + r.Refused
	}
	for _, some := range []struct {
		what string
		s    Some
	}{{"not in the log", r.NoEntry}, {"of others", r.NoAttempt}, {"twice in the log", r.Duplicates}, {"ambiguous", r.Ambiguous}, {"faults", r.Faults}} {
		if some.s.N > 0 {
			s += fmt.Sprintf("; %s: %d", some.what, some.s.N)
		}
	}
	return s
}

// wasSent says whether a server can know of an attempt: its request was written,
// or something came back.
func wasSent(a *record.Attempt) bool {
	return a.WroteRequest != nil || a.Headers != nil || a.FirstByte != nil || a.FirstToken != nil
}

func label(a *record.Attempt) string { return fmt.Sprintf("%s attempt %d", cut(a.RequestID), a.Number) }

// aliases are response headers in which a service says its own ID of a request.
var aliases = []string{"x-request-id", "request-id", "apim-request-id", "x-generation-id"}

func (r *Result) byID(attempts []*record.Attempt, log *Log) {
	known := map[string][]*record.Attempt{}
	put := func(id string, a *record.Attempt) {
		if id != "" && !slices.Contains(known[id], a) {
			known[id] = append(known[id], a)
		}
	}
	for _, a := range attempts {
		put(a.RequestID, a)
		for _, h := range aliases {
			put(a.Header[h], a)
		}
	}
	// Entries by the ID of the attempts that they belong to, in the order of
	// the log.
	found := map[string][]*Entry{}
	var order []string
	for i := range log.Entries {
		e := &log.Entries[i]
		id, ok := idOf(e.ID, known)
		if !ok {
			r.NoAttempt.add("line %d: %s", e.Line, cut(e.ID))
			continue
		}
		if found[id] == nil {
			order = append(order, id)
		}
		found[id] = append(found[id], e)
	}
	taken := map[*record.Attempt]bool{}
	for _, id := range order {
		es, as := found[id], slices.DeleteFunc(slices.Clone(known[id]), func(a *record.Attempt) bool { return taken[a] })
		if sent := slices.DeleteFunc(slices.Clone(as), func(a *record.Attempt) bool { return !wasSent(a) }); len(es) <= len(sent) {
			as = sent
		}
		slices.SortStableFunc(as, func(a, b *record.Attempt) int { return compare(a.Send, b.Send, a.Number, b.Number) })
		slices.SortStableFunc(es, func(a, b *Entry) int { return compare(a.Begin, b.Begin, a.Line, b.Line) })
		switch {
		case len(es) > len(as):
			r.Duplicates.add("%s: %d times in the log, sent %d times", cut(id), len(es), len(as))
		case len(es) < len(as):
			r.Ambiguous.add("%s: %d times in the log, sent %d times", cut(id), len(es), len(as))
		default:
			for i, a := range as {
				r.Pairs = append(r.Pairs, Pair{Attempt: a, Entry: es[i]})
				taken[a] = true
				if !wasSent(a) { // the log knows better
					r.Sent++
				}
			}
			continue
		}
		for _, a := range as {
			taken[a] = true // they are told of, not missing
		}
	}
	for _, a := range attempts {
		if wasSent(a) && !taken[a] {
			r.NoEntry.add("%s", label(a))
		}
	}
}

// idOf finds the ID of an attempt in an ID of a log.
func idOf(id string, known map[string][]*record.Attempt) (string, bool) {
	if id == "" {
		return "", false
	}
	try := []string{id}
	for _, prefix := range []string{"chatcmpl-", "cmpl-"} {
		if rest, ok := strings.CutPrefix(id, prefix); ok {
			try = append(try, rest)
		}
	}
	for _, s := range try {
		for _, t := range []string{s, base(s), index(s), index(base(s))} {
			if len(known[t]) > 0 {
				return t, true
			}
		}
	}
	return "", false
}

// index is an ID without "-" and the number of the prompt or the answer, of
// which vLLM may make several from one request.
func index(id string) string {
	at := strings.LastIndexByte(id, '-')
	if at <= 0 || at < len(id)-4 || at == len(id)-1 || strings.Trim(id[at+1:], "0123456789") != "" {
		return id
	}
	return id[:at]
}

// compare orders by time where both have one, else by number.
func compare[T cmp.Ordered](a, b *T, i, j int) int {
	if a != nil && b != nil && *a != *b {
		return cmp.Compare(*a, *b)
	}
	return cmp.Compare(i, j)
}

// endSlack is by how much a server may see its end later than the client does: it
// notes it after the last write.
const endSlack = 5 * time.Millisecond

// gaveUp says whether the client went before the end. A server notices that late,
// or not at all.
func gaveUp(a *record.Attempt) bool {
	return a.Class == record.Cancelled || a.Class == record.Timeout || a.Class == record.Unfinished
}

// check compares the server's durations with what the client saw around them.
func (r *Result) check(p Pair, grain time.Duration) {
	a, s := p.Attempt, p.Entry.Server
	var whole *time.Duration
	if a.End != nil && a.Send != nil && !gaveUp(a) {
		d := *a.End - *a.Send + endSlack // End, as the server may end the body after its end mark
		whole = &d
	}
	sum := time.Duration(0)
	for _, d := range []*time.Duration{s.Queue, s.Load, s.Prefill} {
		if d != nil {
			sum += *d
		}
	}
	for _, c := range []struct {
		what   string
		server *time.Duration
		client *time.Duration
		seen   string
	}{
		{"total", s.Total, whole, "total"}, {"decode", s.Decode, whole, "total"},
		{"ttft", s.TTFT, a.TTFT, "ttft"}, {"queue + load + prefill", &sum, a.TTFT, "ttft"},
	} {
		if c.server != nil && c.client != nil && *c.server > *c.client+grain {
			r.Faults.add("%s: the server's %s of %v does not fit into the client's %s of %v", label(a), c.what, *c.server, c.seen, *c.client)
			return
		}
	}
}

// fill writes the entry's view into the attempt, as Join says.
func fill(p Pair) {
	upper, lower := p.Entry.Server, record.Server{}
	if p.Attempt.Server != nil {
		lower = *p.Attempt.Server
	}
	was := lower.Source
	if p.ByOrder {
		upper.Source += ", by order"
		upper, lower = lower, upper
	}
	s := lower
	switch {
	case upper.Source == "" || upper.Source == lower.Source:
	case lower.Source == "":
		s.Source = upper.Source
	case strings.HasPrefix(was, upper.Source+" over ") || strings.HasSuffix(was, " over "+lower.Source):
		s.Source = was // joined before
	default:
		s.Source = upper.Source + " over " + lower.Source
	}
	if upper.Arrived != nil || upper.FirstToken != nil || upper.Done != nil {
		s.Arrived, s.FirstToken, s.Done = upper.Arrived, upper.FirstToken, upper.Done
	}
	over(&s.TTFT, upper.TTFT)
	over(&s.Queue, upper.Queue)
	over(&s.Load, upper.Load)
	over(&s.Prefill, upper.Prefill)
	over(&s.Decode, upper.Decode)
	over(&s.Total, upper.Total)
	over(&s.PromptTokens, upper.PromptTokens)
	over(&s.CachedTokens, upper.CachedTokens)
	over(&s.OutputTokens, upper.OutputTokens)
	p.Attempt.Server = &s
}

func over[T any](to **T, v *T) {
	if v != nil {
		*to = v
	}
}
