package serving

import (
	"math"
	"slices"
	"testing"
	"time"

	"firstsound/clocks/random"
)

// The engine against what queueing theory knows exactly (docs/models.md).
// A server whose step takes the same time whatever is in it, and whose requests
// have so many output tokens as their service time has steps, is a station with
// max_num_seqs places.

// station returns a server with that many places, whose steps take step.
func station(places int, step time.Duration) Options {
	return Options{
		GPU:   GPU{Name: "even", TFLOPS: 1e6, GBps: 1e6, MemoryGB: 100, WeightBytes: 1, KVBytes: .1, Compute: 1, Weights: 1, KV: 1, Attention: 1, Mix: 1, Step: step},
		Model: Model{"tiny", 1e-6, 0, false, 1, 1, 1, 1, 1}, MaxSeqs: places, BatchedTokens: max(places, 2048), KVBlocks: 1 << 26,
	}
}

// A law is a distribution of service times with mean 1 and a squared
// coefficient of variation.
type law struct {
	name string
	cs2  float64
	draw func(r *random.Source) float64
}

func expo(r *random.Source) float64 { return -math.Log(r.Float()) }

var laws = map[string]law{
	"M":  {"exponential", 1, expo},
	"D":  {"constant", 0, func(*random.Source) float64 { return 1 }},
	"E2": {"Erlang-2", .5, func(r *random.Source) float64 { return (expo(r) + expo(r)) / 2 }},
	"H2": {"hyperexponential", 4, func(r *random.Source) float64 { // balanced means: p/μ₁ = (1−p)/μ₂
		p := (1 + math.Sqrt(3.0/5)) / 2
		if r.Chance(p) {
			return expo(r) / (2 * p)
		}
		return expo(r) / (2 * (1 - p))
	}},
}

// A queue is an open station: Poisson arrivals with rate λ, mean service 1 s.
type queue struct {
	law     law
	servers int
	rate    float64
	n       int
	quantum time.Duration // of service
	opts    Options
	room    int // requests that there may be; 0: any number
}

// run returns how long each waited and stayed, in s, and how many were turned away.
func (q queue) run(t testing.TB, seed uint64) (waits, stays []float64, blocked int) {
	var loop Loop
	s, err := New(&loop, q.opts)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, services := random.New(seed, "arrivals"), random.New(seed, "services")
	jobs := make([]*Job, 0, q.n)
	i := 0
	var come func()
	come = func() {
		tokens := max(1, int(math.Round(q.law.draw(&services)*1e9/float64(q.quantum))))
		if q.room > 0 && s.Load() >= q.room {
			blocked++
		} else {
			j, err := s.Submit(Request{Prompt: 1, Output: tokens})
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, j)
		}
		if i++; i < q.n {
			loop.At(loop.now+time.Duration(expo(&arrivals)/q.rate*1e9), come)
		}
	}
	loop.At(0, come)
	loop.Run(forever)
	for _, j := range jobs {
		r := j.Record()
		waits = append(waits, (r.Admitted - r.Arrived).Seconds())
		stays = append(stays, (r.Ended - r.Arrived).Seconds())
	}
	return waits, stays, blocked
}

// scaled returns n, or less of it if there is less time.
func scaled(n int) int {
	if underRace {
		return n / 20
	}
	if testing.Short() {
		return n / 5
	}
	return n
}

// customers of a station: enough for 4 standard errors to mean something.
func customers() int { return scaled(200_000) }

// batches returns the mean of a sample that is correlated, and the standard
// error of it by the means of 40 batches.
func batches(x []float64) (m, se float64) {
	const n = 40
	size := len(x) / n
	var means []float64
	for i := range n {
		means = append(means, mean(x[i*size:(i+1)*size]))
	}
	m = mean(means)
	for _, b := range means {
		se += (b - m) * (b - m) / (n - 1)
	}
	return m, math.Sqrt(se / n)
}

// within checks a figure at 4 standard errors, and that these are small enough
// for the check to mean something.
func within(t *testing.T, name string, got, want, se, resolution float64) {
	t.Helper()
	t.Logf("%-40s %10.5f, exactly %10.5f (%+.2f σ)", name, got, want, (got-want)/se)
	if math.Abs(got-want) > 4*se || math.IsNaN(got) {
		t.Errorf("%s is %g, exactly %g; standard error %g", name, got, want, se)
	}
	if se > resolution*want && scaled(20) == 20 {
		t.Errorf("%s: a standard error of %g shows nothing at %g", name, se, want)
	}
}

func quantile(x []float64, p float64) float64 { return Quantile(slices.Sorted(slices.Values(x)), p) }

// share returns how many of x are above a limit.
func share(x []float64, limit float64) (above []float64) {
	for _, v := range x {
		if v > limit {
			above = append(above, 1)
		} else {
			above = append(above, 0)
		}
	}
	return above
}

