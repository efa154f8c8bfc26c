package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"firstsound/asr"
	"firstsound/asr/assemblyai"
	asrdashscope "firstsound/asr/dashscope"
	asrdeepgram "firstsound/asr/deepgram"
	"firstsound/asr/funasr"
	asrlive "firstsound/asr/live"
	asropenai "firstsound/asr/openai"
	"firstsound/asr/pocketsphinx"
	"firstsound/asr/vosk"
	asrwyoming "firstsound/asr/wyoming"
	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/cartesia"
	"firstsound/tts/cosyvoice"
	ttsdeepgram "firstsound/tts/deepgram"
	"firstsound/tts/elevenlabs"
	"firstsound/tts/espeak"
	"firstsound/tts/flite"
	ttslive "firstsound/tts/live"
	ttsopenai "firstsound/tts/openai"
	"firstsound/tts/piper"
	ttswyoming "firstsound/tts/wyoming"
)

// needs are what a real provider cannot do without.
type needs struct {
	key      string   // the environment variable with the service's key; empty: it has none
	url      string   // the service's own address; empty: it runs here
	packages []string // of Debian
}

// hosted are the options of a service: its own, and how it is reached.
type hosted[O any] struct {
	Service O      `yaml:",inline"`
	KeyEnv  string `yaml:"key_env" about:"The environment variable with the key. Empty: the service's usual one, where it is set."`
	CAFile  string `yaml:"ca_file" about:"Certificate of an authority of your own (PEM)."`
}

