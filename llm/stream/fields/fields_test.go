package fields_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"

	"firstsound/llm/stream/fields"
)

// build makes what encoding/json makes of a value, with a Reader.
func build(r *fields.Reader) any {
	switch r.Next() {
	case '{':
		m := map[string]any{}
		r.Object()
		for key, ok := r.Member(); ok; key, ok = r.Member() {
			var name string
			json.Unmarshal([]byte(`"`+string(key)+`"`), &name)
			m[name] = build(r)
		}
		return m
	case '[':
		list := []any{}
		r.Array()
		for r.Item() {
			list = append(list, build(r))
		}
		return list
	case '"':
		s, _ := r.Str()
		return s
	case 'n':
		r.Skip()
		return nil
	case 't', 'f':
		return string(r.Raw()) == "true"
	}
	x, _ := strconv.ParseFloat(string(r.Raw()), 64)
	return x
}

var texts = []string{
	`{}`, `[]`, `null`, ` {"a" : [1, -2.5e3, true,false,null], "b":{"c":"d"}} `, `{"a":"q\"uo\\te\n中\u4e2d\ud83d\udc4d"}`,
	`"x"`, `{"":"","a":{},"b":[],"c":[[[]]]}`, "{\"a\":\"\xff\"}", `{"a":"]}\"]}"}`,
}

func TestAgainstJSON(t *testing.T) {
	for _, text := range texts {
		same(t, text)
	}
}

func same(t *testing.T, text string) {
	r := fields.Of([]byte(text))
	got := build(&r)
	var want any
	if json.Unmarshal([]byte(text), &want) != nil {
		return
	}
	if err := r.End(); err != nil {
		t.Errorf("%q: %v", text, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got %#v, want %#v", text, got, want)
	}
	r = fields.Of([]byte(text))
	r.Skip()
	if err := r.End(); err != nil {
		t.Errorf("%q: skipped: %v", text, err)
	}
}

// What is no JSON for the reasons that a stream has is an error.
func TestNotJSON(t *testing.T) {
	for _, text := range []string{``, ` `, `{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"b`, `{"a":"b\`, `{"a" 1}`, `{1:2}`, `{}x`, `{"a":1}}`, `{"a":,}`, `[1,]`, `{"a":[1}`} {
		r := fields.Of([]byte(text))
		build(&r)
		if r.End() == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestKinds(t *testing.T) {
	r := fields.Of([]byte(`{"i":12,"s":3,"n":null,"v":"fp_1","w":"fp_2","o":7}`))
	r.Object()
	r.Member()
	if n, ok := r.Int(); n != 12 || !ok {
		t.Errorf("Int: %d, %v", n, ok)
	}
	r.Member()
	if s, ok := r.Str(); s != "" || ok {
		t.Errorf("Str of a number: %q, %v", s, ok)
	}
	r.Member()
	if r.Object() || r.Next() != ',' {
		t.Error("an object of null")
	}
	r.Member()
	if v := r.Same("fp_1"); v != "fp_1" {
		t.Errorf("Same: %q", v)
	}
	r.Member()
	if v := r.Same("fp_1"); v != "fp_2" {
		t.Errorf("Same of another: %q", v)
	}
	r.Member()
	if v := r.Same("fp_1"); v != "fp_1" {
		t.Errorf("Same of a number: %q", v)
	}
	if _, ok := r.Member(); ok || r.End() != nil {
		t.Error("it does not end")
	}
}

func FuzzFields(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		same(t, text)
	})
}
