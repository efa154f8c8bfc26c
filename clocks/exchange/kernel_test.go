//go:build linux

package exchange

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"firstsound/clocks"
)

// Over real sockets a reader that sleeps before it reads has the arrivals of the
// kernel, whatever lies between.
func TestKernelStamps(t *testing.T) {
	const events, pause, least = 4, 60 * ms, 45 * ms
	cert, pool := certificate()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan struct{})
			s := w.serve(l, cert, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				http.NewResponseController(w).Flush()
				for range next {
					write(w, "event\n\n")
				}
			}))
			defer s.Close()
			clock := clocks.NewReal()
			c := New(clock, Options{Protocol: w.protocol, TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"}})
			defer c.Close()
			req := request(t, w, "/")
			req.URL.Host = "localhost:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
			x, err := c.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			steps := []*time.Duration{x.Send, x.DNSStart, x.DNSDone, x.ConnectStart, x.ConnectDone, x.TLSStart, x.TLSDone, x.Connected, x.Headers}
			var before time.Duration
			for i, at := range steps {
				if at == nil {
					if w.scheme == "https" || i != 5 && i != 6 {
						t.Errorf("step %d did not happen", i)
					}
					continue
				}
				if *at < before {
					t.Errorf("step %d at %v, the one before at %v", i, *at, before)
				}
				before = *at
			}
			if x.Remote == "" || x.Local == "" {
				t.Errorf("from %q to %q", x.Local, x.Remote)
			}
			// The kernel begins to stamp some milliseconds after it was asked.
			clock.Sleep(t.Context(), 100*ms)
			stamped := 0
			for i := range events {
				next <- struct{}{}
				clock.Sleep(t.Context(), pause)
				r, err := x.Next()
				if err != nil || string(r.Data) != "event\n\n" {
					t.Fatalf("%q, %v", r.Data, err)
				}
				if r.Arrived < before || r.Earliest > r.Arrived || r.Read < r.Arrived || r.Read > clock.Now() {
					t.Errorf("event %d: %+v, before it %v", i, r, before)
				}
				before = r.Arrived
				if r.Kernel {
					stamped++
				} else if w.proto == "HTTP/1.1" {
					continue // nothing reads ahead there
				}
				if lag := r.Read - r.Arrived; lag < least {
					t.Errorf("event %d: read %v after its arrival: %+v", i, lag, r)
				}
			}
			if stamped == 0 {
				t.Log("the kernel of this system gives no receive stamps")
			} else if stamped != events {
				t.Errorf("%d of %d events have stamps of the kernel", stamped, events)
			}
			close(next)
			if _, err := x.Next(); err != io.EOF {
				t.Error(err)
			}
			if x.Faults() != 0 {
				t.Errorf("%d faults", x.Faults())
			}
			c.Close()
			if info, ok := x.TCP(); !ok || info.RTT <= 0 {
				t.Errorf("%+v, %v", info, ok)
			}
		})
	}
}
