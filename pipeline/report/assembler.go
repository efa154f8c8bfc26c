package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"firstsound/clocks/trace"
)

// A Limit is a time that may not be known.
type Limit struct {
	At    time.Duration // since the run began
	Known bool
}

// An Assembler puts the events of a run together into turns. It keeps only the
// turns that are open, so its memory does not grow with the run. One goroutine
// at a time may use it.
type Assembler struct {
	// Events counts what Add was given.
	Events int64

	emit     func(*Turn)
	a        *analysis
	open     map[trace.ID]*pending
	free     []*pending
	newest   *pending // the turn of the latest event
	closed   map[trace.ID]bool
	ring     []trace.ID // the turns that were closed last, to know late events
	ringAt   int
	problems Problems
}

// A pending is a turn that is open.
type pending struct {
	id       trace.ID
	events   []trace.Event
	problems []Problem
}

// ringSize is how many closed turns the Assembler remembers.
const ringSize = 1024

// NewAssembler returns an Assembler that calls emit with each turn when it
// closes. The turn is valid during the call only: see Turn.Clone. The run's end
// may be given, to find events that come after it. The what-if of every turn
// makes a stage faster by percent, from 0 to 100; anything else is an error.
func NewAssembler(end Limit, percent int, emit func(*Turn)) (*Assembler, error) {
	if percent < 0 || percent > 100 {
		return nil, fmt.Errorf("report: what-if of %d %%: give a percentage from 0 to 100", percent)
	}
	return &Assembler{
		emit: emit, a: newAnalysis(end, percent),
		open: map[trace.ID]*pending{}, closed: map[trace.ID]bool{},
	}, nil
}

// Add takes the next event. What it points to must stay as it is until the turn
// closes.
func (s *Assembler) Add(e *trace.Event) {
	s.Events++
	p := s.newest
	if p == nil || p.id != e.ID {
		if p = s.find(e); p == nil {
			return
		}
		s.newest = p
	}
	seq := e.Seq
	if n := len(p.events); seq == trace.None {
		seq = 1
		if n > 0 {
			seq = p.events[n-1].Seq + 1
		}
	} else if n > 0 && seq <= p.events[n-1].Seq {
		p.problems = append(p.problems, Problem{e.ID, seq, fmt.Sprintf("%s has seq %d, but %d came before it; it is left out", e.Mark, seq, p.events[n-1].Seq)})
		return
	}
	p.events = append(p.events, *e)
	p.events[len(p.events)-1].Seq = seq
	if e.Mark == trace.TurnClosed {
		s.close(p, true)
	}
}

// find returns the open turn of e, which it opens if need be, or nil if e comes
// too late.
func (s *Assembler) find(e *trace.Event) *pending {
	p := s.open[e.ID]
	if p != nil {
		return p
	}
	if s.closed[e.ID] || e.Seq > 1 && e.Mark != trace.TurnOpened {
		s.late(e)
		return nil
	}
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	} else {
		p = &pending{}
	}
	p.id = e.ID
	s.open[e.ID] = p
	return p
}

// late notes an event of a turn that is not open. Of a fault, the text says it.
func (s *Assembler) late(e *trace.Event) {
	why := fmt.Sprintf("%s at %d ns belongs to a turn that is closed, or whose beginning is not among the events", e.Mark, int64(e.At))
	if e.Mark == trace.Fault {
		why = text(e, trace.AttrError)
	}
	s.problems.add(Problem{e.ID, e.Seq, why})
}

// close analyses a turn and hands it out.
func (s *Assembler) close(p *pending, closed bool) {
	t := s.a.analyse(p.id, p.events, p.problems, closed)
	s.emit(t)
	delete(s.open, p.id)
	s.remember(p.id)
	if s.newest == p {
		s.newest = nil
	}
	p.events, p.problems = p.events[:0], p.problems[:0]
	s.free = append(s.free, p)
}

// remember notes that the turn is closed, and forgets the oldest.
func (s *Assembler) remember(id trace.ID) {
	if len(s.ring) < ringSize {
		s.ring = append(s.ring, id)
	} else {
		delete(s.closed, s.ring[s.ringAt])
		s.ring[s.ringAt] = id
		s.ringAt = (s.ringAt + 1) % ringSize
	}
	s.closed[id] = true
}

// Close hands out the turns that are still open, in the order of their IDs, as
// unfinished. It returns what was wrong with events that belong to no turn.
func (s *Assembler) Close() Problems {
	s.giveUp(func(trace.ID) bool { return true })
	return s.problems
}

// End hands out the turns of a session that are still open, as Close does: nothing
// more comes of it, and the run goes on.
func (s *Assembler) End(session int) {
	s.giveUp(func(id trace.ID) bool { return id.Session == session })
}

// giveUp closes the open turns that are meant, in the order of their IDs, as
// unfinished.
func (s *Assembler) giveUp(meant func(trace.ID) bool) {
	var left []*pending
	for id, p := range s.open {
		if meant(id) {
			left = append(left, p)
		}
	}
	slices.SortFunc(left, func(a, b *pending) int {
		return cmp.Or(a.id.Session-b.id.Session, a.id.Turn-b.id.Turn)
	})
	for _, p := range left {
		s.close(p, false)
	}
}

// Problems counts what was wrong, and keeps the first of it.
type Problems struct {
	Count int64
	First []Problem // at most MaxProblems
}

// MaxProblems is how many problems a report shows; the rest is counted.
const MaxProblems = 20

func (p *Problems) add(q Problem) {
	p.Count++
	if len(p.First) < MaxProblems {
		p.First = append(p.First, q)
	}
}
