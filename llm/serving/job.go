package serving

import (
	"fmt"
	"time"
)

// A Request asks a server for tokens.
type Request struct {
	Prompt int // tokens, at least 1
	Output int // tokens until it stops, at least 1

	// Shared is the head of the prompt that many sessions have (the system
	// prompt). Session is the head of the prompt that this session's earlier
	// requests had or got as their answer, from the first token on, Shared
	// included: of a history that grows, all but the new message. The prefix
	// cache finds what is left of both, in full blocks.
	Shared, Session Span

	// Told is called with what happens, in order. It must not wait; it may call
	// the server. Nil: nobody listens.
	Told func(Event)

	// Wake are the output tokens, from 2 on and rising, at which Told is called
	// besides the first and the last. Waking costs an event, and moves nothing.
	Wake []int

	Tag int // the caller's own, for example which session it is
}

// Check says what is wrong with a request, whatever the server.
func (r *Request) Check() error {
	switch {
	case r.Prompt < 1 || r.Output < 1 || r.Prompt > maxTokens || r.Output > maxTokens:
		return fmt.Errorf("a prompt of %d tokens and an output of %d; both have to lie between 1 and %d", r.Prompt, r.Output, maxTokens)
	case r.Shared.Tokens < 0 || r.Shared.Tokens > r.Prompt || r.Session.Tokens < 0 || r.Session.Tokens > r.Prompt:
		return fmt.Errorf("spans of %d and %d tokens; they are heads of the prompt, which has %d", r.Shared.Tokens, r.Session.Tokens, r.Prompt)
	}
	last := 1
	for _, k := range r.Wake {
		if k <= last {
			return fmt.Errorf("wake at token %d after %d; they have to rise, from 2 on", k, last)
		}
		last = k
	}
	return nil
}

// maxTokens is the longest prompt and output: beyond any model's context.
const maxTokens = 1 << 24

// A Kind says what an Event tells.
type Kind int

const (
	Queued    Kind = iota // past the front end, into the waiting queue
	Admitted              // out of the queue: the first step with it begins, and so does its prefill
	First                 // its prefill has ended with its first token
	Token                 // a token of Wake
	Preempted             // put back into the queue; what it had is computed again
	Done                  // its last token. An output of one token brings First and Done
	Failed                // its server died
)

var kinds = [...]string{"queued", "admitted", "first", "token", "preempted", "done", "failed"}

func (k Kind) String() string { return kinds[k] }

// An Event is a moment in the life of a request.
type Event struct {
	Job   *Job
	Kind  Kind
	At    time.Duration // by the model; on a real clock the call comes a little later
	Token int           // of First, Token and Done: how many there are now
}

// A Record is what became of a request. A moment that has not come is 0, and
// the field before it tells: State says how far it got.
type Record struct {
	State    State
	Prompt   int
	Output   int // tokens so far
	Cached   int // tokens found in the prefix cache when it was first admitted
	Preempts int

	Arrived  time.Duration // submitted
	Queued   time.Duration // past the front end
	Admitted time.Duration // end of the queue, start of the prefill
	First    time.Duration // end of the prefill, first token
	Ended    time.Duration // last token, cancel or failure
}

// TTFT is the time to first token as a client sees it.
func (r Record) TTFT() time.Duration { return r.First - r.Arrived }

// E2E is the time to the last token.
func (r Record) E2E() time.Duration { return r.Ended - r.Arrived }

// TPOT is the mean time of a token after the first, in ns; NaN if there is none.
func (r Record) TPOT() float64 { return float64(r.Ended-r.First) / float64(r.Output-1) }

// A State is how far a request got.
type State int

const (
	Arriving   State = iota // in the front end
	Waiting                 // in the queue, perhaps again
	Prefilling              // its prompt is being computed
	Decoding                // it gets a token a step
	Finished                // it has all its tokens
	Cancelled               // by Cancel
	Dead                    // its server died
)

var states = [...]string{"arriving", "waiting", "prefilling", "decoding", "finished", "cancelled", "dead"}

func (s State) String() string { return states[s] }

// A Job is a request on a server.
type Job struct {
	server *Server
	req    Request
	id     uint64
	rec    Record

	prev, next *Job // in the queue or among the running
	ready      time.Duration

	prompt    int
	generated int // tokens out, as of step joined
	computed  int // tokens in the KV cache, while it is prefilling
	joined    int64
	due       int64 // the step count at which something is to be told
	place     int   // in the heap of the due
	wake      int   // next of req.Wake
	chunk     int   // tokens of it in the step under way
	known     int   // tokens that were computed before it was preempted
	leaving   bool  // cancelled, but in the step under way

	shared, own             *run // the prefixes that it holds
	sharedBlocks, ownBlocks int  // how much of them
}

// Tag returns the request's.
func (j *Job) Tag() int { return j.req.Tag }

// A jobList is a doubly linked list of jobs.
type jobList struct {
	first, last *Job
	n           int
}

func (l *jobList) pushBack(j *Job) {
	j.prev, j.next = l.last, nil
	if l.last != nil {
		l.last.next = j
	} else {
		l.first = j
	}
	l.last = j
	l.n++
}

func (l *jobList) pushFront(j *Job) {
	j.prev, j.next = nil, l.first
	if l.first != nil {
		l.first.prev = j
	} else {
		l.last = j
	}
	l.first = j
	l.n++
}

func (l *jobList) remove(j *Job) {
	if j.prev != nil {
		j.prev.next = j.next
	} else {
		l.first = j.next
	}
	if j.next != nil {
		j.next.prev = j.prev
	} else {
		l.last = j.prev
	}
	j.prev, j.next = nil, nil
	l.n--
}

// A dueHeap has on top the decoding job that something is to be told about
// first; of several, the one that came first.
type dueHeap []*Job

func (j *Job) sooner(k *Job) bool { return j.due < k.due || j.due == k.due && j.id < k.id }

func (h *dueHeap) push(j *Job) {
	j.place = len(*h)
	*h = append(*h, j)
	h.up(j)
}

func (h *dueHeap) remove(j *Job) {
	s := *h
	i, last := j.place, s[len(s)-1]
	s[len(s)-1] = nil
	*h = s[:len(s)-1]
	if last == j {
		return
	}
	last.place = i
	s[i] = last
	h.up(last)
	h.down(last)
}

func (h dueHeap) up(j *Job) {
	i := j.place
	for i > 0 {
		p := (i - 1) / 2
		if !j.sooner(h[p]) {
			break
		}
		h[i] = h[p]
		h[i].place = i
		i = p
	}
	h[i] = j
	j.place = i
}

func (h dueHeap) down(j *Job) {
	i := j.place
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].sooner(h[c]) {
			c++
		}
		if !h[c].sooner(j) {
			break
		}
		h[i] = h[c]
		h[i].place = i
		i = c
	}
	h[i] = j
	j.place = i
}
