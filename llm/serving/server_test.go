package serving

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// even is a server whose step takes 10 ms, whatever is in it.
func even(change func(*Options)) Options {
	o := station(8, 10*ms)
	o.BatchedTokens, o.KVBlocks = 100, 1000
	if change != nil {
		change(&o)
	}
	return o
}

// A script is what callers do at certain times.
type script struct {
	t    testing.TB
	loop Loop
	s    *Server
	jobs []*Job
	got  []string
}

func newScript(t testing.TB, o Options) *script {
	p := &script{t: t}
	var err error
	if p.s, err = New(&p.loop, o); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *script) submit(at time.Duration, r Request) {
	i := len(p.jobs)
	p.jobs = append(p.jobs, nil)
	r.Tag = i
	r.Told = func(e Event) {
		text := fmt.Sprintf("%d %v %v", i, e.Kind, e.At)
		if e.Kind == Token {
			text += fmt.Sprintf(" #%d", e.Token)
		}
		if e.At != p.loop.now {
			text += fmt.Sprintf(" (told at %v)", p.loop.now)
		}
		p.got = append(p.got, text)
	}
	p.loop.At(at, func() {
		var err error
		if p.jobs[i], err = p.s.Submit(r); err != nil {
			p.t.Error(err)
		}
	})
}

func (p *script) want(want ...string) {
	p.t.Helper()
	p.loop.Run(forever)
	if !slices.Equal(p.got, want) {
		p.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(p.got, "\n  "), strings.Join(want, "\n  "))
	}
	audit(p.t, p.s)
}

func TestOneRequest(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.GPU.API = 3 * ms }))
	// A prompt of 250 tokens is three chunks of at most 100; its third step gives the first token.
	p.submit(5*ms, Request{Prompt: 250, Output: 4, Wake: []int{3}})
	p.want("0 queued 8ms", "0 admitted 8ms", "0 first 38ms", "0 token 58ms #3", "0 done 68ms")
	r := p.jobs[0].Record()
	if r.TTFT() != 33*ms || r.E2E() != 63*ms || r.TPOT() != 10e6 || r.Output != 4 || r.State != Finished {
		t.Errorf("%+v", r)
	}
}

func TestBatching(t *testing.T) {
	p := newScript(t, even(nil))
	p.submit(0, Request{Prompt: 50, Output: 4})
	p.submit(15*ms, Request{Prompt: 150, Output: 2}) // 99 tokens beside the decode at 20, and 51 at 30
	p.submit(16*ms, Request{Prompt: 40, Output: 1})  // 40 of the 48 that are left
	p.want("0 queued 0s", "0 admitted 0s", "0 first 10ms", "1 queued 15ms", "2 queued 16ms", "1 admitted 20ms",
		"2 admitted 30ms", "1 first 40ms", "2 first 40ms", "2 done 40ms", "0 done 40ms", "1 done 50ms")
}

func TestPlaces(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.MaxSeqs = 1 }))
	for range 3 {
		p.submit(0, Request{Prompt: 10, Output: 2})
	}
	p.want("0 queued 0s", "0 admitted 0s", "1 queued 0s", "2 queued 0s", "0 first 10ms", "0 done 20ms", "1 admitted 20ms",
		"1 first 30ms", "1 done 40ms", "2 admitted 40ms", "2 first 50ms", "2 done 60ms")
}

// What arrives in one call starts in one step; a batch window makes one of what
// arrives in its time.
func TestSubmitAllAndBatchWindow(t *testing.T) {
	p := newScript(t, even(nil))
	jobs, err := p.s.SubmitAll([]Request{{Prompt: 10, Output: 1}, {Prompt: 10, Output: 1}})
	if err != nil {
		t.Fatal(err)
	}
	p.want()
	if a, b := jobs[0].Record().Ended, jobs[1].Record().Ended; a != 10*ms || b != 10*ms {
		t.Errorf("ended at %v and %v", a, b)
	}
	p = newScript(t, even(func(o *Options) { o.BatchWindow = 50 * ms }))
	p.submit(5*ms, Request{Prompt: 10, Output: 1})
	p.submit(54*ms, Request{Prompt: 10, Output: 1})
	p.submit(55*ms, Request{Prompt: 10, Output: 1}) // the next window
	p.want("0 queued 55ms", "1 queued 55ms", "0 admitted 55ms", "1 admitted 55ms", "0 first 65ms", "0 done 65ms", "1 first 65ms", "1 done 65ms",
		"2 queued 105ms", "2 admitted 105ms", "2 first 115ms", "2 done 115ms")
}

