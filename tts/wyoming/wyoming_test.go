package wyoming

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

func TestReadEvent(t *testing.T) {
	for name, test := range map[string]struct {
		text, kind, payload, fail string
		rate                      int
	}{
		"data inside":     {text: `{"type":"audio-start","data":{"rate":22050,"width":2,"channels":1}}` + "\n", kind: "audio-start", rate: 22050},
		"data apart":      {text: `{"type":"audio-chunk","version":"1.8.0","data_length":14,"payload_length":4}` + "\n" + `{"rate":16000}abcd`, kind: "audio-chunk", rate: 16000, payload: "abcd"},
		"nothing":         {fail: "EOF"},
		"cut in data":     {text: `{"type":"x","data_length":14}` + "\n{", fail: "middle"},
		"cut in payload":  {text: `{"type":"x","payload_length":4}` + "\nab", fail: "middle"},
		"no JSON":         {text: "hello\n", fail: "no JSON"},
		"data is no JSON": {text: `{"type":"x","data_length":2}` + "\n{{", fail: "no JSON"},
		"too long":        {text: `{"type":"x","payload_length":1000000000}` + "\n", fail: "too many"},
		"negative":        {text: `{"type":"x","data_length":-1}` + "\n", fail: "too many"},
		"an endless line": {text: strings.Repeat("x", maxLine+100), fail: "more than"},
	} {
		e, err := readEvent(bufio.NewReader(strings.NewReader(test.text)))
		if (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (e.Type != test.kind || e.Data.Rate != test.rate || string(e.payload) != test.payload) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func FuzzReadEvent(f *testing.F) {
	f.Add([]byte(`{"type":"audio-chunk","data_length":14,"payload_length":4}` + "\n" + `{"rate":16000}abcd`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(strings.NewReader(string(data)))
		for {
			e, err := readEvent(r)
			if err != nil {
				if err == io.EOF && r.Buffered() > 0 {
					t.Error("an end before the end")
				}
				return
			}
			if len(e.payload) > len(data) {
				t.Errorf("a payload of %d bytes in %d", len(e.payload), len(data))
			}
			if d, err := e.decoder(); err == nil {
				d.Close()
			}
		}
	})
}

func TestCheck(t *testing.T) {
	o := Defaults()
	if err := o.Check(); err != nil {
		t.Error(err)
	}
	if o.URL = "http://x"; o.Check() == nil {
		t.Error("http is accepted")
	}
}
