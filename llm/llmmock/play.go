package llmmock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/llm/serving"
)

// A gate is an event that a plan waits for: see When.
type gate struct {
	number int
	at     time.Duration
	died   bool // the modelled server did
}

// A player writes the answer to one request.
type player struct {
	s        *Server
	a        *ask
	service  service
	plan     *Plan
	renderer renderer
	writes   []Write
	arrived  time.Duration
	known    int // bytes of the prompt's head that were seen before

	w     http.ResponseWriter
	rc    *http.ResponseController
	ctx   context.Context
	conn  *conn
	alone bool // on conn: not with HTTP/2
	truth *Truth

	events *clocks.Queue[gate] // nil: all gates are known
	gates  []time.Duration     // that have opened
	alive  time.Duration       // when the next comment is due
	late   time.Duration
	lates  int64 // writes more than a millisecond late, of
	n      int64
	tokens int // that went out as text or reasoning

	mu   sync.Mutex // of what submit shares
	job  *serving.Job
	gone bool // nobody waits for the job
}

var errDied = errors.New("llmmock: the modelled server died")

// play writes the answer and tells the truth about it. It panics with
// http.ErrAbortHandler where the connection is to break.
func (x *player) play() {
	defer x.open()()
	end := x.writeAll()
	now := x.s.clock.Now()
	x.truth.Done = &now
	x.truth.Ended = end
	x.close()
	switch end {
	case WasReset:
		if strings.HasPrefix(x.truth.Protocol, "HTTP/1") { // of HTTP/2 it is the stream that is reset
			x.conn.reset()
		}
		panic(http.ErrAbortHandler)
	case WasAborted, Died:
		panic(http.ErrAbortHandler)
	}
}

// open begins with the request: gate 0 is open, and what opens the others is set
// going. It returns what ends it.
func (x *player) open() func() {
	s, p := x.s, x.plan
	x.gates = append(x.gates, x.arrived)
	x.alive = x.arrived + p.KeepAlive
	x.truth.Status = p.Status
	x.truth.Chunks, x.truth.ChunkSize = make([]time.Duration, 0, len(x.writes)), make([]int, 0, len(x.writes))
	if p.Status != http.StatusOK || s.fleet == nil && s.limit == nil {
		x.gates = append(x.gates, x.arrived+p.Start)
		s.metrics.move(0, 1)
		return func() { s.metrics.move(0, -1) }
	}
	x.events = clocks.NewQueue[gate](s.clock, "gates")
	s.metrics.move(1, 0)
	if s.limit != nil {
		s.limit.enter(x.events, max(x.arrived, s.clock.Now()))
		return func() {
			s.limit.leave(x.events, s.clock.Now())
			x.uncount()
		}
	}
	submit := s.clock.At(x.arrived+p.Start, x.submit)
	return func() {
		submit.Stop()
		x.mu.Lock()
		x.gone = true
		if x.job != nil {
			x.job.Cancel()
		}
		x.mu.Unlock()
		x.uncount()
	}
}

// uncount takes the request out of the gauges.
func (x *player) uncount() {
	if len(x.gates) > 1 {
		x.s.metrics.move(0, -1)
	} else {
		x.s.metrics.move(-1, 0)
	}
}

// submit gives the request to the modelled server.
func (x *player) submit() {
	s, a := x.s, x.a
	n := x.plan.Steps
	wake := make([]int, 0, max(0, n-1))
	for k := 2; k <= n; k++ {
		wake = append(wake, k)
	}
	of := func(bytes int) int { return a.prompt * bytes / max(1, len(a.text)) }
	key := func(text string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(text))
		return h.Sum64() | 1
	}
	job, err := s.fleet.Submit(serving.Request{
		Prompt: max(1, a.prompt), Output: max(1, n), Wake: wake,
		Shared:  serving.Span{Key: key(a.text[:a.head]) &^ 2, Tokens: of(a.head)},
		Session: serving.Span{Key: key(a.text[:min(len(a.text), a.head+4*block)]) | 2, Tokens: of(x.known)},
		Told: func(e serving.Event) {
			switch e.Kind {
			case serving.First, serving.Token, serving.Done:
				x.events.Put(gate{number: e.Token, at: e.At})
			case serving.Failed:
				x.events.Put(gate{at: e.At, died: true})
			}
		},
	})
	if err != nil {
		x.events.Put(gate{died: true})
		return
	}
	x.mu.Lock()
	x.job = job
	if x.gone {
		job.Cancel()
	}
	x.mu.Unlock()
}

