package arrival

import (
	"net"
	"net/netip"
)

// A packetSocket reads a UDP socket with the kernel's stamps.
type packetSocket struct {
	conn    *net.UDPConn
	control [controlLen]byte
}

// newPacketSocket returns what reads conn with stamps, or nil if it is no UDP
// socket.
func newPacketSocket(conn net.PacketConn) *packetSocket {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return nil
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return nil
	}
	EnableStamps(raw)
	return &packetSocket{conn: udp}
}

func (s *packetSocket) read(p []byte) (n int, from netip.AddrPort, real int64, stamped bool, err error) {
	n, oob, _, from, err := s.conn.ReadMsgUDPAddrPort(p, s.control[:])
	if err != nil {
		return n, from, 0, false, err
	}
	real, stamped = stampOf(s.control[:oob])
	return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), real, stamped, nil
}
