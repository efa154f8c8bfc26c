package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"firstsound/clocks/trace"
	"firstsound/llm/serving"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// An attempt is a request to the model in a run's events.
type attempt struct {
	id                 trace.ID
	prompt, output     int64 // 0: not told
	trimmed            int64
	send, first, last  time.Duration
	hasFirst, hasLast  bool
	connected, dropped bool
}

// readRun reads the requests to the model out of a run.
//
// The server sees a request once there is a connection, so where the run tells
// llm_connected, times count from there. Reasoning and tool calls are tokens like
// others to a server: the first of any kind ends its prefill. A request that was
// given up loads the server with the tokens that it got, and is not compared.
func readRun(ctx context.Context, path string) (*recordedTrace, error) {
	src, err := report.Open(path)
	if err != nil {
		return nil, err
	}
	t := &recordedTrace{path: path, format: "run"}
	type key struct {
		id      trace.ID
		attempt int
	}
	open := map[key]*attempt{}
	var all []*attempt
	n := 0
	err = src.Events(func(e *trace.Event) {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return
		}
		k := key{e.ID, e.Attempt}
		if e.Mark == trace.LLMSend {
			a := &attempt{id: e.ID, send: e.At, prompt: attrInt(e, trace.AttrPrompt), trimmed: attrInt(e, trace.AttrTrimmed)}
			open[k] = a
			all = append(all, a)
			return
		}
		a := open[k]
		if a == nil {
			return
		}
		if n := attrInt(e, trace.AttrTokens); n > 0 {
			a.output = n
		}
		switch e.Mark {
		case trace.LLMConnected:
			if !a.hasFirst {
				a.send, a.connected = e.At, true
			}
		case trace.LLMFirstReasoning, trace.LLMFirstToolCall, trace.LLMFirstToken:
			if !a.hasFirst || e.At < a.first {
				a.first, a.hasFirst = e.At, true
			}
		case trace.LLMLastToken:
			a.last, a.hasLast = e.At, true
		case trace.LLMEnd:
			if !a.hasLast {
				a.last, a.hasLast = e.At, true
			}
			delete(open, k)
		case trace.LLMFailed, trace.LLMDiscarded:
			a.dropped = true
			delete(open, k)
		}
	})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted while reading %s", path)
	}
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no %s: nobody asked a model in this run", runPath(path), trace.LLMSend)
	}
	system := 0
	if src.Info.Scenario != "" {
		if s, err := scenario.Load("run.json", []byte(src.Info.Scenario)); err == nil {
			system = s.Conversation.SystemPromptTokens
		}
	}
	slices.SortStableFunc(all, func(a, b *attempt) int { return cmp.Compare(a.send, b.send) })
	t.put(all, system)
	return t, nil
}

// put makes requests of the attempts of a run, which are in the order of their
// arrival. A session's requests begin with what its earlier turns have sent,
// unless the history was trimmed since.
func (t *recordedTrace) put(all []*attempt, system int) {
	type past struct {
		turn                 int
		before, now, trimmed int64 // prompt tokens of the turns before, and of this one
	}
	sessions := map[int]*past{}
	var began time.Duration
	for _, a := range all {
		switch {
		case a.prompt < 1:
			t.leave("llm_send tells no prompt_tokens", 1)
			continue
		case a.output < 1:
			t.leave("no output_tokens are told: they failed, or were given up early", 1)
			continue
		case a.hasFirst && a.first < a.send || a.hasLast && (a.last < a.first || !a.hasFirst):
			t.leave("tokens come before they are asked for", 1)
			continue
		}
		if len(t.asked) == 0 {
			began = a.send
		}
		p := sessions[a.id.Session]
		if p == nil {
			p = &past{turn: a.id.Turn}
			sessions[a.id.Session] = p
		}
		if p.turn != a.id.Turn {
			p.turn, p.before = a.id.Turn, p.now
		}
		if a.trimmed != p.trimmed {
			p.trimmed, p.before = a.trimmed, 0
		}
		p.now = a.prompt
		r := asked{Arrival: serving.Arrival{At: a.send - began, Prompt: int(a.prompt), Output: int(a.output)}}
		if system > 0 {
			r.shared = serving.Span{Key: 1, Tokens: min(system, r.Prompt)}
		}
		r.session = serving.Span{Key: uint64(a.id.Session) + 2, Tokens: min(max(int(p.before), system), r.Prompt)}
		if a.hasFirst && a.hasLast && !a.dropped {
			r.Measured, r.First, r.Last = true, a.first-a.send, a.last-a.send
		}
		t.connected = t.connected || a.connected
		t.asked = append(t.asked, r)
	}
}

// attrInt returns a number of an event, or 0.
func attrInt(e *trace.Event, key string) int64 {
	for _, a := range e.Attrs {
		if a.Key == key {
			return a.Int
		}
	}
	return 0
}

// runPath says which file of a run a mistake is in.
func runPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, report.EventsFile)
	}
	return path
}
