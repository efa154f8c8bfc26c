package clientstats

import (
	"slices"
	"time"

	"firstsound/audio/playout"
)

// packet is how long the packets are of which Clean thinks.
const packet = 20 * time.Millisecond

// Clean returns for how long a perfect client holds sound in its jitter buffer at
// each of the times: the model of NetEq (package playout), to which a packet comes
// every 20 ms from start on, over a network that delays nothing. Those before
// start are zero. silent says whether the agent is silent at a time.
func Clean(start time.Duration, at []time.Duration, silent func(time.Duration) bool) []time.Duration {
	out := make([]time.Duration, len(at))
	if len(at) == 0 {
		return out
	}
	b := playout.New(playout.Options{Mode: playout.Adaptive})
	end := slices.Max(at)
	for seq := 0; ; seq++ {
		t := start + time.Duration(seq)*packet
		if t > end+packet {
			break
		}
		b.Push(&playout.Packet{Seq: seq, Media: t - start, Arrival: t, Duration: packet, First: seq == 0, Silent: silent(t)})
	}
	b.Advance(end + time.Minute) // the buffer plays what it has
	for i, t := range at {
		seq := int((t - start) / packet)
		if t < start {
			continue
		}
		for _, s := range b.Out {
			if s.Kind == playout.Sound && seq >= s.Seq && seq < s.Seq+s.Packets {
				out[i] = s.When(s.Sound*time.Duration(seq-s.Seq)/time.Duration(s.Packets)) - (start + time.Duration(seq)*packet)
			}
		}
	}
	return out
}
