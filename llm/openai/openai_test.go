package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"firstsound/llm/openai"
	"firstsound/llm/wire/wiretest"
)

const sse = "text/event-stream"

// asked is what the fake service reads of a request.
type asked struct {
	Max      int               `json:"max_tokens"`
	Messages []json.RawMessage `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Stream   bool              `json:"stream"`
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func read(r *http.Request) (a asked) {
	json.NewDecoder(r.Body).Decode(&a)
	return a
}

func answer(w http.ResponseWriter, r *http.Request) { reply(w, r, read(r)) }

func reply(w http.ResponseWriter, r *http.Request, a asked) {
	words, reason := wiretest.Words, "stop"
	if a.Max > 0 && a.Max < len(words) {
		words, reason = words[:a.Max], "length"
	}
	parts := []string{"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"}
	for _, word := range words {
		parts = append(parts, fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", word))
	}
	parts = append(parts, fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", reason))
	if a.Stream && a.Options.Usage {
		parts = append(parts, fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":%d}}\n\n", len(words)))
	}
	wiretest.Play(w, r, sse, wiretest.Paced(append(parts, "data: [DONE]\n\n")))
}

func fail(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `{"error":{"message":"the model is overloaded","type":"server_error"}}`)
}

func call(w http.ResponseWriter, r *http.Request) {
	a := read(r)
	last := string(a.Messages[len(a.Messages)-1])
	var m struct{ Role, ToolCallID string }
	json.Unmarshal([]byte(last), &m)
	if len(a.Tools) == 0 || m.Role == "tool" {
		reply(w, r, a)
		return
	}
	wiretest.Play(w, r, sse, wiretest.Paced([]string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_7\",\"type\":\"function\",\"function\":{\"name\":\"opening_hours\",\"arguments\":\"\"}}]}}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"query\\\":\"}}]}}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"today\\\"}\"}}]}}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
		"data: [DONE]\n\n",
	}))
}

func TestConformance(t *testing.T) {
	p, err := openai.New(openai.Options{URL: "http://service", Key: "secret", Dialect: "generic"})
	if err != nil {
		t.Fatal(err)
	}
	wiretest.Conform(t, p, answer, fail, call)
}
