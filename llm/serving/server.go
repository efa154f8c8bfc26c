// Package serving models an LLM inference server that many requests share: the
// scheduler of vLLM V1, with a formula for how long a step takes.
//
// The scheduler spends a budget of tokens each step. Requests that run come
// first (one token each, or the next chunk of a prompt); then the waiting ones,
// first come first served, while there are budget, places and KV blocks. If the
// blocks run out, the request that was admitted last goes back to the front of
// the queue and computes everything again, and nobody is admitted in that step.
// Source: vllm/v1/core/sched/scheduler.py at 00024d3; see docs/models.md.
//
// There is one event for a step, not one for a token. While all that run decode
// and nobody can be admitted, the steps are all alike but for their context, and
// the server leaps over them to the next one that matters.
//
// Times are worked out in whole ticks (see StepTime), and all order comes from
// times and from the order of the calls: the same requests at the same times
// give the same nanoseconds, by leaps and by steps. What happens in the very
// nanosecond in which a step ends belongs to the next step.
package serving

import (
	"fmt"
	"math"
	"sync"
	"time"

	"firstsound/clocks"
)

// A Clock is what a server needs of a clocks.Clock. A Loop is one too.
type Clock interface {
	Now() time.Duration
	At(t time.Duration, f func()) clocks.Alarm
}

// A Server is one replica of a model. Its methods may be called by several
// goroutines at once.
type Server struct {
	clock Clock
	opts  Options
	cost  StepTime

	longest int64 // steps in a leap

	mu      sync.Mutex
	jobs    uint64 // that came
	front   jobList
	busy    time.Duration // until when the front end's thread is busy
	window  time.Duration // when the gateway's batch goes off
	down    bool
	waiting jobList
	running jobList // in the order of admission
	kv      *kvCache
	stats   Stats

	// Between steps and in them:
	active  bool          // a step is under way
	at      time.Duration // its begin
	ticks   int64         // and a part of a nanosecond
	step    int64         // how many have ended
	limit   int64         // how many can go by, counted from this one, before there is something to do
	mixed   int64         // how long it takes, if there are chunks in it
	chunks  []Chunk
	parts   []*Job // whose chunks these are
	partial *Job   // the prompt that is not finished yet; always the last of running
	blocked bool   // the head of the queue has to wait until something leaves
	leaving []*Job // cancelled in the step under way

	// Of all that decode:
	decoding int
	context  int64            // that the step under way reads
	needs    [BlockTokens]int // how many want a block at step counts ≡ i mod 16
	due      dueHeap

	armed   time.Duration // the earliest event that is set
	isArmed bool
	onWake  func()
	told    []Event
	telling bool
}

// New returns a server on that clock. It starts no goroutine.
func New(c Clock, o Options) (*Server, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	s := &Server{clock: c, opts: o, cost: newStepTime(o), kv: newKVCache(o.KVBlocks, !o.NoPrefixCache)}
	if err := s.cost.check(); err != nil {
		return nil, fmt.Errorf("serving: gpu %q, model %q: %w", o.GPU.Name, o.Model.Name, err)
	}
	s.longest = s.cost.leap()
	s.onWake = s.wake
	return s, nil
}

// Options returns what the server was made with, completed.
func (s *Server) Options() Options { return s.opts }

// StepTime returns the server's formula.
func (s *Server) StepTime() StepTime { return newStepTime(s.opts) }

// Submit hands over a request now.
func (s *Server) Submit(r Request) (*Job, error) {
	if err := s.check(&r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return nil, ErrNoReplica
	}
	now := s.clock.Now()
	j := s.arrive(r, now)
	s.advance(now)
	s.tellAndUnlock()
	return j, nil
}

// SubmitAll hands over requests that arrive in one moment, in their order. They
// can start in one step.
func (s *Server) SubmitAll(all []Request) ([]*Job, error) {
	for i := range all {
		if err := s.check(&all[i]); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
	}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return nil, ErrNoReplica
	}
	now := s.clock.Now()
	jobs := make([]*Job, len(all))
	for i, r := range all {
		jobs[i] = s.arrive(r, now)
	}
	s.advance(now)
	s.tellAndUnlock()
	return jobs, nil
}

func (s *Server) check(r *Request) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	if n := blocksOf(r.Prompt + r.Output); n > s.opts.KVBlocks {
		return fmt.Errorf("serving: a request of %d + %d tokens needs %d KV blocks, and the server has %d; shorten it or raise kv_blocks", r.Prompt, r.Output, n, s.opts.KVBlocks)
	}
	return nil
}

