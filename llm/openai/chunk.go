package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"firstsound/llm/record"
	"firstsound/llm/stream"
	"firstsound/llm/stream/fields"
	"firstsound/llm/wire"
)

// NewReader implements wire.Protocol.
func (p *Protocol) NewReader(wire.Response) wire.Reader { return &reader{} }

type reader struct {
	whole bool // the answer is one that the service did not stream, or an error
	tools bool // a piece of a tool call came
}

func (r *reader) Decoder() stream.Decoder { return &sniffer{r: r} }

const endMark = "[DONE]"

// Read implements wire.Reader.
func (r *reader) Read(raw stream.Event, e *wire.Event) error {
	if string(raw.Data) == endMark {
		e.Done = true
		return nil
	}
	in := fields.Of(raw.Data)
	if in.Next() != '{' {
		in.Skip()
		if raw.Name == "error" {
			e.Fault = wire.Fault(raw.Data)
			return nil
		}
		return fmt.Errorf("it is neither JSON nor %s: %.60q", endMark, raw.Data)
	}
	choices, fault, words := false, false, false
	in.Object()
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "choices":
			choices = true
			r.choices(&in, e)
		case "usage":
			readUsage(&in, e)
		case "system_fingerprint":
			e.Version = in.Same(e.Version)
		case "error":
			fault = notNull(&in) || fault
		case "message", "detail":
			words = notNull(&in) || words
		case "x_groq":
			readGroq(&in, e)
		case "timings":
			readTimings(in.Raw(), e)
		case "prompt_progress":
			readProgress(in.Raw(), e)
		case "metrics":
			readMetrics(in.Raw(), e)
		default:
			in.Skip()
		}
	}
	if err := in.End(); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if fault || words && !choices || raw.Name == "error" || e.Finish == "error" {
		e.Fault = wire.Fault(raw.Data)
		e.Finish = ""
	}
	if r.whole && e.Finish != "" {
		e.Done = true // nothing comes after it
	}
	return nil
}

// notNull takes a value and says whether it is one.
func notNull(in *fields.Reader) bool {
	raw := in.Raw()
	return len(raw) > 0 && string(raw) != "null" && string(raw) != `""` && string(raw) != "false"
}

// choices takes the first choice: only one answer is asked for.
func (r *reader) choices(in *fields.Reader, e *wire.Event) {
	if !in.Array() {
		return
	}
	for n := 0; in.Item(); n++ {
		if n > 0 {
			in.Skip()
			continue
		}
		if !in.Object() {
			continue
		}
		for key, ok := in.Member(); ok; key, ok = in.Member() {
			switch string(key) {
			case "delta", "message": // message: of an answer that was not streamed
				r.delta(in, e)
			case "finish_reason":
				if s, ok := in.Str(); ok {
					e.Finish = s
				}
			case "logprobs":
				countLogprobs(in, e)
			case "usage": // Moonshot has it here
				readUsage(in, e)
			default:
				in.Skip()
			}
		}
	}
	if e.Finish == "function_call" || e.Finish == "stop" && r.tools { // some servers forget to say why
		e.Finish = "tool_calls"
	}
}

func (r *reader) delta(in *fields.Reader, e *wire.Event) {
	if !in.Object() {
		return
	}
	reasoning := "" // by its other name: some servers send both
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "role":
			e.Role = in.Next() == '"'
			in.Skip()
		case "content":
			if in.Next() == '[' {
				readParts(in.Raw(), e)
			} else if s, ok := in.Str(); ok {
				e.Content += s
			}
		case "refusal":
			if s, ok := in.Str(); ok {
				e.Content += s // it is what the user gets
			}
		case "reasoning_content":
			if s, ok := in.Str(); ok {
				e.Reasoning += s
			}
		case "reasoning":
			if s, ok := in.Str(); ok {
				reasoning = s
			}
		case "tool_calls":
			r.toolCalls(in, e)
		default:
			in.Skip()
		}
	}
	if e.Reasoning == "" {
		e.Reasoning = reasoning
	}
}

func (r *reader) toolCalls(in *fields.Reader, e *wire.Event) {
	if !in.Array() {
		return
	}
	for n := 0; in.Item(); n++ {
		p := wire.Piece{Index: n}
		if !in.Object() {
			continue
		}
		for key, ok := in.Member(); ok; key, ok = in.Member() {
			switch string(key) {
			case "index":
				if i, ok := in.Int(); ok {
					p.Index = i
				}
			case "id":
				p.ID, _ = in.Str()
			case "function":
				readFunction(in, &p)
			default:
				in.Skip()
			}
		}
		r.tools = true
		e.Pieces = append(e.Pieces, p)
	}
}

func readFunction(in *fields.Reader, p *wire.Piece) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "name":
			p.Name, _ = in.Str()
		case "arguments":
			if in.Next() == '{' { // the object itself, and not its text
				p.Arguments = string(in.Raw())
			} else {
				p.Arguments, _ = in.Str()
			}
		default:
			in.Skip()
		}
	}
}

// countLogprobs takes the number of tokens of which the log-probabilities are
// told: the chunk's.
func countLogprobs(in *fields.Reader, e *wire.Event) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		if string(key) != "content" {
			in.Skip()
			continue
		}
		if in.Array() {
			for in.Item() {
				in.Skip()
				e.Tokens++
			}
		}
	}
}

