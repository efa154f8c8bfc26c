package llmmock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"firstsound/llm"
)

// An ask is a request in the words that all the services have in common.
type ask struct {
	model      string
	stream     bool
	usage      bool   // it wants usage at the end of the stream
	continuous bool   // … and with every event
	progress   bool   // it wants llama.cpp's progress
	maxTokens  int    // 0: none given
	text       string // all of the prompt, in order
	head       int    // bytes of text that the system prompt takes
	last       string // the role of the last message
	tools      []llm.Tool
	prompt     int // tokens
	chinese    bool
}

// A wireMessage is a message of any of the services.
type wireMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// A wireTool is a tool of any of the services.
type wireTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"` // Anthropic
	Function    *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// A wireBody is the body of a request to any of the services.
type wireBody struct {
	Model               string          `json:"model"`
	Stream              *bool           `json:"stream"`
	Messages            []wireMessage   `json:"messages"`
	System              json.RawMessage `json:"system"` // Anthropic
	Tools               []wireTool      `json:"tools"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	ReturnProgress      bool            `json:"return_progress"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Options *struct {
		NumPredict int `json:"num_predict"`
	} `json:"options"` // Ollama
}

// A service is which API a request is for.
type service int

const (
	openAI service = iota
	ollamaChat
	anthropicMessages
)

// decodeAsk reads the body of a request. Unknown keys are left alone.
func decodeAsk(s service, body []byte) (ask, error) {
	var w wireBody
	if err := json.Unmarshal(body, &w); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return ask{}, fmt.Errorf("%s: a %s is not what belongs there", wrong.Field, wrong.Value)
		}
		return ask{}, fmt.Errorf("the body is no JSON: %w", err)
	}
	if len(w.Messages) == 0 {
		return ask{}, errors.New("messages: there has to be at least one")
	}
	a := ask{model: w.Model, stream: s == ollamaChat, progress: w.ReturnProgress, usage: s != openAI}
	if w.Stream != nil {
		a.stream = *w.Stream
	}
	if o := w.StreamOptions; o != nil {
		a.usage, a.continuous = o.IncludeUsage, o.IncludeUsage && o.Continuous
	}
	for _, n := range []*int{w.MaxTokens, w.MaxCompletionTokens} {
		if n != nil {
			if *n < 1 {
				return ask{}, fmt.Errorf("max_tokens: %d is less than 1", *n)
			}
			a.maxTokens = *n
		}
	}
	if w.Options != nil && w.Options.NumPredict > 0 {
		a.maxTokens = w.Options.NumPredict
	}
	var b strings.Builder
	if len(w.System) > 0 {
		text, err := textOf(w.System)
		if err != nil {
			return ask{}, fmt.Errorf("system: %w", err)
		}
		a.count(&b, "system", text)
		a.head = b.Len()
	}
	for i, m := range w.Messages {
		if m.Role == "" {
			return ask{}, fmt.Errorf("messages[%d].role: it is missing", i)
		}
		text, err := textOf(m.Content)
		if err != nil {
			return ask{}, fmt.Errorf("messages[%d].content: %w", i, err)
		}
		if !bytes.Equal(m.ToolCalls, []byte("null")) {
			text += string(m.ToolCalls)
		}
		a.count(&b, m.Role, text)
		if i == 0 && (m.Role == "system" || m.Role == "developer") {
			a.head = b.Len()
		}
		a.last = m.Role
		if m.Role == "user" && text != "" {
			a.chinese = strings.IndexFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) >= 0
			if s == anthropicMessages && bytes.Contains(m.Content, []byte(`"tool_result"`)) {
				a.last = "tool"
			}
		}
	}
	a.text = b.String()
	for _, t := range w.Tools {
		tool := llm.Tool{Name: t.Name, Description: t.Description, Parameters: string(t.InputSchema)}
		if f := t.Function; f != nil {
			tool = llm.Tool{Name: f.Name, Description: f.Description, Parameters: string(f.Parameters)}
		}
		if tool.Name == "" {
			continue // a kind of tool that the mock does not know
		}
		a.tools = append(a.tools, tool)
		a.prompt += llm.EstimateTokens(tool.Name + tool.Description + tool.Parameters)
	}
	return a, nil
}

// perMessage is what a chat template adds to each message, in tokens: ChatML's
// <|im_start|>, role, newline and <|im_end|>.
const perMessage = 4

func (a *ask) count(b *strings.Builder, role, text string) {
	a.prompt += llm.EstimateTokens(text) + perMessage
	b.WriteString(role)
	b.WriteByte('\n')
	b.WriteString(text)
	b.WriteByte('\n')
}

// textOf returns the text of content: a string, null, or a list of parts.
func textOf(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"` // of a tool_result
		Input   json.RawMessage `json:"input"`   // of a tool_use
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", errors.New("it has to be a text or a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
		b.Write(p.Content)
		b.Write(p.Input)
	}
	return b.String(), nil
}

// argumentsFor makes arguments up that fit a tool's parameters.
func argumentsFor(parameters string) string {
	var schema struct {
		Properties map[string]struct {
			Type any   `json:"type"`
			Enum []any `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal([]byte(parameters), &schema) != nil {
		return "{}"
	}
	out := map[string]any{}
	for _, name := range schema.Required {
		p := schema.Properties[name]
		switch {
		case len(p.Enum) > 0:
			out[name] = p.Enum[0]
		case p.Type == "number" || p.Type == "integer":
			out[name] = 42
		case p.Type == "boolean":
			out[name] = true
		case p.Type == "array":
			out[name] = []any{}
		case p.Type == "object":
			out[name] = map[string]any{}
		default:
			out[name] = "Berlin"
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "{}"
	}
	return string(b)
}
