package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"firstsound/llm/serving"
)

// A player plays a trace to a fleet of modelled servers.
type player struct {
	trace     *recordedTrace
	fleet     serving.FleetOptions
	neighbour *serving.Neighbour
	seed      uint64
	progress  *counter

	loop    serving.Loop
	servers []*serving.Server // all that there ever were
	jobs    []*serving.Job    // nil: no replica took the request
	ended   int
	stats   []serving.Stats // of servers, when the last request ended
	failed  error
}

// slice is how long the model runs, by its clock, between two looks at whether
// somebody wants it to stop.
const slice = 10 * time.Second

func (p *player) play(ctx context.Context) error {
	fleet, err := serving.NewFleet(&p.loop, p.fleet)
	if err != nil {
		return usageError{err}
	}
	p.meet(fleet)
	if p.neighbour != nil {
		if err := p.neighbour.Move(&p.loop, p.seed, fleet.Submit); err != nil {
			return usageError{err}
		}
	}
	all := p.trace.asked
	p.jobs = make([]*serving.Job, 0, len(all))
	one := func() {
		p.ended++
		p.progress.one()
		if p.ended == len(all) { // a neighbour goes on
			p.loop.At(p.loop.Now(), func() {
				p.meet(fleet)
				for _, s := range p.servers {
					p.stats = append(p.stats, s.Stats())
				}
			})
		}
	}
	told := func(e serving.Event) {
		if e.Kind == serving.Done || e.Kind == serving.Failed {
			one()
		}
	}
	var next func()
	next = func() {
		i := len(p.jobs)
		a := &all[i]
		job, err := fleet.Submit(serving.Request{Prompt: a.Prompt, Output: a.Output, Shared: a.shared, Session: a.session, Told: told, Tag: i})
		if errors.Is(err, serving.ErrNoReplica) {
			one()
		} else if err != nil {
			p.failed = fmt.Errorf("%s: request %d, at %v: %w", p.trace.path, i+1, a.At, err)
			return
		}
		if p.fleet.Autoscale != nil {
			p.meet(fleet)
		}
		if p.jobs = append(p.jobs, job); len(p.jobs) < len(all) && ctx.Err() == nil {
			p.loop.At(all[i+1].At, next)
		}
	}
	p.loop.At(all[0].At, next)
	for end := slice; p.ended < len(all) && p.failed == nil; end += slice {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %d requests", p.ended, len(all))
		}
		p.loop.Run(end)
	}
	return p.failed
}

// meet remembers the servers of a fleet: it forgets those that have ended.
func (p *player) meet(f *serving.Fleet) {
	known := map[*serving.Server]bool{}
	for _, s := range p.servers {
		known[s] = true
	}
	for _, s := range f.Servers() {
		if !known[s] {
			p.servers = append(p.servers, s)
		}
	}
}
