package exchange

import (
	"sync"
	"time"

	"firstsound/clocks/arrival"
)

// marks are when the parts of one response arrived: what a scanner of the
// connection saw of it. The scanner runs ahead of whoever reads the body, so a
// byte is looked up by its place in the body.
type marks struct {
	mu     sync.Mutex
	blocks []mark // ends of header blocks, 1xx included, trailers too
	body   []mark // of what was not taken yet
	head   int    // index of the first of them
	end    int64  // bytes of the body that arrived
}

// A mark says when the bytes up to a place came.
type mark struct {
	end   int64
	stamp arrival.Stamp
	// before is the arrival of the read before, if there was one.
	before time.Duration
	known  bool
}

// The bounds of what is kept of one response. Past keepBody the bytes join the
// last mark, as segments do that lie unread in the kernel: the last one's
// arrival counts, and the first one's bound.
const (
	keepBlocks = 16
	keepBody   = 1 << 16
)

// take returns a mark for what conn's last read brought.
func take(conn *arrival.Conn) mark {
	m := mark{stamp: conn.Last()}
	if b, ok := conn.Before(); ok {
		m.before, m.known = b.Arrived, true
	}
	return m
}

// block notes that a block of headers is complete.
func (l *marks) block(m mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.blocks) < keepBlocks {
		l.blocks = append(l.blocks, m)
	}
}

// add notes n bytes of the body.
func (l *marks) add(n int, m mark) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += int64(n)
	if last := len(l.body) - 1; last >= l.head {
		switch {
		case l.body[last].stamp.N == m.stamp.N:
			l.body[last].end = l.end
			return
		case last-l.head+1 >= keepBody:
			l.body[last].end, l.body[last].stamp = l.end, m.stamp
			return
		}
	}
	if l.head > 0 && len(l.body) == cap(l.body) {
		l.body = l.body[:copy(l.body, l.body[l.head:])]
		l.head = 0
	}
	m.end = l.end
	l.body = append(l.body, m)
}

// ahead returns how many bytes after off have arrived.
func (l *marks) ahead(off int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end - off
}

// at returns the mark of the byte at off, and forgets those before it. It is
// false for a byte that was not seen.
func (l *marks) at(off int64) (mark, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.head < len(l.body) && l.body[l.head].end <= off {
		l.head++
	}
	if l.head == len(l.body) {
		l.body, l.head = l.body[:0], 0
		return mark{}, false
	}
	return l.body[l.head], true
}

// headers returns the mark of the final headers, which came after so many
// blocks of 1xx.
func (l *marks) headers(informational int) (mark, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if informational >= len(l.blocks) {
		return mark{}, false
	}
	return l.blocks[informational], true
}