// readParts takes content in parts, as Mistral's reasoning models send it.
func readParts(raw []byte, e *wire.Event) {
	var parts []struct {
		Type, Text string
		Thinking   json.RawMessage
	}
	if json.Unmarshal(raw, &parts) != nil {
		return
	}
	for _, p := range parts {
		if p.Type == "thinking" {
			var inner []struct{ Text string }
			if json.Unmarshal(p.Thinking, &inner) == nil {
				for _, t := range inner {
					e.Reasoning += t.Text
				}
			}
			continue
		}
		e.Content += p.Text
	}
}

// usage is what services count, by all the names that are in use, and the times
// that Groq has beside it, in seconds.
type usage struct {
	prompt, completion, cached, reasoning *int
	queue, prefill, decode, total         *time.Duration
}

func readUsage(in *fields.Reader, e *wire.Event) {
	if !in.Object() {
		return
	}
	var u usage
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "prompt_tokens":
			number(in, &u.prompt)
		case "completion_tokens":
			number(in, &u.completion)
		case "prompt_tokens_details":
			inner(in, "cached_tokens", &u.cached)
		case "completion_tokens_details":
			inner(in, "reasoning_tokens", &u.reasoning)
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek, Moonshot
			number(in, &u.cached)
		case "reasoning_tokens": // SGLang
			number(in, &u.reasoning)
		case "queue_time":
			u.queue = seconds(in)
		case "prompt_time":
			u.prefill = seconds(in)
		case "completion_time":
			u.decode = seconds(in)
		case "total_time":
			u.total = seconds(in)
		default:
			in.Skip()
		}
	}
	u.note(e)
}

// number takes a count; what is none leaves the old one.
func number(in *fields.Reader, count **int) {
	if n, ok := in.Int(); ok {
		*count = &n
	}
}

// inner takes a count that is a member of an object.
func inner(in *fields.Reader, name string, count **int) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		if string(key) == name {
			number(in, count)
		} else {
			in.Skip()
		}
	}
}

func seconds(in *fields.Reader) *time.Duration {
	x, err := strconv.ParseFloat(string(in.Raw()), 64)
	if err != nil {
		return nil
	}
	return duration(&x, time.Second)
}

func (u *usage) note(e *wire.Event) {
	told := wire.Usage{Prompt: u.prompt, Cached: u.cached, Output: u.completion, Reasoning: u.reasoning}
	if told != (wire.Usage{}) {
		e.Usage = &told
	}
	if u.queue != nil || u.prefill != nil {
		e.Server = &record.Server{
			Source: "groq usage", Queue: u.queue, Prefill: u.prefill, Decode: u.decode, Total: u.total,
			PromptTokens: u.prompt, OutputTokens: u.completion,
		}
	}
}

// readGroq takes Groq's own object, which has the usage, or an error.
func readGroq(in *fields.Reader, e *wire.Event) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "usage":
			readUsage(in, e)
		case "error":
			e.Fault, _ = in.Str()
		default:
			in.Skip()
		}
	}
}

// readTimings takes llama.cpp's own times, in milliseconds.
func readTimings(raw []byte, e *wire.Event) {
	var t struct {
		CacheN      *int     `json:"cache_n"`
		PromptN     *int     `json:"prompt_n"`
		PromptMS    *float64 `json:"prompt_ms"`
		PredictedN  *int     `json:"predicted_n"`
		PredictedMS *float64 `json:"predicted_ms"`
	}
	if json.Unmarshal(raw, &t) != nil || t.PromptMS == nil {
		return
	}
	e.Server = &record.Server{
		Source: "llama.cpp timings", Prefill: milliseconds(t.PromptMS), Decode: milliseconds(t.PredictedMS),
		PromptTokens: t.PromptN, CachedTokens: t.CacheN, OutputTokens: t.PredictedN,
	}
	if t.PromptN != nil && t.CacheN != nil { // prompt_n is what was computed
		whole := *t.PromptN + *t.CacheN
		e.Server.PromptTokens = &whole
	}
}

// readProgress takes how far llama.cpp is with the prompt.
func readProgress(raw []byte, e *wire.Event) {
	var p struct {
		Total *int     `json:"total"`
		Cache *int     `json:"cache"`
		Time  *float64 `json:"time_ms"`
	}
	if json.Unmarshal(raw, &p) != nil || p.Total == nil {
		return
	}
	e.Server = &record.Server{Source: "llama.cpp prompt_progress", Prefill: milliseconds(p.Time), PromptTokens: p.Total, CachedTokens: p.Cache}
}

// readMetrics takes the times that vLLM tells of a request if it runs with
// --enable-per-request-metrics (vllm-project/vllm pull request 46768), in
// milliseconds.
func readMetrics(raw []byte, e *wire.Event) {
	var m struct {
		TTFT  *float64 `json:"time_to_first_token_ms"`
		Queue *float64 `json:"queue_time_ms"`
		Gen   *float64 `json:"generation_time_ms"`
	}
	if json.Unmarshal(raw, &m) != nil || m.TTFT == nil && m.Queue == nil {
		return
	}
	e.Server = &record.Server{Source: "vllm metrics", TTFT: milliseconds(m.TTFT), Queue: milliseconds(m.Queue), Decode: milliseconds(m.Gen)}
}

func milliseconds(x *float64) *time.Duration { return duration(x, time.Millisecond) }

// duration returns x units, nil if that is no time that a request can take.
func duration(x *float64, unit time.Duration) *time.Duration {
	if x == nil || !(*x >= 0) || *x*float64(unit) > float64(1000*time.Hour) {
		return nil
	}
	d := time.Duration(math.Round(*x * float64(unit)))
	return &d
}
