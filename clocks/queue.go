package clocks

import (
	"context"
	"iter"
	"sync"
)

// A Queue carries values, in order, from any number of goroutines to one.
type Queue[T any] struct {
	w      waiter
	space  virtualWaiter // for w
	room   [2]T          // for the first items: many queues never have more
	mu     sync.Mutex
	items  []T
	head   int
	closed bool
}

// NewQueue returns an empty queue. The name is for messages.
func NewQueue[T any](c Clock, name string) *Queue[T] {
	q := &Queue[T]{}
	q.Init(c, name)
	return q
}

// Init makes q an empty queue. It is NewQueue for a queue that is a part of
// something else, and that must not be copied from then on.
func (q *Queue[T]) Init(c Clock, name string) {
	q.w = c.newWaiter(name, &q.space)
	q.items = q.room[:0]
}

// lock guards q, where its goroutines may run at the same time.
func (q *Queue[T]) lock() {
	if q.space.v == nil {
		q.mu.Lock()
	}
}

func (q *Queue[T]) unlock() {
	if q.space.v == nil {
		q.mu.Unlock()
	}
}

// Put appends x. It never waits. What is put after Close is dropped.
func (q *Queue[T]) Put(x T) {
	q.lock()
	if !q.closed {
		q.items = append(q.items, x)
	}
	q.unlock()
	q.w.wake()
}

// Close says that no more values come.
func (q *Queue[T]) Close() {
	q.lock()
	q.closed = true
	q.unlock()
	q.w.wake()
}

// Get waits for the next value. It returns false once the queue is closed and
// empty, or ctx has ended.
func (q *Queue[T]) Get(ctx context.Context) (x T, ok bool) {
	for {
		x, ok, closed := q.take()
		if ok {
			return x, true
		}
		if closed || q.w.wait(ctx) != nil {
			return x, false
		}
	}
}

func (q *Queue[T]) take() (x T, ok, closed bool) {
	q.lock()
	defer q.unlock()
	if q.head == len(q.items) {
		return x, false, q.closed
	}
	var none T
	x, q.items[q.head] = q.items[q.head], none
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return x, true, q.closed
}

// All yields the values as they come, as Get returns them.
func (q *Queue[T]) All(ctx context.Context) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			if x, ok := q.Get(ctx); !ok || !yield(x) {
				return
			}
		}
	}
}
