package cosyvoice

import (
	"strings"
	"testing"

	"firstsound/tts/live/livetest"
)

func TestRead(t *testing.T) {
	for data, want := range map[string]struct{ event, fail string }{
		`{"header":{"task_id":"t1","event":"task-started"},"payload":{}}`:                                              {event: "task-started"},
		`{"header":{"task_id":"t0","event":"task-finished"}}`:                                                          {},
		`{"header":{"task_id":"t1","event":"result-generated"},"payload":{"output":{}}}`:                               {event: "result-generated"},
		`{"header":{"task_id":"t1","event":"task-failed","error_code":"InvalidParameter","error_message":"no voice"}}`: {fail: "InvalidParameter: no voice"},
		`{"header":{"task_id":"t1","event":"task-failed"}}`:                                                            {fail: "without words"},
		`{`: {fail: "JSON"},
	} {
		event, err := read([]byte(data), "t1")
		if event != want.event || (err == nil) != (want.fail == "") || err != nil && !strings.Contains(err.Error(), want.fail) {
			t.Errorf("%s: %q, %v", data, event, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"header":{"task_id":"t1","event":"task-started"},"payload":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if event, err := read(data, "t1"); err != nil && event != "" {
			t.Errorf("%q, %v", event, err)
		}
	})
}

func TestCheck(t *testing.T) {
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"model": func(o *Options) { o.Model = "" }, "voice": func(o *Options) { o.Voice = "" }, "format": func(o *Options) { o.Format = "aac" },
		"sample_rate": func(o *Options) { o.SampleRate = 0 }, "volume": func(o *Options) { o.Volume = 101 }, "rate": func(o *Options) { o.Rate = 3 },
		"pitch": func(o *Options) { o.Pitch = 0 }, "keep_alive": func(o *Options) { o.KeepAlive = -1 }, "url": func(o *Options) { o.URL = "http://x" },
	})
}
