package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/stream"
	"firstsound/llm/wire"
)

func reader(t testing.TB, kind string) wire.Reader {
	p, err := openai.New(openai.Options{URL: "http://h"})
	if err != nil {
		t.Fatal(err)
	}
	return p.NewReader(wire.Response{Status: 200, Header: http.Header{"Content-Type": {kind}}})
}

// show returns what an event means, without what it does not mean.
func show(e wire.Event) string {
	var parts []string
	add := func(name string, v any, zero any) {
		if v != zero {
			parts = append(parts, fmt.Sprintf("%s=%v", name, v))
		}
	}
	add("role", e.Role, false)
	add("content", e.Content, "")
	add("reasoning", e.Reasoning, "")
	for _, p := range e.Pieces {
		parts = append(parts, fmt.Sprintf("call=%d:%s:%s:%s", p.Index, p.ID, p.Name, p.Arguments))
	}
	add("finish", e.Finish, "")
	if u := e.Usage; u != nil {
		for name, n := range map[string]*int{"prompt": u.Prompt} {
			if n != nil {
				add(name, *n, nil)
			}
		}
		for i, n := range []*int{u.Cached, u.Output, u.Reasoning} {
			if n != nil {
				add([]string{"cached", "output", "thought"}[i], *n, nil)
			}
		}
	}
	add("fault", e.Fault, "")
	add("done", e.Done, false)
	add("tokens", e.Tokens, 0)
	add("version", e.Version, "")
	return strings.Join(parts, " ")
}

func TestRead(t *testing.T) {
	for _, test := range []struct{ data, want string }{
		{`[DONE]`, "done=true"},
		{`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, "role=true"},
		{`{"choices":[{"delta":{"content":"a\n\u4e2d"}}],"system_fingerprint":"fp_1"}`, "content=a\n中 version=fp_1"},
		{`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, "content=a"},
		{`{"choices":[{"delta":{"content":null,"refusal":"I cannot"}}]}`, "content=I cannot"},
		{`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}}]}`, "content=a reasoning=hm"},
		{`{"choices":[{"delta":{"reasoning_content":"x","reasoning":"x"}}]}`, "reasoning=x"},
		{`{"choices":[{"delta":{"reasoning":"x","reasoning_content":null}}]}`, "reasoning=x"},
		{`{"choices":[]}`, ""}, {`{"choices":null}`, ""}, {`{"choices":[{"delta":null}]}`, ""}, {`{"choices":[{}]}`, ""}, {`{"choices":[null]}`, ""}, {`{}`, ""},
		{`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}`, "content=a tokens=2"},
		{`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}`, "finish=stop"},
		{`{"choices":[{"delta":{},"finish_reason":"function_call"}]}`, "finish=tool_calls"},
		{`{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":4,"cached_tokens":1}}]}`, "finish=stop prompt=3 cached=1 output=4"},
		{`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_cache_hit_tokens":4,"completion_tokens_details":{"reasoning_tokens":2}}}`, "prompt=9 cached=4 output=5 thought=2"},
		{`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}}`, "prompt=9 cached=0 output=5"},
		{`{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}`, "prompt=9"},
		{`{"choices":[],"usage":"many"}`, ""},
		{`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c","function":{"name":"f","arguments":"{\"a\""}}]}}]}`, `call=1:c:f:{"a"`},
		{`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g"}}]}}]}`, `call=0::f:{"a":1} call=1::g:`},
		{`{"error":{"message":"m","type":"t"}}`, "fault=m"}, {`{"error":"m"}`, "fault=m"}, {`{"error":null,"choices":[{"delta":{"content":"a"}}]}`, "content=a"},
		{`{"object":"error","message":"m","code":40}`, "fault=m"}, {`{"code":"InvalidParameter","message":"m"}`, "fault=m"}, {`{"detail":"m"}`, "fault=m"},
		{`{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"m"}}`, "fault=m"},
		{`{"choices":[{"delta":{},"finish_reason":"error"}]}`, `fault={"choices":[{"delta":{},"finish_reason":"error"}]}`},
	} {
		var e wire.Event
		if err := reader(t, "text/event-stream").Read(stream.Event{Data: []byte(test.data)}, &e); err != nil {
			t.Errorf("%s: %v", test.data, err)
		}
		if got := show(e); got != test.want {
			t.Errorf("%s: %q, want %q", test.data, got, test.want)
		}
	}
	for _, data := range []string{`hello`, `{"choices":[`, `[]`, `<html>`, `{"choices":[{"delta":{"content":"a}}]}`} {
		if err := reader(t, "text/event-stream").Read(stream.Event{Data: []byte(data)}, &wire.Event{}); err == nil {
			t.Errorf("%s is taken", data)
		}
	}
	var e wire.Event
	reader(t, "").Read(stream.Event{Name: "error", Data: []byte("broken pipe")}, &e)
	if e.Fault != "broken pipe" {
		t.Errorf("%+v", e)
	}
}

