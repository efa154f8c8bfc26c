package rtc

import (
	"net"
	"net/netip"
	"strings"

	"github.com/pion/transport/v5"

	"firstsound/clocks/arrival"
)

// addresses returns the IPv4 addresses of the host's interfaces that are up, and
// what it passed over, for a message.
func addresses(n transport.Net, loopback bool, filter func(netip.Addr) bool) (found []netip.Addr, passed string, err error) {
	interfaces, err := n.Interfaces()
	if err != nil {
		return nil, "", err
	}
	var lo, filtered, other []string
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, addr := range addrs {
			n, ok := addr.(*net.IPNet)
			if !ok {
				continue
			}
			a, _ := netip.AddrFromSlice(n.IP)
			a = a.Unmap()
			switch {
			case !a.Is4() || a.IsLinkLocalUnicast():
				other = append(other, a.String())
			case a.IsLoopback() && !loopback:
				lo = append(lo, a.String())
			case filter != nil && !filter(a):
				filtered = append(filtered, a.String())
			default:
				found = append(found, a)
			}
		}
	}
	switch {
	case len(filtered) > 0:
		passed = "the filter leaves out " + strings.Join(filtered, ", ")
	case len(lo) > 0:
		passed = "only the loopback interface (" + strings.Join(lo, ", ") + ") is up: allow loopback candidates"
	case len(other) > 0:
		passed = "no IPv4 address but link-local ones: " + strings.Join(other, ", ")
	default:
		passed = "no network interface is up"
	}
	return found, passed, nil
}

// A stampedNet gives the sockets that ICE opens stamps.
type stampedNet struct {
	transport.Net
	e *Endpoint
}

// socketBuffer is what the sockets ask the kernel for, which may give less: a second
// of 50 calls.
const socketBuffer = 1 << 19

// ListenUDP opens a socket whose RTP packets are stamped.
func (n stampedNet) ListenUDP(network string, local *net.UDPAddr) (transport.UDPConn, error) {
	conn, err := n.Net.ListenUDP(network, local)
	if err != nil {
		return nil, err
	}
	conn.SetReadBuffer(socketBuffer) // a smaller one will do
	return stampedConn{conn, n.e.source.WrapPacket(conn, n.e.arrivals.note)}, nil
}

// ListenPacket opens a socket whose RTP packets are stamped.
func (n stampedNet) ListenPacket(network, address string) (net.PacketConn, error) {
	conn, err := n.Net.ListenPacket(network, address)
	if err != nil {
		return nil, err
	}
	return n.e.source.WrapPacket(conn, n.e.arrivals.note), nil
}

type stampedConn struct {
	transport.UDPConn
	stamps *arrival.PacketConn
}

func (c stampedConn) ReadFrom(p []byte) (int, net.Addr, error) { return c.stamps.ReadFrom(p) }

func (c stampedConn) ReadFromAddrPort(p []byte) (int, netip.AddrPort, error) {
	return c.stamps.ReadFromAddrPort(p)
}

func (c stampedConn) WriteToAddrPort(p []byte, to netip.AddrPort) (int, error) {
	return c.stamps.WriteToAddrPort(p, to)
}
