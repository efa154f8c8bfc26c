package clientstats

import (
	"fmt"
	"time"
)

// What can be. Beyond it is nonsense, which is left out and told of.
const (
	maxRoundTrip  = 60.0  // seconds
	maxCount      = 1e12  // samples of most of a year at 48 kHz
	maxSeconds    = 1e9   // more than any call lasts
	maxAgentError = 60000 // milliseconds

	// windowSlack is by how much the sound of a window may be longer than the window:
	// a page that is busy reads its clock late.
	windowSlack = time.Second
)

// A Left is what a client said and cannot be: it was left out.
type Left struct {
	Key string `json:"key"`    // W3C's name of the counter, or a name of Stats
	N   int    `json:"values"` // how many of this key
	Why string `json:"why"`    // where the first of them is, and what is wrong with it
}

// String says it in words.
func (l Left) String() string {
	if l.N == 1 {
		return l.Key + ": " + l.Why
	}
	return fmt.Sprintf("%s: %d values, the first: %s", l.Key, l.N, l.Why)
}

// AddLeft adds more to all, which holds each key once.
func AddLeft(all []Left, more ...Left) []Left {
next:
	for _, l := range more {
		for i := range all {
			if all[i].Key == l.Key {
				all[i].N += l.N
				continue next
			}
		}
		all = append(all, l)
	}
	return all
}

// bound leaves out what cannot be. n is the number of the line.
func (l *Line) bound(n int) {
	within := func(key string, v **float64, low, high float64) {
		if *v != nil && (**v < low || **v > high) {
			l.Left = AddLeft(l.Left, Left{key, 1, fmt.Sprintf("line %d: %v is not from %v to %v", n, **v, low, high)})
			*v = nil
		}
	}
	within("agent_error_ms", &l.Stats.AgentError, 0, maxAgentError)
	for i := range l.Stats.Samples {
		s := &l.Stats.Samples[i]
		if s.Pair != nil {
			within("currentRoundTripTime", &s.Pair.RoundTrip, 0, maxRoundTrip)
		}
		if s.Playout != nil {
			within("totalPlayoutDelay", &s.Playout.Delay, 0, maxCount)
			within("totalSamplesCount", &s.Playout.Samples, 0, maxCount)
		}
		in := s.Inbound
		if in == nil {
			continue
		}
		within("packetsLost", &in.PacketsLost, -maxCount, maxCount)
		within("totalSamplesDuration", &in.Duration, 0, maxSeconds)
		for _, c := range []struct {
			key string
			v   **float64
		}{
			{"ssrc", &in.SSRC}, {"packetsReceived", &in.PacketsReceived}, {"jitterBufferDelay", &in.Delay}, {"jitterBufferTargetDelay", &in.TargetDelay},
			{"jitterBufferEmittedCount", &in.Emitted}, {"totalSamplesReceived", &in.Samples}, {"concealedSamples", &in.Concealed},
			{"silentConcealedSamples", &in.SilentConcealed}, {"insertedSamplesForDeceleration", &in.Inserted},
			{"removedSamplesForAcceleration", &in.Removed}, {"totalAudioEnergy", &in.TotalAudioEnergy},
		} {
			within(c.key, c.v, 0, maxCount)
		}
	}
}
