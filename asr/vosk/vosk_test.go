package vosk

import (
	"slices"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/clocks"
	"firstsound/clocks/failure"
)

func setup(o Options) mocktest.Setup {
	return mocktest.Setup{Partials: true, New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
		o.URL, o.Dial, o.Key = m.URL("ws", ""), m.Dial, "secret-key"
		return New(c, o)
	}}
}

func TestSuite(t *testing.T) { setup(Defaults()).Run(t) }

// The protocol has no errors: the connection is closed with the words.
func TestFaults(t *testing.T) {
	s := setup(Defaults())
	s.Kinds = map[string]failure.Kind{"error": failure.Closed}
	s.Faults(t, nil)
}

// Who goes on after the listener believed that he had finished gets a second
// session, with what was said just before it opened.
func TestGoesOn(t *testing.T) {
	u := mocktest.Utterance()
	s := setup(Defaults())
	s.Change = func(o *asrmock.Options) { o.Texts = []string{"you are open today"} }
	x := s.Hear(t, u, func(req *asr.Request, c clocks.Clock) {
		req.Finalize = mocktest.AskedAt(c, 1410*time.Millisecond, u.End+110*time.Millisecond)
	})
	if x.Err != nil || x.Text() != u.Text {
		t.Fatalf("%v: %+v", x.Err, x.Results)
	}
	want := []time.Duration{1510 * time.Millisecond, u.End + 210*time.Millisecond}
	if got := x.Of(asr.Final); !slices.Equal(got, want) {
		t.Errorf("Finals at %v, want %v", got, want)
	}
	if len(x.Truth) != 2 || x.Truth[1].Audio != 1100*time.Millisecond || x.Truth[1].Utterances[0].Start != 200*time.Millisecond {
		t.Errorf("%+v", x.Truth)
	}
}
