package liveline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/rtc"
	"firstsound/clocks"
)

// A Stamps turns RTP timestamps, which wrap around, into places on the caller's time
// line. It may be used by several goroutines.
type Stamps struct {
	mu    sync.Mutex
	rate  int // of places
	clock int // of timestamps
	begun bool
	last  uint32
	total int64 // of timestamps since the first
}

// Place returns the place of a timestamp that lies within half of their range of the
// latest.
func (s *Stamps) Place(t uint32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun, s.last = true, t
	}
	at := s.total + int64(int32(t-s.last))
	if at > s.total {
		s.total, s.last = at, t
	}
	return at * int64(s.rate) / int64(s.clock)
}

// A Call is a line over a peer.
type Call struct {
	*Line
	Peer   *rtc.Peer
	Stamps Stamps
	Heard  func(rtc.Packet, audio.Frame) // what the caller said, for who records it; may be nil
	codec  codec.Codec
}

// OverPeer waits until p is connected and returns the line over it.
func OverPeer(ctx context.Context, clock clocks.Clock, p *rtc.Peer) (*Call, error) {
	c, err := p.Connected(ctx)
	if err != nil {
		return nil, err
	}
	if c.Name == "" {
		return nil, fmt.Errorf("liveline: the caller takes no sound: its offer has no codec that can be sent to it")
	}
	l, err := New(Options{Clock: clock, Port: p, Rate: c.Rate, Packet: codec.Frame, Delay: c.Delay})
	if err != nil {
		return nil, err
	}
	return &Call{Line: l, Peer: p, Stamps: Stamps{rate: c.Rate, clock: int(c.ClockRate)}, codec: c}, nil
}

// Codec returns what is spoken.
func (c *Call) Codec() codec.Codec { return c.codec }

// Listen hears the peer until it ends, and closes the line then. Lost packets are
// left out: the line takes them for silence.
func (c *Call) Listen(ctx context.Context) error {
	d, err := codec.NewDecoder(c.codec.Name)
	if err != nil {
		return err
	}
	for {
		k, ok := c.Peer.Hear(ctx)
		if !ok {
			err := c.Peer.Failed()
			c.Close(err)
			return err
		}
		if k.Codec != c.codec.Name { // comfort noise, or a codec that we do not speak
			continue
		}
		f, err := d.Decode(k.Payload)
		if err != nil {
			continue // a bad packet is a lost one
		}
		if c.Heard != nil {
			c.Heard(k, f)
		}
		if err := c.Hear(f, c.Stamps.Place(k.Timestamp), k.Arrived); err != nil {
			c.Close(err)
			return err
		}
	}
}

// StampAt returns the timestamp of what is said at a moment, by a packet that was
// sent before.
func StampAt(c codec.Codec, sent rtc.Sent, at time.Duration) uint32 {
	since := at - (sent.Due - codec.Frame)
	return sent.Timestamp + uint32(int64(since)*int64(c.ClockRate)/int64(time.Second))
}
