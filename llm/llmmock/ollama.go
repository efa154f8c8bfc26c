package llmmock

import (
	"fmt"
	"strings"
	"time"
)

// native renders Ollama's own /api/chat: JSON lines, durations in nanoseconds.
type native struct {
	answer
	reason string
}

func (n *native) contentType() string  { return "application/x-ndjson" }
func (n *native) refused() string      { return "application/json" }
func (n *native) timed(p *Piece) bool  { return p.Kind == End }
func (n *native) line(b []byte) []byte { return n.head(b, n.created) }
func (n *native) head(b []byte, t time.Time) []byte {
	return appendf(b, `{"model":%s,"created_at":%s,`, n.model, t.UTC().Format(time.RFC3339Nano))
}

func (n *native) append(b []byte, p *Piece, t *timings) []byte {
	if t == nil {
		t = &n.times
	}
	switch p.Kind {
	case Raw:
		return append(b, p.Text...)
	case Failure:
		return append(appendf(b, `{"error":%s}`, p.Text), '\n')
	case Blank, Null:
		return append(n.line(b), `"message":{"role":"assistant","content":""},"done":false}`+"\n"...)
	case Text:
		return append(appendf(n.line(b), `"message":{"role":"assistant","content":%s},"done":false}`, p.Text), '\n')
	case Reasoning:
		return append(appendf(n.line(b), `"message":{"role":"assistant","content":"","thinking":%s},"done":false}`, p.Text), '\n')
	case Call:
		arguments := "{}"
		for _, c := range n.plan.Calls {
			if c.Name == p.Text {
				arguments = c.Arguments
			}
		}
		b = appendf(n.line(b), `"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":%s,"arguments":`, p.Text)
		return append(append(b, arguments...), "}}]},\"done\":false}\n"...)
	case Finish:
		n.reason = p.Text
	case End:
		b = append(n.line(b), `"message":{"role":"assistant","content":""},`...)
		return append(n.statistics(b, t), '\n')
	}
	return b
}

// statistics are the keys of the last object, and its end.
func (n *native) statistics(b []byte, t *timings) []byte {
	reason := n.reason
	if reason == "" || reason == "tool_calls" {
		reason = "stop"
	}
	u := n.plan.Usage
	b = appendf(b, `"done":true,"done_reason":%s,"total_duration":%d`, reason, int64(t.total()))
	if t.load != nil {
		b = fmt.Appendf(b, `,"load_duration":%d`, int64(*t.load))
	}
	b = fmt.Appendf(b, `,"prompt_eval_count":%d`, u.Prompt)
	if t.prefill != nil {
		b = fmt.Appendf(b, `,"prompt_eval_duration":%d`, int64(*t.prefill))
	}
	b = fmt.Appendf(b, `,"eval_count":%d`, u.Output)
	if t.decode != nil {
		b = fmt.Appendf(b, `,"eval_duration":%d`, int64(*t.decode))
	}
	return append(b, '}')
}

func (n *native) whole(p *Plan) []byte {
	n.reason = p.reason()
	b := appendf(n.line(nil), `"message":{"role":"assistant","content":%s`, p.text(Text))
	if r := p.text(Reasoning); r != "" {
		b = appendf(b, `,"thinking":%s`, r)
	}
	if len(p.Calls) > 0 {
		var calls []string
		for _, c := range p.Calls {
			calls = append(calls, string(appendf(nil, `{"function":{"name":%s,"arguments":`, c.Name))+c.Arguments+"}}")
		}
		b = append(b, `,"tool_calls":[`+strings.Join(calls, ",")+"]"...)
	}
	return n.statistics(append(b, "},"...), &n.times)
}

func (n *native) refusal(_ int, message string) []byte { return appendf(nil, `{"error":%s}`, message) }
