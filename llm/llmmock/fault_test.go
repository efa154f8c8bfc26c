package llmmock

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firstsound/clocks/random"
)

const millisecond = time.Millisecond

// times returns the moments of an answer's visible chunks, from the arrival, in
// ms.
func times(x Truth) string {
	var out []string
	for _, c := range x.Chunks {
		out = append(out, fmt.Sprint(float64(c-x.Arrived)/1e6))
	}
	return strings.Join(out, " ")
}

// What each fault does to answers of three tokens at 200, 220 and 240 ms, each
// asked for as soon as the one before has ended.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault string
		want  []string // chunks of each request
		last  string   // in the last answer's text
		ended Ending
	}{
		{"cold_start:5s", []string{"5200 5220 5240", "200 220 240"}, "[DONE]", Complete},
		{"cold_start:by=1s,n=2", []string{"1200 1220 1240", "1200 1220 1240", "200 220 240"}, "[DONE]", Complete},
		{"delayed_ack:share=1", []string{"200 220 240", "240 260 280"}, "[DONE]", Complete},
		{"connect", []string{"320 340 360", "200 220 240"}, "[DONE]", Complete},
		{"retry_hidden:300ms", []string{"500 520 540"}, "[DONE]", Complete},
		{"batch_window:150ms", []string{"200 220 240", "240 260 280"}, "[DONE]", Complete}, // the second comes at 260
		{"prefill_growth:by=1s,knee=4", []string{"206 226 246"}, "[DONE]", Complete},       // 10 tokens
		{"slow_headers:300ms", []string{"500 520 540"}, "[DONE]", Complete},
		{"neighbour:every=1s,for=100ms,x=3", []string{"266.666667 286.666667 306.666667"}, "[DONE]", Complete},
		{"filter_bursts:30ms", []string{"230 230 260"}, "[DONE]", Complete},
		{"fake_stream", []string{"260 260 260"}, "[DONE]", Complete},
		{"stall:for=1s,at=1", []string{"200 1220 1240"}, "[DONE]", Complete},
		{"h2_stall:streams=0", []string{"200 620 640"}, "[DONE]", Complete},
		{"proxy_buffer", []string{"260 260 260"}, "[DONE]", Complete},
		{"proxy_buffer:500", []string{"220 220 260"}, "[DONE]", Complete},
		{"empty", []string{""}, "\"completion_tokens\":0", Complete},
		{"reasoning_only", []string{""}, "\"reasoning_content\":\"Sure\"", Complete},
		{"truncate:2", []string{"200 220"}, "\"content\":\",\"", Complete},
		{"abort:1", []string{"200"}, "Sure", WasAborted},
		{"reset:1", []string{"200"}, "Sure", WasReset},
		{"stream_error:1", []string{"200"}, `{"error":{"message":"the engine died (mock)"`, Complete},
		{"usage", []string{"200 220 240"}, "[DONE]", Complete},
		{"usage:bare", []string{"200 220 240"}, `"model":"m","usage"`, Complete},
		{"no_done", []string{"200 220 240"}, `"usage"`, Complete},
		{"no_finish", []string{"200 220 240"}, "[DONE]", Complete},
		{"crlf", []string{"200 220 240"}, "[DONE]\r", Complete},
		{"no_space", []string{"200 220 240"}, "data:[DONE]", Complete},
		{"bom", []string{"200 220 240"}, "\ufeffdata: ", Complete},
		{"cut:5", []string{"200 220 240"}, "[DONE]", Complete},
		{"keepalive:60ms", []string{"200 220 240"}, ": keep-alive", Complete},
		{"early_role", []string{"200 220 240"}, "[DONE]", Complete},
		{"status:429,retry_after=2s", []string{""}, "Too Many Requests (mock)", Complete},
	} {
		t.Run(c.fault, func(t *testing.T) {
			o := quick()
			o.Faults = []string{c.fault}
			in(t, o, Link{}, func(w *world) {
				var text string
				for range c.want {
					_, lines, _ := w.ask(hello)
					text = ""
					for _, l := range lines {
						text += l.text + "\n"
					}
				}
				for i, want := range c.want {
					if got := times(w.told()[i]); got != want {
						t.Errorf("request %d: chunks at %s, want %s", i, got, want)
					}
					if ttft, ok := w.told()[i].TTFT(); ok && ttft != w.told()[i].Chunks[0]-w.told()[i].Arrived {
						t.Errorf("TTFT %v", ttft)
					}
				}
				x := w.told()[len(c.want)-1]
				if n := len(x.Chunks) + len(x.Reasoning); x.Tokens != n {
					t.Errorf("%d tokens in the truth, and %d went out", x.Tokens, n)
				}
				name, _, _ := strings.Cut(c.fault, ":")
				if !strings.Contains(text, c.last) || x.Ended != c.ended || x.LateMax != 0 {
					t.Errorf("%+v\n%s", x, text)
				}
				if w.told()[0].Fault != name && !slices.Contains([]string{"delayed_ack", "batch_window"}, name) {
					t.Errorf("fault %q in the truth", w.told()[0].Fault)
				}
				gone := map[string]string{"usage": `"usage"`, "no_done": "[DONE]", "no_finish": `"finish_reason":"stop"`, "truncate": "finish_reason\":\"stop", "empty": "Sure"}
				if s := gone[name]; s != "" && c.fault != "usage:bare" && strings.Contains(text, s) {
					t.Errorf("%s is still there:\n%s", s, text)
				}
			})
		})
	}
}

