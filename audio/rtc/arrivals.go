package rtc

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"firstsound/clocks/arrival"
)

// arrivals keeps the stamps of RTP packets from the socket until they are read.
// Anybody may send to a UDP socket, so it holds a bounded number of streams, and of
// each the last packets only: what is not found has the time of its reading.
type arrivals struct {
	most int

	mu      sync.Mutex
	streams map[uint32]*stamps // by SSRC
	n       uint64             // packets so far
}

// keptStamps is a bit more than 5 s of packets of 20 ms.
const keptStamps = 256

type stamps struct {
	used uint64 // the number of its last packet
	ring [keptStamps]struct {
		arrival.Stamp // N is 0 if there is none
		seq           uint16
	}
}

func newArrivals(most int) *arrivals {
	return &arrivals{most: most, streams: map[uint32]*stamps{}}
}

// rtpHeader reads the SSRC and the sequence number of a datagram, if it is an RTP
// packet: version 2, and a payload type that is not one of RTCP's (RFC 5761,
// section 4). Relayed packets of TURN have 4 bytes before it (RFC 8656, section 12.4).
func rtpHeader(b []byte) (ssrc uint32, seq uint16, ok bool) {
	if len(b) > 4 && b[0]>>4 == 4 {
		b = b[4:]
	}
	if len(b) < 12 || b[0]>>6 != 2 {
		return 0, 0, false
	}
	if pt := b[1] & 0x7f; pt >= 64 && pt <= 95 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint16(b[2:]), true
}

// note keeps the stamp of a datagram, if it is an RTP packet. Of repeated packets
// the first counts.
func (a *arrivals) note(datagram []byte, _ netip.AddrPort, s arrival.Stamp) {
	ssrc, seq, ok := rtpHeader(datagram)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	st := a.streams[ssrc]
	if st == nil {
		if len(a.streams) >= a.most {
			a.evict()
		}
		st = new(stamps)
		a.streams[ssrc] = st
	}
	st.used = a.n
	e := &st.ring[seq%keptStamps]
	if e.N == 0 || e.seq != seq {
		e.Stamp, e.seq = s, seq
	}
}

// evict drops the stream, of a few, that was quiet longest.
func (a *arrivals) evict() {
	var oldest uint32
	least, looked := ^uint64(0), 0
	for ssrc, st := range a.streams { // in random order
		if st.used < least {
			oldest, least = ssrc, st.used
		}
		if looked++; looked == 8 {
			break
		}
	}
	delete(a.streams, oldest)
}

// take returns the stamp of a packet and forgets it.
func (a *arrivals) take(ssrc uint32, seq uint16) (arrival.Stamp, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := a.streams[ssrc]
	if st == nil {
		return arrival.Stamp{}, false
	}
	e := &st.ring[seq%keptStamps]
	if e.N == 0 || e.seq != seq {
		return arrival.Stamp{}, false
	}
	s := e.Stamp
	e.N = 0
	return s, true
}

func (a *arrivals) drop(ssrc uint32) {
	a.mu.Lock()
	delete(a.streams, ssrc)
	a.mu.Unlock()
}
