// Package ollama is the protocol of Ollama's own /api/chat: JSON, a line each.
package ollama

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/stream"
	"firstsound/llm/stream/fields"
	"firstsound/llm/wire"
)

// DefaultURL is where Ollama listens when nothing else is said.
const DefaultURL = "http://127.0.0.1:11434"

// Env is the environment variable in which users keep a key, if there is a
// gateway that wants one.
const Env = "OLLAMA_API_KEY"

// Options are who is asked, and how.
type Options struct {
	URL     string            // host, or whole address; empty: DefaultURL
	Key     string            // empty: none is sent
	Extra   map[string]any    // more fields of the request; they win, and nil takes a field away
	Headers map[string]string // more headers

	// Thinking turns the reasoning of a hybrid model on or off. Nil: as the
	// model has it.
	Thinking *bool
}

// A Protocol asks Ollama.
type Protocol struct {
	options  Options
	endpoint string
}

// New returns the protocol for o.
func New(o Options) (*Protocol, error) {
	endpoint, err := wire.Endpoint(cmp.Or(o.URL, DefaultURL), "/api", "/chat")
	if err != nil {
		return nil, fmt.Errorf("llm: ollama: %w", err)
	}
	return &Protocol{options: o, endpoint: endpoint}, nil
}

// Name implements wire.Protocol.
func (p *Protocol) Name() string { return "ollama-native" }

// URL returns where requests go.
func (p *Protocol) URL() string { return p.endpoint }

type message struct {
	Role      llm.Role `json:"role"`
	Content   string   `json:"content"`
	ToolCalls []call   `json:"tool_calls,omitempty"`
	ToolName  string   `json:"tool_name,omitempty"` // of a result
}

type call struct {
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// messages returns the conversation. A result names its tool, for Ollama's calls
// have no ID.
func messages(all []llm.Message) ([]message, error) {
	names := map[string]string{} // of the tools, by the call's ID
	out := make([]message, len(all))
	for i, m := range all {
		out[i] = message{Role: m.Role, Content: m.Content, ToolName: names[m.ToolCallID]}
		for _, c := range m.ToolCalls {
			names[c.ID] = c.Name
			arguments, err := wire.Arguments(c)
			if err != nil {
				return nil, err
			}
			out[i].ToolCalls = append(out[i].ToolCalls, call{function{c.Name, arguments}})
		}
	}
	return out, nil
}

type tool struct {
	Type     string     `json:"type"`
	Function definition `json:"function"`
}

type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func (p *Protocol) body(req llm.Request) (map[string]any, error) {
	conversation, err := messages(req.Messages)
	if err != nil {
		return nil, err
	}
	b := map[string]any{"model": req.Params.Model, "messages": conversation, "stream": true}
	settings := map[string]any{}
	if req.Params.MaxTokens > 0 {
		settings["num_predict"] = req.Params.MaxTokens
	}
	if req.Params.Temperature != nil {
		settings["temperature"] = *req.Params.Temperature
	}
	if len(settings) > 0 {
		b["options"] = settings
	}
	if p.options.Thinking != nil {
		b["think"] = *p.options.Thinking
	}
	var tools []tool
	for _, t := range req.Tools {
		schema, err := wire.Schema(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool{"function", definition{t.Name, t.Description, schema}})
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
		return nil, fmt.Errorf("llm: ollama: %w", err)
	}
	headers := map[string]string{"Accept": "application/x-ndjson"}
	if p.options.Key != "" {
		headers["Authorization"] = "Bearer " + p.options.Key
	}
	maps.Copy(headers, p.options.Headers)
	r, err := wire.Post(ctx, p.endpoint, body, headers)
	if err != nil {
		return nil, fmt.Errorf("llm: ollama: %w", err)
	}
	return r, nil
}

// NewReader implements wire.Protocol.
func (p *Protocol) NewReader(wire.Response) wire.Reader { return &reader{} }

type reader struct {
	calls int // so far
}

func (r *reader) Decoder() stream.Decoder { return stream.NewNDJSON() }

// Read implements wire.Reader.
func (r *reader) Read(raw stream.Event, e *wire.Event) error {
	in := fields.Of(raw.Data)
	if in.Next() != '{' {
		return fmt.Errorf("it is no JSON object: %.60q", raw.Data)
	}
	in.Object()
	reason := ""
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "message":
			r.message(&in, e)
		case "done":
			e.Done = in.Next() == 't'
			in.Skip()
		case "done_reason":
			reason, _ = in.Str()
		case "error":
			if !in.Null() {
				in.Skip()
				e.Fault = wire.Fault(raw.Data)
			}
		default:
			in.Skip()
		}
	}
	if err := in.End(); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if e.Done {
		e.Finish = reason
		if e.Finish == "" {
			e.Finish = "stop" // as versions before 0.1.40 left it out
		}
		if e.Finish == "stop" && r.calls > 0 {
			e.Finish = "tool_calls"
		}
		statistics(raw.Data, e)
	}
	return nil
}

func (r *reader) message(in *fields.Reader, e *wire.Event) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "role": // in every line: it says nothing
			e.Role = in.Next() == '"'
			in.Skip()
		case "content":
			e.Content, _ = in.Str()
		case "thinking":
			e.Reasoning, _ = in.Str()
		case "tool_calls":
			r.toolCalls(in.Raw(), e)
		default:
			in.Skip()
		}
	}
}

func (r *reader) toolCalls(raw []byte, e *wire.Event) {
	var calls []call
	if json.Unmarshal(raw, &calls) != nil {
		return
	}
	for _, c := range calls {
		e.Pieces = append(e.Pieces, wire.Piece{Index: r.calls, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
		r.calls++
	}
}

// statistics takes what the last line says: counts, and times in nanoseconds.
func statistics(raw []byte, e *wire.Event) {
	var s struct {
		Total   *time.Duration `json:"total_duration"`
		Load    *time.Duration `json:"load_duration"`
		Prompt  *int           `json:"prompt_eval_count"`
		Prefill *time.Duration `json:"prompt_eval_duration"`
		Output  *int           `json:"eval_count"`
		Decode  *time.Duration `json:"eval_duration"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return
	}
	if s.Prompt != nil || s.Output != nil {
		e.Usage = &wire.Usage{Prompt: s.Prompt, Output: s.Output}
	}
	if s.Total == nil && s.Prefill == nil {
		return
	}
	e.Server = &record.Server{
		Source: "ollama durations", Load: s.Load, Prefill: s.Prefill, Decode: s.Decode, Total: s.Total,
		PromptTokens: s.Prompt, OutputTokens: s.Output,
	}
}
