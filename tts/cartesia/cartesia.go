// Package cartesia speaks with Cartesia's Sonic, over its WebSocket or by a request
// over HTTP (tts/bytes) for each piece of text.
//
// Over the WebSocket an answer is a context. Each piece is followed by a manual
// flush (docs.cartesia.ai, "Context flushing and flush IDs"), and its sound is over
// at flush_done. The context is named after the request, and the connection is
// used again by the next answer. The step_time of a chunk, the service's own time
// for making it, has no place in tts.Chunk and is dropped.
package cartesia

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
	"sync/atomic"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Env is the environment variable in which users keep their key.
const Env = "CARTESIA_API_KEY"

// DefaultURL is Cartesia's own address. /tts/websocket or /tts/bytes is added to
// one without a path.
const DefaultURL = "wss://api.cartesia.ai"

// Options are how Cartesia is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	API              string `yaml:"api"` // websocket or bytes
	Version          string `yaml:"cartesia_version"`
	Model            string `yaml:"model_id"`
	Voice            string `yaml:"voice"`     // its ID, where the request names none
	Container        string `yaml:"container"` // of bytes: raw or wav
	Encoding         string `yaml:"encoding"`  // pcm_s16le, pcm_f32le, pcm_mulaw or pcm_alaw
	SampleRate       int    `yaml:"sample_rate"`
	MaxBufferDelayMS int    `yaml:"max_buffer_delay_ms"` // 0: a piece is spoken at once
	AddTimestamps    bool   `yaml:"add_timestamps"`      // when the words begin

	KeepAlive time.Duration  `yaml:"keep_alive"` // how long a connection is kept for the next answer; 0: not at all
	Extra     map[string]any `yaml:"extra"`      // more fields of the request; they win
}

// Defaults are sonic-3 over the WebSocket at 24 kHz, with the version that LiveKit
// asks for. The voice is the one of Cartesia's examples. Cartesia closes a
// connection after five minutes without a message.
func Defaults() Options {
	return Options{API: "websocket", Version: "2025-04-16", Model: "sonic-3", Voice: "6ccbfb76-1fc6-48f7-b71d-91ac6298247b", Container: "raw",
		Encoding: "pcm_s16le", SampleRate: 24000, KeepAlive: 4 * time.Minute}
}

var encodings = map[string]string{"pcm_s16le": live.S16, "pcm_f32le": live.F32, "pcm_mulaw": live.MuLaw, "pcm_alaw": live.ALaw}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.API != "websocket" && o.API != "bytes":
		return fmt.Errorf("api: %q; it is websocket or bytes", o.API)
	case o.Model == "":
		return errors.New("model_id: it is empty")
	case o.Voice == "":
		return errors.New("voice: it is empty")
	case encodings[o.Encoding] == "":
		return fmt.Errorf("encoding: %q; it is pcm_s16le, pcm_f32le, pcm_mulaw or pcm_alaw", o.Encoding)
	case o.Container != "raw" && (o.Container != "wav" || o.API != "bytes"):
		return fmt.Errorf("container: %q; it is raw, or wav for bytes", o.Container)
	case o.MaxBufferDelayMS < 0:
		return fmt.Errorf("max_buffer_delay_ms: %d is negative", o.MaxBufferDelayMS)
	case o.KeepAlive < 0:
		return fmt.Errorf("keep_alive: %v is negative", o.KeepAlive)
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	return o.CheckURL("ws", "wss", "http", "https")
}

// A Synthesizer asks Cartesia. It may be used by several turns at once: each has a
// connection of its own.
type Synthesizer struct {
	clock   clocks.Clock
	o       Options
	address string
	caller  *live.Caller
	pool    *live.Pool
	answers atomic.Int64
}

// New returns a Synthesizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: cartesia: %w", err)
	}
	schemes, path := live.WebSocket, "/tts/websocket"
	if o.API == "bytes" {
		schemes, path = live.HTTP, "/tts/bytes"
	}
	u, err := live.Address(cmp.Or(o.URL, DefaultURL), schemes, path)
	if err != nil {
		return nil, fmt.Errorf("tts: cartesia: %w", err)
	}
	return &Synthesizer{clock: clock, o: o, address: u.String(), caller: live.NewCaller(clock, o.Options), pool: live.NewPool(clock, o.KeepAlive)}, nil
}

// Close closes all connections that are not in use.
func (s *Synthesizer) Close() {
	s.caller.Close()
	s.pool.Close()
}

func (s *Synthesizer) header(id string) http.Header {
	h := http.Header{}
	h.Set("Cartesia-Version", s.o.Version)
	if s.o.Key != "" {
		h.Set("X-Api-Key", s.o.Key)
	}
	if id != "" {
		h.Set("X-Request-Id", id)
	}
	return h
}

