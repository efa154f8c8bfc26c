package serverside

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Ollama's log: gin's access line for every request (gin-gonic/gin, logger.go,
// defaultLogFormatter), and a line of its runner when a model was loaded
// (ollama/ollama, llm/server.go, WaitUntilRunning):
//
//	[GIN] 2026/01/28 - 05:07:10 | 200 |  605.647173ms |       127.0.0.1 | POST     "/api/chat"
//	time=2026-01-28T05:07:09.894Z level=INFO source=server.go:637 msg="llama runner started in 4.28 seconds"
//
// Newer ones print llama.cpp's "slot print_timing" lines in between. The access
// line comes at the end of a request and has no ID. What came since the access
// line before is taken as that request's only if it can be no other's: one load,
// one block of times, and neither longer than the request.
//
// gin's latency is the server's total; gin cuts long ones, down to whole seconds
// above one minute. The date is local, without zone.
type ollama struct {
	log   *Log
	inner *Log // what llama.cpp's lines said since the last access line
	slots *llama
	loads []int64 // ns, since the last access line
}

func newOllama(l *Log) *ollama {
	l.ClockGrain = time.Second
	p := &ollama{log: l}
	p.fresh()
	return p
}

func (p *ollama) fresh() {
	p.inner = &Log{Name: p.log.Name, Format: LlamaCpp}
	p.slots = newLlama(p.inner)
	p.loads = nil
}

// ginLine are date, time, status, latency, method and path. Client may be empty.
var ginLine = regexp.MustCompile(`\[GIN\] (\d{4}/\d\d/\d\d) - (\d\d:\d\d:\d\d) \|\s*(\d{3})\s*\|\s*([0-9a-zµ.]+)\s*\|[^|]*\|\s*([A-Z]+)\s+"([^"]*)"`)

// generates are the paths that ask a model for text.
var generates = map[string]bool{
	"/api/chat": true, "/api/generate": true, "/v1/chat/completions": true, "/v1/completions": true, "/v1/responses": true, "/v1/messages": true,
}

func (p *ollama) line(s string, n int) bool {
	if rest, ok := after(s, "llama runner started in "); ok {
		seconds, _, _ := strings.Cut(rest, " ")
		ns, ok := scaled(seconds, 9)
		if ok {
			p.loads = append(p.loads, ns)
		}
		return ok
	}
	if !has(s, "[GIN]") {
		return p.slots.line(s, n)
	}
	m := ginLine.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	if path, _, _ := strings.Cut(m[6], "?"); !generates[path] || m[5] != "POST" {
		return true
	}
	i := p.log.open("", n)
	e := &p.log.Entries[i]
	e.Status, _ = strconv.Atoi(m[3])
	took, err := time.ParseDuration(m[4])
	if err != nil || took < 0 {
		p.log.Faults.add("%s:%d: no latency: %q", p.log.Name, n, m[4])
		p.fresh()
		return true
	}
	e.Server.Total = &took
	if t, err := time.Parse("2006/01/02 15:04:05", m[1]+" "+m[2]); err == nil {
		if end := nanos(t); end != nil {
			begin := *end - int64(took)
			e.Begin, e.End = &begin, end
		}
	}
	p.take(e, took)
	p.log.Faults.N += p.inner.Faults.N
	p.fresh()
	return true
}

// take gives e what was said since the access line before.
func (p *ollama) take(e *Entry, took time.Duration) {
	s := &e.Server
	if len(p.loads) == 1 && time.Duration(p.loads[0]) <= took {
		load := time.Duration(p.loads[0])
		s.Load = &load
	}
	if len(p.inner.Entries) != 1 {
		return
	}
	in := p.inner.Entries[0].Server
	if in.Total == nil || *in.Total > took {
		return
	}
	s.Prefill, s.Decode = in.Prefill, in.Decode
	s.PromptTokens, s.CachedTokens, s.OutputTokens = in.PromptTokens, in.CachedTokens, in.OutputTokens
}
