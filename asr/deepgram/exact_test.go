package deepgram

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/asrtest"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
)

const ms = time.Millisecond

// Each result has the time at which the mock says it, to the nanosecond: partials
// 150 ms after the word, the final 250 ms after the end of the speech.
func TestExactTimes(t *testing.T) {
	u := mocktest.Utterance()
	s := setup(Defaults())
	x := s.Hear(t, u, nil)
	if x.Err != nil || len(x.Truth) != 1 || len(x.Truth[0].Utterances) != 1 {
		t.Fatalf("%v, %+v", x.Err, x.Truth)
	}
	truth := x.Truth[0].Utterances[0]
	if got := x.Of(asr.Final); !reflect.DeepEqual(got, truth.Finals) || got[0] != u.End+250*ms {
		t.Errorf("Finals at %v, the mock has %v", got, truth.Finals)
	}
	if got := x.Of(asr.Partial); !reflect.DeepEqual(got, truth.Partials) || len(got) == 0 || got[0] < u.Start+450*ms {
		t.Errorf("Partials at %v, the mock has %v", got, truth.Partials)
	}
	if got := x.Of(asr.Endpoint); len(got) != 1 || got[0] != u.End+250*ms {
		t.Errorf("Endpoints at %v", got)
	}
	if x.Truth[0].RequestID != "trial" || x.Truth[0].Audio != u.Sound.Duration() || *truth.EndAt != u.End || x.Truth[0].Ended != "complete" {
		t.Errorf("%+v", x.Truth[0])
	}
}

// Finalize in the pause of the speech settles the words before it, and again at
// the end the rest: the user has gone on.
func TestFinalizeInPause(t *testing.T) {
	u := mocktest.Utterance()
	x := setup(Defaults()).Hear(t, u, func(req *asr.Request, c clocks.Clock) {
		req.Finalize = mocktest.AskedAt(c, 1400*ms, u.End+60*ms)
	})
	want := []time.Duration{1500 * ms, u.End + 160*ms}
	if got := x.Of(asr.Final); x.Err != nil || x.Text() != u.Text || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %q at %v", x.Err, x.Text(), got)
	}
}

