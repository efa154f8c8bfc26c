// Package realtimetest runs the mock of an agent in memory, for tests of what talks
// to it, inside a testing/synctest bubble.
package realtimetest

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/realtime"
	"firstsound/audio/realtime/mock"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/random"
)

// Said is a tone with the given bounds in silence.
func Said(start, end time.Duration) *audio.Utterance {
	const tail = 100 * time.Millisecond
	u := &audio.Utterance{ID: "tone", Start: start, End: end, Sound: audio.Frame{Rate: realtime.Rate, PCM: make([]int16, audio.Samples(end+tail, realtime.Rate))}}
	for i := audio.Samples(start, realtime.Rate); i < audio.Samples(end, realtime.Rate); i++ {
		u.Sound.PCM[i] = int16(6000 * math.Sin(2*math.Pi*150*float64(i)/realtime.Rate))
	}
	return u
}

// Key is the one that Exact accepts.
const Key = "sk-right"

// Exact are options without chance: 500 ms of silence, 20 to tell of it, 10 to
// create the answer, 300 to its first sound, which has 100 ms of silence at its
// head and 600 of a tone, in pieces of 100 ms every 30 ms.
func Exact() mock.Options {
	ms := func(n int) random.Dist { return random.Const(time.Duration(n) * time.Millisecond) }
	o := mock.Defaults()
	o.Endpoint, o.Create, o.First, o.Lead, o.Length, o.Gap = ms(20), ms(10), ms(300), ms(100), ms(600), ms(30)
	o.Keys = []string{Key}
	return o
}

// InBubble calls f with a mock and options to reach it, and returns the truth.
func InBubble(t *testing.T, o mock.Options, f func(ctx context.Context, c clocks.Clock, o realtime.Options) error) (all []mock.Truth) {
	t.Helper()
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		truths := clocks.NewQueue[mock.Truth](c, "truths")
		o.Truth = truths.Put
		server, err := mock.New(c, o)
		if err != nil {
			return err
		}
		l := pipes{clocks.NewQueue[net.Conn](c, "connections")}
		inner, cancel := clocks.WithCancel(context.Background(), c)
		served, _ := clocks.NewGroup(context.Background(), c)
		served.Go("the mock", func() error { return server.Serve(inner, l, nil) })
		r := realtime.Defaults()
		r.URL, r.Dial, r.Key, r.Timeout = "ws://mock/v1/realtime", l.dial, Key, 5*time.Second
		err = f(ctx, c, r)
		cancel(errors.New("the test is over"))
		err = errors.Join(err, served.Wait())
		truths.Close()
		all = slices.Collect(truths.All(context.Background()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// pipes is a listener in memory.
type pipes struct{ in *clocks.Queue[net.Conn] }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.in.Put(far)
	return near, nil
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	c, ok := p.in.Get(context.Background())
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements net.Listener.
func (p pipes) Close() error {
	p.in.Close()
	return nil
}

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
