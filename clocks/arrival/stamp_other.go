//go:build !linux

package arrival

import (
	"net"
	"syscall"
)

// haveStamps says that the kernel cannot tell when data came.
const haveStamps = false

type socket struct{}

// EnableStamps does nothing: this system has no receive stamps.
func EnableStamps(syscall.RawConn) {}

// Hold does nothing: this system has no receive stamps.
func Hold() (release func()) { return func() {} }

func newSocket(*Conn) *socket { return nil }

func (c *Conn) readSocket(p []byte) (int, error) { return c.Conn.Read(p) }

func wallNow() int64 { return 0 }

func tcpInfo(net.Conn) (TCPInfo, bool) { return TCPInfo{}, false }
