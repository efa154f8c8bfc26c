package netsim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

func utterance(d time.Duration) *audio.Utterance {
	u := &audio.Utterance{ID: "u", Sound: sound(d)}
	for i := range u.Sound.PCM {
		u.Sound.PCM[i] = int16(i%30000) + 1
	}
	return u
}

func TestSayExactly(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		c.Sleep(ctx, 100*ms)
		o := plain(playout.Ideal, 0)
		o.CodecDelay = 6500 * time.Microsecond
		u := utterance(50 * ms)
		s := New(c, 1, 1, o).Say(trace.ID{Session: 1, Turn: 1}, u)
		if s.Utterance() != u {
			t.Error("not the utterance")
		}
		for _, w := range []struct{ offset, want time.Duration }{
			{0, 100 * ms},
			{20*ms + 1, 166*ms + 500*time.Microsecond},
			{1, 146*ms + 500*time.Microsecond}, // has arrived already
			{20 * ms, 146*ms + 500*time.Microsecond},
			{time.Second, 1126*ms + 500*time.Microsecond}, // after the recording
		} {
			if at, err := s.Await(ctx, w.offset); at != w.want || err != nil {
				t.Errorf("Await(%v) = %v, %v, want %v", w.offset, at, err, w.want)
			}
		}
		if now := c.Now(); now != 1126*ms+500*time.Microsecond {
			t.Errorf("it is %v", now)
		}
	})
}

func TestFrames(t *testing.T) {
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		o := plain(playout.Ideal, 0)
		u := utterance(50 * ms)
		s := New(c, 1, 1, o).Say(trace.ID{Session: 1, Turn: 1}, u)
		ctx, cancel := clocks.WithCancel(context.Background(), c)
		reason := fmt.Errorf("enough")
		var pcm []int16
		n := 0
		for f, err := range s.Frames(ctx) {
			if err != nil {
				if err != reason || n != 10 {
					t.Errorf("frame %d: %v", n, err)
				}
				break
			}
			n++
			if want := time.Duration(n)*20*ms + 20*ms; c.Now() != want || len(f.PCM) != 320 || f.Rate != 16000 {
				t.Errorf("frame %d of %d samples at %v, want %v", n, len(f.PCM), c.Now(), want)
			}
			pcm = append(pcm, f.PCM...)
			if n == 10 {
				cancel(reason)
			}
		}
		if !slices.Equal(pcm[:800], u.Sound.PCM) || slices.Max(pcm[800:]) != 0 {
			t.Error("other sound than was said")
		}
	})
}

// Several readers at once see the same, and what Await computes from a few
// packets is what a look at all of them gives.
func TestAwaitIsExact(t *testing.T) {
	ctx := context.Background()
	v := clocks.NewVirtual()
	o := Defaults()
	o.Uplink.Loss, o.Uplink.Burst = 0.2, 3
	line := New(v, 7, 3, o)
	s := line.Say(trace.ID{Session: 3, Turn: 2}, utterance(time.Second)).(*speech)
	var all []time.Duration // by going through all packets
	var latest time.Duration
	for i, due := 0, 0; i < 3000; i++ {
		if line.up.loss.lost(s.stream, i) {
			continue
		}
		at := time.Duration(i+1)*20*ms + 26500*time.Microsecond + line.up.jitterOf(s.stream, i)
		latest = max(latest, at)
		for ; due <= i; due++ {
			all = append(all, latest)
		}
	}
	backwards := line.Say(trace.ID{Session: 3, Turn: 2}, nil).(*speech)
	backwards.stream = s.stream
	for i := len(all) - 1; i >= 0; i-- {
		if got := backwards.arrival(i); got != all[i] {
			t.Fatalf("packet %d: %v, want %v", i, got, all[i])
		}
	}
	for _, step := range []int{1, 7, 100} {
		v.Go("reader", func() {
			for i := 0; i < len(all); i += step {
				if at, err := s.Await(ctx, time.Duration(i+1)*20*ms); at != all[i] || err != nil {
					t.Errorf("packet %d: %v, %v, want %v", i, at, err, all[i])
					return
				}
			}
		})
	}
	if err := v.Run(ctx); err != nil {
		t.Error(err)
	}
}
