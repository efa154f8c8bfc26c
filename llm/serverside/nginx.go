package serverside

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// nginx's access log as JSON, with the names of its variables as keys, numbers
// or strings (nginx.org, ngx_http_log_module: log_format NAME escape=json;
// ngx_http_core_module and ngx_http_upstream_module for the variables):
//
//	{"msec":"1790699361.885","http_x_request_id":"…","request_method":"POST","status":"200","request_time":"1.204",
//	 "upstream_connect_time":"0.001","upstream_header_time":"0.213","upstream_response_time":"1.203"}
//
// All times are in seconds with milliseconds. $request_id is made by nginx
// itself; the client's is $http_x_request_id, which is taken first. msec and
// time_iso8601 are when the line was written: at the end of the request.
// $request_time is the gateway's total, the network to the client included.
type nginx struct{ log *Log }

func newNginx(l *Log) *nginx {
	l.DurationGrain, l.ClockGrain = time.Millisecond, time.Millisecond
	return &nginx{l}
}

func (p *nginx) line(s string, n int) bool {
	var v map[string]json.RawMessage
	if !strings.HasPrefix(s, "{") || json.Unmarshal([]byte(s), &v) != nil {
		return false
	}
	get := func(keys ...string) string {
		for _, key := range keys {
			if t := text(v[key]); t != "" && t != "-" {
				return t
			}
		}
		return ""
	}
	total := get("request_time")
	id := get("http_x_request_id", "x_request_id", "request_id", "req_id")
	if total == "" && id == "" {
		return false
	}
	method := get("request_method")
	if method == "" {
		method, _, _ = strings.Cut(get("request"), " ")
	}
	if method != "" && method != "POST" {
		return true // health checks and lists of models
	}
	i := p.log.open(id, n)
	e := &p.log.Entries[i]
	e.Status, _ = strconv.Atoi(get("status"))
	if ns, ok := scaled(total, 9); ok {
		e.Server.Total = p.log.duration(n, "request_time", ns)
	}
	if ns, ok := scaled(get("msec"), 9); ok {
		e.End, e.Server.Done = &ns, &ns
	} else if t, err := time.Parse(time.RFC3339, get("time_iso8601")); err == nil {
		e.End = nanos(t)
		p.log.ClockGrain = time.Second
	}
	if e.End != nil && e.Server.Total != nil {
		begin := *e.End - int64(*e.Server.Total)
		e.Begin = &begin
		if e.Server.Done != nil {
			e.Server.Arrived = &begin
		}
	}
	g := Gateway{}
	g.Connect, _ = p.sum(n, "upstream_connect_time", get("upstream_connect_time"))
	g.Header, _ = p.sum(n, "upstream_header_time", get("upstream_header_time"))
	g.Response, g.Tries = p.sum(n, "upstream_response_time", get("upstream_response_time"))
	if g != (Gateway{}) {
		e.Gateway = &g
	}
	return true
}

// sum adds up the times of all servers that were asked: they are separated by
// commas, and by colons after an internal redirect. It is absent if one is "-".
func (p *nginx) sum(line int, what, s string) (*time.Duration, int) {
	if s == "" {
		return nil, 0
	}
	sum, tries := int64(0), 0
	known := true
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ':' }) {
		tries++
		ns, ok := scaled(part, 9)
		if !ok || sum > 1<<62 || ns > 1<<62 {
			known = false
			continue
		}
		sum += ns
	}
	if !known {
		return nil, tries
	}
	return p.log.duration(line, what, sum), tries
}

// text is a JSON number or string as text; "" for anything else.
func text(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	if v[0] == '"' {
		var s string
		if json.Unmarshal(v, &s) != nil {
			return ""
		}
		return s
	}
	if v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
		return string(v)
	}
	return ""
}
