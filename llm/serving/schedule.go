package serving

import (
	"math"
	"time"
)

// advance brings the server to now: whatever ends or gets through the front end
// up to then, in the order of time. A step that ends in a nanosecond goes before
// a request that comes in it.
func (s *Server) advance(now time.Duration) {
	for {
		to := now
		first := s.front.first
		if first != nil {
			to = min(to, first.ready)
		}
		if s.active && s.runTo(to) {
			continue
		}
		if first == nil || first.ready > now {
			return
		}
		s.enqueue(first.ready)
	}
}

// enqueue moves all that are ready at t into the queue.
func (s *Server) enqueue(t time.Duration) {
	for j := s.front.first; j != nil && j.ready == t; j = s.front.first {
		s.front.remove(j)
		j.rec.State, j.rec.Queued = Waiting, t
		s.waiting.pushBack(j)
		s.tell(j, Queued, t, 0)
	}
	if !s.active {
		s.at, s.ticks = t, 0
		s.schedule()
	} else if !s.blocked {
		s.limit = min(s.limit, 1)
	}
}

// runTo lets the steps end that end by t. It stops after the first one that was
// the limit, whose successor it has scheduled then, and returns true.
func (s *Server) runTo(t time.Duration) bool {
	if len(s.chunks) > 0 {
		if s.endOf(1) > t {
			return false
		}
		s.pass(s.mixed)
		s.step++
		s.context += int64(s.decoding)
		s.stats.OutputTokens += int64(s.decoding)
		s.endChunks()
	} else {
		k := s.endedBy(t)
		if k == 0 {
			return false
		}
		// The blocks of later steps of this run, whose first has its own.
		for i := int64(1); i < k; i++ {
			if k-i >= BlockTokens {
				whole := (k - i) / BlockTokens
				s.kv.take(int(whole) * s.decoding)
				i += whole*BlockTokens - 1
				continue
			}
			s.takeBlocks(s.step + i)
		}
		s.pass(s.runTicks(k))
		s.step += k
		s.context += k * int64(s.decoding)
		s.stats.OutputTokens += k * int64(s.decoding)
		if s.limit -= k; s.limit > 0 {
			s.takeBlocks(s.step)
			return false
		}
	}
	s.endLeaving()
	s.endDue()
	s.schedule()
	return true
}

func (s *Server) takeBlocks(step int64) {
	if n := s.needs[step%BlockTokens]; n > 0 {
		s.kv.take(n)
	}
}

// runTicks returns how long k steps take from here, if all of them are decodes
// of the same sequences: each reads a token more of each sequence.
func (s *Server) runTicks(k int64) int64 {
	return k*(s.cost.decodeBase(s.decoding)+s.cost.kv*s.context) + s.cost.kv*int64(s.decoding)*(k*(k-1)/2)
}

// endOf returns when the k-th step from here ends.
func (s *Server) endOf(k int64) time.Duration {
	d := s.mixed
	if len(s.chunks) == 0 {
		d = s.runTicks(k)
	}
	return s.at + time.Duration((s.ticks+d)>>tickBits)
}

// pass moves the beginning of the step on.
func (s *Server) pass(ticks int64) {
	s.ticks += ticks
	d := time.Duration(s.ticks >> tickBits)
	s.at += d
	s.stats.Busy += d
	s.ticks &= 1<<tickBits - 1
}

// endedBy returns how many steps of the run, up to its limit, end by t.
func (s *Server) endedBy(t time.Duration) int64 {
	if s.endOf(s.limit) <= t {
		return s.limit
	}
	if s.endOf(1) > t {
		return 0
	}
	// kv·B/2·k² + (first step − kv·B/2)·k = ticks left, solved and then set right.
	left := float64(t-s.at) * (1 << tickBits)
	a := float64(s.cost.kv) * float64(s.decoding) / 2
	b := float64(s.runTicks(1)) - a
	k := int64(2 * left / (b + math.Sqrt(b*b+4*a*left)))
	k = max(1, min(k, s.limit-1))
	for s.endOf(k) > t {
		k--
	}
	for s.endOf(k+1) <= t {
		k++
	}
	return k
}

