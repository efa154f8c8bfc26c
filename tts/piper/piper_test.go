package piper

import (
	"reflect"
	"testing"

	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live/livetest"
)

// The fields are those of piper's http_server.py.
func TestRequest(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		req    tts.Request
		url    string
		body   map[string]any
		id     string
	}{
		{func(*Options) {}, tts.Request{}, "http://127.0.0.1:5000/synthesize", map[string]any{"text": "Hi."}, ""},
		{func(o *Options) {
			o.URL, o.Voice, o.Speaker, o.LengthScale = "https://tts.example/piper/", "en_US-lessac-medium", "p1", 1.2
			o.Extra = map[string]any{"noise_scale": 0.5, "speaker": "p2"}
		}, tts.Request{RequestID: "r"}, "https://tts.example/piper/", map[string]any{"text": "Hi.", "voice": "en_US-lessac-medium", "speaker": "p2", "length_scale": 1.2, "noise_scale": 0.5}, "r-2"},
		{func(o *Options) { o.Voice = "a" }, tts.Request{Voice: "b"}, "http://127.0.0.1:5000/synthesize", map[string]any{"text": "Hi.", "voice": "b"}, ""},
	} {
		o := Defaults()
		test.change(&o)
		s, err := New(clocks.NewReal(), o)
		if err != nil {
			t.Fatal(err)
		}
		p := s.post(test.req, 2, "Hi.")
		if p.URL != test.url || !reflect.DeepEqual(p.Body, test.body) || p.Header.Get("X-Request-Id") != test.id {
			t.Errorf("%s, %v, %v", p.URL, p.Body, p.Header)
		}
		s.Close()
	}
}

func TestCheck(t *testing.T) {
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"length_scale": func(o *Options) { o.LengthScale = -1 }, "url": func(o *Options) { o.URL = "ws://x" },
	})
}