// The comments come while the request waits for its turn, and the queue is told.
func TestQueueWithComments(t *testing.T) {
	o := quick()
	o.Faults = []string{"queue:1", "keepalive:100ms"}
	in(t, o, Link{}, func(w *world) {
		var done sync.WaitGroup
		comments := make([]int, 3)
		for i := range 3 {
			done.Go(func() {
				w.clock.Sleep(w.t.Context(), time.Duration(i)*millisecond)
				_, lines, err := w.ask(hello)
				if err != nil {
					t.Error(err)
				}
				for _, l := range lines {
					if strings.HasPrefix(l.text, ": ") {
						comments[i]++
					}
				}
			})
		}
		w.clock.Sleep(w.t.Context(), 50*millisecond)
		m := w.mock.metrics
		m.mu.Lock()
		if m.running != 1 || m.waiting != 2 {
			t.Errorf("%d run and %d wait", m.running, m.waiting)
		}
		m.mu.Unlock()
		done.Wait()
		for i, want := range []string{"200 220 240", "459 479 499", "718 738 758"} {
			x := w.told()[i]
			if got := times(x); got != want || *x.Queue != time.Duration(i)*259*millisecond || *x.Prefill != 200*millisecond {
				t.Errorf("request %d: %s, queue %v, prefill %v", i, got, *x.Queue, *x.Prefill)
			}
		}
		if fmt.Sprint(comments) != "[2 4 7]" {
			t.Errorf("comments %v", comments)
		}
	})
}

// A request that gives up while it waits leaves the queue.
func TestQueueGivesUp(t *testing.T) {
	o := quick()
	o.Faults = []string{"queue:1"}
	in(t, o, Link{}, func(w *world) {
		var done sync.WaitGroup
		done.Go(func() { w.ask(hello) })
		w.clock.Sleep(w.t.Context(), millisecond)
		done.Go(func() {
			impatient := http.Client{Transport: w.client.Transport, Timeout: 100 * millisecond}
			if resp, err := impatient.Post("http://mock/v1/chat/completions", "application/json", strings.NewReader(hello)); err == nil {
				resp.Body.Close()
				t.Error("it was answered")
			}
		})
		w.clock.Sleep(w.t.Context(), 2*millisecond)
		done.Go(func() { w.ask(hello) })
		done.Wait()
		i := slices.IndexFunc(w.told(), func(x Truth) bool { return x.Number == 2 })
		if got := times(w.told()[i]); got != "457 477 497" {
			t.Errorf("the third: %s", got)
		}
		if w.told()[0].Ended != ClientGone || w.told()[0].Number != 1 {
			t.Errorf("the second: %+v", w.told()[0])
		}
	})
}

func TestWave(t *testing.T) {
	o := quick()
	o.Faults = []string{"wave:50ms"}
	in(t, o, Link{}, func(w *world) {
		var done sync.WaitGroup
		for range 4 {
			done.Go(func() { w.ask(hello) })
		}
		done.Wait()
		var firsts []time.Duration
		for _, x := range w.told() {
			d, _ := x.TTFT()
			firsts = append(firsts, d)
		}
		slices.Sort(firsts)
		if fmt.Sprint(firsts) != "[200ms 250ms 300ms 350ms]" {
			t.Errorf("%v", firsts)
		}
	})
}

// What is compressed comes late, and unpacks to what was said.
func TestGzip(t *testing.T) {
	for flush, want := range map[string]string{"no": "260 260 260", "yes": "200 220 240"} {
		o := quick()
		o.Faults = []string{"gzip:" + flush}
		in(t, o, Link{}, func(w *world) {
			req, _ := http.NewRequest(http.MethodPost, "http://mock/v1/chat/completions", strings.NewReader(hello))
			req.Header.Set("Accept-Encoding", "gzip")
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			packed, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(z)
			if err != nil || !bytes.HasSuffix(text, []byte("[DONE]\n\n")) || resp.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("%v %s", err, text)
			}
			if got := times(w.told()[0]); got != want {
				t.Errorf("flush %s: %s, want %s", flush, got, want)
			}
		})
	}
}

