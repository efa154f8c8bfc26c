package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"firstsound/llm"
)

// The bounds of a file of prompts.
const (
	maxPromptLine = 8 << 20
	maxPrompts    = 100_000
)

// A fileMessage is a message of a line of a file of prompts.
type fileMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// ReadPrompts returns the prompts of in, a line of JSON each: {"messages": […]}
// as in a chat completion request, {"prompt": "…"} or {"text": "…"}, and if it
// matters "language". Other keys are left alone. Errors name the file, the line
// and the key.
func ReadPrompts(name string, in io.Reader, o PromptOptions) (*Prompts, error) {
	p := &Prompts{o: o}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxPromptLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" {
			continue
		}
		if len(p.file) == maxPrompts {
			return nil, fmt.Errorf("%s:%d: more than %d prompts", name, n, maxPrompts)
		}
		prompt, err := parsePrompt([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		prompt.Tokens = p.tokens(p.head(prompt, 0))
		p.file = append(p.file, prompt)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w (a line may have %d MB)", name, n+1, err, maxPromptLine>>20)
	}
	if len(p.file) == 0 {
		return nil, fmt.Errorf("%s: there is no prompt in it; write a line of JSON for each, such as {\"text\": \"what time is it\"}", name)
	}
	return p, nil
}

func parsePrompt(line []byte) (Prompt, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return Prompt{}, fmt.Errorf("a line is an object of JSON: %w", err)
	}
	var p Prompt
	if raw, ok := keys["language"]; ok {
		if err := json.Unmarshal(raw, &p.Language); err != nil {
			return Prompt{}, fmt.Errorf("language: %w", err)
		}
	}
	for _, key := range []string{"messages", "prompt", "text"} {
		raw, ok := keys[key]
		if !ok {
			continue
		}
		var err error
		if key == "messages" {
			p.Messages, err = parseMessages(raw)
		} else {
			var text string
			if err = json.Unmarshal(raw, &text); err == nil && strings.TrimSpace(text) == "" {
				err = fmt.Errorf("is empty")
			}
			p.Messages = []llm.Message{{Role: llm.User, Content: text}}
		}
		if err != nil {
			return Prompt{}, fmt.Errorf("%s: %w", key, err)
		}
		return p, nil
	}
	var names []string
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	return Prompt{}, fmt.Errorf("has none of the keys messages, prompt and text (it has: %s)", strings.Join(names, ", "))
}

func parseMessages(raw json.RawMessage) ([]llm.Message, error) {
	var in []fileMessage
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	var out []llm.Message
	for i, m := range in {
		role := llm.Role(m.Role)
		switch role {
		case llm.System, llm.User, llm.Assistant, llm.Result:
		case "developer":
			role = llm.System
		default:
			return nil, fmt.Errorf("[%d].role: is system, developer, user, assistant or tool, not %q", i, m.Role)
		}
		content, err := parseContent(m.Content)
		if err != nil {
			return nil, fmt.Errorf("[%d].content: %w", i, err)
		}
		message := llm.Message{Role: role, Content: content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		out = append(out, message)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is none")
	}
	if last := out[len(out)-1].Role; last != llm.User && last != llm.Result {
		return nil, fmt.Errorf("the last is of the %s; a prompt ends with one of the user or of a tool", last)
	}
	return out, nil
}

// parseContent returns the text of a content: a string, null, or text parts.
func parseContent(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("is a string or a list of text parts")
	}
	var b strings.Builder
	for i, part := range parts {
		if part.Type != "text" {
			return "", fmt.Errorf("[%d].type: only text is sent, not %q", i, part.Type)
		}
		b.WriteString(part.Text)
	}
	return b.String(), nil
}
