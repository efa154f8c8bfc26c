package openai

import (
	"strings"
	"testing"

	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live/livetest"
)

func TestEvents(t *testing.T) {
	for _, test := range []struct {
		data, sound string
		last        bool
		fail        string
	}{
		{data: `{"type":"speech.audio.delta","audio":"AQI="}`, sound: "\x01\x02"},
		{data: `{"type":"speech.audio.delta","delta":"AQI="}`, sound: "\x01\x02"},
		{data: `{"type":"speech.audio.done","usage":{"total_tokens":115}}`, last: true},
		{data: `[DONE]`, last: true},
		{data: `{"type":"something.new"}`},
		{data: `{"type":"error","error":{"message":"no voice","code":"x"}}`, fail: "x: no voice"},
		{data: `{"error":{"message":"no voice"}}`, fail: "no voice"},
		{data: `{"type":"speech.audio.delta","audio":"?"}`, fail: "base64"},
		{data: `{"type":`, fail: "JSON"},
	} {
		sound, last, err := events{}.Event("", []byte(test.data))
		if string(sound) != test.sound || last != test.last || (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%s: %q, %v, %v", test.data, sound, last, err)
		}
	}
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type":"speech.audio.delta","audio":"AQI="}`))
	f.Add([]byte(`{"type":"error","error":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sound, _, err := (events{}).Event("", data); err != nil && sound != nil && len(sound) > len(data) {
			t.Errorf("%d bytes of %d", len(sound), len(data))
		}
	})
}

func TestRequest(t *testing.T) {
	o := Defaults()
	o.URL, o.Key, o.Speed, o.Extra = "http://127.0.0.1:8880/v1/", "k", 1.5, map[string]any{"stream": true, "model": "kokoro"}
	s, err := New(clocks.NewReal(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := s.post(tts.Request{RequestID: "r", Voice: "af_heart"}, 2, "Hi.")
	body := p.Body.(map[string]any)
	for key, want := range map[string]any{"model": "kokoro", "voice": "af_heart", "input": "Hi.", "response_format": "pcm", "speed": 1.5, "stream": true} {
		if body[key] != want {
			t.Errorf("%s is %v, want %v", key, body[key], want)
		}
	}
	if _, ok := body["stream_format"]; ok {
		t.Error("stream_format is sent")
	}
	if p.URL != "http://127.0.0.1:8880/v1/audio/speech" || p.Header.Get("Authorization") != "Bearer k" || p.Header.Get("X-Request-Id") != "r-2" {
		t.Errorf("%s, %v", p.URL, p.Header)
	}
}

func TestCheck(t *testing.T) {
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"response_format": func(o *Options) { o.ResponseFormat = "aac" }, "stream_format": func(o *Options) { o.StreamFormat = "ws" },
		"speed": func(o *Options) { o.Speed = -1 }, "sample_rate": func(o *Options) { o.SampleRate = 0 }, "url": func(o *Options) { o.URL = "ws://x" }, "timeout": func(o *Options) { o.Timeout = -1 },
	})
}
