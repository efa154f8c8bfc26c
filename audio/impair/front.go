package impair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Pool makes the relays of many calls. Where there is no room for one more, the one
// that has been quiet for the longest time, if that is Idle, is taken to be over.
type Pool struct {
	o    Options
	most int
	ctx  context.Context

	mu    sync.Mutex
	open  []*Relay
	calls int
	free  [2]int // of those that are closed
}

// Idle is after how long without a packet a call may be over. A WebRTC call sends
// checks every few seconds, even in silence (RFC 7675).
const Idle = 15 * time.Second

// ErrFull says that there are too many calls.
var ErrFull = errors.New("impair: there are too many calls")

// NewPool returns a Pool of up to so many calls at a time. All relays end with ctx.
func NewPool(ctx context.Context, o Options, most int) *Pool {
	return &Pool{o: o, most: most, ctx: ctx, calls: o.Call}
}

// Open returns a relay for one more call, whose number is its Options.Call, counted
// from 1. Its error is ErrFull if there is no room.
func (p *Pool) Open() (*Relay, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep()
	if len(p.open) >= p.most {
		now, quietest := p.o.Clock.Now(), p.open[0]
		for _, r := range p.open {
			if r.quiet(now) > quietest.quiet(now) {
				quietest = r
			}
		}
		if quietest.quiet(now) < Idle {
			return nil, ErrFull
		}
		quietest.Close()
		p.sweep()
	}
	o := p.o
	o.Call = p.calls + 1
	r, err := NewRelay(p.ctx, o)
	if err != nil {
		return nil, err
	}
	p.calls++
	p.open = append(p.open, r)
	return r, nil
}

// sweep forgets the relays that are closed.
func (p *Pool) sweep() {
	kept := p.open[:0]
	for _, r := range p.open {
		if !r.Closed() {
			kept = append(kept, r)
			continue
		}
		for side, n := range r.Free() {
			p.free[side] += n
		}
	}
	p.open = kept
}

// Close closes all relays. It returns how many calls there have been, and how many
// packets of each side were left alone.
func (p *Pool) Close() (calls int, free [2]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.open {
		r.Close()
	}
	p.sweep()
	return p.calls - p.o.Call, p.free
}

// A Front is a UDP port in the place of an agent's, for protocols whose ports are
// known beforehand. Each address that sends to it is a call.
type Front struct {
	pool *Pool
	to   netip.AddrPort
	conn *net.UDPConn

	mu      sync.Mutex
	calls   map[netip.AddrPort]*Relay
	refused int
}

// ListenUDP returns a Front on Options.Address and Options.Port for an agent's
// address, whose calls have relays of the pool.
func ListenUDP(pool *Pool, to netip.AddrPort) (*Front, error) {
	o := pool.o
	if err := o.setAddress(); err != nil {
		return nil, fmt.Errorf("impair: a port at %w", err)
	}
	if !to.IsValid() || to.Port() == 0 {
		return nil, fmt.Errorf("impair: %v is no address to send to", to)
	}
	for _, m := range []Model{o.Up, o.Down} {
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("impair: %w", err)
		}
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(o.Address, o.Port)))
	if err != nil {
		return nil, fmt.Errorf("impair: %w", err)
	}
	return &Front{pool: pool, to: to, conn: conn, calls: map[netip.AddrPort]*Relay{}}, nil
}

// Addr returns where the front listens.
func (f *Front) Addr() netip.AddrPort { return f.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Refused returns how many packets came from clients for whom there was no room.
func (f *Front) Refused() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// Serve passes packets on until ctx ends.
func (f *Front) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { f.conn.Close() })
	defer stop()
	defer f.conn.Close()
	buf := make([]byte, 1<<16)
	for failed := 0; failed < maxFailures; {
		n, from, err := f.conn.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			failed++
			continue
		}
		failed = 0
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if r := f.relay(from); r != nil {
			r.take(r.front, from, buf[:n])
		}
	}
	return fmt.Errorf("impair: the port %v cannot be read", f.Addr())
}

// relay returns that of a client; nil if there is no room for it.
func (f *Front) relay(from netip.AddrPort) *Relay {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.calls[from]; r != nil && !r.Closed() {
		return r
	}
	r, err := f.pool.Open()
	if err != nil {
		f.refused++
		return nil
	}
	r.front = &port{conn: f.conn, side: Agent, of: f.to}
	for client, old := range f.calls {
		if old.Closed() {
			delete(f.calls, client)
		}
	}
	f.calls[from] = r
	return r
}
