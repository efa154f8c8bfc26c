package diagnosis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"firstsound/llm/record"
)

// A world is a service and a client, from which runs are drawn. Times are ms.
type world struct {
	base, sigma   float64 // TTFT at the server: median, and σ of its logarithm
	tail          float64 // share of the requests that are 2 to 8 times as slow
	perToken      float64 // of the prompt
	tpot          float64
	outLow        int // output tokens
	outHigh       int
	trip, connect float64 // round trip; set-up of a connection
	told          bool    // the server tells its TTFT
	protocol      string
	rise          float64 // by how much TTFT and TPOT grow from 1 to 20 at once
	remote        string
	early         bool // headers come before the prefill
	calls         bool // turns of calls instead of a benchmark

	// What is wrong: wait happens before the server's clock, ask within it.
	wait, ask func(s *sim, q *request) float64
	pool      func(s *sim, q *request) float64 // a wait for the connection
	fresh     func(s *sim, q *request) bool    // it opens a connection
	change    func(s *sim, q *request, a *record.Attempt)
	run       func(r *record.Run)
	rate      float64 // of the open loop, per second
	duration  float64 // of the open loop, ms
}

// A request is what is known before it is answered.
type request struct {
	at, due     float64
	phase       record.Phase
	level       int
	rate        float64
	size        int
	pause       float64
	warmup      bool
	n, k        int // of the run, of the part; from 0
	open        int
	prompt, out int
	session     int
	turn        int
}

type sim struct {
	*rand.Rand
	w        world
	attempts []*record.Attempt
	ends     []float64 // of those that are open
	slots    []float64 // when the server's places are free
	window   float64   // when the open window closes
	n        int
	last     float64
}

// healthy draws a world in which nothing is wrong.
func healthy(r *rand.Rand) world {
	w := world{
		base: 80 + 400*r.Float64(), sigma: 0.05 + 0.35*r.Float64(), perToken: 0.02 * r.Float64(), tpot: 7 + 20*r.Float64(),
		outLow: 14, outHigh: 40, trip: 2 + 40*r.Float64(), told: r.IntN(2) == 0, protocol: "HTTP/1.1", rise: 1 + 0.5*r.Float64(),
		remote: "203.0.113.7:443", rate: 1, duration: 45_000,
	}
	w.perToken *= w.base / 500
	w.connect = 1.5*w.trip + 2
	if r.IntN(2) == 0 {
		w.tail = 0.02
	}
	w.early = r.IntN(2) == 0
	if r.IntN(3) == 0 {
		w.protocol = "HTTP/2.0"
	}
	return w
}

func (s *sim) noise(sigma float64) float64 { return math.Exp(sigma * s.NormFloat64()) }

func d(ms float64) *time.Duration {
	t := time.Duration(ms * float64(time.Millisecond))
	return &t
}

// ask sends a request and returns when its answer has ended.
func (s *sim) ask(q request) float64 {
	w := &s.w
	q.n, q.open = s.n, 1
	s.n++
	s.ends = slices.DeleteFunc(s.ends, func(e float64) bool { return e <= q.at })
	q.open += len(s.ends)
	if q.prompt == 0 {
		q.prompt = 150 + s.IntN(200)
	}
	if q.size > 0 {
		q.prompt = q.size
	}
	q.out = w.outLow + s.IntN(w.outHigh-w.outLow+1)
	isNew := s.n == 1 || q.phase == record.NewConn || q.k < q.level && q.phase == record.Level && q.warmup
	if w.fresh != nil {
		isNew = w.fresh(s, &q)
	}
	a := &record.Attempt{
		RequestID: fmt.Sprintf("r-%d", q.n+1), Number: 1, Phase: q.phase, Level: q.level, AskedRate: q.rate, Warmup: q.warmup, PromptTarget: q.size,
		Pause: *d(q.pause), InFlight: q.open, Class: record.OK, Status: 200, Send: d(q.at), Protocol: w.protocol, Remote: w.remote, Stamps: record.ByKernel,
		PromptTokens: &q.prompt, OutputTokens: &q.out, TokenSource: record.ByUsage, Session: q.session, Turn: q.turn,
		TCP: &record.TCP{RTT: *d(w.trip), MinRTT: *d(w.trip * 0.9)}, LagMax: 200 * time.Microsecond, LagSum: time.Millisecond,
	}
	reused := !isNew
	a.Reused = &reused
	if q.rate > 0 {
		a.Due = d(q.due)
	}
	ready := q.at + 0.02
	if isNew {
		a.DNSStart, a.DNSDone, a.ConnectStart, a.ConnectDone = d(q.at), d(q.at+1), d(q.at+1), d(q.at+1+w.trip)
		ready += w.connect * s.noise(0.1)
	}
	if w.pool != nil {
		ready += w.pool(s, &q)
	}
	a.Connected, a.WroteRequest = d(ready), d(ready+0.05)
	load := 1 + (w.rise-1)*float64(min(q.open, 20)-1)/19
	server := (w.base*load + w.perToken*float64(q.prompt)) * s.noise(w.sigma)
	if s.Float64() < w.tail {
		server *= 2 + 6*s.Float64()
	}
	before := 0.0
	if w.wait != nil {
		before = w.wait(s, &q)
	}
	if w.ask != nil {
		server += w.ask(s, &q)
	}
	first := ready + before + server + w.trip*s.noise(0.05)
	a.Headers = d(first - 0.3)
	if w.early {
		a.Headers = d(ready + before + w.trip + 3)
	}
	a.FirstByte, a.FirstEvent, a.FirstRole = d(first-0.1), d(first-0.1), d(first-0.1)
	if w.told {
		a.Server = &record.Server{Source: "test", TTFT: d(server)}
	}
	pace := w.tpot * load * s.noise(0.08)
	at := first
	a.Chunks = make([]record.Chunk, q.out)
	for i := range a.Chunks {
		a.Chunks[i] = record.Chunk{At: *d(at), Lag: 100 * time.Microsecond, Chars: 4, Tokens: 1}
		at += pace * (0.6 + 0.8*s.Float64())
	}
	a.Events, a.Reads, a.Bytes = q.out+3, q.out+3, int64(250*(q.out+3))
	if w.change != nil {
		w.change(s, &q, a)
	}
	s.finish(a)
	end := ms(*a.End)
	s.ends = append(s.ends, end)
	s.attempts = append(s.attempts, a)
	s.last = max(s.last, end)
	return end
}

