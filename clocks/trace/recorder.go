package trace

import (
	"context"
	"fmt"
	"sync"
	"time"

	"firstsound/clocks"
)

// A Recorder turns marks into events. It may be used by several goroutines.
type Recorder struct {
	clock clocks.Clock
	mu    sync.Mutex
	out   *clocks.Outbox[Event]
	refs  []Ref // from which the causes of events are cut
	attrs []Attr
}

// NewRecorder returns a Recorder that calls emit for one event at a time, in
// the order in which they are recorded. emit must not change what the event
// points to, and must not wait.
func NewRecorder(c clocks.Clock, emit func(Event)) *Recorder {
	return &Recorder{clock: c, out: clocks.NewOutbox(c, emit)}
}

// Open returns the Turn that marks events for id.
func (r *Recorder) Open(id ID) *Turn { return &Turn{r: r, id: id} }

// A Turn records the events of one turn. A nil *Turn records nothing.
type Turn struct {
	r      *Recorder
	id     ID
	seq    Ref
	closed bool
}

// ID returns which turn t is.
func (t *Turn) ID() ID { return t.id }

// Mark records that the turn passes m now, having waited for causes. It
// returns what later marks name as their cause.
func (t *Turn) Mark(m Mark, causes ...Ref) Ref {
	if t == nil {
		return None
	}
	return t.Record(Event{At: t.r.clock.Now(), Mark: m, Causes: t.Refs(causes...)})
}

// Refs returns a copy of refs for the Causes of an event, without those that are
// None. Events are many: it costs a fraction of a slice of its own.
func (t *Turn) Refs(refs ...Ref) []Ref {
	if t == nil {
		return nil
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if cap(t.r.refs)-len(t.r.refs) < len(refs) {
		t.r.refs = make([]Ref, 0, max(256, len(refs)))
	}
	from := len(t.r.refs)
	for _, r := range refs {
		if r != None {
			t.r.refs = append(t.r.refs, r)
		}
	}
	return t.r.refs[from:len(t.r.refs):len(t.r.refs)]
}

// Attrs returns a copy of attrs for the Attrs of an event, as Refs does.
func (t *Turn) Attrs(attrs ...Attr) []Attr {
	if t == nil || len(attrs) == 0 {
		return nil
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if cap(t.r.attrs)-len(t.r.attrs) < len(attrs) {
		t.r.attrs = make([]Attr, 0, max(64, len(attrs)))
	}
	from := len(t.r.attrs)
	t.r.attrs = append(t.r.attrs, attrs...)
	return t.r.attrs[from:len(t.r.attrs):len(t.r.attrs)]
}

// Record is Mark with all that an event can hold. It fills in the turn and the
// number of the event. An event that comes after TurnClosed is recorded as a
// fault, and so is one whose time is not on the run's clock: before it began,
// or later than now.
func (t *Turn) Record(e Event) Ref {
	if t == nil {
		return None
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	now := t.r.clock.Now()
	switch {
	case t.closed:
		t.fault(now, fmt.Sprintf("%s came after the turn was closed", e.Mark))
		return None
	case e.At < 0 || e.At > now:
		t.fault(now, fmt.Sprintf("%s is at %d ns, which is not on the run's clock (now %d ns)", e.Mark, int64(e.At), int64(now)))
		return None
	}
	e.Causes = withoutNone(e.Causes)
	t.seq++
	e.ID, e.Seq = t.id, t.seq
	t.closed = e.Mark == TurnClosed
	t.r.out.Put(e)
	return e.Seq
}

func (t *Turn) fault(now time.Duration, text string) {
	t.seq++
	t.r.out.Put(Event{At: now, ID: t.id, Seq: t.seq, Mark: Fault, Attrs: []Attr{{Key: AttrError, Text: text}}})
}

// withoutNone drops the causes that never happened.
func withoutNone(refs []Ref) []Ref {
	out := refs[:0]
	for _, r := range refs {
		if r != None {
			out = append(out, r)
		}
	}
	return out
}

type contextKey struct{}

// NewContext returns a context that carries t to the stages below.
func NewContext(ctx context.Context, t *Turn) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// FromContext returns the Turn that ctx carries, or nil.
func FromContext(ctx context.Context) *Turn {
	t, _ := ctx.Value(contextKey{}).(*Turn)
	return t
}
