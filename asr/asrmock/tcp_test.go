package asrmock_test

import (
	"slices"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/asrtest"
	"firstsound/asr/deepgram"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// Over sockets, each result arrives after the mock wrote it; what lies between is
// logged.
func TestOverTCP(t *testing.T) {
	u := mocktest.Utterance()
	clock := clocks.NewReal()
	addr, truth := listenOn(t, clock, mocktest.Options(u), nil)
	const calls = 8
	var late []time.Duration
	sent := clocks.NewQueue[time.Duration](clock, "lateness")
	g, ctx := clocks.NewGroup(t.Context(), clock)
	finals := clocks.NewQueue[asr.Result](clock, "finals")
	for i := range calls {
		g.Go("call", func() error {
			o := deepgram.Defaults()
			o.URL = "ws://" + addr
			began := clock.Now()
			o.Sent = func(_ string, offset, at time.Duration) { sent.Put(at - began - offset) }
			r, err := deepgram.New(clock, o)
			if err != nil {
				return err
			}
			for res, err := range r.Recognize(ctx, asr.Request{ID: trace.ID{Turn: i}}, asrtest.NewSpeech(clock, u)) {
				if err != nil {
					return err
				}
				if res.Kind == asr.Final {
					finals.Put(res)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	finals.Close()
	sent.Close()
	var wrote, came []time.Duration
	for r := range finals.All(t.Context()) {
		came = append(came, r.At)
		if r.Text != u.Text {
			t.Errorf("%q", r.Text)
		}
	}
	for _, x := range truth() {
		for _, h := range x.Utterances {
			wrote = append(wrote, h.Finals...)
		}
	}
	if len(wrote) != calls || len(came) != calls {
		t.Fatalf("%d finals written, %d arrived", len(wrote), len(came))
	}
	slices.Sort(wrote)
	slices.Sort(came)
	for i := range wrote {
		if came[i] < wrote[i]-time.Millisecond { // the kernel's clock is read apart from ours
			t.Errorf("one came at %v, and was written at %v", came[i], wrote[i])
		}
		late = append(late, came[i]-wrote[i])
	}
	var sends []time.Duration
	for d := range sent.All(t.Context()) {
		sends = append(sends, d)
	}
	slices.Sort(late)
	slices.Sort(sends)
	t.Logf("finals arrived %v … %v after they were written; sound was sent %v late (P50), %v (P99)", late[0], late[len(late)-1], sends[len(sends)/2], sends[len(sends)*99/100])
}
