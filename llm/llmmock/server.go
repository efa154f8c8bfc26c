// Package llmmock is a mock of the services that serve language models: OpenAI's
// chat completions in several dialects, Ollama's own API and Anthropic's
// messages. It answers with latencies that are drawn, scripted, or come out of a
// modelled inference server, misbehaves on purpose, and tells what it really did
// of every request: the truth that a measuring client is held against.
//
// A request's [Plan] is a schedule of events. Faults are functions of it. Its
// bytes are ready before their moments, and each is written at its own moment,
// counted from the request's arrival: lateness does not add up.
//
// In a testing/synctest bubble, with no socket and to the nanosecond:
//
//	clock := clocks.NewReal()
//	network := llmmock.Pipe(clock, llmmock.Link{Delay: random.Const(5 * time.Millisecond)})
//	mock, err := llmmock.New(clock, options)
//	go mock.Serve(ctx, network, llmmock.Serving{HTTP2: true})
//	// … requests over network.Dial, then close idle connections, cancel ctx
//	network.Wait()
package llmmock

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm/serving"
)

// A Server is the mock: an http.Handler, and more with Serve.
type Server struct {
	clock   clocks.Clock
	opts    Options
	dialect *dialect
	faults  []fault
	scripts []*Plan
	words   vocabulary
	fleet   *serving.Fleet // nil: times are drawn
	limit   *limiter       // nil: no fault queue
	cache   prefixes
	metrics *metrics

	mu       sync.Mutex
	number   int // of requests that came
	open     int
	free     *time.Duration  // since when none is open
	recent   []time.Duration // arrivals of the last burstWindow
	repeated map[string]int  // how often a request ID came
	stats    Stats
}

// Stats are what a Server has counted.
type Stats struct {
	Requests  int           // that ended; what was no request for an answer does not count
	Failures  int           // … otherwise than complete and with status 200
	Refused   int           // … of them beyond MaxConcurrent
	Writes    int64         // that were due at a moment
	Late      int64         // … more than a millisecond after it
	LateMax   time.Duration // the latest
	Concurred int           // most requests at once
}

// New returns a Server on that clock.
func New(clock clocks.Clock, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("llmmock: %w", err)
	}
	s := &Server{clock: clock, opts: o, words: newVocabulary(o.Reply), metrics: newMetrics(), repeated: map[string]int{}}
	if s.opts.Epoch.IsZero() {
		s.opts.Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	s.dialect, _ = findDialect(o.Dialect)                // Check saw it
	s.faults, _ = parseFaults(o.Faults, o.Server != nil) // and these
	for _, text := range o.Scripts {
		p, _ := ParseScript(text) // and these
		s.scripts = append(s.scripts, p)
	}
	if f, ok := s.fault("queue"); ok {
		s.limit = &limiter{most: max(1, f.number("k"))}
	}
	if o.Server != nil {
		fo, err := o.Server.Fleet()
		if err == nil {
			s.fleet, err = serving.NewFleet(clock, fo)
		}
		if err == nil && o.Server.Neighbour != nil {
			err = o.Server.Neighbour.Move(clock, o.Seed, s.fleet.Submit)
		}
		if err != nil {
			return nil, fmt.Errorf("llmmock: server: %w", err)
		}
	}
	return s, nil
}

// fault returns the arguments of a fault of the whole server, if it was asked for.
func (s *Server) fault(name string) (args, bool) {
	i := slices.IndexFunc(s.faults, func(f fault) bool { return f.kind.name == name })
	if i < 0 {
		return args{}, false
	}
	return args{s.faults[i].kind, s.faults[i].args}, true
}

