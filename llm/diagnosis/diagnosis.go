// Package diagnosis names what makes a language model's first token late, from
// the records of a run: rules, each with a statistical test of its own, over the
// attempts. A verdict has evidence in numbers, says how sure it is and why, and
// what to do. A run in which nothing is wrong has no verdicts, up to chance: the
// tests of this package count false ones over many seeds.
//
// The thresholds are set so that lognormal noise with σ up to 0.4 and a heavy
// tail of 2 % of the requests stay below them; the effects that the rules look
// for are those of public reports (docs/llm-stream.md, "Signatures").
package diagnosis

import (
	"slices"
	"time"

	"firstsound/llm/record"
)

// A Severity says whether a verdict asks for a repair.
type Severity string

// The severities.
const (
	Fault Severity = "fault" // it makes answers late or wrong, or the figures false
	Note  Severity = "note"  // it has to be known to read the figures
)

// A Confidence says how sure a verdict is.
type Confidence string

// The confidences. Because of the verdict says which of the reasons it is.
const (
	// Strong: chance alone would give it less than once in a million runs, or
	// a record says it outright (a header, the server's word, a connection's
	// own marks).
	Strong Confidence = "strong"
	// Fair: it passes its test, which is set against false alarms, but is
	// inferred from times alone or from few requests.
	Fair Confidence = "fair"
)

// strongBelow is the p-value under which a test alone makes a verdict strong.
const strongBelow = 1e-6

// A Fact is a number that a verdict rests on.
type Fact struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "ms", "%", "x" (times), "ms per 1,000 tokens" …; empty for a count
	N     int     `json:"n"`    // requests that it comes from; 0: not from requests
	// Low and High are its 95 % interval, where there is one.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Requests are IDs of examples, at most three.
	Requests []string `json:"requests,omitempty"`
}

// A Verdict is something that was found.
type Verdict struct {
	Name       string     `json:"name"` // of the rule: see Rules
	Title      string     `json:"title"`
	Severity   Severity   `json:"severity"`
	Confidence Confidence `json:"confidence"`
	Because    string     `json:"because"` // how the confidence was computed
	// Explains is how much of the time to the first token it accounts for, on
	// average over the measured requests; 0 where it moves other things.
	Explains time.Duration `json:"explains_ns"`
	// Share is Explains as part of the mean TTFT, to which what TTFT does not
	// hold is added: work before the request, waits to send it, attempts before
	// the one that was answered.
	Share    float64 `json:"share"`
	Evidence []Fact  `json:"evidence"`
	Advice   string  `json:"advice"`
}

// A Rule is what can be found.
type Rule struct {
	Name     string
	Title    string
	Severity Severity // a finding may lower it to a note
	Needs    string   // what the records must hold for it
	Test     string   // what is tested, and against which bounds
	Advice   string

	find func(*view) *finding
}

// A finding is what a rule has found: the changing part of a Verdict.
type finding struct {
	confidence Confidence
	because    string
	explains   float64  // ms
	outside    float64  // of explains, ms: what TTFT does not hold
	severity   Severity // if it is another than the rule's
	name       string   // if it is another rule's
	facts      []Fact
}

// Find returns what the rules find in a run: attempts in any order, warm-ups
// among them, and samples of the server's monitoring, if there are any. Faults
// come first, and among equals what explains more of the time.
func Find(run record.Run, attempts []*record.Attempt, samples []record.Sample) []Verdict {
	v := newView(run, attempts, samples)
	rules := Rules()
	named := make(map[string]*Rule, len(rules))
	for i := range rules {
		named[rules[i].Name] = &rules[i]
	}
	var verdicts []Verdict
	for i := range rules {
		if rules[i].find == nil || v.found[rules[i].Name] {
			continue
		}
		f := rules[i].find(v)
		if f == nil {
			continue
		}
		r := &rules[i]
		if f.name != "" {
			r = named[f.name]
		}
		v.found[r.Name] = true
		verdicts = append(verdicts, v.verdict(r, f))
	}
	slices.SortStableFunc(verdicts, func(a, b Verdict) int {
		if a.Severity != b.Severity {
			if a.Severity == Fault {
				return -1
			}
			return 1
		}
		return int(min(1, max(-1, b.Explains-a.Explains)))
	})
	return verdicts
}

// verdict puts a finding and its rule together.
func (v *view) verdict(r *Rule, f *finding) Verdict {
	out := Verdict{
		Name: r.Name, Title: r.Title, Severity: r.Severity, Confidence: f.confidence, Because: f.because,
		Explains: time.Duration(f.explains * float64(time.Millisecond)), Evidence: f.facts, Advice: r.Advice,
	}
	if f.severity != "" {
		out.Severity = f.severity
	}
	whole := v.meanTTFT + f.outside
	if r.Name == workBefore {
		whole += f.explains
	}
	if whole > 0 {
		out.Share = f.explains / whole
	}
	return out
}

// Faults returns how many of the verdicts are faults.
func Faults(verdicts []Verdict) int {
	n := 0
	for i := range verdicts {
		if verdicts[i].Severity == Fault {
			n++
		}
	}
	return n
}
