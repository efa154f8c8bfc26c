package diagnosis

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"firstsound/llm/record"
)

// A PointState says what became of a point of the checklist.
type PointState string

// The states of points.
const (
	Passed   PointState = "passed"
	Failed   PointState = "failed"
	NotKnown PointState = "not_known" // the records do not hold what it needs
)

// A Point is a line of the release checklist, filled in from a run's records.
type Point struct {
	Number   int        `json:"number"` // 1 to 10
	Name     string     `json:"name"`
	State    PointState `json:"state"`
	Evidence string     `json:"evidence"`
	Advice   string     `json:"advice,omitempty"` // what to do where it is not passed
}

// The bounds of the checklist. Those on n are the two-sided 99 % bounds of
// docs/llm-stream.md: as many requests are needed for a quantile to lie between
// two of them.
const (
	leastWarmup = 5
	leastP50    = 11
	leastP95    = 130
	leastP99    = 662
	// realPrompt is how many tokens the median prompt must have: a voice agent's
	// has a system prompt and some turns, "hello" has 1 to 10.
	realPrompt = 50
)

// Checklist returns the ten points of the release checklist (R81), each passed,
// failed or not known by the run's own records. verdicts are what Find returned.
func Checklist(run record.Run, attempts []*record.Attempt, samples []record.Sample, verdicts []Verdict) []Point {
	c := &checklist{view: newView(run, attempts, samples), verdicts: verdicts}
	c.add("warm-up of at least 5 requests", c.warmup)
	c.add("fixed variables recorded", c.fixed)
	c.add("streaming everywhere, no buffering layer", c.streaming)
	c.add("TTFT, TPOT, total and output length apart", c.apart)
	c.add("P50, P95 and P99 supported by n", c.quantiles)
	c.add("the tester's place and network recorded", c.tester)
	c.add("real prompts", c.prompts)
	c.add("one at a time and several at once", c.concurrency)
	c.add("the client ruled out as the bottleneck", c.client)
	c.add("cross-checked with the server", c.crossChecked)
	return c.points
}

type checklist struct {
	*view
	verdicts []Verdict
	points   []Point
}

// add fills in a point.
func (c *checklist) add(name string, check func() (PointState, string, string)) {
	p := Point{Number: len(c.points) + 1, Name: name}
	p.State, p.Evidence, p.Advice = check()
	if p.State == Passed {
		p.Advice = ""
	}
	c.points = append(c.points, p)
}

// has returns the first verdict of the names.
func (c *checklist) has(names ...string) *Verdict {
	for i := range c.verdicts {
		if slices.Contains(names, c.verdicts[i].Name) {
			return &c.verdicts[i]
		}
	}
	return nil
}

func (c *checklist) warmup() (PointState, string, string) {
	before, all := 0, 0
	measured := false
	for _, a := range c.all {
		switch {
		case !a.Warmup:
			measured = true
		case !measured:
			before++
			all++
		default:
			all++
		}
	}
	text := fmt.Sprintf("%d warm-up requests before the first measured one, %d in all, left out of the figures", before, all)
	if before < leastWarmup {
		return Failed, text, "Warm up with at least 5 requests."
	}
	return Passed, text, ""
}

func (c *checklist) fixed() (PointState, string, string) {
	var there, missing []string
	note := func(name, value string) {
		if value == "" {
			missing = append(missing, name)
		} else {
			there = append(there, name+" "+value)
		}
	}
	first := func(names ...string) string {
		for _, n := range names {
			if v := c.run.Fixed[n]; v != "" {
				return v
			}
		}
		return ""
	}
	model := c.run.Target.Model
	if model == "" {
		model = first("model", "llm.model", "llm.server.model", "llm.provider")
	}
	if c.run.Target.Version != "" {
		model += " (" + c.run.Target.Version + ")"
	}
	note("model", model)
	note("max_tokens", first("max_tokens", "max_completion_tokens", "llm.max_tokens"))
	note("temperature", first("temperature", "llm.temperature"))
	lengths := values(c.ok, func(a *record.Attempt) (float64, bool) {
		if a.PromptTokens == nil {
			return 0, false
		}
		return float64(*a.PromptTokens), true
	})
	if len(lengths) == 0 {
		note("prompt length", "")
	} else {
		s := ordered(lengths)
		note("prompt length", fmt.Sprintf("%.0f to %.0f tokens", s[0], s[len(s)-1]))
	}
	if len(missing) > 0 {
		return Failed, "not recorded: " + strings.Join(missing, ", "), "Name them on the command line: what is left to the service can change from one day to the next."
	}
	return Passed, strings.Join(there, ", "), ""
}

