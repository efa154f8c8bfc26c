package random

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestNormalQuantile(t *testing.T) {
	for p, want := range map[float64]float64{
		0.5: 0, 0.975: 1.959963985, 0.025: -1.959963985, 0.95: 1.644853627, 0.99: 2.326347874, 0.999: 3.090232306, 1e-9: -5.997807015, 1e-13: -7.348796103,
	} {
		if got := normalQuantile(p); math.Abs(got-want) > 1e-6 {
			t.Errorf("quantile %g: %.9f, want %.9f", p, got, want)
		}
	}
}

// A stream depends on all that names it, and on nothing else.
func TestStreams(t *testing.T) {
	draw := func(s Source) uint64 { return s.Uint64() }
	seen := map[uint64]string{}
	for name, v := range map[string]uint64{
		"seed 1": draw(New(1, "asr", 1, 2)), "seed 2": draw(New(2, "asr", 1, 2)), "purpose": draw(New(1, "asr.final", 1, 2)),
		"entity": draw(New(1, "asr", 2, 1)), "fewer": draw(New(1, "asr", 1)), "more": draw(New(1, "asr", 1, 2, 0)),
	} {
		if other := seen[v]; other != "" {
			t.Errorf("%s and %s draw the same", name, other)
		}
		seen[v] = name
	}
	if a, b := New(1, "asr", 1, 2), New(1, "asr", 1, 2); a.Uint64() != b.Uint64() || a.Float() != b.Float() {
		t.Error("the same name draws differently")
	}
	// The value itself is part of what a seed promises (as first drawn, 2026-11).
	if s := New(1, "asr", 1, 2); s.Uint64() != 0x6450da15424bd4f7 {
		t.Errorf("the first draw of seed 1 has changed: every result of every scenario changes with it")
	}
}

func TestUniform(t *testing.T) {
	s := New(7, "test")
	const n = 1_000_000
	var sum, squares float64
	counts := make([]int, 10)
	for range n {
		x := s.Float()
		sum += x
		squares += x * x
		counts[int(x*10)]++
	}
	if mean := sum / n; math.Abs(mean-0.5) > 4*math.Sqrt(1.0/12/n) {
		t.Errorf("mean %g", mean)
	}
	for i, c := range counts {
		if math.Abs(float64(c)-n/10) > 4*math.Sqrt(n*0.09) {
			t.Errorf("tenth %d: %d of %d", i, c, n)
		}
	}
	for i, c := range counts {
		counts[i] = c * 0
	}
	for range n {
		counts[s.Below(10)]++
	}
	for i, c := range counts {
		if math.Abs(float64(c)-n/10) > 4*math.Sqrt(n*0.09) {
			t.Errorf("Below: %d came %d times of %d", i, c, n)
		}
	}
}

// Each distribution has the quantiles that its name promises, within 4 standard
// errors of 200,000 draws.
func TestDistributions(t *testing.T) {
	tests := []struct {
		text string
		at   map[float64]float64 // quantile: ms
	}{
		{"120ms", map[float64]float64{0.01: 120, 0.99: 120}},
		{"0", map[float64]float64{0.5: 0}},
		{"uniform(10ms, 30ms)", map[float64]float64{0.25: 15, 0.5: 20, 0.9: 28}},
		{"normal(208ms, 20ms)", map[float64]float64{0.5: 208, 0.8413: 228}},
		// Deepgram's row of the stt-benchmark: median 247, P95 298, P99 326 (published; the lognormal gives 322).
		{"lognormal(247ms, 0.114)", map[float64]float64{0.5: 247, 0.95: 297.9, 0.99: 322.0}},
		{"exponential(100ms)", map[float64]float64{0.5: 69.31, 0.95: 299.6}},
		{"heavy(266ms, 0.191, 898ms)", map[float64]float64{0.5: 266, 0.95: 364.2, 0.99: 898}},
		{"quantiles(p50=100ms, p95=200ms, p99=400ms)", map[float64]float64{0.25: 75, 0.5: 100, 0.725: 150, 0.95: 200, 0.97: 300, 0.99: 400}},
	}
	const n = 200_000
	for _, test := range tests {
		d := MustParse(test.text)
		s := New(3, test.text)
		draws := make([]float64, n)
		for i := range draws {
			draws[i] = float64(d.Draw(&s)) / 1e6
		}
		slices.Sort(draws)
		for p, want := range test.at {
			se := 4 * math.Sqrt(p*(1-p)*n)
			lo, hi := draws[max(0, int(p*n-se))], draws[min(n-1, int(p*n+se)+1)]
			if want < lo-1e-3 || want > hi+1e-3 {
				t.Errorf("%s: quantile %g lies in [%.2f, %.2f] ms, want %.2f", test.text, p, lo, hi, want)
			}
		}
		if text, _ := d.MarshalText(); string(text) != test.text {
			t.Errorf("%q is written %q", test.text, text)
		}
	}
}

// The same uniform number gives the higher draw of the slower distribution: two
// scenarios stay comparable draw by draw.
func TestCommonRandomNumbers(t *testing.T) {
	fast, slow := MustParse("lognormal(188ms, 0.39)"), MustParse("lognormal(288ms, 0.39)")
	for i := range 1000 {
		a, b := New(1, "tts", i), New(1, "tts", i)
		if fast.Draw(&a) >= slow.Draw(&b) {
			t.Fatal("the faster one is slower")
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"120":                        `"120" is not a duration: write a number with its unit, such as 250ms or 1.5s`,
		"-5ms":                       `"-5ms" is negative`,
		"":                           `"" is not a duration`,
		"gauss(1ms, 2ms)":            `no distribution is called "gauss"`,
		"lognormal(100ms)":           "lognormal takes 2 values",
		"lognormal(100ms, 10ms)":     `"10ms" is not a plain number`,
		"lognormal(0, 1)":            "the median must be above zero",
		"lognormal(100ms, 30)":       "a sigma above 5",
		"lognormal(100ms, NaN)":      "not a plain number",
		"uniform(30ms, 10ms)":        "the upper bound is below",
		"uniform(1ms, 2ms":           "lacks its closing parenthesis",
		"heavy(266ms, 0.2, 300ms)":   "the P99 is below the P98 of the body",
		"quantiles(p50=1s, p95=9ms)": "is not above the one before it",
		"quantiles(50)":              "is not a quantile",
		"quantiles(p100=1s)":         "is not a quantile",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("lognormal(247ms, 0.114)")
	f.Add("quantiles(p50=1s, p95=2s)")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(d.String())
		if err != nil || again.String() != d.String() {
			t.Fatalf("%q became %q: %v", text, d, err)
		}
		s := New(1, "fuzz")
		if v := d.Draw(&s); v < 0 {
			t.Fatalf("%q drew %v", text, v)
		}
	})
}

func BenchmarkLognormal(b *testing.B) {
	d := MustParse("lognormal(247ms, 0.114)")
	for i := range b.N {
		s := New(1, "asr.final", 1, i)
		d.Draw(&s)
	}
}
