package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
)

// A reply is the work on one answer: what the agent does, what the model
// writes, what the synthesizer says. A turn may begin several and throw all but
// one away.
type reply struct {
	t         *turn
	text      string // the transcript that it answers
	causes    []trace.Ref
	ctx       context.Context
	cancelCtx context.CancelCauseFunc
	gate      *clocks.Queue[trace.Ref] // the turn's commit, before which nothing is spoken
	pieces    *clocks.Queue[piece]
	prompt    prompt
	spoken    []entry      // the user's words, and what tools said
	tokens    atomic.Int64 // of output, so far
	failKind  string       // set before pieces is closed
	failure   error
	voice     voice
	answering atomic.Bool // the answer's sound is there

	mu          sync.Mutex // over what follows
	speculative bool       // begun before the turn was committed, and not adopted
	firstSend   trace.Ref
	sentAt      time.Duration
	attempt     int   // the last one
	thrown      error // why the reply was thrown away
	thought     bool  // the agent and the model have come to their end
}

// A piece is a part of the answer that is spoken in one go.
type piece struct {
	text string
	ref  trace.Ref // when it was cut out: of the first one
}

func (t *turn) newReply(text string, causes ...trace.Ref) *reply {
	r := &reply{t: t, text: text, causes: t.rec.Refs(causes...),
		gate:   clocks.NewQueue[trace.Ref](t.c.Clock, "the turn to be committed"),
		pieces: clocks.NewQueue[piece](t.c.Clock, "something to say")}
	r.voice = voice{r: r, sound: trace.FirstSound}
	r.ctx, r.cancelCtx = clocks.WithCancel(t.ctx, t.c.Clock)
	return r
}

func (r *reply) start() {
	r.t.g.Go("agent and model", func() error {
		r.failKind, r.failure = r.think(r.ctx)
		r.pieces.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.thought = true
		r.discarded()
		return nil
	})
	r.t.g.Go("synthesizer", func() error {
		kind, err := "tts", r.voice.speak(r.ctx, r.pieces, r.gate)
		cutOff := r.ctx.Err() != nil
		if err != nil && !cutOff {
			r.cancelCtx(err) // nobody will hear the rest
		}
		for ok := true; ok; { // until the model has come to its end too
			_, ok = r.pieces.Get(context.Background())
		}
		switch {
		case cutOff: // no failure
			err = nil
		case r.failure != nil && !errors.Is(r.failure, err): // and not because of err
			kind, err = r.failKind, r.failure
		}
		r.t.inbox.Put(event{kind: evReplyOver, reply: r, text: kind, err: err})
		return nil
	})
}

// cancel ends the work.
func (r *reply) cancel(cause error) {
	if (errors.Is(cause, ErrDiscarded) || errors.Is(cause, ErrResumed)) && r.ctx.Err() == nil {
		r.mu.Lock()
		r.thrown = cause
		r.discarded()
		r.mu.Unlock()
	}
	r.cancelCtx(cause)
}

// discarded records that the reply was thrown away, once the model has told all
// that it had written by then.
func (r *reply) discarded() {
	if r.thrown == nil || !r.thought || r.firstSend == trace.None {
		return
	}
	r.t.rec.Record(trace.Event{At: r.t.c.Clock.Now(), Mark: trace.LLMDiscarded, Causes: []trace.Ref{r.firstSend}, Attempt: r.attempt,
		Attrs: []trace.Attr{{Key: trace.AttrTokens, Int: r.tokens.Load()}, {Key: trace.AttrError, Text: r.thrown.Error()}}})
}

// sent notes that a request has gone out.
func (r *reply) sent(send trace.Ref, attempt int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt = attempt
	if r.firstSend == trace.None {
		r.firstSend, r.sentAt = send, r.t.c.Clock.Now()
	}
}

// adopt makes a speculative reply the answer.
func (r *reply) adopt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.speculative {
		return
	}
	r.speculative = false
	e := trace.Event{At: r.t.c.Clock.Now(), Mark: trace.LLMAdopted, Causes: r.t.rec.Refs(r.t.turnEnd)}
	if r.firstSend != trace.None {
		e.Attrs = []trace.Attr{{Key: trace.AttrSaved, Int: int64(r.t.c.Clock.Now() - r.sentAt)}}
	}
	r.t.rec.Record(e)
}

// heardText returns as much of the answer as was played, by time.
func (r *reply) heardText() string {
	said := strings.Join(r.voice.texts, " ")
	played, all := r.voice.playback.Played, r.voice.audio
	if all == 0 || r.voice.playback.Played == 0 {
		return ""
	}
	if played >= all {
		return said
	}
	runes := []rune(said)
	return string(runes[:int64(len(runes))*int64(played)/int64(all)])
}

