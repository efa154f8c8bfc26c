package serving

import (
	"fmt"
	"testing"
	"time"

	"firstsound/clocks/random"
)

// The workload of the speeds: 547 tokens in, 220 out, Poisson arrivals, Llama
// 3.1 8B on an H100.
func benchmarkServer(b *testing.B, perSecond float64, stepping bool) {
	o := profile(b, "h100-sxm", "llama-3.1-8b")
	o.Stepping = stepping
	var loop Loop
	s, err := New(&loop, o)
	if err != nil {
		b.Fatal(err)
	}
	r := random.New(1, "bench")
	n := 0
	mean := time.Duration(1e9 / perSecond)
	var next func()
	next = func() {
		if _, err := s.Submit(Request{Prompt: 547, Output: 220}); err != nil {
			b.Fatal(err)
		}
		if n++; n < b.N {
			loop.At(loop.now+r.Exp(mean), next)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	loop.At(0, next)
	loop.Run(forever)
	b.StopTimer()
	if st := s.Stats(); st.Finished != b.N {
		b.Fatalf("%+v", st)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(s.Stats().Steps)/b.Elapsed().Seconds()/1e6, "Msteps/s")
}

func BenchmarkServer(b *testing.B) {
	for _, rate := range []float64{2, 6, 10} {
		b.Run(fmt.Sprintf("leap-%g/s", rate), func(b *testing.B) { benchmarkServer(b, rate, false) })
		b.Run(fmt.Sprintf("step-%g/s", rate), func(b *testing.B) { benchmarkServer(b, rate, true) })
	}
}