// close fills in what is known at the end, and tells it.
func (x *player) close() {
	t, p := x.truth, x.plan
	if p.Status == http.StatusOK {
		x.learn()
	}
	t.Tokens = x.tokens
	if t.Ended == Complete && p.reason() != "" { // whose tool calls count as well
		t.Tokens = p.Usage.Output
	}
	slices.Sort(p.Faults)
	t.Fault = strings.Join(slices.Compact(p.Faults), ",")
	t.LateMax = x.late
	s := x.s
	s.mu.Lock()
	s.stats.Writes += x.n
	s.stats.Late += x.lates
	s.stats.LateMax = max(s.stats.LateMax, x.late)
	s.mu.Unlock()
	s.tell(t, p)
}

// learn puts the times of queue and prefill into the truth, as far as they are
// known by now.
func (x *player) learn() {
	t, p := x.truth, x.plan
	x.mu.Lock()
	job := x.job
	x.mu.Unlock()
	if job != nil {
		r := job.Record()
		if r.State >= serving.Prefilling && r.Admitted > 0 {
			queue := r.Admitted - r.Queued + p.Queue
			t.Queue = &queue
			t.CachedTokens, p.Usage.Cached = r.Cached, r.Cached
		}
		if r.First > 0 {
			prefill := r.First - r.Admitted
			t.Prefill = &prefill
		}
		return
	}
	if len(x.gates) < 2 || x.s.fleet != nil {
		return
	}
	queue := p.Queue
	if x.s.limit != nil {
		queue += x.gates[1] - x.arrived
	}
	t.Queue = &queue
	if len(t.Chunks) > 0 || len(t.Reasoning) > 0 {
		t.Prefill = &p.Prefill
	}
}

// writeAll writes everything at its moment.
func (x *player) writeAll() Ending {
	h := x.w.Header()
	for k, v := range x.plan.Header {
		h[k] = v
	}
	streams := x.a.stream && x.plan.Status == http.StatusOK
	switch {
	case streams:
		h.Set("Content-Type", x.renderer.contentType())
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	case x.plan.Status == http.StatusOK:
		h.Set("Content-Type", "application/json")
	default:
		h.Set("Content-Type", x.renderer.refused())
	}
	for i := range x.writes {
		w := &x.writes[i]
		if !w.Early && !w.Header {
			x.endAlive(w)
		}
		at, err := x.due(w.When)
		if err == nil {
			if w.late != nil {
				x.again(w)
			}
			err = x.wait(at)
		}
		if err == nil && len(w.Data) == 0 && !w.Header && w.End == 0 {
			continue
		}
		if err == nil {
			err = x.write(w, at)
		}
		if errors.Is(err, errDied) {
			return x.died()
		}
		if err != nil {
			return ClientGone
		}
		switch w.End {
		case Reset:
			return WasReset
		case Abort:
			return WasAborted
		case Hang:
			<-x.ctx.Done()
			return ClientGone
		}
	}
	return Complete
}

// endAlive ends the comments with the first write that is not early, once its
// moment is known.
func (x *player) endAlive(w *Write) {
	if x.plan.KeepAlive == 0 {
		return
	}
	at, err := x.due(w.When)
	if err == nil {
		err = x.comment(at)
	}
	x.plan.KeepAlive = 0
}

// due returns the moment of w, and waits for its gate.
func (x *player) due(w When) (time.Duration, error) {
	for len(x.gates) <= w.Gate {
		g, err := x.next()
		if err != nil {
			return 0, err
		}
		if g.died {
			return 0, errDied
		}
		if len(x.gates) == 1 {
			x.s.metrics.move(-1, 1)
		}
		at := g.at
		if x.s.limit != nil {
			at += x.plan.Start
		}
		for len(x.gates) <= g.number {
			x.gates = append(x.gates, at)
		}
	}
	return x.gates[w.Gate] + w.After, nil
}

// next waits for the next gate, and writes comments meanwhile.
func (x *player) next() (gate, error) {
	for {
		ctx, cancel := x.ctx, context.CancelFunc(func() {})
		if x.plan.KeepAlive > 0 {
			ctx, cancel = clocks.WithTimeout(x.ctx, x.s.clock, x.alive-x.s.clock.Now(), context.DeadlineExceeded)
		}
		g, ok := x.events.Get(ctx)
		cancel()
		if ok {
			return g, nil
		}
		if x.ctx.Err() != nil {
			return gate{}, context.Cause(x.ctx)
		}
		if err := x.comment(x.s.clock.Now()); err != nil {
			return gate{}, err
		}
	}
}

