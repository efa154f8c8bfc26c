package arrival

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// haveStamps says that the kernel can tell when data came.
const haveStamps = true

// A socket reads a TCP socket with the kernel's stamps. Its fields are the
// arguments and the results of the call under way, so that a read allocates
// nothing.
type socket struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	conn *Conn

	message unix.Msghdr
	buffer  unix.Iovec
	control [controlLen]byte
	size    int // of the caller's buffer
	n       int
	err     unix.Errno
	began   time.Duration
}

// controlLen is enough for the stamp and for what a caller's own options add.
const controlLen = 128

// EnableStamps asks the kernel for receive stamps. Call it before a socket is
// connected, as by net.Dialer's Control, and no byte comes without one. Where
// the kernel has none it does nothing.
func EnableStamps(c syscall.RawConn) {
	c.Control(func(fd uintptr) {
		// A kernel that refuses gives no stamps, and every Stamp says so.
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
}

// Hold keeps the kernel's receive stamps switched on until release is called.
// The kernel stamps nothing while no socket asks for it, and takes some
// milliseconds to begin: hold them before the first connection, or what comes
// first has none.
func Hold() (release func()) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return func() {} // every Stamp says where it came from
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	return sync.OnceFunc(func() { unix.Close(fd) })
}

// newSocket returns what reads conn with stamps, or nil if it is no TCP socket.
func newSocket(conn *Conn) *socket {
	tcp, ok := conn.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	EnableStamps(raw)
	s := &socket{raw: raw, conn: conn}
	s.message.Iov = &s.buffer
	s.message.SetIovlen(1)
	s.message.Control = &s.control[0]
	s.try = s.receive
	return s
}

// receive is called by Go's poller when the socket may have data. It returns
// false to wait for more.
func (s *socket) receive(fd uintptr) bool {
	s.began = s.conn.source.clock.Now()
	s.buffer.SetLen(s.size)
	if !s.conn.apart.Load() || s.limit(fd) {
		s.call(fd, 0)
	}
	return s.err != unix.EAGAIN
}

// call is recvmsg, with the result in n, err and control.
func (s *socket) call(fd uintptr, flags uintptr) {
	for {
		s.message.SetControllen(controlLen)
		// unix.Recvmsg would allocate the peer's address, which TCP does not tell.
		n, _, err := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.message)), flags)
		if s.n, s.err = int(n), err; err != unix.EINTR {
			return
		}
	}
}

// fresh is how long a segment may lie unread before it is looked at apart from
// those behind it: what came within that time is taken for one.
const fresh = 100 * time.Microsecond

// limit shortens the buffer to the bytes that have the stamp of the first one, if
// that came a while ago. It returns false if there is nothing to read yet.
func (s *socket) limit(fd uintptr) bool {
	first, ok := s.peek(fd, 1)
	s.buffer.SetLen(s.size)
	if !ok {
		return s.err != unix.EAGAIN
	}
	now := s.conn.source.clock.Now()
	if at, _ := s.conn.source.wall.at(first, now); now-at < fresh {
		return true
	}
	if last, _ := s.peek(fd, s.size); last == first {
		return true
	}
	lo, hi := 1, s.n // lo bytes have the stamp, hi not all of them
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if at, _ := s.peek(fd, mid); at == first {
			lo = mid
		} else {
			hi = mid
		}
	}
	s.buffer.SetLen(lo)
	return true
}

// peek returns the stamp of the last of n bytes, or of all if there are fewer, and
// leaves them where they are.
func (s *socket) peek(fd uintptr, n int) (int64, bool) {
	s.buffer.SetLen(n)
	s.call(fd, unix.MSG_PEEK)
	if s.err != 0 || s.n == 0 {
		return 0, false
	}
	return stampOf(s.control[:s.message.Controllen])
}

func (c *Conn) readSocket(p []byte) (int, error) {
	s := c.socket
	s.buffer.Base, s.size = &p[0], len(p)
	err := s.raw.Read(s.try)
	s.buffer.Base = nil
	if err != nil {
		return 0, c.readError(err)
	}
	if s.err != 0 {
		return 0, c.readError(os.NewSyscallError("recvmsg", s.err))
	}
	if s.n == 0 {
		return 0, io.EOF
	}
	now := c.source.clock.Now()
	real, ok := stampOf(s.control[:s.message.Controllen])
	if !ok {
		c.note(Stamp{Arrived: now, Read: now})
		return s.n, nil
	}
	at, slack := c.source.wall.at(real, now)
	c.noteKernel(Stamp{Arrived: at, Read: now, Kernel: true}, slack, s.began, s.n < int(s.buffer.Len))
	return s.n, nil
}

// readError gives err the form that net.TCPConn's Read has.
func (c *Conn) readError(err error) error {
	if op, ok := err.(*net.OpError); ok {
		err = op.Err
	}
	return &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// stampOf returns the wall time in control messages, in ns since 1970.
func stampOf(control []byte) (int64, bool) {
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0, false
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			t := (*unix.Timespec)(unsafe.Pointer(&data[0]))
			return t.Nano(), true
		}
		control = rest
	}
	return 0, false
}

// wallNow returns the kernel's wall time, in ns since 1970.
func wallNow() int64 {
	var t unix.Timespec
	// The call cannot fail: the clock is there on every Linux.
	unix.ClockGettime(unix.CLOCK_REALTIME, &t)
	return t.Nano()
}

func tcpInfo(conn net.Conn) (i TCPInfo, ok bool) {
	tcp, isTCP := conn.(*net.TCPConn)
	if !isTCP {
		return i, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return i, false
	}
	raw.Control(func(fd uintptr) {
		t, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		ok = true
		i = TCPInfo{RTT: time.Duration(t.Rtt) * time.Microsecond, Retransmits: t.Total_retrans}
		if t.Min_rtt != ^uint32(0) { // none yet
			i.MinRTT = time.Duration(t.Min_rtt) * time.Microsecond
		}
	})
	return i, ok
}
