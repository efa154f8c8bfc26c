package impair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"firstsound/clocks"
)

// Bounds of a stream: what is read at once is one packet of the model, and so many
// of them may be under way before the sender has to wait.
const (
	chunkSize   = 4 << 10
	maxUnderWay = 64
)

// A Chunk says what happened to bytes that were read at once.
type Chunk struct {
	From Side
	Fate
	Sent time.Duration // when they had been written
}

// Entry returns c as a log has it, for the connection call.
func (c Chunk) Entry(call int) Entry {
	return Entry{From: c.From, Call: call, Way: c.From.String(), Class: ClassBytes, Fate: c.Fate, Sent: &c.Sent}
}

// Join carries bytes between two connections until both ends have closed, one of
// them breaks, or ctx ends; then both are closed. Up is from client to agent. The
// models may have delays and a rate, but no loss: see Model.CheckStream. seen, which
// may be nil, is told of each chunk, from a goroutine for each direction. The end of
// one direction is passed on when its bytes have been.
func Join(ctx context.Context, c clocks.Clock, client, agent net.Conn, up, down *Way, seen func(Chunk)) error {
	for _, w := range []*Way{up, down} {
		if err := w.m.CheckStream(); err != nil {
			client.Close()
			agent.Close()
			return fmt.Errorf("impair: stream: %w", err)
		}
		w.m.Queue = math.MaxInt64 // nothing is dropped: the sender waits
		w.hold = true
		w.Begin(c.Now())
	}
	g, ctx := clocks.NewGroup(ctx, c)
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		agent.Close()
	})
	defer stop()
	defer client.Close()
	defer agent.Close()
	g.Go("impair up", func() error { return carry(ctx, c, g, Client, agent, client, up, seen) })
	g.Go("impair down", func() error { return carry(ctx, c, g, Agent, client, agent, down, seen) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("impair: stream: %w", err)
	}
	return nil
}

type chunk struct {
	data []byte
	fate Fate
}

func carry(ctx context.Context, c clocks.Clock, g *clocks.Group, from Side, to, in net.Conn, w *Way, seen func(Chunk)) error {
	under := clocks.NewQueue[chunk](c, "bytes under way")
	room := clocks.NewQueue[struct{}](c, "room for bytes")
	for range maxUnderWay {
		room.Put(struct{}{})
	}
	g.Go("impair write", func() error {
		for b := range under.All(ctx) {
			if err := c.SleepUntil(ctx, b.fate.Out); err != nil {
				return err
			}
			if _, err := to.Write(b.data); err != nil {
				return fmt.Errorf("to the %s: %w", from.other(), err)
			}
			if seen != nil {
				seen(Chunk{from, b.fate, c.Now()})
			}
			room.Put(struct{}{})
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && ctx.Err() == nil {
			half.CloseWrite() // the other side may have gone
			return nil
		}
		to.Close()
		return nil
	})
	defer under.Close()
	for {
		if _, ok := room.Get(ctx); !ok {
			return context.Cause(ctx)
		}
		buf := make([]byte, chunkSize)
		n, err := in.Read(buf)
		if n > 0 {
			fate := w.Pass(c.Now(), n)
			under.Put(chunk{buf[:n], fate})
		}
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			return nil // closed by the other direction, if it has ended without a CloseWrite
		}
		if err != nil {
			return fmt.Errorf("from the %s: %w", from, err)
		}
	}
}

// A Proxy takes connections and joins each with one to a target.
type Proxy struct {
	o      Options
	target string
	l      net.Listener
	seen   func(call int, c Chunk)

	mu    sync.Mutex
	calls int
	open  int
}

// maxConns are the connections that a Proxy has at once.
const maxConns = 1000

// Listen returns a Proxy to target, a host and a port, on Options.Address and
// Options.Port. seen may be nil; it is told of each chunk from several goroutines.
func Listen(o Options, target string, seen func(call int, c Chunk)) (*Proxy, error) {
	for _, m := range []Model{o.Up, o.Down} {
		if err := m.CheckStream(); err != nil {
			return nil, fmt.Errorf("impair: proxy: %w", err)
		}
	}
	if err := o.setAddress(); err != nil {
		return nil, fmt.Errorf("impair: proxy: %w", err)
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(o.Address, o.Port).String())
	if err != nil {
		return nil, fmt.Errorf("impair: proxy: %w", err)
	}
	return &Proxy{o: o, target: target, l: l, seen: seen, calls: o.Call}, nil
}

// Calls returns how many connections there have been.
func (p *Proxy) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls - p.o.Call
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Serve takes connections until ctx ends. A connection that breaks, or whose target
// cannot be reached, is closed; the others go on.
func (p *Proxy) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { p.l.Close() })
	defer stop()
	defer p.l.Close()
	g, ctx := clocks.NewGroup(ctx, p.o.Clock)
	for {
		conn, err := p.l.Accept()
		if err != nil {
			ended := ctx.Err() != nil
			g.Cancel(err)
			g.Wait()
			if ended {
				return nil
			}
			return fmt.Errorf("impair: proxy: %w", err)
		}
		p.mu.Lock()
		full := p.open >= maxConns
		if !full {
			p.open++
			p.calls++
		}
		call := p.calls - 1
		p.mu.Unlock()
		if full {
			conn.Close()
			continue
		}
		g.Go("impair connection", func() error {
			p.join(ctx, call, conn)
			p.mu.Lock()
			p.open--
			p.mu.Unlock()
			return nil
		})
	}
}

func (p *Proxy) join(ctx context.Context, call int, conn net.Conn) {
	var d net.Dialer
	target, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		conn.Close()
		return
	}
	var seen func(Chunk)
	if p.seen != nil {
		seen = func(c Chunk) { p.seen(call, c) }
	}
	// Who was cut off knows; there is nobody else to tell.
	Join(ctx, p.o.Clock, conn, target, NewWay(p.o.Up, p.o.Seed, 2*call), NewWay(p.o.Down, p.o.Seed, 2*call+1), seen)
}
