package serving

import (
	"fmt"
	"math"
	"time"
)

// tickBits makes a tick 1/65536 ns. Inside the engine, times are whole ticks: a
// sum of them does not depend on how it was split, so a leap over a thousand
// steps ends in the same nanosecond as a thousand steps.
const tickBits = 16

const ticksPerSecond = 1e9 * (1 << tickBits)

// A Step is what one pass of the model over a batch works on.
type Step struct {
	Decodes int // sequences that get one more token
	Context int // tokens that these attend to, over all of them
	Chunks  []Chunk
}

// A Chunk is a part of a prompt.
type Chunk struct {
	Tokens  int // in this step
	Context int // computed before, or found in the prefix cache
}

// A StepTime tells how long steps take on a server, by the formula
//
//	T = ((W·b/(BW·ηw))³ + (2(Pblk·T + Phead·N)/(F·ηc))³)^⅓      weights or products, whichever is longer (smoothly)
//	  + μ·KVB·Σctx/(BW·ηkv)                                    decode attention; μ = 1 if no chunk is in the step
//	  + 4·L·Hq·dh·Σ t(c + t/2)/(F·ηa)                          prefill attention of chunks of t tokens on c before
//	  + c0 + cs·N + ct·T                                       the engine: per step, per sequence, per token
//
// of docs/models.md, in seconds, where T are the step's tokens and N its
// sequences; each has its output computed, finished prompt or not. W are the
// parameters that a step reads: all but the input embedding. With tensor
// parallelism F and BW are those of all cards together, c0 has two all-reduces a
// layer, and ct is the time of their 2 bytes per number on the link.
//
// It holds for dense models, within about 6 % on the cards that it was fitted
// to. It knows no mixture of experts, no speculative decoding, no LoRA, and no
// clock that throttles.
type StepTime struct {
	weights           float64 // reading them, in ticks, cubed
	token, head       float64 // products of a token and of an output, ticks
	kv, kvMixed       int64   // decode attention for a token of context, ticks
	attention         float64 // prefill attention for a token on a token, ticks
	fixed, seq, perTo float64 // ticks
	worst, shared     float64 // the longest step, ticks; and if all sequences share one prefix

	decode []int64 // of pure decode steps by batch size, without attention; 0 not known yet
}

func newStepTime(o Options) StepTime {
	g, m, tp := o.GPU, o.Model, float64(o.TensorParallel)
	flops := g.TFLOPS * 1e12 * tp / ticksPerSecond // of a tick
	bytes := g.GBps * 1e9 * tp / ticksPerSecond
	kv := m.kvNumbers() * g.KVBytes / (bytes * g.KV)
	weights := (m.Blocks + m.Head) * 1e9 * g.WeightBytes / (bytes * g.Weights)
	s := StepTime{
		weights:   weights * weights * weights,
		token:     2 * m.Blocks * 1e9 / (flops * g.Compute),
		head:      2 * m.Head * 1e9 / (flops * g.Compute),
		kv:        int64(math.Round(kv)),
		kvMixed:   int64(math.Round(kv * g.Mix)),
		attention: 4 * float64(m.Layers*m.Heads*m.HeadDim) / (flops * g.Attention),
		fixed:     float64(g.Step) * (1 << tickBits),
		seq:       float64(g.Seq) * (1 << tickBits),
		decode:    make([]int64, o.MaxSeqs+1),
	}
	if tp > 1 {
		s.fixed += float64(2*m.Layers) * float64(g.AllReduce) * (1 << tickBits)
		if g.LinkGBps > 0 {
			s.perTo = float64(2*m.Layers*m.Hidden*2) / (g.LinkGBps * 1e9) * ticksPerSecond
		}
	}
	// All of the budget in one chunk behind a longest prompt, beside as many decodes
	// as may run, which read the whole cache.
	tokens, seqs, cache := float64(o.BatchedTokens+o.MaxSeqs), float64(o.MaxSeqs+1), float64(o.KVBlocks)*BlockTokens
	s.worst = math.Cbrt(s.weights) + s.token*tokens + s.head*seqs + s.fixed + s.seq*seqs + s.perTo*tokens +
		kv*g.Mix*cache + s.attention*tokens*(min(cache, 2*maxTokens)+tokens)
	s.shared = s.worst + kv*g.Mix*seqs*cache
	return s
}

// longestStep is beyond any server, and a quarter of what an int64 has room for.
const longestStep = 10 * time.Hour

// check says whether steps could take longer than longestStep.
func (s *StepTime) check() error {
	if limit := float64(longestStep) * (1 << tickBits); !(s.worst <= limit) {
		return fmt.Errorf("a step could take %.3g hours, of them %.3g to read the weights; at most 10 are taken: look at the card's tflops and gbps and the model's shape",
			s.worst/limit*10, math.Cbrt(s.weights)/limit*10)
	}
	return nil
}

// leap returns for how many steps at most a sum of ticks stays in an int64.
func (s *StepTime) leap() int64 {
	return max(1, min(longestLeap, int64((1<<62)/max(1, s.shared))))
}

// base returns what does not depend on context. The conversions keep a compiler
// from fusing a product with a sum, which would round differently from machine
// to machine.
func (s *StepTime) base(tokens, seqs int) int64 {
	t, n := float64(tokens), float64(seqs)
	products := float64(s.token*t) + float64(s.head*n)
	t3 := s.weights + float64(products*products*products)
	return int64(math.Round(math.Cbrt(t3) + s.fixed + float64(s.seq*n) + float64(s.perTo*t)))
}

// decodeBase is base of a step of n decodes, remembered.
func (s *StepTime) decodeBase(n int) int64 {
	if s.decode[n] == 0 {
		s.decode[n] = s.base(n, n)
	}
	return s.decode[n]
}

// mixed returns the time of a step with chunks, in ticks.
func (s *StepTime) mixed(step Step) int64 {
	tokens, pairs := step.Decodes, 0.0
	for _, c := range step.Chunks {
		tokens += c.Tokens
		pairs += float64(c.Tokens) * (float64(c.Context) + float64(c.Tokens)/2)
	}
	return s.base(tokens, step.Decodes+len(step.Chunks)) + s.kvMixed*int64(step.Context) + int64(math.Round(s.attention*pairs))
}

// Of returns the time of a step, cut to whole nanoseconds. Decodes must not be
// more than the server's max_num_seqs.
func (s *StepTime) Of(step Step) time.Duration {
	if len(step.Chunks) == 0 {
		return time.Duration((s.decodeBase(step.Decodes) + s.kv*int64(step.Context)) >> tickBits)
	}
	return time.Duration(s.mixed(step) >> tickBits)
}