// Stats returns what was counted so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// ServeHTTP answers a request to any of the services.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	chat := map[string]service{"/chat/completions": openAI, "/api/chat": ollamaChat, "/v1/messages": anthropicMessages}
	for suffix, sv := range chat {
		if strings.HasSuffix(path, suffix) {
			if r.Method != http.MethodPost {
				w.Header().Set("Allow", http.MethodPost)
				s.refuse(w, sv, http.StatusMethodNotAllowed, "use POST")
				return
			}
			s.answer(w, r, sv)
			return
		}
	}
	model := cmp.Or(s.opts.Model, "mock")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case path == "/api/tags":
		w.Write(appendf(nil, `{"models":[{"name":%s,"model":%s,"modified_at":"2026-01-01T00:00:00Z","size":1,"digest":"mock","details":{"family":"mock"}}]}`, model, model))
	case path == "/api/ps":
		w.Write(appendf(nil, `{"models":[{"name":%s,"model":%s,"size":1,"digest":"mock","expires_at":"2049-12-31T00:00:00Z","size_vram":1}]}`, model, model))
	case path == "/api/version":
		io.WriteString(w, `{"version":"0.0.0-mock"}`)
	case strings.HasSuffix(path, "/models"):
		w.Write(appendf(nil, `{"object":"list","data":[{"id":%s,"object":"model","created":%d,"owned_by":"firstsound"}]}`, model, s.opts.Epoch.Unix()))
	case path == "/health" || path == "/v1/health":
		io.WriteString(w, `{"status":"ok"}`)
	case path == "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		s.metrics.write(w, s.dialect.metrics, model)
	default:
		s.refuse(w, openAI, http.StatusNotFound, "there is nothing at "+r.URL.Path+"; there are /v1/chat/completions, /v1/messages, /api/chat, /v1/models, /health, /metrics")
	}
}

// refuse answers with an error in the words of the service.
func (s *Server) refuse(w http.ResponseWriter, sv service, status int, message string) {
	rd := s.renderer(sv, answer{plan: &Plan{}})
	b := rd.refusal(status, message)
	w.Header().Set("Content-Type", rd.refused())
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	w.Write(b)
}

func (s *Server) renderer(sv service, a answer) renderer {
	switch sv {
	case ollamaChat:
		return &native{answer: a}
	case anthropicMessages:
		return &messages{answer: a}
	}
	return newChat(a, s.dialect)
}

// answer answers a request for the continuation of a conversation.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, sv service) {
	c := connOf(r.Context())
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	arrived, kernel := c.arrived(s.clock)
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		s.refuse(w, sv, status, fmt.Sprintf("the body was not read: %v", err))
		return
	}
	a, err := decodeAsk(sv, body)
	if err != nil {
		s.refuse(w, sv, http.StatusBadRequest, err.Error())
		return
	}
	cf := c.begin()
	defer c.end()
	known := 0
	if s.opts.PrefixCache || s.fleet != nil {
		known = s.cache.look(a.text)
	}
	cached := 0
	if s.opts.PrefixCache && s.fleet == nil {
		cached = cachedTokens(a.prompt, known, len(a.text))
	}
	f, id, entity, ok := s.arrive(r.Header, arrived)
	defer s.leave()
	truth := &Truth{
		RequestID: id, Number: f.Number, Path: r.URL.Path, Stream: a.stream, Arrived: arrived, Kernel: kernel, Chunks: []time.Duration{}, ChunkSize: []int{},
		PromptTokens: a.prompt, CachedTokens: cached, Protocol: r.Proto, Connection: cf.number, Reused: cf.reused, Status: http.StatusOK, Ended: Complete,
	}
	if !ok {
		truth.Status = http.StatusServiceUnavailable
		s.refuse(w, sv, truth.Status, fmt.Sprintf("%d requests are open, which is the most", s.opts.MaxConcurrent))
		s.tell(truth, nil)
		return
	}
	f.Prompt, f.Cached = a.prompt, cached
	f.SSE = a.stream && sv != ollamaChat
	f.Reused, f.Streams = cf.reused, cf.open
	f.Gzip = strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")

	x := s.prepare(&a, sv, f, id, entity)
	x.w, x.rc, x.ctx, x.conn, x.truth, x.known = w, http.NewResponseController(w), r.Context(), c, truth, known
	x.alone = r.ProtoMajor == 1
	x.play()
}

// prepare makes the plan of a request, and its bytes.
func (s *Server) prepare(a *ask, sv service, f Facts, id string, entity int) *player {
	p := s.plan(a, sv, f, entity)
	e := drawEffect(s.faults, s.opts.Seed, entity)
	e.apply(p, f)
	at := s.opts.Epoch.Add(f.Arrived)
	head := answer{id: "chatcmpl-" + id, requestID: id, model: cmp.Or(s.opts.Model, a.model, "mock"), created: at, plan: p, asked: a.usage}
	if p.Timed {
		first, last := p.content(0), p.last()
		queue, decode := p.Queue, time.Duration(0)
		if first < len(p.Pieces) {
			decode = max(0, last.After-p.Pieces[first].When.After)
		}
		head.times = timings{queue: &queue, load: &p.Load, prefill: &p.Prefill, decode: &decode}
	}
	x := &player{s: s, a: a, plan: p, arrived: f.Arrived, renderer: s.renderer(sv, head), service: sv}
	if a.stream && p.Status == http.StatusOK {
		x.writes = e.wire(p.writes(x.renderer), p, f)
	} else {
		x.writes = p.whole(x.renderer)
	}
	if sv == openAI && s.dialect.header != nil {
		s.dialect.header(p.Header, id)
	}
	if sv == openAI && s.dialect.name == "openai" && p.Timed {
		p.Header.Set("Openai-Processing-Ms", strconv.FormatInt((p.Start+p.Prefill).Milliseconds(), 10))
	}
	if sv == anthropicMessages {
		p.Header.Set("Request-Id", id)
	}
	return x
}

