package llmmock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
)

// A world is a mock in a bubble, with a client that reads line by line.
type world struct {
	t      *testing.T
	clock  *clocks.Real
	net    *Network
	client *http.Client
	mock   *Server
	mu     sync.Mutex
	truth  []Truth
}

// in runs f in a bubble with a mock.
func in(t *testing.T, o Options, link Link, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		w := &world{t: t, clock: clock, net: Pipe(clock, link)}
		o.Truth = func(x Truth) {
			w.mu.Lock()
			w.truth = append(w.truth, x)
			w.mu.Unlock()
		}
		mock, err := New(clock, o)
		if err != nil {
			t.Fatal(err)
		}
		w.mock = mock
		transport := &http.Transport{DialContext: w.net.Dial, DisableCompression: true}
		w.client = &http.Client{Transport: transport}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- mock.Serve(ctx, w.net, Serving{HTTP2: true}) }()
		f(w)
		synctest.Wait()
		transport.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		w.net.Wait()
	})
}

// told returns what the mock told, once no request is open.
func (w *world) told() []Truth {
	for {
		w.mock.mu.Lock()
		open := w.mock.open
		w.mock.mu.Unlock()
		if open == 0 {
			break
		}
		w.clock.Sleep(w.t.Context(), time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.truth
}

// A line is what the client read, and when.
type line struct {
	at   time.Duration
	text string
}

// ask sends a chat completion and returns the lines of the answer.
func (w *world) ask(body string, headers ...string) (*http.Response, []line, error) {
	return w.post("/v1/chat/completions", body, headers...)
}

func (w *world) post(path, body string, headers ...string) (*http.Response, []line, error) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://mock"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var lines []line
	r := bufio.NewReader(resp.Body)
	for {
		s, err := r.ReadString('\n')
		if s = strings.TrimRight(s, "\n"); s != "" {
			lines = append(lines, line{w.clock.Now(), s})
		}
		if err == io.EOF {
			return resp, lines, nil
		}
		if err != nil {
			return resp, lines, err
		}
	}
}

const hello = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello, where is my order?"}]}`

func quick() Options {
	o := Defaults()
	o.First, o.Between, o.Tokens = random.Const(200*time.Millisecond), random.Const(20*time.Millisecond), MustNumber("3")
	return o
}

// The answer comes at its times, to the nanosecond, and the truth says the same.
func TestExactTimes(t *testing.T) {
	in(t, quick(), Link{Connect: random.Const(30 * time.Millisecond), Delay: random.Const(5 * time.Millisecond)}, func(w *world) {
		resp, lines, err := w.ask(hello, "X-Request-Id", "r-1")
		if err != nil {
			t.Fatal(err)
		}
		want := []line{ // 30 ms of connecting, 5 ms there, 5 ms back
			{240 * time.Millisecond, `"delta":{"role":"assistant","content":""}`},
			{240 * time.Millisecond, `"content":"Sure"`},
			{260 * time.Millisecond, `"content":","`},
			{280 * time.Millisecond, `"content":" I"`},
			{300 * time.Millisecond, `"finish_reason":"stop"`},
			{300 * time.Millisecond, `"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13`},
			{300 * time.Millisecond, `data: [DONE]`},
		}
		if len(lines) != len(want) {
			t.Fatalf("%d lines: %v", len(lines), lines)
		}
		for i, l := range lines {
			if l.at != want[i].at || !strings.Contains(l.text, want[i].text) {
				t.Errorf("line %d: %v %s\nwant %v %s", i, l.at, l.text, want[i].at, want[i].text)
			}
			if data := strings.TrimPrefix(l.text, "data: "); data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("no JSON: %s", data)
			}
		}
		if got := resp.Header.Get("X-Request-Id"); got != "r-1" {
			t.Errorf("X-Request-Id %q", got)
		}
		x := w.told()[0]
		at := 35 * time.Millisecond
		if x.RequestID != "r-1" || x.Arrived != at || *x.Headers != at+200*time.Millisecond || len(x.Chunks) != 3 || x.Chunks[2] != at+240*time.Millisecond ||
			*x.Done != at+260*time.Millisecond || *x.Prefill != 200*time.Millisecond || *x.Queue != 0 || x.Tokens != 3 || x.LateMax != 0 || x.Ended != Complete {
			t.Errorf("truth %+v", x)
		}
	})
}

// The same request has the same draws, whatever comes before it.
func TestDrawsByID(t *testing.T) {
	o := Defaults()
	times := func(order ...string) map[string]time.Duration {
		out := map[string]time.Duration{}
		in(t, o, Link{}, func(w *world) {
			for _, id := range order {
				if _, _, err := w.ask(hello, "X-Request-Id", id); err != nil {
					t.Fatal(err)
				}
			}
			for _, x := range w.told() {
				out[x.RequestID], _ = x.TTFT()
			}
		})
		return out
	}
	a, b := times("a", "b"), times("b", "a")
	if a["a"] != b["a"] || a["b"] != b["b"] || a["a"] == a["b"] || a["a"] == 0 {
		t.Errorf("%v and %v", a, b)
	}
}

