package llmmock

import "fmt"

// messages renders Anthropic's /v1/messages.
type messages struct {
	answer
	begun bool
	block int    // index of the open block
	open  string // its type, "" if none is open
	calls int
}

func (m *messages) contentType() string { return "text/event-stream; charset=utf-8" }
func (m *messages) refused() string     { return "application/json" }
func (m *messages) timed(*Piece) bool   { return false }

func event(b []byte, name, data string, args ...any) []byte {
	b = append(append(b, "event: "...), name...)
	b = append(b, "\ndata: "...)
	return append(appendf(b, data, args...), "\n\n"...)
}

func (m *messages) begin(b []byte) []byte {
	if m.begun {
		return b
	}
	m.begun = true
	u := m.plan.Usage
	return event(b, "message_start", `{"type":"message_start","message":{"id":%s,"type":"message","role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,"output_tokens":1}}}`,
		"msg_"+m.requestID, m.model, u.Prompt-u.Cached, u.Cached)
}

func (m *messages) stop(b []byte) []byte {
	if m.open == "" {
		return b
	}
	b = event(b, "content_block_stop", `{"type":"content_block_stop","index":%d}`, m.block)
	m.open = ""
	m.block++
	return b
}

// start opens a block of that type, if it is not the open one.
func (m *messages) start(b []byte, kind, rest string) []byte {
	b = m.begin(b)
	if m.open == kind && kind != "tool_use" {
		return b
	}
	b = m.stop(b)
	m.open = kind
	b = append(b, "event: content_block_start\ndata: "...)
	b = fmt.Appendf(b, `{"type":"content_block_start","index":%d,"content_block":{"type":"%s",%s}}`, m.block, kind, rest)
	return append(b, "\n\n"...)
}

func (m *messages) delta(b []byte, kind, key, text string) []byte {
	return event(b, "content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":%s,%s:%s}}`, m.block, kind, key, text)
}

func (m *messages) append(b []byte, p *Piece, _ *timings) []byte {
	switch p.Kind {
	case Raw:
		return append(b, p.Text...)
	case Role:
		return m.begin(b)
	case Comment:
		return event(b, "ping", `{"type":"ping"}`)
	case Failure:
		return event(b, "error", `{"type":"error","error":{"type":"overloaded_error","message":%s}}`, p.Text)
	case Text, Blank:
		return m.delta(m.start(b, "text", `"text":""`), "text_delta", "text", p.Text)
	case Reasoning:
		return m.delta(m.start(b, "thinking", `"thinking":"","signature":""`), "thinking_delta", "thinking", p.Text)
	case Call:
		b = m.start(b, "tool_use", string(appendf(nil, `"id":%s,"name":%s,"input":{}`, "toolu_"+callID(m.requestID, m.calls), p.Text)))
		m.calls++
	case Arguments:
		return m.delta(m.tool(b), "input_json_delta", "partial_json", p.Text)
	case Finish:
		b = m.stop(m.begin(b))
		return event(b, "message_delta", `{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d}}`,
			stopReason(p.Text), m.plan.Usage.Output)
	case End:
		return event(b, "message_stop", `{"type":"message_stop"}`)
	}
	return b
}

// tool makes sure that a tool's block is open.
func (m *messages) tool(b []byte) []byte {
	if m.open == "tool_use" {
		return b
	}
	return m.append(b, &Piece{Kind: Call, Text: "lookup"}, nil)
}

func stopReason(finish string) string {
	switch finish {
	case "stop":
		return "end_turn"
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return finish
}

func (m *messages) whole(p *Plan) []byte {
	u := p.Usage
	b := appendf(nil, `{"id":%s,"type":"message","role":"assistant","model":%s,"content":[`, "msg_"+m.requestID, m.model)
	comma := ""
	if r := p.text(Reasoning); r != "" {
		b = appendf(b, `{"type":"thinking","thinking":%s,"signature":""}`, r)
		comma = ","
	}
	if t := p.text(Text); t != "" {
		b = appendf(append(b, comma...), `{"type":"text","text":%s}`, t)
		comma = ","
	}
	for i, c := range p.Calls {
		b = appendf(append(b, comma...), `{"type":"tool_use","id":%s,"name":%s,"input":`, "toolu_"+callID(m.requestID, i), c.Name)
		b = append(append(b, c.Arguments...), '}')
		comma = ","
	}
	return appendf(b, `],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,"output_tokens":%d}}`,
		stopReason(p.reason()), u.Prompt-u.Cached, u.Cached, u.Output)
}

func (m *messages) refusal(status int, message string) []byte {
	kind := "api_error"
	switch {
	case status == 429:
		kind = "rate_limit_error"
	case status == 503 || status == 529:
		kind = "overloaded_error"
	case status == 404:
		kind = "not_found_error"
	case status < 500:
		kind = "invalid_request_error"
	}
	return appendf(nil, `{"type":"error","error":{"type":%s,"message":%s}}`, kind, message)
}
