package serving

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
)

// A workload is what random callers do with a server.
type workload struct {
	requests, sessions          int
	every                       time.Duration // mean between arrivals
	cancels, shared             float64       // shares of the requests
	prompt, output, blocks, max int
	budget                      int
	opts                        func(*Options)
}

// draw makes one up from a seed.
func draw(seed uint64) workload {
	r := random.New(seed, "workload")
	w := workload{
		requests: 150, sessions: 1 + r.Below(20), every: time.Duration(1+r.Below(40)) * ms,
		cancels: float64(r.Below(3)) / 6, shared: float64(r.Below(3)) / 2,
		prompt: 20 + r.Below(600), output: 1 + r.Below(200), max: 1 + r.Below(40),
	}
	w.budget = w.max + r.Below(500)
	w.blocks = blocksOf(2*w.prompt+w.output) + 1 + r.Below(60)
	kind := r.Below(4)
	w.opts = func(o *Options) {
		o.NoPrefixCache = kind == 0
		o.KeepPreempted = kind == 1
		o.GPU.SerialAPI = time.Duration(kind) * ms
	}
	return w
}

func (w workload) options(t testing.TB) Options {
	o := profile(t, "h100-sxm", "llama-3.1-8b")
	o.KVBlocks, o.MaxSeqs, o.BatchedTokens = w.blocks, w.max, w.budget
	w.opts(&o)
	return o
}

// run puts the workload through a server on c and returns a line for each
// moment of each request, and the records. What wakes is at which tokens.
func (w workload) run(t testing.TB, seed uint64, o Options, c Clock, wakeAt func(output int) []int, look func(*Server)) (func() (lines []string, records []Record), *Server) {
	s, err := New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []*Job
	lines := make([][]string, w.requests)
	history := map[int]int{}
	var next func()
	r := random.New(seed, "arrivals")
	next = func() {
		i := len(jobs)
		req := Request{Prompt: 1 + r.Below(w.prompt), Output: 1 + r.Below(w.output), Tag: i}
		session := r.Below(w.sessions)
		if r.Chance(w.shared) {
			req.Shared = Span{7, min(req.Prompt, w.prompt/3)}
		}
		if session > 0 { // session 0 has no key
			req.Session = Span{100 + uint64(session), min(req.Prompt, history[session])}
			history[session] = req.Prompt + req.Output
		}
		req.Wake = wakeAt(req.Output)
		req.Told = func(e Event) {
			lines[i] = append(lines[i], fmt.Sprint(e.Kind, " ", e.Token, " ", int64(e.At)))
			if look != nil {
				look(s)
			}
		}
		j, err := s.Submit(req)
		if err != nil {
			t.Error(err)
		}
		jobs = append(jobs, j)
		if r.Chance(w.cancels) {
			c.At(c.Now()+r.Exp(200*ms), j.Cancel)
		}
		if len(jobs) < w.requests {
			c.At(c.Now()+r.Exp(w.every), next)
		}
		if look != nil {
			look(s)
		}
	}
	c.At(0, next)
	return func() (all []string, records []Record) {
		for i, j := range jobs {
			all = append(all, fmt.Sprint(i, ": ", strings.Join(lines[i], ", ")))
			records = append(records, j.Record())
		}
		return all, records
	}, s
}

func everyToken(output int) (wake []int) {
	for k := 2; k <= output; k++ {
		wake = append(wake, k)
	}
	return wake
}

func noToken(int) []int { return nil }

