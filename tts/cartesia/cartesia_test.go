package cartesia

import (
	"strings"
	"testing"
	"time"

	"firstsound/tts/live"
	"firstsound/tts/live/livetest"
)

func newReader(t testing.TB) *reader {
	d, err := live.NewDecoder(live.S16, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return &reader{id: "c1", sound: d}
}

func TestRead(t *testing.T) {
	r := newReader(t)
	for i, test := range []struct {
		data    string
		samples int
		pieces  int
		over    bool
		words   string
		fail    string
	}{
		{data: `{"type":"chunk","data":"AQACAA==","context_id":"c0"}`}, // of another answer
		{data: `{"type":"timestamps","context_id":"c1","word_timestamps":{"words":["Hi","you","too"],"start":[0,0.001,0.004],"end":[1,2,3]}}`},
		{data: `{"type":"chunk","data":"AQACAA==","done":false,"status_code":206,"step_time":12.5,"flush_id":1,"context_id":"c1"}`, samples: 2, words: "Hi 0s you 1ms"},
		{data: `{"type":"chunk","data":"AQACAAMA","context_id":"c1"}`, samples: 3, words: "too 2ms"},
		{data: `{"type":"flush_done","flush_done":true,"flush_id":1,"context_id":"c1"}`, pieces: 1},
		{data: `{"type":"done","done":true,"status_code":200,"context_id":"c1"}`, over: true},
		{data: `{"type":"new_type","context_id":"c1"}`},
		{data: `{"type":"error","done":true,"status_code":400,"title":"Bad","message":"no such voice","error_code":"v","context_id":"c1"}`, fail: "v: Bad: no such voice"},
		{data: `{"error":"quota"}`, fail: "quota"},
		{data: `{"type":"chunk","data":"?"}`, fail: "base64"},
		{data: `{`, fail: "JSON"},
	} {
		h, err := r.read([]byte(test.data), time.Second)
		samples, words := 0, []string{}
		for _, c := range h.Chunks {
			samples += len(c.Sound.PCM)
			for _, w := range c.Words {
				words = append(words, w.Text, w.Start.String())
			}
		}
		if samples != test.samples || h.Pieces != test.pieces || h.Over != test.over || strings.Join(words, " ") != test.words ||
			(err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("message %d: %+v, %v", i, h, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"type":"timestamps","word_timestamps":{"words":["Hi"],"start":[-1e300]}}`), []byte(`{"type":"chunk","data":"AQACAA=="}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		r := newReader(t)
		r.read(first, time.Second)
		h, _ := r.read(second, time.Second)
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
		"api": func(o *Options) { o.API = "sse" }, "model_id": func(o *Options) { o.Model = "" }, "voice": func(o *Options) { o.Voice = "" },
		"encoding": func(o *Options) { o.Encoding = "mp3" }, "container": func(o *Options) { o.Container = "wav" }, "sample_rate": func(o *Options) { o.SampleRate = 1 },
		"max_buffer_delay_ms": func(o *Options) { o.MaxBufferDelayMS = -1 }, "keep_alive": func(o *Options) { o.KeepAlive = -1 }, "url": func(o *Options) { o.URL = "tcp://x" },
	})
}
