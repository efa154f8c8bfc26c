package main

import (
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrsim"
	"firstsound/audio/netsim"
	"firstsound/audio/vad"
	"firstsound/audio/vad/fvad"
	"firstsound/audio/vad/silero"
	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/llmsim"
	"firstsound/pipeline"
	"firstsound/pipeline/scenario"
	"firstsound/pipeline/stepsim"
	"firstsound/pipeline/turnsim"
	"firstsound/tts"
	"firstsound/tts/ttssim"
)

// The providers of each stage by name. To add one, add a line.
var (
	lines = table[func(session int) pipeline.Line]{
		entry("netsim", "a modelled network and the playout buffer behind it", netsim.Defaults, func(e env, o netsim.Options) func(int) pipeline.Line {
			return func(session int) pipeline.Line { return netsim.New(e.clock, e.seed, session, o) }
		}),
	}
	vads = table[pipeline.VAD]{
		entry("energy", "by level with an adaptive floor, worked out once for each recording", vad.Defaults, func(e env, o vad.Options) pipeline.VAD {
			return vad.NewListener(e.clock, e.seed, o)
		}),
		opened("fvad", "WebRTC's detector, which runs in this program", fvad.Defaults, func(e env, o fvad.Options) (pipeline.VAD, error) {
			m, err := fvad.Open(o)
			if err != nil {
				return nil, err
			}
			e.atEnd(m.Close)
			return m.Listener(e.clock, e.seed), nil
		}),
		opened("silero", "Silero v6 by ONNX Runtime; audio/vad/silero/fetch.sh fetches both", silero.Defaults, func(e env, o silero.Options) (pipeline.VAD, error) {
			m, err := silero.Open(o)
			if err != nil {
				return nil, err
			}
			e.atEnd(m.Close)
			return m.Listener(e.clock, e.seed), nil
		}),
		nothing[pipeline.VAD]("none", "no VAD: the recognizer alone ends turns"),
	}
	recognizers = append(sims("a model of a streaming service", asrsim.Defaults, asrProfiles(), func(e env, o asrsim.Options) asr.Recognizer {
		return asrsim.New(e.clock, e.seed, o)
	}), liveRecognizers()...)
	detectors = table[pipeline.TurnDetector]{
		entry("semantic", "a model of a semantic turn detector", turnsim.Defaults, func(e env, o turnsim.Options) pipeline.TurnDetector {
			return turnsim.New(e.clock, e.seed, o)
		}),
		nothing[pipeline.TurnDetector]("none", "every stop of the VAD ends the turn"),
	}
	steps = table[pipeline.Step]{
		entry("sim", "a model of a step: it takes time and makes the prompt longer", stepsim.Defaults, func(e env, o stepsim.Options) pipeline.Step {
			return stepsim.New(e.clock, e.seed, e.name, o)
		}),
	}
	models = append(sims("a model of a language model whose times are drawn", llmsim.Defaults, llmProfiles(), func(e env, o llmsim.Options) llm.Model {
		return llmsim.New(e.clock, e.seed, o)
	}),
		liveModel("openai", "chat completions over SSE: OpenAI, vLLM, SGLang, llama.cpp, DeepSeek, Qwen and others", dialectAuto),
		liveModel("ollama", "Ollama's own API", dialectOllama),
		liveModel("anthropic", "Anthropic's messages", dialectAnthropic),
	)
	synthesizers = append(sims("a model of a streaming service", ttssim.Defaults, ttsProfiles(), func(e env, o ttssim.Options) tts.Synthesizer {
		return ttssim.New(e.clock, e.seed, o)
	}), liveSynthesizers()...)
)

// The models of services by name.

func asrProfiles() (list []profile[asrsim.Options]) {
	for _, p := range asrsim.Profiles() {
		list = append(list, profile[asrsim.Options]{p.Name, p.Source, p.Options})
	}
	return list
}

func llmProfiles() (list []profile[llmsim.Options]) {
	for _, p := range llmsim.Profiles() {
		list = append(list, profile[llmsim.Options]{p.Name, p.Source, p.Options})
	}
	return list
}

func ttsProfiles() (list []profile[ttssim.Options]) {
	for _, p := range ttssim.Profiles() {
		list = append(list, profile[ttssim.Options]{p.Name, p.Source, p.Options})
	}
	return list
}

// registry returns all providers, for `firstsound list`.
func registry() []provider {
	var all []provider
	all = lines.list(all, "line")
	all = vads.list(all, "vad")
	all = recognizers.list(all, "asr")
	all = detectors.list(all, "turn")
	all = steps.list(all, "agent.steps")
	all = steps.list(all, "agent.tools")
	all = models.list(all, "llm")
	return synthesizers.list(all, "tts")
}

// env is what a run offers to providers.
type env struct {
	clock  clocks.Clock
	seed   uint64
	name   string // of a step
	getenv func(string) string
	atEnd  func(func()) // keeps what is to be called when the run is over

	// Of real recognizers: see asr/live.Options. Nil: nobody is told.
	sent, connected func(requestID string, a, b time.Duration)
	pace            *pace // watches how late they get sound; nil: nobody does
}

// A table holds the providers of a stage, in the order in which they are shown.
type table[T any] []choice[T]

// A choice is one of them.
type choice[T any] struct {
	provider
	make func(env, scenario.Block) (T, error)
}

// entry is a provider that takes options, which begin as defaults.
func entry[T, O any](name, about string, defaults func() O, build func(env, O) T) choice[T] {
	return choice[T]{
		provider: provider{name: name, about: about, options: defaults()},
		make: func(e env, b scenario.Block) (made T, err error) {
			o := defaults()
			if err := b.Decode(&o); err != nil {
				return made, err
			}
			return build(e, o), nil
		},
	}
}

// A profile is a service by name: its source, and its model's options.
type profile[O any] struct {
	name, source string
	options      func() O
}

// sims is the model "sim" of a stage, and the same with the numbers of services:
// "sim/deepgram".
func sims[T, O any](about string, defaults func() O, profiles []profile[O], build func(env, O) T) table[T] {
	t := table[T]{entry("sim", about, defaults, build)}
	for _, p := range profiles {
		c := entry("sim/"+p.name, p.source, p.options, build)
		c.like = defaults()
		t = append(t, c)
	}
	return t
}

// nothing is a choice to do without.
func nothing[T any](name, about string) choice[T] {
	return choice[T]{
		provider: provider{name: name, about: about},
		make: func(_ env, b scenario.Block) (none T, err error) {
			return none, b.Decode(nil)
		},
	}
}

// make makes the provider that b names.
func (t table[T]) make(e env, b scenario.Block) (none T, err error) {
	var names []string
	for _, c := range t {
		if c.name == b.Provider {
			return c.make(e, b)
		}
		names = append(names, c.name)
	}
	return none, b.Errorf("provider", "there is no provider %q here; there is %s", b.Provider, strings.Join(names, ", "))
}

func (t table[T]) list(all []provider, stage string) []provider {
	for _, c := range t {
		p := c.provider
		p.stage = stage
		all = append(all, p)
	}
	return all
}
