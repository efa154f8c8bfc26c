package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"time"

	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/pipeline"
	"firstsound/pipeline/callersim"
	"firstsound/pipeline/load"
	"firstsound/pipeline/scenario"
)

// An assembly is a scenario made of parts that can be run.
type assembly struct {
	clock  clocks.Clock
	plan   load.Plan
	caller *callersim.Caller
	line   func(session int) pipeline.Line
	pipe   pipeline.Options
	ends   []func() // to be called when the run is over, the last first
	pace   *pace    // how late sound came to a real recognizer; nil on a virtual clock
}

// assemble makes the parts that s asks for. Warnings are about the recordings.
func assemble(ctx context.Context, s *scenario.Scenario, clock clocks.Clock) (*assembly, []string, error) {
	recordings, warnings, err := loadCorpus(s.Corpus)
	if err != nil {
		return nil, nil, err
	}
	a := &assembly{clock: clock}
	e := env{clock: clock, seed: s.Seed, getenv: os.Getenv, atEnd: func(f func()) { a.ends = append(a.ends, f) }}
	if _, real := clock.(*clocks.Real); real {
		e.pace = newPace(clock)
		e.sent, a.pace = e.pace.wrote, e.pace
	}
	if a.plan, err = plan(ctx, s); err != nil {
		return nil, nil, err
	}
	if a.line, err = lines.make(e, s.Line); err != nil {
		return nil, nil, err
	}
	if a.pipe, err = pipe(s, e); err != nil {
		return nil, nil, err
	}
	a.plan.Apart = apart(a.pipe)
	c := s.Conversation
	a.caller, err = callersim.New(s.Seed, runID(s), recordings, callersim.Options{
		Languages: c.Languages, Gap: c.Gap, BargeIn: c.BargeIn, BargeInAfter: c.BargeInAfter,
	})
	return a, warnings, err
}

// apart says whether the calls have nothing to do with each other: no model
// serves several of them together.
func apart(o pipeline.Options) bool {
	return !slices.ContainsFunc(o.LLM, func(m pipeline.Named[llm.Model]) bool {
		s, ok := m.Use.(interface{ Shared() bool })
		return ok && s.Shared()
	})
}

func loadCorpus(dir string) ([]*audio.Utterance, []string, error) {
	if dir == "" {
		list, err := corpus.Embedded()
		return list, nil, err
	}
	return corpus.Load(dir)
}

// runID is the head of a run's request IDs: it follows from the scenario and its
// seed, so that the same run has the same IDs.
func runID(s *scenario.Scenario) string {
	h := fnv.New32a()
	fmt.Fprint(h, s.Seed, s.YAML())
	return fmt.Sprintf("fs-%08x", h.Sum32())
}

func plan(ctx context.Context, s *scenario.Scenario) (load.Plan, error) {
	p := load.Plan{
		Arrival: load.Arrival(s.Load.Arrival), Sessions: s.Load.Sessions, Rate: s.Load.Rate, CV: s.Load.CV,
		Turns: s.Load.Turns, Warmup: s.Load.Warmup, PerCall: s.Conversation.Turns,
		Spread: s.Conversation.Lengths == scenario.Geometric, Duration: s.Load.Duration, Seed: s.Seed,
	}
	if p.Arrival != load.Trace {
		return p, nil
	}
	recorded, err := readTrace(ctx, s.Load.Trace, "auto")
	if err != nil {
		return p, err
	}
	for _, a := range recorded.asked {
		p.Times = append(p.Times, a.At)
	}
	return p, nil
}

