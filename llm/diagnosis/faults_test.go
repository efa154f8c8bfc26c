package diagnosis

import (
	"math"
	"math/rand/v2"
	"time"

	"firstsound/llm/record"
)

// A fault is a world with something wrong in it, and the verdict that it must
// get. Others that it may get are its consequences.
type fault struct {
	name  string // of the test
	want  string
	also  string
	build func(r *rand.Rand) world
}

// with returns a healthy world after a change.
func with(change func(r *rand.Rand, w *world)) func(*rand.Rand) world {
	return func(r *rand.Rand) world {
		w := healthy(r)
		change(r, &w)
		return w
	}
}

// regroup moves the chunks from the one at from on to the time of the one that
// ends their group, 1 ms apart.
func regroup(a *record.Attempt, group int, apart time.Duration) {
	n := len(a.Chunks)
	for i := 0; i < n; i += group {
		j := min(i+group, n)
		at := a.Chunks[j-1].At
		for k := i; k < j; k++ {
			a.Chunks[k].At = at + time.Duration(k-i)*apart
		}
	}
	a.FirstByte, a.FirstEvent, a.FirstRole = nil, nil, nil
	a.Reads = (n + group - 1) / group
}

var faults = []fault{
	{"cold start, one request", "cold_start", "", with(func(r *rand.Rand, w *world) { // 10 to 100 times: aws-do-eks 88
		factor := 12 + 40*r.Float64()
		w.ask = func(_ *sim, q *request) float64 { return w.base * factor * float64(boolInt(q.n == 0)) }
	})},
	{"cold start, some requests", "cold_start", "", with(func(r *rand.Rand, w *world) {
		factor := 5 + 20*r.Float64()
		w.ask = func(s *sim, q *request) float64 { return w.base * factor * s.noise(0.2) * float64(boolInt(q.n < 4)) }
	})},
	{"first connection takes 600 ms", "cold_start", "", with(func(_ *rand.Rand, w *world) {
		w.base, w.pool = 250, func(_ *sim, q *request) float64 { return 600 * float64(boolInt(q.n == 0)) }
	})},
	{"start-up wave", "startup_wave", "", with(func(r *rand.Rand, w *world) { // 4 times: evalscope 1641
		w.ask = func(_ *sim, q *request) float64 {
			if q.phase == record.Level && q.k >= q.level && q.k < 2*q.level {
				return 3 * w.base
			}
			return 0
		}
	})},
	{"40 ms on half of the reused", "bimodal_40ms", "", with(func(r *rand.Rand, w *world) { // 2 and 40 ms: seastar 968
		w.base, w.sigma, w.tail, w.trip, w.connect, w.told = 8+4*r.Float64(), 0.2, 0.01, 1, 3, false
		w.rise = 1.2
		w.wait = func(s *sim, q *request) float64 {
			return (40 + 2*s.Float64()) * float64(boolInt(q.phase != record.NewConn && s.Float64() < 0.5))
		}
	})},
	{"40 ms on all of the reused", "bimodal_40ms", "", with(func(r *rand.Rand, w *world) { // 42 and 11 ms: pegainfer 23
		w.base, w.sigma, w.tail, w.trip, w.connect, w.told = 11, 0.25, 0.01, 1, 3, false
		w.rise = 1.2
		w.wait = func(s *sim, q *request) float64 {
			return (40 + 2*s.Float64()) * float64(boolInt(q.phase != record.NewConn))
		}
	})},
	{"batch window by the clock", "batch_window", "", with(func(r *rand.Rand, w *world) {
		period := max(150, w.base*0.9) * (1 + 0.6*r.Float64())
		w.told = false
		w.wait = func(s *sim, q *request) float64 { return period - math.Mod(q.at+w.trip/2, period) }
	})},
	{"batch window opened by a request", "batch_window", "", with(func(r *rand.Rand, w *world) { // our scenario: 250 ms
		length := max(150, w.base*0.7) * (1 + 0.6*r.Float64())
		w.told = false
		w.wait = func(s *sim, q *request) float64 {
			if q.at >= s.window {
				s.window = q.at + length
			}
			return s.window - q.at
		}
	})},
	{"two levels", "noisy_levels", "concurrency_storm", with(func(r *rand.Rand, w *world) { // R71: 300 ms and 2 s
		share := 0.15 + 0.3*r.Float64()
		w.base = 300
		w.ask = func(s *sim, _ *request) float64 {
			return 1700 * s.noise(w.sigma) * float64(boolInt(s.Float64() < share))
		}
	})},
	{"a neighbour's tail", "noisy_levels", "", with(func(r *rand.Rand, w *world) {
		w.base, w.sigma = 150, min(w.sigma, 0.3)
		w.ask = func(s *sim, _ *request) float64 {
			return (500 + 1500*s.Float64()) * float64(boolInt(s.Float64() < 0.12))
		}
	})},
	{"a proxy holds all", "proxy_buffering", "", with(func(r *rand.Rand, w *world) { // 22 -> 287 ms, one burst: c8s 140
		w.change = func(_ *sim, _ *request, a *record.Attempt) { regroup(a, len(a.Chunks), 200*time.Microsecond) }
		w.told = false
	})},
	{"a proxy holds 16 KB", "proxy_buffering", "slow_decoding", with(func(r *rand.Rand, w *world) { // 65 chunks: dstack 4269
		w.outLow, w.outHigh, w.told = 150, 260, false
		w.change = func(_ *sim, _ *request, a *record.Attempt) { regroup(a, 65, 100*time.Microsecond) }
	})},
	{"compression", "compression_buffering", "slow_decoding", with(func(r *rand.Rand, w *world) { // 2 or 3 bursts: ruby_llm 771
		w.told = false
		w.change = func(_ *sim, _ *request, a *record.Attempt) {
			regroup(a, (len(a.Chunks)+2)/(2+boolInt(len(a.Chunks) > 30)), 100*time.Microsecond)
			a.Header = map[string]string{"content-encoding": "gzip"}
		}
	})},
	{"content filter in groups", "content_filter_bursts", "slow_decoding", with(func(r *rand.Rand, w *world) { // 2 s: vercel/ai 1066
		w.outLow, w.outHigh = 60, 90
		w.change = func(s *sim, _ *request, a *record.Attempt) {
			regroup(a, 20, 2*time.Millisecond)
			for i := range a.Chunks {
				a.Chunks[i].At += time.Duration(i/20) * time.Duration(1600+100*s.Float64()) * time.Millisecond
			}
			a.Reads = len(a.Chunks)
		}
		w.told = false
	})},
	{"content filter's stalls", "content_filter_bursts", "slow_decoding", with(func(r *rand.Rand, w *world) {
		w.outLow, w.outHigh = 30, 60
		w.change = func(s *sim, _ *request, a *record.Attempt) {
			for i := range a.Chunks {
				a.Chunks[i].At += time.Duration(i/8) * time.Duration(1900+200*s.Float64()) * time.Millisecond
			}
		}
	})},
	{"fake streaming, role early", "fake_streaming", "", with(func(r *rand.Rand, w *world) { // kekzl/imp 754
		w.told = false
		w.change = func(_ *sim, _ *request, a *record.Attempt) {
			early := a.FirstRole
			regroup(a, len(a.Chunks), time.Millisecond)
			*early = *a.Connected + 20*time.Millisecond
			a.FirstRole, a.FirstEvent, a.FirstByte = early, early, early
			a.Reads = a.Events
		}
	})},
	{"fake streaming, event by event", "fake_streaming", "", with(func(r *rand.Rand, w *world) {
		w.told = false
		w.change = func(_ *sim, _ *request, a *record.Attempt) {
			regroup(a, len(a.Chunks), time.Millisecond)
			a.Reads = a.Events
		}
	})},
	{"prefill growth", "prefill_growth", "", with(func(r *rand.Rand, w *world) { // 0.34 ms a token: d-inference 237
		w.perToken = 0.34
		w.base = min(w.base, 300)
	})},
	{"prefill growth with a knee", "prefill_growth", "", with(func(r *rand.Rand, w *world) { // 100 ms under 400 tokens: vllm 7635
		w.base, w.perToken = 100, 0
		w.ask = func(s *sim, q *request) float64 { return 0.3 * max(0, float64(q.prompt-400)) * s.noise(0.1) }
	})},
	{"prefix cache, told", "prefix_cache", "", with(func(r *rand.Rand, w *world) {
		w.change = func(_ *sim, q *request, a *record.Attempt) { n := q.prompt * 8 / 10; a.CachedTokens = &n }
	})},
	{"prefix cache, by the times", "prefix_cache", "cold_start", with(func(r *rand.Rand, w *world) { // vllm 54227: 49 times
		w.ask = func(_ *sim, q *request) float64 {
			cold := q.n == 0 || q.phase == record.PromptSize && q.k == 0
			return w.base * 8 * float64(boolInt(cold))
		}
	})},
	{"queue in an open loop", "queueing", "", with(func(r *rand.Rand, w *world) { // GuideLLM's over-saturation
		w.slots(1)
		ask, change := w.ask, w.change
		w.ask = func(s *sim, q *request) float64 { return ask(s, q) * float64(boolInt(q.phase == record.Rate)) }
		w.change = func(s *sim, q *request, a *record.Attempt) {
			if q.phase == record.Rate {
				change(s, q, a)
			}
		}
		w.rate = 1.5 * 1000 / (w.base + 27*w.tpot) // half as much again as it can serve
	})},
	{"queue of three places", "queueing", "concurrency_storm noisy_levels", with(func(r *rand.Rand, w *world) {
		w.slots(3)
		w.told = false
	})},
	{"storm", "concurrency_storm", "queueing decode_contention", with(func(r *rand.Rand, w *world) {
		w.slots(4)
		w.change = func(s *sim, q *request, a *record.Attempt) {
			stretch(a, 1+0.1*float64(q.open))
			s.leave(a)
		}
	})},
	{"slow tokens under load", "decode_contention", "slow_decoding", with(func(r *rand.Rand, w *world) {
		w.change = func(_ *sim, q *request, a *record.Attempt) { stretch(a, 1+0.1*float64(q.open-1)) }
	})},
	{"slow tokens", "slow_decoding", "", with(func(r *rand.Rand, w *world) { w.tpot, w.base = 75, 250 })},
	{"a pool of 8", "client_limit", "concurrency_storm", with(func(r *rand.Rand, w *world) { // gpustack 1842
		w.pool = func(s *sim, q *request) float64 {
			if q.open <= 8 {
				return 0
			}
			return w.base * 0.4 * float64(q.open-8)
		}
	})},
	{"late sends", "client_limit", "", with(func(r *rand.Rand, w *world) { // vllm 21104, evalscope 1367
		w.rate = 4
		w.change = func(_ *sim, q *request, a *record.Attempt) {
			if q.rate > 0 {
				*a.Due -= time.Duration(q.k) * 20 * time.Millisecond
			}
		}
	})},
	{"client late at reading", "client_limit", "", with(func(r *rand.Rand, w *world) { // endpoints 71
		w.change = func(s *sim, q *request, a *record.Attempt) {
			a.LagMax = time.Duration((60 + w.base/3*s.Float64()) * float64(time.Millisecond))
		}
	})},
	{"client TTFT rises, server's does not", "client_limit", "concurrency_storm queueing client_server_mismatch", with(func(r *rand.Rand, w *world) { // aiperf 1424
		w.told = true
		w.wait = func(s *sim, q *request) float64 { return w.base * 0.2 * float64(q.open-1) * s.noise(0.2) }
	})},
	{"47 and 16 ms", "client_server_mismatch", "", with(func(r *rand.Rand, w *world) { // evalscope 408
		w.told = true
		w.trip, w.connect = 5, 10
		w.wait = func(s *sim, q *request) float64 { return 1.9 * w.base * s.noise(0.1) }
	})},
	{"a connection for each", "connection_per_request", "slow_connect", with(func(r *rand.Rand, w *world) { // wally 80: 541 ms TLS
		w.connect = 150 + 400*r.Float64()
		w.fresh = func(*sim, *request) bool { return true }
	})},
	{"connections die when idle", "idle_reconnect", "slow_connect", with(func(r *rand.Rand, w *world) { // uvicorn, 5 s
		w.connect = 120
		w.fresh = func(s *sim, q *request) bool { return q.n == 0 || q.pause > 5000 || q.phase == record.NewConn }
	})},
	{"connections die between turns", "idle_reconnect", "connection_per_request slow_connect", with(func(r *rand.Rand, w *world) {
		w.connect, w.calls = 150, true
		w.fresh = func(*sim, *request) bool { return true }
	})},
	{"far away", "slow_connect", "cold_start", with(func(r *rand.Rand, w *world) { w.trip, w.connect = 120, 380 })},
	{"HTTP/2 window", "http2_window", "decode_contention", with(func(r *rand.Rand, w *world) { // everruns 584
		w.protocol = "HTTP/2.0"
		w.change = func(s *sim, q *request, a *record.Attempt) {
			if q.open >= 10 && s.Float64() < 0.5 {
				from := 3 + s.IntN(len(a.Chunks)-4)
				for i := from; i < len(a.Chunks); i++ {
					a.Chunks[i].At += time.Duration(400+600*s.Float64()) * time.Millisecond / 1
				}
				a.Chunks[len(a.Chunks)-1].At += time.Second
			}
		}
	})},
	{"retries after 1 s", "hidden_retries", "noisy_levels", with(func(r *rand.Rand, w *world) { // gpustack 1677
		w.told = false
		w.base, w.sigma = min(w.base, 250), min(w.sigma, 0.25)
		w.wait = func(s *sim, _ *request) float64 { return 1000 * float64(boolInt(s.Float64() < 0.12)) }
	})},
	{"retries that the server does not count", "hidden_retries", "client_server_mismatch", with(func(r *rand.Rand, w *world) {
		w.told = true
		w.wait = func(s *sim, _ *request) float64 {
			return (450 + 500*s.Float64()) * float64(boolInt(s.Float64() < 0.08))
		}
	})},
	{"429 with Retry-After", "refused", "", with(func(r *rand.Rand, w *world) {
		w.change = func(s *sim, q *request, a *record.Attempt) {
			if s.Float64() < 0.1 {
				a.Class, a.Status, a.RetryAfter, a.End = record.HTTPError, 429, time.Second, d(q.at+20)
			}
		}
	})},
	{"retrieval before the request", "work_before_first_token", "", with(func(r *rand.Rand, w *world) {
		w.calls, w.base = true, 250
		w.change = func(s *sim, q *request, a *record.Attempt) { a.Due = d(q.at - 700*s.noise(0.3)) }
	})},
	{"reasoning before the answer", "work_before_first_token", "", with(func(r *rand.Rand, w *world) { // aisix 276
		w.change = func(_ *sim, q *request, a *record.Attempt) {
			a.FirstReasoning = d(q.at + 0.2*(ms(a.Chunks[0].At)-q.at))
		}
	})},
	{"loopback", "loopback_target", "", with(func(r *rand.Rand, w *world) { w.remote = "127.0.0.1:8000" })},
	{"half refused in 5 ms", "failures_fast", "", with(func(r *rand.Rand, w *world) { // InferenceX 357
		w.change = func(s *sim, q *request, a *record.Attempt) {
			if s.Float64() < 0.5 {
				a.Class, a.Status, a.End = record.HTTPError, 503, d(q.at+5)
			}
		}
	})},
	{"a tenth times out", "failures", "", with(func(r *rand.Rand, w *world) { // guidellm 444
		w.change = func(s *sim, q *request, a *record.Attempt) {
			if s.Float64() < 0.1 {
				a.Class, a.Status, a.End = record.Timeout, 0, d(q.at+10_000)
			}
		}
	})},
	{"streams break off", "truncated_streams", "", with(func(r *rand.Rand, w *world) { // vllm 54628
		w.change = func(s *sim, q *request, a *record.Attempt) {
			if s.Float64() < 0.06 {
				a.Class = record.Truncated
			}
		}
	})},
}

// slots lets the server work on n requests at once.
func (w *world) slots(n int) {
	w.ask = func(s *sim, q *request) float64 {
		if s.slots == nil {
			s.slots = make([]float64, n)
		}
		i := s.freeSlot()
		return max(0, s.slots[i]-q.at)
	}
	w.change = func(s *sim, _ *request, a *record.Attempt) { s.leave(a) }
}

// freeSlot returns the place that is free first.
func (s *sim) freeSlot() int {
	i := 0
	for j := range s.slots {
		if s.slots[j] < s.slots[i] {
			i = j
		}
	}
	return i
}

// leave keeps the place until the answer ends.
func (s *sim) leave(a *record.Attempt) { s.slots[s.freeSlot()] = ms(a.Chunks[len(a.Chunks)-1].At) }

// stretch makes the tokens slower.
func stretch(a *record.Attempt, by float64) {
	first := a.Chunks[0].At
	for i := range a.Chunks {
		a.Chunks[i].At = first + time.Duration(float64(a.Chunks[i].At-first)*by)
	}
}
