package wire_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/anthropic"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
	"firstsound/llm/wire/wiretest"
)

// item returns the bytes of an item of the cases' notation, for chat completions.
//
//	R role only; t(text) content; r(text) reasoning_content; q(text) reasoning;
//	b(text) both; n a null content; e an empty one; k a piece of a tool call;
//	F(reason) finish; U(n) usage with choices []; u(n) a token with usage n so far;
//	h(n) nothing but usage n so far; D [DONE]; c a comment; E an error; x(name)
//	what extra has under that name; |(bytes) as they are, with \n and _ for a space
func item(extra map[string]string) func(name, arg string) (string, error) {
	chunk := func(delta string) string {
		return `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
	}
	return func(name, arg string) (string, error) {
		text := strconv.Quote(strings.ReplaceAll(orDefault(arg, "tok"), "_", " "))
		switch name {
		case "R":
			return chunk(`{"role":"assistant","content":""}`), nil
		case "t":
			return chunk(`{"content":` + text + `}`), nil
		case "r":
			return chunk(`{"content":null,"reasoning_content":` + text + `}`), nil
		case "q":
			return chunk(`{"reasoning":` + text + `}`), nil
		case "b":
			return chunk(`{"content":"","reasoning":` + text + `,"reasoning_content":` + text + `}`), nil
		case "n":
			return chunk(`{"content":null}`), nil
		case "e":
			return chunk(`{"content":""}`), nil
		case "k":
			return chunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`), nil
		case "F":
			return `data: {"choices":[{"index":0,"delta":{},"finish_reason":` + strconv.Quote(orDefault(arg, "stop")) + "}]}\n\n", nil
		case "U":
			return `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":` + arg + "}}\n\n", nil
		case "u":
			return `data: {"choices":[{"index":0,"delta":{"content":"tok"}}],"usage":{"prompt_tokens":9,"completion_tokens":` + arg + "}}\n\n", nil
		case "h":
			return `data: {"choices":[{"index":0,"delta":{"content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":` + arg + "}}\n\n", nil
		case "D":
			return "data: [DONE]\n\n", nil
		case "c":
			return ": keep-alive\n\n", nil
		case "E":
			return `data: {"error":{"message":"the engine died","type":"server_error","code":500}}` + "\n\n", nil
		case "x":
			if s, ok := extra[arg]; ok {
				return s, nil
			}
		}
		return "", fmt.Errorf("there is no item %q(%q)", name, arg)
	}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// ask plays steps to a client of p and returns the record, and the deltas.
func ask(t *testing.T, p wire.Protocol, h http.HandlerFunc, o wire.Options, times int) (all []record.Attempt, deltas []llm.Delta, reads []exchange.Read) {
	synctest.Test(t, func(t *testing.T) {
		s := wiretest.Serve(h)
		defer s.End()
		o.Exchange = s.Options()
		o.KeepReads = func(_ string, r exchange.Read) {
			r.Data = slices.Clone(r.Data)
			reads = append(reads, r)
		}
		c := wire.New(clocks.NewReal(), p, o)
		defer c.Close()
		for i := range times {
			all = append(all, c.Do(context.Background(), llm.Request{
				RequestID: "case", Attempt: i + 1, Messages: []llm.Message{{Role: llm.User, Content: "Hello"}},
			}, func(d llm.Delta) { deltas = append(deltas, d) }))
		}
	})
	return all, deltas, reads
}

