package deepgram

import (
	"strings"
	"testing"

	"firstsound/clocks"
	"firstsound/tts/live/livetest"
)

func TestRead(t *testing.T) {
	for data, want := range map[string]struct {
		pieces int
		fail   string
	}{
		`{"type":"Metadata","request_id":"x"}`:                             {},
		`{"type":"Flushed","sequence_id":0}`:                               {pieces: 1},
		`{"type":"Cleared","sequence_id":1}`:                               {},
		`{"type":"Warning","code":"EXCESSIVE_FLUSH","description":"slow"}`: {fail: "warning: EXCESSIVE_FLUSH: slow"},
		`{"type":"Error","err_code":"X","err_msg":"gone"}`:                 {fail: "error: X: gone"},
		`{"type":`: {fail: "JSON"},
	} {
		n, err := read([]byte(data))
		if n != want.pieces || (err == nil) != (want.fail == "") || err != nil && !strings.Contains(err.Error(), want.fail) {
			t.Errorf("%s: %d, %v", data, n, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"type":"Flushed","sequence_id":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := read(data); n > 1 || n == 1 && err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestAddress(t *testing.T) {
	for api, want := range map[string]string{
		"websocket": "wss://api.deepgram.com/v1/speak?encoding=linear16&mip_opt_out=true&model=aura-2-thalia-en&sample_rate=24000",
		"http":      "https://api.deepgram.com/v1/speak?container=none&encoding=linear16&mip_opt_out=true&model=aura-2-thalia-en&sample_rate=24000",
	} {
		o := Defaults()
		o.API, o.Extra = api, map[string]string{"mip_opt_out": "true"}
		s, err := New(clocks.NewReal(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.address("aura-2-thalia-en"); got != want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		s.Close()
	}
}

func TestCheck(t *testing.T) {
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"api": func(o *Options) { o.API = "v2" }, "model": func(o *Options) { o.Model = "" }, "encoding": func(o *Options) { o.Encoding = "opus" },
		"container": func(o *Options) { o.Container = "ogg" }, "sample_rate": func(o *Options) { o.SampleRate = 0 },
		"keep_alive": func(o *Options) { o.KeepAlive = -1 }, "url": func(o *Options) { o.URL = "tcp://x" },
	})
}
