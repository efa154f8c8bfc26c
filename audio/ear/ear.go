// Package ear says what was heard of an answer that came in packets: when its
// first sound and its first speech came, on the wire and behind a buffer, and what
// was missing of it.
//
// Everything here is a pure function of the packets and their arrivals. Times are
// on the clock of the arrivals. What cannot be said is nil, with the reason in
// words beside it.
//
// Two conventions, without which figures differ by one packet: a packet that is
// sent at S carries the sound of [S − 20 ms, S], and one that arrives at A is heard
// from A on. So an agent that begins to speak at once is heard 20 ms later on a
// perfect network.
package ear

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
)

// A Kind says what a packet carries.
type Kind uint8

// The kinds of packets.
const (
	Decoded   Kind = iota // sound that somebody sent
	Concealed             // made up by the decoder in place of a packet that was lost
	Quiet                 // comfort noise (RFC 3389) or what Opus sends instead of silence (DTX)
)

// A Packet is a packet that was heard, decoded.
type Packet struct {
	Index     int64  // its place in the stream: the sequence number without its wrapping around
	Timestamp uint32 // RTP's, of its first sample
	Arrived   time.Duration
	Kind      Kind
	Sound     audio.Frame
}

// Options say how a stream is to be understood.
type Options struct {
	ClockRate uint32          // of the timestamps, in Hz: 48000 for Opus whatever its sound has
	Fixed     time.Duration   // the delay of the view with a fixed buffer
	NetEq     playout.Options // of the view through NetEq; its Mode has to be Adaptive
}

// Defaults returns the options for a stream with timestamps at clockRate: a fixed
// buffer of 60 ms, which is three packets, and NetEq without a minimum.
func Defaults(clockRate uint32) Options {
	return Options{ClockRate: clockRate, Fixed: 60 * time.Millisecond, NetEq: playout.Options{Mode: playout.Adaptive}}
}

// maxJump is a step of a timestamp that is a new beginning and no pause.
const maxJump = time.Hour

// A Stream is all that was heard from one sender, ready to be asked about turns.
type Stream struct {
	o       Options
	rate    int
	packets []Packet        // by Index, each once
	media   []time.Duration // of each, from the first on
	played  []*time.Duration
	spans   []playout.Span
	frames  []frame
	start   []int // of each packet, its first frame
	mean    float64
	target  time.Duration
}

// New makes a Stream of the packets in any order; of two with one Index the one
// that came first counts. It fails if a packet has no sound, if rates differ, or if
// the options are wrong. Without packets it returns an empty Stream, which has no
// answers.
func New(packets []Packet, o Options) (*Stream, error) {
	switch {
	case o.ClockRate == 0:
		return nil, fmt.Errorf("ear: no clock rate of the timestamps: give the codec's, such as 48000 for Opus")
	case o.Fixed < 0:
		return nil, fmt.Errorf("ear: a fixed buffer of %v is negative", o.Fixed)
	case o.NetEq.Mode != playout.Adaptive:
		return nil, fmt.Errorf("ear: the mode of NetEq's buffer is %q: it has to be %q", o.NetEq.Mode, playout.Adaptive)
	}
	if err := o.NetEq.Check(); err != nil {
		return nil, fmt.Errorf("ear: %w", err)
	}
	s := &Stream{o: o, packets: slices.Clone(packets)}
	slices.SortStableFunc(s.packets, func(a, b Packet) int {
		if a.Index != b.Index {
			return cmp.Compare(a.Index, b.Index)
		}
		return cmp.Compare(a.Arrived, b.Arrived)
	})
	s.packets = slices.CompactFunc(s.packets, func(a, b Packet) bool { return a.Index == b.Index })
	for i, p := range s.packets {
		if err := audio.CheckRate(p.Sound.Rate); err != nil {
			return nil, fmt.Errorf("ear: packet %d: %w", p.Index, err)
		}
		if len(p.Sound.PCM) == 0 {
			return nil, fmt.Errorf("ear: packet %d has no samples: give the silence or the noise that it stands for", p.Index)
		}
		if s.rate = s.packets[0].Sound.Rate; p.Sound.Rate != s.rate {
			return nil, fmt.Errorf("ear: packet %d is at %d samples a second, those before it at %d: resample it first", p.Index, p.Sound.Rate, s.rate)
		}
		at := time.Duration(0)
		if i > 0 {
			step := int64(int32(p.Timestamp - s.packets[i-1].Timestamp))
			d := time.Duration(step * int64(time.Second) / int64(o.ClockRate))
			if d > maxJump || d < -maxJump {
				return nil, fmt.Errorf("ear: the timestamp jumps by %v at packet %d: it is another stream: cut there", d, p.Index)
			}
			at = s.media[i-1] + d
		}
		s.media = append(s.media, at)
	}
	s.play()
	s.levels()
	return s, nil
}