// Check says what is wrong with the service's own options.
func (h *hosted[O]) Check() error {
	if c, ok := any(h.Service).(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// liveRecognizers are the real ones.
func liveRecognizers() table[asr.Recognizer] {
	deepgram, openai := needs{key: asrdeepgram.Env, url: asrdeepgram.DefaultURL}, needs{key: asropenai.Env, url: asropenai.DefaultURL}
	base := func(o *asrdeepgram.Options) *asrlive.Options { return &o.Options }
	openaiBase := func(o *asropenai.Options) *asrlive.Options { return &o.Options }
	return table[asr.Recognizer]{
		hears("deepgram", "Deepgram's live v1 (Nova)", deepgram, asrdeepgram.Defaults, base, asrdeepgram.New),
		hears("deepgram-flux", "Deepgram's v2 (Flux), which ends turns by itself", deepgram, asrdeepgram.Flux, base, asrdeepgram.New),
		hears("openai", "whole recordings by OpenAI's transcriptions: also Groq, whisper.cpp and others", openai, asropenai.Defaults, openaiBase, asropenai.New),
		hears("openai-realtime", "OpenAI's Realtime transcription", openai, asropenai.Realtime, openaiBase, asropenai.New),
		hears("assemblyai", "AssemblyAI's Universal-Streaming (v3)", needs{key: assemblyai.Env, url: assemblyai.DefaultURL}, assemblyai.Defaults,
			func(o *assemblyai.Options) *asrlive.Options { return &o.Options }, assemblyai.New),
		hears("funasr", "FunASR's server, 2pass", needs{url: funasr.DefaultURL}, funasr.Defaults,
			func(o *funasr.Options) *asrlive.Options { return &o.Options }, funasr.New),
		hears("dashscope", "Alibaba's DashScope: paraformer-realtime and fun-asr", needs{key: asrdashscope.Env, url: asrdashscope.DefaultURL}, asrdashscope.Defaults,
			func(o *asrdashscope.Options) *asrlive.Options { return &o.Options }, asrdashscope.New),
		hears("vosk", "vosk-server", needs{url: vosk.DefaultURL}, vosk.Defaults,
			func(o *vosk.Options) *asrlive.Options { return &o.Options }, vosk.New),
		hears("wyoming", "Home Assistant's Wyoming: faster-whisper and others", needs{url: asrwyoming.DefaultURL}, asrwyoming.Defaults,
			func(o *asrwyoming.Options) *asrlive.Options { return &o.Options }, asrwyoming.New),
		needing(needs{packages: []string{"libpocketsphinx3", "pocketsphinx-en-us"}},
			live("pocketsphinx", "CMU PocketSphinx on this computer; English", pocketsphinx.Defaults, func(e env, o pocketsphinx.Options) (asr.Recognizer, error) {
				r, err := pocketsphinx.New(e.clock, o)
				if err != nil {
					return nil, unnamed(err)
				}
				e.atEnd(r.Close)
				if err := r.Wait(context.Background()); err != nil {
					return nil, unnamed(err)
				}
				return e.paced(r), nil
			})),
	}
}

// hears is a recognizer that is a service.
func hears[O any, R asr.Recognizer](name, about string, n needs, defaults func() O, base func(*O) *asrlive.Options, open func(clocks.Clock, O) (R, error)) choice[asr.Recognizer] {
	all := func() hosted[O] { return hosted[O]{Service: defaults()} }
	return needing(n, live(name, about, all, func(e env, h hosted[O]) (asr.Recognizer, error) {
		o := base(&h.Service)
		var err error
		if o.Key, o.TLS, err = e.reach(n, o.URL, h.KeyEnv, h.CAFile); err != nil {
			return nil, err
		}
		o.Sent, o.Connected = e.sent, e.connected
		r, err := open(e.clock, h.Service)
		if err != nil {
			return nil, unnamed(err)
		}
		e.closeAtEnd(r)
		return e.paced(r), nil
	}))
}

// liveSynthesizers are the real ones.
func liveSynthesizers() table[tts.Synthesizer] {
	return table[tts.Synthesizer]{
		speaks("openai", "OpenAI's speech, Kokoro-FastAPI and others", needs{key: ttsopenai.Env, url: ttsopenai.DefaultURL}, ttsopenai.Defaults,
			func(o *ttsopenai.Options) *ttslive.Options { return &o.Options }, ttsopenai.New),
		speaks("elevenlabs", "ElevenLabs: stream, stream-input or multi-stream-input", needs{key: elevenlabs.Env, url: elevenlabs.DefaultURL}, elevenlabs.Defaults,
			func(o *elevenlabs.Options) *ttslive.Options { return &o.Options }, elevenlabs.New),
		speaks("cartesia", "Cartesia's WebSocket or bytes", needs{key: cartesia.Env, url: cartesia.DefaultURL}, cartesia.Defaults,
			func(o *cartesia.Options) *ttslive.Options { return &o.Options }, cartesia.New),
		speaks("deepgram", "Deepgram's Aura", needs{key: ttsdeepgram.Env, url: ttsdeepgram.DefaultURL}, ttsdeepgram.Defaults,
			func(o *ttsdeepgram.Options) *ttslive.Options { return &o.Options }, ttsdeepgram.New),
		speaks("cosyvoice", "CosyVoice by Alibaba's DashScope", needs{key: cosyvoice.Env, url: cosyvoice.DefaultURL}, cosyvoice.Defaults,
			func(o *cosyvoice.Options) *ttslive.Options { return &o.Options }, cosyvoice.New),
		speaks("piper", "Piper's HTTP server", needs{url: piper.DefaultURL}, piper.Defaults,
			func(o *piper.Options) *ttslive.Options { return &o.Options }, piper.New),
		speaks("wyoming", "Home Assistant's Wyoming: Piper and others", needs{url: ttswyoming.DefaultURL}, ttswyoming.Defaults,
			func(o *ttswyoming.Options) *ttslive.Options { return &o.Options }, ttswyoming.New),
		needing(needs{packages: []string{flite.Package}},
			live("flite", "Flite on this computer; English", flite.Defaults, func(e env, o flite.Options) (tts.Synthesizer, error) {
				s, err := flite.New(e.clock, o)
				return s, unnamed(err)
			})),
		needing(needs{packages: []string{espeak.Package}},
			live("espeak", "espeak-ng on this computer; English, Chinese and many more", espeak.Defaults, func(e env, o espeak.Options) (tts.Synthesizer, error) {
				s, err := espeak.New(e.clock, o)
				return s, unnamed(err)
			})),
	}
}

// speaks is a synthesizer that is a service.
func speaks[O any, S tts.Synthesizer](name, about string, n needs, defaults func() O, base func(*O) *ttslive.Options, open func(clocks.Clock, O) (S, error)) choice[tts.Synthesizer] {
	all := func() hosted[O] { return hosted[O]{Service: defaults()} }
	return needing(n, live(name, about, all, func(e env, h hosted[O]) (tts.Synthesizer, error) {
		o := base(&h.Service)
		var err error
		if o.Key, o.TLS, err = e.reach(n, o.URL, h.KeyEnv, h.CAFile); err != nil {
			return nil, err
		}
		s, err := open(e.clock, h.Service)
		if err != nil {
			return nil, unnamed(err)
		}
		e.closeAtEnd(s)
		return s, nil
	}))
}

// needing says what a provider needs.
func needing[T any](n needs, c choice[T]) choice[T] {
	c.needs = n
	return c
}

// unnamed takes the provider's name off an error: the scenario's place tells it.
func unnamed(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for range 2 { // asr: NAME:
		if _, rest, ok := strings.Cut(text, ": "); ok {
			text = rest
		}
	}
	return errors.New(text)
}

// closeAtEnd closes what is to be closed when the run is over.
func (e env) closeAtEnd(x any) {
	if c, ok := x.(interface{ Close() }); ok {
		e.atEnd(c.Close)
	}
}

// reach returns the key of a service and what its certificate is held against. A
// service at its own address needs a key.
func (e env) reach(n needs, url, keyEnv, caFile string) (key string, config *tls.Config, err error) {
	if name := keyEnv; name != "" {
		if key = strings.TrimSpace(e.getenv(name)); key == "" {
			return "", nil, fmt.Errorf("key_env: there is nothing in the environment variable %s", name)
		}
	} else if n.key != "" {
		if key = strings.TrimSpace(e.getenv(n.key)); key == "" && url == "" {
			return "", nil, fmt.Errorf("key_env: the service needs a key, and there is none in the environment variable %s", n.key)
		}
	}
	if strings.ContainsAny(key, " \r\n\t") {
		return "", nil, errors.New("key_env: the variable holds more than a key")
	}
	if caFile == "" {
		return key, nil, nil
	}
	roots, err := trusted(caFile)
	if err != nil {
		return "", nil, fmt.Errorf("ca_file: %w", err)
	}
	return key, &tls.Config{RootCAs: roots}, nil
}
