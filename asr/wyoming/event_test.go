package wyoming

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// The bytes are those of the protocol's description: a line, data, payload.
func TestBytes(t *testing.T) {
	e := Event{Type: "audio-chunk", Data: []byte(`{"rate":16000,"width":2,"channels":1,"timestamp":0}`), Payload: []byte{1, 0, 2, 0}}
	b, err := e.Append(nil)
	const want = `{"type":"audio-chunk","version":"1.8.0","data_length":51,"payload_length":4}` + "\n" +
		`{"rate":16000,"width":2,"channels":1,"timestamp":0}` + "\x01\x00\x02\x00"
	if err != nil || string(b) != want {
		t.Errorf("%v\n%q\n%q", err, b, want)
	}
	for _, test := range []struct{ in, kind, data, payload string }{
		{want, "audio-chunk", string(e.Data), "\x01\x00\x02\x00"},
		{`{"type":"transcript","data":{"text":"hi"}}` + "\n", "transcript", `{"text":"hi"}`, ""},
		{`{"type":"transcript","data":{"text":"hi","n":1},"data_length":14}` + "\n" + `{"text":"you"}`, "transcript", `{"n":1,"text":"you"}`, ""},
	} {
		got, err := Read(bufio.NewReader(strings.NewReader(test.in)))
		if err != nil || got.Type != test.kind || string(got.Data) != test.data || string(got.Payload) != test.payload {
			t.Errorf("%q: %v, %q %q %q", test.in, err, got.Type, got.Data, got.Payload)
		}
	}
	for in, want := range map[string]string{
		"": "EOF", "{": "unexpected EOF", "nonsense\n": "no JSON", `{"data_length":-1}` + "\n": "bytes of data",
		`{"payload_length":99999999}` + "\n": "bytes of data", `{"type":"x","data_length":3}` + "\n[]": "unexpected EOF",
		`{"type":"x","data_length":2}` + "\n[]": "no JSON object",
	} {
		if _, err := Read(bufio.NewReader(strings.NewReader(in))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"type":"transcript","data":{"text":"hi"},"data_length":14}` + "\n" + `{"text":"you"}`)
	f.Add(`{"type":"audio-chunk","payload_length":2}` + "\n\x00\x01")
	f.Fuzz(func(t *testing.T, text string) {
		b := bufio.NewReader(strings.NewReader(text))
		s := &session{}
		for {
			e, err := Read(b)
			if err != nil {
				return
			}
			results, err := s.results(e, 0)
			if err != nil && err != io.EOF {
				return
			}
			if len(results) > 0 && e.Type != "transcript" && e.Type != "transcript-chunk" {
				t.Errorf("%q says something", e.Type)
			}
			again, err := e.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			same, err := Read(bufio.NewReader(strings.NewReader(string(again))))
			if err != nil || same.Type != e.Type || string(same.Payload) != string(e.Payload) {
				t.Errorf("%v, written and read: %+v %+v", err, e, same)
			}
		}
	})
}
