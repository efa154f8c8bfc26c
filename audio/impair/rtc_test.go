package impair_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/impair"
	"firstsound/audio/rtc"
	"firstsound/clocks"
)

// A call through the relay: every packet is heard as much later as the log says that
// it was drawn, and those that were lost by the log are missing.
func TestCallThroughRelay(t *testing.T) {
	clock := clocks.NewReal()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	down, err := impair.ParseModel("delay=40ms,jitter=uniform(0ms,10ms),drop=10-12")
	if err != nil {
		t.Fatal(err)
	}
	relay, err := impair.NewRelay(ctx, impair.Options{Clock: clock, Seed: 1, Down: down})
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	endpoint := func() *rtc.Endpoint {
		e, err := rtc.New(rtc.Options{Clock: clock, Loopback: true, Filter: netip.Addr.IsLoopback, Codecs: []string{codec.PCMU}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}
	client, offer, err := endpoint().Offer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	offer, _, err = relay.Rewrite(impair.Client, offer)
	if err != nil {
		t.Fatal(err)
	}
	agent, answer, err := endpoint().Answer(ctx, offer)
	if err != nil {
		t.Fatal(err)
	}
	answer, _, err = relay.Rewrite(impair.Agent, answer)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Answered(answer); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*rtc.Peer{client, agent} {
		if _, err := p.Connected(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := agent.Speak(audio.Frame{Rate: 8000, PCM: make([]int16, 8000)}); err != nil {
		t.Fatal(err)
	}
	heard := map[uint16]rtc.Packet{}
	for len(heard) < 40 {
		p, ok := client.Hear(ctx)
		if !ok {
			t.Fatalf("%d packets, then %v", len(heard), client.Failed())
		}
		heard[p.Seq] = p
	}
	entries, _ := relay.Log()
	n := 0
	for _, e := range entries {
		if e.From != impair.Agent || e.Class != impair.ClassRTP || n >= 40 {
			continue
		}
		p, ok := heard[e.Seq]
		if lost := e.N >= 10 && e.N <= 12; lost == ok || lost != (e.Lost == impair.ByList) {
			t.Errorf("packet %d: heard %v, %+v", e.N, ok, e)
		}
		if !ok {
			continue
		}
		n++
		// It cannot come before its time; how much later is the computer's affair.
		if p.Timestamp != e.Timestamp || p.Arrived < e.Out-time.Millisecond {
			t.Errorf("packet %d arrived at %v, due at %v", e.N, p.Arrived, e.Out)
		}
	}
	if n < 37 {
		t.Errorf("%d packets of %d are in the log", n, len(heard))
	}
}
