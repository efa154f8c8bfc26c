package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/anthropic"
	"firstsound/llm/record"
	"firstsound/llm/stream"
	"firstsound/llm/wire"
	"firstsound/llm/wire/wiretest"
)

const sse = "text/event-stream"

type asked struct {
	Max      int `json:"max_tokens"`
	System   string
	Messages []struct {
		Role    string
		Content []struct{ Type string }
	}
	Tools []json.RawMessage
}

func read(r *http.Request) (a asked) {
	json.NewDecoder(r.Body).Decode(&a)
	return a
}

func event(kind, more string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, more)
}

func start() string {
	return event("message_start", `,"message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":20,"cache_read_input_tokens":8,"cache_creation_input_tokens":2,"output_tokens":1}}`)
}

func end(reason string, tokens int) []string {
	return []string{
		event("content_block_stop", `,"index":0`),
		event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}`, reason, tokens)),
		event("message_stop", ""),
	}
}

func answer(w http.ResponseWriter, r *http.Request) { reply(w, r, read(r)) }

func reply(w http.ResponseWriter, r *http.Request, a asked) {
	words, reason := wiretest.Words, "end_turn"
	if a.Max < len(words) {
		words, reason = words[:a.Max], "max_tokens"
	}
	parts := []string{start() + event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) + event("ping", "")}
	for _, word := range words {
		parts = append(parts, event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, word)))
	}
	wiretest.Play(w, r, sse, wiretest.Paced(append(parts, end(reason, len(words))...)))
}

func fail(w http.ResponseWriter, r *http.Request) {
	wiretest.Play(w, r, sse, wiretest.Paced([]string{start(), event("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`)}))
}

func call(w http.ResponseWriter, r *http.Request) {
	a := read(r)
	if last := a.Messages[len(a.Messages)-1]; len(a.Tools) == 0 || last.Role == "user" && last.Content[0].Type == "tool_result" {
		reply(w, r, a)
		return
	}
	wiretest.Play(w, r, sse, wiretest.Paced(append([]string{
		start(),
		event("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"opening_hours","input":{}}`),
		event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":""}`),
		event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}`),
		event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"\"today\"}"}`),
	}, end("tool_use", 12)...)))
}

