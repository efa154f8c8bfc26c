package openai

import (
	"testing"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/clocks"
)

func setup(o Options, path string) mocktest.Setup {
	return mocktest.Setup{
		Partials: o.API == "realtime" || o.Stream, Finalizes: o.API != "realtime" || o.TurnDetection == "none",
		New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
			o.URL, o.Dial, o.Key = m.URL("http", path), m.Dial, "secret-key"
			return New(c, o)
		}, Change: func(o *asrmock.Options) { o.Keys = []string{"secret-key"} },
		Close: func(r asr.Recognizer) { r.(*Recognizer).Close() },
	}
}

func setups() map[string]mocktest.Setup {
	plain, none := Defaults(), Realtime()
	plain.Stream = false
	none.TurnDetection = "none"
	return map[string]mocktest.Setup{
		"json": setup(plain, "/v1"), "stream": setup(Defaults(), "/v1"), "whisper.cpp": setup(plain, "/inference"),
		"realtime": setup(Realtime(), "/v1"), "realtime, no VAD": setup(none, "/v1"),
	}
}

func TestSuite(t *testing.T) {
	for name, s := range setups() {
		t.Run(name, s.Run)
	}
}

func TestFaults(t *testing.T) {
	for name, s := range setups() {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			switch name {
			case "json", "whisper.cpp", "stream":
				want["early_final=500ms"] = "skip"
				want["slow=30s"] = "no final transcript came" // the upload is done
				want["close=1011"], want["drop"], want["truncated"] = "EOF", "EOF", "EOF"
			}
			s.Faults(t, want)
		})
	}
}
