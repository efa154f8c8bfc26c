package serverside_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm"
	"firstsound/llm/llmmock"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/serverside"
	"firstsound/llm/wire"
)

// What the mock server writes is read and joined.
func TestMockTruth(t *testing.T) {
	var b bytes.Buffer
	w, err := llmmock.NewWriter(&b, time.Unix(1_800_000_000, 5))
	if err != nil {
		t.Fatal(err)
	}
	done, queue := 300*time.Millisecond, 20*time.Millisecond
	w.Write(llmmock.Truth{RequestID: "a", Arrived: time.Millisecond, Chunks: []time.Duration{201 * time.Millisecond, 250 * time.Millisecond},
		Done: &done, Queue: &queue, PromptTokens: 9, Tokens: 2, Status: 200})
	w.Write(llmmock.Truth{RequestID: "b", Arrived: 2 * time.Millisecond, Status: 429})
	log, err := serverside.Read("truth", &b, serverside.Options{})
	if err != nil || log.Format != serverside.Truth || len(log.Entries) != 2 || log.Unknown != 0 {
		t.Fatalf("%+v, %v", log, err)
	}
	sent, first, end := time.Duration(0), 202*time.Millisecond, 301*time.Millisecond
	a := &record.Attempt{RequestID: "a", Number: 1, Send: &sent, WroteRequest: &sent, FirstToken: &first, TTFT: &first, End: &end}
	r := serverside.Join([]*record.Attempt{a}, log)
	if r.Joined != 1 || r.Faults.N != 0 || r.NoAttempt.N != 1 {
		t.Errorf("%s", r)
	}
	if s := a.Server; s == nil || *s.TTFT != 200*time.Millisecond || *s.Queue != queue || *s.Total != 299*time.Millisecond || *s.OutputTokens != 2 ||
		*s.Arrived != 1_800_000_000_001_000_005 || s.Prefill != nil {
		t.Errorf("%+v", a.Server)
	}
	parts, ok := serverside.Split(a)
	if !ok || len(parts) != 4 || parts[1].Name != serverside.Network || parts[1].Took != 2*time.Millisecond || parts[3].Took != 180*time.Millisecond {
		t.Errorf("%+v", parts)
	}
}

// The client of this module asks the mock over loopback; what the mock wrote
// down and what its monitoring says then fit what the client saw.
func TestOverLoopback(t *testing.T) {
	clock := clocks.NewReal()
	opts := llmmock.Defaults()
	opts.First, opts.Between, opts.Tokens = random.Const(10*time.Millisecond), random.Const(time.Millisecond), llmmock.MustNumber("8")
	var b bytes.Buffer
	w, err := llmmock.NewWriter(&b, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	opts.Truth = w.Write
	mock, err := llmmock.New(clock, opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- mock.Serve(ctx, l, llmmock.Serving{}) }()

	scraper, err := serverside.NewScraper(clock, serverside.ScrapeOptions{URL: "http://" + l.Addr().String() + "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	scrape := func() record.Sample {
		s, err := scraper.Once(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := scrape()
	protocol, err := openai.New(openai.Options{URL: "http://" + l.Addr().String() + "/v1", Dialect: "vllm"})
	if err != nil {
		t.Fatal(err)
	}
	client := wire.New(clock, protocol, wire.Options{})
	const n = 20
	attempts := make([]*record.Attempt, n)
	var all sync.WaitGroup
	for i := range attempts {
		all.Go(func() {
			a := client.Do(ctx, llm.Request{RequestID: fmt.Sprintf("fs-%d", i), Attempt: 1, Params: llm.Params{Model: "m", MaxTokens: 8},
				Messages: []llm.Message{{Role: llm.User, Content: "Hello"}}}, nil)
			attempts[i] = &a
		})
	}
	all.Wait()
	after := scrape()
	// The mock counts a request after its last write, which the client may have
	// read by then.
	for tries := 0; after.Values["vllm:e2e_request_latency_seconds_count"] < n && tries < 10000; tries++ {
		after = scrape()
	}
	client.Close()
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	log, err := serverside.Read("truth", &b, serverside.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := serverside.Join(attempts, log)
	if r.Joined != n || r.Timed != n || r.Faults.N+r.NoEntry.N+r.NoAttempt.N != 0 {
		t.Errorf("%s %v", r, r.Faults)
	}
	for _, a := range attempts {
		parts, ok := serverside.Split(a)
		if !ok {
			t.Fatalf("%s: %s %s", a.RequestID, a.Class, a.Error)
		}
		sum := time.Duration(0)
		for _, p := range parts {
			sum += p.Took
		}
		if sum != *a.TTFT || *a.Server.TTFT < 10*time.Millisecond {
			t.Errorf("%v of %v: %+v", sum, *a.TTFT, parts)
		}
	}
	for _, m := range serverside.Means([]record.Sample{before, after}, n) {
		if m.Role != serverside.RoleITL && (m.Count != n || m.Mean == nil || m.Note != "") {
			t.Errorf("%+v", m)
		}
	}
}
