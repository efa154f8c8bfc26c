package llmmock

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
)

// BenchmarkPrepare is what stands between a request's arrival and its first wait:
// the plan and the bytes of 64 tokens.
func BenchmarkPrepare(b *testing.B) {
	s, err := New(clocks.NewReal(), Defaults())
	if err != nil {
		b.Fatal(err)
	}
	a, err := decodeAsk(openAI, []byte(hello))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := range b.N {
		s.prepare(&a, openAI, Facts{}, "id", i)
	}
}

func BenchmarkDecodeAsk(b *testing.B) {
	body := []byte(strings.Replace(hello, "Hello", strings.Repeat("A longer prompt. ", 500), 1))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := decodeAsk(openAI, body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStreams carries 1,000 streams of 50 tokens a second over loopback, each
// of 2 s, and tells the CPU of client and server together: the client only reads.
func BenchmarkStreams(b *testing.B) {
	const streams = 1000
	o := Defaults()
	o.First, o.Between, o.Tokens = random.MustParse("uniform(300ms, 320ms)"), random.Const(20*time.Millisecond), MustNumber("100")
	var mu sync.Mutex
	var late []time.Duration
	o.Truth = func(t Truth) {
		mu.Lock()
		late = append(late, t.LateMax)
		mu.Unlock()
	}
	s, err := New(clocks.NewReal(), o)
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l, Serving{}) }()
	tr := &http.Transport{MaxIdleConnsPerHost: streams, DisableCompression: true}
	client := &http.Client{Transport: tr}
	url := "http://" + l.Addr().String() + "/v1/chat/completions"
	before := cpu()
	for b.Loop() {
		var done sync.WaitGroup
		for range streams {
			done.Go(func() {
				resp, err := client.Post(url, "application/json", strings.NewReader(hello))
				if err != nil {
					b.Error(err)
					return
				}
				defer resp.Body.Close()
				for r := bufio.NewReader(resp.Body); ; {
					if _, err := r.ReadSlice('\n'); err != nil {
						return
					}
				}
			})
		}
		done.Wait()
	}
	used := cpu() - before
	tr.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		b.Error(err)
	}
	st := s.Stats()
	b.ReportMetric(used.Seconds()/b.Elapsed().Seconds(), "cores")
	b.ReportMetric(float64(st.Late)/float64(st.Writes)*100, "%late>1ms")
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2])/1e6, "ms-late-P50-of-max")
	b.ReportMetric(float64(st.LateMax)/1e6, "ms-late-max")
}

// cpu returns the time that this process has used of all cores.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
