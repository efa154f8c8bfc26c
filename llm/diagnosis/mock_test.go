package diagnosis_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/exchange"
	"firstsound/clocks/random"
	"firstsound/llm"
	"firstsound/llm/bench"
	"firstsound/llm/diagnosis"
	"firstsound/llm/llmmock"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// A mocked is a mock server with a fault, and the plan of a benchmark that has to
// find it.
type mocked struct {
	name, want string
	also       string
	faults     []string
	change     func(o *llmmock.Options)
	plan       func(o *bench.Options)
	client     func(o *exchange.Options)
	link       func(l *llmmock.Link)
	shared     bool // prompts have the same head
}

var mockedFaults = []mocked{
	{name: "none"},
	{name: "none, HTTP/2", client: func(o *exchange.Options) { o.Protocol = exchange.HTTP2 }},
	{name: "cold start", want: "cold_start", faults: []string{"cold_start:by=8s,n=3"}},
	{name: "wave", want: "startup_wave", faults: []string{"wave:by=250ms"}, plan: func(o *bench.Options) { o.Warmup = 0 },
		change: func(o *llmmock.Options) { o.Tokens = llmmock.MustNumber("uniform(150, 250)") }, also: "concurrency_storm queueing"},
	{name: "batch window", want: "batch_window", faults: []string{"batch_window:400ms"}, also: "prefill_growth"},
	{name: "delayed ACK", want: "bimodal_40ms", faults: []string{"delayed_ack"}, plan: func(o *bench.Options) { o.NewConnections = true },
		change: func(o *llmmock.Options) { o.First = random.MustParse("lognormal(11ms, 0.2)") }},
	{name: "retries", want: "hidden_retries", faults: []string{"retry_hidden:by=1s,p=0.12"}},
	{name: "prefill", want: "prefill_growth", faults: []string{"prefill_growth:by=340ms,knee=400"}, also: "work_before_first_token"},
	{name: "queue", want: "queueing", faults: []string{"queue:3"}, also: "concurrency_storm"},
	{name: "429", want: "refused", faults: []string{"status:code=429,retry_after=1s,p=0.1"}},
	{name: "503", want: "failures_fast", faults: []string{"status:code=503,after=5ms,p=0.5"}, also: "connection_per_request"},
	{name: "neighbour", want: "noisy_levels", faults: []string{"neighbour:every=12s,for=6s,x=6"}, also: "concurrency_storm"},
	{name: "filter", want: "content_filter_bursts", faults: []string{"filter_bursts:2s"}, also: "slow_decoding", change: func(o *llmmock.Options) { o.Tokens = llmmock.MustNumber("400") }},
	{name: "fake stream", want: "fake_streaming", faults: []string{"fake_stream"}},
	{name: "gzip", want: "compression_buffering", faults: []string{"gzip"}, client: func(o *exchange.Options) { o.Compress = true }},
	{name: "proxy, all", want: "proxy_buffering", faults: []string{"proxy_buffer"}},
	{name: "proxy, blocks", want: "proxy_buffering", also: "slow_decoding", faults: []string{"proxy_buffer:4KB"}, change: func(o *llmmock.Options) { o.Tokens = llmmock.MustNumber("120") }},
	{name: "truncated", want: "truncated_streams", faults: []string{"truncate:p=0.06"}},
	{name: "idle close", want: "idle_reconnect", faults: []string{"idle_close:5s", "connect:120ms"}, also: "slow_connect",
		plan: func(o *bench.Options) { o.Idle = []time.Duration{2 * time.Second, 8 * time.Second} }},
	{name: "no keep-alive", want: "connection_per_request", faults: []string{"no_keepalive"}, also: "slow_connect",
		link: func(l *llmmock.Link) { l.Connect = random.MustParse("normal(160ms, 10ms)") }},
	{name: "HTTP/2 window", want: "http2_window", faults: []string{"h2_stall:streams=15,for=500ms"}, client: func(o *exchange.Options) { o.Protocol = exchange.HTTP2 }},
	{name: "a pool of 5", want: "client_limit", also: "concurrency_storm", client: func(o *exchange.Options) { o.MaxConns = 5 }},
	{name: "prefix cache", want: "prefix_cache", shared: true, change: func(o *llmmock.Options) { o.PrefixCache = true }},
	{name: "reasoning", want: "work_before_first_token", change: func(o *llmmock.Options) { o.Reasoning = 60 }},
	{name: "slow tokens", want: "slow_decoding", change: func(o *llmmock.Options) { o.Between = random.MustParse("lognormal(75ms, 0.2)") }},
}

