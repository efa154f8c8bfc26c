// Package stepsim is a model of a piece of the agent's work: a retrieval, a
// moderation, a tool. It takes time, and its result makes the prompt longer.
package stepsim

import (
	"context"
	"errors"
	"fmt"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

// Options are the constants of one step.
type Options struct {
	Time   random.Dist `yaml:"time"`
	Tokens int         `yaml:"tokens"` // of what it returns to the model
	Fail   float64     `yaml:"fail"`   // how often it fails, 0 … 1
}

// Defaults are a step that takes 50 ms, about what the embedding of a question
// costs through an API (blogs; illustrative), and returns 100 tokens.
func Defaults() Options { return Options{Time: random.MustParse("lognormal(50ms, 0.4)"), Tokens: 100} }

// Check says what is wrong with o.
func (o Options) Check() error {
	if o.Tokens < 0 {
		return fmt.Errorf("tokens: %d is negative", o.Tokens)
	}
	return random.Probability("fail", o.Fail)
}

// A Step is the model. It implements pipeline.Step.
type Step struct {
	clock clocks.Clock
	seed  uint64
	name  string
	o     Options
}

// New returns the Step of this name, which draws from seed.
func New(clock clocks.Clock, seed uint64, name string, o Options) *Step {
	return &Step{clock, seed, name, o}
}

// Do waits and returns a result of the configured length.
func (s *Step) Do(ctx context.Context, id trace.ID, n int, _ string) (string, int, error) {
	source := random.New(s.seed, "step."+s.name, id.Session, id.Turn, n)
	if err := s.clock.Sleep(ctx, s.o.Time.Draw(&source)); err != nil {
		return "", 0, err
	}
	if source.Chance(s.o.Fail) {
		return "", 0, errors.New("failed, as its scenario has it")
	}
	return "(result of " + s.name + ")", s.o.Tokens, nil
}
