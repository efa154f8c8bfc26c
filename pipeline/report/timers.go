package report

import (
	"slices"
	"time"

	"firstsound/clocks/quantile"
)

// Timers say by how much the timers of a run on the real clock were late: what
// the computer itself has added to every wait. Times are nanoseconds.
type Timers struct {
	N   int   `json:"n"` // waits, at most the last 65,536
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
	Max int64 `json:"max_ns"`
}

// NewTimers returns what late comes to; nil if there is none.
func NewTimers(late []time.Duration) *Timers {
	if len(late) == 0 {
		return nil
	}
	sorted := make([]int64, len(late))
	for i, d := range late {
		sorted[i] = int64(d)
	}
	slices.Sort(sorted)
	t := &Timers{N: len(sorted), Max: sorted[len(sorted)-1]}
	t.P50, _ = quantile.Of(sorted, 0.5)
	t.P99, _ = quantile.Of(sorted, 0.99)
	return t
}

// essential are the metrics that every chain has to have: one that no turn has
// is a stage that tells nothing.
var essential = []Metric{MetricASRFinalization, MetricEndpointing, MetricTTFT, MetricTTFA, MetricPlaybackBuffering}

// Missing returns the titles of essential metrics that no turn has.
func (r *Report) Missing() []string {
	var missing []string
	for _, row := range r.Metrics {
		for _, m := range essential {
			if row.Key == m.String() && row.Values.N == 0 {
				missing = append(missing, row.Title)
			}
		}
	}
	return missing
}
