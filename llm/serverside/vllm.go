package serverside

import "strings"

// vLLM's text log. The lines, and who prints them (vllm-project/vllm):
//
//	Received request ID: prompt: …     vllm/entrypoints/logger.py, log_inputs
//	Generated response ID (streaming delta|streaming complete): output: …
//	                                   the same, log_outputs (--enable-log-outputs)
//	Added request ID.                  vllm/v1/engine/async_llm.py
//	Finished request ID.               vllm/engine/async_llm_engine.py (V0), the same for "Aborted request"
//	Engine 000: Avg prompt throughput: …, Running: 5 reqs, Waiting: 2 reqs, GPU KV cache usage: 1.2%, …
//	                                   vllm/v1/metrics/loggers.py
//
// in the form "INFO 07-25 02:41:21 [logger.py:43] …" (vllm/logger.py). That date
// has no year and whole seconds: it says nothing about a latency, so it is not
// used. A stamp that a container runtime put before the line is.
//
// The ID is "chatcmpl-" and the X-Request-Id of the request
// (vllm/entrypoints/openai, _base_request_id); the engine adds "-" and 8 hex
// digits to it (vllm/v1/engine/input_processor.py, assign_request_id).
type vllm struct {
	log  *Log
	last map[string]int // the latest entry of an ID
}

func newVLLM(l *Log) *vllm { return &vllm{log: l, last: map[string]int{}} }

var vllmMarks = []string{"Received request ", "Added request ", "Generated response ", "Finished request ", "Aborted request "}

func (p *vllm) line(s string, n int) bool {
	if has(s, "Avg prompt throughput:") {
		g := Gauge{Line: n, Running: numberAfter(s, "Running: "), Waiting: numberAfter(s, "Waiting: "), KVUsage: numberAfter(s, "KV cache usage: ")}
		if g.KVUsage != nil {
			*g.KVUsage /= 100
		}
		p.log.Gauges = append(p.log.Gauges, g)
		return true
	}
	// A prompt may hold any of the marks: the first one counts.
	at, mark := -1, ""
	for _, m := range vllmMarks {
		if i := strings.Index(s, m); i >= 0 && (at < 0 || i < at) {
			at, mark = i, m
		}
	}
	if at < 0 {
		return has(s, "HTTP/1.1\" ") // uvicorn's access line has no ID
	}
	id, rest, _ := strings.Cut(s[at+len(mark):], " ")
	if id = strings.TrimRight(id, ".:,"); id == "" {
		return false
	}
	i, known := p.last[base(id)]
	if !known || mark == "Received request " {
		i = p.log.open(id, n)
		p.last[base(id)] = i
	}
	e, when := &p.log.Entries[i], stamp(s)
	if when == nil {
		return true
	}
	switch mark {
	case "Received request ":
		e.Begin, e.Server.Arrived = when, when
	case "Finished request ", "Aborted request ":
		p.end(e, n, when)
	case "Generated response ":
		if strings.HasPrefix(rest, "(streaming delta)") {
			if e.Server.FirstToken == nil {
				e.Server.FirstToken = when
				e.Server.TTFT = p.log.between(n, "ttft", e.Server.Arrived, when)
			}
			return true
		}
		p.end(e, n, when)
	}
	return true
}

func (p *vllm) end(e *Entry, n int, when *int64) {
	e.End, e.Server.Done = when, when
	e.Server.Total = p.log.between(n, "total", e.Server.Arrived, when)
}

// base is an ID without the engine's own ending.
func base(id string) string {
	if at := len(id) - 9; at > 0 && id[at] == '-' && isHex(id[at+1:]) {
		return id[:at]
	}
	return id
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