// comment writes the comments that are due up to a moment.
func (x *player) comment(until time.Duration) error {
	for x.plan.KeepAlive > 0 && x.alive <= until && x.service != ollamaChat && x.a.stream && x.plan.Status == http.StatusOK {
		if err := x.wait(x.alive); err != nil {
			return err
		}
		data := x.renderer.append(nil, &Piece{Kind: Comment, Text: x.s.dialect.comment}, nil)
		if err := x.write(&Write{Data: data}, x.alive); err != nil {
			return err
		}
		x.alive += x.plan.KeepAlive
	}
	if x.alive <= until { // nobody gets comments
		x.plan.KeepAlive = 0
	}
	return nil
}

func (x *player) wait(at time.Duration) error {
	if x.s.clock.Now() >= at {
		return x.ctx.Err()
	}
	return x.s.clock.SleepUntil(x.ctx, at)
}

// again renders what tells timings, now that they are known.
func (x *player) again(w *Write) {
	x.learn()
	t := timings{queue: x.truth.Queue, prefill: x.truth.Prefill}
	if n := len(x.truth.Chunks); n > 0 {
		decode := x.s.clock.Now() - x.truth.Chunks[0]
		t.decode = &decode
	}
	w.Data = nil
	for i := range w.late {
		w.Data = x.renderer.append(w.Data, &w.late[i], &t)
	}
}

// write writes w, whose moment was at.
func (x *player) write(w *Write, at time.Duration) error {
	began := x.s.clock.Now()
	first := x.truth.Headers == nil
	if first {
		if x.s.opts.ServerTiming && x.plan.Status == http.StatusOK {
			x.w.Header().Set("Server-Timing", x.serverTiming())
		}
		x.w.WriteHeader(x.plan.Status)
	}
	var err error
	if len(w.Data) > 0 {
		_, err = x.w.Write(w.Data)
	}
	if err == nil {
		err = x.rc.Flush()
	}
	now := began
	if x.alone {
		now = x.conn.writing(began)
	}
	if first {
		x.truth.Headers = &now
	}
	for _, p := range w.Parts {
		x.tokens += p.Tokens
		if p.Reasoning {
			x.truth.Reasoning = append(x.truth.Reasoning, now)
		} else {
			x.truth.Chunks = append(x.truth.Chunks, now)
			x.truth.ChunkSize = append(x.truth.ChunkSize, p.Tokens)
		}
	}
	if late := now - at; late >= 0 {
		x.n++
		x.late = max(x.late, late)
		if late > time.Millisecond {
			x.lates++
		}
	}
	return err
}

// serverTiming returns what is known of queue and prefill as W3C's Server-Timing.
func (x *player) serverTiming() string {
	x.learn()
	prefill := x.truth.Prefill
	if x.s.fleet == nil {
		prefill = &x.plan.Prefill
	}
	var parts []string
	for _, m := range []struct {
		name string
		d    *time.Duration
	}{{"queue", x.truth.Queue}, {"prefill", prefill}} {
		if m.d != nil {
			parts = append(parts, fmt.Sprintf("%s;dur=%.6f", m.name, ms(m.d)))
		}
	}
	return strings.Join(parts, ", ")
}

// died ends the answer of a modelled server that died: as an error while there is
// still a status to say so, as a broken connection afterwards.
func (x *player) died() Ending {
	if x.truth.Headers != nil {
		return Died
	}
	now := x.s.clock.Now()
	x.truth.Headers = &now
	x.truth.Status = http.StatusInternalServerError
	x.w.Header().Del("Content-Length")
	x.s.refuse(x.w, x.service, x.truth.Status, "the server died (simulated)")
	return Complete
}

// whole makes the one write of an answer that is no stream.
func (p *Plan) whole(r renderer) []Write {
	if p.Status != http.StatusOK {
		b := r.refusal(p.Status, p.Body)
		p.Header.Set("Content-Length", strconv.Itoa(len(b)))
		return []Write{{When: p.last(), Data: b}}
	}
	w := Write{When: p.last()}
	for i := range p.Pieces {
		e := &p.Pieces[i]
		switch e.Kind {
		case Reset, Abort, Hang:
			w.End = e.Kind
			return []Write{w}
		case Text:
			if e.visible() {
				w.Parts = append(w.Parts, Part{Tokens: e.Tokens})
			}
		}
	}
	w.Data = r.whole(p)
	p.Header.Set("Content-Length", strconv.Itoa(len(w.Data)))
	return []Write{w}
}