// endChunks counts what was computed of prompts. Those that are complete have
// their first token, or their next one after a preemption.
func (s *Server) endChunks() {
	for i, j := range s.parts {
		s.stats.PromptTokens += int64(j.chunk)
		j.computed += j.chunk
		j.chunk = 0
		if j.leaving || j.computed < j.prompt+j.generated {
			continue
		}
		s.kv.publish(j, j.computed)
		if s.partial == j {
			s.partial = nil
		}
		j.generated++
		s.stats.OutputTokens++
		if j.generated == 1 {
			j.rec.First = s.at
			s.tell(j, First, s.at, 1)
		} else if j.wake < len(j.req.Wake) && j.req.Wake[j.wake] == j.generated {
			j.wake++
			s.tell(j, Token, s.at, j.generated)
		}
		s.parts[i] = nil
		if j.generated == j.req.Output {
			s.finish(j)
			continue
		}
		s.join(j)
	}
	s.chunks, s.parts = s.chunks[:0], s.parts[:0]
}

// join makes j one of those that get a token each step.
func (s *Server) join(j *Job) {
	j.rec.State = Decoding
	j.joined = s.step
	j.setDue()
	s.due.push(j)
	s.decoding++
	s.context += int64(j.prompt + j.generated)
	s.needs[j.phase()]++
}

// phase is the step count, mod 16, at which j's next token needs a new block.
func (j *Job) phase() int64 {
	return (j.joined - int64(j.prompt+j.generated-1)) & (BlockTokens - 1)
}

func (j *Job) setDue() {
	next := j.req.Output
	if j.wake < len(j.req.Wake) {
		next = min(next, j.req.Wake[j.wake])
	}
	j.due = j.joined + int64(next-j.generated)
}

// leaveDecoding is the opposite of join.
func (s *Server) leaveDecoding(j *Job) {
	s.needs[j.phase()]--
	j.generated += int(s.step - j.joined)
	s.context -= int64(j.prompt + j.generated)
	s.decoding--
	s.due.remove(j)
	j.computed = j.prompt + j.generated - 1
}

// endDue tells about tokens that somebody waits for, and lets the finished go.
func (s *Server) endDue() {
	for len(s.due) > 0 && s.due[0].due == s.step {
		j := s.due[0]
		token := j.generated + int(s.step-j.joined)
		if j.wake < len(j.req.Wake) && j.req.Wake[j.wake] == token {
			j.wake++
			if token < j.req.Output {
				s.tell(j, Token, s.at, token)
			}
		}
		if token < j.req.Output {
			j.setDue()
			s.due.down(j)
			continue
		}
		s.leaveDecoding(j)
		s.finish(j)
	}
}

func (s *Server) finish(j *Job) {
	s.running.remove(j)
	s.kv.release(j, j.computed, false)
	j.rec.State, j.rec.Ended, j.rec.Output = Finished, s.at, j.generated
	s.stats.Finished++
	s.tell(j, Done, s.at, j.generated)
}

// endLeaving lets the cancelled go.
func (s *Server) endLeaving() {
	for i, j := range s.leaving {
		s.leaving[i] = nil
		if s.partial == j {
			s.partial = nil
		}
		if j.place >= 0 && j.place < len(s.due) && s.due[j.place] == j {
			s.leaveDecoding(j)
		}
		s.running.remove(j)
		s.kv.release(j, j.computed, false)
	}
	s.leaving = s.leaving[:0]
}

