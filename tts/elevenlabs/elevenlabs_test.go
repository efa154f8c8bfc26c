package elevenlabs

import (
	"strings"
	"testing"
	"time"

	"firstsound/tts/live"
	"firstsound/tts/live/livetest"
)

func newReader(t testing.TB, id string) *reader {
	d, err := live.NewDecoder(live.S16, 24000)
	if err != nil {
		t.Fatal(err)
	}
	return &reader{id: id, sound: d}
}

func TestRead(t *testing.T) {
	r := newReader(t, "c1")
	r.expect("Hi you.")
	r.expect("Bye.")
	for i, test := range []struct {
		data    string
		samples int
		pieces  int
		over    bool
		words   string
		fail    string
	}{
		{data: `{"audio":"AQACAA==","contextId":"c0"}`}, // of another answer
		{data: `{"audio":"AQAC","contextId":"c1","isFinal":false,"alignment":{"chars":["H","i"," ","y"],"charStartTimesMs":[0,0,0,0],"charDurationsMs":[0,0,0,0]}}`, samples: 1, words: "Hi y"},
		{data: `{"audio":"AA==","context_id":"c1","isFinal":null,"alignment":{"chars":["o","u","."," "],"charsStartTimesMs":[0,0,0,0]}}`, samples: 1, pieces: 1, words: "ou."},
		{data: `{"type":"flush_done","contextId":"c1"}`},
		{data: `{"audio":null,"contextId":"c1","alignment":{"chars":["B","y","e",".","B"]}}`, pieces: 1},
		{data: `{"isFinal":true,"contextId":"c1"}`, over: true},
		{data: `{"error":"input_timeout_exceeded","message":"too late","code":1008}`, fail: "input_timeout_exceeded: too late"},
		{data: `{"error":"no","contextId":"c1"}`, fail: "no"},
		{data: `{"audio":"?"}`, fail: "base64"},
		{data: `no`, fail: "JSON"},
	} {
		h, err := r.read([]byte(test.data), time.Second)
		samples, words := 0, []string{}
		for _, c := range h.Chunks {
			samples += len(c.Sound.PCM)
			for _, w := range c.Words {
				words = append(words, w.Text)
			}
		}
		if samples != test.samples || h.Pieces != test.pieces || h.Over != test.over || strings.Join(words, " ") != test.words ||
			(err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("message %d: %+v, %v", i, h, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"audio":"AQACAA==","contextId":"c1","alignment":{"chars":["H"],"charStartTimesMs":[-5]}}`))
	f.Add([]byte(`{"isFinal":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReader(t, "c1")
		r.expect("Hi.")
		h, _ := r.read(data, time.Second)
		for _, c := range h.Chunks {
			for _, w := range c.Words {
				if w.Start < 0 || w.Start > c.Sound.Duration() {
					t.Errorf("%q begins at %v of %v", w.Text, w.Start, c.Sound.Duration())
				}
			}
		}
	})
}

func TestCheck(t *testing.T) {
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"api": func(o *Options) { o.API = "ws" }, "voice": func(o *Options) { o.Voice = "" }, "model_id": func(o *Options) { o.Model = "" },
		"output_format": func(o *Options) { o.OutputFormat = "aac_48000_32" }, "inactivity_timeout": func(o *Options) { o.InactivityTimeout = 181 },
		"keep_alive": func(o *Options) { o.KeepAlive = -1 }, "url": func(o *Options) { o.URL = "ftp://x" },
	})
}
