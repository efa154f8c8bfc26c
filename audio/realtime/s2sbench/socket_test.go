package s2sbench

import (
	"context"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/audio/realtime"
	"firstsound/audio/realtime/mock"
	"firstsound/audio/realtime/realtimetest"
	"firstsound/clocks"
	"firstsound/clocks/quantile"
)

// Over a real socket each mark is held against the moment at which the mock wrote
// it. None comes before; how much later they come is asserted only on a machine
// that is left alone (FIRSTSOUND_TRUTH=1, which takes ten minutes).
func TestTruth(t *testing.T) {
	clock := clocks.NewReal()
	told := clocks.NewQueue[mock.Truth](clock, "truths")
	m := realtimetest.Exact()
	m.Truth = told.Put
	server, err := mock.New(clock, m)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inner, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- server.Serve(inner, l, nil) }()

	long := os.Getenv("FIRSTSOUND_TRUTH") != ""
	o := Options{Agent: realtime.Defaults(), Utterances: []*audio.Utterance{realtimetest.Said(100*ms, 613*ms)}, Turns: 2, Session: 5}
	o.Agent.URL, o.Agent.Key = "ws://"+l.Addr().String()+"/v1/realtime", "sk-right"
	if long {
		if o.Utterances, err = corpus.Embedded(); err != nil {
			t.Fatal(err)
		}
		o.Turns = 100
	}
	b, err := New(clock, o)
	if err != nil {
		t.Fatal(err)
	}
	var trials []Trial
	err = b.Run(t.Context(), 1, func(x Trial) error {
		trials = append(trials, x)
		return nil
	})
	cancel()
	if end := <-served; err != nil || end != nil {
		t.Fatal(err, end)
	}
	told.Close()
	var responses []mock.Response
	stops := map[time.Duration]bool{}
	for x := range told.All(context.Background()) {
		responses = append(responses, x.Responses...)
		for _, s := range x.Speeches {
			if s.Stopped != nil {
				stops[*s.Stopped] = true
			}
		}
	}
	errors := map[string]*quantile.Series{}
	for _, x := range trials {
		if x.Outcome != OK || sum(x.Segments) != *x.Wait {
			t.Errorf("%+v", x)
			continue
		}
		end := x.Began + x.End
		i := slices.IndexFunc(responses, func(r mock.Response) bool { return len(r.Deltas) > 0 && near(end+*x.Delta, r.Deltas[0]) })
		if i < 0 {
			t.Errorf("turn %d: the mock knows no such answer", x.Number)
			continue
		}
		r := responses[i]
		stopped := time.Duration(-1)
		for at := range stops {
			if near(end+*x.Stopped, at) {
				stopped = at
			}
		}
		// The onset is by a rule that is up to 5 ms early; a steady 4 ms here.
		for name, late := range map[string]time.Duration{
			"speech_stopped": end + *x.Stopped - stopped, "response.created": end + *x.Created - r.Created, "first delta": end + *x.Delta - r.Deltas[0],
			"segment " + Response: *x.Created - *x.Stopped - (r.Created - stopped), "segment " + Answer: *x.Delta - *x.Created - (r.Deltas[0] - r.Created),
			"first audible": end + *x.Wait - max(r.Deltas[0]+r.Lead-4*ms, *r.FirstSound),
		} {
			if errors[name] == nil {
				errors[name] = quantile.New(1000)
			}
			errors[name].Add(int64(late.Abs()))
			if late < 0 && name[0] != 's' && name != "first audible" || stopped < 0 {
				t.Errorf("turn %d: %s comes %v before it was written", x.Number, name, -late)
			}
		}
	}
	for name, s := range errors {
		p95 := time.Duration(s.Of(0.95))
		t.Logf("%s: n %d, P50 %v, P95 %v, max %v", name, s.N(), time.Duration(s.Of(0.5)), p95, time.Duration(s.Max()))
		if limit := time.Millisecond; long && p95 > limit && (name != "first audible" || p95 > 2*limit) {
			t.Errorf("%s: P95 of the error %v", name, p95)
		}
	}
}

// near says whether an event that arrived is the one that was written at a time.
func near(arrived, wrote time.Duration) bool { return (arrived - wrote).Abs() < 200*ms }
