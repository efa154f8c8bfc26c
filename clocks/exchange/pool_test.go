package exchange

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// A request that dials, and then gets a connection that another gave back, was
// not dialed for.
func TestAnothersConnection(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) { time.Sleep(20 * ms); write(w, "x") }
	inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
		if w.name != "h1" {
			return
		}
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				clock.Sleep(t.Context(), time.Duration(i)*22*ms)
				x, err := c.Do(t.Context(), request(t, w, "/"))
				if err != nil {
					t.Error(err)
					return
				}
				defer x.Close()
				all(x)
				// The first is done after 3 ms of dialing and 20 of the handler.
				if want := []time.Duration{3 * ms, 23 * ms}[i]; *x.Connected != want || *x.Reused != (i == 1) || (x.ConnectStart != nil) != (i == 0) {
					t.Errorf("request %d: connected at %v, reused %v, dialed at %v", i, *x.Connected, *x.Reused, x.ConnectStart)
				}
			})
		}
		wg.Wait()
	})
}

// A reused connection that the server ends without an answer makes net/http try
// a GET once more: the Exchange says so, and its times are those of the second.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		go func() {
			for n := 0; ; n++ {
				conn, err := p.Accept()
				if err != nil {
					return
				}
				in := bufio.NewReader(conn)
				http.ReadRequest(in)
				time.Sleep(10 * ms)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
				http.ReadRequest(in)
				time.Sleep(5 * ms)
				conn.Close()
			}
		}()
		c := New(clocks.NewReal(), Options{Dial: p.dial})
		for i := range 2 {
			req, _ := http.NewRequest("GET", "http://example.com/", nil)
			x, err := c.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			all(x)
			x.Close()
			// The second waits 5 ms for nothing, dials 3, and waits 10.
			dial := *x.Send + time.Duration(i*5+3)*ms
			if x.Tries != i+1 || *x.Reused || *x.ConnectDone != dial || *x.Connected != dial || *x.Headers != dial+10*ms {
				t.Errorf("request %d: %d tries, %+v", i, x.Tries, x.Times)
			}
		}
		c.Close()
		p.Close()
		time.Sleep(time.Second) // the server's last wait
	})
}

// Of several addresses the first start and the first success count.
func TestDialTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dial{clock: clocks.NewReal()}
		h := d.trace()
		for _, step := range []func(){
			func() { h.ConnectStart("tcp", "[::1]:1") },
			func() { h.ConnectStart("tcp", "127.0.0.1:1") },
			func() { h.ConnectDone("tcp", "[::1]:1", errors.New("refused")) },
			func() { h.ConnectDone("tcp", "127.0.0.1:1", nil) },
			func() { h.ConnectDone("tcp", "[::2]:1", nil) },
		} {
			step()
			time.Sleep(ms)
		}
		if got := d.now(); *got.ConnectStart != 0 || *got.ConnectDone != 3*ms || got.DNSStart != nil {
			t.Errorf("%v to %v", *got.ConnectStart, *got.ConnectDone)
		}
	})
}

// What is left of a try at HTTP/2 is used by the request that tried, or closed.
func TestSpares(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) { time.Sleep(20 * ms); write(w, "x") }
	inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
		if w.name != "auto to h1" {
			return
		}
		const n = 5
		together(t, w, c, n)
		if len(c.spares["example.com:443"]) != 0 || p.dialed != n {
			t.Errorf("%d spares, %d connections", len(c.spares["example.com:443"]), p.dialed)
		}
	})
}

// BenchmarkNext reads events of 100 bytes that come one by one.
func BenchmarkNext(b *testing.B) {
	cert, pool := certificate()
	for _, w := range ways[:4] {
		b.Run(w.name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			more := make(chan struct{})
			event := fmt.Sprintf("data: %092d\n\n", 0)
			s := w.serve(l, cert, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				for range more {
					write(w, event)
				}
			}))
			defer s.Close()
			c := New(clocks.NewReal(), Options{Protocol: w.protocol, TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"}})
			defer c.Close()
			req, _ := http.NewRequest("GET", w.scheme+"://"+l.Addr().String(), nil)
			x, err := c.Do(b.Context(), req)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				more <- struct{}{}
				for got := 0; got < len(event); {
					r, err := x.Next()
					if err != nil {
						b.Fatal(err)
					}
					got += len(r.Data)
				}
			}
			close(more)
		})
	}
}
