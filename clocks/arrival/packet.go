package arrival

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// packetBack is how much earlier than the datagram before one may be stamped: two
// processors may take in packets of one socket side by side.
const packetBack = time.Millisecond

// A PacketConn is a UDP socket that knows when the datagrams that it reads
// arrived. All else is as with the connection that it wraps. Datagrams are never
// merged, so each has its own stamp.
type PacketConn struct {
	net.PacketConn
	source *Source
	socket *packetSocket // nil: no kernel stamps
	seen   func(datagram []byte, from netip.AddrPort, s Stamp)

	reading sync.Mutex // one read at a time

	mu     sync.Mutex
	last   Stamp
	floor  time.Duration // no datagram can have come before
	faults int
}

// WrapPacket returns conn with stamps: the kernel's if it is a UDP socket of Linux
// and the Source has them, else those of the reads. seen, if it is not nil, is
// called within each read, before it returns, with the datagram; it must not keep
// the bytes.
func (s *Source) WrapPacket(conn net.PacketConn, seen func(datagram []byte, from netip.AddrPort, s Stamp)) *PacketConn {
	c := &PacketConn{PacketConn: conn, source: s, seen: seen, floor: s.clock.Now()}
	if s.wall != nil {
		c.socket = newPacketSocket(conn)
		c.floor = s.wall.began
	}
	return c
}

// ReadStamped reads one datagram. What of it does not fit into p is lost.
func (c *PacketConn) ReadStamped(p []byte) (n int, from netip.AddrPort, s Stamp, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	var real int64
	var stamped bool
	if c.socket != nil {
		n, from, real, stamped, err = c.socket.read(p)
	} else {
		n, from, err = readAddrPort(c.PacketConn, p)
	}
	if err != nil {
		return n, from, Stamp{}, err
	}
	now := c.source.clock.Now()
	s = Stamp{Arrived: now, Read: now}
	if stamped {
		at, slack := c.source.wall.at(real, now)
		s = c.check(Stamp{Arrived: at, Read: now, Kernel: true}, slack)
	}
	c.mu.Lock()
	s.N = c.last.N + 1
	c.last = s
	c.mu.Unlock()
	if c.seen != nil {
		c.seen(p[:n], from, s)
	}
	return n, from, s, nil
}

// check puts the read's time in the place of a stamp that cannot be right. slack
// is how wrong it may be.
func (c *PacketConn) check(s Stamp, slack time.Duration) Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Arrived < c.floor-slack-packetBack || s.Arrived > s.Read+slack {
		c.faults++
		s.Arrived, s.Kernel = s.Read, false
		return s
	}
	c.floor = max(c.floor, s.Arrived)
	return s
}

// ReadFrom reads one datagram, as net.PacketConn has it.
func (c *PacketConn) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, _, err := c.ReadStamped(p)
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// ReadFromAddrPort is ReadFrom without an allocation.
func (c *PacketConn) ReadFromAddrPort(p []byte) (int, netip.AddrPort, error) {
	n, from, _, err := c.ReadStamped(p)
	return n, from, err
}

// WriteToAddrPort is WriteTo, without an allocation if the wrapped connection can.
func (c *PacketConn) WriteToAddrPort(p []byte, to netip.AddrPort) (int, error) {
	if u, ok := c.PacketConn.(*net.UDPConn); ok {
		return u.WriteToUDPAddrPort(p, to)
	}
	return c.PacketConn.WriteTo(p, net.UDPAddrFromAddrPort(to))
}

// Last returns the stamp of the last datagram; N is 0 if there was none.
func (c *PacketConn) Last() Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Faults returns how many stamps of the kernel lay outside of what they can be:
// long before the datagram before, or after the read. The read's time took their
// place.
func (c *PacketConn) Faults() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

func readAddrPort(conn net.PacketConn, p []byte) (int, netip.AddrPort, error) {
	if u, ok := conn.(*net.UDPConn); ok {
		n, from, err := u.ReadFromUDPAddrPort(p)
		return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), err
	}
	n, addr, err := conn.ReadFrom(p)
	var from netip.AddrPort
	if u, ok := addr.(*net.UDPAddr); ok {
		from = u.AddrPort()
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
	return n, from, err
}
