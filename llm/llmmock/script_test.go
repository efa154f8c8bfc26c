package llmmock

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// Scripts are what llm-stream.md's cases are: the bytes of each write, and when.
func TestScripts(t *testing.T) {
	const chunk = `data: {"id":"chatcmpl-x","object":"chat.completion.chunk","created":1767225600,"model":"m","choices":[{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}]%s}` + "\n\n"
	event := func(delta, finish, more string) string { return fmt.Sprintf(chunk, delta, finish, more) }
	role := event(`"role":"assistant","content":""`, "null", "")
	text := func(s string) string { return event(`"content":"`+s+`"`, "null", "") }
	finish := event("", `"stop"`, "")
	const done = "data: [DONE]\n\n"
	usage := func(n int, choices string) string {
		return fmt.Sprintf(`data: {"id":"chatcmpl-x","object":"chat.completion.chunk","created":1767225600,"model":"m"%s,"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}}`+"\n\n", choices, n, n+10)
	}
	empty := `,"choices":[]`
	type w struct {
		ms   int
		data string
	}
	for script, want := range map[string][]w{
		`R@5 t"Hi"@214 F D`:                {{5, role}, {214, text("Hi") + finish + done}},
		`R@900 t@2200 t@2220 F D`:          {{900, role}, {2200, text("one")}, {2220, text(" two") + finish + done}},
		`R@5 F@200 U(0) D`:                 {{5, role}, {200, finish + usage(0, empty) + done}},
		`:keep`:                            nil,
		`:"keep-alive"@50 t"Hi"@60 F`:      {{50, ": keep-alive\n\n"}, {60, text("Hi") + finish}},
		`t"a"@1 | t"b" D@+2`:               {{1, text("a")}, {1, text("b")}, {3, done}},
		`x(E4)@1 | x(B8AD)`:                {{1, "\xe4"}, {1, "\xb8\xad"}},
		`x"data:"@1 x" {}\n\n"@2`:          {{1, "data:"}, {2, " {}\n\n"}},
		`rb"x"@1 rs"y" rc"z"`:              {{1, event(`"reasoning":"x","reasoning_content":"x"`, "null", "") + event(`"reasoning":"y"`, "null", "") + event(`"reasoning_content":"z"`, "null", "")}},
		`n@1 e`:                            {{1, event(`"content":null`, "null", "") + event(`"content":""`, "null", "")}},
		`Un(7)@1`:                          {{1, usage(7, "")}},
		`t"a"/U(4)@9`:                      {{9, event(`"content":"a"`, "null", `,"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":0}}`)}},
		`t3@+9 t"\u200b"@1.5s F"length" D`: {{9, text("one two three")}, {1500, text("\u200b") + event("", `"length"`, "") + done}},
		`E"boom"@3`:                        {{3, `data: {"error":{"message":"boom","type":"server_error","param":null,"code":500}}` + "\n\n"}},
		`T"get"@1 a"{}"@2`: {{1, event(`"content":null,"tool_calls":[{"index":0,"id":"call_x_0","type":"function","function":{"name":"get","arguments":""}}]`, "null", "")},
			{2, event(`"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`, "null", "")}},
		"H@3 R@9": {{3, ""}, {9, role}},
	} {
		p, err := ParseScript(script)
		if want == nil {
			if err == nil {
				t.Errorf("%s: is taken", script)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		p.Usage.Prompt = 10
		d, _ := findDialect("")
		got := p.writes(newChat(answer{id: "chatcmpl-x", requestID: "x", model: "m", created: time.Unix(1767225600, 0), plan: p}, d))
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) {
				t.Errorf("%s: %d writes, want %d", script, len(got), len(want))
				break
			}
			if at := time.Duration(want[i].ms) * time.Millisecond; got[i].When.After != at || string(got[i].Data) != want[i].data {
				t.Errorf("%s: write %d at %v:\n%q\nwant at %v:\n%q", script, i, got[i].When.After, got[i].Data, at, want[i].data)
			}
		}
	}
}

