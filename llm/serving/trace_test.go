package serving

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/random"
)

func TestReadVLLM(t *testing.T) {
	trace := vllmTrace(t, "RTX4090_Llama-3.1-8B")
	if len(trace) != 300 {
		t.Fatalf("%d requests", len(trace))
	}
	// The figures of docs/models.md, T1, that need no model.
	m := MeasuredFigures(trace)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"TTFT", mean(m.TTFT), 65456.6}, {"E2E", mean(m.E2E), 86578.3}, {"TPOT", mean(m.TPOT), 32.4},
		{"TTFT P95", quantile(m.TTFT, .95), 122739.2}, {"E2E P99", quantile(m.E2E, .99), 153627.5},
	} {
		if math.Abs(c.got/c.want-1) > .005 {
			t.Errorf("%s is %.1f ms, want %.1f", c.name, c.got, c.want)
		}
	}
	if trace[0].At != 0 || trace[0].Prompt != 2358 || trace[0].Output != 531 || trace[1].At.Round(time.Microsecond) != 386_902*time.Microsecond {
		t.Errorf("%+v, %+v", trace[0], trace[1])
	}
	if !slices.IsSortedFunc(trace, func(a, b Arrival) int { return int(a.At - b.At) }) {
		t.Error("not in order")
	}
	const good = `{"input_toks": 1, "output_toks": 2, "queued_ts": 5.5}` + "\n"
	for text, want := range map[string]string{
		good + "{\n":        "line 2: not a JSON object",
		"{":                 "line 1: not a JSON object",
		good + "[1]":        "line 2: not a JSON object",
		good + "{\n" + good: "line 2: not a JSON object",
		good + `{"input_toks": 1, "output_toks": 2, "queued_ts": 9.9e9}`:                                               "line 2: queued_ts is 9.9e+09, more than three years from the first one, 5.5",
		good + `{"input_toks": 1, "output_toks": 2}`:                                                                   "line 2: input_toks, output_toks and queued_ts have to be there",
		`{"input_toks": 0, "output_toks": 2, "queued_ts": 5}`:                                                          "line 1: 0 tokens in and 2 out",
		`{"input_toks": 1, "output_toks": 2, "queued_ts": -5}`:                                                         "line 1: queued_ts is -5",
		`{"input_toks": 1, "output_toks": 2, "queued_ts": 5, "first_token_ts": 6}`:                                     "go together",
		good + "\n" + `{"input_toks": 1, "output_toks": 2, "queued_ts": 5, "first_token_ts": 6, "last_token_ts": 5.5}`: "line 3: queued, first and last token come at 5, 6 and 5.5 s",
		`{"input_toks": 1.5, "output_toks": 2, "queued_ts": 5}`:                                                        "line 1: not a JSON object",
		strings.Repeat("x", maxTraceLine+1):                                                                            "line 1: it is longer than 1048576 bytes",
	} {
		if _, _, err := ReadVLLM(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestReadAzure(t *testing.T) {
	const head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	got, passed, err := ReadAzure(strings.NewReader(head + "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,0\n2023-11-16 18:17:03.0000000,110,27\n2024-05-10 00:00:00.009930+00:00,5,6\n"))
	if err != nil || passed != (Passed{Empty: 1}) {
		t.Fatal(err, passed)
	}
	later := time.Date(2024, 5, 10, 0, 0, 0, 9930000, time.UTC).Sub(time.Date(2023, 11, 16, 18, 17, 3, 0, time.UTC))
	if len(got) != 3 || got[0] != (Arrival{Prompt: 110, Output: 27}) || got[1].At != 979_960*time.Microsecond || (got[2].At-later).Abs() > time.Microsecond {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		"a,b,c\n":                           "line 1: the header is",
		head + "1,2\n":                      "line 2: 2 fields",
		head + "yesterday,2,3\n":            `line 2: TIMESTAMP is "yesterday"`,
		head + "2023-11-16 18:17:03,x,3\n":  `line 2: ContextTokens is "x"`,
		head + "2023-11-16 18:17:03,3,x\n":  `line 2: GeneratedTokens is "x"`,
		head + "2023-11-16 18:17:03,3,-1\n": "line 2: 3 tokens in and -1 out",
		head + "2023-11-16 18:17:03,3,1\n1990-11-16 18:17:03,3,1\n": "line 3: TIMESTAMP",
	} {
		if _, _, err := ReadAzure(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A trace is read whoever wrote it: with a byte order mark, with either end of
// line, and up to where it breaks off.
func TestOddLines(t *testing.T) {
	const line, head, row = `{"input_toks": 1, "output_toks": 2, "queued_ts": 5}`, "TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03.9799600,4808,10"
	vllm := func(text string) (int, Passed, error) {
		all, passed, err := ReadVLLM(strings.NewReader(text))
		return len(all), passed, err
	}
	azure := func(text string) (int, Passed, error) {
		all, passed, err := ReadAzure(strings.NewReader(text))
		return len(all), passed, err
	}
	for _, c := range []struct {
		read func(string) (int, Passed, error)
		text string
		n    int
		torn bool
	}{
		{vllm, "\ufeff" + line + "\r\n\r\n" + line, 2, false},
		{vllm, "\ufeff\n" + line, 1, false},
		{vllm, line + "\n" + line[:30], 1, true},
		{vllm, line + "\n" + line[:1], 1, true},
		{azure, "\ufeff" + head + "\r\n" + row + "\r\n" + row, 2, false},
		{azure, head + "\n" + row + "\n" + row[:20], 1, true},
		{azure, head + "\n" + row[:31], 0, true},
	} {
		if n, passed, err := c.read(c.text); err != nil || n != c.n || passed != (Passed{Torn: c.torn}) {
			t.Errorf("%q: %d requests, %+v, %v", c.text, n, passed, err)
		}
	}
}

func checkTrace(t *testing.T, trace []Arrival) {
	var last time.Duration
	for _, a := range trace {
		if a.At < last || a.check() != nil || a.Measured && (a.First < 0 || a.Last < a.First) {
			t.Fatalf("%+v", a)
		}
		last = a.At
	}
}

func FuzzReadVLLM(f *testing.F) {
	f.Add([]byte(`{"input_toks": 1, "output_toks": 2, "queued_ts": 5, "first_token_ts": 6, "last_token_ts": 7}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if trace, _, err := ReadVLLM(bytes.NewReader(text)); err == nil {
			checkTrace(t, trace)
		}
	})
}

func FuzzReadAzure(f *testing.F) {
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if trace, _, err := ReadAzure(bytes.NewReader(text)); err == nil {
			checkTrace(t, trace)
		}
	})
}

// TestCompare: figures of small samples, worked out by hand.
func TestCompare(t *testing.T) {
	c := Compare("x", []float64{4, 1, 2, 3}, []float64{2, 4, 6, 8}, 1)
	// Sorted 1 2 3 4 and 2 4 6 8. Means 2.5 and 5. At 3: 3/4 against 1/4; at 4: 1 against 1/2. Ranks differ by 1, 2, 3, 4.
	if c.Mean.Relative != 1 || c.Quantiles[0].Measured != 2.5 || c.Quantiles[0].Simulated != 5 || c.KS != .5 || c.W1 != 1 {
		t.Errorf("%+v", c)
	}
	same := Compare("x", []float64{1, 2, 3}, []float64{3, 2, 1}, 1)
	if same.KS != 0 || same.W1 != 0 || same.Mean.Relative != 0 {
		t.Errorf("%+v", same)
	}
	if none := Compare("x", nil, []float64{1}, 1); none.Quantiles != nil || none.Measured != 0 {
		t.Errorf("%+v", none)
	}
	// The bootstrap's interval of a mean is that of the central limit theorem.
	r := random.New(1, "sample")
	sample := make([]float64, 400)
	for i := range sample {
		sample[i] = 100 + r.Normal()
	}
	e := Compare("x", sample, sample, 1).Mean
	if half := (e.High - e.Low) / 2; math.Abs(half-1.96/20) > .012 || !e.Inside(0) {
		t.Errorf("the interval is ±%.4f, want ±%.4f", half, 1.96/20)
	}
	if again := Compare("x", sample, sample, 1).Mean; again != e {
		t.Error("the same seed gives another interval")
	}
	if out := (Error{Simulated: 110, Low: 90, High: 100}); out.Inside(.09) || !out.Inside(.11) {
		t.Error("Inside")
	}
}

func TestReplayErrors(t *testing.T) {
	o := even(nil)
	if _, err := Replay([]Arrival{{Prompt: 1, Output: 1}, {Prompt: 100_000, Output: 1}}, o); err == nil || !strings.Contains(err.Error(), "request 2 of the trace: serving: a request of 100000 + 1 tokens needs") {
		t.Error(err)
	}
	if r, err := Replay(nil, o); err != nil || len(r) != 0 {
		t.Error(r, err)
	}
}

// TestChunkedPrefillProtects: with a small budget, a long prompt does not stop
// the others for long (what Sarathi-Serve claims, as a shape).
func TestChunkedPrefillProtects(t *testing.T) {
	worst := func(budget int) (gap time.Duration) {
		o := profile(t, "h100-sxm", "llama-3.1-8b")
		o.BatchedTokens, o.MaxSeqs = budget, 64
		var loop Loop
		s, err := New(&loop, o)
		if err != nil {
			t.Fatal(err)
		}
		var last time.Duration
		s.Submit(Request{Prompt: 100, Output: 400, Wake: everyToken(400), Told: func(e Event) {
			if e.Kind == Token && last > 0 {
				gap = max(gap, e.At-last)
			}
			last = e.At
		}})
		loop.At(time.Second, func() { s.Submit(Request{Prompt: 16000, Output: 10}) })
		loop.Run(forever)
		return gap
	}
	small, large := worst(512), worst(16384)
	t.Logf("the longest gap between tokens is %v with a budget of 512, and %v with one of 16,384", small, large)
	if small*5 > large {
		t.Errorf("%v and %v", small, large)
	}
}