// The front end takes one request at a time, and passes each on later.
func TestFrontEnd(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.GPU.API, o.GPU.SerialAPI = 20*ms, 4*ms }))
	for i := range 3 {
		p.submit(time.Duration(i)*ms, Request{Prompt: 10, Output: 1})
	}
	p.want("0 queued 24ms", "0 admitted 24ms", "1 queued 28ms", "2 queued 32ms", "0 first 34ms", "0 done 34ms",
		"1 admitted 34ms", "2 admitted 34ms", "1 first 44ms", "1 done 44ms", "2 first 44ms", "2 done 44ms")
}

// 4 blocks: two requests of 17 to 32 tokens fill them; the second needs a third
// block at token 33, and there is none.
func TestPreemption(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.KVBlocks = 4; o.NoPrefixCache = true }))
	p.submit(0, Request{Prompt: 31, Output: 4})     // needs its third block for the step at 20 ms
	p.submit(1*ms, Request{Prompt: 20, Output: 5})  // admitted at 10 ms
	p.submit(22*ms, Request{Prompt: 10, Output: 1}) // has to wait behind the preempted one
	p.want("0 queued 0s", "0 admitted 0s", "1 queued 1ms", "0 first 10ms", "1 admitted 10ms", "1 first 20ms",
		"1 preempted 20ms", "2 queued 22ms", // no place for its 2 blocks beside 3
		"0 done 40ms", "2 admitted 40ms", "2 first 50ms", "2 done 50ms", "1 done 80ms")
	if r := p.jobs[1].Record(); r.Preempts != 1 || r.Output != 5 || r.Admitted != 10*ms {
		t.Errorf("%+v", r)
	}
	// Computed: 31 + 20 + 10 prompts, and 20 + 1 again.
	if st := p.s.Stats(); st.PromptTokens != 82 || st.OutputTokens != 10 || st.Preemptions != 1 || st.KVFree != 4 {
		t.Errorf("%+v", st)
	}
}

