package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/stream"
	"firstsound/llm/wire"
)

// newProbeCmd returns the command that has the probes.
func newProbeCmd(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Look at a service with two requests: does it stream, how soon",
		Long:  "Probe looks at a service of a voice agent with one or two requests.",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProbeLLMCmd(s))
	return cmd
}

// A probeLLM is the command probe llm with its flags.
type probeLLM struct {
	streams
	serviceFlags
	prompt    string
	maxTokens int
	json      bool
}

func newProbeLLMCmd(s streams) *cobra.Command {
	p := &probeLLM{streams: s}
	cmd := &cobra.Command{
		Use:   "llm URL",
		Short: "Does a language model stream, and how soon does it begin",
		Long: `Probe llm asks a language model twice, over a new connection and over the same one
again, and shows each step: DNS, connect, TLS, headers, first byte, first token,
the end; the first events as they came; and whether something on the way holds
the answer back. It is a rough look, not a benchmark: see bench llm. Proxies that
the environment names (HTTPS_PROXY) are not used.

The exit code is 1 if the service does not answer.`,
		Example: `  firstsound probe llm http://127.0.0.1:8000/v1
  firstsound probe llm https://api.openai.com/v1 --model gpt-4o-mini     the key is in OPENAI_API_KEY
  firstsound probe llm 127.0.0.1:11434 --dialect ollama-native
  firstsound probe llm https://api.example.com/v1 --api-key-file key.txt --http 2 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("probe llm takes the URL of the service, such as http://127.0.0.1:8000/v1")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p.url = args[0]
			if p.maxTokens < 1 {
				return usagef("--max-tokens takes 1 or more, not %d", p.maxTokens)
			}
			return p.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	p.serviceFlags.add(f, false)
	f.StringVar(&p.prompt, "prompt", "Say in three short sentences what a voice agent does.", "what is asked (`TEXT`)")
	f.IntVar(&p.maxTokens, "max-tokens", 64, "most tokens of an answer (`N`)")
	f.BoolVar(&p.json, "json", false, "print the result as JSON")
	return cmd
}

// How much is shown of the events.
const (
	shownEvents = 3
	shownData   = 240 // bytes of an event
)

// A probeEvent is an event as it came.
type probeEvent struct {
	At   time.Duration `json:"at_ns"` // since the request was sent
	Name string        `json:"name,omitempty"`
	Data string        `json:"data"`
	Cut  bool          `json:"cut,omitempty"` // there is more of it
}

// A probeResult is the JSON output of probe llm.
type probeResult struct {
	Rough     string           `json:"rough"`
	URL       string           `json:"url"`
	Dialect   string           `json:"dialect"`
	Model     string           `json:"model"`
	ModelFrom string           `json:"model_from"`
	Addresses []string         `json:"addresses"`
	Loopback  bool             `json:"loopback"`
	Notes     []string         `json:"notes,omitempty"`
	New       *record.Attempt  `json:"new_connection"`
	Again     *record.Attempt  `json:"again"`
	Stream    probeStream      `json:"stream"`
	Events    []probeEvent     `json:"events"`
	Steps     map[string]*step `json:"steps"`
}

// A probeStream says how an answer came.
type probeStream struct {
	Streams bool          `json:"streams"`
	Events  int           `json:"content_events"`
	Reads   int           `json:"reads"`     // of the body
	Moments int           `json:"moments"`   // different arrivals of content
	Spread  time.Duration `json:"spread_ns"` // from the first content to the last
	Longest time.Duration `json:"longest_gap_ns"`
	// Suspected says whether something on the way seems to hold the answer back,
	// Reasons why, or why not.
	Suspected bool     `json:"buffering_suspected"`
	Reasons   []string `json:"reasons"`
}

// run asks twice.
func (p *probeLLM) run(ctx context.Context) error {
	s, err := p.open(p.env, nil)
	if err != nil {
		return err
	}
	res, err := p.ask(ctx, s)
	if err != nil {
		return errors.New(s.clean(err.Error()))
	}
	if p.json {
		err = writeIndented(p.streams.out, res)
	} else {
		res.write(p.streams.out)
	}
	if err != nil {
		return err
	}
	for _, a := range []*record.Attempt{res.New, res.Again} {
		if !reached(a.Class) {
			return fmt.Errorf("the service did not answer (%s): %s", a.Class, printable(a.Error))
		}
	}
	return nil
}

// ask makes the two requests.
func (p *probeLLM) ask(ctx context.Context, s *service) (*probeResult, error) {
	clock := clocks.NewReal()
	target, err := s.target(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.chooseModel(ctx, clock); err != nil {
		return nil, err
	}
	var events []probeEvent
	const first, again = "probe-1", "probe-2"
	options := wire.Options{OnEvent: func(id string, e stream.Event, at time.Duration) {
		if id == first && len(events) < shownEvents {
			events = append(events, shownEvent(e, at))
		}
	}}
	client := s.client(clock, options, false)
	defer func() { client.Close() }()
	params := llm.Params{Model: s.model, MaxTokens: p.maxTokens}
	run := func(id string) *record.Attempt {
		a := client.Do(ctx, llm.Request{RequestID: id, Attempt: 1, Params: params, Messages: []llm.Message{{Role: llm.User, Content: p.prompt}}}, nil)
		s.cleanAttempt(&a)
		return &a
	}
	res := &probeResult{
		Rough: "a rough probe of two requests, not a benchmark", URL: target.URL, Dialect: target.Dialect, Model: s.modelName(), ModelFrom: s.modelHow,
		Addresses: target.Addresses, Loopback: target.Loopback,
	}
	a := run(first)
	if a.Class == record.HTTPError && (a.Status == 400 || a.Status == 422) {
		// Another way to ask may do, over a new connection once more.
		client.Close()
		client = s.client(clock, options, false)
		adapter := s.client(clock, wire.Options{}, true)
		notes, err := s.adapt(ctx, adapter, params)
		adapter.Close()
		if err == nil && len(notes) > 0 {
			res.Notes, events = notes, nil
			a = run(first)
		}
	}
	res.New, res.Again = a, run(again)
	for i := range events {
		if a.Send != nil {
			events[i].At -= *a.Send
		}
		events[i].Data, events[i].Name = s.clean(events[i].Data), s.clean(events[i].Name)
	}
	res.Events, res.Stream, res.Steps = events, judgeStream(a), stepsOf(res.New, res.Again)
	return res, nil
}

// shownEvent keeps the head of an event.
func shownEvent(e stream.Event, at time.Duration) probeEvent {
	return probeEvent{At: at, Name: e.Name, Data: string(e.Data[:min(len(e.Data), shownData)]), Cut: len(e.Data) > shownData}
}

// What makes an answer look held back: enough content events, and hardly any time
// between the first and the last; or a few bursts of many.
const (
	enoughEvents = 8
	burst        = 4 // content events to a moment, on average
	noTime       = 10 * time.Millisecond
)

// judgeStream says how an answer came, and whether it seems to have been held back.
func judgeStream(a *record.Attempt) probeStream {
	s := probeStream{Events: len(a.Chunks), Reads: a.Reads, Reasons: []string{}}
	for i, c := range a.Chunks {
		if i == 0 || c.At != a.Chunks[i-1].At {
			s.Moments++
		}
		if i > 0 {
			s.Longest = max(s.Longest, c.At-a.Chunks[i-1].At)
		}
	}
	if s.Events > 1 {
		s.Spread = a.Chunks[s.Events-1].At - a.Chunks[0].At
	}
	s.Streams = s.Moments > 1
	kind, _, _ := mime.ParseMediaType(a.Header["content-type"])
	whole := kind == "application/json" && a.Events == 1
	why := func(format string, args ...any) { s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...)) }
	if e := a.Header["content-encoding"]; e != "" && e != "identity" {
		s.Suspected = true
		why("the answer is compressed (%s): compression gathers events before it lets them go", printable(e))
	}
	switch {
	case whole && s.Events > 0:
		why("the answer was not streamed: it is one piece of %s, and its first token came with its last", kind)
	case s.Events == 0:
		why("there was no content to judge by")
	case s.Events < enoughEvents:
		why("too few to judge by: %s", plural(s.Events, "content event"))
	case s.Spread < noTime:
		s.Suspected = true
		why("%d content events came within %s, %s after the request: the answer was held back until it was whole, or it is a cached one", s.Events, millis(s.Spread), told(a.FirstToken, a.Send))
	case s.Events >= burst*s.Moments:
		s.Suspected = true
		why("%d content events came in %d bursts, up to %s apart", s.Events, s.Moments, millis(s.Longest))
	case !s.Suspected:
		why("%d content events came at %d moments over %s", s.Events, s.Moments, millis(s.Spread))
	}
	if s.Suspected {
		if _, ok := a.Header["x-accel-buffering"]; !ok {
			why("the answer has no header X-Accel-Buffering: no, which keeps nginx from gathering it")
		}
	}
	return s
}

// told writes the time between two marks.
func told(mark, since *time.Duration) string {
	if mark == nil || since == nil {
		return "-"
	}
	return millis(*mark - *since)
}

// A step is a moment of both requests, since each was sent, or how long it took.
type step struct {
	name      string
	New       *time.Duration `json:"new_connection_ns,omitempty"`
	Again     *time.Duration `json:"again_ns,omitempty"`
	fromStart bool
}

// The steps, in their order.
var stepNames = []string{"dns", "connect", "tls", "headers", "first_byte", "first_event", "first_reasoning", "first_token", "first_answer_token", "total"}

// stepsOf returns the steps of two attempts.
func stepsOf(a, b *record.Attempt) map[string]*step {
	between := func(from, to func(*record.Attempt) *time.Duration) *step {
		took := func(a *record.Attempt) *time.Duration {
			x, y := from(a), to(a)
			if x == nil || y == nil {
				return nil
			}
			d := *y - *x
			return &d
		}
		return &step{New: took(a), Again: took(b)}
	}
	send := func(a *record.Attempt) *time.Duration { return a.Send }
	at := func(mark func(*record.Attempt) *time.Duration) *step {
		s := between(send, mark)
		s.fromStart = true
		return s
	}
	m := map[string]*step{
		"dns":                between(func(a *record.Attempt) *time.Duration { return a.DNSStart }, func(a *record.Attempt) *time.Duration { return a.DNSDone }),
		"connect":            between(func(a *record.Attempt) *time.Duration { return a.ConnectStart }, func(a *record.Attempt) *time.Duration { return a.ConnectDone }),
		"tls":                between(func(a *record.Attempt) *time.Duration { return a.TLSStart }, func(a *record.Attempt) *time.Duration { return a.TLSDone }),
		"headers":            at(func(a *record.Attempt) *time.Duration { return a.Headers }),
		"first_byte":         at(func(a *record.Attempt) *time.Duration { return a.FirstByte }),
		"first_event":        at(func(a *record.Attempt) *time.Duration { return a.FirstEvent }),
		"first_reasoning":    at(func(a *record.Attempt) *time.Duration { return a.FirstReasoning }),
		"first_token":        at(firstOfAnyKind),
		"first_answer_token": at(func(a *record.Attempt) *time.Duration { return a.FirstToken }),
		"total":              {New: a.Total, Again: b.Total, fromStart: true},
	}
	return m
}

// firstOfAnyKind returns when the first reasoning or visible content came.
func firstOfAnyKind(a *record.Attempt) *time.Duration {
	if a.FirstReasoning != nil && (a.FirstToken == nil || *a.FirstReasoning < *a.FirstToken) {
		return a.FirstReasoning
	}
	return a.FirstToken
}

// write prints the result for people.
func (r *probeResult) write(w io.Writer) {
	for _, a := range []*record.Attempt{r.New, r.Again} {
		if !reached(a.Class) {
			fmt.Fprintf(w, "NO ANSWER (%s): %s\n\n", a.Class, printable(a.Error))
			break
		}
	}
	fmt.Fprintf(w, "%s, %s, model %s\n", printable(r.URL), r.Dialect, printable(r.Model))
	if r.ModelFrom != "--model" {
		fmt.Fprintf(w, "  no --model was given: it is %s\n", printable(r.ModelFrom))
	}
	where := strings.Join(r.Addresses, ", ")
	if r.Loopback {
		where += ": this machine, so these are not the figures of an online service"
	}
	fmt.Fprintf(w, "  %s\n", where)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  %s\n", printable(n))
	}
	if r.New.Send == nil && r.Again.Send == nil {
		return // no request was sent, and nothing was measured
	}
	fmt.Fprintf(w, "  This is %s.\n\n", r.Rough)
	fmt.Fprintf(w, "  %-22s %15s %15s\n", "since the request", "new connection", "the next")
	for _, name := range stepNames {
		s := r.Steps[name]
		if s.New == nil && s.Again == nil {
			continue
		}
		label := strings.ReplaceAll(name, "_", " ")
		if !s.fromStart {
			label += " (took)"
		}
		fmt.Fprintf(w, "  %-22s %15s %15s\n", label, orDash(s.New), orDash(s.Again))
	}
	fmt.Fprintf(w, "  %-22s %15s %15s\n\n", "ended as", r.New.Class, r.Again.Class)
	if reached(r.New.Class) {
		r.Stream.write(w)
	}
	if r.New.Headers != nil {
		writeConnection(w, r.New, r.Again)
	}
	if len(r.Events) > 0 {
		fmt.Fprintf(w, "\nThe first events of the first answer, with the time since its request\n")
	}
	for _, e := range r.Events {
		text := printable(e.Data)
		if e.Cut {
			text += " ..."
		}
		if e.Name != "" {
			text = printable(e.Name) + ": " + text
		}
		fmt.Fprintf(w, "  %10s  %s\n", millis(e.At), text)
	}
}

// orDash writes a time that may be absent.
func orDash(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return millis(*d)
}

// write prints how the answer came.
func (s *probeStream) write(w io.Writer) {
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(w, "Streams: %s: %s at %s in %s, spread over %s, longest gap %s\n",
		yes[s.Streams], plural(s.Events, "content event"), plural(s.Moments, "moment"), plural(s.Reads, "read"), millis(s.Spread), millis(s.Longest))
	fmt.Fprintf(w, "Buffering suspected: %s\n", yes[s.Suspected])
	for _, reason := range s.Reasons {
		fmt.Fprintf(w, "  - %s\n", reason)
	}
}

// writeConnection prints what the two requests went over.
func writeConnection(w io.Writer, first, again *record.Attempt) {
	reuse := "it is not known whether the second request used the connection again"
	if again.Reused != nil {
		reuse = "the second request made a new one"
		if *again.Reused {
			reuse = "the second request used it again"
			if again.Idle != nil {
				reuse += ", " + millis(*again.Idle) + " after the first"
			}
		}
	}
	fmt.Fprintf(w, "Connection: %s to %s; %s\n", orNone(first.Protocol), orNone(first.Remote), reuse)
	if t := first.TCP; t != nil {
		fmt.Fprintf(w, "  round trip by the kernel: %s smoothed, %s at least; %d retransmits\n", millis(t.RTT), millis(t.MinRTT), t.Retransmits)
	}
	if len(first.Header) > 0 {
		fmt.Fprintf(w, "Headers of note\n")
	}
	for _, name := range slices.Sorted(maps.Keys(first.Header)) {
		fmt.Fprintf(w, "  %s: %s\n", printable(name), printable(first.Header[name]))
	}
}

// orNone writes a text that may be empty.
func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}
