package random

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Dist is a distribution of durations, as a scenario writes it:
//
//	120ms                          always the same
//	uniform(10ms, 30ms)            between two bounds
//	normal(208ms, 60ms)            mean, standard deviation; draws below zero are drawn again
//	lognormal(247ms, 0.114)        median, σ of the logarithm
//	exponential(100ms)             mean
//	heavy(266ms, 0.191, 898ms)     98 % lognormal; above, a straight tail through its P98 and the P99 given
//	quantiles(p50=1s, p95=2s)      straight lines between quantiles, from half the lowest to as far above the highest as the last two are apart
//
// The zero Dist is always 0.
type Dist struct {
	kind   string
	a, b   float64 // ns, but σ where the kind says so
	c      float64
	points []point // of quantiles, by p
	text   string
}

type point struct{ p, ns float64 }

// Const returns the distribution that is always d.
func Const(d time.Duration) Dist { return Dist{kind: "const", a: float64(d), text: d.String()} }

// MustParse is Parse for constants in code. It panics on an error.
func MustParse(text string) Dist {
	d, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return d
}

// Parse reads a distribution in the form that Dist shows.
func Parse(text string) (Dist, error) {
	text = strings.TrimSpace(text)
	name, rest, call := strings.Cut(text, "(")
	if !call {
		ns, err := duration(text)
		return Dist{kind: "const", a: ns, text: text}, err
	}
	name = strings.TrimSpace(name)
	inner, ok := strings.CutSuffix(rest, ")")
	if !ok {
		return Dist{}, fmt.Errorf("%q lacks its closing parenthesis", text)
	}
	args := strings.Split(inner, ",")
	for i := range args {
		args[i] = strings.TrimSpace(args[i])
	}
	d := Dist{kind: name, text: text}
	if name == "quantiles" {
		return d.parseQuantiles(args)
	}
	shape, known := shapes[name]
	if !known {
		return Dist{}, fmt.Errorf("no distribution is called %q; there are uniform, normal, lognormal, exponential, heavy, quantiles, or a plain duration such as 120ms", name)
	}
	if len(args) != len(shape.args) {
		return Dist{}, fmt.Errorf("%s takes %s: %s", name, count(len(shape.args), "value"), shape.usage)
	}
	for i, field := range []*float64{&d.a, &d.b, &d.c}[:len(args)] {
		read := duration
		if shape.args[i] == 'n' {
			read = number
		}
		v, err := read(args[i])
		if err != nil {
			return Dist{}, fmt.Errorf("%s: %w; it is written %s", name, err, shape.usage)
		}
		*field = v
	}
	return d, d.check()
}

// shapes tell the arguments of each kind: d a duration, n a plain number.
var shapes = map[string]struct{ args, usage string }{
	"uniform":     {"dd", "uniform(low, high)"},
	"normal":      {"dd", "normal(mean, standard deviation)"},
	"lognormal":   {"dn", "lognormal(median, sigma of the logarithm)"},
	"exponential": {"d", "exponential(mean)"},
	"heavy":       {"dnd", "heavy(median, sigma of the logarithm, P99)"},
}

func (d Dist) check() error {
	switch {
	case d.kind == "uniform" && d.b < d.a:
		return fmt.Errorf("%s: the upper bound is below the lower one", d.text)
	case d.kind == "normal" && d.a < 0:
		return fmt.Errorf("%s: the mean is negative", d.text)
	case (d.kind == "lognormal" || d.kind == "heavy") && d.a <= 0:
		return fmt.Errorf("%s: the median must be above zero", d.text)
	case (d.kind == "lognormal" || d.kind == "heavy") && d.b > 5:
		return fmt.Errorf("%s: a sigma above 5 is no latency; it is the σ of the logarithm, for example 0.25", d.text)
	case d.kind == "heavy" && d.c < d.logAt(0.98):
		return fmt.Errorf("%s: the P99 is below the P98 of the body, %s", d.text, time.Duration(d.logAt(0.98)).Round(time.Millisecond))
	}
	return nil
}

func (d Dist) parseQuantiles(args []string) (Dist, error) {
	for _, a := range args {
		key, val, ok := strings.Cut(a, "=")
		p, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(key), "p"), 64)
		if !ok || err != nil || p <= 0 || p >= 100 {
			return Dist{}, fmt.Errorf("quantiles: %q is not a quantile such as p95=310ms", a)
		}
		ns, err := duration(strings.TrimSpace(val))
		if err != nil {
			return Dist{}, fmt.Errorf("quantiles: %w", err)
		}
		if n := len(d.points); n > 0 && (d.points[n-1].p >= p/100 || d.points[n-1].ns > ns) {
			return Dist{}, fmt.Errorf("quantiles: %q is not above the one before it", a)
		}
		d.points = append(d.points, point{p / 100, ns})
	}
	first, last := d.points[0], d.points[len(d.points)-1]
	step := last.ns - first.ns
	if n := len(d.points); n > 1 {
		step = last.ns - d.points[n-2].ns
	}
	d.points = append([]point{{0, first.ns / 2}}, d.points...)
	d.points = append(d.points, point{1, last.ns + step})
	return d, nil
}

func duration(text string) (float64, error) {
	if text == "0" {
		return 0, nil
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write a number with its unit, such as 250ms or 1.5s", text)
	}
	if v < 0 {
		return 0, fmt.Errorf("%q is negative", text)
	}
	return float64(v), nil
}

func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a plain number of 0 or more", text)
	}
	return v, nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (d Dist) logAt(p float64) float64 { return d.a * math.Exp(d.b*normalQuantile(p)) }

// Draw returns one draw, rounded to a nanosecond.
func (d Dist) Draw(s *Source) time.Duration {
	if d.kind == "" || d.kind == "const" {
		return time.Duration(d.a)
	}
	ns := d.at(s.Float())
	for ns < 0 { // only a normal distribution reaches below zero
		ns = d.at(s.Float())
	}
	return time.Duration(math.Round(ns))
}

// Quantile returns the p-quantile, with p in (0, 1), rounded to a nanosecond. A
// normal distribution has negative ones, which Draw passes over.
func (d Dist) Quantile(p float64) time.Duration { return time.Duration(math.Round(d.at(p))) }

// at returns the p-quantile in ns.
func (d Dist) at(p float64) float64 {
	switch d.kind {
	case "uniform":
		return d.a + (d.b-d.a)*p
	case "normal":
		return d.a + d.b*normalQuantile(p)
	case "lognormal":
		return d.logAt(p)
	case "exponential":
		return -math.Log1p(-p) * d.a
	case "heavy":
		if p <= 0.98 {
			return d.logAt(p)
		}
		p98 := d.logAt(0.98)
		return p98 + (d.c-p98)*(p-0.98)/0.01
	case "quantiles":
		for i := 1; i < len(d.points); i++ {
			if lo, hi := d.points[i-1], d.points[i]; p <= hi.p {
				return lo.ns + (hi.ns-lo.ns)*(p-lo.p)/(hi.p-lo.p)
			}
		}
	}
	return d.a
}

// Zero says whether d is always 0.
func (d Dist) Zero() bool { return (d.kind == "" || d.kind == "const") && d.a == 0 }

// Constant returns the only value of d, and false if it has several.
func (d Dist) Constant() (time.Duration, bool) {
	return time.Duration(d.a), d.kind == "" || d.kind == "const"
}

// String returns d as a scenario writes it.
func (d Dist) String() string {
	if d.kind == "" {
		return "0"
	}
	return d.text
}

// MarshalText returns d as a scenario writes it.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Dist) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err == nil {
		*d = v
	}
	return err
}
