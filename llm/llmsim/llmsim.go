// Package llmsim is a model of a language-model service: it draws how long a
// server takes, alone, without other users. What it says are ready sentences.
package llmsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm"
	"firstsound/llm/serving"
)

// A Model is a model of a service, and of its client's connections. It may be
// used by several turns at once.
type Model struct {
	clock clocks.Clock
	seed  uint64
	o     Options
	err   error // what a failure is

	servers *serving.Fleet // nil: the times are drawn

	english, chinese []reply
	thought          reply // the reasoning
	tpot             []time.Duration

	mu      sync.Mutex
	idle    map[int][]time.Duration // by session: since when its idle connections are idle
	crowded int                     // with so many sessions, look for those that are over
	open    int                     // connections, where their number is limited
	waiting []*clocks.Queue[struct{}]
}

// New returns a model on clock, whose draws depend on seed and on the session,
// the turn and the attempt of a request, and on nothing else. Whether there is
// an idle connection depends on the requests before.
func New(clock clocks.Clock, seed uint64, o Options) *Model {
	m := &Model{clock: clock, seed: seed, o: o, err: fmt.Errorf("llm: %s", o.Error), idle: map[int][]time.Duration{}, crowded: crowd}
	if o.Server != nil {
		var err error
		if m.servers, err = o.Server.fleet(clock, seed); err != nil {
			panic("llmsim: " + err.Error()) // Check would have said so
		}
	}
	m.tpot = quantiles(o.TPOT)
	m.english, m.chinese = replies(english), replies(chinese)
	if len(o.Replies) > 0 {
		m.english = replies(o.Replies)
		m.chinese = m.english
	}
	if o.Reasoning > 0 {
		one := tokenize(thinking)
		times := (o.Reasoning + len(one.ends) - 1) / len(one.ends)
		m.thought = tokenize(strings.Repeat(thinking, times)).first(o.Reasoning)
	}
	return m
}

// Shared says whether what one call asks for makes others wait, since they share a
// server or the connections to it.
func (m *Model) Shared() bool { return m.servers != nil || m.o.MaxConnections > 0 }

// quantiles returns values of d that are equally likely: 1,024 of them, since
// there is a draw for every token, and a table is quicker than a logarithm.
func quantiles(d random.Dist) []time.Duration {
	if v, ok := d.Constant(); ok {
		return []time.Duration{v}
	}
	const n = 1024
	values := make([]time.Duration, 0, n)
	for i := range n {
		if v := d.Quantile((float64(i) + 0.5) / n); v >= 0 { // a normal distribution has others
			values = append(values, v)
		}
	}
	return values
}

// take returns whether there was an idle connection at the time now, and takes it.
func (m *Model) take(session int, now time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.idle[session]
	fresh := len(since) > 0 && now-since[len(since)-1] <= m.o.KeepAlive
	switch {
	case fresh:
		m.idle[session] = since[:len(since)-1]
	case len(since) > 0:
		m.idle[session] = since[:0] // the last was the freshest
	}
	return fresh
}

func (m *Model) giveBack(session int, now time.Duration) {
	if m.o.KeepAlive <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle[session] = append(m.idle[session], now)
	if len(m.idle) < m.crowded {
		return
	}
	for session, since := range m.idle { // sessions that are over, wherever their clock stands
		if len(since) == 0 || now-since[len(since)-1] > m.o.KeepAlive+clocks.Lead {
			delete(m.idle, session)
		}
	}
	m.crowded = max(crowd, 2*len(m.idle))
}

// crowd is how many sessions with connections are too many to keep those that
// are over.
const crowd = 1024

// Generate implements llm.Model. So that nobody wakes for nothing, what arrives
// before the first token (Connected, Headers, Empty, all of the Reasoning) is
// yielded when that does, with the time at which it arrived; and content is
// joined as Request.Matters allows, except for the first token, which always
// comes alone. If ctx ends, what had arrived by then is yielded first. Matters
// may be asked about text that is never delivered.
func (m *Model) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		s := stream{Model: m, ctx: ctx, req: &req, yield: yield}
		err := s.pass()
		if err != nil && err != errStopped {
			yield(llm.Delta{}, err)
		}
	}
}

var errStopped = errors.New("the caller stopped the iteration")

// stream is one answer.
type stream struct {
	*Model
	ctx   context.Context
	req   *llm.Request
	yield func(llm.Delta, error) bool

	// When things arrive.
	connected, headers, firstToken time.Duration
	network                        time.Duration // to the server and back
	base, prefill                  time.Duration // at the server: what precedes the prefill, and that
	timed                          bool          // the server's timings have been told

	told    int // of what comes before the first token, in order
	stallAt int // the stall precedes this content token; -1: there is none
	gaps    random.Source
}

// source returns the draws for one purpose. Each has its own, so that an option
// moves no draw but its own.
func (s *stream) source(purpose string) random.Source {
	return random.New(s.seed, purpose, s.req.ID.Session, s.req.ID.Turn, s.req.Attempt)
}

func (s *stream) draw(d random.Dist, purpose string) time.Duration {
	if v, ok := d.Constant(); ok {
		return v
	}
	src := s.source(purpose)
	return d.Draw(&src)
}