// finish fills in what follows from the chunks.
func (s *sim) finish(a *record.Attempt) {
	if a.Class != record.OK {
		if a.End == nil {
			a.End = &a.Chunks[len(a.Chunks)-1].At
		}
		return
	}
	first, last := a.Chunks[0].At, a.Chunks[len(a.Chunks)-1].At
	a.FirstToken, a.LastContent, a.FirstSpoken = &first, &last, &first
	segment := a.Chunks[min(len(a.Chunks)-1, 9)].At
	a.FirstSegment = &segment
	ttft, total, end := first-*a.Send, last-*a.Send, last+time.Millisecond
	a.TTFT, a.Total, a.End = &ttft, &total, &end
	if a.FirstByte == nil || *a.FirstByte > first {
		a.FirstByte, a.FirstEvent, a.FirstRole = &first, &first, &first
	}
	if n := len(a.Chunks); n > 1 && last > first {
		t := (last - first) / time.Duration(n-1)
		a.TPOT = &t
	}
}

// draw runs a world's benchmark, small: 5 warm-ups, 30 one at a time, 10 over
// new connections, 8 after pauses, 3 prompt sizes, an open loop, and 4 levels.
func draw(w world, r *rand.Rand) (record.Run, []*record.Attempt) {
	s := &sim{Rand: r, w: w}
	now := 0.0
	series := func(n, warm int, q request) {
		for k := range warm + n {
			q.at, q.k, q.warmup = now+q.pause, k, k < warm
			now = s.ask(q) + 5
		}
	}
	if w.calls {
		s.drawCalls()
	} else {
		series(30, 5, request{phase: record.Single, level: 1})
		series(10, 0, request{phase: record.NewConn, level: 1})
		series(8, 0, request{phase: record.IdleGap, level: 1, pause: 8000})
		for _, size := range []int{50, 500, 2000} {
			series(10, 0, request{phase: record.PromptSize, level: 1, size: size})
		}
		from, due := now+10, now+10
		for k := 0; due < from+w.duration; k++ {
			due += 1000 * r.ExpFloat64() / w.rate
			s.ask(request{at: due, due: due, phase: record.Rate, rate: w.rate, k: k})
		}
		for _, level := range []int{1, 5, 10, 20} {
			s.level(level)
		}
	}
	run := record.Run{Format: record.Format, CPUs: 2, State: record.Complete, Target: record.Target{URL: "https://llm.example/v1", Model: "m"},
		Resources: &record.Resources{Elapsed: time.Minute, CPU: 2 * time.Second, TimerLateP99: 200 * time.Microsecond}}
	if w.run != nil {
		w.run(&run)
	}
	r.Shuffle(len(s.attempts), func(i, j int) { s.attempts[i], s.attempts[j] = s.attempts[j], s.attempts[i] })
	return run, s.attempts
}

// level runs a closed loop: as many workers, warmed up with as many requests,
// not drained.
func (s *sim) level(level int) {
	next := make([]float64, level)
	for i := range next {
		next[i] = s.last + 100 + 0.2*float64(i)
	}
	for k := range level + 80 {
		i := 0
		for j := range next {
			if next[j] < next[i] {
				i = j
			}
		}
		next[i] = s.ask(request{at: next[i], phase: record.Level, level: level, k: k, warmup: k < level}) + 1
	}
}

// drawCalls runs 12 calls of 6 turns.
func (s *sim) drawCalls() {
	for c := range 12 {
		now := 1000 * float64(c)
		for t := range 6 {
			q := request{at: now, phase: record.Call, session: c + 1, turn: t + 1, prompt: 200 + 60*t}
			now = s.ask(q) + 6000 + 4000*s.Float64()
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
