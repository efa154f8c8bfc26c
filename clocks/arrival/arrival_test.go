package arrival

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// sockets returns two ends of a TCP connection over the loopback: one with
// stamps, and its peer.
func sockets(t testing.TB, c clocks.Clock) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		EnableStamps(raw)
		return nil
	}}
	a, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := Wrap(a, c)
	t.Cleanup(func() { conn.Close(); b.Close() })
	return conn, b.(*net.TCPConn)
}

// kernelStamps says that the kernel that runs the tests has given a stamp.
var kernelStamps bool

// TestMain waits until the kernel stamps: a test that ran before would see none.
func TestMain(m *testing.M) {
	release := Hold()
	clock := clocks.NewReal()
	for range 2000 {
		if stamped, err := firstStamp(clock); err != nil {
			panic(err)
		} else if stamped {
			kernelStamps = true
			break
		}
	}
	code := m.Run()
	release()
	os.Exit(code)
}

func firstStamp(clock clocks.Clock) (bool, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return false, err
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		return false, err
	}
	defer b.Close()
	conn := Wrap(a, clock)
	b.Write([]byte("x"))
	_, err = conn.Read(make([]byte, 1))
	return conn.Last().Kernel, err
}

func needStamps(t testing.TB) {
	if !kernelStamps {
		t.Skip("the kernel of this system gives no receive stamps")
	}
}

func TestStampsLieBetweenReads(t *testing.T) {
	clock := clocks.NewReal()
	conn, peer := sockets(t, clock)
	var before time.Duration
	buf := make([]byte, 64)
	for i := range 50 {
		sent := clock.Now()
		peer.Write([]byte("event"))
		n, err := conn.Read(buf)
		if n != 5 || err != nil {
			t.Fatalf("read %d: %d bytes, %v", i, n, err)
		}
		s := conn.Last()
		if s.N != int64(i+1) || s.Kernel != kernelStamps {
			t.Errorf("read %d: %+v", i, s)
		}
		if s.Arrived < before || s.Arrived < sent-time.Millisecond || s.Arrived > s.Read || s.Read > clock.Now() {
			t.Errorf("read %d: sent %v, read before %v; %+v", i, sent, before, s)
		}
		if b, ok := conn.Before(); ok != (i > 0) || ok && (b.N != int64(i) || b.Arrived > s.Arrived) {
			t.Errorf("read %d: before it was %+v, %v", i, b, ok)
		}
		before = s.Read
	}
	if n := conn.Faults(); n != 0 {
		t.Errorf("%d faults", n)
	}
	info, ok := conn.TCPInfo()
	if ok != haveStamps || ok && (info.RTT <= 0 || info.MinRTT <= 0 || info.MinRTT > time.Second) {
		t.Errorf("%+v, %v", info, ok)
	}
	conn.Close()
	if again, still := conn.TCPInfo(); still != ok || again.Retransmits != info.Retransmits {
		t.Errorf("after Close: %+v, %v", again, still)
	}
}

// A reader that sleeps does not move the arrival.
func TestLateReader(t *testing.T) {
	needStamps(t)
	clock := clocks.NewReal()
	conn, peer := sockets(t, clock)
	buf := make([]byte, 64)
	for range 4 {
		peer.Write([]byte("event"))
		wrote := clock.Now()
		clock.Sleep(t.Context(), 60*time.Millisecond)
		if _, err := conn.Read(buf); err != nil {
			t.Fatal(err)
		}
		s := conn.Last()
		if lag := s.Read - s.Arrived; !s.Kernel || lag < 45*time.Millisecond {
			t.Errorf("the arrival is %v before the read: %+v, written at %v", lag, s, wrote)
		}
	}
}

// What a short buffer leaves for the next read came before this one, and is no
// fault.
func TestShortBuffer(t *testing.T) {
	needStamps(t)
	clock := clocks.NewReal()
	conn, peer := sockets(t, clock)
	peer.Write(make([]byte, 10))
	buf := make([]byte, 4)
	for got := 0; got < 10; {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += n
		clock.Sleep(t.Context(), 2*time.Millisecond)
	}
	last := conn.Last()
	if conn.Faults() != 0 || !last.Kernel || last.N != 3 {
		t.Errorf("%d faults, %+v", conn.Faults(), last)
	}
	if b, _ := conn.Before(); b.Arrived != last.Arrived || last.Read-last.Arrived < 4*time.Millisecond {
		t.Errorf("one segment: %+v, then %+v", b, last)
	}
}