// Every dialect tells what its table says, in order, as JSON.
func TestDialects(t *testing.T) {
	for name, want := range map[string][]string{
		"vllm":       {`"role":"assistant"`, `"content":"Sure"`, `"finish_reason":"stop"`, `"usage":{`, "[DONE]"},
		"openai":     {`"system_fingerprint"`, `"content":"Sure"`, "[DONE]"},
		"sglang":     {`"role":"assistant"`, `"content":"Sure"`, "[DONE]"},
		"llamacpp":   {`"prompt_progress":{"total":10,"cache":0,"processed":5`, `"content":null`, `"content":"Sure"`, `"timings":{"cache_n":0,"prompt_n":10,"predicted_n":3,"prompt_ms":200.000000`, "[DONE]"},
		"deepseek":   {": keep-alive", `"reasoning_content":"The"`, `"content":"Sure"`, `"finish_reason":"stop"}],"usage":{`, `"prompt_cache_hit_tokens":0`, "[DONE]"},
		"azure":      {`"choices":[],"prompt_filter_results"`, `"content":"Sure"`, `"content_filter_results"`, "[DONE]"},
		"groq":       {`"x_groq":{"id":"req_`, `"reasoning":"The"`, `"content":"Sure"`, `"queue_time":0.000000000,"prompt_time":0.200000000,"completion_time":0.`, "[DONE]"},
		"openrouter": {": OPENROUTER PROCESSING", `"provider":"Mock"`, `"content":"Sure"`, "[DONE]"},
		"dashscope":  {`data:{"id"`, `"role":"assistant","content":"Sure"`, `data:[DONE]`},
		"ollama":     {`"role":"assistant","content":"Sure"`, "[DONE]"},
	} {
		o := quick()
		o.Dialect = name
		if name == "deepseek" || name == "groq" {
			o.Reasoning = 1
		}
		in(t, o, Link{}, func(w *world) {
			_, lines, err := w.ask(strings.Replace(hello, `"stream"`, `"return_progress":true,"stream"`, 1))
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, l := range lines {
				all = append(all, l.text)
				if data, ok := strings.CutPrefix(l.text, "data:"); ok && !strings.Contains(data, "[DONE]") && !json.Valid([]byte(data)) {
					t.Errorf("%s: no JSON: %s", name, data)
				}
			}
			rest := strings.Join(all, "\n")
			for _, s := range want {
				i := strings.Index(rest, s)
				if i < 0 {
					t.Errorf("%s: no %q in order in\n%s", name, s, strings.Join(all, "\n"))
					break
				}
				rest = rest[i:]
			}
		})
	}
}

