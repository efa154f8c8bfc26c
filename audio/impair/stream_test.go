package impair

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// In a bubble the bytes come out at the very times of the model.
func TestJoinIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		client, in := net.Pipe()
		out, agent := net.Pipe()
		done := make(chan error)
		// 8000 bytes a second from a bucket of 40.
		up := Model{Delay: 40 * ms, Rate: 64000, Burst: 40}
		var mu sync.Mutex
		var seen []Chunk
		go func() {
			done <- Join(t.Context(), clock, in, out, NewWay(up, 1, 0), NewWay(Model{Delay: 7 * ms}, 1, 1), func(c Chunk) {
				mu.Lock()
				seen = append(seen, c)
				mu.Unlock()
			})
		}()
		client.Write(make([]byte, 40))
		client.Write(make([]byte, 40))
		buf := make([]byte, 100)
		for _, want := range []time.Duration{40 * ms, 45 * ms} { // 40 bytes are 5 ms
			n, err := agent.Read(buf)
			if n != 40 || err != nil || clock.Now() != want {
				t.Errorf("%d bytes at %v, want 40 at %v: %v", n, clock.Now(), want, err)
			}
		}
		agent.Write([]byte("answer"))
		if n, _ := client.Read(buf); string(buf[:n]) != "answer" || clock.Now() != 52*ms {
			t.Errorf("%q at %v", buf[:n], clock.Now())
		}
		client.Close()
		if _, err := agent.Read(buf); err != io.EOF {
			t.Errorf("after the client has closed: %v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(seen) != 3 || seen[1].Queued != 5*ms || seen[1].Sent != 45*ms {
			t.Errorf("%+v", seen)
		}
	})
}

func TestJoinRefusesLoss(t *testing.T) {
	a, b := net.Pipe()
	if err := Join(t.Context(), clocks.NewReal(), a, b, NewWay(Model{Loss: Random(0.1)}, 1, 0), NewWay(Model{}, 1, 1), nil); err == nil {
		t.Error("a stream with holes")
	}
}

func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // echoes until the client has said all
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	clock := clocks.NewReal()
	p, err := Listen(Options{Clock: clock, Up: Model{Delay: 20 * ms}, Down: Model{Delay: 10 * ms}}, l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx) }()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sent := clock.Now()
	data := bytes.Repeat([]byte("0123456789"), 1000)
	c.Write(data)
	c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(data), err)
	}
	if took := clock.Now() - sent; took < 30*ms {
		t.Errorf("there and back in %v", took)
	}
	c.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("it still listens")
	}
	if _, err := Listen(Options{Clock: clock, Up: Model{Loss: Random(0.5)}}, "x:1", nil); err == nil || errors.Is(err, io.EOF) {
		t.Error("a proxy with loss")
	}
}