func (c *checklist) streaming() (PointState, string, string) {
	if c.run.Fixed["stream"] == "false" {
		return Failed, "stream is false", "Ask for a stream."
	}
	if v := c.has("proxy_buffering", "compression_buffering", "fake_streaming", "content_filter_bursts", "not_streamed"); v != nil {
		return Failed, v.Name + ": " + v.Title, v.Advice
	}
	n := len(where(c.shaped(), func(a *record.Attempt) bool { return len(a.Chunks) > 0 }))
	if n < 10 {
		return NotKnown, "the arrival of 12 events and more is known of " + countOf(n, "answer"), "Let the answers be longer (bench llm: --max-tokens 64; run: --set llm.max_tokens=64)."
	}
	return Passed, countOf(n, "answer") + " came event by event", ""
}

func (c *checklist) apart() (PointState, string, string) {
	if len(c.ok) == 0 {
		return NotKnown, "no request ended well", "Look at the errors."
	}
	var parts []string
	worst := Passed
	for _, m := range []struct {
		name string
		ok   func(*record.Attempt) bool
	}{
		{"TTFT", func(a *record.Attempt) bool { return a.TTFT != nil }},
		{"TPOT", func(a *record.Attempt) bool { return a.TPOT != nil }},
		{"total", func(a *record.Attempt) bool { return a.Total != nil }},
		{"output length", func(a *record.Attempt) bool { return a.OutputTokens != nil }},
	} {
		n := len(where(c.ok, m.ok))
		parts = append(parts, fmt.Sprintf("%s in %d", m.name, n))
		if 10*n < 9*len(c.ok) {
			worst = Failed
		}
	}
	return worst, fmt.Sprintf("of %s: %s", countOf(len(c.ok), "request"), strings.Join(parts, ", ")), "What is missing in more than a tenth of the requests is not measured: ask for usage, and for more than one token."
}

func (c *checklist) quantiles() (PointState, string, string) {
	var parts []string
	p95, p99 := true, false
	for _, p := range c.parts {
		switch p.phase {
		case record.Single, record.Level, record.Rate, record.Call:
		default:
			continue
		}
		n := len(p.as)
		p95, p99 = p95 && n >= leastP95, p99 || n >= leastP99
		holds := "not even P50"
		switch {
		case n >= leastP99:
			holds = "P99"
		case n >= leastP95:
			holds = "P95"
		case n >= leastP50:
			holds = "P50"
		}
		parts = append(parts, fmt.Sprintf("%s: n %d holds %s", p.name(), n, holds))
	}
	text := strings.Join(parts, "; ")
	switch {
	case len(parts) == 0:
		return NotKnown, "no part of the run measures one kind of request", "Run the single requests or a level."
	case !p95 || !p99:
		return Failed, text, fmt.Sprintf("Each part needs %d requests for P95, and one of them %d for P99.", leastP95, leastP99)
	}
	return Passed, text, ""
}

func (c *checklist) tester() (PointState, string, string) {
	t := c.run.Tester
	if c.simulated() {
		return Passed, "a simulated service: there is no place", ""
	}
	if t.Place == "" || t.Network == "" {
		return Failed, fmt.Sprintf("place %q, network %q", t.Place, t.Network), "Say where you measure from and over what: --place and --network."
	}
	return Passed, t.Place + ", " + t.Network, ""
}

// simulated says whether the times are a model's.
func (c *checklist) simulated() bool {
	return c.run.Clock == "virtual" || len(c.ok) > 0 && c.ok[0].Stamps == record.ByModel
}

