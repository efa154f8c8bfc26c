package impair

import (
	"container/heap"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"firstsound/clocks"
)

// A Side is one end of a relay.
type Side int

// The sides. What comes from Client goes to Agent, and the other way round.
const (
	Client Side = iota
	Agent
)

func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "agent"
}

func (s Side) other() Side { return 1 - s }

// Bounds of a relay.
const (
	maxHeld  = 4096 // packets that wait for their time
	maxPorts = 32   // sockets, for both sides together: a peer has a few candidates
	logged   = 1 << 17

	maxFailures = 100 // of reading, in a row: the socket is broken
)

// Options are the settings of a Relay.
type Options struct {
	Clock clocks.Clock
	Seed  uint64
	Call  int // counts the calls of a run: each has draws of its own
	Up    Model
	Down  Model // from the agent to the client

	// Address is where the sockets are, on the loopback network unless Anywhere is
	// set. The zero value is 127.0.0.1.
	Address  netip.Addr
	Port     uint16 // of a Proxy or a Front; 0 is a free one
	Anywhere bool

	// Seen is told of each packet once nothing more will happen to it, and must not
	// wait. A Relay that has it keeps no log.
	Seen func(Entry)
}

func (o *Options) setAddress() error {
	if !o.Address.IsValid() {
		o.Address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	switch {
	case o.Address.IsUnspecified():
		return fmt.Errorf("%v: it has to be one address, which the other side is told", o.Address)
	case !o.Anywhere && !o.Address.IsLoopback():
		return fmt.Errorf("%v: it has to be on the loopback network, such as 127.0.0.1", o.Address)
	}
	return nil
}

// An Entry says what a relay did with a packet.
type Entry struct {
	Call  int    `json:"call,omitempty"`
	From  Side   `json:"-"`
	Way   string `json:"from"` // client or agent
	Class string `json:"class"`
	Fate

	// Sent is when the packet was written, by the clock; nil if it was not. What it
	// is later than Out is the relay's own doing.
	Sent *time.Duration `json:"sent_ns,omitempty"`

	// Of packets of the class rtp: what names them, which encryption leaves readable.
	SSRC      uint32 `json:"ssrc,omitempty"`
	Seq       uint16 `json:"seq,omitempty"`
	Timestamp uint32 `json:"timestamp,omitempty"`
}

// The classes of packets, by their first byte (RFC 7983, section 7).
const (
	ClassSTUN  = "stun"
	ClassDTLS  = "dtls"
	ClassRTP   = "rtp"
	ClassRTCP  = "rtcp"
	ClassOther = "other"
	ClassBytes = "bytes" // of a stream, that were read at once
)

// Class returns what a datagram is.
func Class(p []byte) string {
	if len(p) == 0 {
		return ClassOther
	}
	switch b := p[0]; {
	case b <= 3:
		return ClassSTUN
	case b >= 20 && b <= 63:
		return ClassDTLS
	case b >= 128 && b <= 191 && len(p) >= 8:
		if p[1] >= 192 && p[1] <= 223 { // RFC 5761, section 4
			return ClassRTCP
		}
		if len(p) >= 12 {
			return ClassRTP
		}
	}
	return ClassOther
}

// A Relay stands between the two peers of one call. For every address of a peer it
// has a socket of its own, which the other peer takes for that address: Rewrite puts
// them into the descriptions. Only then does anything go through it.
type Relay struct {
	o    Options
	mu   sync.Mutex
	side [2]map[netip.AddrPort]*port // by the address that a port stands for
	ways [2]*Way                     // by the side that a packet comes from
	held pending
	seq  int
	last time.Duration // the last packet, or the beginning
	free [2]int        // packets that were left alone
	log  []Entry
	lost int // entries that the log had no room for
	done bool
	end  func() bool

	front *port // what a Front has in the place of the agent's ports; nil: nothing
}

// A port is a socket that stands for an address of a side.
type port struct {
	conn *net.UDPConn
	side Side
	of   netip.AddrPort
}

// NewRelay returns a relay, which has no sockets yet. It ends with ctx, or by Close.
func NewRelay(ctx context.Context, o Options) (*Relay, error) {
	if err := o.setAddress(); err != nil {
		return nil, fmt.Errorf("impair: a relay at %w", err)
	}
	for _, m := range []struct {
		name string
		m    Model
	}{{"up", o.Up}, {"down", o.Down}} {
		if err := m.m.Check(); err != nil {
			return nil, fmt.Errorf("impair: %s: %w", m.name, err)
		}
	}
	r := &Relay{o: o, last: o.Clock.Now()}
	r.side = [2]map[netip.AddrPort]*port{{}, {}}
	r.ways = [2]*Way{NewWay(o.Up, o.Seed, 2*o.Call), NewWay(o.Down, o.Seed, 2*o.Call+1)}
	r.end = context.AfterFunc(ctx, r.close)
	return r, nil
}

// Close closes the sockets. What is still held is not sent.
func (r *Relay) Close() error {
	r.end()
	r.close()
	return nil
}

func (r *Relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	for _, h := range r.held {
		r.finish(h, nil)
	}
	r.held = nil
	for _, ports := range r.side { // the front's is not among them
		for _, p := range ports {
			p.conn.Close()
		}
	}
}

// Closed says whether the relay is closed.
func (r *Relay) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// Free returns how many packets of each side were left alone: STUN and DTLS, unless
// they are impaired.
func (r *Relay) Free() [2]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free
}

// quiet returns for how long nothing has come.
func (r *Relay) quiet(now time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now - r.last
}

