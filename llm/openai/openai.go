// Package openai is the protocol of chat completions: OpenAI's own, and that of
// the many services and servers that follow it.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// Options are who is asked, and how.
type Options struct {
	URL     string            // host, base or whole address; empty: the dialect's own
	Key     string            // empty: none is sent
	Dialect string            // by name; empty: by the host of URL
	Extra   map[string]any    // more fields of the request; they win, and nil takes a field away
	Headers map[string]string // more headers

	// Thinking turns the reasoning of a hybrid model on or off, in the dialect's
	// own way. Nil: as the service has it.
	Thinking *bool
}

// A Protocol asks for chat completions.
type Protocol struct {
	options   Options
	dialect   Dialect
	endpoint  string
	maxTokens string // the field's name
	usage     bool   // stream_options is sent
}

// New returns the protocol for o.
func New(o Options) (*Protocol, error) {
	d := Detect(o.URL)
	if o.Dialect != "" {
		var err error
		if d, err = Find(o.Dialect); err != nil {
			return nil, err
		}
	}
	p := &Protocol{options: o, dialect: d, maxTokens: "max_tokens", usage: true}
	if d.MaxTokens != "" {
		p.maxTokens = d.MaxTokens
	}
	var err error
	if p.endpoint, err = d.endpoint(o.URL); err != nil {
		return nil, err
	}
	if o.Thinking != nil && d.NoThink == nil {
		return nil, fmt.Errorf("llm: openai: the dialect %s has no field that turns reasoning on or off; set the model's own as an extra field", d.Name)
	}
	return p, nil
}

// Name implements wire.Protocol: the dialect's.
func (p *Protocol) Name() string { return p.dialect.Name }

// URL returns where requests go.
func (p *Protocol) URL() string { return p.endpoint }

// Dialect returns the dialect in use.
func (p *Protocol) Dialect() Dialect { return p.dialect }

type message struct {
	Role       llm.Role `json:"role"`
	Content    *string  `json:"content"`
	ToolCalls  []call   `json:"tool_calls,omitempty"`
	ToolCallID string   `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func messages(all []llm.Message) []message {
	out := make([]message, len(all))
	for i, m := range all {
		out[i] = message{Role: m.Role, ToolCallID: m.ToolCallID}
		if m.Content != "" || len(m.ToolCalls) == 0 {
			out[i].Content = &all[i].Content
		}
		for _, c := range m.ToolCalls {
			out[i].ToolCalls = append(out[i].ToolCalls, call{c.ID, "function", function{c.Name, c.Arguments}})
		}
	}
	return out
}

type tool struct {
	Type     string     `json:"type"`
	Function definition `json:"function"`
}

type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func tools(all []llm.Tool) ([]tool, error) {
	out := make([]tool, len(all))
	for i, t := range all {
		schema, err := wire.Schema(t)
		if err != nil {
			return nil, err
		}
		out[i] = tool{"function", definition{t.Name, t.Description, schema}}
	}
	return out, nil
}

// body returns the fields of a request.
func (p *Protocol) body(req llm.Request) (map[string]any, error) {
	b := map[string]any{"model": req.Params.Model, "messages": messages(req.Messages), "stream": true}
	if p.usage {
		b["stream_options"] = wire.Merge(map[string]any{"include_usage": true}, p.dialect.StreamExtra)
	}
	if req.Params.MaxTokens > 0 {
		b[p.maxTokens] = req.Params.MaxTokens
	}
	if p.dialect.ID != "" && req.RequestID != "" && req.Attempt <= 1 { // an ID must not come twice
		b[p.dialect.ID] = req.RequestID
	}
	if req.Params.Temperature != nil {
		b["temperature"] = *req.Params.Temperature
	}
	if len(req.Tools) > 0 {
		list, err := tools(req.Tools)
		if err != nil {
			return nil, err
		}
		b["tools"] = list
	}
	var thinking map[string]any
	if t := p.options.Thinking; t != nil && *t {
		thinking = p.dialect.Think
	} else if t != nil {
		thinking = p.dialect.NoThink
	}
	return wire.Merge(b, p.dialect.Extra, thinking, p.options.Extra), nil
}

// Request implements wire.Protocol.
func (p *Protocol) Request(ctx context.Context, req llm.Request) (*http.Request, error) {
	fields, err := p.body(req)
	if err != nil {
		return nil, fmt.Errorf("llm: openai: %w", err)
	}
	headers := map[string]string{"Accept": "text/event-stream"}
	switch key := p.options.Key; {
	case key == "":
	case p.dialect.KeyHeader != "":
		headers[p.dialect.KeyHeader] = key
	default:
		headers["Authorization"] = "Bearer " + key
	}
	maps.Copy(headers, p.options.Headers)
	r, err := wire.Post(ctx, p.endpoint, fields, headers)
	if err != nil {
		return nil, fmt.Errorf("llm: openai: %w", err)
	}
	return r, nil
}

// probeTokens is how long the answers to the questions of Adapt may be: enough
// for every service that has a least number.
const probeTokens = 16

// Adapt asks the service once, and again for each thing that it refuses and that
// can be asked in another way: without stream_options, or with the other of
// max_tokens and max_completion_tokens. It returns what it changed. It belongs
// before a run, never into a measurement, and must not run beside Request.
func (p *Protocol) Adapt(ctx context.Context, c *wire.Client, params llm.Params) (notes []string, err error) {
	params.MaxTokens = probeTokens
	req := llm.Request{Params: params, Messages: []llm.Message{{Role: llm.User, Content: "Say yes."}}}
	for swapped := false; ; {
		req.Attempt++
		req.RequestID = fmt.Sprintf("firstsound-adapt-%d", req.Attempt)
		a := c.Do(ctx, req, nil)
		if a.Class != record.HTTPError {
			switch a.Class {
			case record.OK, record.Empty, record.ToolOnly, record.ReasoningOnly:
				return notes, nil
			}
			if ctx.Err() != nil {
				return notes, context.Cause(ctx)
			}
			return notes, fmt.Errorf("llm: openai: a first request to %s failed (%s): %s", p.dialect.Name, a.Class, a.Error)
		}
		bad := a.Status == http.StatusBadRequest || a.Status == http.StatusUnprocessableEntity
		switch {
		case bad && p.usage && strings.Contains(a.Error, "stream_options"):
			p.usage = false
			notes = append(notes, "stream_options left out: the service refuses it")
		case bad && !swapped && (strings.Contains(a.Error, "max_tokens") || strings.Contains(a.Error, "max_completion_tokens")):
			old := p.maxTokens
			p.maxTokens = map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[old]
			swapped = true
			notes = append(notes, fmt.Sprintf("%s sent in place of %s, which the service refuses", p.maxTokens, old))
		default:
			return notes, errors.New("llm: openai: the service refuses a first request: " + a.Error)
		}
	}
}
