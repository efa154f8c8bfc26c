package figures

import (
	"fmt"
	"math/rand/v2"
	"time"

	"firstsound/llm/record"
)

const msec = time.Millisecond

// A maker makes up the attempts of a run: always the same ones for a seed.
type maker struct {
	r    *rand.Rand
	n    int
	now  time.Duration
	each func(*record.Attempt)
}

// spread returns about d, skewed as latencies are.
func (m *maker) spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.2*m.r.ExpFloat64()))
}

// attempt makes up one attempt, which begins at a time.
func (m *maker) attempt(at time.Duration, phase record.Phase, ttft, gap time.Duration, tokens int) *record.Attempt {
	m.n++
	a := &record.Attempt{RequestID: fmt.Sprintf("r-%d", m.n), Number: 1, Phase: phase, Class: record.OK, Status: 200, FinishReason: "stop",
		Protocol: "HTTP/1.1", Reused: new(m.n > 1), Stamps: record.ByKernel, MaxTokens: 64, PromptSource: record.ByUsage, TokenSource: record.ByUsage}
	a.Send, a.WroteRequest = &at, new(at+msec/10)
	a.TCP = &record.TCP{RTT: 9 * msec, MinRTT: 8 * msec}
	if m.n == 1 {
		a.DNSStart, a.DNSDone = new(at), new(at+3*msec)
		a.ConnectStart, a.ConnectDone = new(at+3*msec), new(at+12*msec)
		a.TLSStart, a.TLSDone = new(at+12*msec), new(at+31*msec)
	}
	first := at + m.spread(ttft)
	t := first
	for i := range tokens {
		c := record.Chunk{At: t, Lag: m.spread(20 * time.Microsecond), Chars: 4, Tokens: 1}
		if i > 0 && m.r.IntN(20) == 0 {
			c.Earliest = new(t - msec)
		}
		a.LagMax, a.LagSum = max(a.LagMax, c.Lag), a.LagSum+c.Lag
		a.Chunks = append(a.Chunks, c)
		t += m.spread(gap)
	}
	last := a.Chunks[len(a.Chunks)-1].At
	a.FirstToken, a.LastContent, a.TTFT = &first, &last, new(first-at)
	a.FirstSegment = new(a.Chunks[min(7, len(a.Chunks)-1)].At)
	if tokens > 1 {
		a.TPOT = new((last - first) / time.Duration(tokens-1))
	} else {
		a.TPOTAbsent = "fewer than 2 tokens"
	}
	a.End, a.Total = new(last+2*msec), new(last+2*msec-at)
	a.OutputTokens, a.PromptTokens, a.CachedTokens = &tokens, new(412), new(128)
	m.now = max(m.now, *a.End)
	return a
}

// fail makes an attempt one that ended otherwise.
func fail(a *record.Attempt, class record.Class, status int) *record.Attempt {
	a.Class, a.Status, a.Chunks, a.TTFT, a.TPOT, a.FirstToken, a.OutputTokens = class, status, nil, nil, nil, nil, nil
	return a
}

// told lets the server have its word.
func told(a *record.Attempt, queue time.Duration) *record.Attempt {
	a.Server = &record.Server{Source: "vllm log", Queue: &queue, Prefill: new(*a.TTFT*7/10 - queue), TTFT: new(*a.TTFT * 7 / 10)}
	return a
}

// sampleRun makes up a run with everything in it.
func sampleRun(seed uint64, each func(*record.Attempt)) record.Run {
	m := &maker{r: rand.New(rand.NewPCG(seed, 1)), each: each}
	run := record.Run{Format: record.Format, Tool: "firstsound v0", Go: "go1.26.0", OS: "linux", Arch: "amd64", CPUs: 2, Clock: "real", State: record.Complete, Seed: seed,
		Command:  "firstsound bench llm --url https://api.example.com/v1 --model m-8b --concurrency 10 --rate 4",
		Target:   record.Target{URL: "https://api.example.com/v1", Dialect: "vllm", Model: "m-8b", Addresses: []string{"203.0.113.7:443"}},
		Fixed:    map[string]string{"max_tokens": "64", "stream": "true", "temperature": "0.7", "prompts": "built in, 中文和英文", "protocol": "HTTP/1.1"},
		Tester:   record.Tester{Place: "上海", Network: "wired"},
		SelfTest: &record.SelfTest{Streams: 10, Events: 500, TTFT50: 90 * time.Microsecond, TTFT99: 240 * time.Microsecond, TTFTMax: 400 * time.Microsecond, Stamps: record.ByKernel},
		Resources: &record.Resources{Elapsed: 100 * time.Second, CPU: 3 * time.Second, PeakRSS: 42 << 20, PeakGoroutines: 60, PeakOpenFiles: 30, PeakInFlight: 12,
			TimerLateP50: 60 * time.Microsecond, TimerLateP99: 200 * time.Microsecond, TimerLateMax: msec}}
	for i := range 45 {
		a := m.attempt(m.now, record.Single, 200*msec, 12*msec, 8+i%50)
		if i < 5 {
			a.Warmup, *a.TTFT = true, 4**a.TTFT
		}
		if i >= 5 {
			told(a, 2*msec)
		}
		each(a)
	}
	began := m.now
	for i := range 200 {
		a := m.attempt(began+time.Duration(i)*50*msec, record.Level, 420*msec, 19*msec, 8+i%50)
		a.Level, a.Warmup = 10, i < 10
		switch {
		case i%40 == 39:
			fail(a, record.HTTPError, 503)
		case i == 21:
			fail(a, record.Timeout, 0)
		case i >= 198:
			fail(a, record.Unfinished, 200)
		case i%2 == 0:
			told(a, 150*msec)
		}
		each(a)
	}
	run.Plan = append(run.Plan, record.Part{Phase: record.Level, Level: 10, Began: new(began), Ended: new(began + 10*time.Second)})
	began = m.now
	for i := range 60 {
		due := began + time.Duration(i)*250*msec
		a := m.attempt(due+time.Duration(i)*10*msec, record.Rate, 250*msec, 14*msec, 20)
		a.AskedRate, a.Due = 4, &due
		each(a)
	}
	for _, size := range []int{50, 500, 2000} {
		for range 12 {
			a := m.attempt(m.now, record.PromptSize, 100*msec+time.Duration(size)*200*time.Microsecond, 12*msec, 16)
			a.PromptTarget, a.PromptTokens = size, new(size+m.r.IntN(9))
			each(a)
		}
	}
	for session := range 12 {
		for turn := range 3 {
			a := m.attempt(m.now, record.Conversation, time.Duration(150+40*turn)*msec, 12*msec, 16)
			a.Session, a.Turn, a.PromptTokens = session+1, turn+1, new(400+90*turn)
			each(a)
		}
	}
	for range 12 {
		a := m.attempt(m.now, record.NewConn, 260*msec, 12*msec, 16)
		a.Reused, a.ConnectStart, a.ConnectDone = new(false), new(*a.Send), new(*a.Send+9*msec)
		each(a)
	}
	run.End = &m.now
	return run
}
