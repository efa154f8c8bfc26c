package arrival

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// datagrams returns two UDP sockets: one with stamps, and a peer that writes to it.
func datagrams(t testing.TB, c clocks.Clock, seen func([]byte, netip.AddrPort, Stamp)) (*PacketConn, net.Conn) {
	t.Helper()
	a, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := net.Dial("udp4", a.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := NewSource(c).WrapPacket(a, seen)
	t.Cleanup(func() { conn.Close(); b.Close() })
	return conn, b
}

// Each datagram has its own stamp, however late it is read.
func TestPacketStamps(t *testing.T) {
	clock := clocks.NewReal()
	var seen []Stamp
	conn, peer := datagrams(t, clock, func(p []byte, from netip.AddrPort, s Stamp) {
		if string(p) != "packet" || from.String() != "127.0.0.1:"+portOf(from) {
			t.Errorf("saw %q from %v", p, from)
		}
		seen = append(seen, s)
	})
	var wrote, after []time.Duration
	for range 5 {
		wrote = append(wrote, clock.Now())
		peer.Write([]byte("packet"))
		after = append(after, clock.Now())
		clock.Sleep(t.Context(), 5*time.Millisecond)
	}
	clock.Sleep(t.Context(), 20*time.Millisecond)
	buf := make([]byte, 64)
	for i := range wrote {
		n, from, s, err := conn.ReadStamped(buf)
		if err != nil || n != 6 || from.String() != peer.LocalAddr().String() {
			t.Fatal(n, from, err)
		}
		if s != seen[i] || s != conn.Last() || s.N != int64(i+1) || s.Kernel != kernelStamps {
			t.Errorf("packet %d: %+v, seen %+v", i, s, seen[i])
		}
		// The loopback delivers within the write's system call, or soon after on
		// the same processor: what counts is that the late read does not show.
		if s.Kernel && (s.Arrived < wrote[i]-time.Millisecond || s.Read-s.Arrived < 15*time.Millisecond) {
			t.Errorf("packet %d: written between %v and %v: %+v", i, wrote[i], after[i], s)
		}
	}
	if conn.Faults() != 0 {
		t.Errorf("%d faults", conn.Faults())
	}
}

func portOf(a netip.AddrPort) string { _, port, _ := net.SplitHostPort(a.String()); return port }

// A stamp that cannot be right is counted, and the read's time takes its place.
func TestPacketFaults(t *testing.T) {
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
		conn, peer := datagrams(t, clocks.NewReal(), nil)
		buf := make([]byte, 8)
		for range 2 {
			peer.Write([]byte("x"))
			if _, _, err := conn.ReadFrom(buf); err != nil {
				t.Fatal(err)
			}
			conn.source.wall.last.offset += int64(test.shift)
		}
		s := conn.Last()
		if got := conn.Faults() == 1; got != test.fault || s.Kernel == test.fault || test.fault && s.Arrived != s.Read {
			t.Errorf("%s: %d faults, %+v", test.name, conn.Faults(), s)
		}
	}
}

// Both ways of writing arrive, errors are those of the socket, and pion's way of
// reading gives the same as net's.
func TestPacketLikeUDPConn(t *testing.T) {
	a, _ := datagrams(t, clocks.NewReal(), nil)
	b, _ := datagrams(t, clocks.NewReal(), nil)
	to := b.LocalAddr().(*net.UDPAddr)
	a.WriteTo([]byte("one"), to)
	a.WriteToAddrPort([]byte("two"), to.AddrPort())
	buf := make([]byte, 8)
	n, from, err := b.ReadFrom(buf)
	if string(buf[:n]) != "one" || from.String() != a.LocalAddr().String() || err != nil {
		t.Errorf("%q %v %v", buf[:n], from, err)
	}
	n, port, err := b.ReadFromAddrPort(buf)
	if string(buf[:n]) != "two" || port.String() != a.LocalAddr().String() || err != nil {
		t.Errorf("%q %v %v", buf[:n], port, err)
	}
	b.SetReadDeadline(time.Unix(1, 0))
	if _, _, err := b.ReadFrom(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	b.Close()
	if _, _, err := b.ReadFrom(buf); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// pipePacket is a net.PacketConn that is no socket.
type pipePacket struct {
	net.PacketConn
	in chan []byte
}

func (p pipePacket) ReadFrom(b []byte) (int, net.Addr, error) {
	d, ok := <-p.in
	if !ok {
		return 0, nil, net.ErrClosed
	}
	return copy(b, d), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}, nil
}

// In a bubble, and over what is no socket, the arrival is the time of the read.
func TestPacketInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		p := pipePacket{in: make(chan []byte)}
		conn := NewSource(clock).WrapPacket(p, nil)
		go func() {
			for range 3 {
				clock.Sleep(t.Context(), 7*time.Millisecond)
				p.in <- []byte("xy")
			}
			close(p.in)
		}()
		buf := make([]byte, 8)
		for i := range 3 {
			n, from, s, err := conn.ReadStamped(buf)
			at := time.Duration(i+1) * 7 * time.Millisecond
			if n != 2 || from.String() != "10.0.0.1:7" || err != nil || s != (Stamp{Arrived: at, Read: at, N: int64(i + 1)}) {
				t.Errorf("read %d: %d %v %+v %v", i, n, from, s, err)
			}
		}
		if _, _, _, err := conn.ReadStamped(buf); err == nil || conn.Last().N != 3 {
			t.Error(err, conn.Last())
		}
	})
}

func TestPacketReadAllocatesNothing(t *testing.T) {
	conn, peer := datagrams(t, clocks.NewReal(), nil)
	buf, packet := make([]byte, 256), make([]byte, 172)
	if n := testing.AllocsPerRun(200, func() {
		peer.Write(packet)
		conn.ReadFromAddrPort(buf)
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

func BenchmarkReadPacket(b *testing.B) {
	conn, peer := datagrams(b, clocks.NewReal(), nil)
	buf, packet := make([]byte, 256), make([]byte, 172)
	b.ReportAllocs()
	for b.Loop() {
		peer.Write(packet)
		conn.ReadFromAddrPort(buf)
	}
}
