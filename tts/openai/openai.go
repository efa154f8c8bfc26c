// Package openai speaks through OpenAI's audio/speech and the servers that follow
// it, Kokoro-FastAPI among them. Each piece of text is a request of its own, after
// the sound of the piece before has come.
//
// The first sound is the first bytes of the body; of a WAV, those after its
// header. OpenAI's pcm has no header and is 24 kHz (its documentation).
// With stream_format sse the sound comes in events. A server that does not know
// that setting sends it as it is, which the Content-Type tells.
package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"strings"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Env is the environment variable in which users keep their key.
const Env = "OPENAI_API_KEY"

// DefaultURL is OpenAI's own address. /audio/speech is added to one that does not
// end with it.
const DefaultURL = "https://api.openai.com/v1"

// Options are how the service is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Model          string  `yaml:"model"`
	Voice          string  `yaml:"voice"`           // where the request names none
	ResponseFormat string  `yaml:"response_format"` // pcm, wav, mp3 or opus
	StreamFormat   string  `yaml:"stream_format"`   // audio or sse; empty: not sent
	Speed          float64 `yaml:"speed"`           // 0: not sent
	Instructions   string  `yaml:"instructions"`
	SampleRate     int     `yaml:"sample_rate"` // of pcm, as the service makes it; it is not sent

	Extra map[string]any `yaml:"extra"` // more fields of the request; they win
}

// Defaults ask gpt-4o-mini-tts for pcm, as Pipecat does.
func Defaults() Options {
	return Options{Model: "gpt-4o-mini-tts", Voice: "alloy", ResponseFormat: "pcm", SampleRate: 24000}
}

var encodings = map[string]string{"pcm": live.S16, "wav": live.WAV, "mp3": live.MP3, "opus": live.Opus}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if encodings[o.ResponseFormat] == "" {
		return fmt.Errorf("response_format: %q; it is pcm, wav, mp3 or opus", o.ResponseFormat)
	}
	if o.StreamFormat != "" && o.StreamFormat != "audio" && o.StreamFormat != "sse" {
		return fmt.Errorf("stream_format: %q; it is audio or sse", o.StreamFormat)
	}
	if !(o.Speed >= 0) {
		return fmt.Errorf("speed: %v is no speed", o.Speed)
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	return o.CheckURL("http", "https")
}

// A Synthesizer asks the service. It may be used by several turns at once.
type Synthesizer struct {
	clock  clocks.Clock
	o      Options
	caller *live.Caller
}

// New returns a Synthesizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: openai: %w", err)
	}
	o.URL = strings.TrimRight(cmp.Or(o.URL, DefaultURL), "/")
	if !strings.HasSuffix(o.URL, "/audio/speech") {
		o.URL += "/audio/speech"
	}
	return &Synthesizer{clock, o, live.NewCaller(clock, o.Options)}, nil
}

// Close closes all connections.
func (s *Synthesizer) Close() { s.caller.Close() }

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "openai", Key: s.o.Key, Say: func(ctx context.Context, n int, text string, tell live.Teller) error {
		return s.caller.Say(ctx, s.post(req, n, text), tell)
	}})
}

// post returns the request for piece n.
func (s *Synthesizer) post(req tts.Request, n int, text string) live.Post {
	o := s.o
	body := map[string]any{"model": o.Model, "input": text, "voice": cmp.Or(req.Voice, o.Voice), "response_format": o.ResponseFormat}
	if o.StreamFormat != "" {
		body["stream_format"] = o.StreamFormat
	}
	if o.Speed != 0 {
		body["speed"] = o.Speed
	}
	if o.Instructions != "" {
		body["instructions"] = o.Instructions
	}
	maps.Copy(body, o.Extra)
	h := http.Header{}
	if o.Key != "" {
		h.Set("Authorization", "Bearer "+o.Key)
	}
	if req.RequestID != "" {
		id := fmt.Sprintf("%s-%d", req.RequestID, n)
		h.Set("X-Request-Id", id)
		h.Set("X-Client-Request-Id", id)
	}
	return live.Post{URL: o.URL, Header: h, Body: body, Encoding: encodings[o.ResponseFormat], Rate: o.SampleRate,
		Events: func() live.Events { return events{} }}
}

// events are those of stream_format sse.
type events struct{}

// Event implements live.Events. The sound is in audio; some servers call it delta.
func (events) Event(_ string, data []byte) (sound []byte, last bool, err error) {
	if string(data) == "[DONE]" {
		return nil, true, nil
	}
	var e struct {
		Type  string          `json:"type"`
		Audio string          `json:"audio"`
		Delta string          `json:"delta"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, false, failure.JSON("an event", data, err)
	}
	switch {
	case e.Type == "error" || len(e.Error) > 0 && string(e.Error) != "null":
		return nil, false, errors.New(live.Words(data))
	case e.Type == "speech.audio.done":
		return nil, true, nil
	case e.Type == "speech.audio.delta":
		sound, err = base64.StdEncoding.DecodeString(cmp.Or(e.Audio, e.Delta))
		if err != nil {
			err = fmt.Errorf("the sound of an event is no base64: %w", err)
		}
	}
	return sound, false, err
}
