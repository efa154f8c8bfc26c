package loopback

import (
	"context"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/bench"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// The error is that of a real client over real sockets, so only its sign and
// order are certain: the answer is not there before it was written.
func TestLoopback(t *testing.T) {
	for _, version := range []exchange.Protocol{exchange.HTTP1, exchange.HTTP2} {
		clock := clocks.NewReal()
		res, err := Test(t.Context(), clock, 3, func(url string) (bench.Asker, func()) {
			p, err := openai.New(openai.Options{URL: url, Dialect: "generic"})
			if err != nil {
				t.Fatal(err)
			}
			c := wire.New(clock, p, wire.Options{Exchange: exchange.Options{Protocol: version}, Timeout: 30 * time.Second})
			return c, c.Close
		})
		if err != nil {
			t.Fatal(err)
		}
		if res.Streams != 3 || res.Events < 3*7 || res.TTFT50 <= 0 || res.TTFT50 > res.TTFT99 || res.TTFT99 > res.TTFTMax {
			t.Errorf("%+v", res)
		}
		if res.TTFT99 <= maxError && res.Takes < 3 || res.TTFT99 > maxError && res.Takes != 0 {
			t.Errorf("%+v", res)
		}
		t.Logf("%+v", res)
	}
}

type refusing struct{}

func (refusing) Do(context.Context, llm.Request, func(llm.Delta)) record.Attempt {
	return record.Attempt{Class: record.ConnectError, Error: "no"}
}

func TestLoopbackFails(t *testing.T) {
	closed := false
	_, err := Test(t.Context(), clocks.NewReal(), 1, func(string) (bench.Asker, func()) { return refusing{}, func() { closed = true } })
	if err == nil || !strings.Contains(err.Error(), "self-test: a request over loopback ended as connect_error: no") || !closed {
		t.Errorf("%v, hung up %v", err, closed)
	}
}
