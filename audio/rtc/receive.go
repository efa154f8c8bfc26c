package rtc

import (
	"context"
	"sync"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

// A Packet is an RTP packet that was heard.
type Packet struct {
	SSRC        uint32
	Seq         uint16
	Timestamp   uint32
	Marker      bool
	PayloadType uint8
	Codec       string // the track's, if the packet is of it; else empty: comfort noise, for example
	Payload     []byte

	Arrived time.Duration // at this host: the kernel's stamp, else Read
	Read    time.Duration // when it had been decrypted and was read
	Kernel  bool          // Arrived is the kernel's

	// Index is the sequence number from the stream's first packet on, without its
	// wrapping around: negative for one that was overtaken by the first.
	Index int64

	// Lost is how many packets before this one have not come, since the last one
	// that was the latest. One of them may still come, with an Index that is lower.
	Lost int
}

// A receiver is what one peer hears.
type receiver struct {
	p     *Peer
	heard *clocks.Queue[Packet]

	mu      sync.Mutex
	waiting int // packets in heard
	counts  hearCounts
	playout *player
	last    time.Duration // when something was heard
}

// hearCounts are counts of packets.
type hearCounts struct {
	heard, kernel, untaken, reordered, malformed int
	lost                                         int64 // missing by now
	codec                                        string
}

// maxTracks is how many tracks of the other side are heard, one after the other or
// beside each other; it may begin a new one when it renegotiates.
const maxTracks = 4

// hear reads a track until it ends.
func (r *receiver) hear(track *webrtc.TrackRemote, rtcp *webrtc.RTPReceiver) error {
	e := r.p.e
	ssrc := uint32(track.SSRC())
	defer e.arrivals.drop(ssrc)
	c, err := codecOf(track.Codec())
	known := err == nil
	r.mu.Lock()
	r.counts.codec = c.Name
	if r.playout == nil && known {
		r.playout = newPlayer()
		r.playout.stats.AddTrack(track) // it never fails
	}
	r.mu.Unlock()
	r.p.group.Go("rtc reports", func() error {
		for {
			// The interceptors take what they need while this reads.
			if _, _, err := rtcp.ReadRTCP(); err != nil {
				return nil
			}
		}
	})
	buf := make([]byte, 1500)
	var order sequence
	for {
		n, _, err := track.Read(buf)
		if err != nil {
			return nil // the track, or the connection, has ended
		}
		now := e.clock.Now()
		var packet rtp.Packet
		if packet.Unmarshal(buf[:n]) != nil {
			r.mu.Lock()
			r.counts.malformed++
			r.mu.Unlock()
			continue
		}
		p := Packet{
			SSRC: packet.SSRC, Seq: packet.SequenceNumber, Timestamp: packet.Timestamp, Marker: packet.Marker,
			PayloadType: packet.PayloadType, Payload: append([]byte(nil), packet.Payload...),
			Arrived: now, Read: now,
		}
		if s, ok := e.arrivals.take(p.SSRC, p.Seq); ok {
			p.Arrived, p.Kernel = s.Arrived, s.Kernel
		}
		if known && p.PayloadType == uint8(track.PayloadType()) {
			p.Codec = c.Name
		}
		var late bool
		p.Index, p.Lost, late = order.next(p.Seq)
		r.put(p, c, late)
	}
}

func codecOf(p webrtc.RTPCodecParameters) (codec.Codec, error) {
	for _, c := range codec.All() {
		if mimeIs(p.MimeType, c) {
			return c, nil
		}
	}
	return codec.Named(p.MimeType)
}

func (r *receiver) put(p Packet, c codec.Codec, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = p.Read
	r.counts.heard++
	if p.Kernel {
		r.counts.kernel++
	}
	r.counts.lost += int64(p.Lost)
	if late {
		r.counts.reordered++
		if p.Index >= 0 { // it was counted as lost
			r.counts.lost--
		}
	}
	if p.Codec != "" {
		r.playout.push(p, c)
	}
	if r.waiting >= r.p.e.o.Log {
		r.counts.untaken++
		return
	}
	r.waiting++
	r.heard.Put(p)
}

// next waits for the next packet.
func (r *receiver) next(ctx context.Context) (Packet, bool) {
	p, ok := r.heard.Get(ctx)
	if ok {
		r.mu.Lock()
		r.waiting--
		r.mu.Unlock()
	}
	return p, ok
}

// A sequence unwraps sequence numbers.
type sequence struct {
	begun   bool
	highest int64
	seq     uint16 // of the highest
}

// next returns the index of a packet, how many are missing just before it, and
// whether it was overtaken by one that came before.
func (s *sequence) next(seq uint16) (index int64, lost int, late bool) {
	if !s.begun {
		s.begun, s.seq = true, seq
		return 0, 0, false
	}
	d := int64(int16(seq - s.seq))
	if d <= 0 {
		return s.highest + d, 0, true
	}
	s.highest += d
	s.seq = seq
	return s.highest, int(d - 1), false
}
