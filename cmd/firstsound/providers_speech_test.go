package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firstsound/clocks"
	"firstsound/pipeline/scenario"
)

// Every option of a real recognizer or synthesizer says what it means, and every
// text is that of an option.
func TestSpeechOptionsExplained(t *testing.T) {
	used := map[string]bool{}
	for _, p := range registry() {
		if !p.real() {
			continue
		}
		for _, o := range scenario.Options(p.options) {
			if p.comment(o.Key) == "" {
				t.Errorf("%s.%s: nothing is said about %s", p.stage, p.name, o.Key)
			}
			used[p.stage+"."+o.Key], used[p.stage+"."+p.name+"."+o.Key] = true, true
		}
	}
	for key := range speechKeys {
		if !used[key] {
			t.Errorf("there is no option %s", key)
		}
	}
	if len(used) < 60 {
		t.Errorf("%d options only", len(used))
	}
}

// makeSpeech returns the error of a provider with settings, on the real clock.
func makeSpeech(t *testing.T, getenv func(string) string, clock clocks.Clock, settings ...string) error {
	t.Helper()
	s, err := scenario.LoadFile("", settings...)
	if err != nil {
		return err
	}
	var ends []func()
	e := env{clock: clock, getenv: getenv, atEnd: func(f func()) { ends = append(ends, f) }}
	if s.ASR.Provider != "sim" {
		_, err = recognizers.make(e, s.ASR.Block)
	} else {
		_, err = synthesizers.make(e, s.TTS.Block)
	}
	for _, f := range ends {
		f()
	}
	return err
}

func TestSpeechProviders(t *testing.T) {
	key := func(name string) string {
		if strings.HasSuffix(name, "_API_KEY") || name == "MINE" {
			return "k"
		}
		return ""
	}
	none := func(string) string { return "" }
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "no.pem"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range registry() {
		if p.needs.url == "" {
			continue
		}
		set := p.stage + ".provider=" + p.name
		if err := makeSpeech(t, key, clocks.NewReal(), set); err != nil {
			t.Errorf("%s: %v", set, err)
		}
		if err := makeSpeech(t, key, clocks.NewVirtual(), set); err == nil || !strings.Contains(err.Error(), "clock: real") {
			t.Errorf("%s on a virtual clock: %v", set, err)
		}
		err := makeSpeech(t, none, clocks.NewReal(), set)
		if needs := p.needs.key != ""; needs != (err != nil) || needs && !strings.Contains(err.Error(), p.needs.key) {
			t.Errorf("%s without a key: %v", set, err)
		}
	}
	for _, test := range []struct {
		settings []string
		want     string // in the error; empty: none
	}{
		{[]string{"asr.provider=deepgram", "asr.url=ws://127.0.0.1:1", "asr.extra={mip_opt_out: true}"}, ""},
		{[]string{"asr.provider=deepgram", "asr.key_env=MINE", "asr.endpointing=300"}, ""},
		{[]string{"asr.provider=deepgram", "asr.key_env=NOT_THERE"}, "there is nothing in the environment variable NOT_THERE"},
		{[]string{"asr.provider=deepgram", "asr.endpointin=300"}, "did you mean endpointing?"},
		{[]string{"asr.provider=deepgram", "asr.url=http://127.0.0.1"}, "it begins with \"http://\""},
		{[]string{"asr.provider=deepgram", "asr.api=v3"}, `"v3"; it is v1`},
		{[]string{"asr.provider=deepgram", "asr.ca_file=" + filepath.Join(dir, "no.pem")}, "there is no certificate (PEM)"},
		{[]string{"asr.provider=deepgram", "asr.ca_file=" + filepath.Join(dir, "none")}, "no such file"},
		{[]string{"asr.provider=dashscope", "asr.parameters={vocabulary_id: v, disfluency_removal_enabled: true, heartbeat: 3, x: [1, 0.5, {a: b}]}"}, ""},
		{[]string{"asr.provider=dashscope", "asr.parameters=[1]"}, "a group of keys is needed here"},
		{[]string{"asr.provider=funasr", "asr.chunk_size=[8, 8, 4]", "asr.hotwords='{\"x\":20}'"}, ""},
		{[]string{"asr.provider=vosk", "asr.phrase_list=[yes, no]"}, ""},
		{[]string{"tts.provider=cartesia", "tts.extra={generation_config: {speed: 1.2}}", "tts.keep_alive=0s"}, ""},
		{[]string{"tts.provider=elevenlabs", "tts.voice_settings={stability: 0.5}"}, ""},
		{[]string{"tts.provider=cosyvoice", "tts.rate=9"}, "tts.rate"},
		{[]string{"tts.provider=flite", "tts.voice=nobody"}, "tts.voice"},
		{[]string{"asr.provider=pocketsphinx", "asr.model=/nowhere"}, "pocketsphinx"},
	} {
		err := makeSpeech(t, key, clocks.NewReal(), test.settings...)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v, want %q", test.settings, err, test.want)
		}
	}
}

// A key with a space in it is none, and is not repeated.
func TestSpeechKeyHidden(t *testing.T) {
	err := makeSpeech(t, func(string) string { return "sk-secret and more" }, clocks.NewReal(), "asr.provider=deepgram")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// The scenario of a whole real chain is one, and init writes it.
func TestLocalChain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "chain.yaml")
	must(t, "init", "--local", name)
	s, err := scenario.LoadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if s.Clock != scenario.Real || s.ASR.Provider != "pocketsphinx" || s.TTS.Provider != "flite" || s.LLM.Provider != "openai" {
		t.Errorf("%v, %s, %s, %s", s.Clock, s.ASR.Provider, s.LLM.Provider, s.TTS.Provider)
	}
	if text := must(t, "init", "--local", "-"); text != localChainYAML {
		t.Errorf("init --local - prints %q", text)
	}
}
