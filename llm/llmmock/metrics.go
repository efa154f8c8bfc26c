package llmmock

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// The upper bounds of vLLM's histograms, in seconds: of the time to first token,
// and of a request's parts.
var (
	ttftBounds    = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	requestBounds = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// A histogram is one of Prometheus.
type histogram struct {
	bounds []float64
	counts []int64 // of each bound, not summed up
	n      int64
	sum    time.Duration
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds))}
}

func (h *histogram) observe(d time.Duration) {
	h.n++
	h.sum += d
	for i, b := range h.bounds {
		if d.Seconds() <= b {
			h.counts[i]++
			return
		}
	}
}

// metrics are what /metrics tells: what really happened.
type metrics struct {
	mu                        sync.Mutex
	running, waiting          int
	ttft, queue, prefill, e2e *histogram
	prompt, cached, output    int64
	finished                  map[string]int64
}

func newMetrics() *metrics {
	return &metrics{ttft: newHistogram(ttftBounds), queue: newHistogram(requestBounds), prefill: newHistogram(requestBounds), e2e: newHistogram(requestBounds), finished: map[string]int64{}}
}

// move counts requests that begin or end to wait and to run.
func (m *metrics) move(waiting, running int) {
	m.mu.Lock()
	m.waiting += waiting
	m.running += running
	m.mu.Unlock()
}

// ended counts a request.
func (m *metrics) ended(t *Truth, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := t.TTFT(); ok {
		m.ttft.observe(d)
	}
	if t.Queue != nil {
		m.queue.observe(*t.Queue)
	}
	if t.Prefill != nil {
		m.prefill.observe(*t.Prefill)
	}
	if t.Done != nil {
		m.e2e.observe(*t.Done - t.Arrived)
	}
	m.prompt += int64(t.PromptTokens)
	m.cached += int64(t.CachedTokens)
	m.output += int64(t.Tokens)
	if t.Ended != Complete {
		reason = "abort"
	}
	if reason != "" {
		m.finished[reason]++
	}
}

// write writes them in the text format, with vLLM's names or, for the prefix
// sglang, SGLang's.
func (m *metrics) write(w io.Writer, prefix, model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := "model_name=" + string(appendString(nil, model))
	running, waiting := "num_requests_running", "num_requests_waiting"
	if prefix == "sglang" {
		running, waiting = "num_running_reqs", "num_queue_reqs"
	}
	line := func(name, kind, help string, v int64) {
		fmt.Fprintf(w, "# HELP %s:%s %s\n# TYPE %[1]s:%[2]s %[4]s\n%[1]s:%[2]s{%[5]s} %[6]d\n", prefix, name, help, kind, label, v)
	}
	line(running, "gauge", "Requests that are being worked on.", int64(m.running))
	line(waiting, "gauge", "Requests that wait for their turn.", int64(m.waiting))
	line("prompt_tokens_total", "counter", "Prompt tokens.", m.prompt)
	line("generation_tokens_total", "counter", "Output tokens.", m.output)
	line("prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", m.cached)
	line("prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", m.prompt)
	name := prefix + ":request_success_total"
	fmt.Fprintf(w, "# HELP %s Requests that ended, by reason.\n# TYPE %[1]s counter\n", name)
	for _, reason := range []string{"stop", "length", "tool_calls", "abort"} {
		fmt.Fprintf(w, "%s{finished_reason=%q,%s} %d\n", name, reason, label, m.finished[reason])
	}
	for _, h := range []struct {
		name string
		h    *histogram
	}{{"time_to_first_token_seconds", m.ttft}, {"request_queue_time_seconds", m.queue}, {"request_prefill_time_seconds", m.prefill}, {"e2e_request_latency_seconds", m.e2e}} {
		name := prefix + ":" + h.name
		fmt.Fprintf(w, "# HELP %s Seconds.\n# TYPE %[1]s histogram\n", name)
		sum := int64(0)
		for i, b := range h.h.bounds {
			sum += h.h.counts[i]
			fmt.Fprintf(w, "%s_bucket{le=\"%s\",%s} %d\n", name, strconv.FormatFloat(b, 'g', -1, 64), label, sum)
		}
		fmt.Fprintf(w, "%s_bucket{le=\"+Inf\",%s} %d\n%[1]s_sum{%[2]s} %[4]g\n%[1]s_count{%[2]s} %[3]d\n", name, label, h.h.n, h.h.sum.Seconds())
	}
}