func (c *checklist) prompts() (PointState, string, string) {
	lengths := values(where(c.ok, func(a *record.Attempt) bool { return a.Phase != record.PromptSize }), func(a *record.Attempt) (float64, bool) {
		if a.PromptTokens == nil {
			return 0, false
		}
		return float64(*a.PromptTokens), true
	})
	if len(lengths) == 0 {
		return NotKnown, "nobody counted the prompts' tokens", "Ask for usage."
	}
	s := ordered(lengths)
	middle := at(s, 0.5)
	text := fmt.Sprintf("%.0f tokens at the median, %.0f to %.0f", middle, s[0], s[len(s)-1])
	if from := c.run.Fixed["prompts"]; from != "" {
		text += ", from " + from
	}
	if middle < realPrompt || s[0] == s[len(s)-1] {
		return Failed, text, "Take conversations as they are: system prompt, history, tool results. The built-in ones are such."
	}
	return Passed, text, ""
}

func (c *checklist) concurrency() (PointState, string, string) {
	single, several := 0, 0
	most := 0
	for _, a := range c.ok {
		most = max(most, a.InFlight, a.Level)
		switch {
		case a.Phase == record.Single || a.Level == 1 || a.Phase == record.Call && a.InFlight == 1:
			single++
		case a.Level > 1 || a.Phase == record.Rate || a.Phase == record.Call && a.InFlight > 1:
			several++
		}
	}
	text := fmt.Sprintf("%s one at a time, %d with others, up to %d at once", countOf(single, "request"), several, most)
	if single < leastP50 || several < leastP50 {
		return Failed, text, "Measure both: --concurrency 1,5,10,20."
	}
	return Passed, text, ""
}

func (c *checklist) client() (PointState, string, string) {
	if v := c.has("client_limit"); v != nil && v.Severity != Note {
		return Failed, v.Name + ": " + v.Evidence[0].String(), v.Advice
	}
	if c.simulated() {
		return Passed, "a virtual clock: the client takes no time", ""
	}
	s, r := c.run.SelfTest, c.run.Resources
	if s == nil || r == nil {
		return NotKnown, "there is no self-test, or no account of the client's own use", "Do not switch the self-test off."
	}
	return Passed, fmt.Sprintf("self-test at %s: %.3f ms are added at P99; timers %.3f ms late at P99; no rule finds a limit of the client", countOf(s.Streams, "stream"), ms(s.TTFT99), ms(r.TimerLateP99)), ""
}

func (c *checklist) crossChecked() (PointState, string, string) {
	joined := where(c.ok, func(a *record.Attempt) bool { _, ok := serverTTFT(a); return ok })
	text := fmt.Sprintf("%d of %d requests have the server's times beside the client's", len(joined), len(c.ok))
	if len(joined) > 0 {
		text += " (" + joined[0].Server.Source + ")"
	}
	if len(c.samples) > 0 {
		text += fmt.Sprintf("; %s of its monitoring", countOf(len(c.samples), "sample"))
	}
	const advice = "Join the server's log: --server-log FILE, or its monitoring: --server-metrics URL."
	if v := c.has("client_server_mismatch"); v != nil && v.Severity == Fault {
		return Failed, text + "; but they differ: " + v.Evidence[0].String(), v.Advice
	}
	if 10*len(joined) < 9*len(c.ok) || len(c.ok) == 0 {
		return Failed, text, advice
	}
	return Passed, text, ""
}

// FailedPoints returns how many of the points failed.
func FailedPoints(points []Point) int {
	n := 0
	for _, p := range points {
		if p.State == Failed {
			n++
		}
	}
	return n
}

// WritePoints writes the checklist for people, in lines of at most width
// characters (at least 40).
func WritePoints(w io.Writer, points []Point, width int) error {
	var b strings.Builder
	for _, p := range points {
		word := map[PointState]string{Passed: "passed", Failed: "FAILED", NotKnown: "not known"}[p.State]
		wrap(&b, max(width, 40), "", fmt.Sprintf("%2d %s: %s. %s.", p.Number, word, p.Name, strings.TrimSuffix(p.Evidence, ".")))
		if p.Advice != "" {
			wrap(&b, max(width, 40), "   ", "What to do: "+p.Advice)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
