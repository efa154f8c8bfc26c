package openai

import (
	"reflect"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/audio"
)

func final(at time.Duration, text string) asr.Result {
	return asr.Result{At: at, Kind: asr.Final, Text: text}
}

func partial(at time.Duration, text string) asr.Result {
	return asr.Result{At: at, Kind: asr.Partial, Text: text}
}

// The bodies are those of OpenAI's reference and of whisper.cpp's server, in
// pieces of any length: the results, and their times, are those of the piece that
// completed them.
func TestDecoder(t *testing.T) {
	const stream = "event: x\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\"Turn \"}\r\n\n: comment\n" +
		"data: {\"type\":\"transcript.text.delta\",\"delta\":\"on\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"Turn on.\",\"usage\":{}}\n\ndata: [DONE]\n\n"
	for _, test := range []struct {
		name   string
		status int
		stream bool
		pieces []string
		want   []asr.Result
		err    string
	}{
		{"whole", 200, false, []string{`{"text":" Turn`, ` on the light.\n"}`}, []asr.Result{final(2, "Turn on the light.")}, "EOF"},
		{"stream", 200, true, []string{stream}, []asr.Result{partial(1, "Turn"), partial(1, "Turn on"), final(1, "Turn on.")}, "EOF"},
		{"stream in pieces", 200, true, []string{stream[:20], stream[20:100], stream[100:]},
			[]asr.Result{partial(2, "Turn"), partial(3, "Turn on"), final(3, "Turn on.")}, "EOF"},
		{"cut off", 200, true, []string{stream[:90]}, []asr.Result{partial(1, "Turn")}, "the stream ended without transcript.text.done"},
		{"error in the stream", 200, true, []string{"data: {\"type\":\"error\",\"error\":{\"message\":\"no model\",\"code\":null,\"type\":\"server_error\"}}\n"}, nil, "the service says server_error: no model"},
		{"refused", 401, false, []string{`{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`}, nil,
			"the service refused with 401: invalid_api_key: Incorrect API key provided"},
		{"whisper.cpp", 400, false, []string{`{"error":"no 'file' field in the request"}`}, nil, "the service refused with 400: no 'file' field in the request"},
		{"a proxy", 502, false, []string{"<html>"}, nil, `the service refused with 502 Bad Gateway: "<html>"`},
		{"no text", 200, false, []string{`{}`}, nil, `the answer has no text: "{}"`},
	} {
		d := decoder{status: test.status, stream: test.stream}
		var got []asr.Result
		var err error
		for i, p := range test.pieces {
			var more []asr.Result
			more, err = d.push([]byte(p), time.Duration(i+1))
			got = append(got, more...)
			if err != nil {
				break
			}
		}
		if err == nil {
			var more []asr.Result
			more, err = d.end(9)
			got = append(got, more...)
		}
		if err == nil || err.Error() != test.err || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
}

func TestEvents(t *testing.T) {
	const at = 5
	var e events
	for i, test := range []struct {
		in       string
		want     []asr.Result
		answered bool
		err      string
	}{
		{`{"type":"session.created","session":{}}`, nil, false, ""},
		{`{"type":"input_audio_buffer.speech_stopped","audio_end_ms":2500,"item_id":"a"}`, []asr.Result{{At: at, Kind: asr.Endpoint}}, false, ""},
		{`{"type":"input_audio_buffer.committed","item_id":"a"}`, nil, true, ""},
		{`{"type":"conversation.item.input_audio_transcription.delta","item_id":"a","content_index":0,"delta":"Turn"}`, []asr.Result{partial(at, "Turn")}, false, ""},
		{`{"type":"conversation.item.input_audio_transcription.delta","item_id":"a","content_index":0,"delta":" on"}`, []asr.Result{partial(at, "Turn on")}, false, ""},
		{`{"type":"conversation.item.input_audio_transcription.completed","item_id":"a","transcript":"Turn on."}`, []asr.Result{final(at, "Turn on.")}, false, ""},
		{`{"type":"error","error":{"type":"invalid_request_error","code":"input_audio_buffer_commit_empty","message":"m"}}`, nil, true, ""},
		{`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_model","message":"no such model"}}`, nil, false, "the service says invalid_model: no such model"},
		{`{"type":"conversation.item.input_audio_transcription.failed","item_id":"a","error":{"message":"unintelligible"}}`, nil, false, "the service says unintelligible"},
	} {
		got, answered, err := e.read([]byte(test.in), at)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != test.err || answered != test.answered || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%d: %+v, %v, %q", i, got, answered, text)
		}
	}
	if len(e.open) != 0 {
		t.Errorf("left: %v", e.open)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add("data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\n", true, 200, 3)
	f.Add(`{"text":"a"}`, false, 200, 1)
	f.Add(`{"error":"a"}`, false, 400, 100)
	f.Fuzz(func(t *testing.T, text string, stream bool, status, cut int) {
		cut = min(max(cut, 0), len(text))
		d := decoder{status: status, stream: stream}
		one, err := d.push([]byte(text[:cut]), 1)
		if err == nil {
			var more []asr.Result
			more, err = d.push([]byte(text[cut:]), 1)
			one = append(one, more...)
		}
		whole := decoder{status: status, stream: stream}
		two, err2 := whole.push([]byte(text), 1)
		if !reflect.DeepEqual(one, two) || (err == nil) != (err2 == nil) {
			t.Errorf("cut at %d: %v, %v; whole: %v, %v", cut, one, err, two, err2)
		}
		if _, err := whole.end(2); err == nil {
			t.Error("an end without an error, not even io.EOF")
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add(`{"type":"conversation.item.input_audio_transcription.delta","item_id":"a","delta":"b"}`)
	f.Add(`{"type":"error","error":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e events
		for range 2 {
			if results, _, err := e.read([]byte(text), 1); err != nil && len(results) > 0 {
				t.Errorf("%v with %v", results, err)
			}
		}
	})
}

// A whole WAV of the form is what was said.
func TestWAV(t *testing.T) {
	if got := string(wav(audio.Frame{Rate: 8000, PCM: []int16{1, -2}})); got != "RIFF\x28\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x04\x00\x00\x00\x01\x00\xfe\xff" {
		t.Errorf("%q", got)
	}
}