// plan draws the plan of a request, or takes the next script.
func (s *Server) plan(a *ask, sv service, f Facts, entity int) *Plan {
	rng := random.New(s.opts.Seed, "llmmock", entity)
	if len(s.scripts) == 0 {
		return s.draw(a, sv, s.dialect, f.Cached, &rng)
	}
	p := *s.scripts[f.Number%len(s.scripts)]
	p.Pieces = slices.Clone(p.Pieces)
	p.Header = p.Header.Clone()
	p.Usage.Prompt = cmp.Or(p.Usage.Prompt, a.prompt)
	if first := p.first(); first < len(p.Pieces) && s.limit == nil {
		p.Prefill = p.Pieces[first].When.After
	}
	for i := p.first(); i < len(p.Pieces); i++ {
		p.Pieces[i].When.Gate = 1
	}
	return &p
}

// arrive counts a request. It returns the server's part of the facts, the
// request's ID and what its draws go by, and whether it may come in.
func (s *Server) arrive(h http.Header, arrived time.Duration) (f Facts, id string, entity int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = Facts{Number: s.number, Arrived: arrived}
	if s.open == 0 && s.free != nil {
		idle := arrived - *s.free
		f.Idle = &idle
	}
	s.recent = slices.DeleteFunc(s.recent, func(t time.Duration) bool { return t <= arrived-burstWindow })
	f.Burst = len(s.recent)
	s.recent = append(s.recent, arrived)
	s.number++
	s.open++
	s.stats.Concurred = max(s.stats.Concurred, s.open)
	id = requestID(h)
	if id == "" {
		id = fmt.Sprintf("mock-%d-%d", s.opts.Seed, f.Number)
	}
	if len(s.repeated) > 1<<16 {
		clear(s.repeated)
	}
	again := s.repeated[id]
	s.repeated[id]++
	k := fnv.New64a()
	fmt.Fprint(k, id, " ", again)
	return f, id, int(k.Sum64() >> 1), s.open <= s.opts.MaxConcurrent
}

// requestID returns the ID that the client gave, if it is one that can be kept.
func requestID(h http.Header) string {
	id := cmp.Or(h.Get("X-Request-Id"), h.Get("X-Client-Request-Id"))
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return ""
	}
	return id
}

func (s *Server) leave() {
	s.mu.Lock()
	s.open--
	if s.open == 0 {
		now := s.clock.Now()
		s.free = &now
	}
	s.mu.Unlock()
}

// tell counts a request that has ended, and tells the truth about it.
func (s *Server) tell(t *Truth, p *Plan) {
	reason := ""
	if p != nil && t.Status == http.StatusOK {
		reason = p.reason()
	}
	s.metrics.ended(t, reason)
	s.mu.Lock()
	s.stats.Requests++
	if p == nil {
		s.stats.Refused++
	}
	if t.Ended != Complete || t.Status != http.StatusOK {
		s.stats.Failures++
	}
	s.mu.Unlock()
	if s.opts.Truth != nil {
		s.opts.Truth(*t)
	}
}

// A limiter lets so many requests run at once; the others wait in order.
type limiter struct {
	most    int
	mu      sync.Mutex
	running int
	waiting []*clocks.Queue[gate]
}

// enter opens the first gate of a request as soon as it may run.
func (l *limiter) enter(q *clocks.Queue[gate], now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running < l.most {
		l.running++
		q.Put(gate{number: 1, at: now})
		return
	}
	l.waiting = append(l.waiting, q)
}

// leave takes a request out, whether it waits or runs.
func (l *limiter) leave(q *clocks.Queue[gate], now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, q); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return
	}
	if len(l.waiting) == 0 {
		l.running--
		return
	}
	l.waiting[0].Put(gate{number: 1, at: now})
	l.waiting = slices.Delete(l.waiting, 0, 1)
}
