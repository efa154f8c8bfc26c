package llmsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/serving"
)

// A Server says that answers come from a server that all calls of a run share:
// times are then not drawn but come out of its queue and its batches (package
// serving). Base, Prefill, Step, PrefixCache and TPOT have no say then.
type Server struct {
	GPU            string         `yaml:"gpu"`                    // name of a built-in card; empty: h100-sxm
	Card           *serving.GPU   `yaml:"card"`                   // or a profile of your own
	Model          string         `yaml:"model"`                  // name of a built-in model's shape; empty: llama-3.1-8b
	Shape          *serving.Model `yaml:"shape"`                  // or a shape of your own
	TensorParallel int            `yaml:"tensor_parallel"`        // cards that share the model
	BatchedTokens  int            `yaml:"max_num_batched_tokens"` // token budget of a step; 0: vLLM's default for the card
	MaxSeqs        int            `yaml:"max_num_seqs"`           // requests that run at once; 0: vLLM's default for the card
	KVBlocks       int            `yaml:"kv_blocks"`              // of 16 tokens; 0: from the card's memory
	MemoryShare    float64        `yaml:"gpu_memory_utilization"` // of the card's memory that the engine takes; 0: 0.9
	NoPrefixCache  bool           `yaml:"no_prefix_cache"`        // compute every prompt anew
	BatchWindow    time.Duration  `yaml:"batch_window"`           // a gateway that collects requests for so long
	API            *time.Duration `yaml:"api"`                    // calibration: of a request before it queues; null: the card's
	C0             *time.Duration `yaml:"c0"`                     // calibration: of every step; null: the card's

	Replicas  int                `yaml:"replicas"`  // servers behind one gateway
	Routing   serving.Routing    `yaml:"routing"`   // round-robin, least-loaded or prefix-aware
	Autoscale *serving.Autoscale `yaml:"autoscale"` // null: the number stays
	Failures  []serving.Failure  `yaml:"failures"`  // when servers die
	Neighbour *serving.Neighbour `yaml:"neighbour"` // another tenant's requests; null: none
}

// Fleet returns the servers' options, with the profiles that are named.
func (o *Server) Fleet() (serving.FleetOptions, error) {
	fo := serving.FleetOptions{
		Server: serving.Options{
			TensorParallel: o.TensorParallel, BatchedTokens: o.BatchedTokens, MaxSeqs: o.MaxSeqs, KVBlocks: o.KVBlocks, MemoryShare: o.MemoryShare,
			NoPrefixCache: o.NoPrefixCache, BatchWindow: o.BatchWindow, API: o.API, Step: o.C0,
		},
		Replicas: o.Replicas, Routing: o.Routing, Autoscale: o.Autoscale, Failures: o.Failures,
	}
	for _, both := range []struct {
		own         bool
		name        string
		key, ownKey string
	}{{o.Card != nil, o.GPU, "gpu", "card"}, {o.Shape != nil, o.Model, "model", "shape"}} {
		if both.own && both.name != "" {
			return fo, fmt.Errorf("server: %s and %s are both given, %q and one of your own: take one away, as with --set llm.server.%s=null", both.key, both.ownKey, both.name, both.ownKey)
		}
	}
	var err error
	if o.Card != nil {
		fo.Server.GPU = *o.Card
	} else if fo.Server.GPU, err = serving.FindGPU(cmp.Or(o.GPU, "h100-sxm")); err != nil {
		return fo, fmt.Errorf("server: gpu: %w", err)
	}
	if o.Shape != nil {
		fo.Server.Model = *o.Shape
	} else if fo.Server.Model, err = serving.FindModel(cmp.Or(o.Model, "llama-3.1-8b")); err != nil {
		return fo, fmt.Errorf("server: model: %w", err)
	}
	return fo, nil
}

// fleet makes the servers.
func (o *Server) fleet(clock clocks.Clock, seed uint64) (*serving.Fleet, error) {
	fo, err := o.Fleet()
	if err != nil {
		return nil, err
	}
	fleet, err := serving.NewFleet(clock, fo)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if o.Neighbour != nil {
		if err := o.Neighbour.Move(clock, seed, fleet.Submit); err != nil {
			return nil, fmt.Errorf("server: neighbour: %w", err)
		}
	}
	return fleet, nil
}