// arrive puts a request into the gateway, which collects a batch, and then into
// the front end, which takes one after the other, serial_api each, and passes
// each on after api.
func (s *Server) arrive(r Request, now time.Duration) *Job {
	s.jobs++
	j := &Job{server: s, req: r, id: s.jobs, prompt: r.Prompt}
	j.rec = Record{Prompt: r.Prompt, Arrived: now}
	came := now
	if w := s.opts.BatchWindow; w > 0 {
		if now >= s.window {
			s.window = now + w
		}
		came = s.window
	}
	s.busy = max(s.busy, came) + s.opts.GPU.SerialAPI
	j.ready = s.busy + s.opts.GPU.API
	s.front.pushBack(j)
	s.stats.Arrived++
	return j
}

// Cancel ends a request that is not wanted any more. Nothing is told about it
// from now on; its place and its blocks are free at the end of the step under
// way. To cancel what has ended does nothing.
func (j *Job) Cancel() {
	s := j.server
	s.mu.Lock()
	now := s.clock.Now()
	s.advance(now)
	s.cancel(j, now)
	s.tellAndUnlock()
}

func (s *Server) cancel(j *Job, now time.Duration) {
	switch j.rec.State {
	case Arriving:
		s.front.remove(j)
	case Waiting:
		if s.waiting.first == j && s.blocked {
			s.limit = min(s.limit, 1) // the next one may fit
		}
		s.waiting.remove(j)
		s.kv.forget(j)
	case Prefilling, Decoding:
		j.leaving = true
		s.leaving = append(s.leaving, j)
		s.limit = min(s.limit, 1)
	default:
		return
	}
	j.rec.Output = j.tokens()
	j.rec.State, j.rec.Ended = Cancelled, now
	s.stats.Cancelled++
}

// tokens returns how many are out.
func (j *Job) tokens() int {
	if j.rec.State == Decoding {
		return j.generated + int(j.server.step-j.joined)
	}
	return j.generated
}

// Record returns what became of the request so far.
func (j *Job) Record() Record {
	s := j.server
	s.mu.Lock()
	defer s.mu.Unlock()
	r := j.rec
	if r.State == Decoding {
		r.Output = j.tokens() // as of the last step that mattered
	}
	return r
}

// wake is the one function that the server ever gives to its clock.
func (s *Server) wake() {
	s.mu.Lock()
	now := s.clock.Now()
	if !s.isArmed || now < s.armed { // set for something that has come to pass earlier
		s.mu.Unlock()
		return
	}
	s.isArmed = false
	s.advance(now)
	s.tellAndUnlock()
}

// arm sets an event for the next moment that matters, if none is set before it.
func (s *Server) arm() {
	next, any := time.Duration(math.MaxInt64), false
	if s.active {
		next, any = s.endOf(s.limit), true
	}
	if j := s.front.first; j != nil && (!any || j.ready < next) {
		next, any = j.ready, true
	}
	if any && (!s.isArmed || next < s.armed) {
		s.isArmed, s.armed = true, next
		s.clock.At(next, s.onWake)
	}
}

func (s *Server) tell(j *Job, k Kind, at time.Duration, token int) {
	if j.req.Told != nil {
		s.told = append(s.told, Event{j, k, at, token})
	}
}

// tellAndUnlock sets the next event, and makes the calls that are due, with the
// server unlocked.
func (s *Server) tellAndUnlock() {
	s.arm()
	if !s.telling && len(s.told) > 0 {
		s.telling = true
		for i := 0; i < len(s.told); i++ {
			e := s.told[i]
			if e.Job.rec.State == Cancelled { // by a call before this one
				continue
			}
			s.mu.Unlock()
			e.Job.req.Told(e)
			s.mu.Lock()
		}
		clear(s.told)
		s.told, s.telling = s.told[:0], false
	}
	s.mu.Unlock()
}

// Stats are what a server has counted, and how it stands.
type Stats struct {
	Arrived, Finished, Cancelled, Failed int
	Steps                                int64
	PromptTokens                         int64 // computed, those of recomputes included
	OutputTokens                         int64
	CachedTokens                         int64 // found in the prefix cache
	Preemptions                          int
	Busy                                 time.Duration // in steps

	Front, Waiting, Running int // requests now
	KVBlocks, KVFree        int
	KVPeak                  int // most blocks that were ever in use at once
}

// Stats returns them as of the last step that mattered.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Front, st.Waiting, st.Running = s.front.n, s.waiting.n, s.running.n
	st.KVBlocks, st.KVFree, st.KVPeak = s.kv.total, s.kv.free, s.kv.total-s.kv.least
	st.Steps = s.step
	return st
}
