package serving

import (
	"fmt"
	"time"
)

// BlockTokens is how many tokens a block of the KV cache holds: vLLM's default.
const BlockTokens = 16

// Options say what a server is.
type Options struct {
	GPU            GPU   `yaml:"gpu"`
	Model          Model `yaml:"model"`
	TensorParallel int   `yaml:"tensor_parallel"` // cards that share one model; 0 is 1

	BatchedTokens int `yaml:"max_num_batched_tokens"` // token budget of a step; 0: vLLM's default for the card
	MaxSeqs       int `yaml:"max_num_seqs"`           // requests that run at once; 0: vLLM's default for the card

	// KVBlocks is the KV cache in blocks of 16 tokens, as the engine prints it
	// when it starts. 0: worked out from the card's memory.
	KVBlocks     int     `yaml:"kv_blocks"`
	MemoryShare  float64 `yaml:"gpu_memory_utilization"` // of the card's memory that the engine takes; 0 is 0.9
	ActivationGB float64 `yaml:"activation_gb"`          // a card's memory for neither weights nor KV; 0 is 1.7

	NoPrefixCache bool `yaml:"no_prefix_cache"`

	// KeepPreempted lets a preempted request find in the prefix cache what is
	// left there of its own blocks. Off, it computes everything again, which is
	// how the constants of the profiles were fitted: on, T1's TPOT is 5 % low.
	KeepPreempted bool `yaml:"keep_preempted"`

	// BatchWindow is a gateway in front of the server that collects requests: the
	// first one opens the window, and all go on when it closes.
	BatchWindow time.Duration `yaml:"batch_window"`

	// The two knobs to calibrate by. Nil: what the GPU's profile says.
	API  *time.Duration `yaml:"api"` // before a request queues
	Step *time.Duration `yaml:"c0"`  // of every step

	// Stepping makes one event of each step, where the leap over steps that are
	// all alike would give the same nanoseconds. It is there to be compared.
	Stepping bool `yaml:"stepping"`
}

// activationGB is what 6 published vLLM block counts on H100 leave beside
// weights and KV at 0.9 of the memory: 0.9 to 2.0 GB, most of them near 1.7
// (docs/models.md, T2).
const activationGB = 1.7

// complete fills in what was left out.
func (o Options) complete() (Options, error) {
	if err := o.GPU.Check(); err != nil {
		return o, err
	}
	if err := o.Model.Check(); err != nil {
		return o, err
	}
	if o.TensorParallel == 0 {
		o.TensorParallel = 1
	}
	if tp := o.TensorParallel; tp < 1 || tp > 64 || tp&(tp-1) != 0 {
		return o, fmt.Errorf("tensor_parallel is %d; it has to be 1, 2, 4, 8 or another power of two up to 64", tp)
	}
	// vLLM, get_batch_defaults: cards of 70 GiB and more but for the A100.
	big := o.GPU.MemoryGB >= 75.2 && o.GPU.Name != "a100"
	if o.BatchedTokens == 0 {
		o.BatchedTokens = 2048
		if big {
			o.BatchedTokens = 8192
		}
	}
	if o.MaxSeqs == 0 {
		o.MaxSeqs = min(256, o.BatchedTokens)
		if big {
			o.MaxSeqs = min(1024, o.BatchedTokens)
		}
	}
	if o.MaxSeqs < 1 || o.BatchedTokens < o.MaxSeqs || o.BatchedTokens > 1<<20 {
		return o, fmt.Errorf("max_num_batched_tokens is %d and max_num_seqs %d; a step needs at least one token for each sequence, and at most 1048576", o.BatchedTokens, o.MaxSeqs)
	}
	if !(o.MemoryShare >= 0 && o.MemoryShare <= 1) || !(o.ActivationGB >= 0 && o.ActivationGB <= 1e4) {
		return o, fmt.Errorf("gpu_memory_utilization is %g and activation_gb %g; the first has to lie between 0 and 1, the second not below 0", o.MemoryShare, o.ActivationGB)
	}
	if o.MemoryShare == 0 {
		o.MemoryShare = 0.9
	}
	if o.ActivationGB == 0 {
		o.ActivationGB = activationGB
	}
	if o.KVBlocks == 0 {
		o.KVBlocks = o.blocksInMemory()
		if o.KVBlocks < 1 {
			return o, fmt.Errorf("model %q does not fit on %d × %s: its weights take %.1f GB of %.1f; use more cards or fewer bytes a weight",
				o.Model.Name, o.TensorParallel, o.GPU.Name, o.Model.parameters()*o.GPU.WeightBytes/1e9, o.MemoryShare*o.GPU.MemoryGB*float64(o.TensorParallel))
		}
	}
	if o.KVBlocks < 1 || o.KVBlocks > 1<<26 {
		return o, fmt.Errorf("kv_blocks is %d; it has to lie between 1 and %d", o.KVBlocks, 1<<26)
	}
	if o.BatchWindow < 0 || o.BatchWindow > time.Minute {
		return o, fmt.Errorf("batch_window is %v; it has to lie between 0 and a minute", o.BatchWindow)
	}
	for _, knob := range []struct {
		name string
		d    *time.Duration
		to   *time.Duration
	}{{"api", o.API, &o.GPU.API}, {"c0", o.Step, &o.GPU.Step}} {
		if knob.d == nil {
			continue
		}
		if *knob.d < 0 || *knob.d > time.Minute {
			return o, fmt.Errorf("%s is %v; it has to lie between 0 and a minute", knob.name, *knob.d)
		}
		*knob.to = *knob.d
	}
	return o, nil
}

// blocksInMemory is what weights and activations leave for the KV cache.
func (o Options) blocksInMemory() int {
	tp := float64(o.TensorParallel)
	left := tp*(o.MemoryShare*o.GPU.MemoryGB-o.ActivationGB)*1e9 - o.Model.parameters()*o.GPU.WeightBytes
	return int(left / (BlockTokens * o.Model.kvNumbers() * o.GPU.KVBytes))
}
