package impair

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// Quantiles of the distributions, worked out by hand, within five standard errors of
// the share below them. The constant is exact.
func TestQuantiles(t *testing.T) {
	const n = 40000
	for _, c := range []struct {
		text  string
		p, ms float64
	}{
		{"uniform(10ms,30ms)", 0.10, 12}, {"uniform(10ms,30ms)", 0.75, 25},
		{"normal(100ms,5ms)", 0.5, 100}, {"normal(100ms,5ms)", 0.8413447461, 105}, {"normal(100ms,5ms)", 0.0227501319, 90},
		// P(X > x) = (1/x)^2 up to 100 ms: the median of what is left is 1/√(1-(1-10^-4)/2).
		{"pareto(1ms,2,100ms)", 0.5, 1 / math.Sqrt(1-0.5*(1-1e-4))}, {"pareto(1ms,2,100ms)", 0.99, 1 / math.Sqrt(1-0.99*(1-1e-4))},
		{"exponential(10ms)", 0.5, 10 * math.Ln2},
	} {
		m := model(t, "reorder,delay=3ms,jitter="+c.text)
		below := 0
		for _, f := range pass(NewWay(m, 11, 0), n) {
			if float64(f.Drawn-3*ms)/float64(ms) <= c.ms {
				below++
			}
		}
		if share := float64(below) / n; math.Abs(share-c.p) > 5*math.Sqrt(c.p*(1-c.p)/n) {
			t.Errorf("%s: %.4f lie below %v ms, want %v", c.text, share, c.ms, c.p)
		}
	}
	for _, f := range pass(NewWay(model(t, "jitter=5ms,delay=3ms"), 1, 0), 100) {
		if f.Drawn != 8*ms {
			t.Fatalf("constant: %v", f.Drawn)
		}
	}
}

// In a cut packets are lost, and those before and after it are not; a stream waits
// for its end. It counts from the first packet.
func TestCut(t *testing.T) {
	m := model(t, "delay=10ms,cut=100ms-160ms+200ms-220ms")
	w, s := NewWay(m, 1, 0), NewWay(m, 1, 0)
	s.hold = true
	start := 7 * time.Second
	for i := range 13 {
		in := start + time.Duration(i)*20*ms
		lost := i >= 5 && i <= 7 || i == 10
		f := w.Pass(in, 200)
		if (f.Lost == ByCut) != lost || !lost && f.Out != in+10*ms {
			t.Errorf("packet %d: %+v", i, f)
		}
		want := in + 10*ms
		switch {
		case i >= 5 && i <= 7:
			want = start + 170*ms
		case i == 10:
			want = start + 230*ms
		}
		if f := s.Pass(in, 200); f.Lost != Kept || f.Out != want || f.Out != f.In+f.Drawn+f.Held {
			t.Errorf("chunk %d: %+v, want %v", i, f, want)
		}
	}
	// The other direction may have begun earlier.
	w = NewWay(m, 1, 1)
	w.Begin(start - 100*ms)
	if f := w.Pass(start, 200); f.Lost != ByCut {
		t.Errorf("%+v", f)
	}
}