// schedule makes up the next step, and counts how many can follow that are like
// it.
func (s *Server) schedule() {
	s.active = false
	s.blocked = false
	preempted := false
	if s.needs[s.step%BlockTokens] <= s.kv.free {
		s.takeBlocks(s.step)
	} else {
		preempted = s.makeRoom()
	}
	budget := s.opts.BatchedTokens - s.decoding
	if j := s.partial; j != nil {
		n := min(budget, j.prompt+j.generated-j.computed)
		if more := blocksOf(j.computed+n) - blocksOf(j.computed); more <= s.kv.free {
			s.kv.take(more)
			s.addChunk(j, n)
			budget -= n
		} else {
			s.preempt(j)
			preempted = true
		}
	}
	for (!preempted || s.running.n == 0) && budget > 0 && s.waiting.n > 0 {
		n := s.admit(budget)
		if n == 0 {
			s.blocked = true
			break
		}
		budget -= n
	}
	if s.running.n == 0 {
		return
	}
	s.active = true
	s.limit = 1
	if len(s.chunks) > 0 {
		s.mixed = s.cost.mixed(Step{s.decoding, int(s.context), s.chunks})
	} else if !s.opts.Stepping && !preempted {
		s.limit = s.leap()
	}
}

// admit lets the head of the queue run, and returns for how many tokens of this
// step; 0 if it has to wait.
func (s *Server) admit(budget int) int {
	j := s.waiting.first
	if s.running.n >= s.opts.MaxSeqs {
		return 0
	}
	shared, own := s.kv.find(j)
	cached := (shared + own) * BlockTokens
	all := j.prompt + j.generated
	n := min(budget, all-cached)
	if !s.kv.fits(j, cached+n, shared, own) {
		return 0
	}
	s.kv.admit(j, cached+n, shared, own)
	s.waiting.remove(j)
	s.running.pushBack(j)
	j.computed = cached
	j.place = -1
	s.stats.CachedTokens += int64(cached)
	j.rec.State = Prefilling
	if j.rec.Preempts == 0 {
		j.rec.Cached, j.rec.Admitted = cached, s.at
		s.tell(j, Admitted, s.at, 0)
	}
	s.addChunk(j, n)
	return n
}

// addChunk puts the next n tokens of a prompt into the step.
func (s *Server) addChunk(j *Job, n int) {
	s.chunks = append(s.chunks, Chunk{n, j.computed})
	s.parts = append(s.parts, j)
	j.chunk = n
	s.partial = nil
	if j.computed+n < j.prompt+j.generated {
		s.partial = j
	}
}

// makeRoom gives blocks to the running requests in their order while there are
// any, and preempts from the other end when there are none.
func (s *Server) makeRoom() (preempted bool) {
	for j := s.running.first; j != nil; j = j.next {
		if j.rec.State == Prefilling { // the last one; schedule looks at it
			break
		}
		if j.phase() != s.step%BlockTokens {
			continue
		}
		for s.kv.free == 0 {
			last := s.running.last
			s.preempt(last)
			preempted = true
			if last == j {
				return true
			}
		}
		s.kv.take(1)
	}
	return preempted
}

// preempt sends a running request back to the front of the queue.
func (s *Server) preempt(j *Job) {
	if j.rec.State == Decoding {
		s.leaveDecoding(j)
	}
	if s.partial == j {
		s.partial = nil
	}
	s.running.remove(j)
	s.kv.release(j, j.computed, s.opts.KeepPreempted)
	s.waiting.pushFront(j)
	j.rec.State = Waiting
	j.rec.Preempts++
	s.stats.Preemptions++
	s.tell(j, Preempted, s.at, j.generated)
}

// longestLeap is how many steps a leap goes over at most; of very long steps it is
// fewer, see StepTime.leap.
const longestLeap = 4096

// leap returns after how many steps there is something to tell or to decide.
func (s *Server) leap() int64 {
	k := min(s.due[0].due-s.step, s.longest)
	// Blocks: the first step has its own; 16 steps take one for each sequence.
	b, free := int64(s.decoding), int64(s.kv.free)
	if k/BlockTokens*b+b <= free { // far from it
		return k
	}
	enough := free / b * BlockTokens
	free -= enough / BlockTokens * b
	for i := s.step + 1 + enough; enough < k; i++ {
		if free -= int64(s.needs[i%BlockTokens]); free < 0 {
			break
		}
		enough++
	}
	return min(k, enough+1)
}
