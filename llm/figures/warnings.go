package figures

import (
	"fmt"
	"maps"
	"slices"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
	"firstsound/page"
)

// A Warning says what the figures cannot bear. It travels with them.
type Warning struct {
	Code string `json:"code"` // for programs: "loopback", "few_samples" …
	Text string `json:"text"`
}

// Beyond these a report begins with a warning.
const (
	tooManyFailed = 0.02 // of a part's attempts
	fewSingle     = 30   // requests one at a time (R30)
	shortPrompt   = 30   // tokens at the median: no system prompt and history fit in (assumption)
)

// warnings returns what the figures of a report cannot bear.
func (s *Summary) warnings(r *Report) []Warning {
	var out []Warning
	warn := func(code, format string, args ...any) {
		out = append(out, Warning{code, plain(fmt.Sprintf(format, args...))})
	}
	h := &r.Head
	if h.Run.Target.Loopback {
		warn("loopback", "LOOPBACK: the target is on this machine; these are not the figures of an online service")
	}
	if h.Run.State != record.Complete {
		warn("not_complete", "%s", notWhole(&h.Run))
	}
	if h.OK == 0 {
		warn("no_ok", "no request ended ok: there are no latencies")
	}
	for _, p := range r.Parts {
		if lost := p.lost(); ratio(lost, p.Attempted) > tooManyFailed {
			warn("failures", "%s: %s of %s got no answer; the quantiles are of those that did", p.Name, share(lost, p.Attempted), countOf(p.Attempted, "request"))
		}
	}
	s.sampleWarnings(r, warn)
	if h.mixed() {
		warn("mixed_protocols", "the requests went over more than one protocol: %s", counts(h.Protocols))
	}
	if n := h.by(record.ByRead); n > 0 && n < h.Attempts {
		warn("mixed_stamps", "arrivals are not all timed the same way: %s", counts(h.Stamps))
	}
	if n := s.tokenSources[string(record.ByChunks)]; n > 0 {
		warn("token_source", "output tokens of %s are counted by content events, which may hold several tokens: TPOT and output length are then of events", countOf(n, "reply"))
	}
	for _, p := range r.Parts {
		if p.Throughput.underDelivered(p.Attempted) {
			warn("under_delivered", "%s: requests were sent at %.2f/s, less than 98 %% of what was due (%s/s)", p.Name, *p.Throughput.Sent, number(*p.Throughput.Asked))
		}
	}
	if m := r.promptLength(); m != nil && m.Values.P50.Value != nil && *m.Values.P50.Value < shortPrompt {
		warn("short_prompts", "the prompts have %d tokens at the median: no real conversation is so short, and TTFT grows with the prompt", *m.Values.P50.Value)
	}
	if apart := r.apart(); len(apart) > 0 {
		warn("ttft_bounds", "TTFT is an upper bound in many requests, whose first events came with others in one read: %s", joined(apart, "; "))
	}
	if s.whole > 0 {
		warn("not_streamed", "%s not streamed; %s TTFT is the total", verb(s.whole, "answer", "was", "were"), its(s.whole))
	}
	for _, e := range endings(s.wrong, s.attempts) {
		warn("wrong_records", "%s cannot be right: %s", countOf(e.N, "record"), e.Kind)
	}
	if r.Tool.Verdict != notBent {
		warn("tool", "%s", r.Tool.Sentence)
	}
	if s.beyond > 0 {
		warn("too_many_parts", "%s of further parts than %d are counted and not in the figures", countOf(s.beyond, "attempt"), maxParts)
	}
	return out
}

// sampleWarnings says where n is too small, or quantiles are not exact.
func (s *Summary) sampleWarnings(r *Report, warn func(code, format string, args ...any)) {
	sketched := false
	var few []string
	for _, p := range r.Parts {
		if p.Phase == record.Single && p.OK < fewSingle {
			warn("few_samples", "%s: %s; take %d or more", p.Name, countOf(p.OK, "ok request"), fewSingle)
		}
		if m := p.metric("ttft"); isMain(p.Phase) && m != nil && !m.Values.P95.Supported {
			few = append(few, fmt.Sprintf("%s (n = %d)", p.Name, m.Values.N))
		}
		if p.Warmup.N == 0 && p.OK > 0 && p.Phase == record.Single {
			warn("no_warmup", "%s: no warm-up; the first requests may be slow for reasons of their own", p.Name)
		}
		for i := range p.Metrics {
			sketched = sketched || p.Metrics[i].Values.RelativeError != nil
		}
	}
	if len(few) > 0 {
		warn("few_samples", "P95 of TTFT is not supported by n, which needs %d: %s; the maximum stands in its place", needs["p95"], joined(few, ", "))
	}
	if sketched {
		warn("sketch", "more than %s values: the quantiles of some metrics come from a sketch with a relative error of %.1f %%", page.Grouped(int64(s.opts.Exact)), 100*quantile.SketchError)
	}
}

// promptLength returns the prompt lengths of the headline part.
func (r *Report) promptLength() *Metric {
	if p := r.headline(); p != nil && isMain(p.Phase) {
		return p.metric("prompt_tokens")
	}
	return nil
}

// notWhole says how far a run came that is not complete.
func notWhole(run *record.Run) string {
	switch {
	case run.State == record.Running:
		return "the run is not complete: it was killed, or is still running"
	case run.Reason == string(run.State):
		return "the run is " + orState(run.State)
	}
	return fmt.Sprintf("the run is %s: %s", orState(run.State), orReason(run.Reason))
}

// verb returns "1 answer was", or "2 answers were".
func verb(n int64, what, one, more string) string {
	if n == 1 {
		more = one
	}
	return countOf(n, what) + " " + more
}

// its returns the word for what n have.
func its(n int64) string {
	if n == 1 {
		return "its"
	}
	return "their"
}

func orState(s record.State) string {
	if s == "" {
		return "of unknown state"
	}
	return page.Clean(string(s))
}

func orReason(s string) string {
	if s == "" {
		return "its end was not recorded"
	}
	return page.Clean(s)
}

// counts lists what was counted: "HTTP/1.1 (3), HTTP/2.0 (2)".
func counts(n map[string]int64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s (%s)", page.Clean(name), page.Grouped(n[name])))
	}
	return joined(out, ", ")
}
