package load

import (
	"context"

	"firstsound/clocks"
)

// Drive plays the calls of p at their times: play is called for each of them in
// a goroutine of the clock, and returns when the call is over. Drive returns
// when all calls are, with the first error of play, or the cause of ctx. It is
// called in a goroutine of the clock.
func (p Plan) Drive(ctx context.Context, clock clocks.Clock, play func(ctx context.Context, call Call) error) error {
	began := clock.Now()
	g, inner := clocks.NewGroup(ctx, clock) // inner ends with the group, well or not
	start := g.Go
	if p.Apart {
		start = g.GoApart
	}
	if p.Arrival == Closed {
		for slot := range p.Slots() {
			start("caller", func() error {
				for call := range p.Slot(slot) {
					if p.Duration > 0 && clock.Now()-began >= p.Duration {
						break
					}
					if err := play(inner, call); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return g.Wait()
	}
	for call := range p.Calls() {
		if clock.SleepUntil(inner, began+call.At) != nil {
			break
		}
		start("caller", func() error { return play(inner, call) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
