package mock_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"firstsound/audio/realtime"
	"firstsound/audio/realtime/mock"
	"firstsound/audio/realtime/realtimetest"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm/llmmock"
)

// onSocket runs a mock on a socket with TLS, and returns its address and what
// ends it and tells the truth.
func onSocket(t *testing.T, clock clocks.Clock, o mock.Options, config *tls.Config) (addr string, truths func() []mock.Truth) {
	t.Helper()
	q := clocks.NewQueue[mock.Truth](clock, "truths")
	o.Truth = q.Put
	server, err := mock.New(clock, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l, config) }()
	return l.Addr().String(), func() []mock.Truth {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		q.Close()
		return slices.Collect(q.All(context.Background()))
	}
}

// Over a real socket with TLS nothing arrives before it was written, and the
// log tells how much later it did.
func TestSocket(t *testing.T) {
	clock := clocks.NewReal()
	config, ca, err := llmmock.MakeTLS()
	if err != nil {
		t.Fatal(err)
	}
	o := realtimetest.Exact()
	o.Length = random.Const(200 * ms)
	addr, truths := onSocket(t, clock, o, config)
	r := realtime.Defaults()
	r.URL, r.Key, r.SilenceDurationMS, r.TLS = "wss://"+addr+"/v1/realtime", "sk-right", 200, trusting(t, ca)
	s, err := realtime.Dial(t.Context(), clock, r)
	if err != nil {
		t.Fatal(err)
	}
	var answers []realtime.Answer
	var late time.Duration
	for range 3 {
		turn, err := s.Turn(t.Context(), realtime.Request{Utterance: realtimetest.Said(50*ms, 450*ms)})
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, turn.Answers...)
		for _, d := range turn.Late {
			late = max(late, d)
		}
	}
	s.Close()
	all := truths()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	truth := all[0]
	if len(answers) != 3 || len(truth.Responses) != 3 {
		t.Fatalf("%d answers, %d in truth", len(answers), len(truth.Responses))
	}
	for i, a := range answers {
		wrote := truth.Responses[i].Deltas[0]
		wait, err := a.Wait()
		if *a.FirstDelta < wrote || err != nil {
			t.Errorf("the first sound of answer %d was written at %v and arrived at %v; %v", i, wrote, *a.FirstDelta, err)
		}
		t.Logf("answer %d: first audible sample %v after the speech; first delta %v after it was written", i, wait, *a.FirstDelta-wrote)
	}
	t.Logf("sound was sent up to %v late; the mock was up to %v late", late, *truth.Late)
}
