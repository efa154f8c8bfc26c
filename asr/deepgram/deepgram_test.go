package deepgram

import (
	"strings"
	"testing"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/clocks"
)

func setup(o Options) mocktest.Setup {
	return mocktest.Setup{Partials: true, New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
		o.URL, o.Dial, o.Key = m.URL("ws", ""), m.Dial, "secret-key"
		return New(c, o)
	}, Change: func(o *asrmock.Options) { o.Keys = []string{"secret-key"} }}
}

func TestSuite(t *testing.T) {
	t.Run("v1", func(t *testing.T) { setup(Defaults()).Run(t) })
	t.Run("flux", func(t *testing.T) { setup(Flux()).Run(t) })
}

func TestFaults(t *testing.T) {
	t.Run("v1", func(t *testing.T) { setup(Defaults()).Faults(t, nil) })
	t.Run("flux", func(t *testing.T) { setup(Flux()).Faults(t, nil) })
}

// A service that repeats the key does not make us tell it.
func TestKeyIsHidden(t *testing.T) {
	x := setup(Defaults()).Hear(t, mocktest.Utterance(), nil, "error=the key secret-key is out of credit")
	if x.Err == nil || !strings.Contains(x.Err.Error(), "the key (key) is out of credit") {
		t.Errorf("%v", x.Err)
	}
}
