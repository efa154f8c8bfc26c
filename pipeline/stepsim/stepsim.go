// Package stepsim is a model of a piece of the agent's work: a retrieval, a
// moderation, a tool. It takes time, and its result makes the prompt longer.
package stepsim

import (
	"context"
	"errors"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

// Options are the constants of one step.
type Options struct {
	Name   string      `yaml:"name"`
	Time   random.Dist `yaml:"time"`
	Tokens int         `yaml:"tokens"` // of what it returns to the model
	Fail   float64     `yaml:"fail"`   // how often it fails, 0 … 1
}

// A Step is the model. It implements pipeline.Step.
type Step struct {
	clock clocks.Clock
	seed  uint64
	o     Options
}

// New returns a Step that draws from seed.
func New(clock clocks.Clock, seed uint64, o Options) *Step { return &Step{clock, seed, o} }

// Do waits and returns a result of the configured length.
func (s *Step) Do(ctx context.Context, id trace.ID, n int, _ string) (string, int, error) {
	source := random.New(s.seed, "step."+s.o.Name, id.Session, id.Turn, n)
	if err := s.clock.Sleep(ctx, s.o.Time.Draw(&source)); err != nil {
		return "", 0, err
	}
	if source.Chance(s.o.Fail) {
		return "", 0, errors.New("failed, as its scenario has it")
	}
	return "(result of " + s.o.Name + ")", s.o.Tokens, nil
}