// serve gets the answer from the shared server. The request needs half of the
// network's time to get there, and every token the other half to come back.
func (s *stream) serve(a written) error {
	back := s.network / 2
	if err := s.clock.SleepUntil(s.ctx, s.connected+s.network-back); err != nil {
		return err
	}
	wake := a.wake(s.req.Matters)
	events := clocks.NewQueue[serving.Event](s.clock, "the model's server")
	job, err := s.servers.Submit(serving.Request{
		Prompt: max(1, a.prompt), Output: max(1, a.tokens()), Wake: wake, Tag: s.req.ID.Session,
		Shared:  serving.Span{Key: 1, Tokens: min(s.req.SharedTokens, a.prompt)},
		Session: serving.Span{Key: sessionKey(s.req.ID.Session), Tokens: min(s.req.CachedTokens, a.prompt)},
		Told: func(e serving.Event) {
			if e.Kind == serving.First || e.Kind == serving.Token || e.Kind == serving.Done || e.Kind == serving.Failed {
				events.Put(e)
			}
		},
	})
	if err != nil {
		return err
	}
	defer job.Cancel()
	s.headers, s.firstToken = math.MaxInt64, math.MaxInt64
	told := 0 // tokens
	for {
		e, ok := events.Get(s.ctx)
		if !ok {
			if held := job.Record().Output; held > told {
				if err := s.deliver(a, told, held); err != nil {
					return err
				}
			}
			return context.Cause(s.ctx)
		}
		if e.Kind == serving.Failed {
			return errDied
		}
		if e.Kind == serving.First {
			r := job.Record()
			s.base, s.prefill = r.Admitted-r.Queued, r.First-r.Admitted
			s.headers, s.firstToken = e.At+back, e.At+back
		}
		if err := s.wait(e.At + back); err != nil {
			return err
		}
		if e.Kind == serving.First { // this server tells its timings, and with the first token
			if !s.yield(llm.Delta{At: s.clock.Now(), Kind: llm.Timings, Queue: &s.base, Prefill: &s.prefill}, nil) {
				return errStopped
			}
			s.timed = true
		}
		if e.Token > told {
			if err := s.deliver(a, told, e.Token); err != nil {
				return err
			}
			told = e.Token
		}
		if e.Kind == serving.Done {
			return nil
		}
	}
}

// deliver yields the tokens from one number up to another.
func (s *stream) deliver(a written, from, to int) error {
	now := s.clock.Now()
	if n := len(a.thought.ends); from < n {
		end := min(to, n)
		if !s.yield(llm.Delta{At: now, Kind: llm.Reasoning, Text: a.thought.between(from, end), Tokens: end - from}, nil) {
			return errStopped
		}
		from = end
	}
	from, to = from-len(a.thought.ends), min(to-len(a.thought.ends), len(a.answer.ends))
	if from < to && !a.called {
		if !s.yield(llm.Delta{At: now, Kind: llm.Content, Text: a.answer.between(from, to), Tokens: to - from}, nil) {
			return errStopped
		}
	}
	return nil
}

// between returns the text of tokens from up to, without to.
func (r reply) between(from, to int) string {
	begin := 0
	if from > 0 {
		begin = r.ends[from-1]
	}
	return r.text[begin:r.ends[to-1]]
}

// wake returns the tokens that somebody has to wake for: the first one with
// content, if it is not the first of all, and those that matter.
func (a *written) wake(matters func(string) bool) []int {
	var list []int
	n := len(a.thought.ends)
	if a.called {
		return nil
	}
	for i := range a.answer.ends {
		now := matters == nil || matters(a.answer.between(i, i+1))
		if token := n + i + 1; token > 1 && (now || i == 0) {
			list = append(list, token)
		}
	}
	return list
}

func sessionKey(session int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, "session", session)
	return h.Sum64() | 2 // neither 0 nor the key of the system prompt
}

var errDied = errors.New("llm: the server died (simulated)")
