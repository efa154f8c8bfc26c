package serving

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A GPU is a card with the efficiencies that a serving engine reached on it.
// The efficiencies are shares of the data sheet's figure, above 0 and at most 1.
type GPU struct {
	Name     string  `yaml:"name"`
	Note     string  `yaml:"note,omitempty"` // where the constants come from
	TFLOPS   float64 `yaml:"tflops"`         // dense matrix products at WeightBytes, 10¹² operations a second
	GBps     float64 `yaml:"gbps"`           // memory bandwidth, 10⁹ bytes a second
	MemoryGB float64 `yaml:"memory_gb"`      // 10⁹ bytes

	WeightBytes float64 `yaml:"weight_bytes"` // of one parameter: 2 for bf16, 1 for fp8
	KVBytes     float64 `yaml:"kv_bytes"`     // of one number of the KV cache

	Compute   float64 `yaml:"compute"`   // ηc: matrix products
	Weights   float64 `yaml:"weights"`   // ηw: reading the weights
	KV        float64 `yaml:"kv"`        // ηkv: reading the KV cache in decode attention
	Attention float64 `yaml:"attention"` // ηa: prefill attention
	Mix       float64 `yaml:"mix"`       // μ ≥ 1: how much longer decode attention takes beside a prefill chunk

	Step time.Duration `yaml:"step"` // c0: of every step; the knob for an engine's version
	Seq  time.Duration `yaml:"seq"`  // cs: of every sequence in a step
	API  time.Duration `yaml:"api"`  // of every request before it queues; the knob for the HTTP front end

	// SerialAPI is what the front end works on a request before it takes the
	// next one: a tokenizer and HTTP server in one thread.
	SerialAPI time.Duration `yaml:"serial_api,omitempty"`

	// Of tensor parallelism: two all-reduces a layer, each with a fixed time
	// and one for the bytes over the link. LinkGBps 0: the link costs nothing.
	AllReduce time.Duration `yaml:"all_reduce,omitempty"`
	LinkGBps  float64       `yaml:"link_gbps,omitempty"`
}

// gpus are the profiles of docs/models.md. TFLOPS, GBps and memory are
// the vendors' data sheets; the other constants come from the fits that Note
// names. What they are good for is said there too: the same H100 constants miss
// a 2024 engine by 17 to 28 %, because c0 belongs to a version of the engine.
var gpus = []GPU{
	{Name: "rtx-4090", Note: "kernel times of LLMServingSim and vLLM 0.19 (T1)",
		TFLOPS: 165.2, GBps: 1008, MemoryGB: 25.76, WeightBytes: 2, KVBytes: 2,
		Compute: .96, Weights: .917, KV: .90, Attention: .70, Mix: 2.2, Step: time.Millisecond, Seq: 12 * time.Microsecond},
	{Name: "rtx-pro-6000", Note: "kernel times of LLMServingSim and vLLM 0.19 (T1); the link's two numbers fitted to T1",
		TFLOPS: 503.8, GBps: 1792, MemoryGB: 102.6, WeightBytes: 2, KVBytes: 2,
		Compute: .745, Weights: .777, KV: .76, Attention: .45, Mix: 1.9, Step: time.Millisecond, Seq: 12 * time.Microsecond,
		AllReduce: 80 * time.Microsecond, LinkGBps: 16},
	{Name: "h100-sxm", Note: "fitted to 15 runs of vLLM 0.15 (T2); api between 8 and 20 ms, by harness",
		TFLOPS: 989.5, GBps: 3350, MemoryGB: 85.52, WeightBytes: 2, KVBytes: 2,
		Compute: .64, Weights: .79, KV: .67, Attention: .50, Mix: 1.15, Step: 670 * time.Microsecond, Seq: 7400 * time.Nanosecond,
		API: 8 * time.Millisecond, AllReduce: 10 * time.Microsecond},
	{Name: "2xh100-fp8-nim", Note: "two cards as one, TensorRT-LLM of NIM 1.8, fp8 weights and KV; fitted to T3. The links' time is in step",
		TFLOPS: 2 * 1979, GBps: 2 * 3350, MemoryGB: 2 * 85.52, WeightBytes: 1, KVBytes: 1,
		Compute: .58, Weights: .58, KV: .75, Attention: .40, Mix: 1.5, Step: time.Millisecond, Seq: 10 * time.Microsecond,
		API: 80 * time.Millisecond},
	{Name: "l4", Note: "fitted to vLLM 0.23 with a model of 0.5 B on 4 virtual CPUs (T4)",
		TFLOPS: 121, GBps: 300, MemoryGB: 24.15, WeightBytes: 2, KVBytes: 2,
		Compute: .30, Weights: .80, KV: .70, Attention: .30, Mix: 1.5, Step: time.Millisecond, Seq: 30 * time.Microsecond,
		API: 20 * time.Millisecond, SerialAPI: 4 * time.Millisecond},
}

// GPUs returns the built-in profiles.
func GPUs() []GPU { return slices.Clone(gpus) }

// FindGPU returns the built-in profile of that name.
func FindGPU(name string) (GPU, error) {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		if g.Name == name {
			return g, nil
		}
		names[i] = g.Name
	}
	return GPU{}, fmt.Errorf("no gpu is called %q; there are %s, or write a profile of your own", name, strings.Join(names, ", "))
}

// Check says what is wrong with a profile.
func (g GPU) Check() error {
	for _, c := range []struct {
		name             string
		value, low, high float64
	}{
		{"tflops", g.TFLOPS, 1e-3, 1e6}, {"gbps", g.GBps, 1, 1e6}, {"memory_gb", g.MemoryGB, 0.1, 1e5},
		{"weight_bytes", g.WeightBytes, 0.1, 8}, {"kv_bytes", g.KVBytes, 0.1, 8},
		{"compute", g.Compute, 0.01, 1}, {"weights", g.Weights, 0.01, 1}, {"kv", g.KV, 0.01, 1}, {"attention", g.Attention, 0.01, 1},
		{"mix", g.Mix, 1, 100}, {"step (ns)", float64(g.Step), 0, 1e9}, {"seq (ns)", float64(g.Seq), 0, 1e7},
		{"api (ns)", float64(g.API), 0, 60e9}, {"serial_api (ns)", float64(g.SerialAPI), 0, 60e9},
		{"all_reduce (ns)", float64(g.AllReduce), 0, 1e8}, {"link_gbps", g.LinkGBps, 0, 1e6},
	} {
		if !(c.value >= c.low && c.value <= c.high) { // a NaN too
			return fmt.Errorf("gpu %q: %s is %g; it has to lie between %g and %g", g.Name, c.name, c.value, c.low, c.high)
		}
	}
	return nil
}
