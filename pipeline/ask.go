package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
)

// ask sends one request to the model, and again if it fails before it has
// written anything. What it writes goes to the pieces. It returns the tools
// that it calls and the mark of its end.
func (r *reply) ask(ctx context.Context, causes []trace.Ref, round int) ([]llm.ToolCall, trace.Ref, error) {
	backoff := r.t.c.Retry.Backoff
	for n := 1; ; n++ {
		provider := r.t.c.LLM[min(n, len(r.t.c.LLM))-1]
		a := attempt{r: r, number: int(r.t.llmAttempts.Add(1)), provider: provider.Name, round: round}
		err := a.run(ctx, provider.Use, causes)
		if err == nil {
			return a.calls, a.end, nil
		}
		if ctx.Err() != nil {
			return nil, trace.None, context.Cause(ctx)
		}
		err = fmt.Errorf("%s: %w", provider.Name, err)
		failed := a.failed(err)
		if a.started || n >= r.t.c.Retry.Attempts {
			return nil, trace.None, err
		}
		if causes, err = r.pause(ctx, failed, trace.StageLLMRetry, "llm.backoff", backoff, a.number); err != nil {
			return nil, trace.None, err
		}
		backoff = min(2*backoff, max(backoff, maxBackoff))
	}
}

// maxBackoff is where the pause between attempts stops doubling. Half a minute is
// a usual bound of client libraries; a voice call is over long before.
const maxBackoff = 30 * time.Second

// pause waits between two attempts, and returns what the next one waits for.
func (r *reply) pause(ctx context.Context, failed trace.Ref, stage trace.Stage, key string, d time.Duration, attempt int) ([]trace.Ref, error) {
	if d == 0 {
		return r.t.rec.Refs(failed), nil
	}
	if err := r.t.c.Clock.Sleep(ctx, d); err != nil {
		return nil, err
	}
	return []trace.Ref{r.t.rec.Record(trace.Event{At: r.t.c.Clock.Now(), Mark: trace.RetryWait, Causes: []trace.Ref{failed},
		Stage: stage, Setting: key + "=" + d.String(), Attempt: attempt})}, nil
}

// An attempt is one request to the model.
type attempt struct {
	r        *reply
	number   int
	provider string
	round    int

	send, ready, first, end trace.Ref // ready: when the connection was
	reasoned                bool
	started                 bool   // something that counts has come
	timedOut                string // the setting that ended it
	alarm                   clocks.Alarm
	calls                   []llm.ToolCall
	cutter, ahead           Cutter // ahead goes through what is still to come
	pieces                  int
	lastAt                  time.Duration // when the last content came
	chunks                  int
	counted, usage          int            // output tokens: by chunk, and by the service
	queue, prefill          *time.Duration // as the server tells them, if it does so before the first token
}

func (a *attempt) mark(at time.Duration, m trace.Mark, cause trace.Ref, attrs ...trace.Attr) trace.Ref {
	return a.r.t.rec.Record(trace.Event{At: at, Mark: m, Causes: a.r.t.rec.Refs(cause),
		Attempt: a.number, Attrs: a.r.t.rec.Attrs(attrs...)})
}

func (a *attempt) run(ctx context.Context, model llm.Model, causes []trace.Ref) error {
	r, c := a.r, a.r.t.c
	ctx, cancel := clocks.WithCancel(ctx, c.Clock)
	defer cancel(nil)
	if d := c.Retry.Timeout; d > 0 {
		a.alarm = c.Clock.At(c.Clock.Now()+d, func() {
			cancel(fmt.Errorf("no first token within %v: %w", d, ErrTimeout))
		})
		defer a.alarm.Stop()
	}
	a.cutter.start(c.Cut)
	a.ahead.start(c.Cut)
	a.send = r.t.rec.Record(a.sending(causes))
	r.sent(a.send, a.number)
	req := llm.Request{
		ID: r.t.id, RequestID: r.t.say.RequestID, Attempt: a.number, Language: r.t.say.Utterance.Language,
		Params: c.Params, Messages: r.prompt.messages, Tools: c.tools(),
		PromptTokens: r.prompt.tokens, CachedTokens: r.prompt.cached, SharedTokens: r.t.c.history.memory.SystemTokens,
		Matters: func(text string) bool { return a.ahead.Push(0, text, nil) },
	}
	for d, err := range model.Generate(ctx, req) {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && errors.Is(cause, ErrTimeout) {
				a.timedOut = "llm.timeout=" + c.Retry.Timeout.String()
				return cause
			}
			return err
		}
		a.take(d)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	a.finish()
	return nil
}

