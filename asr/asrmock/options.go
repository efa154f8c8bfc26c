// Package asrmock is a server that speaks the wire protocols of speech
// recognizers, understands what it is told to understand, and answers after
// known times. What really happened it tells for each request (Truth).
//
// WebSockets and HTTP by their paths: /v1/listen and /v2/listen are Deepgram's,
// /v3/ws is AssemblyAI's, /v1/realtime and /v1/audio/transcriptions OpenAI's, /inference whisper.cpp's,
// /api-ws/v1/inference DashScope's; any other path is FunASR's if the client
// asks for the subprotocol "binary", and Vosk's if not. Wyoming is a server of
// its own.
package asrmock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"firstsound/clocks/random"
)

// Options say how the mock answers. Start from [Defaults].
type Options struct {
	Seed uint64 `yaml:"seed"`

	// Texts are what is understood, in turn, where Lookup does not know better.
	Texts []string `yaml:"texts"`

	// Lookup says what is said and when, from the beginning of it. Nil, or where
	// it does not know: one of Texts, between the first and the last frame above
	// -45 dBFS, at 2.5 words a second while it lasts.
	Lookup Lookup `yaml:"-"`

	FirstPartial random.Dist   `yaml:"first_partial"` // speech to be heard before the first partial
	Interim      random.Dist   `yaml:"interim"`       // from a word as heard to the partial with it
	Final        random.Dist   `yaml:"final"`         // from the end of the speech as heard to the final, where the service finds it itself
	Finalize     random.Dist   `yaml:"finalize"`      // from the client's wish for the final, or the end of its request, to the final
	Silence      time.Duration `yaml:"silence"`       // after which speech that Lookup does not know is over

	// KeepSilent says that the service does not find the end of the speech by
	// itself, as with server VAD off.
	KeepSilent bool `yaml:"keep_silent"`

	FunASR        string `yaml:"funasr"`         // whose quirks: cpp, py-old, py-new
	WyomingChunks bool   `yaml:"wyoming_chunks"` // Wyoming streams the transcript

	Keys   []string `yaml:"-"`      // that are accepted; nil: any and none
	Faults []string `yaml:"faults"` // see FaultHelp

	MaxAudio time.Duration `yaml:"max_audio"` // of a connection

	// Epoch is what the wall clock showed when the run's clock was at 0.
	Epoch time.Time `yaml:"-"`

	// Truth is told of each connection, or HTTP request, when it has ended, by
	// several goroutines at once. Nil: nobody listens.
	Truth func(Truth) `yaml:"-"`
}

// Defaults are a hosted streaming recognizer, with the times of asrsim.Defaults.
func Defaults() Options {
	return Options{
		Texts:        []string{"please tell me when you are open today"},
		FirstPartial: random.MustParse("lognormal(450ms, 0.25)"),
		Interim:      random.MustParse("lognormal(150ms, 0.2)"),
		Final:        random.MustParse("lognormal(247ms, 0.114)"),
		Finalize:     random.MustParse("lognormal(100ms, 0.2)"),
		Silence:      500 * time.Millisecond,
		FunASR:       "cpp",
		MaxAudio:     10 * time.Minute,
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if len(o.Texts) == 0 && o.Lookup == nil {
		return errors.New("texts: there is none")
	}
	if o.FunASR != "cpp" && o.FunASR != "py-old" && o.FunASR != "py-new" {
		return fmt.Errorf("funasr: %q; it is cpp, py-old or py-new", o.FunASR)
	}
	if o.MaxAudio <= 0 {
		return fmt.Errorf("max_audio: %v; it is above 0", o.MaxAudio)
	}
	_, err := parseFaults(o.Faults)
	return cmp.Or(err, random.NotNegative("silence", o.Silence))
}

// Decode lays YAML over the options.
func (o *Options) Decode(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(o); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
