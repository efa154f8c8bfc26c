package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"firstsound/llm/record"
)

// failuresFast: at least 5 and 2 % of the measured attempts failed before they
// brought content (an HTTP error other than 429, no connection, a time-out, an
// error object). They are fast if their median time is below half of the ok
// ones' TTFT: then the figures over the ok ones flatter the service (InferenceX
// 357). Else the verdict is failures.
func failuresFast(v *view) *finding {
	measured := where(v.all, func(a *record.Attempt) bool { return !a.Warmup })
	failed := where(measured, func(a *record.Attempt) bool {
		switch a.Class {
		case record.HTTPError:
			return a.Status != 429
		case record.ConnectError, record.Timeout, record.Empty:
			return true
		}
		return false
	})
	if len(failed) < 5 || 50*len(failed) < len(measured) {
		return nil
	}
	took := values(failed, func(a *record.Attempt) (float64, bool) { return between(a.Send, a.End) })
	f := &finding{confidence: Strong, because: "counted", facts: []Fact{shareFact("attempts that failed", len(failed), len(measured), failed...)}}
	count := map[string]int{}
	for _, a := range failed {
		count[kindOf(a)]++
	}
	for _, k := range sortedKeys(count) {
		f.facts = append(f.facts, Fact{What: "… " + k, Value: float64(count[k]), N: len(measured)})
	}
	if len(took) == 0 || median(took) > v.medianTTFT/2 {
		f.name = "failures"
	}
	if len(took) > 0 {
		f.facts = append(f.facts, msFact("time until they failed, median", median(took), len(took)), msFact("TTFT of the ok ones, median", v.medianTTFT, len(v.ok)))
	}
	return f
}

// truncatedStreams: at least 3 and 2 % of the measured attempts that had begun to
// answer ended without a finish reason and end mark, or with an error object.
func truncatedStreams(v *view) *finding {
	begun, cut := 0, []*record.Attempt(nil)
	for _, a := range v.all {
		if a.Warmup {
			continue
		}
		switch a.Class {
		case record.Truncated, record.StreamError:
			cut = append(cut, a)
			begun++
		case record.OK, record.ToolOnly, record.ReasoningOnly, record.Empty:
			begun++
		}
	}
	if len(cut) < 3 || 50*len(cut) < begun {
		return nil
	}
	f := &finding{confidence: Strong, because: "counted", facts: []Fact{shareFact("streams that broke off", len(cut), begun, cut...)}}
	errors := where(cut, func(a *record.Attempt) bool { return a.Class == record.StreamError })
	if len(errors) > 0 {
		f.facts = append(f.facts, shareFact("… with an error inside the stream", len(errors), begun, errors...))
	}
	took := values(cut, func(a *record.Attempt) (float64, bool) { return between(a.Send, a.End) })
	if len(took) > 0 {
		f.facts = append(f.facts, msFact("after, median", median(took), len(took)))
	}
	return f
}

// notStreamed: at least 3 and 2 % of the answers came as one JSON object. (Some
// services stream events under that type.)
func notStreamed(v *view) *finding {
	whole := where(v.ok, func(a *record.Attempt) bool {
		return strings.HasPrefix(strings.ToLower(a.Header["content-type"]), "application/json") && a.Events <= 1 && len(a.Chunks) <= 1
	})
	if len(whole) < 3 || 50*len(whole) < len(v.ok) {
		return nil
	}
	return &finding{confidence: Strong, because: "by the header and the events", facts: []Fact{
		shareFact("answers that were not streamed", len(whole), len(v.ok), whole...),
		msFact("their TTFT, which is the total, median", median(ttfts(whole)), len(whole)),
	}}
}

// kindOf names how an attempt failed.
func kindOf(a *record.Attempt) string {
	if a.Class == record.HTTPError {
		return fmt.Sprintf("HTTP %d", a.Status)
	}
	return strings.ReplaceAll(string(a.Class), "_", " ")
}

// sortedKeys returns the keys in order.
func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
