package rtc

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

// Over real sockets every packet arrives, the first included, with the kernel's
// stamp between its sending and its reading.
func TestLoopback(t *testing.T) {
	clock := clocks.NewReal()
	p, q := connect(t, endpoint(t, loopbackOnly(clock)), endpoint(t, loopbackOnly(clock)))
	if _, err := p.Speak(sound(time.Second, 8000)); err != nil {
		t.Fatal(err)
	}
	heard := hear(t, q, 100)
	sent, _ := p.Sent()
	kernel := 0
	for i, k := range heard {
		if k.Seq != sent[i].Seq || k.Index != int64(i) || k.Codec != codec.PCMU || len(k.Payload) != 160 {
			t.Fatalf("packet %d: %+v, sent %+v", i, k, sent[i])
		}
		if sent[i].At < sent[i].Due {
			t.Errorf("packet %d was sent early: %+v", i, sent[i])
		}
		if k.Kernel {
			kernel++
		}
		// The mapping of the wall clock is not exact to the microsecond.
		if k.Arrived < sent[i].At-time.Millisecond || k.Arrived > k.Read {
			t.Errorf("packet %d: sent %v, arrived %v, read %v", i, sent[i].At, k.Arrived, k.Read)
		}
	}
	if runtime.GOOS == "linux" && kernel < 90 {
		t.Errorf("%d of 100 packets have the kernel's stamp", kernel)
	}
	s := q.Stats()
	if s.Heard < 100 || s.Lost != 0 || s.Malformed != 0 || s.Hears != codec.PCMU || s.Kernel < kernel {
		t.Errorf("%+v", s)
	}
	if s.Playout == nil || s.Playout.Packets == 0 || s.Playout.Sound < time.Second {
		t.Errorf("%+v", s.Playout)
	}
	found := false
	for _, r := range q.Report() {
		if a, ok := r.(webrtc.AudioPlayoutStats); ok {
			found = a.TotalSamplesCount >= 8000 && a.Kind == "audio"
		}
	}
	if !found {
		t.Error("no RTCAudioPlayoutStats")
	}
}

// When all is closed, no goroutine is left: neither ours nor pion's.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	clock := clocks.NewReal()
	for range 3 {
		o := loopbackOnly(clock)
		o.Channels = []string{"events"}
		a, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := connect(t, a, b)
		p.Speak(sound(time.Second, 8000))
		connect(t, b, a)
		if a.Peers() != 2 || b.Peers() != 2 {
			t.Error(a.Peers(), b.Peers())
		}
		p.Close()
		p.Close()
		if n := a.Peers(); n != 1 {
			t.Errorf("%d peers are left of 2 when one is closed", n)
		}
		a.Close()
		b.Close()
		if _, _, err := a.Offer(context.Background()); err == nil {
			t.Error("a closed endpoint makes offers")
		}
		if _, err := p.Speak(sound(time.Millisecond, 8000)); err == nil {
			t.Error("a closed peer speaks")
		}
	}
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		clock.Sleep(context.Background(), 10*time.Millisecond)
	}
	buf := make([]byte, 1<<18)
	t.Errorf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// The other side's closing is an event, and no failure.
func TestStates(t *testing.T) {
	clock := clocks.NewReal()
	p, q := connect(t, endpoint(t, loopbackOnly(clock)), endpoint(t, loopbackOnly(clock)))
	p.Close()
	var states []string
	for {
		e, ok := q.Event(context.Background())
		if !ok {
			break
		}
		states = append(states, string(e.State))
	}
	if got := strings.Join(states, " "); got != "connecting connected closed" || q.Failed() != nil || q.State() != StateClosed {
		t.Errorf("%s, %v", got, q.Failed())
	}
	if _, ok := q.Hear(context.Background()); ok {
		for ok { // what was heard before stays
			_, ok = q.Hear(context.Background())
		}
	}
}

