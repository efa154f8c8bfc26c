package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"firstsound/clocks"
)

// A counter says on a terminal how much of something is done.
type counter struct {
	mu   sync.Mutex
	w    io.Writer // nil: nobody looks
	n    int
	of   int // 0: nobody knows
	what string
	line bool

	clock *clocks.Real
	next  time.Duration // when it may say so again
}

func newCounter(s streams, of int, what string) *counter {
	c := &counter{of: of, what: what, clock: clocks.NewReal(), next: 500 * time.Millisecond}
	if s.progress {
		c.w = s.err
	}
	return c
}

func (c *counter) one() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if now := c.clock.Now(); c.w != nil && now > c.next {
		c.next = now + 100*time.Millisecond
		c.line = true
		of := ""
		if c.of > 0 {
			of = fmt.Sprintf(" of %d", c.of)
		}
		fmt.Fprintf(c.w, "\r%d%s %s ", c.n, of, c.what)
	}
}

func (c *counter) done() {
	if c.line {
		fmt.Fprint(c.w, "\r\x1b[K")
	}
}
