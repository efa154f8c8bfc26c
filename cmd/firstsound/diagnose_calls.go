package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/trace"
	"firstsound/llm/record"
	"firstsound/pipeline/report"
)

// readCalls reads the requests to the language model out of a run of the whole
// pipeline, as far as its events hold them: the marks of each attempt, its
// tokens, and queue and prefill where the server told them. Due is when the turn
// was committed, so that the agent's work lies between Due and Send.
func readCalls(path string) (*measuredRun, error) {
	src, err := report.Open(path)
	if err != nil {
		return nil, err
	}
	c := calls{turns: map[trace.ID]*callTurn{}}
	if err := src.Events(c.add); err != nil {
		return nil, err
	}
	m := &measuredRun{attempts: c.attempts(), warnings: src.Warnings, calls: true}
	info := src.Info
	m.run = record.Run{
		Format: record.Format, Tool: info.Tool, Go: info.Go, OS: info.OS, Arch: info.Arch, CPUs: info.CPUs, Clock: info.Clock,
		Command: info.Command, Started: info.Started, State: record.Complete, Reason: info.Reason, Seed: info.Seed, Fixed: info.Fixed,
	}
	if info.State == report.StatePartial {
		m.run.State = record.Interrupted
	}
	stamps := record.ByRead
	if info.Clock == "virtual" {
		stamps = record.ByModel
	}
	for _, a := range m.attempts {
		a.Stamps = stamps
	}
	return m, nil
}

// calls gathers the attempts of all turns.
type calls struct {
	turns map[trace.ID]*callTurn
	order []*callTurn
}

// A callTurn is what a turn's events say about its requests.
type callTurn struct {
	id       trace.ID
	request  string
	warmup   bool
	due      *time.Duration
	attempts []*record.Attempt // by number
	queued   map[int]time.Duration
	prefill  map[int]time.Duration
}

// attempt returns the attempt of a number, new if need be.
func (t *callTurn) attempt(number int) *record.Attempt {
	for _, a := range t.attempts {
		if a.Number == number {
			return a
		}
	}
	a := &record.Attempt{Number: number, Phase: record.Call, Session: t.id.Session, Turn: t.id.Turn, Class: record.Unfinished}
	t.attempts = append(t.attempts, a)
	return a
}

// add takes an event.
func (c *calls) add(e *trace.Event) {
	t := c.turns[e.ID]
	if t == nil {
		t = &callTurn{id: e.ID, queued: map[int]time.Duration{}, prefill: map[int]time.Duration{}}
		c.turns[e.ID] = t
		c.order = append(c.order, t)
	}
	at := e.At
	switch e.Mark {
	case trace.TurnOpened:
		t.request = eventText(e, trace.AttrRequest)
		n, _ := eventInt(e, trace.AttrWarmup)
		t.warmup = n == 1
		return
	case trace.AgentStart:
		if t.due == nil {
			t.due = &at
		}
		return
	}
	if !strings.HasPrefix(string(e.Mark), "llm_") {
		return
	}
	t.mark(t.attempt(e.Attempt), e)
}

// mark notes a mark of an attempt.
func (t *callTurn) mark(a *record.Attempt, e *trace.Event) {
	at := e.At
	switch e.Mark {
	case trace.LLMSend:
		a.Send = &at
		if n, ok := eventInt(e, trace.AttrPrompt); ok {
			tokens := int(n)
			a.PromptTokens = &tokens
		}
	case trace.LLMConnected:
		a.Connected = &at
	case trace.LLMHeaders:
		a.Headers = &at
	case trace.LLMQueued:
		t.queued[a.Number] = at
	case trace.LLMPrefill:
		t.prefill[a.Number] = at
	case trace.LLMFirstReasoning:
		a.FirstReasoning = &at
	case trace.LLMFirstToolCall:
		a.FirstToolCall = &at
	case trace.LLMFirstToken:
		a.FirstToken = &at
	case trace.LLMLastToken:
		a.LastContent = &at
	case trace.LLMFirstSegment:
		a.FirstSegment = &at
	case trace.LLMEnd:
		a.End = &at
		a.Class = endedAs(a)
		if n, ok := eventInt(e, trace.AttrTokens); ok {
			tokens := int(n)
			a.OutputTokens, a.TokenSource = &tokens, record.TokenSource(eventText(e, trace.AttrSource))
		}
	case trace.LLMFailed:
		a.End, a.Error = &at, eventText(e, trace.AttrError)
		a.Class = record.ConnectError
		switch {
		case strings.HasPrefix(e.Setting, "llm.timeout="):
			a.Class = record.Timeout
		case a.FirstToken != nil:
			a.Class = record.StreamError
		}
	case trace.LLMDiscarded:
		a.End = &at
		a.Class = record.Cancelled
	}
}

// endedAs returns the class of an attempt whose stream has ended as it should.
func endedAs(a *record.Attempt) record.Class {
	switch {
	case a.FirstToken != nil:
		return record.OK
	case a.FirstToolCall != nil:
		return record.ToolOnly
	case a.FirstReasoning != nil:
		return record.ReasoningOnly
	}
	return record.Empty
}

// attempts returns all attempts that were sent, with what follows from their
// marks, in the order in which they were sent.
func (c *calls) attempts() []*record.Attempt {
	var out []*record.Attempt
	for _, t := range c.order {
		for _, a := range t.attempts {
			if a.Send != nil {
				t.conclude(a)
				out = append(out, a)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *record.Attempt) int { return cmp.Compare(*a.Send, *b.Send) })
	countOpen(out)
	return out
}

// conclude fills in what follows from the marks of an attempt.
func (t *callTurn) conclude(a *record.Attempt) {
	a.RequestID, a.Warmup = t.request, t.warmup
	if t.due != nil && *t.due <= *a.Send { // a speculative request has no work before it that anybody waits for
		a.Due = t.due
	}
	if a.FirstToken == nil {
		return
	}
	ttft := *a.FirstToken - *a.Send
	a.TTFT = &ttft
	if a.End != nil {
		total := *a.End - *a.Send
		a.Total = &total
	}
	if a.LastContent != nil && a.OutputTokens != nil && *a.OutputTokens > 1 && *a.LastContent > *a.FirstToken {
		tpot := (*a.LastContent - *a.FirstToken) / time.Duration(*a.OutputTokens-1)
		a.TPOT = &tpot
	} else {
		a.TPOTAbsent = "fewer than two tokens, or all at once"
	}
	queued, ok := t.queued[a.Number]
	began, told := t.prefill[a.Number]
	if ok && told {
		queue, prefill := began-queued, *a.FirstToken-began
		a.Server = &record.Server{Source: "events", Queue: &queue, Prefill: &prefill}
	}
}

// countOpen sets InFlight of attempts in the order of Send.
func countOpen(as []*record.Attempt) {
	var ends []time.Duration
	for _, a := range as {
		ends = slices.DeleteFunc(ends, func(end time.Duration) bool { return end <= *a.Send })
		a.InFlight = len(ends) + 1
		end := time.Duration(1<<63 - 1)
		if a.End != nil {
			end = *a.End
		}
		ends = append(ends, end)
	}
}

// eventText returns a text attribute of an event; empty if it has none.
func eventText(e *trace.Event, key string) string {
	for _, a := range e.Attrs {
		if a.Key == key {
			return a.Text
		}
	}
	return ""
}

// eventInt returns a number of an event.
func eventInt(e *trace.Event, key string) (int64, bool) {
	for _, a := range e.Attrs {
		if a.Key == key && a.Text == "" {
			return a.Int, true
		}
	}
	return 0, false
}