// audit counts the blocks and the tokens of the step under way.
func audit(t testing.TB, s *Server) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := 0
	for r := s.kv.oldest.next; r != &s.kv.oldest; r = r.next {
		if r.blocks <= 0 || r.users != 0 {
			t.Fatalf("a free run of %d blocks with %d users", r.blocks, r.users)
		}
		listed += r.blocks
	}
	if listed != s.kv.free {
		t.Fatalf("%d blocks are in the list and %d are counted free", listed, s.kv.free)
	}
	used, seen := 0, map[*run]int{}
	var context int64
	decoding, running := 0, 0
	for j := s.running.first; j != nil; j = j.next {
		running++
		tokens := j.computed + j.chunk
		if slices.Contains(s.due, j) {
			decoding++
			tokens = j.prompt + j.generated + int(s.step-j.joined)
			context += int64(tokens)
		}
		private := blocksOf(tokens) - j.sharedBlocks - j.ownBlocks
		if private < 0 {
			t.Fatalf("job %d has %d blocks of its own", j.id, private)
		}
		used += private
		for _, r := range []*run{j.shared, j.own} {
			if r != nil {
				seen[r]++
			}
		}
	}
	for r, users := range seen {
		used += r.blocks
		if r.users != users {
			t.Fatalf("prefix %d has %d users, counted %d", r.key, users, r.users)
		}
	}
	if used+s.kv.free != s.kv.total {
		t.Fatalf("step %d: %d blocks in use and %d free, of %d", s.step, used, s.kv.free, s.kv.total)
	}
	if context != s.context || decoding != s.decoding || running != s.running.n {
		t.Fatalf("context %d, decoding %d, running %d; counted %d, %d, %d", s.context, s.decoding, s.running.n, context, decoding, running)
	}
	tokens := decoding
	for _, c := range s.chunks {
		if c.Tokens < 1 {
			t.Fatalf("a chunk of %d tokens", c.Tokens)
		}
		tokens += c.Tokens
	}
	if tokens > s.opts.BatchedTokens || running > s.opts.MaxSeqs {
		t.Fatalf("a step of %d tokens and %d sequences; at most %d and %d", tokens, running, s.opts.BatchedTokens, s.opts.MaxSeqs)
	}
	if n := s.stats; n.Arrived != n.Finished+n.Cancelled+n.Failed+s.front.n+s.waiting.n+s.running.n-len(s.leaving) {
		t.Fatalf("requests are lost: %+v, %d + %d + %d there, %d leaving", n, s.front.n, s.waiting.n, s.running.n, len(s.leaving))
	}
}

// seeds is how many random workloads there are.
func seeds() int { return scaled(200) }