func (a *attempt) sending(causes []trace.Ref) trace.Event {
	r := a.r
	attrs := append(make([]trace.Attr, 0, 6), // the most there can be
		trace.Attr{Key: trace.AttrPrompt, Int: int64(r.prompt.tokens)},
		trace.Attr{Key: trace.AttrHistory, Int: int64(r.prompt.history)})
	if r.prompt.dropped > 0 {
		attrs = append(attrs, trace.Attr{Key: trace.AttrTrimmed, Int: int64(r.prompt.dropped)})
	}
	r.mu.Lock()
	speculative := r.speculative
	r.mu.Unlock()
	if speculative {
		attrs = append(attrs, trace.Attr{Key: trace.AttrSpeculate, Int: 1})
	}
	if a.round > 1 {
		attrs = append(attrs, trace.Attr{Key: trace.AttrRole, Text: "tool"})
	}
	if len(r.t.c.LLM) > 1 {
		attrs = append(attrs, trace.Attr{Key: trace.AttrProvider, Text: a.provider})
	}
	return trace.Event{At: r.t.c.Clock.Now(), Mark: trace.LLMSend, Causes: causes, Attempt: a.number, Attrs: r.t.rec.Attrs(attrs...)}
}

// tools returns what the model may call.
func (c *conversation) tools() []llm.Tool {
	if len(c.Agent.Tools) == 0 {
		return nil
	}
	tools := make([]llm.Tool, len(c.Agent.Tools))
	for i, t := range c.Agent.Tools {
		tools[i] = llm.Tool{Name: t.Name}
	}
	return tools
}

// take takes one delta into account.
func (a *attempt) take(d llm.Delta) {
	before := a.send
	if a.ready != trace.None {
		before = a.ready
	}
	switch d.Kind {
	case llm.Connected:
		a.ready = a.mark(d.At, trace.LLMConnected, a.send)
	case llm.Headers:
		a.mark(d.At, trace.LLMHeaders, before)
	case llm.Reasoning:
		a.begin()
		if !a.reasoned {
			a.reasoned = true
			a.mark(d.At, trace.LLMFirstReasoning, before)
		}
	case llm.Call:
		a.begin()
		if len(a.calls) == 0 {
			a.first = a.mark(d.At, trace.LLMFirstToolCall, a.served(d.At, before))
		}
		a.calls = append(a.calls, d.Call)
	case llm.Content:
		if d.Text != "" {
			a.content(d, before)
		}
	case llm.Usage:
		a.usage = d.Tokens
	case llm.Timings:
		a.queue, a.prefill = d.Queue, d.Prefill
	}
}

// served marks what the server has told of the time before the first token,
// which came at at: durations only, so they are laid end to end up to that token,
// and what the way there and back took comes before. It returns what the first
// token then waited for.
func (a *attempt) served(at time.Duration, before trace.Ref) trace.Ref {
	if a.queue == nil || a.prefill == nil {
		return before
	}
	began := at - *a.prefill
	queued := a.mark(began-*a.queue, trace.LLMQueued, before)
	return a.mark(began, trace.LLMPrefill, queued)
}

// begin notes that the attempt has brought something: it will not time out,
// nor be tried again.
func (a *attempt) begin() {
	if !a.started {
		a.started = true
		a.alarm.Stop()
	}
}

func (a *attempt) content(d llm.Delta, before trace.Ref) {
	a.begin()
	if a.chunks == 0 {
		a.first = a.mark(d.At, trace.LLMFirstToken, a.served(d.At, before))
	}
	a.chunks++
	a.counted += max(d.Tokens, 1)
	a.r.tokens.Add(int64(max(d.Tokens, 1)))
	a.cutter.Push(d.At, d.Text, func(text string, written time.Duration) { a.piece(text, written, d.At) })
	a.lastAt = d.At
}

// piece hands over a piece of the answer: the last of its text came at written,
// and it was cut out at cut.
func (a *attempt) piece(text string, written, cut time.Duration) {
	ref := trace.None
	if a.pieces == 0 {
		ref = a.mark(cut, trace.LLMFirstSegment, a.mark(written, trace.LLMSegmentText, a.first))
	}
	a.pieces++
	a.r.pieces.Put(piece{text, ref})
}

// finish ends an attempt that went well.
func (a *attempt) finish() {
	now := a.r.t.c.Clock.Now()
	a.cutter.Flush(func(text string) { a.piece(text, a.lastAt, now) })
	cause := a.first
	if a.chunks > 0 {
		cause = a.mark(a.lastAt, trace.LLMLastToken, a.first)
	}
	tokens, source := a.usage, "usage"
	if tokens == 0 {
		tokens, source = a.counted, "chunks"
	}
	a.end = a.mark(now, trace.LLMEnd, cause,
		trace.Attr{Key: trace.AttrTokens, Int: int64(tokens)}, trace.Attr{Key: trace.AttrSource, Text: source})
}

// failed records that the attempt has failed.
func (a *attempt) failed(err error) trace.Ref {
	return a.r.t.rec.Record(trace.Event{At: a.r.t.c.Clock.Now(), Mark: trace.LLMFailed, Causes: []trace.Ref{a.send},
		Stage: trace.StageLLMRetry, Setting: a.timedOut, Attempt: a.number,
		Attrs: []trace.Attr{{Key: trace.AttrError, Text: err.Error()}}})
}
