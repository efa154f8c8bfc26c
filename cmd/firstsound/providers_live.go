package main

import (
	"errors"
	"strings"
	"time"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/wire"
	"firstsound/pipeline/scenario"
)

// live is a provider that is a real service or engine: it needs the computer's
// clock. What build opens it hands to env.atEnd.
func live[T, O any](name, about string, defaults func() O, build func(env, O) (T, error)) choice[T] {
	c := opened(name, about, defaults, build)
	open := c.make
	c.make = func(e env, b scenario.Block) (none T, err error) {
		if _, real := e.clock.(*clocks.Real); !real {
			return none, b.Errorf("provider", "%s is a real one: it needs clock: real", name)
		}
		return open(e, b)
	}
	return c
}

// opened is a provider that can be missing here. What build opens it hands to
// env.atEnd.
func opened[T, O any](name, about string, defaults func() O, build func(env, O) (T, error)) choice[T] {
	return choice[T]{
		provider: provider{name: name, about: about, options: defaults()},
		make: func(e env, b scenario.Block) (made T, err error) {
			o := defaults()
			if err := b.Decode(&o); err != nil {
				return made, err
			}
			if made, err = build(e, o); err != nil {
				return made, b.Refuse(err)
			}
			return made, nil
		},
	}
}

// maxAnswer is the longest that an answer of a language model may take.
const maxAnswer = 10 * time.Minute

// modelOptions are what a scenario says of a language model over the wire. The
// model, max_tokens and temperature are keys of the stage.
type modelOptions struct {
	URL       string `yaml:"url" about:"Where it is: the host, its API, or the endpoint itself. Empty: the service's own."`
	Dialect   string `yaml:"dialect" about:"Of chat completions, such as vllm or dashscope. auto: by the host."`
	KeyEnv    string `yaml:"key_env" about:"The environment variable with the key. Empty: the service's usual one, where it is set."`
	HTTP      string `yaml:"http" about:"1.1, 2 or auto."`
	CAFile    string `yaml:"ca_file" about:"Certificate of an authority of your own (PEM)."`
	ExtraBody string `yaml:"extra_body" about:"More fields of the request, as JSON; null takes one away."`
}

// liveModel is a language model over the wire. A dialect of its own leaves no
// choice.
func liveModel(name, about, dialect string) choice[llm.Model] {
	defaults := func() modelOptions { return modelOptions{Dialect: dialect, HTTP: "1.1"} }
	return live(name, about, defaults, func(e env, o modelOptions) (llm.Model, error) {
		f := serviceFlags{url: o.URL, dialect: o.Dialect, keyEnv: o.KeyEnv, http: o.HTTP, caFile: o.CAFile, extraBody: o.ExtraBody}
		return e.model(f)
	})
}

// flagsAsKeys puts the scenario's key in the place of the flag of bench and probe.
var flagsAsKeys = strings.NewReplacer("--api-key-env", "key_env", "--dialect", "dialect", "--http takes", "http: takes", "--ca-file", "ca_file", "--extra-body takes", "extra_body: takes")

// model opens a language model over the wire.
func (e env) model(f serviceFlags) (llm.Model, error) {
	f.timeout = maxAnswer // the scenario's llm.timeout comes before it
	s, err := f.open(e.getenv, nil)
	if err != nil {
		text := strings.TrimPrefix(flagsAsKeys.Replace(err.Error()), "llm: openai: ")
		if strings.Contains(text, "address") {
			text = "url: " + text
		}
		return nil, errors.New(text)
	}
	client := s.client(e.clock, wire.Options{}, false)
	e.atEnd(client.Close)
	return client, nil
}