// A frame is on its way when it has come, and the hooks know it.
func TestSent(t *testing.T) {
	u := mocktest.Utterance()
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		m := mocktest.Start(t, c, mocktest.Options(u), false)
		defer m.Stop()
		o := Defaults()
		o.URL, o.Dial = "ws://mock", m.Dial
		var offsets []time.Duration
		connected := 0
		o.Sent = func(id string, offset, at time.Duration) {
			if id != "r" || at != offset {
				t.Errorf("the sound up to %v was sent at %v for %q", offset, at, id)
			}
			offsets = append(offsets, offset)
		}
		o.Connected = func(string, time.Duration, time.Duration) { connected++ }
		r, err := New(c, o)
		if err != nil {
			return err
		}
		for _, err := range r.Recognize(ctx, asr.Request{RequestID: "r"}, asrtest.NewSpeech(c, u)) {
			if err != nil {
				return err
			}
		}
		if len(offsets) != 150 || connected != 1 {
			t.Errorf("%d pieces, %d connections", len(offsets), connected)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAddress(t *testing.T) {
	flux := Flux()
	flux.EagerEOTThreshold, flux.Extra = 0.4, map[string]string{"keyterm": "x y"}
	silent := Defaults()
	silent.Endpointing, silent.URL = 0, "wss://proxy.example/deepgram/listen?team=7"
	for _, test := range []struct {
		o                Options
		host, path, want string
	}{
		{Defaults(), "api.deepgram.com", "/v1/listen", "channels=1&encoding=linear16&endpointing=25&interim_results=true&language=en&model=nova-3&no_delay=true&sample_rate=16000&tag=r"},
		{flux, "api.deepgram.com", "/v2/listen", "eager_eot_threshold=0.4&encoding=linear16&keyterm=x+y&model=flux-general-en&sample_rate=16000&tag=r"},
		{silent, "proxy.example", "/deepgram/listen", "channels=1&encoding=linear16&endpointing=false&interim_results=true&language=en&model=nova-3&no_delay=true&sample_rate=16000&tag=r&team=7"},
	} {
		test.o.URL = cmp.Or(test.o.URL, DefaultURL)
		text, err := service{o: test.o}.address(asr.Request{RequestID: "r", Language: "en"})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(text)
		if err != nil || u.Host != test.host || u.Path != test.path || u.RawQuery != test.want {
			t.Errorf("%v, %s", err, text)
		}
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"api":         func(o *Options) { o.API = "v3" },
		"sample_rate": func(o *Options) { o.SampleRate = 7 },
		"endpointing": func(o *Options) { o.UtteranceEndMS = 500 },
		"url":         func(o *Options) { o.URL = "https://x" },
		"timeout":     func(o *Options) { o.Timeout = -1 },
	} {
		o := Defaults()
		change(&o)
		if err := o.Check(); err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The messages are those of Deepgram's documentation.
func TestRead(t *testing.T) {
	const at = time.Second
	final := func(text string) asr.Result { return asr.Result{At: at, Kind: asr.Final, Text: text} }
	partial := func(text string) asr.Result { return asr.Result{At: at, Kind: asr.Partial, Text: text} }
	end := asr.Result{At: at, Kind: asr.Endpoint}
	results := func(flags, text string) string {
		return `{"type":"Results","channel_index":[0,1],"duration":1.02,"start":0.0,` + flags + `"channel":{"alternatives":[{"transcript":"` + text + `","confidence":0.99,"words":[]}]},"metadata":{"request_id":"6a"}}`
	}
	for _, test := range []struct {
		flux bool
		in   string
		want []asr.Result
		err  string
	}{
		{false, results(`"is_final":false,`, "turn on"), []asr.Result{partial("turn on")}, ""},
		{false, results(`"is_final":true,"speech_final":true,"from_finalize":false,`, "turn on the light"), []asr.Result{final("turn on the light"), end}, ""},
		{false, results(`"is_final":true,`, ""), nil, ""}, // silence
		{false, results(`"is_final":true,"from_finalize":true,`, ""), []asr.Result{final("")}, ""},
		{false, `{"type":"SpeechStarted","channel":[0,1],"timestamp":0.1}`, nil, ""},
		{false, `{"type":"UtteranceEnd","channel":[0,1],"last_word_end":1.0}`, []asr.Result{end}, ""},
		{false, `{"type":"Metadata","request_id":"x","duration":3.2,"channels":1}`, nil, ""},
		{false, `{"type":"Error","variant":"SchemaError","description":"what is that"}`, nil, "the service says SchemaError: what is that"},
		{false, `{"type":"Results"}`, nil, `a Results message has no transcript: "{\"type\":\"Results\"}"`},
		{true, `{"type":"Connected","request_id":"x","sequence_id":0}`, nil, ""},
		{true, `{"type":"TurnInfo","event":"Update","transcript":"turn on","words":[]}`, []asr.Result{partial("turn on")}, ""},
		{true, `{"type":"TurnInfo","event":"EndOfTurn","transcript":"turn on the light","end_of_turn_confidence":0.91}`, []asr.Result{final("turn on the light"), end}, ""},
		{true, `{"type":"Error","sequence_id":3,"code":"INTERNAL_SERVER_ERROR","description":"oh"}`, nil, "the service says INTERNAL_SERVER_ERROR: oh"},
	} {
		read := (&segments{}).read
		if test.flux {
			read = (&turns{}).read
		}
		got, err := read([]byte(test.in), at)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != test.err || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s\n%v, %q", test.in, got, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"type":"Results","is_final":true,"channel":{"alternatives":[{"transcript":"a"}]}}`)
	f.Add(`{"type":"TurnInfo","event":"EndOfTurn","transcript":"a"}`)
	f.Add(`{"type":"Results","channel":[0,1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func([]byte, time.Duration) ([]asr.Result, error){(&segments{}).read, (&turns{}).read} {
			results, err := read([]byte(text), 1)
			if err == nil && !json.Valid([]byte(text)) {
				t.Errorf("no JSON, and no error: %q", text)
			}
			if err != nil && len(results) > 0 {
				t.Errorf("%v with %v", results, err)
			}
		}
	})
}
