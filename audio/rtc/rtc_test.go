package rtc

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/vnet"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/clocks"
)

// endpoint returns an Endpoint that ends with the test.
func endpoint(t testing.TB, o Options) *Endpoint {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// connect makes a call between two endpoints.
func connect(t testing.TB, a, b *Endpoint) (*Peer, *Peer) {
	t.Helper()
	ctx := context.Background()
	p, offer, err := a.Offer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q, answer, err := b.Answer(ctx, offer)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Answered(answer); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Peer{p, q} {
		if _, err := x.Connected(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return p, q
}

// network returns two hosts with a router between them.
func network(t testing.TB, delay time.Duration, filter vnet.ChunkFilter) (transport.Net, transport.Net) {
	t.Helper()
	router, err := vnet.NewRouter(&vnet.RouterConfig{CIDR: "10.0.0.0/24", MinDelay: delay, LoggerFactory: loggers(), QueueSize: 10000})
	if err != nil {
		t.Fatal(err)
	}
	if filter != nil {
		router.AddChunkFilter(filter)
	}
	var nets []transport.Net
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		n, err := vnet.NewNet(&vnet.NetConfig{StaticIPs: []string{ip}})
		if err != nil {
			t.Fatal(err)
		}
		if err := router.AddNet(n); err != nil {
			t.Fatal(err)
		}
		nets = append(nets, n)
	}
	if err := router.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Stop() })
	return nets[0], nets[1]
}

// loopbackOnly are the options of a real endpoint in a test.
func loopbackOnly(c clocks.Clock) Options {
	return Options{Clock: c, Loopback: true, Filter: isLoopback, Codecs: []string{codec.PCMU}}
}

func isLoopback(a netipAddr) bool { return a.IsLoopback() }

// sound returns d of a tone.
func sound(d time.Duration, rate int) audio.Frame {
	pcm := make([]int16, audio.Samples(d, rate))
	for i := range pcm {
		pcm[i] = int16(8000 * (i%16 - 8) / 8)
	}
	return audio.Frame{Rate: rate, PCM: pcm}
}

// hear takes n packets.
func hear(t testing.TB, p *Peer, n int) []Packet {
	t.Helper()
	var out []Packet
	for range n {
		k, ok := p.Hear(context.Background())
		if !ok {
			t.Fatalf("the peer ended after %d packets of %d: %v", len(out), n, p.Failed())
		}
		out = append(out, k)
	}
	return out
}

// A limitedNet shows only some of the host's interfaces.
type limitedNet struct {
	transport.Net
	show func(*transport.Interface) bool
}

func (n limitedNet) Interfaces() ([]*transport.Interface, error) {
	all, err := n.Net.Interfaces()
	var some []*transport.Interface
	for _, i := range all {
		if n.show(i) {
			some = append(some, i)
		}
	}
	return some, err
}

func isLo(i *transport.Interface) bool { return i.Flags&net.FlagLoopback != 0 }
