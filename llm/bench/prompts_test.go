package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"firstsound/llm"
	"firstsound/llm/tokens"
)

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		name string
		o    Options
		want string // phase level/rate warm-up requests duration
		took time.Duration
	}{
		{"default", Options{Warmup: 5, Single: 30, Levels: DefaultLevels, Duration: time.Minute},
			"single 1 0 5 30 0s; level 1 0 5 0 1m0s; level 5 0 5 0 1m0s; level 10 0 10 0 1m0s; level 20 0 20 0 1m0s", 4*time.Minute + 35*time.Second + 12*time.Second},
		{"requests", Options{Warmup: 5, Levels: []int{4}, Requests: 10, Duration: time.Minute}, "level 4 0 5 10 0s", 4 * time.Second},
		{"no warm-up", Options{Levels: []int{8}, Duration: time.Second, Turns: 8, Idle: []time.Duration{time.Second}},
			"level 8 0 0 0 1s; conversation 1 0 0 32 0s; idle_gap 1 0 0 5 0s", 2*time.Second + 32*time.Second + 10*time.Second},
		{"open loop", Options{Warmup: 5, Rates: []float64{2, 5}, Arrivals: Poisson, Requests: 20}, "rate 0 2 5 20 0s; rate 0 5 5 20 0s", 13500*ms + 6*time.Second},
		{"the rest", Options{Warmup: 5, PromptTokens: []int{50, 500}, Turns: 10, NewConnections: true, Idle: []time.Duration{time.Second, 6 * time.Second}},
			"prompt_size 1 0 5 30 0s; prompt_size 1 0 5 30 0s; conversation 1 0 10 30 0s; new_conn 1 0 5 30 0s; idle_gap 1 0 0 5 0s; idle_gap 1 0 0 5 0s", 190 * time.Second},
	} {
		var got []string
		var took time.Duration
		for _, p := range test.o.Plan() {
			got = append(got, fmt.Sprint(p.Phase, p.Level, p.AskedRate, p.Warmup, p.Requests, p.Duration))
			took += Estimate(p, time.Second)
			if Name(p) == string(p.Phase) {
				t.Errorf("%s: %s has no name", test.name, p.Phase)
			}
		}
		if joined := strings.ReplaceAll(strings.Join(got, "; "), "  ", " "); !sameWords(joined, test.want) || took != test.took {
			t.Errorf("%s: %s, %v", test.name, joined, took)
		}
	}
	parts := Options{Levels: []int{1, 7}, Rates: []float64{1}}.Plan()
	if n, known := Peak(parts, 0); n != 7 || known {
		t.Errorf("%d, %v", n, known)
	}
	if n, known := Peak(parts, 9); n != 9 || !known {
		t.Errorf("%d, %v", n, known)
	}
}

// sameWords compares without regard to where Sprint puts spaces.
func sameWords(a, b string) bool {
	return strings.ReplaceAll(a, " ", "") == strings.ReplaceAll(b, " ", "")
}

