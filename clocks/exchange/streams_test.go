//go:build unix

package exchange

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"firstsound/clocks"
)

// A stamping connection writes the time just before the write into what a
// server sends: into every place that reads as stampMark.
type stamping struct {
	net.Conn
	clock clocks.Clock
}

const stampMark = "################"

func (s stamping) Write(p []byte) (int, error) {
	if i := bytes.Index(p, []byte(stampMark)); i >= 0 {
		p = bytes.Clone(p)
		for ; i >= 0; i = bytes.Index(p, []byte(stampMark)) {
			copy(p[i:], fmt.Sprintf("%0*d", len(stampMark), s.clock.Now()))
		}
	}
	return s.Conn.Write(p)
}

type stampingListener struct {
	net.Listener
	clock clocks.Clock
}

func (l stampingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return stamping{c, l.clock}, nil
}

// BenchmarkStreams measures how wrong an arrival is: an event each 20 ms on each
// stream, client and server in one process. Run it with -benchtime 1x. The
// server's time is taken just before its write; over TLS, before it is
// encrypted and waits for its turn.
func BenchmarkStreams(b *testing.B) {
	cert, pool := certificate()
	for _, w := range ways[:4] {
		for _, n := range []int{1, 500, 1000} {
			b.Run(fmt.Sprint(w.name, "/", n), func(b *testing.B) {
				for b.Loop() {
					benchStreams(b, w, n, 5*time.Second, cert, &tls.Config{RootCAs: pool})
				}
			})
		}
	}
}

func benchStreams(b *testing.B, w way, streams int, length time.Duration, cert tls.Certificate, trust *tls.Config) {
	const gap = 20 * ms
	clock := clocks.NewReal()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var l net.Listener = inner
	if w.scheme == "http" {
		l = stampingListener{inner, clock}
	}
	s := w.serve(l, cert, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		flush := http.NewResponseController(rw)
		flush.Flush()
		n := 0
		for range clocks.Ticks(r.Context(), clock, gap) {
			if n++; n > int(length/gap) {
				return
			}
			mark := stampMark
			if w.scheme == "https" {
				mark = fmt.Sprintf("%0*d", len(stampMark), clock.Now())
			}
			fmt.Fprintf(rw, "data: {\"at\":\"%s\",\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n", mark)
			flush.Flush()
		}
	}))
	defer s.Close()
	c := New(clock, Options{Protocol: w.protocol, TLS: trust})
	defer c.Close()

	var mu sync.Mutex
	var arrival, read []time.Duration
	merged, faults, unstamped := 0, 0, 0
	from := usage()
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			clock.Sleep(context.Background(), time.Duration(i)*gap*7/time.Duration(streams))
			req, _ := http.NewRequest("GET", w.scheme+"://"+inner.Addr().String(), nil)
			x, err := c.Do(context.Background(), req)
			if err != nil {
				b.Error(err)
				return
			}
			defer x.Close()
			var a, r []time.Duration
			var rest []byte // of an event
			m, u, last := 0, 0, int64(0)
			for {
				piece, err := x.Next()
				if err != nil {
					if err != io.EOF {
						b.Error(err)
					}
					break
				}
				rest = append(rest, piece.Data...)
				ends := bytes.Count(piece.Data, []byte("\n\n"))
				if ends == 0 {
					continue // the rest of the event is to come
				}
				_, at, _ := bytes.Cut(rest, []byte(`"at":"`))
				sent, err := strconv.ParseInt(string(at[:min(len(at), len(stampMark))]), 10, 64)
				rest = rest[:copy(rest, rest[bytes.LastIndex(rest, []byte("\n\n"))+2:])]
				if ends > 1 {
					m += ends
					continue
				}
				if err != nil {
					continue // the mark was cut by the end of the server's buffer
				}
				if !piece.Kernel {
					u++
				}
				if piece.N == last && len(a) > 0 { // of one read only the last event's arrival is known
					a, r = a[:len(a)-1], r[:len(r)-1]
					m++
				}
				last = piece.N
				a, r = append(a, piece.Arrived-time.Duration(sent)), append(r, piece.Read-time.Duration(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			arrival, read = append(arrival, a...), append(read, r...)
			merged += m
			unstamped += u
			faults += x.Faults()
		})
	}
	wg.Wait()
	cpu := usage() - from
	for _, of := range []struct {
		name string
		d    []time.Duration
	}{{"arrival", arrival}, {"read", read}} {
		slices.Sort(of.d)
		at := func(q float64) float64 {
			return float64(of.d[min(int(q*float64(len(of.d))), len(of.d)-1)]) / float64(ms)
		}
		for _, q := range []struct {
			name string
			q    float64
		}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}} {
			b.ReportMetric(at(q.q), of.name+"-"+q.name+"-ms")
		}
	}
	b.ReportMetric(float64(merged)/float64(merged+len(arrival)), "merged-share")
	b.ReportMetric(float64(faults), "faults")
	b.ReportMetric(float64(unstamped), "unstamped")
	b.ReportMetric(cpu.Seconds()/(float64(streams)*length.Seconds()/1000), "cpu-s/1000-stream-s")
	b.ReportMetric(0, "ns/op")
}

// usage returns the time that processors spent on this process.
func usage() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
