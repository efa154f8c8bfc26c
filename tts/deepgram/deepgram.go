// Package deepgram speaks with Deepgram's Aura, over a WebSocket (v1/speak, as its
// SDK 5.8 has it) or by a request over HTTP for each piece of text.
//
// Over the WebSocket each piece is followed by Flush, and its sound is over at
// Flushed. Deepgram allows 20 Flush a minute; beyond that it warns, which is an
// error here, because the piece would not be spoken. The connection is used again
// by the next answer.
package deepgram

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Env is the environment variable in which users keep their key.
const Env = "DEEPGRAM_API_KEY"

// DefaultURL is Deepgram's own address. /v1/speak is added to one without a path.
const DefaultURL = "wss://api.deepgram.com"

// Options are how Deepgram is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	API        string `yaml:"api"`         // websocket or http
	Model      string `yaml:"model"`       // a voice, such as aura-2-thalia-en, where the request names none
	Encoding   string `yaml:"encoding"`    // linear16, mulaw or alaw
	Container  string `yaml:"container"`   // of http: none or wav
	SampleRate int    `yaml:"sample_rate"` // 8000 for mulaw and alaw

	KeepAlive time.Duration     `yaml:"keep_alive"` // how long a connection is kept for the next answer; 0: not at all
	Extra     map[string]string `yaml:"extra"`      // more parameters of the query; they win
}

// Defaults are aura-2-andromeda-en over the WebSocket at 24 kHz, as LiveKit asks it.
func Defaults() Options {
	return Options{API: "websocket", Model: "aura-2-andromeda-en", Encoding: "linear16", Container: "none", SampleRate: 24000, KeepAlive: time.Minute}
}

var encodings = map[string]string{"linear16": live.S16, "mulaw": live.MuLaw, "alaw": live.ALaw}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.API != "websocket" && o.API != "http":
		return fmt.Errorf("api: %q; it is websocket or http", o.API)
	case o.Model == "":
		return errors.New("model: it is empty")
	case encodings[o.Encoding] == "":
		return fmt.Errorf("encoding: %q; it is linear16, mulaw or alaw", o.Encoding)
	case o.Container != "none" && o.Container != "wav":
		return fmt.Errorf("container: %q; it is none or wav", o.Container)
	case o.KeepAlive < 0:
		return fmt.Errorf("keep_alive: %v is negative", o.KeepAlive)
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	return o.CheckURL("ws", "wss", "http", "https")
}

// A Synthesizer asks Deepgram. It may be used by several turns at once: each has
// a connection of its own.
type Synthesizer struct {
	clock  clocks.Clock
	o      Options
	caller *live.Caller
	pools  *live.Pools
}

// New returns a Synthesizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: deepgram: %w", err)
	}
	return &Synthesizer{clock, o, live.NewCaller(clock, o.Options), live.NewPools(clock, o.KeepAlive)}, nil
}

// Close closes all connections that are not in use.
func (s *Synthesizer) Close() {
	s.caller.Close()
	s.pools.Close()
}

// address returns the URL for a voice.
func (s *Synthesizer) address(voice string) (string, error) {
	o := s.o
	schemes := live.WebSocket
	if o.API == "http" {
		schemes = live.HTTP
	}
	u, err := live.Address(cmp.Or(o.URL, DefaultURL), schemes, "/v1/speak")
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("model", voice)
	q.Set("encoding", o.Encoding)
	q.Set("sample_rate", strconv.Itoa(o.SampleRate))
	if o.API == "http" {
		q.Set("container", o.Container)
	}
	for key, value := range o.Extra {
		q.Set(key, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (s *Synthesizer) header(id string) http.Header {
	h := http.Header{}
	if s.o.Key != "" {
		h.Set("Authorization", "Token "+s.o.Key)
	}
	if id != "" {
		h.Set("X-Request-Id", id)
	}
	return h
}

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	voice := cmp.Or(req.Voice, s.o.Model)
	if s.o.API == "http" {
		return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "deepgram", Key: s.o.Key, Say: func(ctx context.Context, n int, text string, tell live.Teller) error {
			address, err := s.address(voice)
			if err != nil {
				return err
			}
			encoding := encodings[s.o.Encoding]
			if s.o.Container == "wav" {
				encoding = live.WAV
			}
			return s.caller.Say(ctx, live.Post{URL: address, Header: s.header(live.PieceID(req, n)), Body: map[string]any{"text": text}, Encoding: encoding, Rate: s.o.SampleRate}, tell)
		}})
	}
	return live.Stream(ctx, s.clock, "deepgram", s.o.Options, text, func(ctx context.Context) (live.Session, error) {
		address, err := s.address(voice)
		if err != nil {
			return nil, err
		}
		l, err := s.o.Link(ctx, s.clock, s.pools.Of(address), address, s.header(req.RequestID), encodings[s.o.Encoding], s.o.SampleRate)
		if err != nil {
			return nil, err
		}
		return session{l}, nil
	})
}

// A session is an answer over a connection.
type session struct{ live.Link }

// Say implements live.Session.
func (s session) Say(text string) error {
	if err := s.Send(map[string]any{"type": "Speak", "text": text}); err != nil {
		return err
	}
	return s.Send(map[string]any{"type": "Flush"})
}

// End implements live.Session. All is flushed.
func (s session) End() error { return nil }

// Next implements live.Session.
func (s session) Next(ctx context.Context) (h live.Heard, err error) {
	m, err := s.Conn.Next(ctx)
	if err != nil {
		return h, err
	}
	h.At = m.Arrived
	if m.Text {
		h.Pieces, err = read(m.Data)
		return h, err
	}
	return h, h.Push(s.Sound, m.Data)
}

// read returns how many pieces are over with a message.
func read(data []byte) (int, error) {
	var m struct {
		Type        string `json:"type"`
		Code        string `json:"code"`
		ErrCode     string `json:"err_code"`
		Description string `json:"description"`
		ErrMsg      string `json:"err_msg"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return 0, failure.JSON("a message", data, err)
	}
	switch m.Type {
	case "Flushed":
		return 1, nil
	case "Error", "Warning":
		return 0, fmt.Errorf("%s: %s", strings.ToLower(m.Type), live.Said(cmp.Or(m.Code, m.ErrCode), cmp.Or(m.Description, m.ErrMsg)))
	}
	return 0, nil
}
