package wyoming_test

import (
	"testing"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/wyoming"
	"firstsound/clocks"
	"firstsound/clocks/failure"
)

func setup(chunks bool) mocktest.Setup {
	return mocktest.Setup{
		Wyoming: true, Finalizes: true, Partials: chunks,
		New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
			o := wyoming.Defaults()
			o.URL, o.Dial, o.Key = "tcp://mock", m.Dial, "secret-key"
			return wyoming.New(c, o)
		}, Change: func(o *asrmock.Options) { o.WyomingChunks = chunks },
	}
}

func TestSuite(t *testing.T) {
	t.Run("whole", setup(false).Run)
	t.Run("chunks", setup(true).Run)
}

func TestFaults(t *testing.T) {
	want := map[string]string{
		"close=1011": "the server closed the connection", "drop": "the server closed the connection", "truncated": "unexpected EOF",
		"refuse=401": "closed", "slow=30s": "no final transcript came", "early_final=500ms": "skip",
	}
	s := setup(true)
	s.Kinds = map[string]failure.Kind{"refuse": failure.Closed} // without a word
	s.Faults(t, want)
}