// body returns what all requests of an answer have in common.
func (s *Synthesizer) body(req tts.Request) map[string]any {
	o := s.o
	format := map[string]any{"container": o.Container, "encoding": o.Encoding, "sample_rate": o.SampleRate}
	b := map[string]any{"model_id": o.Model, "voice": map[string]any{"mode": "id", "id": cmp.Or(req.Voice, o.Voice)}, "output_format": format}
	if req.Language != "" {
		b["language"] = req.Language
	}
	maps.Copy(b, o.Extra)
	return b
}

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	if s.o.API == "bytes" {
		return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "cartesia", Key: s.o.Key, Say: func(ctx context.Context, n int, text string, tell live.Teller) error {
			body := s.body(req)
			body["transcript"] = text
			encoding := encodings[s.o.Encoding]
			if s.o.Container == "wav" {
				encoding = live.WAV
			}
			return s.caller.Say(ctx, live.Post{URL: s.address, Header: s.header(live.PieceID(req, n)), Body: body, Encoding: encoding, Rate: s.o.SampleRate}, tell)
		}})
	}
	return live.Stream(ctx, s.clock, "cartesia", s.o.Options, text, func(ctx context.Context) (live.Session, error) {
		l, err := s.o.Link(ctx, s.clock, s.pool, s.address, s.header(req.RequestID), encodings[s.o.Encoding], s.o.SampleRate)
		if err != nil {
			return nil, err
		}
		// An ID is used once: attempts and fillers of a turn may share the request's.
		id := fmt.Sprintf("%s-%d", cmp.Or(req.RequestID, "firstsound"), s.answers.Add(1))
		body := s.body(req)
		body["context_id"], body["max_buffer_delay_ms"] = id, s.o.MaxBufferDelayMS
		if s.o.AddTimestamps {
			body["add_timestamps"] = true
		}
		return &session{Link: l, body: body, reader: reader{id: id, sound: l.Sound}}, nil
	})
}

// A session is an answer over a connection.
type session struct {
	live.Link
	body   map[string]any
	said   bool // anything
	reader reader
}

func (s *session) send(text string, more map[string]any) error {
	m := maps.Clone(s.body)
	m["transcript"] = text
	maps.Copy(m, more)
	return s.Send(m)
}

// Say implements live.Session. A space keeps the words of two pieces apart.
func (s *session) Say(text string) error {
	s.said = true
	if err := s.send(text+" ", map[string]any{"continue": true}); err != nil {
		return err
	}
	return s.send("", map[string]any{"continue": true, "flush": true})
}

// End implements live.Session.
func (s *session) End() error {
	if !s.said {
		return nil
	}
	return s.send("", map[string]any{"continue": false})
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) (live.Heard, error) {
	m, err := s.Conn.Next(ctx)
	if err != nil {
		return live.Heard{}, err
	}
	return s.reader.read(m.Data, m.Arrived)
}

// Close implements live.Session.
func (s *session) Close(whole bool) {
	if !whole {
		s.Send(map[string]any{"context_id": s.reader.id, "cancel": true}) // perhaps nobody listens any more
	}
	s.Link.Close(whole)
}

// A reader reads the messages of a context.
type reader struct {
	id    string
	sound live.Decoder
	words []tts.Word // from the beginning of the context
	told  time.Duration
}

// read returns what a message says.
func (r *reader) read(data []byte, at time.Duration) (h live.Heard, err error) {
	var m struct {
		Type    string          `json:"type"`
		Context string          `json:"context_id"`
		Data    string          `json:"data"`
		Done    bool            `json:"done"`
		Error   json.RawMessage `json:"error"` // of older versions
		Title   string          `json:"title"`
		Message string          `json:"message"`
		Words   struct {
			Words []string  `json:"words"`
			Start []float64 `json:"start"`
		} `json:"word_timestamps"`
	}
	h.At = at
	if err := json.Unmarshal(data, &m); err != nil {
		return h, failure.JSON("a message", data, err)
	}
	if m.Context != "" && m.Context != r.id {
		return h, nil // of an answer before this one
	}
	switch {
	case m.Type == "error" || len(m.Error) > 0 && string(m.Error) != "null":
		return h, errors.New(cmp.Or(live.Words(data), "an error without words"))
	case m.Type == "chunk":
		return r.chunk(h, m.Data)
	case m.Type == "timestamps":
		for i, w := range m.Words.Words[:min(len(m.Words.Words), len(m.Words.Start))] {
			r.words = append(r.words, tts.Word{Text: w, Start: time.Duration(m.Words.Start[i] * float64(time.Second))})
		}
	case m.Type == "flush_done":
		h.Pieces = 1
	case m.Type == "done":
		h.Over = true
	}
	return h, nil
}

// chunk returns sound, and the words in it that are known.
func (r *reader) chunk(h live.Heard, text string) (live.Heard, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return h, fmt.Errorf("the sound of a chunk is no base64: %w", err)
	}
	f, err := r.sound.Push(data)
	if err != nil || len(f.PCM) == 0 {
		return h, err
	}
	c := tts.Chunk{At: h.At, Sound: f}
	end := r.told + f.Duration()
	var later []tts.Word
	for _, w := range r.words {
		switch {
		case w.Start >= end:
			later = append(later, w)
		case w.Start >= r.told:
			c.Words = append(c.Words, tts.Word{Text: w.Text, Start: w.Start - r.told})
		} // one that begins before came too late to be told
	}
	r.words, r.told = later, end
	h.Chunks = []tts.Chunk{c}
	return h, nil
}