// measure runs a benchmark against the mock in a bubble: 5 + 40 requests one at a
// time, levels 1, 5 and 20 with 80 each, three prompt sizes with 10 each.
func (m mocked) measure(t *testing.T, seed uint64) (run record.Run, attempts []*record.Attempt) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		link := llmmock.Link{Connect: random.MustParse("normal(15ms, 2ms)"), Delay: random.MustParse("normal(4ms, 500us)"), Seed: seed}
		if m.link != nil {
			m.link(&link)
		}
		net := llmmock.Pipe(clock, link)
		o := llmmock.Defaults()
		o.Seed, o.Faults = seed, m.faults
		o.First, o.Between = random.MustParse("lognormal(247ms, 0.25)"), random.MustParse("lognormal(20ms, 0.2)")
		o.Tokens = llmmock.MustNumber("uniform(24, 48)")
		if m.change != nil {
			m.change(&o)
		}
		mock, err := llmmock.New(clock, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- mock.Serve(ctx, net, llmmock.Serving{HTTP2: true}) }()

		protocol, err := openai.New(openai.Options{URL: "http://mock", Dialect: "vllm"})
		if err != nil {
			t.Fatal(err)
		}
		eo := exchange.Options{Dial: net.Dial}
		if m.client != nil {
			m.client(&eo)
		}
		asker := wire.New(clock, protocol, wire.Options{Exchange: eo, Timeout: time.Minute})
		eo.NoReuse = true
		fresh := wire.New(clock, protocol, wire.Options{Exchange: eo, Timeout: time.Minute})
		plan := bench.Options{Warmup: 5, Single: 40, Levels: []int{1, 5, 20}, Requests: 80}
		if m.want == "prefill_growth" || m.want == "" {
			plan.PromptTokens = []int{50, 500, 2000}
		}
		if m.plan != nil {
			m.plan(&plan)
		}
		prompts, err := bench.NewPrompts(bench.PromptOptions{Language: "both", Count: llm.EstimateTokens, Nonce: seed, Shared: m.shared})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range plan.PromptTokens {
			if err := prompts.Prepare(n); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		r := &bench.Runner{Clock: clock, Asker: asker, Fresh: fresh, Parts: plan.Plan(), Prompts: prompts, Params: llm.Params{Model: "m", MaxTokens: 500},
			RunID: fmt.Sprintf("t%d", seed), Seed: seed, Grace: time.Second,
			Keep: func(_ int, a *record.Attempt) error {
				mu.Lock()
				defer mu.Unlock()
				attempts = append(attempts, a)
				return nil
			}}
		end := r.Run(ctx)
		if end.State != record.Complete {
			t.Errorf("the run is %s: %s", end.State, end.Reason)
		}
		asker.Close()
		fresh.Close()
		synctest.Wait()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		net.Wait()
		run = record.Run{Format: record.Format, State: end.State, CPUs: 2, Target: record.Target{URL: "http://mock", Model: "m"}}
	})
	return run, attempts
}

// TestMocksFaultsAreFound measures a mock that has one fault with the real
// client, once. Under the race detector three of them are enough.
func TestMocksFaultsAreFound(t *testing.T) {
	all := mockedFaults
	if clockstest.Race {
		all = slices.DeleteFunc(slices.Clone(all), func(m mocked) bool { return !slices.Contains([]string{"none", "gzip", "429"}, m.name) })
	}
	findMocked(t, all, 1)
}

// TestSoakMocksFaultsAreFound does so over 100 seeds, or FIRSTSOUND_SEEDS.
func TestSoakMocksFaultsAreFound(t *testing.T) {
	if os.Getenv("FIRSTSOUND_SOAK") == "" {
		t.Skip("takes minutes: FIRSTSOUND_SOAK=1")
	}
	seeds := 100
	if n := os.Getenv("FIRSTSOUND_SEEDS"); n != "" {
		if _, err := fmt.Sscan(n, &seeds); err != nil {
			t.Fatal(err)
		}
	}
	findMocked(t, mockedFaults, seeds)
}

// findMocked counts the runs in which a mock's fault is found, and those in which
// another fault is.
func findMocked(t *testing.T, all []mocked, seeds int) {
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			found, other := 0, 0
			wrong := map[string]int{}
			var last []diagnosis.Verdict
			for seed := range seeds {
				run, attempts := m.measure(t, uint64(seed+1))
				last = diagnosis.Find(run, attempts, nil)
				strange := false
				for _, v := range last {
					switch {
					case v.Name == m.want:
						found++
					case v.Severity == diagnosis.Fault && !slices.Contains(strings.Fields(m.also), v.Name) || m.want == "":
						strange = true
						wrong[v.Name]++
					}
				}
				if strange {
					other++
				}
			}
			t.Logf("%-16s %-24s found in %d of %d, others in %d %v", m.name, m.want, found, seeds, other, wrong)
			if m.want != "" && found*100 < 95*seeds || other*20 > seeds {
				var b strings.Builder
				if err := diagnosis.WriteText(&b, last, 120); err != nil {
					t.Fatal(err)
				}
				t.Errorf("%s is found in %d of %d runs, others in %d: %v\n%s", m.want, found, seeds, other, wrong, b.String())
			}
		})
	}
}
