package live

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
)

// chatter is a service that says something all the time, and nothing of interest.
type chatter struct {
	clock clocks.Clock
	said  int
}

func (*chatter) Finalize() (bool, error) { return false, nil }
func (*chatter) End(bool) error          { return nil }
func (*chatter) Close()                  {}
func (c *chatter) Send(audio.Frame) (time.Duration, error) {
	return c.clock.Now(), nil
}

// Next has a message at once, as a socket has that has many, whatever ctx says.
func (c *chatter) Next(context.Context) ([]asr.Result, error) {
	if c.said++; c.said > 100_000 {
		return nil, errors.New("it was heard for ever")
	}
	c.clock.Sleep(context.Background(), time.Millisecond)
	return nil, nil
}

// frame is a speech of one frame.
type frame struct{ audio.Speech }

func (frame) Frames(context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		yield(audio.Frame{Rate: 16000, PCM: make([]int16, 320)}, nil)
	}
}

func recognize(t *testing.T, open func(context.Context, clocks.Clock) (Session, error)) (took time.Duration, err error) {
	c := clocks.NewReal()
	s := Service{Name: "x", Rate: 16000, Timeout: 3 * time.Second, Open: func(ctx context.Context) (Session, error) { return open(ctx, c) }}
	for _, e := range Recognize(t.Context(), c, asr.Request{}, frame{}, s) {
		err = e
	}
	return c.Now(), err
}

// A service that takes no sound, or tells things without an end, is given up in time.
func TestGivenUp(t *testing.T) {
	for name, open := range map[string]func(context.Context, clocks.Clock) (Session, error){
		"not ready": func(ctx context.Context, _ clocks.Clock) (Session, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"chatter": func(_ context.Context, c clocks.Clock) (Session, error) { return &chatter{clock: c}, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			took, err := recognize(t, open)
			if err == nil || failure.Of(err) != failure.Timeout || took > 6*time.Second {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
		})
	}
}
