package clocks

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// An Outbox passes values on to one function, one at a time and in order of time.
// Any number of goroutines may use it, those that GoApart started too: what
// happens in them at the same time comes in the order in which it was asked for.
type Outbox[T any] struct {
	v      *Virtual // nil: a Real clock
	mu     sync.Mutex
	pass   func(T)
	kept   [][]T    // in blocks, which stay where they are as it grows
	keys   []key    // of each value in these
	from   []origin // of these: one for all that came of one timer
	room   *room    // of the last one
	events uint64   // at the last one
	sorted []key    // in order, when they are passed on
	ends   []int32  // of the parts of sorted
}

// block is how many values are kept together.
const block = 256

// A key says where a kept value belongs.
type key struct {
	at   time.Duration
	i    int32 // in kept
	from int32 // in from
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
	if len(o.from) == 0 || o.room != o.v.room || o.events != o.v.events {
		o.room, o.events = o.v.room, o.v.events
		o.from = append(o.from, o.v.from)
	}
	n := len(o.keys)
	if n == len(o.kept)*block {
		o.kept = append(o.kept, make([]T, block))
	}
	o.kept[n/block][n%block] = x
	o.keys = append(o.keys, key{o.v.now, int32(n), int32(len(o.from) - 1)})
}

// flush passes on what has been kept.
func (o *Outbox[T]) flush() {
	if len(o.keys) == 0 {
		return
	}
	o.sort()
	for _, k := range o.sorted {
		o.pass(o.kept[k.i/block][k.i%block])
	}
	for _, values := range o.kept[:(len(o.keys)+block-1)/block] {
		clear(values)
	}
	o.from, o.keys = o.from[:0], o.keys[:0]
}

// sort puts the keys in order. Their times are spread over all that the rooms have
// gone, so it deals them out to parts of that, about one to a key: it takes a
// fraction of the time of comparing them all.
func (o *Outbox[T]) sort() {
	n := len(o.keys)
	first, last := o.keys[0].at, o.keys[0].at
	for _, k := range o.keys {
		first, last = min(first, k.at), max(last, k.at)
	}
	shift := max(0, bits.Len64(uint64(last-first))-bits.Len(uint(n)))
	parts := int((last-first)>>shift) + 1
	o.ends = slices.Grow(o.ends[:0], parts)[:parts]
	o.sorted = slices.Grow(o.sorted[:0], n)[:n]
	clear(o.ends)
	for _, k := range o.keys {
		o.ends[(k.at-first)>>shift]++
	}
	end := int32(0)
	for i, in := range o.ends {
		o.ends[i] = end // so far
		end += in
	}
	for _, k := range o.keys {
		to := &o.ends[(k.at-first)>>shift]
		o.sorted[*to] = k
		*to++
	}
	begin := int32(0)
	for _, end := range o.ends {
		if end-begin > 1 {
			slices.SortFunc(o.sorted[begin:end], o.compare)
		}
		begin = end
	}
}

func (o *Outbox[T]) compare(a, b key) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Or(slices.Compare(o.from[a.from][:], o.from[b.from][:]), cmp.Compare(a.i, b.i))
}