// Mean and spread of the gaps are those of their distribution, within five
// standard errors.
func TestArrivals(t *testing.T) {
	const n, rate = 20_000, 50.0
	for _, text := range []string{"constant", "poisson", "gamma:0.5", "gamma:2"} {
		a, err := ParseArrivals(text)
		if err != nil || a.String() != text {
			t.Errorf("%s: %v, %v", text, a, err)
		}
		var sum, squares float64
		last, i := time.Duration(0), 0
		for at := range a.Times(rate, 3, 1) {
			if at < last {
				t.Fatalf("%s: %v after %v", text, at, last)
			}
			if i > 0 {
				gap := (at - last).Seconds() * rate
				sum, squares = sum+gap, squares+gap*gap
			}
			if last = at; i == n {
				break
			}
			i++
		}
		mean := sum / n
		cv := math.Sqrt(squares/n-mean*mean) / mean
		if math.Abs(mean-1) > 5*a.CV/math.Sqrt(n)+1e-6 || math.Abs(cv-a.CV) > 0.06*a.CV+1e-4 {
			t.Errorf("%s: the gaps are %v of the mean, their CV is %v", text, mean, cv)
		}
	}
	for _, bad := range []string{"", "uniform", "gamma", "gamma:", "gamma:0", "gamma:-1", "gamma:NaN", "gamma:x"} {
		if _, err := ParseArrivals(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Prompts of a length are within 2 % of it, or a token, and all that is sent is
// counted.
func TestSizedPrompts(t *testing.T) {
	var vocabulary tokens.Counter
	exact := func(text string) int {
		n, err := vocabulary.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, language := range []string{"en", "zh", "en", "zh"} {
		count := llm.EstimateTokens
		if i >= 2 {
			count = exact
		}
		p, err := NewPrompts(PromptOptions{Language: language, Count: count, Nonce: 123456789})
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []int{50, 100, 500, 2000, 8000} {
			if err := p.Prepare(target); err != nil {
				t.Fatal(err)
			}
			texts := map[string]bool{}
			for i := range 12 {
				prompt := p.Sized(target, i)
				sent := p.head(prompt, i)
				n := p.tokens(sent)
				if math.Abs(float64(n-target)) > math.Max(1, 0.02*float64(target)) || prompt.Tokens != n {
					t.Errorf("%s, %d tokens: prompt %d has %d, and says %d", language, target, i, n, prompt.Tokens)
				}
				_, text, _ := strings.Cut(sent[0].Content, ". ") // beyond the number
				if texts[text] != (i >= 6) {
					t.Errorf("%s, %d tokens: prompt %d is one that was there", language, target, i)
				}
				texts[text] = true
				if !utf8.ValidString(text) || strings.Contains(text, "  ") {
					t.Errorf("%s, %d tokens: %q", language, target, text)
				}
			}
		}
		if err := p.Prepare(10); err == nil || !strings.Contains(err.Error(), "are the least") {
			t.Errorf("10 tokens: %v", err)
		}
	}
}

// The prompts have the shape of a voice agent's: system, history, results of
// tools; with tool calls answered, and roles in the order that services accept.
func TestNaturalPrompts(t *testing.T) {
	p := prompts(t)
	languages, results, last := map[string]int{}, 0, map[llm.Role]int{}
	least, most := math.MaxInt, 0
	for i := range 66 {
		prompt := p.Natural(i)
		languages[prompt.Language]++
		least, most = min(least, prompt.Tokens), max(most, prompt.Tokens)
		m := prompt.Messages
		last[m[len(m)-1].Role]++
		for k := range m {
			var wrong bool
			switch m[k].Role {
			case llm.System:
				wrong = k != 0
			case llm.User:
				wrong = k == 0 || m[k-1].Role == llm.User || m[k-1].Role == llm.Result
			case llm.Assistant:
				wrong = k == 0 || m[k-1].Role != llm.User && m[k-1].Role != llm.Result
			case llm.Result:
				results++
				wrong = len(m[k-1].ToolCalls) != 1 || m[k-1].ToolCalls[0].ID != m[k].ToolCallID || len(m[k].ToolCallID) != 9
			}
			if wrong || m[k].Content == "" && len(m[k].ToolCalls) == 0 {
				t.Errorf("prompt %d: message %d of role %s: %q", i, k, m[k].Role, m[k].Content)
			}
		}
	}
	if languages["en"] != 33 || languages["zh"] != 33 || results < 60 || last[llm.Assistant] > 0 || last[llm.Result] < 15 {
		t.Errorf("%v, %d results, the last are %v", languages, results, last)
	}
	if least < 100 || most < 2*least {
		t.Errorf("from %d to %d tokens", least, most)
	}
	if _, err := NewPrompts(PromptOptions{Language: "fr"}); err == nil {
		t.Error("French is taken")
	}
	shared, _ := NewPrompts(PromptOptions{Language: "en", Shared: true, Count: llm.EstimateTokens})
	if m := shared.head(shared.Natural(0), 5); !strings.HasPrefix(m[0].Content, "You answer the phone") {
		t.Errorf("a shared head begins with %q", m[0].Content[:20])
	}
}

func TestReadPrompts(t *testing.T) {
	good := "\ufeff{\"text\":\"what time is it\"}\r\n\n" +
		`{"prompt":"wie spät ist es","language":"de"}` + "\n" +
		`{"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"}],"id":7}`
	p, err := ReadPrompts("f.jsonl", strings.NewReader(good), PromptOptions{Count: llm.EstimateTokens})
	if err != nil || len(p.file) != 3 {
		t.Fatalf("%v, %v", p, err)
	}
	third := p.Natural(5)
	if m := third.Messages; m[0].Role != llm.System || m[1].Content != "ab" || m[2].ToolCalls[0].Name != "f" || m[3].ToolCallID != "x" {
		t.Errorf("%+v", m)
	}
	if p.Natural(1).Language != "de" || third.Tokens == 0 || p.Prepare(100) == nil {
		t.Errorf("%+v", p.file)
	}
	for _, test := range []struct{ in, want string }{
		{"", "f.jsonl: there is no prompt in it"},
		{"{\"text\":\"a\"}\nhello", "f.jsonl:2: a line is an object of JSON"},
		{`{"text":5}`, "f.jsonl:1: text: "},
		{`{"text":" "}`, "f.jsonl:1: text: is empty"},
		{`{"b":1,"a":2}`, "f.jsonl:1: has none of the keys messages, prompt and text (it has: a, b)"},
		{`{"messages":[]}`, "f.jsonl:1: messages: there is none"},
		{`{"messages":[{"role":"bot"}]}`, `f.jsonl:1: messages: [0].role: is system, developer, user, assistant or tool, not "bot"`},
		{`{"messages":[{"role":"user","content":5}]}`, "f.jsonl:1: messages: [0].content: is a string or a list"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, `f.jsonl:1: messages: [0].content: [0].type: only text is sent, not "image_url"`},
		{`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, "f.jsonl:1: messages: the last is of the assistant"},
		{`{"text":"a","language":1}`, "f.jsonl:1: language: "},
	} {
		if _, err := ReadPrompts("f.jsonl", strings.NewReader(test.in), PromptOptions{Count: llm.EstimateTokens}); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", test.in, err)
		}
	}
	long := `{"text":"` + strings.Repeat("a", maxPromptLine) + `"}`
	if _, err := ReadPrompts("f", strings.NewReader("{\"text\":\"a\"}\n"+long), PromptOptions{Count: llm.EstimateTokens}); err == nil || !strings.HasPrefix(err.Error(), "f:2: ") {
		t.Errorf("a long line: %v", err)
	}
}

func FuzzReadPrompts(f *testing.F) {
	f.Add(`{"text":"a"}`)
	f.Add(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ReadPrompts("f", strings.NewReader(s), PromptOptions{Count: func(s string) int { return len(s) }})
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%v", err)
		}
		if err == nil && len(p.Natural(0).Messages) == 0 {
			t.Error("a prompt without messages")
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	for b.Loop() {
		if err := prompts(b).Prepare(2000); err != nil {
			b.Fatal(err)
		}
	}
}
