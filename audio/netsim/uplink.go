package netsim

import (
	"context"
	"iter"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/clocks/trace"
)

// Say begins to send u from the caller's microphone now. Packet i holds the
// sound from i to i+1 packet times; it is sent, and travels, once its last
// sample is there. After the recording the microphone goes on with silence, for
// as long as somebody listens: to begin another utterance opens a Speech of its
// own and leaves this one as it is.
//
// A listener gets the sound in order, so a packet that is overtaken holds up
// those after it, and reordering changes nothing on this way. A lost packet
// becomes silence of the same length, which is there when the next packet that
// is not lost arrives.
func (l *Line) Say(id trace.ID, u *audio.Utterance) audio.Speech {
	l.mu.Lock()
	nth := l.said.next(id.Turn)
	l.mu.Unlock()
	return &speech{
		line:    l,
		u:       u,
		began:   l.clock.Now(),
		stream:  newStream(l.seed, "uplink", l.session, id.Turn, nth),
		reached: -1,
	}
}

type speech struct {
	line   *Line
	u      *audio.Utterance
	began  time.Duration
	stream stream

	mu      sync.Mutex
	reached int           // the highest packet that has been looked at
	arrived time.Duration // when it, and all before it, had arrived
}

func (s *speech) Utterance() *audio.Utterance { return s.u }

// Await sleeps until the packet with the sample before offset has arrived.
func (s *speech) Await(ctx context.Context, offset time.Duration) (time.Duration, error) {
	at := s.began
	if offset > 0 {
		at = s.arrival(int((offset - 1) / s.line.o.Packet))
	}
	if at > s.line.clock.Now() {
		return at, s.line.clock.SleepUntil(ctx, at)
	}
	return at, context.Cause(ctx)
}

// Frames yields a frame for each packet when it arrives. A lost one is silence.
func (s *speech) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		for i := 0; ; i++ {
			if err := s.line.clock.SleepUntil(ctx, s.arrival(i)); err != nil {
				yield(audio.Frame{}, err)
				return
			}
			if !yield(s.frame(i), nil) {
				return
			}
		}
	}
}

// frame returns the sound of packet i as the listener gets it. Where a packet
// does not hold a whole number of samples, each gets those that begin in it.
func (s *speech) frame(i int) audio.Frame {
	rate, pcm := s.u.Sound.Rate, s.u.Sound.PCM
	packet := s.line.o.Packet
	from, to := audio.Samples(time.Duration(i)*packet, rate), audio.Samples(time.Duration(i+1)*packet, rate)
	if to <= len(pcm) && !s.line.up.loss.lost(s.stream, i) {
		return audio.Frame{Rate: rate, PCM: pcm[from:to:to]}
	}
	out := make([]int16, to-from)
	if from < len(pcm) && !s.line.up.loss.lost(s.stream, i) {
		copy(out, pcm[from:])
	}
	return audio.Frame{Rate: rate, PCM: out}
}

// arrival returns when packets 0 to i have arrived. A lost one counts as arrived
// with the next that is not.
//
// It is the latest arrival of any of them. Packets from further back than the
// longest jitter cannot be it, so no more of them are looked at: the answer is
// exact, and the default jitter takes 4 packets at most.
func (s *speech) arrival(i int) time.Duration {
	w, packet := s.line.up, s.line.o.Packet
	for w.loss.lost(s.stream, i) {
		i++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.began + time.Duration(i+1)*packet + s.line.o.CodecDelay + w.delay // without its jitter
	at := sent + w.jitterOf(s.stream, i)
	stop := -1
	if i > s.reached {
		stop = s.reached
		at = max(at, s.arrived)
	}
	for j := i - 1; j > stop; j-- {
		sent -= packet
		if sent+w.jitter.most <= at {
			break
		}
		if t := sent + w.jitterOf(s.stream, j); t > at && !w.loss.lost(s.stream, j) {
			at = t
		}
	}
	if i > s.reached {
		s.reached, s.arrived = i, at
	}
	return at
}
