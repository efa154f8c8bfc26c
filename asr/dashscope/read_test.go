package dashscope

import (
	"encoding/json"
	"reflect"
	"testing"

	"firstsound/asr"
)

// The messages are those of Alibaba's documentation.
func TestRead(t *testing.T) {
	const at = 5
	sentence := func(fields string) string {
		return `{"header":{"task_id":"x","event":"result-generated","attributes":{}},"payload":{"output":{"sentence":{` + fields + `}},"usage":null}}`
	}
	final := asr.Result{At: at, Kind: asr.Final, Text: "打开灯。"}
	for _, test := range []struct {
		in    string
		asked bool
		want  []asr.Result
		err   string
	}{
		{sentence(`"begin_time":170,"end_time":null,"text":"打开","heartbeat":false,"sentence_end":false,"words":[]`), false, []asr.Result{{At: at, Text: "打开"}}, ""},
		{sentence(`"begin_time":170,"end_time":1300,"text":"打开灯。","sentence_end":true`), false, []asr.Result{final, {At: at, Kind: asr.Endpoint}}, ""},
		{sentence(`"begin_time":170,"end_time":1300,"text":"打开灯。","sentence_end":true`), true, []asr.Result{final}, ""},
		{sentence(`"end_time":null,"text":"打开灯。","sentence_end":true`), true, []asr.Result{{At: at, Text: "打开灯。"}}, ""},
		{sentence(`"text":"","heartbeat":true`), false, nil, ""},
		{`{"header":{"event":"task-started"},"payload":{}}`, false, nil, ""},
		{`{"header":{"event":"task-failed","error_code":"CLIENT_ERROR","error_message":"request timeout after 23 seconds.","task_id":"x"},"payload":{}}`, false, nil,
			"the service says CLIENT_ERROR: request timeout after 23 seconds."},
	} {
		e, err := read([]byte(test.in))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got := e.results(at, test.asked); text != test.err || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s\n%+v, %q", test.in, got, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"header":{"event":"result-generated"},"payload":{"output":{"sentence":{"text":"a","end_time":1,"sentence_end":true}}}}`)
	f.Add(`{"header":{"event":"task-failed","error_code":"A","error_message":"b"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := read([]byte(text))
		if err == nil && !json.Valid([]byte(text)) {
			t.Errorf("no JSON, and no error: %q", text)
		}
		if n := len(e.results(1, true)); n > 1 {
			t.Errorf("%d results", n)
		}
	})
}
