package clocks

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// An Outbox passes values on to one function, one at a time and in order of time.
// Any number of goroutines may use it, those that GoApart started too: what
// happens in them at the same time comes in the order in which it was asked for.
type Outbox[T any] struct {
	v    *Virtual // nil: a Real clock
	mu   sync.Mutex
	pass func(T)
	kept []T
	from []origin // of each of these
	keys []key    // in order, when they are passed on
}

// A key says where a kept value belongs.
type key struct {
	at time.Duration
	i  int // in kept
}

// An outbox is what a Virtual clock knows about an Outbox.
type outbox interface{ flush() }

// NewOutbox returns an Outbox that passes values on to pass. That is done at once
// where all goroutines are in step; otherwise it may wait until all have come as far.
func NewOutbox[T any](c Clock, pass func(T)) *Outbox[T] {
	o := &Outbox[T]{pass: pass}
	if v, ok := c.(*Virtual); ok {
		o.v = v
		v.outboxes = append(v.outboxes, o)
	}
	return o
}

// Put takes x. It never waits.
func (o *Outbox[T]) Put(x T) {
	if o.v == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.pass(x)
		return
	}
	if len(o.v.rooms) == 1 {
		o.pass(x)
		return
	}
	o.keys = append(o.keys, key{o.v.now, len(o.kept)})
	o.kept = append(o.kept, x)
	o.from = append(o.from, o.v.from)
}

// flush passes on what has been kept.
func (o *Outbox[T]) flush() {
	slices.SortFunc(o.keys, func(a, b key) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Or(slices.Compare(o.from[a.i][:], o.from[b.i][:]), cmp.Compare(a.i, b.i))
	})
	for _, k := range o.keys {
		o.pass(o.kept[k.i])
	}
	clear(o.kept)
	o.kept, o.from, o.keys = o.kept[:0], o.from[:0], o.keys[:0]
}
