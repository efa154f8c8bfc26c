package assemblyai

import (
	"context"
	"io"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/asrtest"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/failure"
)

const ms = time.Millisecond

func setup(change func(*Options)) mocktest.Setup {
	return mocktest.Setup{Partials: true, New: func(c clocks.Clock, m *mocktest.Mock) (asr.Recognizer, error) {
		o := Defaults()
		o.URL, o.Dial, o.Key = "ws://mock", m.Dial, "secret-key"
		if change != nil {
			change(&o)
		}
		return New(c, o)
	}, Change: func(o *asrmock.Options) { o.Keys = []string{"secret-key"} }}
}

func TestSuite(t *testing.T) { setup(nil).Run(t) }

func TestFaults(t *testing.T) {
	t.Run("plain", func(t *testing.T) { setup(nil).Faults(t, nil) })
	t.Run("universal-3", func(t *testing.T) {
		setup(func(o *Options) { o.SpeechModel = "u3-rt-pro" }).Faults(t, nil)
	})
}

// A service that repeats the key does not make us tell it.
func TestKeyIsHidden(t *testing.T) {
	x := setup(nil).Hear(t, mocktest.Utterance(), nil, "error=the key secret-key is out of credit")
	if x.Err == nil || !strings.Contains(x.Err.Error(), "3005: the key (key) is out of credit") {
		t.Errorf("%v", x.Err)
	}
}

// A server that is another one, and waits, is not waited for.
func TestNoBegin(t *testing.T) {
	x := setup(func(o *Options) { o.URL = "ws://mock/vosk" }).Hear(t, mocktest.Utterance(), nil)
	if x.Err == nil || failure.Of(x.Err) != failure.Timeout || !strings.Contains(x.Err.Error(), "the service did not say Begin within 10s") || x.Ended != 10*time.Second {
		t.Errorf("%v at %v", x.Err, x.Ended)
	}
}

// Each result has the time at which the mock says it, to the nanosecond. The mock
// has the end of the speech when the message with it is full: 60 ms of sound, which
// the end at 2.4 s fills exactly.
func TestExactTimes(t *testing.T) {
	u := mocktest.Utterance()
	for _, formatted := range []bool{false, true} {
		x := setup(func(o *Options) { o.FormatTurns = formatted }).Hear(t, u, nil)
		if x.Err != nil || len(x.Truth) != 1 || len(x.Truth[0].Utterances) != 1 {
			t.Fatalf("%v, %+v", x.Err, x.Truth)
		}
		truth := x.Truth[0].Utterances[0]
		want := u.Text
		if formatted {
			want = "Please tell me when you are open today."
		}
		if got := x.Of(asr.Final); !reflect.DeepEqual(got, truth.Finals) || got[0] != u.End+250*ms || x.Text() != want {
			t.Errorf("Finals at %v, the mock has %v: %q", got, truth.Finals, x.Text())
		}
		if got := x.Of(asr.Partial); !reflect.DeepEqual(got, truth.Partials) || len(got) < 3 {
			t.Errorf("Partials at %v, the mock has %v", got, truth.Partials)
		}
		if got := x.Of(asr.Endpoint); len(got) != 1 || got[0] != u.End+250*ms {
			t.Errorf("Endpoints at %v", got)
		}
		if x.Truth[0].RequestID != "trial" || x.Truth[0].Audio != u.Sound.Duration() || x.Truth[0].Messages != 50 || *truth.EndAt != u.End || x.Truth[0].Ended != "complete" {
			t.Errorf("%+v", x.Truth[0])
		}
	}
}

// ForceEndpoint in the pause of the speech ends a turn, and again at the end the
// next one. What is held by then comes before it, filled up to 50 ms.
func TestForceEndpoint(t *testing.T) {
	u := mocktest.Utterance()
	x := setup(nil).Hear(t, u, func(req *asr.Request, c clocks.Clock) {
		req.Finalize = mocktest.AskedAt(c, 1400*ms, u.End+60*ms)
	})
	want := []time.Duration{1500 * ms, u.End + 160*ms}
	if got := x.Of(asr.Final); x.Err != nil || x.Text() != u.Text || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %q at %v", x.Err, x.Text(), got)
	}
	if got := x.Of(asr.Endpoint); !reflect.DeepEqual(got, want) {
		t.Errorf("Endpoints at %v", got)
	}
}

