package rtc

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"firstsound/clocks/arrival"
)

func rtpBytes(ssrc uint32, seq uint16) []byte {
	b := make([]byte, 172)
	b[0] = 0x80
	binary.BigEndian.PutUint16(b[2:], seq)
	binary.BigEndian.PutUint32(b[8:], ssrc)
	return b
}

func stampAt(ms int) arrival.Stamp {
	return arrival.Stamp{Arrived: time.Duration(ms) * time.Millisecond, Kernel: true, N: 1}
}

func TestArrivals(t *testing.T) {
	a := newArrivals(2)
	var from netip.AddrPort
	rtcp := rtpBytes(1, 5)
	rtcp[1] = 200
	a.note(rtcp, from, stampAt(1))
	a.note([]byte("stun"), from, stampAt(1))
	a.note(append([]byte{0x40, 1, 0, 172}, rtpBytes(1, 6)...), from, stampAt(2)) // relayed
	a.note(rtpBytes(1, 65535), from, stampAt(3))
	a.note(rtpBytes(1, 65535), from, stampAt(4)) // a repeat
	for _, test := range []struct {
		seq  uint16
		want int // ms; 0: none
	}{{5, 0}, {6, 2}, {6, 0}, {65535, 3}, {7, 0}} {
		s, ok := a.take(1, test.seq)
		if ok != (test.want > 0) || ok && s != stampAt(test.want) {
			t.Errorf("packet %d: %+v %v", test.seq, s, ok)
		}
	}
	// What is too old has been overwritten.
	a.note(rtpBytes(1, 10), from, stampAt(5))
	a.note(rtpBytes(1, 10+keptStamps), from, stampAt(6))
	if _, ok := a.take(1, 10); ok {
		t.Error("an old stamp is there")
	}
	if s, ok := a.take(1, 10+keptStamps); !ok || s != stampAt(6) {
		t.Error(s, ok)
	}
	// A flood of streams does not grow it, and a stream that goes on stays.
	for i := range uint32(1000) {
		a.note(rtpBytes(1, uint16(i)), from, stampAt(7))
		a.note(rtpBytes(100+i, 0), from, stampAt(7))
	}
	if _, ok := a.take(1, 999); !ok || len(a.streams) > 2 {
		t.Error(len(a.streams), ok)
	}
	a.drop(1)
	if _, ok := a.take(1, 998); ok {
		t.Error("a dropped stream is there")
	}
}

func TestSequence(t *testing.T) {
	var s sequence
	for i, test := range []struct {
		seq   uint16
		index int64
		lost  int
		late  bool
	}{
		{65534, 0, 0, false}, {65535, 1, 0, false}, {1, 3, 1, false}, {0, 2, 0, true}, {65533, -1, 0, true},
		{1, 3, 0, true}, {10, 12, 8, false}, {32000, 32002, 31989, false},
	} {
		index, lost, late := s.next(test.seq)
		if index != test.index || lost != test.lost || late != test.late {
			t.Errorf("%d: %d %d %v %d, want %+v", i, test.seq, index, late, lost, test)
		}
	}
}