func TestScriptErrors(t *testing.T) {
	for script, want := range map[string]string{
		"":                          "no event",
		"R@5 t@3":                   "before the event ahead",
		"q":                         `no event is called "q"`,
		"R@5 t@x":                   "byte 5",
		`t"open`:                    "not closed",
		"U":                         "U(n)",
		"U(1,2,3,4)":                "at most three",
		"U(x)":                      "no number of tokens",
		"x(zz)":                     "hex",
		"S(99)":                     "between 200 and 599",
		"S(429,no header=1)":        "no header",
		"tt":                        "left over",
		"t99999@1":                  "too many",
		"R@100h":                    "more than 24h",
		`:"a\nb"`:                   "one line",
		strings.Repeat("t ", 1<<20): "at most",
	} {
		if _, err := ParseScript(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q in it", script, err, want)
		}
	}
}

// A script's answers go out as they are written, refusals and broken ends too.
func TestScriptsOverTheWire(t *testing.T) {
	o := Defaults()
	o.Scripts = []string{`R@5 t@214 F D`, `S(429,retry-after=1)@7`, `t@10 C`, `t@10 X`, `t@10 t@20`}
	in(t, o, Link{}, func(w *world) {
		want := []struct {
			status int
			err    string
			lines  int
			ended  Ending
		}{{200, "", 4, Complete}, {429, "", 1, Complete}, {200, io.ErrUnexpectedEOF.Error(), 1, WasAborted}, {200, "connection reset by peer", 1, WasReset}, {200, "", 2, Complete}}
		for i, c := range want {
			begin := w.clock.Now()
			resp, lines, err := w.ask(hello)
			if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("script %d: error %v, want %q", i, err, c.err)
			}
			if resp.StatusCode != c.status || len(lines) != c.lines {
				t.Errorf("script %d: status %d, %v", i, resp.StatusCode, lines)
			}
			if i == 0 && lines[1].at-begin != 214*time.Millisecond || i == 1 && (lines[0].at-begin != 7*time.Millisecond || resp.Header.Get("Retry-After") != "1") {
				t.Errorf("script %d: %v after %v, %v", i, lines, begin, resp.Header)
			}
			if w.told()[i].Ended != c.ended {
				t.Errorf("script %d: truth %+v", i, w.told()[i])
			}
		}
	})
}

func FuzzParseScript(f *testing.F) {
	for _, s := range []string{`R@5 t@214 t"x"@+9 F U(2) D`, `S(429,retry-after=1)@3`, `x(E4) | x"\n" rb"r"@1s :"c" E"m" T"n" a"{}" X`, `t3/U(1,2,3)@5 Un(1) W`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseScript(s)
		if err != nil {
			return
		}
		d, _ := findDialect("")
		before := When{}
		for _, w := range p.writes(newChat(answer{plan: p}, d)) {
			if w.When.before(before) {
				t.Fatalf("%q: %v after %v", s, w.When, before)
			}
			before = w.When
		}
	})
}

func FuzzDecodeAsk(f *testing.F) {
	f.Add(0, []byte(hello))
	f.Add(1, []byte(`{"model":"m","messages":[{"role":"user","content":"hi","tool_calls":[{}]}],"options":{"num_predict":3}}`))
	f.Add(2, []byte(`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"x"}],"tools":[{"name":"n","input_schema":{"required":["a"],"properties":{"a":{"type":"number"}}}}],"messages":[{"role":"user","content":[{"type":"tool_result","content":"y"}]}]}`))
	f.Fuzz(func(t *testing.T, s int, body []byte) {
		a, err := decodeAsk(service(uint(s)%3), body)
		if err != nil {
			return
		}
		if a.prompt < perMessage || a.head > len(a.text) {
			t.Fatalf("%+v", a)
		}
		for _, tool := range a.tools {
			argumentsFor(tool.Parameters)
		}
	})
}

func FuzzParseFault(f *testing.F) {
	for _, s := range []string{"status:429,retry_after=1s,p=0.5", "proxy_buffer:16KB", "gzip:flush=yes", "neighbour:x=2", "empty"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := parseFault(s)
		if err == nil && !(x.p >= 0 && x.p <= 1) {
			t.Fatalf("%q: p = %v", s, x.p)
		}
	})
}
