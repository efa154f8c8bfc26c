package ttsmock_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/tts/live"
	"firstsound/tts/ttsmock"
)

// Over a real socket no chunk arrives before it was written, and all that was
// written arrives. How much later it does is told, not judged: it is the machine's.
func TestRealSocket(t *testing.T) {
	c := clocks.NewReal()
	for _, p := range providers {
		if !strings.HasSuffix(p.name, "/pcm") && !strings.HasSuffix(p.name, "/websocket") && p.name != "wyoming" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			o := exact()
			var mu sync.Mutex
			var pieces []ttsmock.Spoken
			o.Truth = func(x ttsmock.Truth) {
				mu.Lock()
				defer mu.Unlock()
				pieces = append(pieces, x.Pieces...)
			}
			mock, err := ttsmock.New(c, o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() {
				if p.name == "wyoming" {
					served <- mock.ServeWyoming(ctx, l)
					return
				}
				served <- mock.Serve(ctx, l, nil)
			}()
			dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
				return live.Options{}.Dialer()(ctx, network, l.Addr().String())
			}
			s, err := p.make(c, live.Options{Dial: dial, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			h := say(c, s, "x", sentence)
			if closer, ok := s.(interface{ Close() }); ok {
				closer.Close()
			}
			cancel()
			if err := <-served; err != nil || h.err != nil {
				t.Fatal(err, h.err)
			}
			if len(pieces) != 1 || h.sound.Duration() != pieces[0].Sound {
				t.Fatalf("%v of sound came; the mock tells %+v", h.sound.Duration(), pieces)
			}
			writes := pieces[0].Chunks
			if first := h.arrivals[0] - writes[0]; first < -time.Millisecond {
				t.Errorf("the first sound arrived %v before it was written", -first)
			}
			if len(h.arrivals) != len(writes) {
				t.Logf("%d arrivals of %d writes: some came together, or in parts", len(h.arrivals), len(writes))
				return
			}
			var late []time.Duration
			for i, at := range h.arrivals {
				late = append(late, at-writes[i])
			}
			slices.Sort(late)
			t.Logf("after the write: least %v, median %v, most %v", late[0], late[len(late)/2], late[len(late)-1])
		})
	}
}
