// Package anthropic is the protocol of Anthropic's messages: named server-sent
// events.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"firstsound/llm"
	"firstsound/llm/wire"
)

// DefaultURL is Anthropic's own service.
const DefaultURL = "https://api.anthropic.com"

// Env is the environment variable in which users keep the key.
const Env = "ANTHROPIC_API_KEY"

// version is of the API: the only one there has been since 2023.
const version = "2023-06-01"

// defaultMaxTokens is sent where a request names no limit: the service wants one.
const defaultMaxTokens = 1024

// thinkingBudget is the least that the service takes.
const thinkingBudget = 1024

// Options are who is asked, and how.
type Options struct {
	URL     string            // host, base or whole address; empty: DefaultURL
	Key     string            // empty: none is sent
	Extra   map[string]any    // more fields of the request; they win, and nil takes a field away
	Headers map[string]string // more headers

	// Thinking turns extended thinking on or off. Nil: as the service has it.
	Thinking *bool
}

// A Protocol asks for messages.
type Protocol struct {
	options  Options
	endpoint string
}

// New returns the protocol for o.
func New(o Options) (*Protocol, error) {
	endpoint, err := wire.Endpoint(cmp.Or(o.URL, DefaultURL), "/v1", "/messages")
	if err != nil {
		return nil, fmt.Errorf("llm: anthropic: %w", err)
	}
	return &Protocol{options: o, endpoint: endpoint}, nil
}

// Name implements wire.Protocol.
func (p *Protocol) Name() string { return "anthropic" }

// URL returns where requests go.
func (p *Protocol) URL() string { return p.endpoint }

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// A block is text, a tool_use or a tool_result.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
}

// messages returns the system prompt, which is a field of its own, and the
// conversation, in which user and assistant take turns: the results of tools are
// the user's.
func messages(all []llm.Message) (system string, out []message, err error) {
	add := func(role string, b ...block) {
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, b...)
		} else if len(b) > 0 {
			out = append(out, message{role, b})
		}
	}
	for _, m := range all {
		switch m.Role {
		case llm.System:
			if system != "" {
				system += "\n\n"
			}
			system += m.Content
		case llm.Result:
			add("user", block{Type: "tool_result", ToolUseID: m.ToolCallID, Content: m.Content})
		default:
			role := "user"
			if m.Role == llm.Assistant {
				role = "assistant"
			}
			if m.Content != "" { // the service refuses empty text
				add(role, block{Type: "text", Text: m.Content})
			}
			for _, c := range m.ToolCalls {
				input, err := wire.Arguments(c)
				if err != nil {
					return "", nil, err
				}
				add(role, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: input})
			}
		}
	}
	if len(out) == 0 {
		return "", nil, errors.New("the conversation has no message but the system's")
	}
	return system, out, nil
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
}

func (p *Protocol) body(req llm.Request) (map[string]any, error) {
	system, conversation, err := messages(req.Messages)
	if err != nil {
		return nil, err
	}
	limit := req.Params.MaxTokens
	if limit == 0 {
		limit = defaultMaxTokens
	}
	b := map[string]any{"model": req.Params.Model, "messages": conversation, "stream": true}
	if system != "" {
		b["system"] = system
	}
	if req.Params.Temperature != nil {
		b["temperature"] = *req.Params.Temperature
	}
	switch t := p.options.Thinking; {
	case t == nil:
	case *t:
		b["thinking"] = map[string]any{"type": "enabled", "budget_tokens": thinkingBudget}
		limit += thinkingBudget  // the budget counts towards it
		delete(b, "temperature") // the service takes none with it
	default:
		b["thinking"] = map[string]any{"type": "disabled"}
	}
	b["max_tokens"] = limit
	var tools []tool
	for _, t := range req.Tools {
		schema, err := wire.Schema(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool{t.Name, t.Description, schema})
	}
	if tools != nil {
		b["tools"] = tools
	}
	return wire.Merge(b, p.options.Extra), nil
}

// Request implements wire.Protocol.
func (p *Protocol) Request(ctx context.Context, req llm.Request) (*http.Request, error) {
	body, err := p.body(req)
	if err != nil {
		return nil, fmt.Errorf("llm: anthropic: %w", err)
	}
	headers := map[string]string{"Accept": "text/event-stream", "Anthropic-Version": version}
	if p.options.Key != "" {
		headers["X-Api-Key"] = p.options.Key
	}
	maps.Copy(headers, p.options.Headers)
	r, err := wire.Post(ctx, p.endpoint, body, headers)
	if err != nil {
		return nil, fmt.Errorf("llm: anthropic: %w", err)
	}
	return r, nil
}
