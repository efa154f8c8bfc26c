package serving

import (
	"math"
	"testing"
	"time"
)

// Recorded workloads have the published means and quantiles, and their bursts.
func TestWorkloads(t *testing.T) {
	for _, want := range []struct {
		name                  string
		rate, cv              float64
		prompt, p50, p90, p99 float64
		output, o50, o90, o99 float64
	}{
		{"azure-conv", 5.53, 1.09, 1155, 1020, 2734, 4142, 211, 129, 424, 601},
		{"azure-code", 2.57, 13.2, 2048, 1469, 5188, 7436, 28, 13, 55, 251},
	} {
		var loop Loop
		var prompts, outputs []float64
		var at []time.Duration
		submit := func(r Request) (*Job, error) {
			prompts, outputs = append(prompts, float64(r.Prompt)), append(outputs, float64(r.Output))
			at = append(at, loop.Now())
			return nil, nil
		}
		if err := (Neighbour{Workload: want.name, Until: 40 * time.Hour}).Move(&loop, 1, submit); err != nil {
			t.Fatal(err)
		}
		loop.Run(41 * time.Hour)
		n := float64(len(at))
		if rate := n / (40 * 3600); math.Abs(rate/want.rate-1) > 4*want.cv/math.Sqrt(n) {
			t.Errorf("%s: %.2f requests a second, want %.2f", want.name, rate, want.rate)
		}
		var sum, squares float64
		for i := 1; i < len(at); i++ {
			g := (at[i] - at[i-1]).Seconds()
			sum, squares = sum+g, squares+g*g
		}
		mean := sum / (n - 1)
		if cv := math.Sqrt(squares/(n-1)-mean*mean) / mean; math.Abs(cv/want.cv-1) > 0.1 {
			t.Errorf("%s: coefficient of variation %.2f, want %.2f", want.name, cv, want.cv)
		}
		for _, l := range []struct {
			what                string
			values              []float64
			mean, p50, p90, p99 float64
		}{{"prompt", prompts, want.prompt, want.p50, want.p90, want.p99}, {"output", outputs, want.output, want.o50, want.o90, want.o99}} {
			sum := 0.0
			below := [3]float64{}
			for _, v := range l.values {
				sum += v
				for i, q := range []float64{l.p50, l.p90, l.p99} {
					if v <= q {
						below[i]++
					}
				}
			}
			if mean := sum / n; math.Abs(mean/l.mean-1) > 0.1 {
				t.Errorf("%s: %s has a mean of %.0f, published is %.0f", want.name, l.what, mean, l.mean)
			}
			for i, q := range []float64{0.5, 0.9, 0.99} {
				// Whole tokens: of 13 tokens there are many alike.
				if part := below[i] / n; part < q-0.01 || part > q+0.06 {
					t.Errorf("%s: %.3f of %s up to the published P%g", want.name, part, l.what, 100*q)
				}
			}
		}
	}
	for _, n := range []Neighbour{{Workload: "azure"}, {Workload: "azure-conv", Prompt: 3}} {
		if err := n.Move(&Loop{}, 1, nil); err == nil {
			t.Errorf("%+v is taken", n)
		}
	}
}
