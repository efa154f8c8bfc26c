package scenario

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type Reached struct {
	URL  string        `yaml:"url"`
	Wait time.Duration `yaml:"wait"`
	Key  string        `yaml:"-"`
	Hook func()        `yaml:"-"`
}

type outer struct {
	Own struct {
		Reached `yaml:",inline"`
		Model   string         `yaml:"model"`
		Extra   map[string]any `yaml:"extra"`
	} `yaml:",inline"`
	CAFile string `yaml:"ca_file"`
}

// Options in structs that are inline, embedded or not, are options of the block;
// those of the type any are what YAML takes them for.
func TestInlineOptions(t *testing.T) {
	s, err := LoadFile("", "asr.provider=x", "asr.url=ws://here", "asr.wait=3s", "asr.ca_file=ca.pem",
		`asr.extra={text: "12", flag: true, whole: 7, part: 0.5, list: [1, a], group: {deep: -1}}`)
	if err != nil {
		t.Fatal(err)
	}
	var o outer
	o.Own.Model = "usual"
	if err := s.ASR.Decode(&o); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"text": "12", "flag": true, "whole": 7, "part": 0.5, "list": []any{1, "a"}, "group": map[string]any{"deep": -1}}
	if o.Own.URL != "ws://here" || o.Own.Wait != 3*time.Second || o.Own.Model != "usual" || o.CAFile != "ca.pem" || !reflect.DeepEqual(o.Own.Extra, want) {
		t.Errorf("%+v", o)
	}
	// The scenario as it is written then has all of it, and reads the same.
	again, err := Load("again", []byte(s.YAML()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, s.YAML())
	}
	var second outer
	if err := again.ASR.Decode(&second); err != nil || !reflect.DeepEqual(o, second) {
		t.Errorf("%v: %+v, and before %+v", err, second, o)
	}
	for set, want := range map[string]string{
		"asr.urll=x":         "did you mean url?",
		"asr.extra={a: }":    "has no value",
		"asr.extra=[1]":      "a group of keys is needed here",
		"asr.Own=1":          "no such key",
		"asr.key=secret":     "no such key",
		"asr.wait=soon":      "is not a duration",
		"asr.extra={a: [~]}": "has no value",
	} {
		s, err := LoadFile("", "asr.provider=x", set)
		if err == nil {
			err = s.ASR.Decode(&o)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
}

// An error about an option that nobody has written is about the block.
func TestErrorOfDefault(t *testing.T) {
	s, err := LoadFile("", "asr.provider=x")
	if err != nil {
		t.Fatal(err)
	}
	var o outer
	if err := s.ASR.Decode(&o); err != nil {
		t.Fatal(err)
	}
	if err := s.ASR.Errorf("ca_file", "it is missing"); strings.HasPrefix(err.Error(), ":") || !strings.Contains(err.Error(), "it is missing") {
		t.Errorf("%v", err)
	}
}
