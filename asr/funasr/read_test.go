package funasr

import (
	"encoding/json"
	"io"
	"reflect"
	"testing"

	"firstsound/asr"
)

const at = 5

func final(text string) asr.Result   { return asr.Result{At: at, Kind: asr.Final, Text: text} }
func partial(text string) asr.Result { return asr.Result{At: at, Kind: asr.Partial, Text: text} }

var endpoint = asr.Result{At: at, Kind: asr.Endpoint}

// A conversation of each kind of server, as FunASR's documents and its users'
// clients have them.
func TestRead(t *testing.T) {
	type step struct {
		in    string
		asked bool
		want  []asr.Result
		err   string // EOF: the last
	}
	for _, test := range []struct {
		name, quirk, mode string
		steps             []step
	}{
		{"cpp 2pass", CPP, "2pass", []step{
			{`{"mode":"2pass-online","text":"打开","wav_name":"u1","is_final":false,"slice_type":0}`, false, []asr.Result{partial("打开")}, ""},
			{`{"mode":"2pass-online","text":"客厅","is_final":false}`, false, []asr.Result{partial("打开客厅")}, ""},
			{`{"mode":"2pass-offline","text":"打开客厅的灯。","is_final":false,"timestamp":"[[70,310]]","stamp_sents":[]}`, false, []asr.Result{final("打开客厅的灯。"), endpoint}, ""},
			{`{"mode":"2pass-offline","text":"","is_final":true}`, true, []asr.Result{final("")}, "EOF"},
		}},
		{"cpp offline: never final", CPP, "offline", []step{{`{"mode":"offline","text":"你好","is_final":false}`, true, []asr.Result{final("你好")}, "EOF"}}},
		{"py-old: final while speaking", PythonOld, "2pass", []step{
			{`{"mode":"2pass-online","text":"turn","is_final":true}`, false, []asr.Result{partial("turn")}, ""},
			{`{"mode":"2pass-online","text":" on","is_final":true}`, true, []asr.Result{partial("turn on")}, ""},
			{`{"mode":"2pass-offline","text":"Turn on.","is_final":false}`, true, []asr.Result{final("Turn on.")}, "EOF"},
		}},
		{"py-new: is_end", PythonNew, "2pass", []step{
			{`{"mode":"2pass-offline","text":"Turn on.","is_final":true}`, true, []asr.Result{final("Turn on.")}, ""},
			{`{"mode":"2pass","is_final":true,"is_end":true}`, true, []asr.Result{final("")}, "EOF"},
		}},
		{"py-new: failure", PythonNew, "2pass", []step{
			{`{"mode":"2pass","is_final":false,"is_end":true,"error":"out of memory"}`, true, nil, "the service says out of memory"},
		}},
		{"online adds up", CPP, "online", []step{
			{`{"mode":"online","text":"turn","is_final":false}`, false, []asr.Result{partial("turn")}, ""},
			{`{"mode":"online","text":" on","is_final":true}`, true, []asr.Result{final("turn on")}, "EOF"},
		}},
		{"wrong format", CPP, "2pass", []step{
			{`{"text":"ERROR. Real-time transcription service ONLY SUPPORT PCM stream.","is_final":true}`, false, nil, "the service says ERROR. Real-time transcription service ONLY SUPPORT PCM stream."},
		}},
	} {
		r := results{quirk: test.quirk, mode: test.mode}
		for i, s := range test.steps {
			got, err := r.read([]byte(s.in), at, s.asked)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != s.err || !reflect.DeepEqual(got, s.want) {
				t.Errorf("%s, %d: %+v, %q", test.name, i, got, text)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"mode":"2pass-online","text":"a","is_final":true}`, true)
	f.Add(`{"mode":"offline","text":"a","is_end":true}`, false)
	f.Fuzz(func(t *testing.T, text string, asked bool) {
		for _, quirk := range []string{CPP, PythonOld, PythonNew} {
			r := results{quirk: quirk, mode: "2pass"}
			got, err := r.read([]byte(text), at, asked)
			switch {
			case err == nil && !json.Valid([]byte(text)):
				t.Errorf("no JSON, and no error: %q", text)
			case err != nil && err != io.EOF && len(got) > 0:
				t.Errorf("%v with %v", got, err)
			}
		}
	})
}
