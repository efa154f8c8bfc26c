package llmmock

import (
	"fmt"
	"strings"
	"time"
)

// chat renders OpenAI's chat completions in a dialect.
type chat struct {
	answer
	d      *dialect
	prefix []byte // of each event, up to its choices
	delta  []byte // used again by each event
	calls  int
}

func newChat(a answer, d *dialect) *chat {
	c := &chat{answer: a, d: d}
	b := append([]byte("data:"), d.space...)
	b = appendf(b, `{"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s`, a.id, a.created.Unix(), a.model)
	c.prefix = append(b, d.extra...)
	return c
}

func (c *chat) contentType() string { return "text/event-stream; charset=utf-8" }
func (c *chat) refused() string     { return "application/json" }

func (c *chat) timed(p *Piece) bool {
	last := p.Kind == Finish && !c.asked || p.Kind == Usage
	return c.d.timings && last || c.d.groq && p.Kind == Finish
}

func (c *chat) append(b []byte, p *Piece, t *timings) []byte {
	if t == nil {
		t = &c.times
	}
	finish := ""
	delta := c.delta[:0]
	role := ""
	if c.d.role {
		role = `"role":"assistant",`
	}
	switch p.Kind {
	case Raw:
		return append(b, p.Text...)
	case Comment:
		return append(append(append(b, ": "...), p.Text...), "\n\n"...)
	case End:
		return append(append(append(b, "data:"...), c.d.space...), "[DONE]\n\n"...)
	case Failure:
		b = append(append(b, "data:"...), c.d.space...)
		return append(appendf(b, `{"error":{"message":%s,"type":"server_error","param":null,"code":500}}`, p.Text), "\n\n"...)
	case Usage, Filter:
		b = append(b, c.prefix...)
		if !p.Bare {
			b = append(b, `,"choices":[]`...)
		}
		if p.Kind == Filter {
			b = append(b, `,"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]`...)
		}
		return c.close(b, p, t)
	case Progress:
		b = append(b, c.prefix...)
		b = append(b, `,"choices":[{"index":0,"delta":{},"finish_reason":null}]`...)
		b = append(b, p.Text...)
		return append(b, "}\n\n"...)
	case Role:
		delta = append(delta, `"role":"assistant","content":""`...)
		if c.d.null {
			delta = append(delta[:0], `"role":"assistant","content":null`...)
		}
	case Blank:
		delta = append(append(delta, role...), `"content":""`...)
	case Null:
		delta = append(append(delta, role...), `"content":null`...)
	case Text:
		delta = appendString(append(append(delta, role...), `"content":`...), p.Text)
	case Reasoning:
		delta = append(delta, role...)
		keys := map[Field][]string{OwnField: {c.d.reasoning}, InContent: {"reasoning_content"}, InShort: {"reasoning"}, InBoth: {"reasoning", "reasoning_content"}}[p.Field]
		if c.d.role {
			delta = append(delta, `"content":"",`...)
		}
		for i, k := range keys {
			if i > 0 {
				delta = append(delta, ',')
			}
			delta = appendf(delta, `%s:%s`, k, p.Text)
		}
	case Call:
		delta = appendf(append(delta, role...), `"content":null,"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]`,
			c.calls, callID(c.requestID, c.calls), p.Text)
		c.calls++
	case Arguments:
		delta = appendf(append(delta, role...), `"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, max(0, c.calls-1), p.Text)
	case Finish:
		finish = p.Text
		if c.d.role {
			delta = append(delta, `"role":"assistant","content":""`...)
		}
	}
	b = append(b, c.prefix...)
	b = append(b, `,"choices":[{"index":0,"delta":{`...)
	c.delta = delta
	b = append(b, delta...)
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	if finish == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, finish)
	}
	if c.d.filter {
		b = append(b, `,"content_filter_results":{}`...)
	}
	b = append(b, "}]"...)
	return c.close(b, p, t)
}

// close ends an event with what comes after its choices.
func (c *chat) close(b []byte, p *Piece, t *timings) []byte {
	if p.Count != nil {
		b = c.appendUsage(b, p.Count)
	}
	if c.d.timings && c.timed(p) {
		b = c.appendTimings(b, t)
	}
	if c.d.groq && p.Kind == Role {
		b = appendf(b, `,"x_groq":{"id":%s}`, "req_"+c.requestID)
	}
	if c.d.groq && p.Kind == Finish {
		b = appendf(b, `,"x_groq":{"id":%s,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d`, "req_"+c.requestID,
			c.plan.Usage.Prompt, c.plan.Usage.Output, c.plan.Usage.Prompt+c.plan.Usage.Output)
		for _, f := range []struct {
			key string
			d   *time.Duration
		}{{"queue_time", t.queue}, {"prompt_time", t.prefill}, {"completion_time", t.decode}} {
			if f.d != nil {
				b = fmt.Appendf(b, `,%q:%.9f`, f.key, f.d.Seconds())
			}
		}
		b = fmt.Appendf(b, `,"total_time":%.9f}}`, t.total().Seconds())
	}
	return append(b, "}\n\n"...)
}

func (c *chat) appendUsage(b []byte, n *Count) []byte {
	prompt := n.Prompt
	if prompt == 0 {
		prompt = c.plan.Usage.Prompt
	}
	b = fmt.Appendf(b, `,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}`,
		prompt, n.Output, prompt+n.Output, n.Cached)
	if n.Reasoning > 0 {
		b = fmt.Appendf(b, `,"completion_tokens_details":{"reasoning_tokens":%d}`, n.Reasoning)
	}
	if c.d.name == "deepseek" {
		b = fmt.Appendf(b, `,"prompt_cache_hit_tokens":%d,"prompt_cache_miss_tokens":%d`, n.Cached, prompt-n.Cached)
	}
	return append(b, '}')
}

func (c *chat) appendTimings(b []byte, t *timings) []byte {
	n := c.plan.Usage
	computed := n.Prompt - n.Cached
	b = fmt.Appendf(b, `,"timings":{"cache_n":%d,"prompt_n":%d,"predicted_n":%d`, n.Cached, computed, n.Output)
	if t.prefill != nil && *t.prefill > 0 {
		b = fmt.Appendf(b, `,"prompt_ms":%.6f,"prompt_per_token_ms":%.6f,"prompt_per_second":%.3f`, ms(t.prefill), ms(t.prefill)/float64(max(1, computed)), float64(computed)/t.prefill.Seconds())
	}
	if t.decode != nil && *t.decode > 0 {
		b = fmt.Appendf(b, `,"predicted_ms":%.6f,"predicted_per_token_ms":%.6f,"predicted_per_second":%.3f`, ms(t.decode), ms(t.decode)/float64(max(1, n.Output)), float64(n.Output)/t.decode.Seconds())
	}
	return append(b, '}')
}

func callID(requestID string, n int) string {
	return fmt.Sprintf("call_%s_%d", strings.ReplaceAll(requestID, "-", ""), n)
}

func (c *chat) whole(p *Plan) []byte {
	b := appendf(nil, `{"id":%s,"object":"chat.completion","created":%d,"model":%s`, c.id, c.created.Unix(), c.model)
	b = append(b, c.d.extra...)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	if text := p.text(Text); text != "" || len(p.Calls) == 0 {
		b = appendString(b, text)
	} else {
		b = append(b, "null"...)
	}
	if r := p.text(Reasoning); r != "" {
		b = appendf(b, `,%s:%s`, c.d.reasoning, r)
	}
	if len(p.Calls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i, call := range p.Calls {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendf(b, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, callID(c.requestID, i), call.Name, call.Arguments)
		}
		b = append(b, ']')
	}
	b = appendf(b, `},"logprobs":null,"finish_reason":%s`, p.reason())
	if c.d.filter {
		b = append(b, `,"content_filter_results":{}`...)
	}
	b = append(b, "}]"...)
	b = c.appendUsage(b, &p.Usage)
	if c.d.timings {
		b = c.appendTimings(b, &c.times)
	}
	return append(b, '}')
}

func (c *chat) refusal(status int, message string) []byte {
	kind, code := "server_error", "null"
	switch {
	case status == 429:
		kind, code = "requests", `"rate_limit_exceeded"`
	case status < 500:
		kind = "invalid_request_error"
	}
	return append(appendf(nil, `{"error":{"message":%s,"type":%s,"param":null,"code":`, message, kind), code+"}}"...)
}
