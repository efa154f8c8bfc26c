package figures

import "firstsound/clocks/quantile"

// needs says how many values a quantile must come from to be supported: so many
// that it has two-sided bounds at 99 % among them (docs/metrics.md has the rule
// of one value beyond the quantile, which says only that it exists).
var needs = map[string]int64{"p50": 11, "p75": 24, "p90": 64, "p95": 130, "p99": 662}

// A Quantile is a quantile of the sample with its 95 % interval from order
// statistics.
type Quantile struct {
	// Value, Low and High are in the unit of the metric. Value is absent where
	// there is no value beyond the quantile, a bound where n is too small for it.
	quantile.Figure
	// Supported says that n is at least Needs, and that nothing else speaks
	// against it. Where n is below, texts show the maximum in its place.
	Supported bool  `json:"supported"`
	Needs     int64 `json:"needs_n"`
	// Because says what speaks against it, where that is not n. The maximum is
	// then not to be relied on either.
	Because string `json:"not_supported_because,omitempty"`
}

// Values are what many values of a metric come to, in its unit.
type Values struct {
	N    int64    `json:"n"`
	Mean *int64   `json:"mean,omitempty"`
	SD   *int64   `json:"sd,omitempty"`
	Min  *int64   `json:"min,omitempty"`
	P50  Quantile `json:"p50"`
	P95  Quantile `json:"p95"`
	P99  Quantile `json:"p99"`
	Max  *int64   `json:"max,omitempty"`
	// RelativeError is that of the quantiles where they come from a sketch.
	RelativeError *float64 `json:"relative_error,omitempty"`
}

// valuesOf returns what a series comes to.
func valuesOf(s *quantile.Series) Values {
	d := s.Distribution()
	of := func(name string, f quantile.Figure) Quantile {
		return Quantile{Figure: f, Supported: d.N >= needs[name], Needs: needs[name]}
	}
	return Values{N: d.N, Mean: d.Mean, SD: d.SD, Min: d.Min, Max: d.Max, RelativeError: d.RelativeError,
		P50: of("p50", d.P50), P95: of("p95", d.P95), P99: of("p99", d.P99)}
}

// leaveOut takes their support from the quantiles that values which are not among
// these may have moved: those beyond the share that was left out, from above.
func (v *Values) leaveOut(part float64, because string) {
	for name, q := range map[string]*Quantile{"p50": &v.P50, "p95": &v.P95, "p99": &v.P99} {
		if part > 1-quantileOf[name] {
			q.Supported, q.Because = false, because
		}
	}
}

// shown returns a quantile as tables show it: the maximum in place of one that n
// does not support; nil if there is neither.
func (v *Values) shown(q Quantile) *int64 {
	switch {
	case q.Supported && q.Value != nil:
		return q.Value
	case q.Because != "":
		return nil
	}
	return v.Max
}

// pick returns the quantile of a name.
func (v *Values) pick(name string) Quantile {
	switch name {
	case "p95":
		return v.P95
	case "p99":
		return v.P99
	}
	return v.P50
}
