package clocks

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Bells make the timers of Go exact. An idle program waits in epoll_wait, whose
// limit counts milliseconds (runtime/netpoll_epoll.go), so that a timer is 0.6 ms
// late at the median. A timerfd among the files that epoll watches ends that wait
// at its nanosecond, and the runtime looks at its timers.
type bells struct {
	mu   sync.Mutex
	idle []*bell
	made int
}

// A bell is a timerfd. Nobody reads it: that it can be read is all.
type bell struct {
	fd   uintptr
	file *os.File // puts it where epoll looks, and closes it when nobody has it
	home *bells
}

// Of a clock there are so many bells. Waits beyond them, and those of more than
// near, which are time limits, do without: it takes many to keep a program so
// busy that it looks at its timers all the time.
const (
	mostBells = 64
	near      = 3 * time.Second
)

// The numbers of timerfd_create(2) that package syscall does not have.
const (
	clockMonotonic = 1
	tfdFlags       = syscall.O_NONBLOCK | syscall.O_CLOEXEC
)

// ring has the program look at its timers in d. It returns nil if there is no
// bell for that.
func (b *bells) ring(d time.Duration) *bell {
	if d <= 0 || d > near {
		return nil
	}
	l := b.take()
	if l == nil {
		return nil
	}
	at := struct{ every, in syscall.Timespec }{in: syscall.NsecToTimespec(int64(d))}
	syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, l.fd, 0, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
	return l
}

// rest puts a bell back that is not needed any more. It may be nil.
func (l *bell) rest() {
	if l == nil {
		return
	}
	l.home.mu.Lock()
	l.home.idle = append(l.home.idle, l)
	l.home.mu.Unlock()
}

func (b *bells) take() *bell {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle) - 1; n >= 0 {
		l := b.idle[n]
		b.idle = b.idle[:n]
		return l
	}
	if b.made == mostBells {
		return nil
	}
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, tfdFlags, 0)
	if errno != 0 {
		b.made = mostBells // there are no more
		return nil
	}
	b.made++
	return &bell{fd, os.NewFile(fd, "timerfd"), b}
}
