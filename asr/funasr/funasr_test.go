package funasr

import (
	"testing"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/clocks"
)

func setup(quirk, mode string) mocktest.Setup {
	o := Defaults()
	o.Quirk, o.Mode = quirk, mode
	return mocktest.Setup{
		Partials: mode != "offline", Finalizes: mode != "2pass",
		New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
			o.URL, o.Dial, o.Key = m.URL("ws", ""), m.Dial, "secret-key"
			return New(c, o)
		}, Change: func(o *asrmock.Options) { o.FunASR = quirk },
	}
}

func each(t *testing.T, f func(t *testing.T, s mocktest.Setup, mode string)) {
	for _, quirk := range []string{CPP, PythonOld, PythonNew} {
		for _, mode := range []string{"2pass", "online", "offline"} {
			t.Run(quirk+"/"+mode, func(t *testing.T) { f(t, setup(quirk, mode), mode) })
		}
	}
}

func TestSuite(t *testing.T) {
	each(t, func(t *testing.T, s mocktest.Setup, _ string) { s.Run(t) })
}

func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, s mocktest.Setup, mode string) {
		want := map[string]string{}
		if mode == "offline" {
			want["garbage"] = "skip"
		}
		if mode != "2pass" {
			want["early_final=500ms"] = "skip"
		}
		s.Faults(t, want)
	})
}
