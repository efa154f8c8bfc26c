package figures

import (
	"time"

	"firstsound/llm/record"
)

// The metrics of a part, in the order in which they are shown.
const (
	ttft = iota
	ttftFromDue
	firstReasoning
	tpot
	itl
	itlMean
	stall
	firstSegment
	total
	totalFromDue
	outputTokens
	promptLength
	cachedPrompt
	sendLate
	metricCount
)

// The units of metrics.
const (
	unitNS     = "ns" // nanoseconds; texts show milliseconds
	unitTokens = "tokens"
)

// metrics says what each of them is. A key names its unit.
var metrics = [metricCount]struct {
	key, short, title, unit, means string
	of                             func(*record.Attempt) *int64 // of an ok attempt; nil: from its chunks
}{
	ttft: {"ttft_ns", "ttft", "TTFT", unitNS, "first visible content − send", func(a *record.Attempt) *int64 { return whole(a.TTFT) }},
	ttftFromDue: {"ttft_from_due_ns", "ttft_due", "TTFT from due", unitNS, "first visible content − when the request was due (open loop)",
		func(a *record.Attempt) *int64 { return between(a.Due, a.FirstToken) }},
	firstReasoning: {"first_reasoning_ns", "first_reasoning", "first reasoning", unitNS, "first reasoning − send; TTFT is then the first answer token",
		func(a *record.Attempt) *int64 { return between(a.Send, a.FirstReasoning) }},
	tpot:    {"tpot_ns", "tpot", "TPOT", unitNS, "(last − first content) / (output tokens − those of the first event)", func(a *record.Attempt) *int64 { return whole(a.TPOT) }},
	itl:     {"itl_ns", "itl", "ITL, each gap", unitNS, "between content events, all requests pooled: long answers weigh more; merged events are left out; gaps of one request are alike, so the intervals are too narrow", nil},
	itlMean: {"itl_request_mean_ns", "itl_mean", "ITL, by request", unitNS, "the mean gap of each request: every request weighs the same", nil},
	stall:   {"longest_stall_ns", "stall", "longest stall", unitNS, "the longest time between content events of a request; of events that came with one read at most so long", nil},
	firstSegment: {"first_segment_ns", "first_segment", "first segment", unitNS, "the first piece that would be spoken is there − send",
		func(a *record.Attempt) *int64 { return between(a.Send, a.FirstSegment) }},
	total: {"total_ns", "total", "total", unitNS, "end − send", func(a *record.Attempt) *int64 { return whole(a.Total) }},
	totalFromDue: {"total_from_due_ns", "total_due", "total from due", unitNS, "end − when the request was due (open loop)", func(a *record.Attempt) *int64 {
		late := between(a.Due, a.Send)
		if late == nil || a.Total == nil {
			return nil
		}
		return new(*late + int64(*a.Total))
	}},
	outputTokens: {"output_tokens", "output_tokens", "output tokens", unitTokens, "by the source that the report names", func(a *record.Attempt) *int64 { return count(a.OutputTokens) }},
	promptLength: {"prompt_tokens", "prompt_tokens", "prompt tokens", unitTokens, "by the source that the report names", func(a *record.Attempt) *int64 { return count(a.PromptTokens) }},
	cachedPrompt: {"cached_tokens", "cached_tokens", "cached tokens", unitTokens, "prompt tokens that the service took from its cache", func(a *record.Attempt) *int64 { return count(a.CachedTokens) }},
	sendLate:     {"send_late_ns", "send_late", "sent late by", unitNS, "send − due (open loop)", func(a *record.Attempt) *int64 { return between(a.Due, a.Send) }},
}

// whole returns d in nanoseconds.
func whole(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(int64(*d))
}

// between returns to − from in nanoseconds, if both are known.
func between(from, to *time.Duration) *int64 {
	if from == nil || to == nil {
		return nil
	}
	return new(int64(*to - *from))
}

// maxTokens is the most tokens that a count can be: beyond it no service counts,
// and sums of many would not hold.
const maxTokens = 1 << 31

// count returns n as a value, unless no count of tokens can be that.
func count(n *int) *int64 {
	if n == nil || *n < 0 || *n > maxTokens {
		return nil
	}
	return new(int64(*n))
}

// gaps are what lies between the content events of an attempt.
type gaps struct {
	sum, n  int64 // of those that are known
	merged  int64 // gaps that are not: an end of them came with one read with others
	longest *int64
}

// gapsOf calls each for every gap that is known.
func gapsOf(chunks []record.Chunk, each func(ns int64)) gaps {
	var g gaps
	for i := 1; i < len(chunks); i++ {
		gap := int64(chunks[i].At - chunks[i-1].At)
		if g.longest == nil || gap > *g.longest {
			g.longest = &gap
		}
		if chunks[i].Merged() || chunks[i-1].Merged() {
			g.merged++
			continue
		}
		g.sum, g.n = g.sum+gap, g.n+1
		each(gap)
	}
	return g
}

// decoding returns TPOT times the tokens that it is of, whatever was counted as
// such: the time from the first content to the last. ok is false if there is no
// TPOT.
func decoding(a *record.Attempt) (ns int64, ok bool) {
	d := between(a.FirstToken, a.LastContent)
	if a.TPOT == nil || d == nil {
		return 0, false
	}
	return *d, true
}