func (s *stream) chance(p float64, purpose string) bool {
	if p <= 0 {
		return false
	}
	src := s.source(purpose)
	return src.Chance(p)
}

// pass runs the stream by way of the client's limit and the gateway.
func (s *stream) pass() error {
	if err := s.enter(s.ctx); err != nil {
		return err
	}
	defer s.leave()
	if !s.o.Buffered {
		return s.run()
	}
	b := buffer{clock: s.clock, yield: s.yield}
	s.yield = b.take
	if err := s.run(); err != nil {
		return err
	}
	return b.release()
}

func (s *stream) run() error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.connected = s.clock.Now()
	if !s.take(s.req.ID.Session, s.connected) {
		s.connected += s.draw(s.o.Connect, "llm.connect")
	}
	if s.chance(s.o.Fail, "llm.fail") {
		return s.fail()
	}
	s.network = s.draw(s.o.Network, "llm.network")
	a := s.write()
	err := s.tell(a)
	if err != nil || a.truncated {
		return err
	}
	return s.finish(a.prompt, a.tokens(), a.reason)
}

// A written is what the model will say.
type written struct {
	prompt    int // tokens
	thought   reply
	answer    reply
	called    bool
	call      llm.ToolCall
	callSize  int // tokens
	truncated bool
	reason    string
}

// tokens returns how many it has.
func (a *written) tokens() int { return len(a.thought.ends) + len(a.answer.ends) + a.callSize }

// write decides what the model says, and how that ends.
func (s *stream) write() written {
	a := written{prompt: s.promptTokens(), reason: "stop"}
	a.answer, a.call, a.called = s.choose()
	limit := math.MaxInt
	if s.req.Params.MaxTokens > 0 {
		limit = s.req.Params.MaxTokens
	}
	a.thought = s.thought.first(limit)
	limit -= len(a.thought.ends)
	if a.called {
		a.callSize, a.reason = len(tokenize(a.call.Name+a.call.Arguments).ends), "tool_calls"
	}
	if len(a.answer.ends) > limit {
		a.answer, a.reason = a.answer.first(limit), "length"
	}
	s.stallAt = -1
	if n := len(a.answer.ends); n > 1 {
		if src := s.source("llm.stall"); src.Chance(s.o.Stall) {
			s.stallAt = 1 + src.Below(n-1)
		}
		if src := s.source("llm.truncate"); src.Chance(s.o.Truncate) {
			a.answer, a.truncated = a.answer.first(1+src.Below(n-1)), true
		}
	}
	return a
}

// tell yields all but the end of the answer.
func (s *stream) tell(a written) error {
	if s.servers != nil {
		if err := s.serve(a); err != nil {
			return err
		}
		if a.called && !s.yield(llm.Delta{At: s.clock.Now(), Kind: llm.Call, Call: a.call}, nil) {
			return errStopped
		}
		return nil
	}
	s.base, s.prefill = s.draw(s.o.Base, "llm.base"), s.prefillTime(a.prompt)
	s.headers = s.connected + s.network
	s.firstToken = s.headers + s.base + s.prefill
	s.gaps = s.source("llm.tpot")
	at, err := s.think(a.thought)
	if err != nil {
		return err
	}
	switch {
	case a.called: // it is complete with its last token
		for range a.callSize - 1 {
			at += s.gap()
		}
		if err := s.wait(at); err != nil {
			return err
		}
		if !s.yield(llm.Delta{At: s.clock.Now(), Kind: llm.Call, Call: a.call}, nil) {
			return errStopped
		}
		return nil
	case len(a.answer.ends) > 0:
		return s.speak(a.answer, at)
	}
	return s.wait(at)
}

func (s *stream) fail() error {
	s.headers, s.firstToken = math.MaxInt64, math.MaxInt64
	if err := s.wait(s.connected + s.draw(s.o.FailAfter, "llm.fail_after")); err != nil {
		return err
	}
	return s.err
}

// block is how many tokens the prefix cache keeps or drops together.
const block = 16

func (s *stream) promptTokens() int {
	if s.req.PromptTokens > 0 {
		return s.req.PromptTokens
	}
	n := 0
	for i := range s.req.Messages {
		n += estimate(s.req.Messages[i].Content)
	}
	return n
}

func (s *stream) prefillTime(prompt int) time.Duration {
	n := prompt
	if s.o.PrefixCache {
		n = max(1, n-s.req.CachedTokens/block*block)
	}
	tokens, step := float64(n)*float64(s.o.Prefill), float64(s.o.Step)
	if step == 0 {
		return time.Duration(tokens)
	}
	// The conversions keep each product from being fused with the sum, so that
	// all processors round alike.
	return time.Duration(math.Round(math.Cbrt(float64(tokens*tokens*tokens) + float64(step*step*step))))
}

