package llmsim

import (
	"context"
	"slices"

	"firstsound/clocks"
	"firstsound/llm"
)

// What stands between the caller and the service: the client's own limit of
// connections, and a gateway that buffers.

// enter waits until one of MaxConnections is free, first come, first served.
func (m *Model) enter(ctx context.Context) error {
	if m.o.MaxConnections == 0 {
		return nil
	}
	m.mu.Lock()
	if m.open < m.o.MaxConnections {
		m.open++
		m.mu.Unlock()
		return nil
	}
	turn := clocks.NewQueue[struct{}](m.clock, "a connection of the model's client")
	m.waiting = append(m.waiting, turn)
	m.mu.Unlock()
	if _, ok := turn.Get(ctx); ok {
		return nil
	}
	m.mu.Lock()
	i := slices.Index(m.waiting, turn)
	if i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	}
	m.mu.Unlock()
	if i < 0 { // it was given the connection just as it gave up
		m.leave()
	}
	return context.Cause(ctx)
}

// leave gives the connection to who has waited longest.
func (m *Model) leave() {
	if m.o.MaxConnections == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		m.open--
		return
	}
	m.waiting[0].Put(struct{}{})
	m.waiting = slices.Delete(m.waiting, 0, 1)
}

// A buffer holds back what a gateway does, until the answer is whole.
type buffer struct {
	clock clocks.Clock
	yield func(llm.Delta, error) bool
	held  []llm.Delta
}

// take passes on what does not belong to the answer.
func (b *buffer) take(d llm.Delta, err error) bool {
	if err != nil || d.Kind == llm.Connected || d.Kind == llm.Headers {
		return b.yield(d, err)
	}
	b.held = append(b.held, d)
	return true
}

// release lets the answer go. All of it arrives now.
func (b *buffer) release() error {
	now := b.clock.Now()
	for _, d := range b.held {
		d.At = now
		if !b.yield(d, nil) {
			return errStopped
		}
	}
	return nil
}
