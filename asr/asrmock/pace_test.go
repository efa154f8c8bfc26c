package asrmock_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/asrtest"
	"firstsound/asr/deepgram"
	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/socket"
)

// Each piece of a recording leaves when it would have been said, by the sender's word
// and by the stamp of the kernel on the receiving side. That none is early, and that
// the two agree, is so on any computer. How late they are is logged, and held against
// 2 ms where FIRSTSOUND_TRUTH says that the computer is left alone.
func TestPacing(t *testing.T) {
	clock := clocks.NewReal()
	u := mocktest.Utterance()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	type piece struct {
		due, sent, arrived time.Duration
		kernel             bool
	}
	var mu sync.Mutex
	calls := map[string][]piece{}
	arrived := map[string][]socket.Message{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := socket.Accept(clock, w, r, nil, socket.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(1000, "")
		var all []socket.Message
		for {
			m, err := conn.Next(context.Background())
			if err != nil || m.Text {
				break
			}
			all = append(all, m)
		}
		mu.Lock()
		arrived[r.URL.Query().Get("tag")] = all
		mu.Unlock()
		conn.Send(true, []byte(`{"type":"Results","is_final":true,"from_finalize":true,"channel":{"alternatives":[{"transcript":"yes"}]}}`))
		conn.Send(true, []byte(`{"type":"Metadata"}`))
	})}
	go server.Serve(arrival.Listen(l, clock))
	defer server.Close()
	const callers = 4
	g, ctx := clocks.NewGroup(t.Context(), clock)
	for i := range callers {
		g.Go("a caller", func() error {
			clock.Sleep(ctx, time.Duration(i)*7*time.Millisecond)
			id := string(rune('a' + i))
			speech := asrtest.NewSpeech(clock, u)
			o := deepgram.Defaults()
			o.URL = "ws://" + l.Addr().String()
			o.Sent = func(id string, offset, at time.Duration) {
				due, _ := speech.Await(context.Background(), offset)
				mu.Lock()
				calls[id] = append(calls[id], piece{due: due, sent: at})
				mu.Unlock()
			}
			r, err := deepgram.New(clock, o)
			if err != nil {
				return err
			}
			for _, err := range r.Recognize(ctx, asr.Request{RequestID: id}, speech) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	// The wall clock, which the kernel stamps with, is read apart from ours.
	const apart = time.Millisecond
	mu.Lock()
	defer mu.Unlock()
	var sent, came []time.Duration
	kernel := 0
	for id, all := range calls {
		if len(arrived[id]) != len(all) || len(all) != 150 {
			t.Fatalf("%s: %d pieces were sent, %d arrived", id, len(all), len(arrived[id]))
		}
		for i, p := range all {
			m := arrived[id][i]
			if m.Kernel {
				kernel++
			}
			if p.sent < p.due || m.Arrived < p.sent-apart {
				t.Errorf("%s: piece %d was due at %v, sent at %v, and arrived at %v", id, i, p.due, p.sent, m.Arrived)
			}
			if i < 10 {
				continue // while it connects, sound waits
			}
			sent, came = append(sent, p.sent-p.due), append(came, m.Arrived-p.due)
		}
	}
	if len(calls) != callers {
		t.Fatalf("%d calls", len(calls))
	}
	slices.Sort(sent)
	slices.Sort(came)
	at := func(all []time.Duration, percent int) time.Duration { return all[len(all)*percent/100] }
	t.Logf("%d pieces, %d stamped by the kernel: sent late by P50 %v, P99 %v; there late by P50 %v, P99 %v, at most %v",
		len(sent), kernel, at(sent, 50), at(sent, 99), at(came, 50), at(came, 99), came[len(came)-1])
	if late := at(came, 99); os.Getenv("FIRSTSOUND_TRUTH") != "" && late > 2*time.Millisecond {
		t.Errorf("the sound arrived %v late at P99; the limit is 2ms", late)
	}
}
