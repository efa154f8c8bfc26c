package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
	"firstsound/llm/wire/wiretest"
)

// script returns a handler that plays a script.
func script(t *testing.T, text string) http.HandlerFunc {
	steps, err := wiretest.Script(text, item(nil))
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) { wiretest.Play(w, r, eventStream, steps) }
}

// A status that is not 200 is an HTTP error in the service's own words.
func TestStatus(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   string
	}{
		{"50 refused", 503, nil, `{"error":{"message":"overloaded","type":"x"}}`, "class=http_error status=503 error=503_Service_Unavailable:_overloaded ttft=none"},
		{"52 seconds", 429, map[string]string{"Retry-After": "1"}, `{"error":"slow down"}`, "retry=1s error=429_Too_Many_Requests:_slow_down"},
		{"52 milliseconds", 429, map[string]string{"Retry-After-Ms": "250", "Retry-After": "1"}, ``, "retry=250ms error=429_Too_Many_Requests"},
		{"52 date", 429, map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:00:30 GMT", "Date": "Mon, 30 Nov 2026 12:00:00 GMT"}, ``, "retry=30s"},
		{"no number", 429, map[string]string{"Retry-After": "-3"}, ``, "retry=0s"},
		{"detail", 422, nil, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, "error=422_Unprocessable_Entity:_field_required"},
		{"text", 502, nil, "<html>\n<b>Bad gateway</b></html>", "error=502_Bad_Gateway:_<html>_<b>Bad_gateway</b></html>"},
		{"parameter", 400, nil, `{"error":{"message":"unknown","param":"stream_options"}}`, "error=400_Bad_Request:_unknown_(stream_options)"},
		{"redirect", 307, map[string]string{"Location": "/elsewhere?token=hush"}, ``, "class=http_error status=307"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := func(w http.ResponseWriter, r *http.Request) {
				for name, v := range test.header {
					w.Header().Set(name, v)
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}
			all, deltas, _ := ask(t, newOpenAI(t), h, wire.Options{}, 1)
			check(t, figures(all[0], deltas), test.want)
			if to := all[0].Header["location"]; test.status == 307 && (!strings.HasPrefix(to, "http://") || !strings.HasSuffix(to, "/elsewhere") || !strings.Contains(all[0].Error, to)) {
				t.Errorf("it redirects to %q: %s", to, all[0].Error)
			}
		})
	}
}

// 52: each attempt is a record of its own, over the same connection.
func TestAttempts(t *testing.T) {
	n := 0
	good := script(t, "t@300 F D")
	h := func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
			return
		}
		good(w, r)
	}
	all, _, _ := ask(t, newOpenAI(t), h, wire.Options{}, 2)
	check(t, figures(all[0], nil), "class=http_error retry=1s")
	check(t, figures(all[1], nil), "class=ok ttft=300")
	if all[1].Number != 2 || all[1].Reused == nil || !*all[1].Reused {
		t.Errorf("attempt %d, reused %v", all[1].Number, all[1].Reused)
	}
}

// After the end mark the body is read to its end, so that the connection can be
// used again.
func TestReuse(t *testing.T) {
	all, _, _ := ask(t, newOpenAI(t), script(t, "t@20 F D c@60"), wire.Options{}, 2)
	for i, a := range all {
		if a.Reused == nil || *a.Reused != (i == 1) {
			t.Errorf("attempt %d: reused %v", i+1, a.Reused)
		}
		check(t, figures(a, nil), "class=ok total=20 end=60")
	}
	all, _, _ = ask(t, newOpenAI(t), script(t, "t@20 F D c@600"), wire.Options{}, 2)
	if all[1].Reused == nil || *all[1].Reused {
		t.Errorf("a connection is used again whose answer did not end: %v", all[1].Reused)
	}
}

var errUser = errors.New("the user went away")

