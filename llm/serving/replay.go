package serving

import (
	"fmt"
	"time"
)

// Replay puts the arrivals of a trace through a server and returns a record for
// each, in their order.
func Replay(trace []Arrival, o Options) ([]Record, error) {
	r, _, err := ReplayStats(trace, o)
	return r, err
}

// ReplayStats is Replay that also returns what the server counted.
func ReplayStats(trace []Arrival, o Options) ([]Record, Stats, error) {
	var loop Loop
	s, err := New(&loop, o)
	if err != nil {
		return nil, Stats{}, err
	}
	jobs := make([]*Job, 0, len(trace))
	var failed error
	var next func()
	next = func() {
		i := len(jobs)
		a := trace[i]
		j, err := s.Submit(Request{Prompt: a.Prompt, Output: a.Output, Tag: i})
		if err != nil {
			failed = fmt.Errorf("request %d of the trace: %w", i+1, err)
			return
		}
		if jobs = append(jobs, j); len(jobs) < len(trace) {
			loop.At(trace[i+1].At, next)
		}
	}
	if len(trace) > 0 {
		loop.At(trace[0].At, next)
	}
	loop.Run(forever)
	if failed != nil {
		return nil, Stats{}, failed
	}
	records := make([]Record, len(jobs))
	for i, j := range jobs {
		records[i] = j.Record()
	}
	return records, s.Stats(), nil
}

// Figures are the latencies of many requests, in ms.
type Figures struct {
	TTFT []float64 // time to first token
	TPOT []float64 // mean time of a token after the first; of requests with two or more
	E2E  []float64 // time to the last token
}

func (f *Figures) add(first, last time.Duration, output int) {
	f.TTFT = append(f.TTFT, float64(first)/1e6)
	f.E2E = append(f.E2E, float64(last)/1e6)
	if output > 1 {
		f.TPOT = append(f.TPOT, float64(last-first)/1e6/float64(output-1))
	}
}

// FiguresOf returns those of the requests that finished.
func FiguresOf(records []Record) (f Figures) {
	for _, r := range records {
		if r.State == Finished {
			f.add(r.TTFT(), r.E2E(), r.Output)
		}
	}
	return f
}

// MeasuredFigures returns those that a trace carries.
func MeasuredFigures(trace []Arrival) (f Figures) {
	for _, a := range trace {
		if a.Measured {
			f.add(a.First, a.Last, a.Output)
		}
	}
	return f
}