// Stand returns the address of the relay's that stands for an address of a side's
// peer: what the other peer is to send to.
func (r *Relay) Stand(side Side, of netip.AddrPort) (netip.AddrPort, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.stand(side, of)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("impair: %w", err)
	}
	return p.conn.LocalAddr().(*net.UDPAddr).AddrPort(), nil
}

func (r *Relay) stand(side Side, of netip.AddrPort) (*port, error) {
	of = netip.AddrPortFrom(of.Addr().Unmap(), of.Port())
	if p := r.side[side][of]; p != nil {
		return p, nil
	}
	if side == Agent && r.front != nil {
		return r.front, nil
	}
	switch {
	case r.done:
		return nil, errors.New("the relay is closed")
	case !of.IsValid() || of.Port() == 0:
		return nil, fmt.Errorf("%v is no address to send to", of)
	case len(r.side[0])+len(r.side[1]) >= maxPorts:
		return nil, fmt.Errorf("the two peers have more than %d addresses", maxPorts)
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.o.Address, 0)))
	if err != nil {
		return nil, err
	}
	p := &port{conn, side, of}
	r.side[side][of] = p
	r.o.Clock.Go("impair relay", func() { r.read(p) })
	return p, nil
}

// read takes what the other side sends to a port.
func (r *Relay) read(p *port) {
	buf := make([]byte, 1<<16)
	for failed := 0; failed < maxFailures; {
		n, from, err := p.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			failed++ // a port that was closed on the other side, perhaps: ICE tries others
			continue
		}
		failed = 0
		r.take(p, from, buf[:n])
	}
}

// take decides what becomes of a packet that came at port p.
func (r *Relay) take(p *port, from netip.AddrPort, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	side := p.side.other()
	// It goes on from the port that stands for its sender. ICE may send from an
	// address that was in no description; the receiver then takes it for peer-reflexive.
	via, err := r.stand(side, from)
	if err != nil || r.done {
		return
	}
	e := Entry{Call: r.o.Call, From: side, Way: side.String(), Class: Class(data)}
	m := &r.o.Up
	if side == Agent {
		m = &r.o.Down
	}
	now := r.o.Clock.Now()
	r.last = now
	for _, w := range r.ways {
		w.Begin(now)
	}
	_, cut := r.ways[side].cut(now)
	if !cut && (e.Class == ClassSTUN && !m.STUN || e.Class == ClassDTLS && !m.DTLS) {
		r.free[side]++
		via.conn.WriteToUDPAddrPort(data, p.of) // not logged: it is no part of the model
		return
	}
	if e.Class == ClassRTP {
		e.Seq, e.Timestamp, e.SSRC = binary.BigEndian.Uint16(data[2:]), binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	}
	if e.Class == ClassRTP {
		e.Fate = r.ways[side].Pass(now, len(data))
	} else {
		e.Fate = r.ways[side].Control(now, len(data))
	}
	if e.Lost == Kept && len(r.held) >= maxHeld {
		e.Lost = ByRelay
	}
	index := r.note(e)
	if e.Lost != Kept {
		if r.o.Seen != nil {
			r.o.Seen(e)
		}
		return
	}
	r.seq++
	heap.Push(&r.held, held{out: e.Out, seq: r.seq, data: append([]byte(nil), data...), via: via, to: p.of, index: index, entry: e})
	if e.Out <= now {
		r.flush()
		return
	}
	r.o.Clock.At(e.Out, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.flush()
	})
}

// note puts an entry into the log and returns its place, or -1.
func (r *Relay) note(e Entry) int {
	if r.o.Seen != nil {
		return -1
	}
	if len(r.log) == logged {
		r.lost++
		return -1
	}
	r.log = append(r.log, e)
	return len(r.log) - 1
}

// flush sends what is due, in order.
func (r *Relay) flush() {
	for len(r.held) > 0 && !r.done {
		now := r.o.Clock.Now()
		if r.held[0].out > now {
			return
		}
		h := heap.Pop(&r.held).(held)
		if _, err := h.via.conn.WriteToUDPAddrPort(h.data, h.to); err == nil {
			r.finish(h, &now)
		} else {
			r.finish(h, nil)
		}
	}
}

// finish notes when a packet was sent; nil: it was not.
func (r *Relay) finish(h held, sent *time.Duration) {
	if h.index >= 0 {
		r.log[h.index].Sent = sent
	}
	if r.o.Seen != nil {
		h.entry.Sent = sent
		r.o.Seen(h.entry)
	}
}

// Log returns what was done so far, in the order in which the packets came, and how
// many are not in it because there were too many. STUN and DTLS are not in it unless
// they are impaired.
func (r *Relay) Log() (entries []Entry, untold int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Entry(nil), r.log...), r.lost
}

// WriteLog writes entries as JSON, one a line.
func WriteLog(w io.Writer, entries []Entry) error {
	e := json.NewEncoder(w)
	for _, entry := range entries {
		if err := e.Encode(entry); err != nil {
			return fmt.Errorf("impair: log: %w", err)
		}
	}
	return nil
}

// A held packet waits for its time.
type held struct {
	out   time.Duration
	seq   int
	data  []byte
	via   *port
	to    netip.AddrPort
	entry Entry
	index int // of it in the log; -1: not there
}

// pending is a heap of held packets; those with one time keep their order.
type pending []held

func (p pending) Len() int { return len(p) }
func (p pending) Less(i, j int) bool {
	return p[i].out < p[j].out || p[i].out == p[j].out && p[i].seq < p[j].seq
}
func (p pending) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pending) Push(x any)   { *p = append(*p, x.(held)) }
func (p *pending) Pop() any {
	old := *p
	h := old[len(old)-1]
	old[len(old)-1] = held{}
	*p = old[:len(old)-1]
	return h
}
