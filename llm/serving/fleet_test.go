package serving

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/random"
)

func newFleet(t testing.TB, c Clock, o FleetOptions) *Fleet {
	t.Helper()
	if o.Server.MaxSeqs == 0 {
		o.Server = even(nil)
	}
	f, err := NewFleet(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// where returns which replica each of the jobs is on.
func where(f *Fleet, jobs []*Job) (out []int) {
	servers := f.Servers()
	for _, j := range jobs {
		out = append(out, slices.Index(servers, j.server))
	}
	return out
}

func TestRouting(t *testing.T) {
	for _, c := range []struct {
		routing Routing
		want    []int
	}{
		// Request 0 is long; the later ones come when 1, 2 and 3 are done. Sessions are 1 2 3 1 2 3 1 1 1 1 1 1.
		{RoundRobin, []int{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}},
		{LeastLoaded, []int{0, 1, 2, 1, 1, 2, 1, 2, 0, 1, 2, 0}},
		{PrefixAware, []int{0, 1, 2, 0, 1, 2, 0, 0, 0, 0, 1, 2}}, // 4 more than the least loaded are too many,
	} {
		var loop Loop
		f := newFleet(t, &loop, FleetOptions{Replicas: 3, Routing: c.routing})
		var jobs []*Job
		submit := func(session uint64, output int) {
			j, err := f.Submit(Request{Prompt: 100, Output: output, Session: Span{session, 90}})
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, j)
		}
		loop.At(0, func() { submit(1, 100); submit(2, 1); submit(3, 1) })
		loop.At(500*ms, func() { submit(1, 1) })
		loop.At(600*ms, func() { submit(2, 1); submit(3, 1) })
		loop.At(700*ms, func() {
			for range 6 {
				submit(1, 1)
			}
		})
		loop.Run(forever)
		if got := where(f, jobs); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.routing, got, c.want)
		}
	}
}

func TestAutoscale(t *testing.T) {
	var loop Loop
	f := newFleet(t, &loop, FleetOptions{Routing: LeastLoaded, Autoscale: &Autoscale{Max: 3, Above: 4, Below: 1, ColdStart: 10 * time.Second}})
	var counts []int
	// 10 requests a second of 1 s each: 10 are in the system.
	for i := range 600 {
		loop.At(time.Duration(i)*100*ms, func() {
			f.Submit(Request{Prompt: 10, Output: 100})
			if i%50 == 49 {
				counts = append(counts, len(f.Servers()))
			}
		})
	}
	// Then one every 10 s.
	for i := range 10 {
		loop.At(time.Duration(70+i*10)*time.Second, func() {
			f.Submit(Request{Prompt: 10, Output: 10})
			counts = append(counts, len(f.Servers()))
		})
	}
	loop.Run(forever)
	// Started when the fifth request is there (0.5 s), up after 10 s more; the third follows 10 s later, and 3.3 on each are enough.
	if want := []int{1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1}; !slices.Equal(counts, want) {
		t.Errorf("replicas: %v, want %v", counts, want)
	}
}

