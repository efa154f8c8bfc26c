package vadtest

import (
	"context"
	"iter"
	"math"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
)

// A Speech replays an utterance on a clock, with no line in between.
type Speech struct {
	clock  clocks.Clock
	u      *audio.Utterance
	frame  time.Duration
	quiet  time.Duration // silence that Frames yields behind it before the line ends
	live   bool          // it does not say that it is a recording
	began  time.Duration
	broken time.Duration
	err    error
}

// NewSpeech returns a Speech of u that begins now, in frames of 20 ms, with 2 s
// of silence behind it. Await waits for silence without end.
func NewSpeech(c clocks.Clock, u *audio.Utterance) *Speech {
	return &Speech{clock: c, u: u, frame: 20 * time.Millisecond, quiet: 2 * time.Second, began: c.Now(), broken: math.MaxInt64}
}

// Break makes the line break once it has carried offset: Frames and Await then
// return err. It is called before the Speech is used.
func (s *Speech) Break(offset time.Duration, err error) { s.broken, s.err = offset, err }

// Utterance implements audio.Speech.
func (s *Speech) Utterance() *audio.Utterance {
	if s.live {
		return nil
	}
	return s.u
}

// Await implements audio.Speech.
func (s *Speech) Await(ctx context.Context, offset time.Duration) (time.Duration, error) {
	if err := s.clock.SleepUntil(ctx, s.began+min(offset, s.broken)); err != nil {
		return 0, err
	}
	if offset > s.broken {
		return 0, s.err
	}
	return s.began + offset, nil
}

// Frames implements audio.Speech.
func (s *Speech) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		rate, pcm := s.u.Sound.Rate, s.u.Sound.PCM
		end := s.u.Sound.Duration() + s.quiet
		for at := s.frame; at <= end; at += s.frame {
			if _, err := s.Await(ctx, at); err != nil {
				yield(audio.Frame{}, err)
				return
			}
			from, to := audio.Samples(at-s.frame, rate), audio.Samples(at, rate)
			f := audio.Frame{Rate: rate, PCM: make([]int16, to-from)}
			if from < len(pcm) {
				copy(f.PCM, pcm[from:])
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}
