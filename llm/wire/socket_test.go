package wire_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// Over a real socket, by each version of HTTP, the events come in order, with the
// kernel's stamps where there are any.
func TestSocket(t *testing.T) {
	for name, o := range map[string]exchange.Options{
		"HTTP/1.1": {}, "HTTP/1.1 over TLS": {}, "HTTP/2": {Protocol: exchange.HTTP2}, "gzip asked for": {Compress: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(script(t, "R@1 t@5 t@10 t@15 F U(3) D"))
			s.EnableHTTP2 = name == "HTTP/2"
			if name == "HTTP/1.1" || o.Compress {
				s.Start()
			} else {
				s.StartTLS()
				o.TLS = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
			}
			defer s.Close()
			p, err := openai.New(openai.Options{URL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			c := wire.New(clocks.NewReal(), p, wire.Options{Exchange: o})
			defer c.Close()
			a := c.Do(context.Background(), llm.Request{RequestID: "x"}, nil)
			if a.Class != record.OK || len(a.Chunks) != 3 || *a.OutputTokens != 3 || a.TTFT == nil || *a.TTFT <= 0 {
				t.Fatalf("%+v", a)
			}
			marks := []int64{int64(*a.Send), int64(*a.Connected), int64(*a.Headers), int64(*a.FirstByte), int64(*a.FirstToken), int64(*a.LastContent), int64(*a.Finished), int64(*a.Done), int64(*a.End)}
			for i := 1; i < len(marks); i++ {
				if marks[i] < marks[i-1] {
					t.Errorf("mark %d of %v is before the one before it", i, marks)
				}
			}
			if runtime.GOOS == "linux" && a.Stamps != record.ByKernel {
				t.Errorf("the stamps are %q", a.Stamps)
			}
			if a.StampFaults != 0 || runtime.GOOS == "linux" && a.TCP == nil {
				t.Errorf("%d faults, TCP %v", a.StampFaults, a.TCP)
			}
		})
	}
}
