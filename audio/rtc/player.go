package rtc

import (
	"time"

	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/audio/playout"
)

// A Playout is what an adaptive jitter buffer (package playout) has done with what
// was heard, in sums since the beginning, as RTCInboundRtpStreamStats has them.
// There is no device behind it, and so no delay of one.
type Playout struct {
	Target    time.Duration // that the buffer aims at now
	Delay     time.Duration // sum over the packets that were played: from arrival until it leaves the buffer
	Packets   int           // in that sum
	Sound     time.Duration // played
	Concealed time.Duration // made up for packets that were lost or late, and silence where none came
}

// maxJump is a gap that is a new beginning, and no loss: 10 s.
const maxJump = 500

// A player runs the model of playout on what is heard.
type player struct {
	buffer *playout.Buffer
	stats  playoutStats
	sums   Playout

	begun   bool
	index   int64 // the buffer's packet 0
	highest int64
	stamp   uint32        // of the highest packet
	media   time.Duration // of the highest packet
	arrived time.Duration // the latest
	end     time.Duration // what has been counted plays until then
	played  bool
	ring    [keptStamps]time.Duration // arrivals, by Seq
}

// playoutStats is pion's, whose type has no name outside.
type playoutStats interface {
	webrtc.AudioPlayoutStatsProvider
	Accumulate(samples int, rate uint32, deviceDelay time.Duration, synthesized bool)
}

func newPlayer() *player {
	return &player{buffer: playout.New(playout.Defaults()), stats: webrtc.NewAudioPlayoutStatsProvider("AP")}
}

// push plays a packet of codec c.
func (p *player) push(k Packet, c codec.Codec) {
	length, err := c.Duration(k.Payload)
	if err != nil || length == 0 {
		return
	}
	if !p.begun || k.Index-p.highest > maxJump || p.highest-k.Index > maxJump {
		p.buffer = playout.New(playout.Defaults())
		p.begun, p.index, p.highest, p.stamp, p.media = true, k.Index, k.Index, k.Timestamp, 0
	}
	if k.Index < p.index {
		return // overtaken by the first: it is too late for any buffer
	}
	// A timestamp is a place relative to the latest, and may jump anywhere.
	step := int64(int32(k.Timestamp - p.stamp))
	media := p.media + time.Duration(step*int64(time.Second)/int64(c.ClockRate))
	if k.Index >= p.highest {
		p.highest, p.stamp, p.media = k.Index, k.Timestamp, media
	}
	p.arrived = max(p.arrived, k.Arrived) // two sockets may deliver out of order
	seq := int(k.Index - p.index)
	p.ring[seq%keptStamps] = p.arrived
	p.buffer.Push(&playout.Packet{Seq: seq, Media: media, Arrival: p.arrived, Duration: length, First: k.Marker})
	p.count(c)
}

// count takes what the buffer has decided into the sums.
func (p *player) count(c codec.Codec) {
	for _, s := range p.buffer.Out {
		if s.Kind == playout.Empty {
			continue
		}
		if p.played && s.At > p.end {
			p.add(c, s.At-p.end, true)
		}
		p.add(c, s.Length, s.Kind != playout.Sound)
		p.played, p.end = true, max(p.end, s.At+s.Length)
		if s.Kind != playout.Sound || s.Packets == 0 {
			continue
		}
		for i := range s.Packets {
			p.sums.Delay += s.When(s.Sound*time.Duration(i)/time.Duration(s.Packets)) - p.ring[(s.Seq+i)%keptStamps]
		}
		p.sums.Packets += s.Packets
	}
	p.buffer.Out = p.buffer.Out[:0]
	p.sums.Target = p.buffer.Target()
}

func (p *player) add(c codec.Codec, d time.Duration, made bool) {
	if made {
		p.sums.Concealed += d
	} else {
		p.sums.Sound += d
	}
	p.stats.Accumulate(int(int64(d)*int64(c.Rate)/int64(time.Second)), uint32(c.Rate), 0, made)
}