// The hook is told of messages, not of the pieces that make them.
func TestSent(t *testing.T) {
	u := mocktest.Utterance()
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		m := mocktest.Start(t, c, mocktest.Options(u), false)
		defer m.Stop()
		o := Defaults()
		o.URL, o.Dial = "ws://mock", m.Dial
		n, connected := 0, 0
		o.Sent = func(id string, offset, at time.Duration) {
			if n++; id != "r" || at != offset || offset != time.Duration(n)*60*ms {
				t.Errorf("the sound up to %v was sent at %v for %q", offset, at, id)
			}
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
		if n != 50 || connected != 1 {
			t.Errorf("%d messages, %d connections", n, connected)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAddress(t *testing.T) {
	full := Defaults()
	full.FormatTurns, full.EndOfTurnConfidence, full.MinTurnSilence, full.MaxTurnSilence = true, 0.4, 160, 1280
	full.KeytermsPrompt, full.Extra = []string{"Ada L."}, map[string]string{"speech_model": "u3-rt-pro"}
	proxy := Defaults()
	proxy.URL = "wss://proxy.example/aai?team=7"
	for _, test := range []struct {
		o                Options
		host, path, want string
	}{
		{Defaults(), "streaming.assemblyai.com", "/v3/ws", "encoding=pcm_s16le&sample_rate=16000&speech_model=universal-streaming-english"},
		{full, "streaming.assemblyai.com", "/v3/ws", "encoding=pcm_s16le&end_of_turn_confidence_threshold=0.4&format_turns=true&keyterms_prompt=%5B%22Ada+L.%22%5D&max_turn_silence=1280&min_turn_silence=160&sample_rate=16000&speech_model=u3-rt-pro"},
		{proxy, "proxy.example", "/aai", "encoding=pcm_s16le&sample_rate=16000&speech_model=universal-streaming-english&team=7"},
	} {
		if test.o.URL == "" {
			test.o.URL = DefaultURL
		}
		text, err := service{o: test.o}.address()
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
		"sample_rate":                      func(o *Options) { o.SampleRate = 7 },
		"end_of_turn_confidence_threshold": func(o *Options) { o.EndOfTurnConfidence = 2 },
		"min_turn_silence":                 func(o *Options) { o.MinTurnSilence = -1 },
		"max_turn_silence":                 func(o *Options) { o.MaxTurnSilence = -1 },
		"url":                              func(o *Options) { o.URL = "https://x" },
	} {
		o := Defaults()
		change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The messages are those of the SDK's types.
func TestRead(t *testing.T) {
	const at = time.Second
	final := func(text string) asr.Result { return asr.Result{At: at, Kind: asr.Final, Text: text} }
	partial := func(text string) asr.Result { return asr.Result{At: at, Kind: asr.Partial, Text: text} }
	end := asr.Result{At: at, Kind: asr.Endpoint}
	turn := func(n, flags, text string) string {
		return `{"type":"Turn","turn_order":` + n + `,` + flags + `,"transcript":"` + text + `","end_of_turn_confidence":0.1,"words":[]}`
	}
	const going, over, pretty = `"turn_is_formatted":false,"end_of_turn":false`, `"turn_is_formatted":false,"end_of_turn":true`, `"turn_is_formatted":true,"end_of_turn":true`
	for _, test := range []struct {
		formatted bool
		in        []string
		want      []asr.Result
		err       string
	}{
		{false, []string{`{"type":"Begin","id":"x","expires_at":1}`, `{"type":"SpeechStarted","timestamp":320}`, `{"type":"Heartbeat"}`}, nil, ""},
		{false, []string{`{"type":"Turn","turn_order":0,"end_of_turn":false,"transcript":"turn","words":[{"text":"turn","word_is_final":true},{"text":"on","word_is_final":false}]}`}, []asr.Result{partial("turn on")}, ""},
		{false, []string{turn("0", going, "turn"), turn("0", over, "turn on")}, []asr.Result{partial("turn"), final("turn on"), end}, ""},
		{false, []string{turn("0", over, "turn on"), turn("0", pretty, "Turn on."), turn("1", over, "now")}, []asr.Result{final("turn on"), end, final("now"), end}, ""},
		{true, []string{turn("0", over, "turn on"), turn("0", pretty, "Turn on.")}, []asr.Result{end, final("Turn on.")}, ""},
		{true, []string{turn("0", pretty, "Turn on.")}, []asr.Result{final("Turn on."), end}, ""},
		{true, []string{turn("0", over, "turn on"), `{"type":"Termination"}`}, []asr.Result{end, final("turn on")}, "EOF"},
		{false, []string{turn("0", going, "turn"), `{"type":"Termination"}`}, []asr.Result{partial("turn"), final("turn")}, "EOF"},
		{false, []string{`{"type":"Termination"}`}, nil, "EOF"},
		{false, []string{`{"type":"Error","error_code":3007,"error":"too short"}`}, nil, "the service says 3007: too short"},
		{false, []string{`{"error":"Session has expired"}`}, nil, "the service says Session has expired"},
		{false, []string{`[`}, nil, `a message is no JSON: unexpected end of JSON input, at byte 1: "["`},
	} {
		r := turns{formatted: test.formatted}
		var got []asr.Result
		text := ""
		for _, in := range test.in {
			results, err := r.read([]byte(in), at)
			got = append(got, results...)
			if err != nil {
				text = err.Error()
			}
		}
		if text != test.err || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s\n%v, %q", test.in, got, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"type":"Turn","turn_order":0,"end_of_turn":true,"transcript":"a"}`, true)
	f.Add(`{"type":"Turn","turn_order":-1,"words":[{"text":"a"}]}`, false)
	f.Add(`{"type":"Error","error":"x"}`, false)
	f.Fuzz(func(t *testing.T, text string, formatted bool) {
		r := turns{formatted: formatted}
		for range 2 {
			results, err := r.read([]byte(text), time.Second)
			if err != nil && err != io.EOF && results != nil {
				t.Errorf("both %v and %v", results, err)
			}
			for _, x := range results {
				if x.Kind == asr.Endpoint && x.Text != "" || x.At != time.Second {
					t.Errorf("%+v", x)
				}
			}
		}
	})
}