// TestSingleServer: waiting in M/M/1, M/D/1 and M/G/1 is what Pollaczek and
// Khinchine say. For M/M/1 the standard error is the exact one.
func TestSingleServer(t *testing.T) {
	n := customers()
	for _, kind := range []string{"M", "D", "E2", "H2"} {
		for _, rho := range []float64{.5, .8, .9} {
			l := laws[kind]
			waits, _, _ := queue{law: l, rate: rho, n: n, quantum: ms, opts: station(1, ms)}.run(t, 1)
			want := rho * (1 + l.cs2) / (2 * (1 - rho))
			got, se := batches(waits)
			if kind == "M" {
				se = math.Sqrt(rho*(2+5*rho-4*rho*rho+rho*rho*rho)/math.Pow(1-rho, 4)) / math.Sqrt(float64(n))
			}
			within(t, "M/"+kind+"/1 mean wait", got, want, se, .12)
			if kind == "M" {
				waited, se := batches(share(waits, 0))
				within(t, "M/M/1 share that waits", waited, rho, se, .02)
				// P(W > t) = ρ·e^{−(1−ρ)t}
				for _, at := range []float64{1, 5} {
					p := rho * math.Exp(-(1-rho)*at)
					above, se := batches(share(waits, at))
					within(t, "M/M/1 share that waits longer", above, p, se, .15)
				}
			}
		}
	}
}

// TestPrefillOnlyServer: requests of one chunk and one token are M/D/1 by the
// real formula: the service time is that of the step.
func TestPrefillOnlyServer(t *testing.T) {
	o := profile(t, "h100-sxm", "llama-3.1-8b")
	zero := time.Duration(0)
	o.API, o.MaxSeqs = &zero, 1
	n := customers()
	done, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	st := newStepTime(done)
	service := st.Of(Step{Chunks: []Chunk{{1000, 0}}}).Seconds()
	for _, row := range []struct{ rho, wait, p90, p99 float64 }{{.5, .5, 1.5157, 3.3363}, {.8, 2, 5.0115, 10.3559}} {
		var loop Loop
		s, err := New(&loop, o)
		if err != nil {
			t.Fatal(err)
		}
		r := random.New(2, "arrivals")
		var jobs []*Job
		var come func()
		come = func() {
			j, err := s.Submit(Request{Prompt: 1000, Output: 1})
			if err != nil {
				t.Fatal(err)
			}
			if jobs = append(jobs, j); len(jobs) < n {
				loop.At(loop.now+time.Duration(expo(&r)*service/row.rho*1e9), come)
			}
		}
		loop.At(0, come)
		loop.Run(forever)
		var waits []float64
		for _, j := range jobs {
			rec := j.Record()
			waits = append(waits, (rec.Admitted-rec.Arrived).Seconds()/service)
			if d := (rec.First - rec.Admitted).Seconds(); math.Abs(d-service) > 2e-9 {
				t.Fatalf("a prefill took %g s, its step takes %g", d, service)
			}
		}
		got, se := batches(waits)
		within(t, "M/D/1 mean wait", got, row.wait, se, .1)
		above, se := batches(share(waits, row.p90))
		within(t, "M/D/1 share beyond the P90", above, .1, se, .1)
		above, se = batches(share(waits, row.p99))
		within(t, "M/D/1 share beyond the P99", above, .01, se, .25)
	}
}

// TestManyServers: Erlang's C and B formulas.
func TestManyServers(t *testing.T) {
	n := customers()
	for _, row := range []struct {
		servers      int
		load, pw, wq float64
	}{{2, 1.6, .711111, 1.777778}, {10, 8, .409180, .204590}, {100, 90, .216940, .021694}} {
		// A step is 1/4000 of a service; an arrival waits half a step for the next one to begin.
		step := time.Second / 4000
		waits, _, _ := queue{law: laws["M"], rate: row.load, n: n, quantum: step, opts: station(row.servers, step)}.run(t, 3)
		got, se := batches(waits)
		within(t, "Erlang C mean wait", got-step.Seconds()/2, row.wq, se+step.Seconds()/40, .12)
		got, se = batches(share(waits, 2*step.Seconds()))
		c := float64(row.servers)
		within(t, "Erlang C share that waits", got, row.pw*math.Exp(-(c-row.load)*1.5*step.Seconds()), se, .08)
		for _, at := range []float64{.05, .2} {
			got, se = batches(share(waits, at))
			if want := row.pw * math.Exp(-(c-row.load)*at); want > .001 {
				within(t, "Erlang C share that waits longer", got, want, se, .25)
			}
		}
	}
	step := time.Second / 4000
	_, _, blocked := queue{law: laws["M"], rate: 8, n: n, quantum: step, opts: station(10, step), room: 10}.run(t, 4)
	got := float64(blocked) / float64(n)
	// The blocked come in clumps: a variance 3 times the binomial one is an upper bound here.
	within(t, "Erlang B blocked", got, .121661, math.Sqrt(3*.1217*.8783/float64(n)), .02)
}

