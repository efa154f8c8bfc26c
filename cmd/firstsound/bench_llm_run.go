package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/clocks/quantile"
	"firstsound/llm"
	"firstsound/llm/bench"
	"firstsound/llm/bench/loopback"
	llmfigures "firstsound/llm/figures"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/serverside"
	"firstsound/llm/tokens"
	"firstsound/llm/wire"
)

const (
	// grace is how long open requests may go on after an interrupt.
	grace = 2 * time.Second
	// lastLines is how long a server's log may take to get its last lines.
	lastLines = 2 * time.Second
)

// A benchRun is a run of bench llm.
type benchRun struct {
	*benchLLM
	command string
	service *service
	params  llm.Params
	prompts *bench.Prompts
	counter *tokens.Counter
	parts   []record.Part
	options llmfigures.Options

	clock   *clocks.Real
	client  *wire.Client
	fresh   *wire.Client
	reads   *maskedReads
	writer  *record.Writer
	scraper *serverside.Scraper
	runner  *bench.Runner
	first   time.Duration // that the first request took
	line    *benchProgress
	end     bench.Result
	failure error // of writing the files

	mu sync.Mutex
	benchResult
	classes map[record.Class]int
	said    said
}

// prepare does what comes before the measurement: it finds the service, asks it
// once, and tests what this machine adds.
func (r *benchRun) prepare(ctx context.Context) error {
	r.clock, r.classes = clocks.NewReal(), map[record.Class]int{}
	started := r.clock.Epoch().UTC().Format(time.RFC3339)
	target, err := r.service.target(ctx)
	if err != nil {
		return err
	}
	if err := r.service.chooseModel(ctx, r.clock); err != nil {
		return err
	}
	r.params.Model, target.Model = r.service.model, r.service.modelName()
	options := wire.Options{Count: r.counter.Count}
	if r.keepReads {
		options.KeepReads = func(id string, read exchange.Read) {
			if r.reads != nil { // not of the first request
				r.reads.keep(id, read)
			}
		}
	}
	r.client, r.fresh = r.service.client(r.clock, options, false), r.service.client(r.clock, options, true)
	notes, err := r.service.adapt(ctx, r.client, r.params)
	if err != nil {
		return err
	}
	first := llm.Request{RequestID: "firstsound-first", Attempt: 1, Params: r.params, Messages: r.prompts.Natural(0).Messages}
	a := r.client.Do(ctx, first, nil)
	if a.Class == record.ConnectError && a.Reused != nil && *a.Reused {
		notes = append(notes, "the first request was asked again: the service had closed the connection that it kept open ("+r.service.clean(a.Error)+")")
		first.Attempt = 2
		a = r.client.Do(ctx, first, nil)
	}
	if !reached(a.Class) {
		return fmt.Errorf("%s did not answer a first request (%s): %s", target.URL, a.Class, a.Error)
	}
	if a.Total != nil {
		r.first = *a.Total
	}
	if r.service.modelHow != "--model" {
		notes = append(notes, "the model is "+r.service.modelHow)
	}
	v := thisVersion()
	r.info = record.Run{
		Format: record.Format, Tool: v.String(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Clock: "real", Command: r.command, Started: started, State: record.Running, Seed: r.seed,
		Target: target, Fixed: r.fixed(), Tester: record.Tester{Place: r.place, Network: r.network}, Plan: r.parts, Notes: notes,
		Goodput: r.goodput, Targets: r.targets,
	}
	if a.Remote != "" {
		r.info.Tester.Local = localAddress(a.Remote)
	}
	if r.metrics != "" {
		if r.scraper, err = newScraper(r.clock, r.metrics); err != nil {
			return err
		}
		if _, err := r.scraper.Once(ctx); err != nil {
			return fmt.Errorf("%s: %w%s", publicAddress(r.metrics), err, metricsHint(r.metrics))
		}
	}
	if r.noSelfTest || r.dryRun {
		return nil
	}
	return r.selfTest(ctx)
}

// selfTest measures what this machine and this client add.
func (r *benchRun) selfTest(ctx context.Context) error {
	peak := bench.Streams(r.parts, r.limit, r.first)
	clock := clocks.NewReal() // of its own: how late its timers were is not the run's
	test, err := loopback.Test(ctx, clock, max(1, min(peak, 512)), func(url string) (bench.Asker, func()) {
		p, err := openai.New(openai.Options{URL: url, Dialect: "generic"})
		if err != nil {
			return unaskable{err}, func() {}
		}
		o := r.service.exchange
		o.TLS = nil
		c := wire.New(clock, p, wire.Options{Exchange: o, Timeout: 10 * time.Second, Count: r.counter.Count})
		return c, c.Close
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.info.Notes = append(r.info.Notes, err.Error())
		return nil
	}
	r.info.SelfTest = &test.SelfTest
	more := ""
	if test.More {
		more = " or more"
	}
	if test.Takes > 0 {
		r.info.Notes = append(r.info.Notes, fmt.Sprintf("self-test: this machine takes %d%s streams of 50 tokens a second at once with an error of TTFT of up to 1 ms (P99), its own server included", test.Takes, more))
	} else {
		r.info.Notes = append(r.info.Notes, fmt.Sprintf("self-test: %d streams at once are more than this machine can take with an error of TTFT of up to 1 ms (P99)", test.Streams))
	}
	return nil
}

// An unaskable service fails without being asked.
type unaskable struct{ err error }

// Do returns an attempt that failed.
func (f unaskable) Do(context.Context, llm.Request, func(llm.Delta)) record.Attempt {
	return record.Attempt{Class: record.ConnectError, Error: f.err.Error()}
}

// close hangs up.
func (r *benchRun) close() {
	if r.client != nil {
		r.client.Close()
		r.fresh.Close()
	}
}

// estimate returns how long the parts from the given one on will take.
func (r *benchRun) estimate(from int, each time.Duration) time.Duration {
	var d time.Duration
	for _, p := range r.parts[from:] {
		d += bench.Estimate(p, each)
	}
	return d
}

// showPlan writes what is going to be done, and how long it will take.
func (r *benchRun) showPlan(w io.Writer) {
	fmt.Fprintf(w, "%s, model %s (%s): %s, about %s, as a first request took %s\n",
		r.info.Target.URL, printable(r.service.modelName()), r.info.Target.Dialect, plural(len(r.parts), "part"), roughly(r.estimate(0, r.first)), millis(r.first))
	for i, p := range r.parts {
		size := plural(p.Requests, "request")
		if p.Requests == 0 {
			size = p.Duration.String()
		}
		fmt.Fprintf(w, "  %d  %-32s %s after %d of warm-up, about %s\n", i+1, bench.Name(p), size, p.Warmup, roughly(bench.Estimate(p, r.first)))
	}
}

// roughly rounds a time for people.
func roughly(d time.Duration) string {
	if d < time.Minute {
		return max(d.Round(time.Second), time.Second).String()
	}
	d = d.Round(5 * time.Second)
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}

// measure runs the plan.
func (r *benchRun) measure(ctx context.Context) error {
	if r.out != "" {
		var err error
		if r.writer, err = record.Create(r.out, r.info); err != nil {
			return err
		}
		if r.keepReads {
			if r.reads, err = createReads(r.out, r.service.secrets); err != nil {
				return errors.Join(err, r.writer.Close(r.info))
			}
		}
	}
	var scraping *scraping
	if r.scraper != nil {
		var err error
		if scraping, err = startScraping(ctx, r.scraper, r.out); err != nil { // of a file in the folder
			return errors.Join(err, r.writer.Close(r.info))
		}
	}
	if r.streams.progress {
		r.showPlan(r.streams.err)
	}
	r.line = newBenchProgress(r)
	r.runner = &bench.Runner{
		Clock: r.clock, Asker: r.client, Fresh: r.fresh, Parts: r.parts, Prompts: r.prompts, Params: r.params,
		RunID: fmt.Sprintf("fs%08x", uint32(random64())), Seed: r.seed, Arrivals: r.plan.Arrivals, Turns: r.plan.Turns,
		MaxConcurrency: r.limit, Tools: r.tools, Grace: grace, Begin: r.line.begin, Keep: r.keep,
	}
	watch := bench.Watch(ctx, r.clock, r.runner.InFlight)
	r.end = r.runner.Run(ctx)
	if scraping != nil {
		var note string
		if r.samples, note, r.failure = scraping.end(); note != "" {
			r.info.Notes = append(r.info.Notes, note)
		}
	}
	r.info.Resources = watch.Stop(r.end.PeakInFlight)
	r.line.done()
	r.info.State, r.info.Reason, r.info.End = r.end.State, r.service.clean(r.end.Reason), &r.end.End
	r.info.Target.Version = r.service.clean(r.client.Version())
	if r.info.Target.Version != "" {
		r.info.Fixed["version"] = r.info.Target.Version
	}
	if r.end.NotSent > 0 {
		r.info.Notes = append(r.info.Notes, fmt.Sprintf("%d requests of the open loop were due and not sent when the run was interrupted", r.end.NotSent))
	}
	r.info.Notes = append(r.info.Notes, r.said.notes()...)
	if n := len(r.attempts) + r.left; n > maxDiagnosed {
		r.info.Notes = append(r.info.Notes, fmt.Sprintf("the diagnosis below looks at the first %d of %d attempts", maxDiagnosed, n))
	}
	if r.reads != nil {
		dropped, err := r.reads.close()
		r.failure = errors.Join(r.failure, err)
		if dropped > 0 {
			r.info.Notes = append(r.info.Notes, fmt.Sprintf("reads.jsonl holds the first %d MB of the answers; %d bytes more were not kept", maxKeptReads>>20, dropped))
		}
	}
	if r.writer != nil {
		r.failure = errors.Join(r.failure, r.writer.Close(r.info))
	}
	if len(r.logs.files) > 0 {
		r.failure = errors.Join(r.failure, r.joinLogs(ctx))
	}
	return nil
}

// keep takes an attempt as it ends.
func (r *benchRun) keep(part int, a *record.Attempt) error {
	r.service.cleanAttempt(a)
	if r.reads != nil {
		r.reads.end(a.RequestID)
	}
	r.mu.Lock()
	var err error
	if r.writer != nil {
		err = r.writer.Add(a)
	}
	r.take(a, len(r.logs.files) > 0 && r.writer == nil)
	if !a.Warmup {
		r.classes[a.Class]++
	}
	r.said.take(a)
	r.mu.Unlock()
	r.line.attempt(part, a)
	return err
}

// joinLogs joins the server's logs with the attempts. The last lines may come a
// moment late.
func (r *benchRun) joinLogs(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // an interrupt ends the run, not its report
	for until := r.clock.Now() + lastLines; ; {
		err := r.joinOnce()
		missing := false
		for _, j := range r.joins {
			missing = missing || j.NoEntry.N > 0 || j.Refused != ""
		}
		if err != nil || !missing || r.clock.Now() >= until {
			return err
		}
		r.clock.Sleep(ctx, 250*time.Millisecond)
	}
}

func (r *benchRun) joinOnce() error {
	if r.writer == nil {
		joins, _, err := r.logs.join(r.attempts)
		if err != nil {
			return err
		}
		all := r.attempts
		r.benchResult = benchResult{info: r.info, summary: llmfigures.New(r.options), samples: r.samples, joins: joins}
		for _, a := range all {
			r.take(a, true)
		}
		return nil
	}
	d, err := openLLMFolder(r.out)
	if err == nil {
		err = d.join(&r.logs)
	}
	if err != nil {
		return err
	}
	result, err := d.result(r.options)
	if err == nil {
		result.info = r.info
		r.benchResult = *result
	}
	return err
}

// show prints the report, and returns an error if the run or a gate failed.
func (r *benchRun) show(gates []llmfigures.Gate) error {
	report, err := r.benchView.print(r.streams, &r.benchResult)
	if err = errors.Join(err, r.failure); err != nil {
		return err
	}
	if r.info.State != record.Complete {
		return fmt.Errorf("the run is not complete: %s", r.info.Reason)
	}
	if r.end.OK == 0 {
		var all []string
		for _, c := range record.Classes {
			if n := r.classes[c]; n > 0 {
				all = append(all, fmt.Sprintf("%d %s", n, c))
			}
		}
		return fmt.Errorf("no request succeeded: %s", strings.Join(all, ", "))
	}
	return passGates(report, gates)
}

// printable returns a text without what a terminal would act on.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// millis writes a time in milliseconds.
func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// localAddress returns the address of this machine from which a remote one is
// reached: no packet is sent for it.
func localAddress(remote string) string {
	c, err := net.Dial("udp", remote)
	if err != nil {
		return ""
	}
	defer c.Close()
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// A benchProgress says on a terminal how far the run is.
type benchProgress struct {
	r      *benchRun
	w      io.Writer // nil: nobody looks
	mu     sync.Mutex
	part   int
	began  time.Duration // of the part
	n      int           // attempts of the part
	failed int           // of the run
	ttft   *quantile.Series
	total  *quantile.Series // of all attempts: how long a request takes
	next   time.Duration
	shown  bool
}

func newBenchProgress(r *benchRun) *benchProgress {
	p := &benchProgress{r: r, total: quantile.New(1000)}
	if r.streams.progress {
		p.w = r.streams.err
	}
	return p
}

// begin says that a part begins.
func (p *benchProgress) begin(part int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part, p.began, p.n, p.ttft = part, p.r.clock.Now(), 0, quantile.New(1000)
}

// attempt says that an attempt has ended.
func (p *benchProgress) attempt(part int, a *record.Attempt) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if !reached(a.Class) {
		p.failed++
	}
	if a.TTFT != nil && !a.Warmup {
		p.ttft.Add(int64(*a.TTFT))
	}
	if a.Total != nil {
		p.total.Add(int64(*a.Total))
	}
	now := p.r.clock.Now()
	if now < p.next {
		return
	}
	p.next, p.shown = now+100*time.Millisecond, true
	each := p.r.first
	if p.total.N() > 0 {
		each = time.Duration(p.total.Of(0.5))
	}
	left := p.r.estimate(part+1, each)
	this := p.r.parts[part]
	if this.Duration > 0 || this.Phase == record.Rate {
		left += max(0, bench.Estimate(this, each)-(now-p.began))
	} else { // what is left of the requests
		this.Requests, this.Warmup = max(0, this.Requests+this.Warmup-p.n), 0
		left += bench.Estimate(this, each)
	}
	median := ""
	if p.ttft.N() > 0 {
		median = ", TTFT P50 " + millis(time.Duration(p.ttft.Of(0.5)))
	}
	fmt.Fprintf(p.w, "\r\x1b[Kpart %d of %d, %s: %d done, %d failed%s, about %s left", part+1, len(p.r.parts), bench.Name(p.r.parts[part]), p.n, p.failed, median, roughly(left))
}

// done takes the line away.
func (p *benchProgress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