func TestCancel(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.MaxSeqs = 1; o.GPU.API = ms }))
	cancel := func(at time.Duration, i int) { p.loop.At(at, func() { p.jobs[i].Cancel() }) }
	p.submit(0, Request{Prompt: 10, Output: 100})
	p.submit(0, Request{Prompt: 10, Output: 100})
	p.submit(0, Request{Prompt: 500, Output: 100})
	p.submit(0, Request{Prompt: 10, Output: 2})
	p.submit(90*ms, Request{Prompt: 10, Output: 2})
	cancel(35*ms, 0)                 // while it decodes: gone at the end of the step, 41 ms
	cancel(36*ms, 1)                 // in the queue
	cancel(62*ms, 2)                 // in its prefill
	cancel(90*ms+500_000, 4)         // in the front end
	cancel(200*ms, 3)                // long done
	cancel(35*ms+time.Nanosecond, 0) // again
	p.want("0 queued 1ms", "1 queued 1ms", "2 queued 1ms", "3 queued 1ms", "0 admitted 1ms", "0 first 11ms", "2 admitted 41ms", "3 admitted 71ms", "3 first 81ms", "3 done 91ms")
	for i, want := range []struct {
		s      State
		output int
		ended  time.Duration
	}{{Cancelled, 3, 35 * ms}, {Cancelled, 0, 36 * ms}, {Cancelled, 0, 62 * ms}, {Finished, 2, 91 * ms}, {Cancelled, 0, 90*ms + 500_000}} {
		if r := p.jobs[i].Record(); r.State != want.s || r.Output != want.output || r.Ended != want.ended {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// A callback may submit and cancel; what it cancels is told nothing more.
func TestCallbacksCallBack(t *testing.T) {
	var loop Loop
	s, err := New(&loop, even(nil))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var second *Job
	s.SubmitAll([]Request{
		{Prompt: 10, Output: 3, Told: func(e Event) {
			if e.Kind == First {
				second.Cancel()
				s.Submit(Request{Prompt: 10, Output: 1, Told: func(e Event) { got = append(got, fmt.Sprint("new ", e.Kind, e.At)) }})
			}
		}},
		{Prompt: 10, Output: 3, Told: func(e Event) {
			second = e.Job
			got = append(got, fmt.Sprint("second ", e.Kind, e.At))
		}},
	})
	loop.Run(forever)
	if want := []string{"second queued 0s", "second admitted 0s", "new queued 10ms", "new admitted 20ms", "new first 30ms", "new done 30ms"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A session's history is in the prefix cache, in full blocks, and one token at
// least is computed.
func TestPrefixCache(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.KVBlocks = 40; o.BatchedTokens = 1000 }))
	session := func(at time.Duration, key uint64, prompt, output, known int) {
		p.submit(at, Request{Prompt: prompt, Output: output, Shared: Span{1, 50}, Session: Span{key, known}})
	}
	s := time.Second
	session(0, 2, 100, 60, 0)     // nothing is there
	session(1*s, 3, 100, 20, 0)   // another session: 48 of the 50 shared
	session(2*s, 2, 200, 10, 160) // 159 tokens were computed: 9 full blocks, 144
	session(3*s, 2, 200, 1, 200)  // 208 computed; of its own 200, 192
	session(4*s, 2, 192, 1, 192)  // one token has to be computed: 176
	session(5*s, 2, 100, 1, 70)   // the history was cut to 70 tokens: 64
	session(6*s, 9, 500, 50, 0)   // a long one, 35 blocks, takes what was free for longest
	session(7*s, 3, 150, 1, 110)  // so session 3 has only the shared ones
	p.loop.Run(forever)
	for i, want := range []int{0, 48, 144, 192, 176, 64, 48, 48} {
		if got := p.jobs[i].Record().Cached; got != want {
			t.Errorf("request %d found %d tokens, want %d", i, got, want)
		}
	}
	audit(t, p.s)
	if st := p.s.Stats(); st.CachedTokens != 48+144+192+176+64+48+48 || st.KVFree != 40 {
		t.Errorf("%+v", st)
	}
	p = newScript(t, even(func(o *Options) { o.NoPrefixCache = true }))
	session(0, 2, 100, 60, 0)
	session(1*s, 2, 200, 10, 160)
	p.loop.Run(forever)
	if got := p.s.Stats().CachedTokens; got != 0 {
		t.Errorf("%d tokens from a cache that is off", got)
	}
}

func TestSubmitErrors(t *testing.T) {
	var loop Loop
	s, err := New(&loop, even(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{Output: 1}, "a prompt of 0 tokens"},
		{Request{Prompt: 1}, "an output of 0"},
		{Request{Prompt: 10, Output: 1, Session: Span{1, 11}}, "heads of the prompt, which has 10"},
		{Request{Prompt: 10, Output: 9, Wake: []int{3, 3}}, "wake at token 3 after 3"},
		{Request{Prompt: 10, Output: 9, Wake: []int{1}}, "wake at token 1 after 1"},
		{Request{Prompt: 16000, Output: 1}, "needs 1001 KV blocks, and the server has 1000; shorten it or raise kv_blocks"},
	} {
		if _, err := s.Submit(c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.r, err, c.want)
		}
	}
	if s.Load() != 0 {
		t.Error("one of them is in the server")
	}
}