func TestFailure(t *testing.T) {
	var loop Loop
	f := newFleet(t, &loop, FleetOptions{Replicas: 2, Failures: []Failure{{Replica: 0, At: 35 * ms, Down: time.Second}, {Replica: 1, At: 500 * ms}}})
	var got []string
	submit := func(name string, prompt, output int) {
		_, err := f.Submit(Request{Prompt: prompt, Output: output, Told: func(e Event) {
			if e.Kind == Failed || e.Kind == Done {
				got = append(got, name+" "+e.Kind.String()+" "+e.At.String())
			}
		}})
		if err != nil {
			got = append(got, name+": "+err.Error())
		}
	}
	loop.At(0, func() {
		submit("runs", 10, 10)
		submit("other", 10, 10)
		submit("queued behind", 1000, 10)
	})
	// In the nanosecond in which a step ends: they belong to the one after the next.
	loop.At(50*ms, func() { submit("after", 10, 10); submit("too", 10, 10) })
	loop.At(600*ms, func() { submit("nobody", 10, 1) })
	loop.At(1100*ms, func() { submit("back", 10, 1) })
	loop.Run(forever)
	want := []string{"runs failed 35ms", "queued behind failed 35ms", "other done 100ms", "after done 160ms", "too done 160ms",
		"nobody: serving: no replica takes requests", "back done 1.11s"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, s := range f.Servers() {
		audit(t, s)
		if st := s.Stats(); st.KVFree != st.KVBlocks {
			t.Errorf("%+v", st)
		}
	}
}

// A neighbour's requests come at its rate with its lengths, the same for the
// same seed, and ours wait for them.
func TestNeighbour(t *testing.T) {
	ttft := func(rate float64) (float64, Stats) {
		var loop Loop
		s, err := New(&loop, profile(t, "h100-sxm", "llama-3.1-8b"))
		if err != nil {
			t.Fatal(err)
		}
		if rate > 0 {
			n := Neighbour{Rate: rate, Prompt: 2000, Output: 200, From: time.Minute, Until: 11 * time.Minute}
			if err := n.Move(&loop, 1, s.Submit); err != nil {
				t.Fatal(err)
			}
		}
		var jobs []*Job
		for i := range 600 {
			loop.At(time.Minute+time.Duration(i)*time.Second, func() {
				j, err := s.Submit(Request{Prompt: 500, Output: 50})
				if err != nil {
					t.Fatal(err)
				}
				jobs = append(jobs, j)
			})
		}
		loop.Run(forever)
		var records []Record
		for _, j := range jobs {
			records = append(records, j.Record())
		}
		return mean(FiguresOf(records).TTFT), s.Stats()
	}
	alone, _ := ttft(0)
	beside, st := ttft(10)
	if n := float64(st.Arrived - 600); math.Abs(n-6000) > 4*math.Sqrt(6000) {
		t.Errorf("%g requests of the neighbour in 10 minutes, want 6000", n)
	}
	if tokens := float64(st.PromptTokens-600*500) / 6000; math.Abs(tokens-2000) > 4*2000/math.Sqrt(6000)+60 {
		t.Errorf("%g tokens in a prompt of the neighbour, want 2000", tokens)
	}
	if beside < 1.5*alone {
		t.Errorf("TTFT is %.1f ms alone and %.1f beside a noisy neighbour", alone, beside)
	}
	if again, st2 := ttft(10); again != beside || st2 != st {
		t.Error("the same seed gives another neighbour")
	}
}

// More replicas carry the same load with less queueing.
func TestReplicasScale(t *testing.T) {
	p95 := func(replicas int, routing Routing) float64 {
		var loop Loop
		f := newFleet(t, &loop, FleetOptions{Server: profile(t, "rtx-4090", "llama-3.1-8b"), Replicas: replicas, Routing: routing})
		r := random.New(3, "arrivals")
		var jobs []*Job
		var come func()
		come = func() {
			j, err := f.Submit(Request{Prompt: 547, Output: 220})
			if err != nil {
				t.Fatal(err)
			}
			if jobs = append(jobs, j); len(jobs) < 2000 {
				loop.At(loop.now+r.Exp(time.Second/8), come)
			}
		}
		loop.At(0, come)
		loop.Run(forever)
		var records []Record
		for _, j := range jobs {
			records = append(records, j.Record())
		}
		return quantile(FiguresOf(records).TTFT, .95)
	}
	one, two, four := p95(1, LeastLoaded), p95(2, LeastLoaded), p95(4, LeastLoaded)
	t.Logf("TTFT P95: %.0f ms with one replica, %.0f with two, %.0f with four", one, two, four)
	if !(one > 2*two && two > four) {
		t.Error("replicas do not help")
	}
}

func TestFleetErrors(t *testing.T) {
	var loop Loop
	for want, o := range map[string]FleetOptions{
		"replicas is -1": {Replicas: -1},
		`routing is "random"; there are round-rob`: {Routing: "random"},
		"autoscale: max 1":                         {Replicas: 2, Autoscale: &Autoscale{Max: 1, Above: 1}},
		"failure of replica 1":                     {Failures: []Failure{{Replica: 1}}},
	} {
		o.Server = even(nil)
		if _, err := NewFleet(&loop, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := (Neighbour{}).Move(&loop, 1, nil); err == nil {
		t.Error("a neighbour without requests")
	}
	if len(loop.calls) != 0 {
		t.Error("something was set going")
	}
}
