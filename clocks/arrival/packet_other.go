//go:build !linux

package arrival

import (
	"net"
	"net/netip"
)

type packetSocket struct{}

func newPacketSocket(net.PacketConn) *packetSocket { return nil }

func (*packetSocket) read([]byte) (n int, from netip.AddrPort, real int64, stamped bool, err error) {
	return 0, from, 0, false, net.ErrClosed // never called: there is none
}
