package rtc

import (
	"bytes"
	"context"
	"runtime"

	"firstsound/audio"
	"firstsound/clocks"
)

// Encoders take the work of Opus off the pacer: 0.3 ms a packet, which would delay
// the packets of other peers. A peer's packets go through one of them, in order.
type encoders struct {
	queues []*clocks.Queue[encoding]
	group  *clocks.Group
}

type encoding struct {
	s *sender
	job
}

func newEncoders(c clocks.Clock) *encoders {
	e := &encoders{}
	var ctx context.Context
	e.group, ctx = clocks.NewGroup(context.Background(), c)
	for range runtime.GOMAXPROCS(0) {
		q := clocks.NewQueue[encoding](c, "packets to encode")
		e.queues = append(e.queues, q)
		e.group.Go("rtc encoder", func() error {
			for j := range q.All(ctx) {
				j.s.encode(j.job)
			}
			return nil
		})
	}
	return e
}

func (e *encoders) put(s *sender, j job) {
	e.queues[s.number%len(e.queues)].Put(encoding{s, j})
}

func (e *encoders) close() {
	for _, q := range e.queues {
		q.Close()
	}
	e.group.Wait()
}

// steady is after how many equal payloads of silence in a row the encoder's state
// counts as settled: half a second. It need not see more of them then; a test of
// package codec shows that what comes after is heard just as well.
const steady = 25

// encode makes the payload of a packet, and sends it. Only one goroutine does so.
func (s *sender) encode(j job) {
	pcm := j.pcm
	if pcm == nil {
		pcm = make([]int16, s.codec.Samples())
	}
	payload, err := s.encoder.Encode(audio.Frame{Rate: s.codec.Rate, PCM: pcm})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if err != nil {
		s.counts.failed++
		return
	}
	switch {
	case j.pcm != nil || !bytes.Equal(payload, s.still):
		s.still, s.stillFor, s.quiet = nil, 0, nil
		if j.pcm == nil {
			s.still = payload
		}
	default:
		if s.stillFor++; s.stillFor >= steady {
			s.quiet = payload
		}
	}
	s.write(j, payload)
}
