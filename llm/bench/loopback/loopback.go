// Package loopback measures what this machine and this client add to a figure by
// themselves: it asks a server of its own, over loopback, whose true times are
// known.
package loopback

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/quantile"
	"firstsound/llm"
	"firstsound/llm/bench"
	"firstsound/llm/record"
)

// The server's schedule: 50 tokens a second, as a model's.
const (
	first = 20 * time.Millisecond
	gap   = 20 * time.Millisecond
	// An answer has few chunks where few streams have to make enough requests, and
	// more where there are many: a second of many short answers has more requests
	// than any caller makes.
	few, short, long = 8, 5, 20
)

// How long and how far is tested.
const (
	asked    = 900 * time.Millisecond // with the streams that were asked for
	atMost   = 2 * time.Second        // no further round begins after it
	maxError = time.Millisecond       // P99 of the error with which streams are still taken
	maxTaken = 512
)

// A Result is what came of the test.
type Result struct {
	record.SelfTest
	// Takes is how many streams at once had a P99 of the error of up to 1 ms; 0 if
	// not even those did that were asked for. More says that more were not tried.
	Takes int
	More  bool
}

// Test asks with streams requests at once, then with ever more, for two to three
// seconds. connect returns a client of the service at url, which speaks OpenAI's
// dialect, and what closes it.
func Test(ctx context.Context, clock clocks.Clock, streams int, connect func(url string) (bench.Asker, func())) (Result, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Result{}, fmt.Errorf("self-test: %w", err)
	}
	s := &server{clock: clock, truth: map[string]time.Duration{}}
	h := &http.Server{Handler: s, Protocols: new(http.Protocols)}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	g, _ := clocks.NewGroup(ctx, clock)
	g.Go("self-test's server", func() error {
		h.Serve(l) // ends with the server
		return nil
	})
	asker, hangUp := connect("http://" + l.Addr().String() + "/v1")
	began := clock.Now()
	res, err := s.rounds(ctx, asker, streams, began)
	hangUp()
	h.Close()
	g.Wait() // it returns no error
	if err != nil {
		return Result{}, fmt.Errorf("self-test: %w", err)
	}
	return res, nil
}

// rounds asks with ever more streams.
func (s *server) rounds(ctx context.Context, asker bench.Asker, streams int, began time.Duration) (Result, error) {
	self, err := s.round(ctx, asker, streams, asked)
	if err != nil {
		return Result{}, err
	}
	res := Result{SelfTest: self}
	if self.TTFT99 > maxError {
		return res, nil
	}
	res.Takes = streams
	for n := max(4*streams, 32); ; n *= 4 {
		if n > maxTaken || s.clock.Now()-began > atMost {
			res.More = true
			return res, nil
		}
		next, err := s.round(ctx, asker, n, 0)
		if ctx.Err() != nil {
			return res, err
		}
		if err != nil || next.TTFT99 > maxError {
			return res, nil
		}
		res.Takes = n
	}
}

// round has n clients ask, each at least twice and then until the time is over.
// The first request of each makes its connection, and is not counted.
func (s *server) round(ctx context.Context, asker bench.Asker, n int, length time.Duration) (record.SelfTest, error) {
	test := record.SelfTest{Streams: n, Stamps: record.ByKernel}
	var mu sync.Mutex
	var errs []int64
	chunks := long
	if n < few {
		chunks = short
	}
	s.chunks.Store(int64(chunks))
	began := s.clock.Now()
	g, ctx := clocks.NewGroup(ctx, s.clock)
	for i := range n {
		g.Go("self-test's client", func() error {
			// Not all in one instant: no caller does that.
			if err := s.clock.SleepUntil(ctx, began+time.Duration(i)*gap*time.Duration(chunks)/time.Duration(n)); err != nil {
				return err
			}
			for k := 0; k < 2 || s.clock.Now()-began < length; k++ {
				id := fmt.Sprintf("self-%d-%d-%d", n, i, k)
				if k == 0 {
					id = connecting
				}
				a := asker.Do(ctx, llm.Request{RequestID: id, Attempt: 1, Params: llm.Params{Model: "self-test"}, Messages: []llm.Message{{Role: llm.User, Content: "?"}}}, nil)
				if a.Class != record.OK || a.TTFT == nil {
					return fmt.Errorf("a request over loopback ended as %s: %s", a.Class, a.Error)
				}
				mu.Lock()
				if k > 0 {
					errs = append(errs, int64(*a.TTFT-s.told(id)))
					test.Events += a.Events
					if a.Stamps != record.ByKernel {
						test.Stamps = a.Stamps
					}
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return test, err
	}
	slices.Sort(errs)
	for q, to := range map[float64]*time.Duration{0.5: &test.TTFT50, 0.99: &test.TTFT99, 1: &test.TTFTMax} {
		v, _ := quantile.Of(errs, q)
		*to = time.Duration(v)
	}
	return test, nil
}

// A server streams the same answer to everyone and remembers the true TTFT: from
// when the request was there to when the first content was written.
type server struct {
	clock  clocks.Clock
	chunks atomic.Int64 // of an answer
	mu     sync.Mutex
	truth  map[string]time.Duration
}

// connecting is the ID of requests that only make a connection: the answer is one
// chunk, at once.
const connecting = "self-connect"

// told returns the truth of a request, and forgets it.
func (s *server) told(id string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.truth[id]
	delete(s.truth, id)
	return d
}

// ServeHTTP answers a chat completion.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := s.clock.Now()
	io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	id := r.Header.Get("X-Request-Id")
	n, begin := int(s.chunks.Load()), arrived+first
	if id == connecting {
		n, begin = 1, arrived
	}
	for i := range n {
		if s.clock.SleepUntil(r.Context(), begin+time.Duration(i)*gap) != nil {
			return
		}
		if i == 0 && id != connecting {
			s.mu.Lock()
			s.truth[id] = s.clock.Now() - arrived
			s.mu.Unlock()
		}
		io.WriteString(w, event(`{"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`))
		out.Flush() // an error shows at the next event
	}
	io.WriteString(w, event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)+event("[DONE]"))
}

// event frames data for SSE.
func event(data string) string { return strings.Join([]string{"data: ", data, "\n\n"}, "") }
