package serving

import (
	"math"
	"os"
	"testing"
	"time"
)

const ms = time.Millisecond

func profile(t testing.TB, gpu, model string) Options {
	t.Helper()
	g, err := FindGPU(gpu)
	if err != nil {
		t.Fatal(err)
	}
	m, err := FindModel(model)
	if err != nil {
		t.Fatal(err)
	}
	return Options{GPU: g, Model: m}
}

func vllmTrace(t testing.TB, name string) []Arrival {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, _, err := ReadVLLM(f)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// t1 are the two measured runs of docs/models.md, with the configuration
// that the engine was started with.
func t1(t testing.TB, name string) ([]Arrival, Options) {
	if name == "RTX4090_Llama-3.1-8B" {
		o := profile(t, "rtx-4090", "llama-3.1-8b")
		o.MaxSeqs, o.BatchedTokens, o.KVBlocks = 256, 2048, 2588
		return vllmTrace(t, name), o
	}
	o := profile(t, "rtx-pro-6000", "qwen3-32b")
	o.TensorParallel, o.MaxSeqs, o.BatchedTokens = 2, 128, 2048
	return vllmTrace(t, name), o
}

// TestT1 replays two runs that were measured request by request. No constant is
// fitted to the first one's latencies; of the second, the two of the link are.
func TestT1(t *testing.T) {
	type bounds struct{ mean, p50, tail float64 }
	want := map[string]bounds{"TTFT": {.06, .12, .10}, "TPOT": {.02, .07, .07}, "E2E": {.03, .06, .06}}
	for _, name := range []string{"RTX4090_Llama-3.1-8B", "RTXPRO6000_Qwen3-32B"} {
		t.Run(name, func(t *testing.T) {
			trace, o := t1(t, name)
			records, stats, err := ReplayStats(trace, o)
			if err != nil {
				t.Fatal(err)
			}
			m, s := MeasuredFigures(trace), FiguresOf(records)
			for _, c := range []Compared{Compare("TTFT", m.TTFT, s.TTFT, 1), Compare("TPOT", m.TPOT, s.TPOT, 1), Compare("E2E", m.E2E, s.E2E, 1)} {
				b := want[c.Name]
				check := func(e Error, bound float64) {
					if !(math.Abs(e.Relative) <= bound) {
						t.Errorf("%s p%g is %.1f ms, measured %.1f: %+.1f %%", c.Name, e.P*100, e.Simulated, e.Measured, e.Relative*100)
					}
				}
				check(c.Mean, b.mean)
				check(c.Quantiles[0], b.p50)
				for _, q := range c.Quantiles[1:] {
					check(q, b.tail)
				}
				if c.KS > .13 {
					t.Errorf("%s: KS %.3f", c.Name, c.KS)
				}
				if c.W1 > .05 {
					t.Errorf("%s: W1/mean %.3f", c.Name, c.W1)
				}
				q := c.Quantiles
				t.Logf("%s mean %+.1f %% (measured %.1f ms), p50 %+.1f, p90 %+.1f, p95 %+.1f, p99 %+.1f, KS %.3f, W1/mean %.3f", c.Name,
					c.Mean.Relative*100, c.Mean.Measured, q[0].Relative*100, q[1].Relative*100, q[2].Relative*100, q[3].Relative*100, c.KS, c.W1)
			}
			t.Logf("%d preemptions, %d steps, busy %v", stats.Preemptions, stats.Steps, stats.Busy)
		})
	}
}

// A server with more memory has shorter queues: what decides T1 is the KV cache.
func TestT1NegativeControl(t *testing.T) {
	trace, o := t1(t, "RTX4090_Llama-3.1-8B")
	o.KVBlocks = 3400
	records, err := Replay(trace, o)
	if err != nil {
		t.Fatal(err)
	}
	m := mean(MeasuredFigures(trace).TTFT)
	moved := mean(FiguresOf(records).TTFT)/m - 1
	t.Logf("3,400 blocks instead of 2,588 move the mean TTFT by %+.1f %%", moved*100)
	if moved < -.27 || moved > -.14 {
		t.Errorf("moved by %+.1f %%, want about −20 %%", moved*100)
	}
}
