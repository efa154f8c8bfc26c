package llmsim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/llm/llmsim"
)

// plain is a model whose times are all known: connected at once, headers at 10 ms,
// the first token at 30, the next each 10 ms.
func plain() llmsim.Options {
	return llmsim.Options{
		KeepAlive: time.Hour, Network: random.Const(10 * ms), Base: random.Const(20 * ms), TPOT: random.Const(10 * ms), Replies: []string{"One two three."},
	}
}

// Behind a gateway that buffers all of the answer arrives with its last token.
func TestBuffered(t *testing.T) {
	o := plain()
	through := ask(t, 1, o, nil, 1)[0]
	o.Buffered = true
	held := ask(t, 1, o, nil, 1)[0]
	if through.text() != held.text() || through.at(llm.Content) != 30*ms {
		t.Fatalf("%v\n%v", through, held)
	}
	end := through[len(through)-1].At
	for _, d := range held {
		switch early := d.Kind == llm.Connected || d.Kind == llm.Headers; {
		case early && d.At > 10*ms, !early && d.At != end:
			t.Errorf("%+v, and the answer ends at %v", d, end)
		}
	}
}

// Two connections carry two requests; the others wait, first come, first served,
// and one that gives up holds up nobody.
func TestMaxConnections(t *testing.T) {
	o := plain()
	o.MaxConnections = 2
	var got [6]string
	gone := errors.New("gone")
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		m := llmsim.New(v, 1, o)
		g, ctx := clocks.NewGroup(ctx, v)
		for i := range got {
			g.Go("caller", func() error {
				v.Sleep(ctx, time.Duration(i)*ms)
				ctx := ctx
				if i == 3 {
					var cancel context.CancelFunc
					ctx, cancel = clocks.WithTimeout(ctx, v, 40*ms, gone)
					defer cancel()
				}
				req := llm.Request{ID: trace.ID{Session: i + 1, Turn: 1}, Attempt: 1}
				for d, err := range m.Generate(ctx, req) {
					if err != nil {
						got[i] = err.Error()
					} else if d.Kind == llm.Connected {
						got[i] = fmt.Sprint(d.At)
					}
				}
				return nil
			})
		}
		g.Wait()
	})
	// The answer has four tokens: each request takes 30 + 3 × 10 ms.
	want := "0s 1ms 60ms gone 61ms 120ms"
	if s := strings.Join(got[:], " "); s != want {
		t.Errorf("connected at %s, want %s", s, want)
	}
}
