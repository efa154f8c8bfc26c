// Package turnsim is a model of a semantic turn detector: it knows where the
// recording ends, takes as long as such a detector takes, and errs as often.
package turnsim

import (
	"cmp"
	"context"
	"errors"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/pipeline"
)

// Options are the constants of the model.
type Options struct {
	// Inference is how long one judgement takes.
	Inference random.Dist `yaml:"inference"`
	// Finished is how often a user who has finished is taken for one, 0 … 1.
	// The others are found out by the maximum delay.
	Finished float64 `yaml:"finished"`
	// FalseFinish is how often a pause within the speech is taken for its end.
	FalseFinish float64 `yaml:"false_finish"`
}

// Defaults are those of Smart Turn v3: 12 ms on a modern CPU (daily.co's
// announcement; the spread is an assumption), and accuracies as such detectors
// publish them for English, 90 to 95 of 100 (an assumption for what a user of
// another language or a noisy line sees).
func Defaults() Options {
	return Options{Inference: random.MustParse("lognormal(12ms, 0.25)"), Finished: 0.92, FalseFinish: 0.1}
}

// Check says what is wrong with o.
func (o Options) Check() error {
	return cmp.Or(random.Probability("finished", o.Finished), random.Probability("false_finish", o.FalseFinish))
}

// A Detector is the model. It implements pipeline.TurnDetector.
type Detector struct {
	clock clocks.Clock
	seed  uint64
	o     Options
}

// New returns a Detector that draws from seed.
func New(clock clocks.Clock, seed uint64, o Options) *Detector { return &Detector{clock, seed, o} }

// Finished waits for the inference and draws its result.
func (d *Detector) Finished(ctx context.Context, p pipeline.Pause) (bool, error) {
	u := p.Speech.Utterance()
	if u == nil {
		return false, errors.New("turn: the model of a turn detector needs a recording, and this is a live caller")
	}
	source := random.New(d.seed, "turn", p.ID.Session, p.ID.Turn, p.Number)
	if err := d.clock.Sleep(ctx, d.o.Inference.Draw(&source)); err != nil {
		return false, err
	}
	chance := d.o.FalseFinish
	if p.Heard >= u.End { // nothing comes after this pause
		chance = d.o.Finished
	}
	return source.Chance(chance), nil
}
