package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/openai"
	"firstsound/llm/wire"
	"firstsound/llm/wire/wiretest"
)

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ dialect, address, want string }{
		{"", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"},
		{"", "127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"},
		{"", "[::1]:8000", "http://[::1]:8000/v1/chat/completions"},
		{"", "localhost:8000/v1", "http://localhost:8000/v1/chat/completions"},
		{"", "gpu7:8000/v1/", "http://gpu7:8000/v1/chat/completions"},
		{"", "http://h/v1/chat/completions", "http://h/v1/chat/completions"},
		{"", "http://h/v1/chat/completions/?a=b", "http://h/v1/chat/completions?a=b"},
		{"", "https://h.example/proxy/openai", "https://h.example/proxy/openai/chat/completions"},
		{"", "api.openai.com", "https://api.openai.com/v1/chat/completions"},
		{"openai", "", "https://api.openai.com/v1/chat/completions"},
		{"", "https://api.deepseek.com", "https://api.deepseek.com/chat/completions"},
		{"", "https://open.bigmodel.cn", "https://open.bigmodel.cn/api/paas/v4/chat/completions"},
		{"", "https://ark.cn-beijing.volces.com", "https://ark.cn-beijing.volces.com/api/v3/chat/completions"},
		{"dashscope", "", "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"},
		{"", "https://dashscope-intl.aliyuncs.com", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions"},
		{"", "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/chat/completions"},
		{"", "https://r.openai.azure.com/openai/deployments/d", "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"},
		{"", "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=x", "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=x"},
		{"ollama", "", "http://127.0.0.1:11434/v1/chat/completions"},
		{"groq", "", "https://api.groq.com/openai/v1/chat/completions"},
	} {
		p, err := openai.New(openai.Options{URL: test.address, Dialect: test.dialect})
		if err != nil || p.URL() != test.want {
			t.Errorf("%q %q: %v, %v; want %s", test.dialect, test.address, p, err, test.want)
		}
	}
	for _, o := range []openai.Options{{}, {URL: "ftp://h"}, {URL: "http://"}, {URL: "http://h", Dialect: "x"}, {Dialect: "azure"}, {URL: "http://%zz"}} {
		if _, err := openai.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestDetect(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.openai.com/v1": "openai", "r.openai.azure.com": "azure", "https://API.deepseek.com": "deepseek", "http://127.0.0.1:11434": "ollama",
		"http://127.0.0.1:8000": "generic", "https://evil-openai.azure.com.example": "generic", "https://api.moonshot.ai/v1": "moonshot", "": "generic", "openrouter.ai": "openrouter",
		"https://x.pai-eas.aliyuncs.com": "generic",
	} {
		if got := openai.Detect(address).Name; got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
	seen := map[string]bool{}
	for _, d := range openai.Dialects() {
		if seen[d.Name] || d.Env == "" {
			t.Errorf("%+v", d)
		}
		seen[d.Name] = true
	}
}

// request returns the body and the head of a request.
func request(t *testing.T, o openai.Options, req llm.Request) (string, http.Header) {
	t.Helper()
	p, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	return strings.TrimSpace(string(body)), r.Header
}

func TestRequest(t *testing.T) {
	warm, no := 0.0, false
	req := llm.Request{
		Params: llm.Params{Model: "m", MaxTokens: 20, Temperature: &warm},
		Messages: []llm.Message{
			{Role: llm.System, Content: ""}, {Role: llm.User, Content: "a<b 中"},
			{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"x":1}`}}},
			{Role: llm.Result, ToolCallID: "1", Content: "ok"},
		},
		Tools: []llm.Tool{{Name: "f", Description: "d", Parameters: `{"type":"object"}`}},
	}
	body, head := request(t, openai.Options{URL: "http://h", Key: "k"}, req)
	want := `{"max_tokens":20,"messages":[{"role":"system","content":""},{"role":"user","content":"a<b 中"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","content":"ok","tool_call_id":"1"}],"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]}`
	if body != want || head.Get("Authorization") != "Bearer k" || head.Get("Accept") != "text/event-stream" {
		t.Errorf("%v %s\nwant %s", head, body, want)
	}
	plain := llm.Request{Params: llm.Params{Model: "m", MaxTokens: 5}}
	for _, test := range []struct {
		o    openai.Options
		want string
	}{
		{openai.Options{Dialect: "openai"}, `{"max_completion_tokens":5,"messages":[],"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{openai.Options{Dialect: "vllm"}, `{"include_metrics":true,"max_tokens":5,"messages":[],"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`},
		{openai.Options{Dialect: "dashscope", Thinking: &no}, `{"enable_thinking":false,"max_tokens":5,"messages":[],"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{openai.Options{Dialect: "doubao", Thinking: &no, Extra: map[string]any{"top_p": 1, "max_tokens": nil}}, `{"messages":[],"model":"m","stream":true,"stream_options":{"include_usage":true},"thinking":{"type":"disabled"},"top_p":1}`},
	} {
		if body, _ := request(t, test.o, plain); body != test.want {
			t.Errorf("%s: %s\nwant %s", test.o.Dialect, body, test.want)
		}
	}
	for attempt, id := range map[int]string{1: `,"rid":"fs-1"`, 2: ""} {
		plain := llm.Request{RequestID: "fs-1", Attempt: attempt, Params: llm.Params{Model: "m"}}
		want := `{"messages":[],"model":"m"` + id + `,"stream":true,"stream_options":{"include_usage":true}}`
		if body, _ := request(t, openai.Options{Dialect: "sglang"}, plain); body != want {
			t.Errorf("attempt %d: %s\nwant %s", attempt, body, want)
		}
	}
	if _, head := request(t, openai.Options{URL: "https://r.openai.azure.com", Key: "k", Headers: map[string]string{"X-A": "b"}}, plain); head.Get("Api-Key") != "k" || head.Get("Authorization") != "" || head.Get("X-A") != "b" {
		t.Errorf("%v", head)
	}
	p, _ := openai.New(openai.Options{URL: "http://h"})
	if _, err := p.Request(context.Background(), llm.Request{Tools: []llm.Tool{{Name: "f", Parameters: "{"}}}); err == nil {
		t.Error("parameters that are no JSON are taken")
	}
	if _, err := openai.New(openai.Options{URL: "http://h", Thinking: &no}); err == nil {
		t.Error("a way to stop reasoning is made up")
	}
}

// 32: what a service refuses is found out once, before anything is measured.
func TestAdapt(t *testing.T) {
	refuse := func(field, with string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var b map[string]any
			json.NewDecoder(r.Body).Decode(&b)
			if _, sent := b[field]; sent {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(400)
				fmt.Fprint(w, with)
				return
			}
			wiretest.Play(w, r, "text/event-stream", wiretest.Paced([]string{`data: {"choices":[{"delta":{"content":"Yes"},"finish_reason":"length"}]}` + "\n\n"}))
		}
	}
	for _, test := range []struct {
		name, dialect string
		h             http.HandlerFunc
		notes, wrong  string
	}{
		{"nothing", "generic", refuse("x", ""), "[]", ""},
		{"max_tokens", "generic", refuse("max_tokens", `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`),
			"[max_completion_tokens sent in place of max_tokens, which the service refuses]", ""},
		{"max_completion_tokens", "openai", refuse("max_completion_tokens", `{"detail":"unknown field: max_completion_tokens"}`),
			"[max_tokens sent in place of max_completion_tokens, which the service refuses]", ""},
		{"stream_options", "generic", refuse("stream_options", `{"error":{"message":"extra fields","param":"stream_options"}}`), "[stream_options left out: the service refuses it]", ""},
		{"everything", "generic", refuse("model", `{"error":{"message":"max_tokens is too large"}}`),
			"[max_completion_tokens sent in place of max_tokens, which the service refuses]", "the service refuses a first request: 400 Bad Request: max_tokens is too large"},
		{"the model", "generic", refuse("model", `{"error":{"message":"no such model"}}`), "[]", "no such model"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := wiretest.Serve(test.h)
				defer s.End()
				p, err := openai.New(openai.Options{URL: "http://service", Dialect: test.dialect})
				if err != nil {
					t.Fatal(err)
				}
				c := wire.New(clocks.NewReal(), p, wire.Options{Exchange: s.Options()})
				defer c.Close()
				notes, err := p.Adapt(context.Background(), c, llm.Params{Model: "m"})
				if fmt.Sprint(notes) != test.notes || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("%v, %v", notes, err)
				}
			})
		})
	}
}
