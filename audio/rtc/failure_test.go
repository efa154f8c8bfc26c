package rtc

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/transport/v5/vnet"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

// A connection that cannot come about is named within 5 s, with a hint.
func TestNoConnection(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(sdp string) string
		want   string
	}{
		{"nobody there", func(s string) string { return s }, "no usable ICE candidates: none of ours (1) reached one of theirs (1) within 5s: a firewall"},
		{"no candidates", func(s string) string { return withoutLines(s, "a=candidate", "a=end-of-candidates") }, "no usable ICE candidates from the other side within 5s"},
		{"names", func(s string) string { return strings.ReplaceAll(s, "10.0.0.2 ", "0a1b.local ") }, "theirs are names under .local"},
		{"loopback", func(s string) string { return strings.ReplaceAll(s, "10.0.0.2 ", "127.0.0.1 ") }, "theirs are loopback addresses: allow loopback candidates here"},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := clocks.NewReal()
			x, y := network(t, time.Millisecond, func(c vnet.Chunk) bool { return false })
			a, b := endpoint(t, Options{Clock: clock, Net: x}), endpoint(t, Options{Clock: clock, Net: y})
			ctx := context.Background()
			p, offer, err := a.Offer(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, answer, err := b.Answer(ctx, offer)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Answered(test.answer(answer)); err != nil {
				t.Fatal(err)
			}
			began := clock.Now()
			_, err = p.Connected(ctx)
			if err == nil || !strings.Contains(err.Error(), test.want) || p.Failed() == nil {
				t.Errorf("%s: %v, want %s", test.name, err, test.want)
			}
			if d := clock.Now() - began; d > 5*time.Second {
				t.Errorf("%s: it took %v", test.name, d)
			}
			p.Close()
			if _, ok := p.Hear(ctx); ok || p.State() != StateFailed {
				t.Errorf("%s: %v", test.name, p.State())
			}
		})
	}
}

func withoutLines(s string, prefixes ...string) string {
	var out strings.Builder
next:
	for line := range strings.Lines(s) {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				continue next
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// A cut of 5 s is seen and heals by itself; what was lost is counted. A longer one
// ends the call, and says so. Silence of an RTP stream does not, if messages come.
func TestCut(t *testing.T) {
	for _, test := range []struct {
		cut  time.Duration
		want string
	}{{5 * time.Second, "connecting connected disconnected connected"}, {time.Minute, "connecting connected disconnected failed"}} {
		var down atomic.Bool
		filter := func(vnet.Chunk) bool { return !down.Load() }
		bubble(t, 10*time.Millisecond, filter, Options{Codecs: []string{codec.PCMU}}, func(clock clocks.Clock, p, q *Peer) {
			ctx := context.Background()
			clock.Sleep(ctx, 2*time.Second)
			down.Store(true)
			clock.Sleep(ctx, test.cut)
			down.Store(false)
			clock.Sleep(ctx, 5*time.Second)
			var states []string
			for range strings.Fields(test.want) {
				e, _ := q.Event(ctx)
				states = append(states, string(e.State))
			}
			if got := strings.Join(states, " "); got != test.want {
				t.Errorf("a cut of %v: %s", test.cut, got)
			}
			s := q.Stats()
			if test.cut < 10*time.Second {
				if s.Lost < 245 || s.Lost > 255 || q.Failed() != nil {
					t.Errorf("a cut of %v: %+v, %v", test.cut, s, q.Failed())
				}
			} else if err := q.Failed(); err == nil || !strings.Contains(err.Error(), "nothing came from the other side for 15s") {
				t.Errorf("a cut of %v: %v", test.cut, err)
			}
		})
	}
}

// A peer that hears nothing is closed after a while, unless there are messages.
func TestIdle(t *testing.T) {
	o := Options{Codecs: []string{codec.PCMU}, DTX: true, Idle: 10 * time.Second, Channels: []string{"keep"}}
	bubble(t, time.Millisecond, nil, o, func(clock clocks.Clock, p, q *Peer) {
		ctx := context.Background()
		for range 4 { // the other way there is nothing
			clock.Sleep(ctx, 4*time.Second)
			if p.State() != StateConnected {
				break
			}
			if err := p.Data("keep").Send(ctx, "ping"); err != nil {
				t.Fatal(err)
			}
		}
		if at := clock.Now(); p.State() == StateConnected || at > 13*time.Second {
			t.Errorf("%v at %v", p.State(), at)
		}
		if p.Failed() == nil || !strings.Contains(p.Failed().Error(), "nothing was heard for 10s") || q.Failed() != nil {
			t.Error(p.Failed(), q.Failed())
		}
	})
}