func protocol(t testing.TB) *anthropic.Protocol {
	p, err := anthropic.New(anthropic.Options{URL: "http://service", Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) { wiretest.Conform(t, protocol(t), answer, fail, call) }

func do(t *testing.T, h http.HandlerFunc) (a record.Attempt, deltas []llm.Delta) {
	synctest.Test(t, func(t *testing.T) {
		s := wiretest.Serve(h)
		defer s.End()
		c := wire.New(clocks.NewReal(), protocol(t), wire.Options{Exchange: s.Options()})
		defer c.Close()
		a = c.Do(context.Background(), llm.Request{RequestID: "x", Messages: []llm.Message{{Role: llm.User, Content: "Hello"}}, Tools: []llm.Tool{{Name: "opening_hours"}}},
			func(d llm.Delta) { deltas = append(deltas, d) })
	})
	return a, deltas
}

func TestFigures(t *testing.T) {
	a, _ := do(t, answer)
	if a.Class != record.OK || *a.TTFT != 320*time.Millisecond || *a.FirstRole-*a.Send != 300*time.Millisecond || *a.TPOT != 20*time.Millisecond || *a.Total != 520*time.Millisecond {
		t.Errorf("%+v", a)
	}
	if *a.OutputTokens != 8 || *a.PromptTokens != 30 || *a.CachedTokens != 8 || a.FinishReason != "stop" {
		t.Errorf("%+v", a)
	}
	a, deltas := do(t, call)
	if a.Class != record.ToolOnly || a.FinishReason != "tool_calls" || *a.FirstToolCall-*a.Send != 320*time.Millisecond {
		t.Errorf("%+v", a)
	}
	found := false
	for _, d := range deltas {
		found = found || d.Kind == llm.Call && d.Call == llm.ToolCall{ID: "toolu_1", Name: "opening_hours", Arguments: `{"query":"today"}`}
	}
	if !found {
		t.Errorf("%+v", deltas)
	}
	a, _ = do(t, fail)
	if a.Class != record.StreamError || a.Error != "Overloaded" || a.TTFT != nil {
		t.Errorf("%+v", a)
	}
	a, _ = do(t, func(w http.ResponseWriter, r *http.Request) {
		wiretest.Play(w, r, sse, wiretest.Paced(append([]string{
			start(), event("content_block_start", `,"index":0,"content_block":{"type":"thinking","thinking":""}`),
			event("content_block_delta", `,"index":0,"delta":{"type":"thinking_delta","thinking":"hm"}`),
			event("content_block_delta", `,"index":0,"delta":{"type":"signature_delta","signature":"abc"}`),
			event("content_block_delta", `,"index":1,"delta":{"type":"text_delta","text":"Yes."}`),
			event("content_block_delta", `,"index":1,"delta":{"type":"text_delta","text":" No."}`),
		}, end("end_turn", 30)...)))
	})
	if *a.FirstReasoning-*a.Send != 340*time.Millisecond || *a.TTFT != 380*time.Millisecond || a.TPOT != nil || a.TPOTAbsent == "" {
		t.Errorf("%+v", a)
	}
}

func TestRequest(t *testing.T) {
	warm := 0.5
	r, err := protocol(t).Request(context.Background(), llm.Request{
		Params: llm.Params{Model: "claude", MaxTokens: 20, Temperature: &warm},
		Messages: []llm.Message{
			{Role: llm.System, Content: "be brief"},
			{Role: llm.User, Content: "a<b"},
			{Role: llm.Assistant, Content: "wait", ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"x":1}`}}},
			{Role: llm.Result, ToolCallID: "1", Content: "ok"},
			{Role: llm.User, Content: "and?"},
		},
		Tools: []llm.Tool{{Name: "f"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	want := `{"max_tokens":20,"messages":[{"role":"user","content":[{"type":"text","text":"a<b"}]},{"role":"assistant","content":[{"type":"text","text":"wait"},{"type":"tool_use","id":"1","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"ok"},{"type":"text","text":"and?"}]}],"model":"claude","stream":true,"system":"be brief","temperature":0.5,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}` + "\n"
	if string(body) != want || r.Header.Get("X-Api-Key") != "secret" || r.Header.Get("Anthropic-Version") != "2023-06-01" {
		t.Errorf("%v: %s\nwant %s", r.Header, body, want)
	}
	for address, want := range map[string]string{
		"": "https://api.anthropic.com/v1/messages", "http://h/v1": "http://h/v1/messages", "http://h/v1/messages": "http://h/v1/messages", "h.example.com/x": "https://h.example.com/x/v1/messages",
	} {
		p, err := anthropic.New(anthropic.Options{URL: address})
		if err != nil || p.URL() != want {
			t.Errorf("%q: %v, %v", address, p, err)
		}
	}
	if _, err := protocol(t).Request(context.Background(), llm.Request{Messages: []llm.Message{{Role: llm.System, Content: "x"}}}); err == nil {
		t.Error("a conversation without a message is taken")
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range append(end("end_turn", 3), start()) {
		f.Add(s)
	}
	p := protocol(f)
	f.Fuzz(func(t *testing.T, body string) {
		r := p.NewReader(wire.Response{})
		d := r.Decoder()
		each := func(raw stream.Event) {
			var e wire.Event
			r.Read(raw, &e)
		}
		d.Feed([]byte(body), each, func([]byte) {})
		d.Close(each)
	})
}

func BenchmarkRead(b *testing.B) {
	raw := stream.Event{Name: "content_block_delta", Data: []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" hello"}}`)}
	r := protocol(b).NewReader(wire.Response{})
	b.ReportAllocs()
	var e wire.Event
	for b.Loop() {
		e = wire.Event{Pieces: e.Pieces[:0]}
		r.Read(raw, &e)
	}
}
