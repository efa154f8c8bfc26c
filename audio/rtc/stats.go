package rtc

import (
	"time"

	"github.com/pion/webrtc/v4"
)

// Stats are the sums of a peer so far.
type Stats struct {
	Speaks, Hears string // the codecs; empty: not known yet

	Sent    int           // packets
	Skipped int           // not sent, because this host was held up for more than a second
	Unsent  int           // that could not be encoded or written
	Latest  time.Duration // the most that a packet was sent after it was due

	Heard     int // packets
	Kernel    int // with the kernel's stamp
	Lost      int // that have not come by now
	Reordered int // that were overtaken
	Malformed int
	Untaken   int // that Hear does not return, because nobody took those before

	RTT     *time.Duration // the last one of ICE's checks; nil: there was none
	Playout *Playout       // nil: nothing was heard
}

// Stats returns the sums so far. They stay when the peer has ended, but for RTT.
func (p *Peer) Stats() Stats {
	var s Stats
	p.sender.mu.Lock()
	s.Speaks = p.sender.codec.Name
	s.Sent, s.Skipped, s.Unsent, s.Latest = p.sender.counts.sent, p.sender.counts.skipped, p.sender.counts.failed, p.sender.counts.latest
	p.sender.mu.Unlock()
	p.in.mu.Lock()
	c := p.in.counts
	s.Hears = c.codec
	s.Heard, s.Kernel, s.Lost, s.Reordered, s.Malformed, s.Untaken = c.heard, c.kernel, int(c.lost), c.reordered, c.malformed, c.untaken
	if p.in.playout != nil {
		sums := p.in.playout.sums
		s.Playout = &sums
	}
	p.in.mu.Unlock()
	if pair, ok := p.pc.SCTP().Transport().ICETransport().GetSelectedCandidatePairStats(); ok && pair.ResponsesReceived > 0 {
		rtt := time.Duration(pair.CurrentRoundTripTime * float64(time.Second))
		s.RTT = &rtt
	}
	return s
}

// Report returns pion's statistics, in the form of the standard: with the
// RTCAudioPlayoutStats of what was heard.
func (p *Peer) Report() webrtc.StatsReport { return p.pc.GetStats() }