// Of an answer that lies unread, the first segment has the stamp of its own, where
// the kernel keeps it apart: over the loopback in most answers, for what has not
// been acknowledged is not merged. What is read is the same.
func TestApart(t *testing.T) {
	needStamps(t)
	clock := clocks.NewReal()
	conn, peer := sockets(t, clock)
	buf := make([]byte, 4096)
	const rounds, events, gap = 12, 4, 5 * time.Millisecond
	own := 0
	for round := range rounds {
		conn.Apart(round%3 != 0)
		conn.Write([]byte("request"))
		peer.Read(buf)
		var want, got []byte
		var wrote []time.Duration
		for i := range events {
			event := bytes.Repeat([]byte{byte('a' + i)}, 30+round)
			wrote = append(wrote, clock.Now())
			peer.Write(event)
			want = append(want, event...)
			clock.Sleep(t.Context(), gap)
		}
		var ends []time.Duration // arrivals of the reads
		for len(got) < len(want) {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
			ends = append(ends, conn.Last().Arrived)
			if i := (len(got) - 1) * events / len(want); conn.Last().Arrived < wrote[i] {
				t.Errorf("round %d: %d bytes came before they were written", round, len(got))
			}
			if round%3 != 0 && len(ends) == 1 && n == len(want)/events {
				own++
				if ends[0] > wrote[1] {
					t.Errorf("round %d: the first event came at %v, and the second was written at %v", round, ends[0], wrote[1])
				}
			}
		}
		if !bytes.Equal(got, want) || !slices.IsSorted(ends) || round%3 == 0 && len(ends) != 1 {
			t.Errorf("round %d: %d bytes of %d in %v", round, len(got), len(want), ends)
		}
	}
	if own == 0 {
		t.Errorf("no first event of %d has an arrival of its own", rounds*2/3)
	}
	if n := conn.Faults(); n != 0 {
		t.Errorf("%d faults", n)
	}
}

// A stamp that cannot be right is counted, and the read's time takes its place.
func TestFaults(t *testing.T) {
	needStamps(t)
	for _, test := range []struct {
		name  string
		shift time.Duration // of the wall clock's offset
		fault bool
	}{
		{"as it is", 0, false},
		{"the wall clock was set back", -time.Hour, true},
		{"the wall clock was set forward", time.Hour, true},
	} {
		conn, peer := sockets(t, clocks.NewReal())
		buf := make([]byte, 64)
		for range 2 {
			peer.Write([]byte("x"))
			conn.Read(buf)
			conn.source.wall.last.offset += int64(test.shift)
		}
		s := conn.Last()
		if got := conn.Faults() == 1; got != test.fault || s.Kernel == test.fault || test.fault && s.Arrived != s.Read {
			t.Errorf("%s: %d faults, %+v", test.name, conn.Faults(), s)
		}
		// The next pair is taken after a second: it shows the step.
		conn.source.wall.last.at -= 2 * pairAge
		peer.Write([]byte("x"))
		conn.Read(buf)
		if got := conn.source.Steps() == 1; got != test.fault || conn.Last().Kernel == false {
			t.Errorf("%s: %d steps, then %+v", test.name, conn.source.Steps(), conn.Last())
		}
	}
}

// Errors, deadlines and ends are those of net.TCPConn, whatever wraps it.
func TestLikeTCPConn(t *testing.T) {
	type outcome struct {
		n         int
		err, op   string
		timeout   bool
		eof, shut bool
	}
	see := func(n int, err error) outcome {
		o := outcome{n: n, timeout: errors.Is(err, os.ErrDeadlineExceeded), eof: err == io.EOF, shut: errors.Is(err, net.ErrClosed)}
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			o.op, o.err = op.Op+" "+op.Net, op.Err.Error()
			if op.Source == nil || op.Addr == nil {
				o.op += " without addresses"
			}
		}
		return o
	}
	buf := make([]byte, 8)
	for _, test := range []struct {
		name string
		do   func(c net.Conn, peer *net.TCPConn) (int, error)
	}{
		{"nothing asked", func(c net.Conn, _ *net.TCPConn) (int, error) { return c.Read(nil) }},
		{"data", func(c net.Conn, peer *net.TCPConn) (int, error) { peer.Write([]byte("abc")); return c.Read(buf) }},
		{"end", func(c net.Conn, peer *net.TCPConn) (int, error) { peer.Close(); return c.Read(buf) }},
		{"half close", func(c net.Conn, peer *net.TCPConn) (int, error) {
			peer.CloseWrite()
			if n, err := c.Read(buf); err != io.EOF {
				return n, err
			}
			if _, err := c.Write([]byte("still")); err != nil {
				return 0, err
			}
			return io.ReadFull(peer, buf[:5])
		}},
		{"own half close", func(c net.Conn, peer *net.TCPConn) (int, error) {
			c.(interface{ CloseWrite() error }).CloseWrite()
			if n, err := peer.Read(buf); err != io.EOF {
				return n, err
			}
			peer.Write([]byte("late"))
			return c.Read(buf)
		}},
		{"deadline past", func(c net.Conn, _ *net.TCPConn) (int, error) {
			c.SetReadDeadline(time.Unix(1, 0))
			return c.Read(buf)
		}},
		{"deadline past, data there", func(c net.Conn, peer *net.TCPConn) (int, error) {
			peer.Write([]byte("abc"))
			c.SetReadDeadline(time.Unix(1, 0))
			return c.Read(buf)
		}},
		{"deadline set while it waits", func(c net.Conn, _ *net.TCPConn) (int, error) {
			go c.SetReadDeadline(time.Unix(1, 0))
			return c.Read(buf)
		}},
		{"deadline taken back", func(c net.Conn, peer *net.TCPConn) (int, error) {
			c.SetReadDeadline(time.Unix(1, 0))
			c.Read(buf)
			c.SetReadDeadline(time.Time{})
			peer.Write([]byte("ab"))
			return c.Read(buf)
		}},
		{"closed", func(c net.Conn, _ *net.TCPConn) (int, error) { c.Close(); return c.Read(buf) }},
		{"closed while it waits", func(c net.Conn, _ *net.TCPConn) (int, error) {
			go c.Close()
			return c.Read(buf)
		}},
		{"reset", func(c net.Conn, peer *net.TCPConn) (int, error) {
			peer.SetLinger(0)
			peer.Close()
			n, err := c.Read(buf)
			// The name of the system call differs, and is no part of the bargain.
			if !errors.Is(err, syscall.ECONNRESET) && runtime.GOOS != "windows" {
				t.Errorf("reset: %v", err)
			}
			return n, errors.Unwrap(errors.Unwrap(err))
		}},
	} {
		a, peerA := sockets(t, clocks.NewReal())
		n, err := test.do(a, peerA)
		b, peerB := sockets(t, clocks.NewReal())
		m, want := test.do(b.Conn, peerB)
		if g, w := see(n, err), see(m, want); g != w {
			t.Errorf("%s: %+v, a TCPConn %+v", test.name, g, w)
		}
	}
}