// figures returns a record's figures by name, times in milliseconds since Send.
func figures(a record.Attempt, deltas []llm.Delta) map[string]string {
	f := map[string]string{
		"class": string(a.Class), "finish": a.FinishReason, "error": a.Error, "comments": strconv.Itoa(a.Comments),
		"events": strconv.Itoa(a.Events), "empty": strconv.Itoa(a.EmptyEvents), "source": string(a.TokenSource),
		"tpot_absent": a.TPOTAbsent, "chunks": strconv.Itoa(len(a.Chunks)), "status": strconv.Itoa(a.Status),
		"retry": a.RetryAfter.String(), "reads": strconv.Itoa(a.Reads),
	}
	ms := func(d time.Duration) string { return strconv.FormatFloat(float64(d)/1e6, 'f', -1, 64) }
	for name, mark := range map[string]*time.Duration{
		"headers": a.Headers, "first_byte": a.FirstByte, "comment": a.FirstComment, "first_event": a.FirstEvent, "role": a.FirstRole,
		"reasoning": a.FirstReasoning, "call": a.FirstToolCall, "token": a.FirstToken, "spoken": a.FirstSpoken, "segment": a.FirstSegment,
		"last": a.LastContent, "finished": a.Finished, "usage": a.UsageAt, "done": a.Done, "end": a.End,
	} {
		f[name] = "none"
		if mark != nil && a.Send != nil {
			f[name] = ms(*mark - *a.Send)
		}
	}
	for name, d := range map[string]*time.Duration{"ttft": a.TTFT, "tpot": a.TPOT, "total": a.Total} {
		f[name] = "none"
		if d != nil {
			f[name] = ms(*d)
		}
	}
	for name, n := range map[string]*int{"tokens": a.OutputTokens, "prompt": a.PromptTokens, "cached": a.CachedTokens, "thought": a.ReasoningTokens, "tokenized": a.Tokenized} {
		f[name] = "none"
		if n != nil {
			f[name] = strconv.Itoa(*n)
		}
	}
	var gaps []string
	merged := 0
	for i, c := range a.Chunks {
		if c.Merged() {
			merged++
		}
		if i > 0 && !c.Merged() && !a.Chunks[i-1].Merged() {
			gaps = append(gaps, ms(c.At-a.Chunks[i-1].At))
		}
	}
	f["itl"], f["merged"] = strings.Join(gaps, ","), strconv.Itoa(merged)
	text, thought := "", ""
	f["told"] = "none"
	var last time.Duration
	for _, d := range deltas {
		if d.At < last {
			f["class"] = "a delta of the past"
		}
		if last = d.At; d.Kind == llm.Usage {
			f["told"] = strconv.Itoa(d.Tokens)
		}
		switch d.Kind {
		case llm.Content:
			text += d.Text
		case llm.Reasoning:
			thought += d.Text
		}
	}
	f["text"], f["reasoned"] = strings.ReplaceAll(text, " ", "_"), thought
	return f
}

// check compares figures with what is wanted: "ttft=214 class=ok".
func check(t *testing.T, f map[string]string, want string) {
	t.Helper()
	for pair := range strings.FieldsSeq(want) {
		name, value, _ := strings.Cut(pair, "=")
		got, known := f[name]
		if got = strings.ReplaceAll(got, " ", "_"); !known || got != value {
			t.Errorf("%s is %q, not %q (all: %v)", name, got, value, f)
		}
	}
}

const eventStream = "text/event-stream"