// With nothing but the loopback interface there are candidates if they are asked
// for, and else an error that says so at once.
func TestOnlyLoopback(t *testing.T) {
	n, err := stdnet.NewNet()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Clock: clocks.NewReal(), Net: limitedNet{n, isLo}}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "no usable ICE candidates") || !strings.Contains(err.Error(), "allow loopback candidates") {
		t.Error(err)
	}
	o.Loopback = true
	p, q := connect(t, endpoint(t, o), endpoint(t, o))
	hear(t, q, 3)
	hear(t, p, 3)
	o.Filter = func(netipAddr) bool { return false }
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "the filter leaves out 127.0.0.1") {
		t.Error(err)
	}
}

// Messages go both ways, up to the limit.
func TestData(t *testing.T) {
	clock := clocks.NewReal()
	o := loopbackOnly(clock)
	o.Channels = []string{"oai-events"}
	o.Message = 1000
	p, q := connect(t, endpoint(t, o), endpoint(t, o))
	ctx := context.Background()
	mine := p.Data("oai-events")
	if err := mine.Send(ctx, "hello"); err != nil {
		t.Fatal(err)
	}
	theirs, ok := q.Opened(ctx)
	if !ok || theirs.Label() != "oai-events" || q.Data("oai-events") != theirs || q.Data("other") != nil {
		t.Fatal("the channel did not open")
	}
	if m, ok := theirs.Receive(ctx); !ok || !m.Text || string(m.Data) != "hello" || m.Read == 0 {
		t.Errorf("%+v %v", m, ok)
	}
	long := strings.Repeat("x", 1000)
	if err := theirs.Send(ctx, long); err != nil {
		t.Error(err)
	}
	if m, ok := mine.Receive(ctx); !ok || string(m.Data) != long {
		t.Errorf("%d bytes %v", len(m.Data), ok)
	}
	if err := theirs.Send(ctx, long+"x"); err == nil || !strings.Contains(err.Error(), "1001 bytes: the most is 1000") {
		t.Error(err)
	}
	// A channel whose messages nobody takes is closed, and says why.
	for range maxWaiting + 1 {
		if err := mine.Send(ctx, "more"); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for theirs.Err() == nil && n < 500 {
		clock.Sleep(ctx, 10*time.Millisecond)
		n++
	}
	if err := theirs.Err(); err == nil || !strings.Contains(err.Error(), "nobody took") {
		t.Error(err)
	}
}

// An ICE restart goes on with the same call: nothing of it is lost.
func TestRestart(t *testing.T) {
	clock := clocks.NewReal()
	p, q := connect(t, endpoint(t, loopbackOnly(clock)), endpoint(t, loopbackOnly(clock)))
	ctx := context.Background()
	hear(t, q, 10)
	offer, err := p.Restart(ctx)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := q.Renegotiate(ctx, offer)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Answered(answer); err != nil {
		t.Fatal(err)
	}
	heard := hear(t, q, 100)
	if first := heard[0].Index; first != 10 {
		t.Errorf("the first packet after it has index %d", first)
	}
	for i, k := range heard {
		if k.Lost > 5 {
			t.Errorf("%d packets were lost before packet %d", k.Lost, i)
		}
	}
	hear(t, p, 50)
	if p.State() != StateConnected || q.State() != StateConnected {
		t.Error(p.State(), q.State())
	}
}

// Limits hold.
func TestLimits(t *testing.T) {
	o := loopbackOnly(clocks.NewReal())
	o.Peers = 1
	a := endpoint(t, o)
	ctx := context.Background()
	if _, _, err := a.Offer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Offer(ctx); err == nil || !strings.Contains(err.Error(), "which is the limit") {
		t.Error(err)
	}
	for offer, want := range map[string]string{
		strings.Repeat("a", maxSDP+1): "the most is 262144",
		"hello":                       "no SDP",
		"v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n":                                                                   "no audio",
		"v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 9 111\r\na=rtpmap:111 opus/48000/2\r\n": "no codec in common: the offer has opus/48000/2, and this side speaks pcmu/8000",
	} {
		if _, _, err := a.Answer(ctx, offer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %s", offer, err, want)
		}
	}
	for _, o := range []Options{{}, {Clock: o.Clock, Codecs: []string{"mp3"}}, {Clock: o.Clock, Message: 1 << 20}, {Clock: o.Clock, Encoder: codec.Options{Bitrate: 1}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
