package llmmock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A dialect is how a service departs from OpenAI's chat completions.
type dialect struct {
	name, about   string
	space         string // after "data:"
	reasoning     string // key of reasoning in the delta
	comment       string // sent while a request waits
	keepAlive     time.Duration
	early         bool   // the first comment comes with the headers, at once
	role          bool   // the role is on every event
	null          bool   // the role's event has content null
	usageOnFinish bool   // usage comes with the finish reason, asked or not
	filter        bool   // Azure's content filter results
	timings       bool   // llama.cpp's
	groq          bool   // x_groq
	extra         string // more keys of every event
	metrics       string // prefix of the names of /metrics
	header        func(h http.Header, requestID string)
}

func setHeaders(pairs ...string) func(http.Header, string) {
	return func(h http.Header, id string) {
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], strings.ReplaceAll(pairs[i+1], "ID", id))
		}
	}
}

// dialects are those of OpenAI's chat completions, the default first. Their
// sources are those of docs' dialect table: field names by the projects' own
// documentation and code.
var dialects = []dialect{
	{name: "vllm", about: "vLLM: the role first, reasoning_content, X-Request-Id", header: setHeaders("X-Request-Id", "ID")},
	{name: "openai", about: "OpenAI: openai-processing-ms, service_tier", extra: `,"service_tier":"default","system_fingerprint":"fp_mock"`, header: setHeaders("X-Request-Id", "ID")},
	{name: "sglang", about: "SGLang", metrics: "sglang"},
	{name: "llamacpp", about: "llama.cpp: timings, prompt_progress, content null first", null: true, timings: true, metrics: "llamacpp"},
	{name: "deepseek", about: "DeepSeek: : keep-alive, reasoning_content, usage with the finish", comment: "keep-alive", keepAlive: 10 * time.Second, early: true, usageOnFinish: true},
	{name: "azure", about: "Azure OpenAI: an event without choices first, content_filter_results", filter: true, header: setHeaders("Apim-Request-Id", "ID", "X-Ms-Region", "Mock")},
	{name: "groq", about: "Groq: x_groq with its times", reasoning: "reasoning", groq: true, header: setHeaders("X-Request-Id", "ID")},
	{name: "openrouter", about: "OpenRouter: : OPENROUTER PROCESSING, reasoning", reasoning: "reasoning", comment: "OPENROUTER PROCESSING", keepAlive: time.Second, early: true,
		extra: `,"provider":"Mock"`, header: setHeaders("X-Generation-Id", "gen-ID")},
	{name: "dashscope", about: "DashScope (Qwen): data:{, the role on every event", space: "-", role: true, header: setHeaders("X-Request-Id", "ID")},
	{name: "ollama", about: "Ollama's /v1: the role on every event, reasoning", reasoning: "reasoning", role: true, extra: `,"system_fingerprint":"fp_ollama"`},
}

// findDialect returns the dialect of that name; "" is the first.
func findDialect(name string) (*dialect, error) {
	var names []string
	for i := range dialects {
		d := dialects[i]
		if d.name != name && name != "" {
			names = append(names, d.name)
			continue
		}
		if d.reasoning == "" {
			d.reasoning = "reasoning_content"
		}
		if d.comment == "" {
			d.comment = "keep-alive"
		}
		if d.metrics == "" {
			d.metrics = "vllm"
		}
		d.space = map[string]string{"": " ", "-": ""}[d.space]
		return &d, nil
	}
	return nil, fmt.Errorf("there is no dialect %q; there are %s", name, strings.Join(names, ", "))
}

// Dialects returns the names of the dialects of /v1/chat/completions, each with
// what is special about it.
func Dialects() [][2]string {
	var all [][2]string
	for _, d := range dialects {
		all = append(all, [2]string{d.name, d.about})
	}
	return all
}

// timings are a service's own times of a request; nil is not known.
type timings struct {
	queue, load, prefill, decode *time.Duration
}

// total returns the sum of what is known.
func (t timings) total() time.Duration {
	var sum time.Duration
	for _, d := range []*time.Duration{t.queue, t.load, t.prefill, t.decode} {
		if d != nil {
			sum += *d
		}
	}
	return sum
}

// A renderer makes the bytes of an answer. It keeps state: pieces are to be
// rendered in their order.
type renderer interface {
	contentType() string
	// append appends a piece to b. The timings are nil where they are those
	// that the plan knew.
	append(b []byte, p *Piece, t *timings) []byte
	timed(p *Piece) bool // the piece tells timings
	whole(p *Plan) []byte
	refusal(status int, message string) []byte
	refused() string // content type of a refusal
}

// An answer is what all events of an answer say alike.
type answer struct {
	id, requestID, model string
	created              time.Time
	plan                 *Plan
	times                timings
	asked                bool // for usage
}

// text joins the visible text, or the reasoning, of a plan.
func (p *Plan) text(kind Kind) string {
	var b strings.Builder
	for i := range p.Pieces {
		if p.Pieces[i].Kind == kind {
			b.WriteString(p.Pieces[i].Text)
		}
	}
	return b.String()
}

// reason returns the finish reason, "" if there is none.
func (p *Plan) reason() string { return p.text(Finish) }

// appendString appends s as JSON.
func appendString(b []byte, s string) []byte {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	var w strings.Builder
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil { // a string always encodes
		return append(b, `""`...)
	}
	return append(b, strings.TrimSuffix(w.String(), "\n")...)
}

// appendf is fmt.Appendf with its strings, %s, as JSON.
func appendf(b []byte, format string, args ...any) []byte {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = appendString(nil, s)
		}
	}
	return fmt.Appendf(b, format, args...)
}

func ms(d *time.Duration) float64 { return float64(*d) / 1e6 }