// A stop after a tool call is one for the tool call, as some servers forget to say.
func TestToolFinish(t *testing.T) {
	r := reader(t, "")
	var e wire.Event
	r.Read(stream.Event{Data: []byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}`)}, &e)
	e = wire.Event{}
	r.Read(stream.Event{Data: []byte(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)}, &e)
	if e.Finish != "tool_calls" {
		t.Errorf("%q", e.Finish)
	}
}

// An answer that was not streamed is one event.
func TestWhole(t *testing.T) {
	r := reader(t, "application/json; charset=utf-8")
	d := r.Decoder()
	d.Feed([]byte(`{"choices":[{"message":{"role":"assistant","content":"a`), nil, nil)
	d.Feed([]byte(`b"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}`+"\n"), nil, nil)
	var got []string
	d.Close(func(raw stream.Event) {
		var e wire.Event
		if err := r.Read(raw, &e); err != nil {
			t.Error(err)
		}
		got = append(got, show(e))
	})
	if fmt.Sprint(got) != "[role=true content=ab finish=stop output=2 done=true]" {
		t.Errorf("%q", got)
	}
}

// The times that servers tell in band.
func TestServerTimes(t *testing.T) {
	ms := func(x float64) *time.Duration { d := time.Duration(x * 1e6); return &d }
	n := func(x int) *int { return &x }
	for _, test := range []struct {
		data string
		want record.Server
	}{
		{`{"choices":[],"timings":{"cache_n":60,"prompt_n":8,"prompt_ms":43.25,"predicted_n":25,"predicted_ms":238.75,"predicted_per_second":104.7}}`,
			record.Server{Source: "llama.cpp timings", Prefill: ms(43.25), Decode: ms(238.75), PromptTokens: n(68), CachedTokens: n(60), OutputTokens: n(25)}},
		{`{"choices":[{"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":1000,"cache":200,"processed":500,"time_ms":120}}`,
			record.Server{Source: "llama.cpp prompt_progress", Prefill: ms(120), PromptTokens: n(1000), CachedTokens: n(200)}},
		{`{"choices":[],"metrics":{"time_to_first_token_ms":85.25,"generation_time_ms":1240.5,"queue_time_ms":12.25,"mean_itl_ms":9.1}}`,
			record.Server{Source: "vllm metrics", TTFT: ms(85.25), Queue: ms(12.25), Decode: ms(1240.5)}},
		{`{"choices":[],"x_groq":{"id":"req_1","usage":{"queue_time":0.02,"prompt_tokens":9,"prompt_time":0.05,"completion_tokens":2,"completion_time":0.1,"total_time":0.15}}}`,
			record.Server{Source: "groq usage", Queue: ms(20), Prefill: ms(50), Decode: ms(100), Total: ms(150), PromptTokens: n(9), OutputTokens: n(2)}},
	} {
		var e wire.Event
		if err := reader(t, "").Read(stream.Event{Data: []byte(test.data)}, &e); err != nil {
			t.Error(err)
		}
		got, _ := json.Marshal(e.Server)
		want, _ := json.Marshal(test.want)
		if string(got) != string(want) {
			t.Errorf("%s: %s, want %s", test.data, got, want)
		}
	}
	for _, data := range []string{`{"timings":{"prompt_ms":-1}}`, `{"timings":{"prompt_ms":1e300}}`, `{"timings":"no"}`, `{"metrics":[]}`, `{"x_groq":{"id":"r"}}`} {
		var e wire.Event
		if err := reader(t, "").Read(stream.Event{Data: []byte(data)}, &e); err != nil {
			t.Error(err)
		}
		if e.Server != nil && e.Server.Prefill != nil {
			t.Errorf("%s: %+v", data, e.Server)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, data := range []string{
		`{"choices":[{"delta":{"content":"a","reasoning":"b","tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`,
		`{"error":{"message":"m"}}`, `[DONE]`, `{"timings":{"prompt_ms":1},"x_groq":{"usage":{"queue_time":1}},"metrics":{"queue_time_ms":1},"prompt_progress":{"total":1}}`,
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		var e wire.Event
		err := reader(t, "").Read(stream.Event{Data: []byte(data)}, &e)
		if err == nil && data != "[DONE]" {
			var plain struct {
				Choices []struct {
					Delta struct{ Content *string }
				}
			}
			// What encoding/json takes as content, exactly so named, is content here.
			if strings.Count(data, `"content"`) == 1 && strings.Count(data, `"choices"`) == 1 && strings.Count(data, `"delta"`) == 1 && !strings.ContainsAny(data, "\\CD") &&
				!strings.Contains(data, "message") && !strings.Contains(data, "refusal") && !strings.Contains(data, "error") && json.Valid([]byte(data)) &&
				json.Unmarshal([]byte(data), &plain) == nil && len(plain.Choices) == 1 && plain.Choices[0].Delta.Content != nil && e.Content != *plain.Choices[0].Delta.Content && e.Fault == "" {
				t.Errorf("content %q, encoding/json has %q", e.Content, *plain.Choices[0].Delta.Content)
			}
		}
	})
}

const chunk = `{"id":"chatcmpl-9f86d081884c7d65","object":"chat.completion.chunk","created":1763000000,"model":"qwen3-8b","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}],"usage":%s}`

func BenchmarkRead(b *testing.B) {
	for name, data := range map[string]string{
		"plain":   fmt.Sprintf(chunk, `" hello"`, "null"),
		"chinese": fmt.Sprintf(chunk, `"\u4f60\u597d"`, "null"),
		"usage":   fmt.Sprintf(chunk, `" hello"`, `{"prompt_tokens":42,"total_tokens":45,"completion_tokens":3}`),
	} {
		b.Run(name, func(b *testing.B) {
			raw := stream.Event{Data: []byte(data)}
			r := reader(b, "text/event-stream")
			b.ReportAllocs()
			var e wire.Event
			for b.Loop() {
				e = wire.Event{Pieces: e.Pieces[:0], Version: e.Version}
				if r.Read(raw, &e); e.Content == "" {
					b.Fatal("no content")
				}
			}
		})
	}
}
