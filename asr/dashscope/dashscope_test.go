package dashscope

import (
	"testing"

	"firstsound/asr"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/clocks"
)

func setup(o Options) mocktest.Setup {
	return mocktest.Setup{Partials: true, New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
		o.URL, o.Dial, o.Key = m.URL("ws", "/api-ws/v1/inference"), m.Dial, "secret-key"
		return New(c, o)
	}}
}

func TestSuite(t *testing.T) { setup(Defaults()).Run(t) }

func TestFaults(t *testing.T) { setup(Defaults()).Faults(t, nil) }