// How an attempt ends that does not come to an end by itself.
func TestEndings(t *testing.T) {
	slow := "R@5 t@200 t@220 F@5000 D"
	for _, test := range []struct {
		name    string
		timeout time.Duration
		cancel  error
		after   time.Duration
		script  string
		want    string
	}{
		{"timeout", 3 * time.Second, nil, 0, slow, "class=timeout ttft=200 total=3000 end=3000 chunks=2 finish="},
		{"timeout before the headers", 2 * time.Second, nil, 0, "", "class=timeout ttft=none end=2000"},
		{"cancelled", 0, errUser, time.Second, slow, "class=cancelled ttft=200 end=1000 error=the_user_went_away"},
		{"cancelled before the headers", 0, errUser, time.Second, "", "class=cancelled headers=none"},
		{"unfinished", 0, wire.ErrRunEnded, time.Second, slow, "class=unfinished total=1000"},
		{"timeout after the finish", 3 * time.Second, nil, 0, "t@200 F@220 c@9000", "class=ok total=3000 finished=220"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				})
				if test.script != "" {
					h = script(t, test.script)
				}
				m := wiretest.Serve(h)
				defer m.End()
				clock := clocks.NewReal()
				c := wire.New(clock, newOpenAI(t), wire.Options{Exchange: m.Options(), Timeout: test.timeout})
				defer c.Close()
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				if test.cancel != nil {
					clock.At(test.after, func() { cancel(test.cancel) })
				}
				a := c.Do(ctx, llm.Request{RequestID: "x"}, nil)
				check(t, figures(a, nil), test.want)
			})
		})
	}
}

// What breaks: no connection, a connection that breaks before the headers, and
// one that breaks in the body.
func TestBroken(t *testing.T) {
	hijack := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, out, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			out.WriteString(text)
			out.Flush()
			conn.Close()
		}
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	data := "data: {\"choices\":[{\"delta\":{\"content\":\"tok\"}}]}\n\n"
	for _, test := range []struct{ name, text, want string }{
		{"before the headers", "", "class=connect_error headers=none"},
		{"after the headers", head, "class=truncated ttft=none"},
		{"in the body", head + fmt.Sprintf("%x\r\n%s\r\n", len(data), data), "class=truncated ttft=0 chunks=1"},
		{"in a chunk", head + fmt.Sprintf("%x\r\n%s", len(data)+20, data), "class=truncated"},
		{"no HTTP", "hello\r\n\r\n", "class=connect_error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, _, _ := ask(t, newOpenAI(t), hijack(test.text), wire.Options{}, 1)
			check(t, figures(all[0], nil), test.want)
			if all[0].Error == "" {
				t.Error("there are no words for it")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := wiretest.Serve(http.NotFoundHandler())
		m.End()
		c := wire.New(clocks.NewReal(), newOpenAI(t), wire.Options{Exchange: m.Options()})
		defer c.Close()
		check(t, figures(c.Do(context.Background(), llm.Request{}, nil), nil), "class=connect_error ttft=none")
	})
}

// The key is in nothing that is kept, even if the service sends it back.
func TestSecret(t *testing.T) {
	const key = "sk-very-secret-key"
	p, err := openai.New(openai.Options{URL: "http://service", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{200, 401} {
		h := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":"wrong key: %s"}}`, r.Header.Get("Authorization"))
		}
		all, _, _ := ask(t, p, h, wire.Options{}, 1)
		text, err := json.Marshal(all[0])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), key) || !strings.Contains(all[0].Error, "wrong key") {
			t.Errorf("%s", text)
		}
	}
}

// What is sent with every request, and what of the answer's headers is kept.
func TestHeaders(t *testing.T) {
	var sent http.Header
	h := func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		w.Header().Set("X-Accel-Buffering", "no")
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Server-Timing", `queue;dur=3.1, cache;desc="hit", ttft;desc="first";dur=120`)
		script(t, "t@200 F D")(w, r)
	}
	all, _, _ := ask(t, newOpenAI(t), h, wire.Options{}, 1)
	a := all[0]
	if sent.Get("X-Request-Id") != "case" || sent.Get("Traceparent") != "00-"+wire.TraceID("case")+"-"+sent.Get("Traceparent")[36:52]+"-01" || len(sent.Get("Traceparent")) != 55 {
		t.Errorf("sent %v", sent)
	}
	if sent.Get("Accept-Encoding") != "identity" {
		t.Errorf("asks for the encoding %q", sent.Get("Accept-Encoding"))
	}
	if a.Header["x-accel-buffering"] != "no" || a.Header["set-cookie"] != "" || a.Header["content-type"] != eventStream {
		t.Errorf("kept %v", a.Header)
	}
	if a.Server == nil || a.Server.Queue == nil || *a.Server.Queue != 3100*time.Microsecond || *a.Server.TTFT != 120*time.Millisecond {
		t.Errorf("server %+v", a.Server)
	}
	if a.Server.Source != "server-timing" {
		t.Errorf("source %q", a.Server.Source)
	}
	if a.Stamps != record.ByRead || a.Protocol != "HTTP/1.1" {
		t.Errorf("stamps %q, protocol %q", a.Stamps, a.Protocol)
	}
}