// length returns how long packet i lasts.
func (s *Stream) length(i int) time.Duration { return s.packets[i].Sound.Duration() }

// play runs the packets through the model of NetEq.
func (s *Stream) play() {
	s.played = make([]*time.Duration, len(s.packets))
	if len(s.packets) == 0 {
		return
	}
	order := make([]int, len(s.packets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.packets[a].Arrived, s.packets[b].Arrived) })
	b := playout.New(s.o.NetEq)
	first := s.packets[0].Index
	last := time.Duration(0)
	for _, i := range order {
		p := s.packets[i]
		last = p.Arrived
		if p.Kind == Concealed {
			continue // it was never there
		}
		// RTP's marker would say where an answer begins, but pion sets it on every packet.
		paused := i == 0 || p.Index == s.packets[i-1].Index+1 && s.media[i] > s.media[i-1]+s.length(i-1)
		b.Push(&playout.Packet{Seq: int(p.Index - first), Media: s.media[i], Arrival: p.Arrived, Duration: s.length(i), First: paused,
			Silent: !slices.ContainsFunc(p.Sound.PCM, func(x int16) bool { return x != 0 })})
	}
	b.End(last)
	for at, ok := b.Next(); ok; at, ok = b.Next() {
		b.Advance(at + 1)
	}
	s.spans, s.target = b.Out, b.Target()
	// Where each packet is played. Seq counts the packets that are missing too.
	i := 0
	for _, span := range s.spans {
		if span.Kind != playout.Sound {
			continue
		}
		var offset time.Duration
		for i < len(s.packets) && int(s.packets[i].Index-first) < span.Seq {
			i++
		}
		for ; i < len(s.packets) && int(s.packets[i].Index-first) < span.Seq+span.Packets; i++ {
			at := span.When(offset)
			s.played[i] = &at
			offset += s.length(i)
		}
	}
}

// A Moment is one place in the sound, with the times at which it is heard. Only
// Wire is measured. The others say what a buffer makes of the same packets.
type Moment struct {
	Packet int64         // the Index of the packet that it lies in
	Offset time.Duration // into that packet
	Wire   time.Duration // the arrival of the packet and the offset: as if there were no buffer

	// Fixed is what a buffer with a fixed delay behind the fastest packet of the
	// last two seconds gives; nil with FixedWhy if the packet came too late for it.
	Fixed    *time.Duration
	FixedWhy string

	// NetEq is when the sound leaves the model of WebRTC's buffer, without a
	// device; nil with NetEqWhy if it was never played.
	NetEq    *time.Duration
	NetEqWhy string
}

// baseWindow is how far back the fastest packet is looked for, in media time:
// NetEq's own window.
const baseWindow = 2 * time.Second

// moment returns the moment of a sample of packet i.
func (s *Stream) moment(i, sample int) Moment {
	offset := audio.Span(sample, s.rate)
	p := s.packets[i]
	m := Moment{Packet: p.Index, Offset: offset, Wire: p.Arrived + offset}
	base := p.Arrived - s.media[i]
	for j := i; j >= 0 && s.media[i]-s.media[j] <= baseWindow; j-- {
		if s.packets[j].Kind != Concealed {
			base = min(base, s.packets[j].Arrived-s.media[j])
		}
	}
	at := s.media[i] + base + s.o.Fixed
	if p.Arrived > at {
		m.FixedWhy = fmt.Sprintf("packet %d came %v too late for a buffer of %v", p.Index, (p.Arrived - at).Round(time.Microsecond), s.o.Fixed)
	} else {
		at += offset
		m.Fixed = &at
	}
	if s.played[i] == nil {
		m.NetEqWhy = fmt.Sprintf("packet %d came when its turn was over", p.Index)
	} else {
		at := s.when(i, offset)
		m.NetEq = &at
	}
	return m
}

// when returns when the sound at offset into packet i leaves NetEq.
func (s *Stream) when(i int, offset time.Duration) time.Duration {
	seq := int(s.packets[i].Index - s.packets[0].Index)
	for _, span := range s.spans {
		if span.Kind == playout.Sound && span.Seq == seq && span.Packets == 1 {
			return span.When(offset)
		}
	}
	return *s.played[i] + offset
}
