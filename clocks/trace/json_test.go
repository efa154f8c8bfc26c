package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

var full = Event{
	At: 1_234_567_890, ID: ID{3, 7}, Seq: 12, Mark: VADStop, Causes: []Ref{4, 11}, Stage: StageVAD,
	Setting: "vad.hangover=300ms", Attempt: 2,
	Attrs: []Attr{{Key: "text", Text: "“你好”\n\"x\"\\ \x01"}, {Key: "n", Int: -5}, {Key: "zero"}},
}

const fullLine = `{"t_ns":1234567890,"session":3,"turn":7,"seq":12,"mark":"vad_stop","cause":[4,11],"stage":"vad",` +
	`"setting":"vad.hangover=300ms","attempt":2,"attrs":{"text":"“你好”\n\"x\"\\ \u0001","n":-5,"zero":0}}`

func TestAppendJSON(t *testing.T) {
	tests := []struct {
		event Event
		want  string
	}{
		{full, fullLine},
		{Event{Mark: SpeechEnd}, `{"t_ns":0,"session":0,"turn":0,"mark":"speech_end"}`},
		{Event{Mark: "a\xffb"}, `{"t_ns":0,"session":0,"turn":0,"mark":"a` + "\uFFFD" + `b"}`},
	}
	for _, test := range tests {
		got := string(AppendJSON(nil, &test.event))
		if got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is not JSON", got)
		}
	}
}

func TestDecoder(t *testing.T) {
	in := fullLine + "\n\n" + ` { "mark" : "x" , "turn":1,"session":2,"t_ns":-3 } ` + "\r\n"
	d := NewDecoder(strings.NewReader(in))
	var e Event
	if err := d.Next(&e); err != nil || !reflect.DeepEqual(e, full) {
		t.Errorf("got %+v, %v", e, err)
	}
	want := Event{At: -3, ID: ID{2, 1}, Mark: "x"}
	if err := d.Next(&e); err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("got %+v, %v", e, err)
	}
	if d.Line() != 3 {
		t.Errorf("line %d, want 3", d.Line())
	}
	if err := d.Next(&e); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
}

func TestDecoderRefuses(t *testing.T) {
	const head = `{"t_ns":1,"session":1,"turn":1,"mark":"m"`
	tests := []struct{ line, want string }{
		{head + `,"tns":2}`, `unknown key "tns"`},
		{head + `,"mark":"n"}`, `the key "mark" comes twice`},
		{head + `,"attrs":{"a":1,"a":2}}`, `the attribute "a" comes twice`},
		{head + `,"attrs":{"a":1.5}}`, "without a fraction"},
		{head + `,"attrs":{"a":null}}`, "want a whole number"},
		{head + `,"seq":0}`, "numbered from 1"},
		{head + `,"cause":[1,,2]}`, "want a whole number"},
		{head + `,"attempt":-1}`, "not from 0"},
		{head + `,"stage":"a}`, "the string does not end"},
		{head + `,"stage":"\ud800"}`, "half of a surrogate pair"},
		{head + ",\"stage\":\"\xff\"}", "not UTF-8"},
		{head + ",\"stage\":\"\xff\\n\"}", "not UTF-8"},
		{head + `} x`, "more after the event"},
		{`{"t_ns":1,"session":1,"turn":1}`, "an event needs"},
		{`{"t_ns":01,"session":1,"turn":1,"mark":"m"}`, "does not begin with 0"},
		{`{"t_ns":9223372036854775808,"session":1,"turn":1,"mark":"m"}`, "does not fit"},
		{`[]`, `want '{'`},
		{strings.Repeat(" ", MaxLine+1) + head + "}", "longer than"},
	}
	for _, test := range tests {
		d := NewDecoder(strings.NewReader("\n" + test.line + "\n" + head + "}\n"))
		var e Event
		err := d.Next(&e)
		var bad *SyntaxError
		if !errors.As(err, &bad) || bad.Line != 2 || !strings.Contains(bad.Text, test.want) {
			t.Errorf("%.60s: got %v, want line 2 and %q", test.line, err, test.want)
		}
		if err := d.Next(&e); err != nil {
			t.Errorf("%.60s: the next line: %v", test.line, err)
		}
	}
}

func TestDecoderTruncated(t *testing.T) {
	for n := 1; n < len(fullLine); n++ {
		d := NewDecoder(strings.NewReader(fullLine + "\n" + fullLine[:n]))
		var e Event
		if err := d.Next(&e); err != nil {
			t.Fatal(err)
		}
		if err := d.Next(&e); err != ErrTruncated {
			t.Fatalf("cut at %d: got %v", n, err)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte(fullLine + "\n"))
	f.Add([]byte(`{"t_ns":-0,"session":1,"turn":1,"mark":"\ud83d\ude00","attrs":{"":""}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := NewDecoder(bytes.NewReader(data))
		for {
			var e, again Event
			err := d.Next(&e)
			var bad *SyntaxError
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				return
			}
			line := append(AppendJSON(nil, &e), '\n')
			if len(line) > MaxLine {
				return
			}
			if err := NewDecoder(bytes.NewReader(line)).Next(&again); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if !reflect.DeepEqual(e, again) {
				t.Fatalf("%s\nwas  %+v\nis now %+v", line, e, again)
			}
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	e := Event{At: 1_234_567_890, ID: ID{3, 7}, Seq: 12, Mark: VADStop, Causes: []Ref{11}, Stage: StageVAD}
	buf := AppendJSON(nil, &e)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendJSON(buf[:0], &e)
	}
}

func BenchmarkDecoder(b *testing.B) {
	e := Event{At: 1_234_567_890, ID: ID{3, 7}, Seq: 12, Mark: VADStop, Causes: []Ref{11}, Stage: StageVAD}
	lines := bytes.Repeat(append(AppendJSON(nil, &e), '\n'), 1000)
	r := bytes.NewReader(lines)
	d := NewDecoder(r)
	b.SetBytes(int64(len(lines) / 1000))
	b.ReportAllocs()
	for b.Loop() {
		err := d.Next(&e)
		if err == io.EOF {
			r.Reset(lines)
			d = NewDecoder(r)
		} else if err != nil {
			b.Fatal(err)
		}
	}
}
