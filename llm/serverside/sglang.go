package serverside

import (
	"encoding/json"
	"strings"
	"time"
)

// SGLang's logs. The lines, and who prints them (sgl-project/sglang,
// python/sglang/srt):
//
//	[2026-05-20 08:02:44 TP0] Receive: obj=GenerateReqInput(rid='ID', …)
//	Finish: obj=…, out={…, 'meta_info': {'id': 'ID', …}}
//	{"timestamp": …, "event": "request.finished", "rid": "ID", "obj": …, "out": {"meta_info": …}}
//	      utils/request_logger.py (--log-requests, --log-requests-format json)
//	Req Time Stats(rid=ID, input len=38, output len=484, type=unified): queue_duration=0.12ms, …, start_time=…
//	      managers/schedule_batch.py and observability/req_time_stats.py (--enable-request-time-stats-logging)
//	{"request_parameters": …, "id": "ID", …}
//	      observability/request_metrics_exporter.py (--export-metrics-to-file)
//	Decode batch, #running-req: 4, …, token usage: 0.90, …, #queue-req: 6
//	      observability/scheduler_metrics_mixin.py
//
// What meta_info holds is in req_time_stats.py, convert_to_output_meta_info, and
// in managers/tokenizer_manager.py; all times are in seconds. The ID is the
// rid of the request's body (openai/serving_base.py); X-Request-Id is not read.
type sglang struct {
	log  *Log
	last map[string]int
}

func newSGLang(l *Log) *sglang {
	l.ClockGrain = time.Microsecond
	return &sglang{log: l, last: map[string]int{}}
}

func (p *sglang) line(s string, n int) bool {
	if strings.HasPrefix(s, "{") {
		return p.json(s, n)
	}
	if obj, ok := after(s, "Finish: obj="); ok {
		at := strings.LastIndex(obj, "'meta_info': {")
		if at < 0 {
			return false
		}
		meta := obj[at:]
		get := func(key string) string { return pyValue(meta, key) }
		id := get("id")
		if id == "" {
			id = pyID(obj)
		}
		return p.finished(id, n, stamp(s), get)
	}
	if obj, ok := after(s, "Receive: obj="); ok {
		return p.received(pyID(obj), n, stamp(s))
	}
	if rest, ok := after(s, "Req Time Stats(rid="); ok {
		return p.stats(rest, n)
	}
	if has(s, "#queue-req:") {
		g := Gauge{Line: n, Running: numberAfter(s, "#running-req:"), Waiting: numberAfter(s, "#queue-req:"), KVUsage: numberAfter(s, "token usage:")}
		p.log.Gauges = append(p.log.Gauges, g)
		return true
	}
	return has(s, "HTTP/1.1\" ")
}

func (p *sglang) received(id string, n int, when *int64) bool {
	if id == "" {
		return false
	}
	i := p.log.open(id, n)
	p.last[id] = i
	p.log.Entries[i].Begin = when
	return true
}

// entry is the latest of an ID that free says it may be told of, else a new one.
func (p *sglang) entry(id string, n int, free func(*Entry) bool) *Entry {
	i, ok := p.last[id]
	if !ok || !free(&p.log.Entries[i]) {
		i = p.log.open(id, n)
		p.last[id] = i
	}
	return &p.log.Entries[i]
}