// A connection that was idle for longer than the limit is not used again; with
// no_keepalive, none is.
func TestConnections(t *testing.T) {
	for fault, want := range map[string]string{"idle_close:5s": "false true false", "no_keepalive": "false false false", "bom": "false true true"} {
		o := quick()
		o.Faults = []string{fault}
		in(t, o, Link{Connect: random.Const(90 * millisecond)}, func(w *world) {
			for _, pause := range []time.Duration{0, 2 * time.Second, 7 * time.Second} {
				w.clock.Sleep(w.t.Context(), pause)
				if _, _, err := w.ask(hello); err != nil {
					t.Error(err)
				}
			}
			var reused []string
			for _, x := range w.told() {
				reused = append(reused, fmt.Sprint(x.Reused))
			}
			if got := strings.Join(reused, " "); got != want {
				t.Errorf("%s: reused %s, want %s", fault, got, want)
			}
		})
	}
}

// A probability takes part of the requests, and the same ones every time.
func TestFaultProbability(t *testing.T) {
	hit := func() string {
		var out strings.Builder
		o := quick()
		o.Faults = []string{"status:503,p=0.3"}
		in(t, o, Link{}, func(w *world) {
			for range 100 {
				resp, _, err := w.ask(hello)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(&out, resp.StatusCode, " ")
			}
		})
		return out.String()
	}
	a := hit()
	if n := strings.Count(a, "503"); n < 18 || n > 42 || a != hit() {
		t.Errorf("%d of 100 failed, or not the same ones again", n)
	}
}

func TestNotStreaming(t *testing.T) {
	in(t, quick(), Link{}, func(w *world) {
		resp, lines, err := w.ask(strings.Replace(hello, `"stream":true`, `"stream":false`, 1))
		if err != nil || len(lines) != 1 || !strings.Contains(lines[0].text, `"message":{"role":"assistant","content":"Sure, I"}`) || resp.ContentLength != int64(len(lines[0].text)) {
			t.Errorf("%v %v", err, lines)
		}
		if at := lines[0].at; at != 260*millisecond {
			t.Errorf("at %v", at)
		}
	})
}

// A list of all faults, each with its default parameters, is taken.
func TestFaultList(t *testing.T) {
	for _, f := range Faults() {
		text := f.Name
		if len(f.Params) > 0 {
			text += ":" + strings.Join(f.Params, ",")
		}
		if err := ParseFault(text + map[bool]string{true: ",p=0.5", false: ":p=0.5"}[len(f.Params) > 0]); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"status:code": "status", "status:xyz": "code", "stall:for=soon": "no time", "gzip:maybe": "none of no, yes", "empty:3": "write key=value", "reset:m=1": "there are n, p",
		"cut:-1": "0 or more", "neighbour:x=NaN": "0 or more",
	} {
		if err := ParseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

// One request more than the most at once is refused.
func TestMaxConcurrent(t *testing.T) {
	o := quick()
	o.MaxConcurrent = 2
	in(t, o, Link{}, func(w *world) {
		var done sync.WaitGroup
		for range 2 {
			done.Go(func() { w.ask(hello) })
		}
		w.clock.Sleep(w.t.Context(), millisecond)
		resp, lines, err := w.ask(hello)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(lines[0].text, "2 requests are open") {
			t.Errorf("%v %v", lines, err)
		}
		done.Wait()
		w.told()
		if st := w.mock.Stats(); st.Requests != 3 || st.Failures != 1 || st.Refused != 1 || st.Concurred != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// When the context ends, open answers are cut off after their grace, and nothing
// is left.
func TestServeEnds(t *testing.T) {
	in(t, quick(), Link{}, func(w *world) {
		done := make(chan error, 1)
		second := Pipe(w.clock, Link{})
		ctx, cancel := context.WithCancel(w.t.Context())
		go func() { done <- w.mock.Serve(ctx, second, Serving{Grace: 100 * millisecond}) }()
		client := &http.Client{Transport: &http.Transport{DialContext: second.Dial}}
		go func() {
			w.clock.Sleep(ctx, 50*millisecond)
			cancel()
		}()
		if _, err := client.Post("http://mock/v1/chat/completions", "application/json", strings.NewReader(hello)); err == nil {
			t.Error("an answer of 260 ms came within a grace of 150")
		}
		if at := w.clock.Now(); at < 150*millisecond || at >= 200*millisecond {
			t.Errorf("it was cut off at %v", at)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if x := w.told()[0]; x.Ended != ClientGone {
			t.Errorf("%+v", x)
		}
		second.Wait()
	})
}
