package serverside

import (
	"fmt"
	"slices"
	"time"

	"firstsound/llm/record"
)

// drift is by how much two clocks may go apart: 100 millionths, more than a
// computer's clock that is not set by NTP.
const drift = 1e-4

// byOrder joins a log without IDs: the i-th attempt with the (shift+i)-th entry,
// if only one shift is possible.
func (r *Result) byOrder(sent []*record.Attempt, log *Log) {
	as := slices.Clone(sent)
	refuse := func(format string, args ...any) {
		r.Refused = "the log has no request IDs, and " + fmt.Sprintf(format, args...)
		for _, a := range sent {
			r.NoEntry.add("%s", label(a))
		}
		for i := range log.Entries {
			r.NoAttempt.add("line %d", log.Entries[i].Line)
		}
	}
	for _, a := range as {
		if a.Send == nil || a.End == nil {
			refuse("%s has no begin or no end", label(a))
			return
		}
	}
	slices.SortStableFunc(as, func(a, b *record.Attempt) int { return compare(a.Send, b.Send, a.Number, b.Number) })
	for i := 1; i < len(as); i++ {
		if *as[i].Send < *as[i-1].End {
			refuse("%s and %s overlap: the order says nothing", label(as[i-1]), label(as[i]))
			return
		}
	}
	// The log's own order may be that of the ends, which is the same for
	// requests that do not overlap.
	es := log.Entries
	if len(as) == 0 || len(es) < len(as) {
		refuse("it has %d requests where %d were sent", len(es), len(as))
		return
	}
	shift, ways := 0, 0
	for s := 0; s+len(as) <= len(es) && ways < 2; s++ {
		if possible(as, es[s:s+len(as)], log) {
			shift = s
			ways++
		}
	}
	if ways != 1 {
		how := "no way"
		if ways > 1 {
			how = "more than one way"
		}
		refuse("there is %s to lay its %d requests beside the %d that were sent", how, len(es), len(as))
		return
	}
	r.ByOrder = true
	for i, a := range as {
		r.Pairs = append(r.Pairs, Pair{Attempt: a, Entry: &es[shift+i], ByOrder: true})
	}
	for i := range es {
		if i < shift || i >= shift+len(as) {
			r.NoAttempt.add("line %d", es[i].Line)
		}
	}
}

// possible says whether the entries may be those attempts: none took longer at
// the server than at the client, and there is one difference of the clocks with
// which each entry lies within its attempt.
func possible(as []*record.Attempt, es []Entry, log *Log) bool {
	var low, high int64 // bounds of the difference, server − client
	var haveLow, haveHigh bool
	for i, a := range as {
		e := &es[i]
		gone := gaveUp(a)
		if t := e.Server.Total; t != nil && !gone && *t > *a.End-*a.Send+log.DurationGrain+endSlack {
			return false
		}
		slack := int64(log.ClockGrain) + int64(drift*float64(*a.End-*as[0].Send)) + int64(time.Microsecond)
		if e.Begin != nil {
			if d := *e.Begin - int64(*a.Send) + slack; !haveHigh || d < high {
				high, haveHigh = d, true
			}
		}
		if e.End != nil && !gone {
			if d := *e.End - int64(*a.End) - slack - int64(endSlack); !haveLow || d > low {
				low, haveLow = d, true
			}
		}
	}
	return !haveLow || !haveHigh || low <= high
}