// pipe makes the stages.
func pipe(s *scenario.Scenario, e env) (o pipeline.Options, err error) {
	o = pipeline.Options{
		Clock:  e.clock,
		Params: llm.Params{Model: s.LLM.Model, MaxTokens: s.LLM.MaxTokens, Temperature: s.LLM.Temperature},
		Retry:  pipeline.Retry{Attempts: s.LLM.Attempts, Timeout: s.LLM.Timeout, Backoff: s.LLM.Backoff},
		Speech: pipeline.Retry{Attempts: s.TTS.Attempts, Timeout: s.TTS.Timeout, Backoff: s.TTS.Backoff},
		Cut:    pipeline.Cutting{Mode: s.Cut.Mode, Words: s.Cut.Words, LookAhead: s.Cut.LookAhead},
		Memory: pipeline.Memory{
			System: s.Conversation.SystemPrompt, SystemTokens: s.Conversation.SystemPromptTokens,
			MaxMessages: s.Conversation.MaxMessages, MaxTokens: s.Conversation.MaxTokens,
			SummarizeAbove: s.Conversation.SummarizeAbove, SummaryTokens: s.Conversation.SummaryTokens,
		},
		ASRTimeout: s.ASR.Timeout,
		Turn: pipeline.Endpointing{
			Server: s.Turn.Server, MinDelay: s.Turn.MinDelay, Add: s.Turn.Add,
			MaxDelay: s.Turn.MaxDelay, Preemptive: s.Turn.Preemptive,
		},
		Agent: pipeline.Agent{Parallel: s.Agent.Parallel, Filler: s.Agent.Filler, FillerAfter: s.Agent.FillerAfter},
	}
	if o.VAD, err = vads.make(e, s.VAD); err != nil {
		return o, err
	}
	if o.ASR, err = recognizers.make(e, s.ASR.Block); err != nil {
		return o, err
	}
	if o.Turn.Detector, err = detectors.make(e, s.Turn.Block); err != nil {
		return o, err
	}
	if o.Agent.Steps, err = makeSteps(e, s.Agent.Steps); err != nil {
		return o, err
	}
	if o.Agent.Tools, err = makeSteps(e, s.Agent.Tools); err != nil {
		return o, err
	}
	if o.LLM, err = makeAll(models, e, s.LLM.Block, s.LLM.Fallback); err != nil {
		return o, err
	}
	o.TTS, err = makeAll(synthesizers, e, s.TTS.Block, s.TTS.Fallback)
	return o, err
}

func makeSteps(e env, blocks []scenario.Step) ([]pipeline.Named[pipeline.Step], error) {
	var made []pipeline.Named[pipeline.Step]
	for _, b := range blocks {
		e.name = b.Name
		step, err := steps.make(e, b.Block)
		if err != nil {
			return nil, err
		}
		made = append(made, pipeline.Named[pipeline.Step]{Name: b.Name, Use: step})
	}
	return made, nil
}

// makeAll makes the provider of a stage and those that take over from it.
func makeAll[T any](t table[T], e env, first scenario.Block, fallback []scenario.Block) ([]pipeline.Named[T], error) {
	var made []pipeline.Named[T]
	for i, b := range append([]scenario.Block{first}, fallback...) {
		use, err := t.make(e, b)
		if err != nil {
			return nil, err
		}
		name := b.Provider
		if i > 0 {
			name = fmt.Sprintf("%s.%d", b.Provider, i+1)
		}
		made = append(made, pipeline.Named[T]{Name: name, Use: use})
	}
	return made, nil
}

// run plays all calls. emit is given every event; the end is when the last call
// was over, on the run's clock.
func (a *assembly) run(ctx context.Context, emit func(trace.Event)) (end time.Duration, err error) {
	defer func() {
		for _, end := range slices.Backward(a.ends) {
			end()
		}
	}()
	recorder := trace.NewRecorder(a.clock, emit)
	drive := func() error {
		return a.plan.Drive(ctx, a.clock, func(ctx context.Context, call load.Call) error {
			var due *time.Duration
			if a.plan.Arrival != load.Closed {
				due = &call.At
			}
			return a.pipe.Run(ctx, pipeline.Call{
				Session: call.Number, Line: a.line(call.Number), Recorder: recorder,
				Script: a.caller.Call(call.Number, call.Turns, call.Warmup, due),
			})
		})
	}
	v, ok := a.clock.(*clocks.Virtual)
	if !ok {
		err = drive()
		return a.clock.Now(), err
	}
	v.Go("load", func() { err = drive() })
	if stuck := v.Run(ctx); stuck != nil {
		err = stuck
	}
	return v.Now(), err
}