// On a Real clock the server is told late, and says when things would have been.
func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocks.NewReal()
		s, err := New(c, even(nil))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var done []time.Duration
		for i := range 20 {
			c.Go("caller", func() {
				c.Sleep(t.Context(), time.Duration(i)*ms)
				s.Submit(Request{Prompt: 10, Output: 5, Told: func(e Event) {
					if e.Kind == Done {
						mu.Lock()
						done = append(done, e.At)
						mu.Unlock()
					}
				}})
			})
		}
		c.Sleep(t.Context(), time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(done) != 20 || s.Load() != 0 || !slices.IsSorted(done) {
			t.Errorf("%d done at %v", len(done), done)
		}
	})
}

// A step that preempted admits nobody, not even the one that it preempted and
// whose first chunk would fit: at 30 ms, request 0 takes one of its two blocks.
func TestNoAdmissionAfterPreemption(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.KVBlocks, o.BatchedTokens = 4, 17 }))
	p.submit(0, Request{Prompt: 31, Output: 4})
	p.submit(1*ms, Request{Prompt: 20, Output: 1}) // chunks of 3 and 16; after 30 ms, at 40, of 16 and 4
	p.want("0 queued 0s", "0 admitted 0s", "1 queued 1ms", "1 admitted 10ms", "0 first 20ms", "1 preempted 30ms", "0 done 50ms", "1 first 60ms", "1 done 60ms")
}

// Of two requests of one session at the same time (the first was a guess), the
// later one's text is what the next one finds.
func TestPrefixOfTheLastOne(t *testing.T) {
	p := newScript(t, even(func(o *Options) { o.BatchedTokens = 1000 }))
	p.submit(0, Request{Prompt: 60, Output: 1, Session: Span{5, 0}})
	p.submit(time.Second, Request{Prompt: 100, Output: 5, Session: Span{5, 50}})
	p.submit(time.Second+ms, Request{Prompt: 160, Output: 20, Session: Span{5, 50}})
	p.submit(2*time.Second, Request{Prompt: 200, Output: 1, Session: Span{5, 180}})
	p.loop.Run(forever)
	if got := p.jobs[3].Record().Cached; got != 176 {
		t.Errorf("found %d tokens, want 11 of 11.2 blocks", got)
	}
	audit(t, p.s)
}

// A very slow card is a slow card: leaps over steps of a minute are as right as
// steps, and what would leave the engine's numbers is refused.
func TestSlowCards(t *testing.T) {
	trace := []Arrival{{Prompt: 100, Output: 100}, {Prompt: 100, Output: 5000}}
	slow := func(gbps float64) Options {
		o := profile(t, "h100-sxm", "llama-3.1-70b")
		o.GPU.GBps, o.GPU.MemoryGB = gbps, 1000
		return o
	}
	var first time.Duration
	for _, gbps := range []float64{1000, 100, 10, 3, 1} {
		o := slow(gbps)
		leaps, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Stepping = true
		steps, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			if leaps[i] != steps[i] {
				t.Errorf("%g GB/s: %+v by leaps, %+v by steps", gbps, leaps[i], steps[i])
			}
		}
		if first == 0 {
			first = steps[1].E2E()
		}
		// All but c0 and cs of the step is reading.
		if ratio := float64(leaps[1].E2E()) / float64(first) * gbps / 1000; ratio < .97 || ratio > 1.001 {
			t.Errorf("%g GB/s: the answer takes %v, %.3f of what the bandwidth says", gbps, leaps[1].E2E(), ratio)
		}
	}
	o := slow(1)
	o.GPU.Weights, o.Model.Blocks, o.GPU.MemoryGB = .01, 20000, 90000
	if _, err := New(&Loop{}, o); err == nil || !strings.Contains(err.Error(), "a step could take 1.13e+03 hours, of them 1.11e+03 to read the weights") {
		t.Error(err)
	}
	o.GPU.KVBytes, o.Model.Layers, o.Model.Heads, o.Model.KVHeads, o.Model.HeadDim, o.GPU.KV, o.KVBlocks = 8, 1e4, 1e4, 1e4, 1e5, .01, 1<<26
	if _, err := New(&Loop{}, o); err == nil || !strings.Contains(err.Error(), "a step could take") {
		t.Error(err)
	}
}