// TestClosedNetwork: clients that think and ask.
func TestClosedNetwork(t *testing.T) {
	for _, row := range []struct {
		servers, clients int
		rate, stay       float64 // 1/s, ms
	}{{10, 100, 883.9775, 13.12505}, {1, 20, 99.81310, 100.37451}} {
		step := 2 * time.Microsecond
		var loop Loop
		s, err := New(&loop, station(row.servers, step))
		if err != nil {
			t.Fatal(err)
		}
		think, serve := random.New(5, "think"), random.New(5, "serve")
		n := customers()
		jobs := make([]*Job, 0, n)
		var ask func()
		ask = func() {
			if len(jobs) >= n {
				return
			}
			tokens := max(1, int(math.Round(expo(&serve)*10e6/float64(step))))
			j, err := s.Submit(Request{Prompt: 1, Output: tokens, Told: func(e Event) {
				if e.Kind == Done {
					loop.At(loop.now+think.Exp(100*ms), ask)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, j)
		}
		for range row.clients {
			loop.At(think.Exp(100*ms), ask)
		}
		loop.Run(forever)
		var stays, gaps []float64
		last := time.Duration(0)
		for _, j := range jobs[1000 : n-200] {
			r := j.Record()
			stays = append(stays, r.E2E().Seconds()*1e3)
			if last > 0 {
				gaps = append(gaps, (r.Arrived - last).Seconds())
			}
			last = r.Arrived
		}
		got, se := batches(stays)
		within(t, "closed network, stay (ms)", got, row.stay, se+.001, .02)
		got, se = batches(gaps)
		within(t, "closed network, time between arrivals (s)", got, 1/row.rate, se, .02)
	}
}

// TestProcessorSharing: if a step takes its time for each sequence, the batch
// shares a processor. The mean stay is S/(1−ρ), whatever the distribution.
func TestProcessorSharing(t *testing.T) {
	for _, kind := range []string{"M", "D", "H2"} {
		o := station(1000, 0)
		o.GPU.Seq = time.Second / 2000
		const rho = .7
		_, stays, _ := queue{law: laws[kind], rate: rho, n: customers() / 4, quantum: o.GPU.Seq, opts: o}.run(t, 6)
		got, se := batches(stays)
		// The boundary of a step of N sequences, ρ/(1−ρ) in the mean, costs up to one of them.
		within(t, "M/"+kind+"/1 shared, stay", got, 1/(1-rho), se+.003, .06)
	}
}

// TestStepBoundary: at light load a Poisson arrival waits E[T²]/(2E[T]) for the
// step under way; with steps of one length, half of it.
func TestStepBoundary(t *testing.T) {
	var loop Loop
	s, err := New(&loop, station(8, 10*ms))
	if err != nil {
		t.Fatal(err)
	}
	n := customers() / 4
	if _, err := s.Submit(Request{Prompt: 1, Output: maxTokens}); err != nil { // keeps it busy
		t.Fatal(err)
	}
	r := random.New(7, "arrivals")
	var jobs []*Job
	var come func()
	come = func() {
		j, err := s.Submit(Request{Prompt: 1, Output: 2})
		if err != nil {
			t.Fatal(err)
		}
		if jobs = append(jobs, j); len(jobs) < n {
			loop.At(loop.now+r.Exp(time.Second), come)
		}
	}
	loop.At(0, come)
	for len(jobs) < n {
		loop.Run(loop.now + time.Hour)
	}
	var waits []float64
	for _, j := range jobs[:n-1] {
		rec := j.Record()
		waits = append(waits, (rec.Admitted-rec.Queued).Seconds()*1e3)
	}
	within(t, "wait for the step's end (ms)", mean(waits), 5, 10/math.Sqrt(12)/math.Sqrt(float64(n)), .01)
}

// TestLittle: what Poisson samples see in the system is rate × stay.
func TestLittle(t *testing.T) {
	o := profile(t, "h100-sxm", "llama-3.1-8b")
	o.KVBlocks = 700 // tight
	var loop Loop
	s, err := New(&loop, o)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, lengths, looks := random.New(8, "arrivals"), random.New(8, "lengths"), random.New(8, "looks")
	n := customers() / 10
	const rate = 5.0
	var jobs []*Job
	var seen []float64
	var come, look func()
	come = func() {
		j, err := s.Submit(Request{Prompt: 200 + lengths.Below(700), Output: 1 + lengths.Below(440)})
		if err != nil {
			t.Fatal(err)
		}
		if jobs = append(jobs, j); len(jobs) < n {
			loop.At(loop.now+arrivals.Exp(time.Second/rate), come)
		}
	}
	look = func() {
		if len(jobs) < n {
			seen = append(seen, float64(s.Load()))
			loop.At(loop.now+looks.Exp(300*ms), look)
		}
	}
	loop.At(0, come)
	loop.At(0, look)
	loop.Run(forever)
	var stays []float64
	for _, j := range jobs {
		stays = append(stays, j.Record().E2E().Seconds())
	}
	span := jobs[n-1].Record().Arrived.Seconds()
	inSystem, se := batches(seen)
	within(t, "requests in the system", inSystem, mean(stays)*float64(n)/span, se, .1)
}
