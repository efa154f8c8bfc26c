package ollama_test

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
	"firstsound/llm/ollama"
	"firstsound/llm/record"
	"firstsound/llm/stream"
	"firstsound/llm/wire"
	"firstsound/llm/wire/wiretest"
)

const ndjson = "application/x-ndjson"

type asked struct {
	Options struct {
		Max int `json:"num_predict"`
	}
	Messages []struct{ Role, ToolName string }
	Tools    []json.RawMessage
}

func read(r *http.Request) (a asked) {
	json.NewDecoder(r.Body).Decode(&a)
	return a
}

func answer(w http.ResponseWriter, r *http.Request) { reply(w, r, read(r)) }

func reply(w http.ResponseWriter, r *http.Request, a asked) {
	words, reason := wiretest.Words, "stop"
	if max := a.Options.Max; max > 0 && max < len(words) {
		words, reason = words[:max], "length"
	}
	var parts []string
	for _, word := range words {
		parts = append(parts, fmt.Sprintf("{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":%q},\"done\":false}\n", word))
	}
	wiretest.Play(w, r, ndjson, wiretest.Paced(append(parts, fmt.Sprintf(
		"{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":%q,\"total_duration\":912345678,\"load_duration\":41234567,\"prompt_eval_count\":26,\"prompt_eval_duration\":130079000,\"eval_count\":%d,\"eval_duration\":700000000}\n",
		reason, len(words)))))
}

func fail(w http.ResponseWriter, r *http.Request) {
	wiretest.Play(w, r, ndjson, wiretest.Paced([]string{
		"{\"message\":{\"role\":\"assistant\",\"content\":\"We\"},\"done\":false}\n", "{\"error\":\"an error was encountered while running the model\"}\n",
	}))
}

func call(w http.ResponseWriter, r *http.Request) {
	a := read(r)
	if len(a.Tools) == 0 || a.Messages[len(a.Messages)-1].Role == "tool" {
		reply(w, r, a)
		return
	}
	wiretest.Play(w, r, ndjson, wiretest.Paced([]string{
		"{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"opening_hours\",\"arguments\":{\"query\":\"today\"}}}]},\"done\":false}\n",
		"{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
	}))
}

func protocol(t testing.TB) *ollama.Protocol {
	p, err := ollama.New(ollama.Options{URL: "http://service"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) { wiretest.Conform(t, protocol(t), answer, fail, call) }

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wiretest.Serve(http.HandlerFunc(answer))
		defer s.End()
		c := wire.New(clocks.NewReal(), protocol(t), wire.Options{Exchange: s.Options()})
		defer c.Close()
		a := c.Do(context.Background(), llm.Request{RequestID: "x"}, nil)
		if a.Class != record.OK || *a.TTFT != 300*time.Millisecond || *a.TPOT != 20*time.Millisecond || *a.Total != 460*time.Millisecond {
			t.Errorf("%+v", a)
		}
		if *a.OutputTokens != 8 || *a.PromptTokens != 26 || a.FinishReason != "stop" || a.FirstSegment == nil || *a.FirstSegment != 440*time.Millisecond {
			t.Errorf("%+v", a)
		}
		if v := a.Server; v == nil || *v.Load != 41234567 || *v.Prefill != 130079*time.Microsecond || *v.Total != 912345678 || *v.Decode != 700*time.Millisecond {
			t.Errorf("%+v", a.Server)
		}
	})
}

func TestRead(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`{"message":{"role":"assistant","content":"中"},"done":false}`, `content "中" reasoning "" finish "" fault "" done false`},
		{`{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`, `content "" reasoning "hm" finish "" fault "" done false`},
		{`{"message":{"content":""},"done":true}`, `content "" reasoning "" finish "stop" fault "" done true`},
		{`{"message":{"content":""},"done":true,"done_reason":"length"}`, `content "" reasoning "" finish "length" fault "" done true`},
		{`{"error":"gone"}`, `content "" reasoning "" finish "" fault "gone" done false`},
		{`{"error":null,"message":{"content":"a"}}`, `content "a" reasoning "" finish "" fault "" done false`},
	} {
		var e wire.Event
		if err := protocol(t).NewReader(wire.Response{}).Read(stream.Event{Data: []byte(test.line)}, &e); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("content %q reasoning %q finish %q fault %q done %v", e.Content, e.Reasoning, e.Finish, e.Fault, e.Done); got != test.want {
			t.Errorf("%s: %s", test.line, got)
		}
	}
	for _, line := range []string{`<html>`, `{"message":`, `[]`} {
		if err := protocol(t).NewReader(wire.Response{}).Read(stream.Event{Data: []byte(line)}, &wire.Event{}); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}

func TestRequest(t *testing.T) {
	no, warm := false, 0.5
	p, err := ollama.New(ollama.Options{URL: "machine:11434", Thinking: &no, Extra: map[string]any{"keep_alive": "5m"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Request(context.Background(), llm.Request{
		Params: llm.Params{Model: "qwen3:4b", MaxTokens: 20, Temperature: &warm},
		Messages: []llm.Message{
			{Role: llm.User, Content: "a<b"},
			{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"x":1}`}}},
			{Role: llm.Result, ToolCallID: "1", Content: "ok"},
		},
		Tools: []llm.Tool{{Name: "f"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	want := `{"keep_alive":"5m","messages":[{"role":"user","content":"a<b"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","content":"ok","tool_name":"f"}],"model":"qwen3:4b","options":{"num_predict":20,"temperature":0.5},"stream":true,"think":false,"tools":[{"type":"function","function":{"name":"f","description":"","parameters":{"type":"object","properties":{}}}}]}` + "\n"
	if string(body) != want || r.URL.String() != "http://machine:11434/api/chat" {
		t.Errorf("%s: %s\nwant %s", r.URL, body, want)
	}
	for address, want := range map[string]string{
		"": "http://127.0.0.1:11434/api/chat", "http://h/api": "http://h/api/chat", "http://h/api/chat": "http://h/api/chat", "https://h/x/": "https://h/x/api/chat",
	} {
		p, err := ollama.New(ollama.Options{URL: address})
		if err != nil || p.URL() != want {
			t.Errorf("%q: %v, %v", address, p, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"message":{"role":"assistant","content":"a","tool_calls":[{"function":{"name":"f","arguments":{}}}]},"done":true,"eval_count":1}`)
	p := protocol(f)
	f.Fuzz(func(t *testing.T, line string) {
		var e wire.Event
		p.NewReader(wire.Response{}).Read(stream.Event{Data: []byte(line)}, &e)
	})
}

func BenchmarkRead(b *testing.B) {
	raw := stream.Event{Data: []byte(`{"model":"qwen3:4b","created_at":"2026-01-01T00:00:00.123456Z","message":{"role":"assistant","content":" hello"},"done":false}`)}
	r := protocol(b).NewReader(wire.Response{})
	b.ReportAllocs()
	var e wire.Event
	for b.Loop() {
		e = wire.Event{Pieces: e.Pieces[:0]}
		r.Read(raw, &e)
	}
}