// choose returns what the model says: an answer or a call.
func (s *stream) choose() (answer reply, call llm.ToolCall, called bool) {
	if len(s.req.Tools) > 0 && !s.answersTool() {
		if src := s.source("llm.tool"); src.Chance(s.o.ToolCall) {
			return reply{}, s.call(s.req.Tools[src.Below(len(s.req.Tools))]), true
		}
	}
	if s.chance(s.o.Empty, "llm.empty") {
		return reply{}, llm.ToolCall{}, false
	}
	all := s.english
	if isChinese(s.req.Language) {
		all = s.chinese
	}
	src := s.source("llm.reply")
	return all[src.Below(len(all))], llm.ToolCall{}, false
}

// answersTool says whether a tool has been called since the user spoke.
func (s *stream) answersTool() bool {
	for i := len(s.req.Messages) - 1; i >= 0 && s.req.Messages[i].Role != llm.User; i-- {
		if s.req.Messages[i].Role == llm.Result {
			return true
		}
	}
	return false
}

func (s *stream) call(tool llm.Tool) llm.ToolCall {
	var query string
	for _, m := range s.req.Messages {
		if m.Role == llm.User {
			query = m.Content
		}
	}
	arguments, _ := json.Marshal(map[string]string{"query": query}) // of strings: it does not fail
	return llm.ToolCall{
		ID:        fmt.Sprintf("call_%d_%d_%d", s.req.ID.Session, s.req.ID.Turn, s.req.Attempt),
		Name:      tool.Name,
		Arguments: string(arguments),
	}
}

// gap returns the time from one token to the next.
func (s *stream) gap() time.Duration { return s.tpot[s.gaps.Below(len(s.tpot))] }

// before tells what has arrived of what comes before the first token.
func (s *stream) before(now time.Duration) error {
	role := s.firstToken
	if s.o.EarlyRole {
		role = s.headers
	}
	for s.told < 3 {
		at := [3]time.Duration{s.connected, s.headers, role}[s.told]
		if at > now {
			return nil
		}
		kind := [3]llm.Kind{llm.Connected, llm.Headers, llm.Empty}[s.told]
		s.told++
		if !s.yield(llm.Delta{At: at, Kind: kind}, nil) {
			return errStopped
		}
	}
	return nil
}

// wait sleeps until t, and then tells what has arrived before. If ctx ends it
// does that too.
func (s *stream) wait(t time.Duration) error {
	ended := s.clock.SleepUntil(s.ctx, t)
	if err := s.before(s.clock.Now()); err != nil {
		return err
	}
	return ended
}

// think tells the reasoning, if there is any, and returns when the token after
// it arrives.
func (s *stream) think(thought reply) (next time.Duration, err error) {
	n := len(thought.ends)
	if n == 0 {
		return s.firstToken, nil
	}
	times := make([]time.Duration, n+1)
	times[0] = s.firstToken
	for i := range n {
		times[i+1] = times[i] + s.gap()
	}
	ended := s.wait(times[n])
	if ended == errStopped {
		return 0, ended
	}
	now := s.clock.Now()
	from := 0
	for i := range n {
		if times[i] <= now && (i == 0 || i == n-1 || times[i+1] > now) {
			if !s.yield(llm.Delta{At: times[i], Kind: llm.Reasoning, Text: thought.text[from:thought.ends[i]]}, nil) {
				return 0, errStopped
			}
			from = thought.ends[i]
		}
	}
	return times[n], ended
}

// speak tells the answer, whose first token arrives at t.
func (s *stream) speak(answer reply, t time.Duration) error {
	matters := s.req.Matters
	var space [64]time.Duration
	held := space[:0] // when the tokens arrived, or will, that have not been told
	from := 0         // where they begin
	for i, end := range answer.ends {
		begin := 0
		if i > 0 {
			begin = answer.ends[i-1]
			t += s.gap()
		}
		if i == s.stallAt {
			t += s.draw(s.o.StallFor, "llm.stall_for")
		}
		held = append(held, t)
		now := matters == nil || matters(answer.text[begin:end])
		if !now && i > 0 && i < len(answer.ends)-1 {
			continue
		}
		ended := s.wait(t)
		if ended == errStopped {
			return ended
		}
		at, n := s.clock.Now(), len(held)
		if ended != nil {
			for n > 0 && held[n-1] > at {
				n--
			}
			if n == 0 {
				return ended
			}
			at, end = held[n-1], answer.ends[i-len(held)+n]
		}
		if !s.yield(llm.Delta{At: at, Kind: llm.Content, Text: answer.text[from:end], Tokens: n}, nil) {
			return errStopped
		}
		if ended != nil {
			return ended
		}
		from, held = end, held[:0]
	}
	return nil
}

// finish tells how it ended, and gives the connection back.
func (s *stream) finish(prompt, tokens int, reason string) error {
	now := s.clock.Now()
	s.giveBack(s.req.ID.Session, now)
	if s.o.Timings && !s.timed {
		if !s.yield(llm.Delta{At: now, Kind: llm.Timings, Queue: &s.base, Prefill: &s.prefill}, nil) {
			return errStopped
		}
	}
	if !s.yield(llm.Delta{At: now, Kind: llm.Usage, Tokens: tokens, Prompt: prompt}, nil) ||
		!s.yield(llm.Delta{At: now, Kind: llm.Finish, Text: reason}, nil) {
		return errStopped
	}
	return nil
}