// Ollama's and Anthropic's own APIs.
func TestOtherServices(t *testing.T) {
	o := quick()
	o.Reasoning = 2
	in(t, o, Link{}, func(w *world) {
		_, lines, err := w.post("/api/chat", `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		var last struct {
			Done   bool          `json:"done"`
			Total  time.Duration `json:"total_duration"`
			Eval   time.Duration `json:"eval_duration"`
			Prompt time.Duration `json:"prompt_eval_duration"`
			Count  int           `json:"eval_count"`
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1].text), &last); err != nil || !last.Done || last.Count != 5 || last.Prompt != 200*time.Millisecond || last.Eval != 100*time.Millisecond || last.Total != 300*time.Millisecond {
			t.Errorf("%+v %v", last, err)
		}
		if len(lines) != 6 || !strings.Contains(lines[0].text, `"thinking":"The"`) || !strings.Contains(lines[2].text, `"content":"Sure"`) || lines[2].at != 240*time.Millisecond {
			t.Errorf("%v", lines)
		}
		_, lines, err = w.post("/v1/messages", `{"model":"m","max_tokens":100,"stream":true,"system":"You help.","messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]}]}`)
		if err != nil {
			t.Fatal(err)
		}
		var events []string
		for _, l := range lines {
			if e, ok := strings.CutPrefix(l.text, "event: "); ok {
				events = append(events, e)
			}
		}
		want := "message_start content_block_start content_block_delta content_block_delta content_block_stop content_block_start content_block_delta content_block_delta content_block_delta content_block_stop message_delta message_stop"
		if got := strings.Join(events, " "); got != want {
			t.Errorf("events %s", got)
		}
	})
}

var timing = regexp.MustCompile(`^queue;dur=\d+\.\d{6}, prefill;dur=[1-9]\d*\.\d{6}$`)

// A modelled server gives the times: two requests at once share its steps.
func TestModelledServer(t *testing.T) {
	o := quick()
	if err := o.Set("server={gpu: l4, model: qwen2.5-0.5b, max_num_seqs: 1}"); err != nil {
		t.Fatal(err)
	}
	o.Dialect, o.ServerTiming = "llamacpp", true
	in(t, o, Link{}, func(w *world) {
		var done sync.WaitGroup
		for range 2 {
			done.Go(func() {
				resp, lines, err := w.ask(hello)
				if err != nil || !strings.Contains(lines[len(lines)-2].text, `"prompt_ms"`) {
					t.Error(err, lines)
				}
				if h := resp.Header.Get("Server-Timing"); !timing.MatchString(h) {
					t.Errorf("Server-Timing: %s", h)
				}
			})
		}
		done.Wait()
		a, b := w.told()[0], w.told()[1]
		if *a.Queue >= *b.Queue || *b.Queue < *a.Done-a.Chunks[0] || len(a.Chunks) != 3 || len(b.Chunks) != 3 || b.Chunks[0] < a.Chunks[2] || a.LateMax != 0 {
			t.Errorf("%+v\n%+v", a, b)
		}
	})
}

// The prefix cache knows a prompt that came before.
func TestPrefixCache(t *testing.T) {
	o := quick()
	o.PrefixCache, o.Prefill = true, time.Second
	long := strings.Replace(hello, "Hello,", strings.Repeat("This goes on and on. ", 100), 1)
	in(t, o, Link{}, func(w *world) {
		for range 2 {
			if _, _, err := w.ask(long); err != nil {
				t.Fatal(err)
			}
		}
		a, b := w.told()[0], w.told()[1]
		ta, _ := a.TTFT()
		tb, _ := b.TTFT()
		if a.CachedTokens != 0 || b.CachedTokens < 500 || b.CachedTokens >= b.PromptTokens || b.CachedTokens%16 != 0 {
			t.Errorf("cached %d, then %d of %d", a.CachedTokens, b.CachedTokens, b.PromptTokens)
		}
		want := func(x Truth) time.Duration {
			return 200*time.Millisecond + time.Duration(x.PromptTokens-x.CachedTokens)*time.Millisecond
		}
		if ta != want(a) || tb != want(b) {
			t.Errorf("TTFT %v, then %v", ta, tb)
		}
	})
}

func TestRefusals(t *testing.T) {
	o := quick()
	o.MaxBody = 1000
	in(t, o, Link{}, func(w *world) {
		for _, c := range []struct {
			path, body string
			status     int
			text       string
		}{
			{"/v1/chat/completions", `{`, 400, "no JSON"},
			{"/v1/chat/completions", `{"messages":[]}`, 400, "at least one"},
			{"/v1/chat/completions", `{"messages":7}`, 400, "messages"},
			{"/v1/chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}]}`, 413, "too large"},
			{"/v1/nothing", `{}`, 404, "there are"},
		} {
			resp, lines, err := w.post(c.path, c.body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(lines[0].text, c.text) {
				t.Errorf("%s %.40s: %v %v %v", c.path, c.body, resp.StatusCode, lines, err)
			}
		}
	})
}

func TestMetrics(t *testing.T) {
	in(t, quick(), Link{}, func(w *world) {
		if _, _, err := w.ask(hello); err != nil {
			t.Fatal(err)
		}
		resp, err := w.client.Get("http://mock/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		for _, want := range []string{
			`vllm:num_requests_running{model_name="mock"} 0`, `vllm:time_to_first_token_seconds_bucket{le="0.1",model_name="mock"} 0`,
			`vllm:time_to_first_token_seconds_bucket{le="0.25",model_name="mock"} 1`, `vllm:time_to_first_token_seconds_sum{model_name="mock"} 0.2`,
			`vllm:request_prefill_time_seconds_count{model_name="mock"} 1`, `vllm:request_success_total{finished_reason="stop",model_name="mock"} 1`,
		} {
			if !bytes.Contains(b, []byte(want+"\n")) {
				t.Errorf("no %s in\n%s", want, b)
			}
		}
	})
}

// Over one HTTP/2 connection streams stall or are held to a number, as asked for.
func TestHTTP2(t *testing.T) {
	for fault, want := range map[string]string{
		"h2_stall:streams=2,for=1s": "1 200 1220 1240\n1 200 1220 1240\n1 200 220 240\n1 200 220 240\n",
		"h2_streams:2":              "1 200 220 240\n1 200 220 240\n2 200 220 240\n2 200 220 240\n",
		"reset:1":                   "1 200\n1 200\n1 200\n1 200\n",
	} {
		o := quick()
		o.Faults = []string{fault}
		in(t, o, Link{}, func(w *world) {
			tr := &http.Transport{DialContext: w.net.Dial, Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			w.client = &http.Client{Transport: tr}
			var done sync.WaitGroup
			for i := range 4 {
				done.Go(func() {
					w.clock.Sleep(w.t.Context(), time.Duration(i)*time.Millisecond)
					resp, _, err := w.ask(hello)
					if broken := err != nil; broken != (fault == "reset:1") || resp.Proto != "HTTP/2.0" {
						t.Errorf("%s: %s %v", fault, resp.Proto, err)
					}
				})
			}
			done.Wait()
			var got []string
			for _, x := range w.told() {
				got = append(got, fmt.Sprintf("%d %s\n", x.Connection, times(x)))
			}
			slices.Sort(got)
			if s := strings.Join(got, ""); s != want {
				t.Errorf("%s: connections and chunks\n%swant\n%s", fault, s, want)
			}
			tr.CloseIdleConnections()
		})
	}
}
