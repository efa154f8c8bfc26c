package vosk

import (
	"encoding/json"
	"reflect"
	"testing"

	"firstsound/asr"
)

// The messages are those of vosk-server's asr_server.py.
func TestRead(t *testing.T) {
	const at = 5
	final := asr.Result{At: at, Kind: asr.Final, Text: "turn on the light"}
	for _, test := range []struct {
		in   string
		last bool
		want []asr.Result
		err  string
	}{
		{"{\n  \"partial\" : \"turn on\"\n}", false, []asr.Result{{At: at, Text: "turn on"}}, ""},
		{`{"result":[{"conf":1.0,"start":0.1,"end":0.4,"word":"turn"}],"text":"turn on the light"}`, false, []asr.Result{final, {At: at, Kind: asr.Endpoint}}, ""},
		{`{"text":"turn on the light"}`, true, []asr.Result{final}, ""},
		{`{"text":""}`, true, []asr.Result{{At: at, Kind: asr.Final}}, ""},
		{`{"alternatives":[{"confidence":200.1,"text":"turn on the light"},{"text":"turn off"}]}`, true, []asr.Result{final}, ""},
		{`{}`, false, nil, `a message has neither partial nor text: "{}"`},
	} {
		got, err := read([]byte(test.in), at, test.last)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != test.err || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s\n%+v, %q", test.in, got, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"partial":"a"}`, false)
	f.Add(`{"alternatives":[{"text":"a"}]}`, true)
	f.Fuzz(func(t *testing.T, text string, last bool) {
		got, err := read([]byte(text), 1, last)
		if err == nil && (!json.Valid([]byte(text)) || len(got) == 0) {
			t.Errorf("%v of %q", got, text)
		}
	})
}
