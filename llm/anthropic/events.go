package anthropic

import (
	"encoding/json"
	"fmt"

	"firstsound/llm/stream"
	"firstsound/llm/stream/fields"
	"firstsound/llm/wire"
)

// NewReader implements wire.Protocol.
func (p *Protocol) NewReader(wire.Response) wire.Reader { return &reader{} }

type reader struct{}

func (r *reader) Decoder() stream.Decoder { return stream.NewSSE() }

// Read implements wire.Reader. The type is in the data, and in most streams the
// event's name too.
func (r *reader) Read(raw stream.Event, e *wire.Event) error {
	in := fields.Of(raw.Data)
	if in.Next() != '{' {
		return fmt.Errorf("it is no JSON object: %.60q", raw.Data)
	}
	in.Object()
	kind := raw.Name
	var piece wire.Piece
	fault := false
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "type":
			kind = in.Same(raw.Name)
		case "index":
			if i, ok := in.Int(); ok {
				piece.Index = i
			}
		case "delta":
			r.delta(&in, e, &piece)
		case "content_block":
			r.block(&in, e, &piece)
		case "message":
			r.message(&in, e)
		case "usage":
			readUsage(in.Raw(), e)
		case "error":
			if !in.Null() {
				in.Skip()
				fault = true
			}
		default:
			in.Skip()
		}
	}
	if err := in.End(); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if piece.Name != "" || piece.Arguments != "" {
		e.Pieces = append(e.Pieces, piece)
	}
	switch kind {
	case "message_stop":
		e.Done = true
	case "error":
		fault = true
	}
	if fault {
		e.Fault = wire.Fault(raw.Data)
	}
	return nil
}

// delta takes the delta of a block, or of the message.
func (r *reader) delta(in *fields.Reader, e *wire.Event, piece *wire.Piece) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "text":
			e.Content, _ = in.Str()
		case "thinking":
			e.Reasoning, _ = in.Str()
		case "partial_json":
			piece.Arguments, _ = in.Str()
		case "stop_reason":
			if s, ok := in.Str(); ok {
				e.Finish = reason(s)
			}
		default:
			in.Skip()
		}
	}
}

// block takes the head of a block, which may have text already.
func (r *reader) block(in *fields.Reader, e *wire.Event, piece *wire.Piece) {
	if !in.Object() {
		return
	}
	kind, id, name := "", "", ""
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "type":
			kind, _ = in.Str()
		case "text":
			e.Content, _ = in.Str()
		case "thinking":
			e.Reasoning, _ = in.Str()
		case "id":
			id, _ = in.Str()
		case "name":
			name, _ = in.Str()
		default:
			in.Skip()
		}
	}
	if kind == "tool_use" {
		piece.ID, piece.Name = id, name
	}
}

// message takes the head of the message.
func (r *reader) message(in *fields.Reader, e *wire.Event) {
	if !in.Object() {
		return
	}
	for key, ok := in.Member(); ok; key, ok = in.Member() {
		switch string(key) {
		case "role":
			e.Role = in.Next() == '"'
			in.Skip()
		case "usage":
			readUsage(in.Raw(), e)
		default:
			in.Skip()
		}
	}
}

// reason returns a reason to stop in the words that all protocols have here.
func reason(s string) string {
	switch s {
	case "end_turn", "stop_sequence":
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	}
	return s
}

// readUsage takes the counts. The input is told in three parts: what was read
// from the cache, what was written to it, and the rest.
func readUsage(raw []byte, e *wire.Event) {
	var u struct {
		Input   *int `json:"input_tokens"`
		Read    *int `json:"cache_read_input_tokens"`
		Created *int `json:"cache_creation_input_tokens"`
		Output  *int `json:"output_tokens"`
	}
	if json.Unmarshal(raw, &u) != nil {
		return
	}
	told := wire.Usage{Cached: u.Read, Output: u.Output}
	if u.Input != nil {
		whole := *u.Input
		for _, part := range []*int{u.Read, u.Created} {
			if part != nil {
				whole += *part
			}
		}
		told.Prompt = &whole
	}
	if told != (wire.Usage{}) {
		e.Usage = &told
	}
}