// Every case of docs/llm-stream.md, A to E, that a client of one request can get
// right or wrong, by its number.
func TestCases(t *testing.T) {
	open := newOpenAI(t)
	claude, err := anthropic.New(anthropic.Options{URL: "http://service"})
	if err != nil {
		t.Fatal(err)
	}
	extra := map[string]string{
		"retry": "retry: 3000\n\n", "id": "id: 7\n: ping\n\n", "blank": "data:\n\n",
		"crlf":     "data:{\"choices\":[{\"delta\":{\"content\":\"tok\"}}]}\r\n\r\n",
		"filter":   `data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n",
		"nodelta":  `data: {"choices":[{"index":0,"finish_reason":null,"content_filter_results":{}}]}` + "\n\n",
		"nulls":    `data: {"choices":[{"index":0,"delta":null,"finish_reason":null}]}` + "\n\n",
		"qwen":     `data:{"choices":[{"delta":{"role":"assistant","content":"tok"},"index":0}]}` + "\n\n",
		"qwen0":    `data:{"choices":[{"delta":{"role":"assistant","content":""},"index":0}]}` + "\n\n",
		"nochoice": `data: {"usage":{"prompt_tokens":9,"completion_tokens":5}}` + "\n\n",
		"groq":     `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"queue_time":0.02,"prompt_time":0.05,"completion_time":0.1,"total_time":0.15,"prompt_tokens":9,"completion_tokens":2}}}` + "\n\n",
		"thought":  `data: {"choices":[],"usage":{"completion_tokens":12,"completion_tokens_details":{"reasoning_tokens":10}}}` + "\n\n",
		"zh1":      "data: {\"choices\":[{\"delta\":{\"content\":\"\xe4", "zh2": "\xb8\xad\"}}]}\n\n",
		"cut1": `data:`, "cut2": ` {"choices":[{"delta":{"content":"hello`, "cut3": ` world"}}]}` + "\n\n",
		"router": `data: {"error":{"code":"server_error","message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n",
		"string": `data: {"error":"overloaded"}` + "\n\n", "named": "event: error\ndata: {\"message\":\"broken\"}\n\n",
		"object": `data: {"object":"error","message":"too long","code":400}` + "\n\n",
		"start":  "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
		"block":  "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"text":   "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"tok\"}}\n\n",
		"ping":   "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		"stop":   "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"cutoff": `data: {"choices":[{"del`,
		"ten":    strings.Repeat(`data: {"choices":[{"delta":{"content":"tok"}}]}`+"\n\n", 10),
	}
	for _, test := range []struct {
		name, script, want string
		p                  wire.Protocol
	}{
		{"1 role only", "R@5 t@214 F D", "class=ok ttft=214 role=5 first_event=5 total=214", nil},
		{"2 role after prefill", "R@900 t@2200 t@2220 F D", "ttft=2200 itl=20 role=900", nil},
		{"4 structural events", "x(start)@8 x(block)@9 x(text)@400 x(stop)", "ttft=400 role=8 first_event=8 class=ok tokens=1", claude},
		{"5 reasoning", "r(x)@1175 t@183581 F D", "reasoning=1175 ttft=183581 spoken=183581 class=ok", nil},
		{"5 empty content", "e@100 t@200 F D", "ttft=200 empty=1", nil},
		{"7 reasoning by one name", "q(abc)@100 t@200 F D", "reasoning=100 ttft=200 reasoned=abc", nil},
		{"7 reasoning by both names", "b(abc)@100 b(d)@120 t@200 F D", "reasoning=100 ttft=200 reasoned=abcd", nil},
		{"7 reasoning counted apart", "r(x)@100 t@200 t@220 F x(thought) D", "tokens=12 thought=10 tpot=20", nil},
		{"7 reasoning not counted apart", "r(x)@100 t@200 t@220 F U(12) D", "tokens=12 tpot=none tpot_absent=the_reasoning's_tokens_are_not_told_apart_from_the_answer's", nil},
		{"7 reasoning only", "r(x)@100 F@200 D", "class=reasoning_only ttft=none reasoning=100 tpot_absent=no_content", nil},
		{"9 empty", "R@5 F@200 U(0) D", "class=empty ttft=none tpot=none tokens=0 source=usage total=200", nil},
		{"10 tool call only", "R@5 k@200 F(tool_calls)@220 D", "class=tool_only call=200 ttft=none spoken=none finish=tool_calls", nil},
		{"11 usage before text", "U(0)@40 t@350 F@360 D", "ttft=350 usage=40 headers=0", nil},
		{"13 each kind has a mark", "c@1 R@5 r(x)@10 k@15 U(1)@18 t(_)@20 t(a.)@25 F@30 D@35", "comment=1 role=5 reasoning=10 call=15 usage=18 token=20 spoken=25 segment=25 last=25 finished=30 done=35", nil},
		{"14 no token", "R@5 E@20", "ttft=none tpot=none", nil},
		{"15 keep-alive", "c@50 c@60 t@200 F D", "ttft=200 comments=2 first_byte=50 comment=50 first_event=200", nil},
		{"16 no event", "x(retry)@10 x(id)@20 x(blank)@30 t@200 F D", "events=3 ttft=200 comments=1 first_byte=10", nil},
		{"17 CRLF, no space", "x(crlf)@200 x(crlf)@220 F D", "ttft=200 itl=20 class=ok", nil},
		{"18 no space", "x(qwen)@200 F D", "ttft=200 text=tok", nil},
		{"20 character cut", "x(zh1)@200 x(zh2)@230 F D", "text=中 ttft=230 class=ok", nil},
		{"21 spaces at the cut", "x(cut1)@100 x(cut2)@110 x(cut3)@120 F D", "text=hello_world ttft=120", nil},
		{"25 no end of body", "t@200 F D t@5000", "total=200 class=ok end=300", nil},
		{"26 Azure", "x(filter)@10 R@20 x(nodelta)@30 x(nulls)@40 t@300 F D", "ttft=300 class=ok role=20 empty=4", nil},
		{"27 DashScope", "x(qwen0)@50 x(qwen)@200 x(qwen)@220 F D", "ttft=200 itl=20 role=50", nil},
		{"29 usage without choice", "t@200 t@210 F U(2) D", "tokens=2 prompt=9 source=usage tpot=10", nil},
		{"31 usage twice", "t@200 U(1)@205 t@210 F U(2) D", "tokens=2", nil},
		{"31 usage before the end", "t@200 t@210 U(2)@212 F@220 D", "tokens=2 source=usage", nil},
		{"31 no choices key", "t@200 t@240 F x(nochoice) D", "tokens=5 tpot=10", nil},
		{"31 two usage chunks", "t@200 t@210 x(groq) U(2) D", "tokens=2 prompt=9", nil},
		{"31 none", "t@200 t@210 F D", "tokens=2 source=chunks tpot=10", nil},
		{"31 as it goes only", "u(1)@200 u(2)@210 F@220 D", "tokens=2 told=2 usage=210 tpot=10", nil},
		{"36 chunks are not tokens", "t@200 t@300 F U(10) D", "tpot=11.111111 itl=100 tokens=10 chunks=2", nil},
		{"39 first token is no gap", "t@500 t@520 t@540 F D", "itl=20,20", nil},
		{"41 speculative decoding", "u(3)@200 u(6)@209 u(9)@218 u(12)@227 F D", "tpot=3 itl=9,9,9 tokens=12", nil},
		{"42 invisible", "t(\u200b)@100 t@200 F U(2) D", "ttft=100 spoken=200 tpot=100", nil},
		{"43 text held back", "h(1)@100 h(2)@120 h(3)@140 u(4)@160 F D", "token=160 usage=160 tpot=none tokens=4", nil},
		{"45 one token", "t@200 F U(1) D", "ttft=200 tpot=none tpot_absent=no_token_after_those_of_the_first_content_event class=ok", nil},
		{"47 one piece", "R@10 x(ten)@900 +F +U(10) +D", "ttft=900 tpot=none tpot_absent=all_content_came_in_one_read merged=10 itl= chunks=10", nil},
		{"48 error in 200", "t@200 E@300 D", "class=stream_error error=the_engine_died ttft=200 finish= status=200 total=300", nil},
		{"48 OpenRouter", "t@200 x(router)@300", "class=stream_error error=Provider_disconnected", nil},
		{"48 string", "x(string)@300", "class=stream_error error=overloaded ttft=none", nil},
		{"48 named", "x(named)@300", "class=stream_error error=broken", nil},
		{"48 object", "x(object)@300", "class=stream_error error=too_long", nil},
		{"49 no terminal event", "t@200 t@220", "class=truncated ttft=200 end=220", nil},
		{"49 cut in an event", "t@200 x(cutoff)@220", "class=truncated ttft=200", nil},
		{"49 text after the finish", "t@200 F@210 t(late)@220 D", "class=ok text=tok last=220 chunks=2 finished=210", nil},
		{"49 finish without [DONE]", "t@200 F@220", "class=ok done=none total=220", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.p
			if p == nil {
				p = open
			}
			steps, err := wiretest.Script(test.script, item(extra))
			if err != nil {
				t.Fatal(err)
			}
			h := func(w http.ResponseWriter, r *http.Request) { wiretest.Play(w, r, eventStream, steps) }
			all, deltas, reads := ask(t, p, h, wire.Options{}, 1)
			check(t, figures(all[0], deltas), test.want)
			again := wire.Replay(p, all[0], slices.Values(reads), wire.Options{})
			if got, want := fmt.Sprint(figures(again, deltas)), fmt.Sprint(figures(all[0], deltas)); got != want {
				t.Errorf("played again it is\n%s\nnot\n%s", got, want)
			}
		})
	}
}

func newOpenAI(t testing.TB) wire.Protocol {
	p, err := openai.New(openai.Options{URL: "http://service", Dialect: "generic"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