// finished takes what the server says at the end of a request; get returns "" for
// what is not there.
func (p *sglang) finished(id string, n int, when *int64, get func(string) string) bool {
	if id == "" {
		return false
	}
	e := p.entry(id, n, func(e *Entry) bool { return e.Server.Total == nil && e.Server.Done == nil })
	s := &e.Server
	seconds := func(keys ...string) *int64 {
		for _, key := range keys {
			if ns, ok := scaled(get(key), 9); ok {
				return &ns
			}
		}
		return nil
	}
	length := func(key string) *time.Duration {
		if ns := seconds(key); ns != nil {
			return p.log.duration(n, key, *ns)
		}
		return nil
	}
	s.PromptTokens, s.OutputTokens, s.CachedTokens = count(get("prompt_tokens")), count(get("completion_tokens")), count(get("cached_tokens"))
	s.Total = length("e2e_latency")
	if q := length("queue_time"); q != nil {
		s.Queue = q
	}
	s.Arrived = seconds("request_received_ts")
	s.FirstToken = seconds("prefill_finished_ts") // older: when the first token reached the tokenizer manager
	s.Done = seconds("request_finished_ts", "decode_finished_ts")
	s.TTFT = p.log.between(n, "prefill_finished_ts − request_received_ts", s.Arrived, s.FirstToken)
	s.Prefill = p.log.between(n, "prefill_finished_time − forward_entry_time", seconds("forward_entry_time"), seconds("prefill_finished_time"))
	s.Decode = p.log.between(n, "decode_finished_ts − prefill_finished_ts", s.FirstToken, s.Done)
	if s.Arrived != nil {
		e.Begin = s.Arrived
	}
	if e.End = s.Done; e.End == nil {
		e.End = when
	}
	return true
}

// stats takes a line of time statistics. A start_time of 0 says that the times
// were never taken; such lines exist, with a queue of 0.
func (p *sglang) stats(rest string, n int) bool {
	id, rest, ok := strings.Cut(rest, ",")
	queue, told := after(rest, " queue_duration=")
	if !ok || !told || id == "" {
		return false
	}
	start := numberAfter(rest, "start_time=")
	if start == nil {
		start = numberAfter(rest, "start=")
	}
	e := p.entry(id, n, func(e *Entry) bool { return true })
	queue, _, _ = strings.Cut(queue, "ms")
	if ns, ok := scaled(queue, 6); ok && e.Server.Queue == nil && start != nil && *start > 0 {
		e.Server.Queue = p.log.duration(n, "queue_duration", ns)
	}
	if v := numberAfter(rest, "input len="); v != nil && e.Server.PromptTokens == nil {
		e.Server.PromptTokens = count(wordAfter(rest, "input len="))
	}
	if e.Server.OutputTokens == nil {
		e.Server.OutputTokens = count(wordAfter(rest, "output len="))
	}
	return true
}

// wordAfter returns what is between a mark and the next comma.
func wordAfter(s, mark string) string {
	rest, _ := after(s, mark)
	word, _, _ := strings.Cut(rest, ",")
	return word
}

func (p *sglang) json(s string, n int) bool {
	var v struct {
		Timestamp string          `json:"timestamp"`
		Event     string          `json:"event"`
		RID       string          `json:"rid"`
		ID        string          `json:"id"`
		Params    json.RawMessage `json:"request_parameters"`
		Out       struct {
			Meta map[string]json.RawMessage `json:"meta_info"`
		} `json:"out"`
	}
	if json.Unmarshal([]byte(s), &v) != nil {
		return false
	}
	var when *int64
	if t, err := time.Parse("2006-01-02T15:04:05.999999", v.Timestamp); err == nil { // without zone: the order counts
		when = nanos(t)
	}
	meta := v.Out.Meta
	switch {
	case v.Event == "request.received":
		return p.received(v.RID, n, when)
	case v.Event == "request.finished":
	case v.Params != nil:
		v.RID = v.ID
		if json.Unmarshal([]byte(s), &meta) != nil {
			return false
		}
	default:
		return false
	}
	return p.finished(v.RID, n, when, func(key string) string { return string(meta[key]) })
}

// pyID is the rid of a request in Python's notation.
func pyID(obj string) string {
	rest, ok := after(obj, "rid='")
	if !ok {
		return ""
	}
	id, _, ok := strings.Cut(rest, "'")
	if !ok {
		return ""
	}
	return id
}

// pyValue is the number or string of a key in a dictionary in Python's notation.
func pyValue(s, key string) string {
	rest, ok := after(s, "'"+key+"': ")
	if !ok {
		return ""
	}
	if text, ok := strings.CutPrefix(rest, "'"); ok {
		v, _, _ := strings.Cut(text, "'")
		return v
	}
	if end := strings.IndexAny(rest, ",}"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}
