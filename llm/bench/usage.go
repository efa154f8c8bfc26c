package bench

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/quantile"
	"firstsound/llm/record"
)

// How often the client looks at itself.
const (
	usageEvery = time.Second
	// A wait that does nothing but see how late it ends: a run with one request
	// at a time has too few waits of its own to tell P99 of the timers.
	canaryEvery = 50 * time.Millisecond
)

// A Monitor watches what this process uses while it measures.
type Monitor struct {
	clock    *clocks.Real
	inFlight func() int
	began    time.Duration
	cpu      time.Duration
	stop     context.CancelCauseFunc
	group    *clocks.Group

	mu  sync.Mutex
	res record.Resources
}

// Watch begins to watch. inFlight says how many requests are open.
func Watch(ctx context.Context, clock *clocks.Real, inFlight func() int) *Monitor {
	m := &Monitor{clock: clock, inFlight: inFlight, began: clock.Now(), cpu: cpuTime()}
	ctx, m.stop = clocks.WithCancel(context.WithoutCancel(ctx), clock)
	m.group, ctx = clocks.NewGroup(ctx, clock)
	m.look()
	m.group.Go("usage", func() error {
		for range clocks.Ticks(ctx, clock, usageEvery) {
			m.look()
		}
		return nil
	})
	m.group.Go("timers", func() error {
		for range clocks.Ticks(ctx, clock, canaryEvery) {
		}
		return nil
	})
	return m
}

// look takes one sample.
func (m *Monitor) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.res.PeakGoroutines = max(m.res.PeakGoroutines, runtime.NumGoroutine())
	m.res.PeakOpenFiles = max(m.res.PeakOpenFiles, openFiles())
	m.res.PeakInFlight = max(m.res.PeakInFlight, m.inFlight())
}

// Stop ends the watch and returns what was used. peak is the most requests that
// were open at once, which samples can miss.
func (m *Monitor) Stop(peak int) *record.Resources {
	m.look()
	m.stop(context.Canceled)
	m.group.Wait() // they return no errors
	m.mu.Lock()
	defer m.mu.Unlock()
	m.res.Elapsed, m.res.CPU, m.res.PeakRSS = m.clock.Now()-m.began, cpuTime()-m.cpu, peakRSS()
	m.res.PeakInFlight = max(m.res.PeakInFlight, peak)
	var late []int64
	for _, d := range m.clock.Lateness() {
		late = append(late, int64(d))
	}
	slices.Sort(late)
	for q, to := range map[float64]*time.Duration{0.5: &m.res.TimerLateP50, 0.99: &m.res.TimerLateP99, 1: &m.res.TimerLateMax} {
		v, _ := quantile.Of(late, q)
		*to = time.Duration(v)
	}
	return &m.res
}

// openFiles returns how many descriptors this process has open, or 0 where the
// system has no list of them.
func openFiles() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if names, err := os.ReadDir(dir); err == nil {
			return len(names) - 1 // the list itself was open
		}
	}
	return 0
}