// TestLeapIsStepping: by leaps and by steps, waking at every token or at none,
// on a Loop and on a Virtual clock, all moments are the same to the nanosecond.
func TestLeapIsStepping(t *testing.T) {
	preemptions, cached, cancelled, leapt := 0, int64(0), 0, int64(0)
	for seed := range uint64(seeds()) {
		w := draw(seed)
		o := w.options(t)
		do := func(stepping bool, wake func(int) []int) ([]string, []Record, *Server, int) {
			var loop Loop
			o.Stepping = stepping
			result, s := w.run(t, seed, o, &loop, wake, nil)
			loop.Run(forever)
			lines, records := result()
			return lines, records, s, int(loop.seq)
		}
		lines, records, s, events := do(true, everyToken)
		leapLines, leapRecords, _, _ := do(false, everyToken)
		_, quietRecords, quiet, quietEvents := do(false, noToken)
		if !slices.Equal(lines, leapLines) || !slices.Equal(records, leapRecords) || !slices.Equal(records, quietRecords) {
			for i := range lines {
				if lines[i] != leapLines[i] || records[i] != quietRecords[i] {
					t.Fatalf("seed %d: stepping %s\n%+v\nleaping %s\n%+v", seed, lines[i], records[i], leapLines[i], quietRecords[i])
				}
			}
		}
		if s.Stats() != quiet.Stats() {
			t.Fatalf("seed %d: stepping %+v, leaping %+v", seed, s.Stats(), quiet.Stats())
		}
		v := clocks.NewVirtual()
		result, s2 := w.run(t, seed, o, v, everyToken, nil)
		v.Go("until the end", func() {
			for s2.Stats().Arrived < w.requests || s2.Stats().Front+s2.Stats().Waiting+s2.Stats().Running > 0 {
				v.Sleep(t.Context(), time.Second)
			}
		})
		if err := v.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if virtual, _ := result(); !slices.Equal(virtual, lines) {
			t.Fatalf("seed %d: a Virtual clock gives other moments", seed)
		}
		preemptions += s.Stats().Preemptions
		cached += s.Stats().CachedTokens
		cancelled += s.Stats().Cancelled
		leapt += int64(events - quietEvents)
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache, %d cancelled, %d events saved", preemptions, cached, cancelled, leapt)
	if preemptions == 0 || cached == 0 || cancelled == 0 || leapt <= 0 {
		t.Error("the workloads lack something")
	}
}

// TestConservation: at every moment that somebody is told of, blocks and
// requests add up, and no step is beyond its budget; at the end all is free.
// Requests are first admitted in the order in which they came.
func TestConservation(t *testing.T) {
	for seed := range uint64(seeds()) {
		w := draw(seed + 1000)
		o := w.options(t)
		var loop Loop
		result, s := w.run(t, seed, o, &loop, everyToken, func(s *Server) { audit(t, s) })
		loop.Run(forever)
		audit(t, s)
		st := s.Stats()
		if st.KVFree != st.KVBlocks || st.Front+st.Waiting+st.Running != 0 || st.Arrived != w.requests {
			t.Fatalf("seed %d: at the end %+v", seed, st)
		}
		var last time.Duration
		_, records := result()
		var out int64
		for i, r := range records {
			out += int64(r.Output)
			if r.State == Finished && (r.Output < 1 || r.Queued < r.Arrived || r.Admitted < r.Queued || r.First <= r.Admitted || r.Ended < r.First) {
				t.Fatalf("seed %d, request %d: %+v", seed, i, r)
			}
			if r.Admitted == 0 {
				continue
			}
			if r.Admitted < last {
				t.Fatalf("seed %d: request %d was admitted before the one that came before it", seed, i)
			}
			last = r.Admitted
		}
		if st.OutputTokens < out {
			t.Fatalf("seed %d: %d tokens out, the records have %d", seed, st.OutputTokens, out)
		}
	}
}

// TestStepTimeRises: more tokens, sequences or context never make a step shorter.
func TestStepTimeRises(t *testing.T) {
	r := random.New(1, "steps")
	for _, g := range GPUs() {
		for _, m := range Models() {
			o, err := Options{GPU: g, Model: m, KVBlocks: 1000, MaxSeqs: 256, BatchedTokens: 8192}.complete()
			if err != nil {
				t.Fatal(err)
			}
			st := newStepTime(o)
			for range 300 {
				a := Step{Decodes: 1 + r.Below(200), Context: r.Below(100_000)}
				if r.Chance(.7) {
					a.Chunks = []Chunk{{1 + r.Below(2048), r.Below(8000)}}
				}
				before := st.Of(a)
				for name, b := range map[string]Step{
					"decodes": {a.Decodes + 1, a.Context, a.Chunks}, "context": {a.Decodes, a.Context + 100, a.Chunks},
					"chunks": {a.Decodes, a.Context, append(slices.Clone(a.Chunks), Chunk{1, 0})},
				} {
					if st.Of(b) < before {
						t.Fatalf("%s, %s: %+v takes %v, with more %s %v", g.Name, m.Name, a, before, name, st.Of(b))
					}
				}
				if len(a.Chunks) > 0 {
					longer, deeper := a, a
					longer.Chunks = []Chunk{{a.Chunks[0].Tokens + 1, a.Chunks[0].Context}}
					deeper.Chunks = []Chunk{{a.Chunks[0].Tokens, a.Chunks[0].Context + 1}}
					if st.Of(longer) < before || st.Of(deeper) < before {
						t.Fatalf("%s, %s: a larger chunk than %+v is faster", g.Name, m.Name, a)
					}
				}
			}
		}
	}
}

// TestStepTimeByHand: the formula, worked out on paper for round numbers.
func TestStepTimeByHand(t *testing.T) {
	o := Options{
		GPU: GPU{Name: "round", TFLOPS: 100, GBps: 1000, MemoryGB: 100, WeightBytes: 2, KVBytes: 2, Compute: .5, Weights: .5, KV: .5, Attention: .5, Mix: 2,
			Step: ms, Seq: 10 * time.Microsecond, AllReduce: 5 * time.Microsecond, LinkGBps: 10},
		Model: Model{"round", 9, 1, false, 10, 10, 5, 100, 1000}, KVBlocks: 1000, MaxSeqs: 100, BatchedTokens: 1000,
	}
	for _, c := range []struct {
		name string
		tp   int
		step Step
		want float64 // ms
	}{
		// Weights: 2·10e9 B at 500 GB/s, 40 ms. Products: 2·9e9 + 2·1e9 = 2e10 operations a token at 50 T/s, 0.4 ms.
		// KV: 2·10·5·100·2 B = 20 kB a token at 500 GB/s, 40 ns. Engine: 1 ms + 10 µs a sequence.
		{"decode", 1, Step{Decodes: 10, Context: 10_000}, math.Cbrt(64000+64) + .4 + 1 + .1},
		{"decode beside a chunk", 1, Step{Decodes: 10, Context: 10_000, Chunks: []Chunk{{90, 1000}}},
			// 100 tokens and 11 outputs: 36 + 0.44 ms. Attention 4·10·10·100·90·1045/50e12 = 75.24 µs.
			math.Cbrt(64000+math.Pow(36.44, 3)) + .8 + .07524 + 1 + .11},
		// Two cards: half of all that; 20 all-reduces of 5 µs, and 2·10·1000·2 B a token at 10 GB/s, 4 µs.
		{"two cards", 2, Step{Decodes: 10, Context: 10_000}, math.Cbrt(8000+8) + .2 + 1 + .1 + .1 + .04},
	} {
		o.TensorParallel = c.tp
		done, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		st := newStepTime(done)
		if got := float64(st.Of(c.step)) / 1e6; math.Abs(got-c.want) > 2e-6 {
			t.Errorf("%s: %.6f ms, want %.6f", c.name, got, c.want)
		}
	}
}
