package serving

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestBuiltInProfiles(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range GPUs() {
		if err := g.Check(); err != nil {
			t.Error(err)
		}
		if found, err := FindGPU(g.Name); err != nil || found != g || g.Note == "" || seen[g.Name] {
			t.Errorf("%+v", g)
		}
		seen[g.Name] = true
	}
	for _, m := range Models() {
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		if found, err := FindModel(m.Name); err != nil || found != m || seen[m.Name] {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
	}
	if _, err := FindGPU("b200"); err == nil || !strings.Contains(err.Error(), `no gpu is called "b200"; there are rtx-4090, `) {
		t.Error(err)
	}
	if _, err := FindModel("gpt-2"); err == nil || !strings.Contains(err.Error(), `no model is called "gpt-2"; there are llama-3.1-8b, `) {
		t.Error(err)
	}
}

// TestParameters: the shapes have the parameters that their names say.
func TestParameters(t *testing.T) {
	want := map[string]float64{"llama-3.1-8b": 8.03, "llama-3.1-70b": 70.6, "qwen3-32b": 32.8, "qwen3-14b": 14.8, "qwen2.5-7b": 7.62,
		"mistral-nemo-12b": 12.2, "llama-2-7b": 6.74, "yi-34b": 34.4, "qwen2.5-0.5b": .494}
	for _, m := range Models() {
		if got := m.parameters() / 1e9; math.Abs(got/want[m.Name]-1) > .02 {
			t.Errorf("%s has %.3f billion parameters, published %.3f", m.Name, got, want[m.Name])
		}
	}
}

// TestBlocksInMemory: KV blocks that engines printed when they started (T1, T2).
func TestBlocksInMemory(t *testing.T) {
	for _, c := range []struct {
		gpu, model string
		tp, blocks int
	}{
		{"h100-sxm", "qwen2.5-7b", 1, 65352}, {"h100-sxm", "llama-2-7b", 1, 7463}, {"h100-sxm", "mistral-nemo-12b", 1, 19251}, {"h100-sxm", "mistral-nemo-12b", 2, 48009},
		{"h100-sxm", "yi-34b", 2, 20793}, {"h100-sxm", "llama-3.1-70b", 4, 30251}, {"rtx-4090", "llama-3.1-8b", 1, 2588}, {"rtx-pro-6000", "qwen3-32b", 2, 25000},
	} {
		o := profile(t, c.gpu, c.model)
		o.TensorParallel = c.tp
		done, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d × %s, %s: %d blocks, measured %d", c.tp, c.gpu, c.model, done.KVBlocks, c.blocks)
		if math.Abs(float64(done.KVBlocks)/float64(c.blocks)-1) > .11 {
			t.Errorf("%d × %s, %s: %d blocks, measured %d", c.tp, c.gpu, c.model, done.KVBlocks, c.blocks)
		}
	}
}

func TestDefaults(t *testing.T) {
	for gpu, want := range map[string][2]int{"rtx-4090": {2048, 256}, "h100-sxm": {8192, 1024}, "l4": {2048, 256}, "rtx-pro-6000": {8192, 1024}} {
		o, err := profile(t, gpu, "qwen2.5-0.5b").complete()
		if err != nil || o.BatchedTokens != want[0] || o.MaxSeqs != want[1] {
			t.Errorf("%s: %d, %d, %v", gpu, o.BatchedTokens, o.MaxSeqs, err)
		}
	}
}

func TestOptionErrors(t *testing.T) {
	minus := -time.Second
	for want, change := range map[string]func(*Options){
		`gpu "h100-sxm": compute is 1.5; it has to lie between 0.01 and 1`: func(o *Options) { o.GPU.Compute = 1.5 },
		`gpu "h100-sxm": kv is NaN`:                                        func(o *Options) { o.GPU.KV = math.NaN() },
		`model "llama-3.1-8b": kv_heads is 33`:                             func(o *Options) { o.Model.KVHeads = 33 },
		"tensor_parallel is 3":                                             func(o *Options) { o.TensorParallel = 3 },
		"max_num_batched_tokens is 100 and max_num_seqs 200":               func(o *Options) { o.BatchedTokens, o.MaxSeqs = 100, 200 },
		`model "llama-3.1-70b" does not fit on 1 × h100-sxm: its weights take 141.2 GB of 77.0; use more cards`: func(o *Options) { o.Model, _ = FindModel("llama-3.1-70b") },
		"kv_blocks is -1":             func(o *Options) { o.KVBlocks = -1 },
		"api is -1s":                  func(o *Options) { o.API = &minus },
		"c0 is -1s":                   func(o *Options) { o.Step = &minus },
		"batch_window is -1s":         func(o *Options) { o.BatchWindow = minus },
		"gpu_memory_utilization is 2": func(o *Options) { o.MemoryShare = 2 },
	} {
		o := profile(t, "h100-sxm", "llama-3.1-8b")
		change(&o)
		if _, err := New(&Loop{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestYAML(t *testing.T) {
	var o Options
	text := "gpu: h100-sxm\nmodel: {like: llama-3.1-8b, layers: 16}\nkv_blocks: 100\napi: 20ms\n"
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	h100, _ := FindGPU("h100-sxm")
	llama, _ := FindModel("llama-3.1-8b")
	llama.Name, llama.Layers = "own", 16
	if o.GPU != h100 || o.Model != llama || o.KVBlocks != 100 || *o.API != 20*ms || o.Step != nil {
		t.Errorf("%+v", o)
	}
	for text, want := range map[string]string{
		"gpu: h200":                          `no gpu is called "h200"`,
		"gpu: [1]":                           "line 1: a name, or a mapping",
		"gpu: {like: h200}":                  `no gpu is called "h200"`,
		"gpu: {like: h100-sxm, tflop: 3}":    "field tflop not found",
		"gpu: {like: h100-sxm, compute: 3}":  "compute is 3",
		"gpu: {name: mine, tflops: 100}":     `gpu "mine": gbps is 0`,
		"model: {like: yi-34b, heads: many}": "cannot unmarshal",
	} {
		if err := yaml.Unmarshal([]byte(text), &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzProfile(f *testing.F) {
	f.Add("like: h100-sxm\napi: 20ms\n")
	f.Add("l4")
	f.Fuzz(func(t *testing.T, text string) {
		var g GPU
		if yaml.Unmarshal([]byte(text), &g) != nil || g.Name == "" {
			return
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