// think does the agent's work and asks the model, as often as it calls tools.
func (r *reply) think(ctx context.Context) (kind string, err error) {
	if prev := r.t.prev; prev != nil {
		prev.done.Get(ctx) // its last words belong into the history
	}
	cause, extra, err := r.work(ctx)
	if err != nil {
		return "agent", err
	}
	r.spoken = make([]entry, 0, 2)
	if extra.tokens > 0 {
		r.spoken = append(r.spoken, extra)
	}
	r.spoken = append(r.spoken, entry{llm.Message{Role: llm.User, Content: r.text}, 0})
	for i := range r.spoken {
		if r.spoken[i].tokens == 0 {
			r.spoken[i].tokens = llm.EstimateTokens(r.spoken[i].Content)
		}
	}
	for round := 1; ; round++ {
		r.prompt = r.t.c.history.prompt(r.spoken)
		calls, end, err := r.ask(ctx, cause, round)
		if err != nil {
			return "llm", err
		}
		if len(calls) == 0 {
			return "", nil
		}
		if round == maxRounds {
			return "llm", fmt.Errorf("the model called tools %d times and never answered", maxRounds)
		}
		if cause, err = r.callTools(ctx, end, round, calls); err != nil {
			return "agent", err
		}
	}
}

// maxRounds bounds how often a model may call tools before it answers.
const maxRounds = 8

// work does the agent's steps. It returns the mark of their end, or those that
// the reply waits for where there are no steps, and what the steps found.
func (r *reply) work(ctx context.Context) ([]trace.Ref, entry, error) {
	steps := r.t.c.Agent.Steps
	if len(steps) == 0 {
		return r.causes, entry{}, nil
	}
	start := r.t.rec.Mark(trace.AgentStart, r.causes...)
	ends, results, err := r.doSteps(ctx, start, steps, r.t.c.Agent.Parallel, func(int) string { return r.text }, 1)
	if err != nil {
		return nil, entry{}, err
	}
	end := r.t.rec.Mark(trace.AgentEnd, ends...)
	found := entry{Message: llm.Message{Role: llm.System}}
	for _, res := range results {
		found.Content += res.text
		found.tokens += res.tokens
	}
	return r.t.rec.Refs(end), found, nil
}

type stepResult struct {
	text   string
	tokens int
}

// doSteps does steps one after the other, or all at once, after the mark start.
// It returns the marks that their end waits for.
func (r *reply) doSteps(ctx context.Context, start trace.Ref, steps []Named[Step], parallel bool, request func(int) string, n int) ([]trace.Ref, []stepResult, error) {
	results := make([]stepResult, len(steps))
	if !parallel || len(steps) == 1 {
		for i, s := range steps {
			var err error
			if start, err = r.doStep(ctx, start, s, request(i), n, &results[i]); err != nil {
				return nil, nil, err
			}
		}
		return r.t.rec.Refs(start), results, nil
	}
	ends := make([]trace.Ref, len(steps))
	g, ctx := clocks.NewGroup(ctx, r.t.c.Clock)
	for i, s := range steps {
		g.Go(s.Name, func() (err error) {
			ends[i], err = r.doStep(ctx, start, s, request(i), n, &results[i])
			return err
		})
	}
	return ends, results, g.Wait()
}

func (r *reply) doStep(ctx context.Context, cause trace.Ref, s Named[Step], request string, n int, result *stepResult) (trace.Ref, error) {
	clock := r.t.c.Clock
	name := r.t.rec.Attrs(trace.Attr{Key: trace.AttrStep, Text: s.Name})
	start := r.t.rec.Record(trace.Event{At: clock.Now(), Mark: trace.StepStart, Causes: r.t.rec.Refs(cause), Attempt: n, Attrs: name})
	text, tokens, err := s.Use.Do(ctx, r.t.id, n, request)
	if err != nil {
		return trace.None, fmt.Errorf("%s: %w", s.Name, err)
	}
	*result = stepResult{text, tokens}
	return r.t.rec.Record(trace.Event{At: clock.Now(), Mark: trace.StepEnd, Causes: r.t.rec.Refs(start),
		Stage: trace.AgentStep(s.Name), Attempt: n, Attrs: name}), nil
}

// callTools calls the tools that the model asked for, all at once, and adds
// calls and results to the conversation.
func (r *reply) callTools(ctx context.Context, cause trace.Ref, round int, calls []llm.ToolCall) ([]trace.Ref, error) {
	steps := make([]Named[Step], len(calls))
	for i, call := range calls {
		for _, tool := range r.t.c.Agent.Tools {
			if tool.Name == call.Name {
				steps[i] = tool
			}
		}
		if steps[i].Use == nil {
			return nil, fmt.Errorf("the model called %q, and there is no such tool", call.Name)
		}
	}
	ends, results, err := r.doSteps(ctx, cause, steps, true, func(i int) string { return calls[i].Arguments }, round)
	if err != nil {
		return nil, err
	}
	r.spoken = append(r.spoken, entry{llm.Message{Role: llm.Assistant, ToolCalls: calls}, 20 * len(calls)})
	for i, res := range results {
		r.spoken = append(r.spoken, entry{llm.Message{Role: llm.Result, Content: res.text, ToolCallID: calls[i].ID}, res.tokens})
	}
	return ends, nil
}