// A lot of data comes through whole, whatever the sizes of writes and reads.
func TestBytes(t *testing.T) {
	conn, peer := sockets(t, clocks.NewReal())
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	go func() {
		for rest, r := data, rand.New(rand.NewPCG(3, 4)); len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(50_000))
			peer.Write(rest[:n])
			rest = rest[n:]
		}
		peer.Close()
	}()
	sum := sha256.New()
	buf := make([]byte, 20_000)
	for {
		n, err := conn.Read(buf[:1+rng.IntN(len(buf))])
		sum.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), want[:]) {
		t.Error("other bytes came than were sent")
	}
	if conn.Faults() != 0 {
		t.Errorf("%d faults", conn.Faults())
	}
}

// In a bubble, and over what is no socket, the arrival is the time of the read.
func TestPipeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		a, b := net.Pipe()
		conn := Wrap(a, clock)
		go func() {
			for range 3 {
				clock.Sleep(t.Context(), 7*time.Millisecond)
				b.Write([]byte("xy"))
			}
			b.Close()
		}()
		buf := make([]byte, 1)
		for i, want := range []time.Duration{7, 7, 14, 14, 21, 21} {
			if _, err := conn.Read(buf); err != nil {
				t.Fatal(err)
			}
			at := want * time.Millisecond
			if got := conn.Last(); got != (Stamp{Arrived: at, Read: at, N: int64(i + 1)}) {
				t.Errorf("read %d: %+v, want %v", i, got, at)
			}
		}
		if _, err := conn.Read(buf); err != io.EOF {
			t.Error(err)
		}
		if _, ok := conn.TCPInfo(); ok {
			t.Error("a pipe has no TCP_INFO")
		}
		conn.Close()
	})
}

func TestVirtualClockHasNoStamps(t *testing.T) {
	v := clocks.NewVirtual()
	if s := NewSource(v); s.wall != nil || s.Steps() != 0 {
		t.Error("a virtual clock was set beside the wall clock")
	}
}

func TestListen(t *testing.T) {
	clock := clocks.NewReal()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(inner, clock)
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		c.Write([]byte("hello"))
		io.Copy(io.Discard, c)
	})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if n, err := c.Read(buf); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	s := c.(*Conn).Last()
	if s.N != 1 || s.Kernel != kernelStamps || s.Arrived > s.Read {
		t.Errorf("%+v", s)
	}
	if again := Wrap(c, clock); again != c {
		t.Error("wrapped twice")
	}
	c.Close()
	wg.Wait()
}

func TestReadAllocatesNothing(t *testing.T) {
	conn, peer := sockets(t, clocks.NewReal())
	buf, event := make([]byte, 256), make([]byte, 100)
	if n := testing.AllocsPerRun(200, func() {
		peer.Write(event)
		conn.Read(buf)
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, kind := range []string{"stamped", "TCPConn"} {
		b.Run(kind, func(b *testing.B) {
			conn, peer := sockets(b, clocks.NewReal())
			var r io.Reader = conn
			if kind == "TCPConn" {
				r = conn.Conn
			}
			buf, event := make([]byte, 256), make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				peer.Write(event)
				r.Read(buf)
			}
		})
	}
}
