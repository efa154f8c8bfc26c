// Package netsim is a line over a modelled network: what the caller says comes
// in packets, late by a delay and a jitter, some of them lost; the answer goes
// back the same way into a playout buffer. It runs on any clock.
//
// # The model
//
// A way carries packets of one length. A packet arrives codec delay + delay +
// jitter after it was sent, and not before the packet that was sent before it,
// unless the way reorders. Losses are independent, or come in bursts after
// Gilbert's model. What happens to a packet follows from the seed, the way, the
// session, the turn, and the number of the packet within its utterance or
// answer, and from nothing else: what another stage, turn or packet does never
// changes a draw.
//
// Nothing here wakes for each packet. Where a packet arrives, when the buffer
// plays it, when it runs empty and when the answer ends is worked out as soon as
// the sound is handed over, and the clock only brings the events.
package netsim

import (
	"fmt"
	"sync"
	"time"

	"firstsound/audio/playout"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

// A Pacing is how the agent sends its answer.
type Pacing string

// The pacings.
const (
	// Realtime sends a packet every packet time, as RTP senders do.
	Realtime Pacing = "realtime"

	// Burst sends what there is at once, as agents on WebSocket lines do.
	Burst Pacing = "burst"
)

// Options are the settings of a line, as a scenario writes them.
type Options struct {
	Packet     time.Duration   `yaml:"packet"`      // the sound in one packet
	Uplink     Way             `yaml:"uplink"`      // from the caller to the agent
	Downlink   Way             `yaml:"downlink"`    // from the agent to the caller
	Pacing     Pacing          `yaml:"pacing"`      // of the downlink: realtime or burst
	CodecDelay time.Duration   `yaml:"codec_delay"` // what the encoder has to look ahead, each way
	Playout    playout.Options `yaml:"playout"`     // at the caller
}

// A Way is one direction of the network.
type Way struct {
	Delay  time.Duration `yaml:"delay"`  // of every packet
	Jitter random.Dist   `yaml:"jitter"` // comes on top, drawn for each packet
	Loss   float64       `yaml:"loss"`   // the share of packets that never arrive, from 0 up to below 1

	// Burst is how many packets in a row are lost on average. 0 makes losses
	// independent, which gives runs of 1/(1 − Loss) on average.
	Burst float64 `yaml:"burst"`

	// Reorder lets packets overtake each other. It is off on most paths, where
	// a late packet holds up those behind it.
	Reorder bool `yaml:"reorder"`
}

// Defaults returns a caller on Wi-Fi with a WebRTC client:
//
//   - packets of 20 ms, which is the default of Opus in WebRTC (RFC 7587, section 4);
//   - 6.5 ms of codec delay: Opus at its default setting takes 26.5 ms, of which
//     20 ms are the packet (RFC 6716, section 2);
//   - 20 ms of delay each way, an assumption: a server in the same region;
//   - a jitter of lognormal(10ms, 0.5), that is 5 to 15 ms around the median.
//     Illustrative: the source is a blog;
//   - no loss;
//   - realtime pacing into an adaptive playout buffer.
func Defaults() Options {
	wifi := Way{Delay: 20 * time.Millisecond, Jitter: random.MustParse("lognormal(10ms, 0.5)")}
	return Options{
		Packet:     20 * time.Millisecond,
		Uplink:     wifi,
		Downlink:   wifi,
		Pacing:     Realtime,
		CodecDelay: 6500 * time.Microsecond,
		Playout:    playout.Defaults(),
	}
}

// Check says what is wrong with o, beginning with the key of the option.
func (o Options) Check() error {
	switch {
	case o.Packet < time.Millisecond || o.Packet > time.Second:
		return fmt.Errorf("packet: %v does not lie between 1ms and 1s", o.Packet)
	case o.Pacing != Realtime && o.Pacing != Burst:
		return fmt.Errorf("pacing: %q is not realtime or burst", string(o.Pacing))
	case o.CodecDelay < 0:
		return fmt.Errorf("codec_delay: %v is negative", o.CodecDelay)
	}
	if err := o.Uplink.check(); err != nil {
		return fmt.Errorf("uplink: %w", err)
	}
	if err := o.Downlink.check(); err != nil {
		return fmt.Errorf("downlink: %w", err)
	}
	if err := o.Playout.Check(); err != nil {
		return fmt.Errorf("playout: %w", err)
	}
	return nil
}

func (w Way) check() error {
	switch {
	case w.Delay < 0:
		return fmt.Errorf("delay: %v is negative", w.Delay)
	case !(w.Loss >= 0 && w.Loss < 1):
		return fmt.Errorf("loss: %v is not a share from 0 up to below 1", w.Loss)
	case w.Burst != 0 && !(w.Burst >= 1 && w.Burst <= 1000):
		return fmt.Errorf("burst: %v is not a mean number of packets from 1 to 1000", w.Burst)
	case w.Burst != 0 && w.Loss*(w.Burst+1) >= w.Burst:
		return fmt.Errorf("burst: a loss of %v cannot come in bursts of %v packets: with a single packet between two bursts it is %.4g", w.Loss, w.Burst, w.Burst/(w.Burst+1))
	}
	return nil
}

// A Line carries sound between one caller and the agent; it is a pipeline.Line.
// It serves one call, and may be used by several goroutines.
type Line struct {
	clock   clocks.Clock
	seed    uint64
	session int
	o       Options
	up      *way

	mu        sync.Mutex
	said      count // utterances
	down      downlink
	prebuffer string // the setting that owns the time before the first sound, if one does
}

// New returns the line of a call. The options have to be good (Options.Check):
// New panics otherwise.
func New(clock clocks.Clock, seed uint64, session int, o Options) *Line {
	if err := o.Check(); err != nil {
		panic("netsim: " + err.Error())
	}
	l := &Line{clock: clock, seed: seed, session: session, o: o}
	if o.Playout.Mode == playout.Fixed {
		l.prebuffer = "line.playout.prebuffer=" + o.Playout.Prebuffer.String()
	}
	l.up = newWay(o.Uplink)
	l.down.init(l, newWay(o.Downlink))
	return l
}

// A count numbers the utterances, or the answers, of one turn from 0. The turns
// of a call come one after the other.
type count struct{ turn, n int }

func (c *count) next(turn int) int {
	if turn != c.turn {
		*c = count{turn: turn}
	}
	c.n++
	return c.n - 1
}