// 12: a client that is slow with what it got does not move when it came.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := wiretest.Serve(script(t, "t@200 F@300 +D"))
		defer m.End()
		clock := clocks.NewReal()
		c := wire.New(clock, newOpenAI(t), wire.Options{Exchange: m.Options(), Count: func(string) (int, error) {
			clock.Sleep(context.Background(), time.Second)
			return 1, nil
		}})
		defer c.Close()
		a := c.Do(context.Background(), llm.Request{RequestID: "x"}, func(llm.Delta) { clock.Sleep(context.Background(), 30*time.Millisecond) })
		check(t, figures(a, nil), "class=ok ttft=200 finished=300 total=300")
	})
}

// 34: the service's count is taken, and the tokenizer's shown beside it.
func TestCounts(t *testing.T) {
	count := func(text string) (int, error) { return len(strings.Fields(text)), nil }
	all, _, _ := ask(t, newOpenAI(t), script(t, "t(a)@200 t(_b)@300 F U(100) D"), wire.Options{Count: count}, 1)
	check(t, figures(all[0], nil), "tokens=100 source=usage tokenized=2 tpot=1.010101")
	two := func(text string) (int, error) { return len(text), nil }
	all, _, _ = ask(t, newOpenAI(t), script(t, "t(abc)@200 t(de)@300 t(fghij)@500 F D"), wire.Options{Count: two}, 1)
	check(t, figures(all[0], nil), "tokens=10 source=tokenizer tokenized=10 tpot=42.857142")
	broken := func(string) (int, error) { return 0, errUser }
	all, _, _ = ask(t, newOpenAI(t), script(t, "t@200 t@300 F D"), wire.Options{Count: broken}, 1)
	check(t, figures(all[0], nil), "tokens=2 source=chunks tokenized=none")
}

// 23: much in flight on many streams at once.
func TestManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("x", 16<<10)
		steps, err := wiretest.Script(strings.Repeat("t("+big+")@100 ", 64)+"F D", item(nil))
		if err != nil {
			t.Fatal(err)
		}
		m := wiretest.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wiretest.Play(w, r, eventStream, steps) }))
		defer m.End()
		clock := clocks.NewReal()
		c := wire.New(clock, newOpenAI(t), wire.Options{Exchange: m.Options()})
		defer c.Close()
		g, ctx := clocks.NewGroup(context.Background(), clock)
		for range 16 {
			g.Go("stream", func() error {
				a := c.Do(ctx, llm.Request{RequestID: "x"}, nil)
				if a.Class != record.OK || a.Bytes < 1<<20 || *a.Total != 100*time.Millisecond {
					return fmt.Errorf("%s, %d bytes, %v", a.Class, a.Bytes, a.Total)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "Sure": false, "Sure.": true, "Sure. I": true, "It is 3": false, "It is 3.": false, "It is 3.5": false, "It is 3.5 km. ": true,
		"See example.com": false, "你好": false, "你好。": true, "好的，": false, "...": false, "Really?": true, "He said \"yes.\" Then": true,
		"This is a rather long sentence that goes on and on and on for ever": false, "This is a rather long sentence that goes on and on and on, for": false,
		"This is a rather long sentence that goes on and on and on for all, who": true, "\xff.": false, "a\xff. b": true,
	} {
		if got := wire.FirstSentence(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestFault(t *testing.T) {
	for text, want := range map[string]string{
		`{"error":{"message":"a","type":"b"}}`: "a", `{"error":"a"}`: "a", `{"message":"a"}`: "a", `{"detail":"a"}`: "a", `[{"error":{"message":"a"}}]`: "a",
		`{"error":{"code":"a"}}`: "a", `{"error":null,"message":"a"}`: "a", "a\n b": "a b", `"a"`: "a", "": "", `{"x":1}`: `{"x":1}`,
		`{"error":{"error":{"error":{"error":{"error":"deep"}}}}}`: `{"error":{"error":{"error":{"error":{"error":"deep"}}}}}`,
	} {
		if got := wire.Fault([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := wire.Fault([]byte(strings.Repeat("中", 1000))); len(got) > 610 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-10:])
	}
}

// Kept reads come before they are parsed, and are valid during the call only.
func TestKeepReads(t *testing.T) {
	_, _, reads := ask(t, newOpenAI(t), script(t, "R@5 t@200 F D"), wire.Options{}, 1)
	text := ""
	for _, r := range reads {
		text += string(r.Data)
	}
	if len(reads) != 4 || !strings.HasSuffix(text, "[DONE]\n\n") || reads[1].Arrived != 200*time.Millisecond {
		t.Errorf("%d reads: %q", len(reads), text)
	}
	var _ exchange.Read = reads[0]
}