// A cut takes ICE too, which is left alone otherwise.
func TestCutTakesICE(t *testing.T) {
	clock := clocks.NewReal()
	r, err := NewRelay(t.Context(), Options{Clock: clock, Up: Model{Cut: []Span{{0, time.Hour}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client, agent := peer(t), peer(t)
	forAgent, err := r.Stand(Agent, addr(agent))
	if err != nil {
		t.Fatal(err)
	}
	forClient, err := r.Stand(Client, addr(client))
	if err != nil {
		t.Fatal(err)
	}
	client.WriteToUDPAddrPort([]byte{0, 1, 0, 0}, forAgent)
	agent.WriteToUDPAddrPort([]byte{0, 1, 0, 0}, forClient) // down nothing is cut
	buf := make([]byte, 100)
	if n, _, err := client.ReadFromUDPAddrPort(buf); n != 4 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for {
		if entries, _ := r.Log(); len(entries) == 1 {
			if e := entries[0]; e.Lost != ByCut || e.Class != ClassSTUN || e.From != Client {
				t.Errorf("%+v", e)
			}
			break
		}
		time.Sleep(ms)
	}
	if free := r.Free(); free != [2]int{Agent: 1} {
		t.Errorf("%v were left alone", free)
	}
}

// A front gives each client a call of its own, with draws of its own; both hear the
// agent from the front's port.
func TestFront(t *testing.T) {
	var mu sync.Mutex
	var seen []Entry
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pool := NewPool(ctx, Options{Clock: clocks.NewReal(), Seed: 4, Up: model(t, "drop=1"), Down: model(t, "delay=2ms"), Seen: func(e Entry) {
		mu.Lock()
		seen = append(seen, e)
		mu.Unlock()
	}}, 2)
	agent := peer(t)
	front, err := ListenUDP(pool, addr(agent))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- front.Serve(ctx) }()
	buf := make([]byte, 100)
	var from []netip.AddrPort
	for range 2 {
		client := peer(t)
		for i := range 3 { // the second is lost
			client.WriteToUDPAddrPort(rtp(i), front.Addr())
		}
		var last netip.AddrPort
		for range 2 {
			if _, last, err = agent.ReadFromUDPAddrPort(buf); err != nil {
				t.Fatal(err)
			}
		}
		from = append(from, last)
		agent.WriteToUDPAddrPort(rtp(9), last)
		if n, by, err := client.ReadFromUDPAddrPort(buf); n != 40 || by != front.Addr() || err != nil {
			t.Errorf("%d bytes from %v: %v", n, by, err)
		}
	}
	if from[0] == from[1] {
		t.Error("the agent cannot tell two clients apart")
	}
	third := peer(t)
	third.WriteToUDPAddrPort(rtp(0), front.Addr())
	for front.Refused() == 0 {
		time.Sleep(ms)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if calls, _ := pool.Close(); calls != 2 {
		t.Errorf("%d calls", calls)
	}
	mu.Lock()
	defer mu.Unlock()
	for call := 1; call <= 2; call++ {
		sent, lost := 0, 0
		for _, e := range seen {
			if e.Call == call && e.Sent != nil {
				sent++
			}
			if e.Call == call && e.Lost == ByList {
				lost++
			}
		}
		if sent != 3 || lost != 1 {
			t.Errorf("call %d: %d sent, %d lost", call, sent, lost)
		}
	}
	for _, bad := range []Options{{Address: netip.IPv6Unspecified(), Anywhere: true}, {Address: netip.MustParseAddr("192.0.2.1")}} {
		bad.Clock = clocks.NewReal()
		if _, err := ListenUDP(NewPool(t.Context(), bad, 1), addr(agent)); err == nil {
			t.Errorf("%v is listened on", bad.Address)
		}
	}
	if _, err := ListenUDP(pool, netip.AddrPort{}); err == nil {
		t.Error("an agent without an address")
	}
}

// Of two calls that may be over, the one that has been quiet for longer makes room.
func TestPoolForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		pool := NewPool(t.Context(), Options{Clock: clock}, 2)
		open := func() *Relay {
			r, err := pool.Open()
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := open()
		clock.Sleep(t.Context(), time.Second)
		second := open()
		clock.Sleep(t.Context(), Idle-2*time.Second)
		if _, err := pool.Open(); !errors.Is(err, ErrFull) {
			t.Errorf("a third call: %v", err)
		}
		clock.Sleep(t.Context(), 5*time.Second)
		if third := open(); !first.Closed() || second.Closed() || third.o.Call != 3 {
			t.Errorf("the wrong one was closed, or call %d", third.o.Call)
		}
		if calls, _ := pool.Close(); calls != 3 || !second.Closed() {
			t.Errorf("%d calls", calls)
		}
	})
}

// What a closed relay still held is told to have been kept, and not sent.
func TestSeenAtClose(t *testing.T) {
	var seen []Entry
	r, err := NewRelay(t.Context(), Options{Clock: clocks.NewReal(), Up: Model{Delay: time.Hour}, Seen: func(e Entry) { seen = append(seen, e) }})
	if err != nil {
		t.Fatal(err)
	}
	p := &port{side: Agent, of: netip.MustParseAddrPort("127.0.0.1:9")}
	r.take(p, netip.MustParseAddrPort("127.0.0.1:7"), rtp(5))
	r.Close()
	if len(seen) != 1 || seen[0].Seq != 5 || seen[0].Sent != nil || seen[0].Lost != Kept {
		t.Errorf("%+v", seen)
	}
	if log, _ := r.Log(); len(log) != 0 {
		t.Errorf("%d entries are kept as well", len(log))
	}
}
