// Package piper speaks through Piper's own HTTP server (python -m
// piper.http_server, of OHF-Voice/piper1-gpl). Each piece of text is a request of its
// own, after the sound of the piece before has come.
//
// The server answers with a whole WAV once the piece has been synthesized: its first
// byte comes with the last one. Piper by Home Assistant's protocol is package
// wyoming, which sends sound as it is made.
package piper

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"

	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live"
)

// DefaultURL is where the server listens when nothing else is said. A path is added
// to one that has none.
const DefaultURL = "http://127.0.0.1:5000"

// Options are how the server is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Voice       string  `yaml:"voice"`        // where the request names none; empty: the one that it was started with
	Speaker     string  `yaml:"speaker"`      // of a voice with several; empty: the first
	LengthScale float64 `yaml:"length_scale"` // above 1 is slower; 0: the voice's own

	Extra map[string]any `yaml:"extra"` // more fields of the request; they win
}

// Defaults are the voice that the server was started with.
func Defaults() Options { return Options{} }

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if !(o.LengthScale >= 0) {
		return fmt.Errorf("length_scale: %v is no scale", o.LengthScale)
	}
	return o.CheckURL("http", "https")
}

// usualRate is that of the medium and high voices. The WAV has its own.
const usualRate = 22050

// A Synthesizer asks the server. It may be used by several turns at once.
type Synthesizer struct {
	clock  clocks.Clock
	o      Options
	caller *live.Caller
}

// New returns a Synthesizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: piper: %w", err)
	}
	u, err := live.Address(cmp.Or(o.URL, DefaultURL), live.HTTP, "/synthesize")
	if err != nil {
		return nil, fmt.Errorf("tts: piper: %w", err)
	}
	o.URL = u.String()
	return &Synthesizer{clock, o, live.NewCaller(clock, o.Options)}, nil
}

// Close closes all connections.
func (s *Synthesizer) Close() { s.caller.Close() }

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "piper", Key: s.o.Key, Say: func(ctx context.Context, n int, text string, tell live.Teller) error {
		return s.caller.Say(ctx, s.post(req, n, text), tell)
	}})
}

// post returns the request for piece n.
func (s *Synthesizer) post(req tts.Request, n int, text string) live.Post {
	body := map[string]any{"text": text}
	if voice := cmp.Or(req.Voice, s.o.Voice); voice != "" {
		body["voice"] = voice
	}
	if s.o.Speaker != "" {
		body["speaker"] = s.o.Speaker
	}
	if s.o.LengthScale != 0 {
		body["length_scale"] = s.o.LengthScale
	}
	maps.Copy(body, s.o.Extra)
	h := http.Header{}
	if id := live.PieceID(req, n); id != "" {
		h.Set("X-Request-Id", id)
	}
	if s.o.Key != "" { // Piper has none; what stands before it may
		h.Set("Authorization", "Bearer "+s.o.Key)
	}
	return live.Post{URL: s.o.URL, Header: h, Body: body, Encoding: live.WAV, Rate: usualRate}
}
