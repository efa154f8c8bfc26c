// Package elevenlabs speaks with ElevenLabs: by a request over HTTP for each piece
// of text (stream), over a WebSocket of one context (stream-input), or over one of
// several (multi-stream-input), which LiveKit and Pipecat use.
//
// Over a WebSocket each piece is sent with flush, so that no schedule of
// characters holds it back. Its sound is over when the characters of the
// alignments are as many as the text has, spaces apart; where the service sends no
// alignments, the pieces are over at isFinal, which ends the context. Several
// contexts at once would mix their sound: an answer is one context.
package elevenlabs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Env is the environment variable in which users keep their key.
const Env = "ELEVENLABS_API_KEY"

// DefaultURL is ElevenLabs' own address, without a path.
const DefaultURL = "https://api.elevenlabs.io"

// The ways to ask.
const (
	Stream      = "stream"
	StreamInput = "stream-input"
	Multi       = "multi-stream-input"
)

// Options are how ElevenLabs is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	API               string         `yaml:"api"`   // stream, stream-input or multi-stream-input
	Voice             string         `yaml:"voice"` // its ID, where the request names none
	Model             string         `yaml:"model_id"`
	OutputFormat      string         `yaml:"output_format"` // pcm_RATE, ulaw_8000, alaw_8000, or for stream mp3_RATE_KBPS, opus_48000_KBPS
	AutoMode          bool           `yaml:"auto_mode"`     // of the WebSockets
	InactivityTimeout int            `yaml:"inactivity_timeout"`
	VoiceSettings     map[string]any `yaml:"voice_settings"` // nil: the voice's own

	KeepAlive time.Duration     `yaml:"keep_alive"` // of multi-stream-input: how long a connection is kept for the next answer; 0: not at all
	Extra     map[string]string `yaml:"extra"`      // more parameters of the query; they win
}

// Defaults are eleven_flash_v2_5 over multi-stream-input at 24 kHz, with the
// inactivity_timeout of LiveKit, the longest there is. The voice is Rachel, the
// one of ElevenLabs' examples.
func Defaults() Options {
	return Options{API: Multi, Voice: "21m00Tcm4TlvDq8ikWAM", Model: "eleven_flash_v2_5", OutputFormat: "pcm_24000", AutoMode: true,
		InactivityTimeout: 180, KeepAlive: 150 * time.Second}
}

// format returns what an output_format is.
func (o Options) format() (encoding string, rate int, err error) {
	kind, rest, _ := strings.Cut(o.OutputFormat, "_")
	number, _, _ := strings.Cut(rest, "_")
	encoding = map[string]string{"pcm": live.S16, "ulaw": live.MuLaw, "alaw": live.ALaw, "mp3": live.MP3, "opus": live.Opus}[kind]
	rate, err = strconv.Atoi(number)
	if encoding == "" || err != nil || audio.CheckRate(rate) != nil {
		return "", 0, fmt.Errorf("output_format: %q; it is pcm_24000 or the like, ulaw_8000, alaw_8000, mp3_44100_128 or opus_48000_64", o.OutputFormat)
	}
	return encoding, rate, nil
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.API != Stream && o.API != StreamInput && o.API != Multi:
		return fmt.Errorf("api: %q; it is stream, stream-input or multi-stream-input", o.API)
	case o.Voice == "":
		return errors.New("voice: it is empty")
	case o.Model == "":
		return errors.New("model_id: it is empty")
	case o.InactivityTimeout < 0 || o.InactivityTimeout > 180:
		return fmt.Errorf("inactivity_timeout: %d does not lie between 0 and 180", o.InactivityTimeout)
	case o.KeepAlive < 0:
		return fmt.Errorf("keep_alive: %v is negative", o.KeepAlive)
	}
	if _, _, err := o.format(); err != nil {
		return err
	}
	return o.CheckURL("http", "https", "ws", "wss")
}

// A Synthesizer asks ElevenLabs. It may be used by several turns at once: each has
// a connection of its own.
type Synthesizer struct {
	clock    clocks.Clock
	o        Options
	encoding string
	rate     int
	caller   *live.Caller
	pools    *live.Pools
	answers  atomic.Int64
}

// New returns a Synthesizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: elevenlabs: %w", err)
	}
	encoding, rate, _ := o.format() // checked
	keep := o.KeepAlive
	if o.API == StreamInput {
		keep = 0 // the end of the text is the end of the connection
	}
	return &Synthesizer{clock: clock, o: o, encoding: encoding, rate: rate, caller: live.NewCaller(clock, o.Options), pools: live.NewPools(clock, keep)}, nil
}

// Close closes all connections that are not in use.
func (s *Synthesizer) Close() {
	s.caller.Close()
	s.pools.Close()
}

// address returns the URL for a voice and a language.
func (s *Synthesizer) address(voice, language string) (string, error) {
	schemes := live.WebSocket
	if s.o.API == Stream {
		schemes = live.HTTP
	}
	u, err := live.Address(cmp.Or(s.o.URL, DefaultURL), schemes, "")
	if err != nil {
		return "", err
	}
	u = u.JoinPath("v1", "text-to-speech", url.PathEscape(voice), s.o.API)
	q := u.Query()
	q.Set("output_format", s.o.OutputFormat)
	if s.o.API != Stream {
		q.Set("model_id", s.o.Model)
		q.Set("auto_mode", strconv.FormatBool(s.o.AutoMode))
		q.Set("sync_alignment", "true")
		if s.o.InactivityTimeout > 0 {
			q.Set("inactivity_timeout", strconv.Itoa(s.o.InactivityTimeout))
		}
		if language != "" {
			q.Set("language_code", language)
		}
	}
	for key, value := range s.o.Extra {
		q.Set(key, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (s *Synthesizer) header(id string) http.Header {
	h := http.Header{}
	if s.o.Key != "" {
		h.Set("Xi-Api-Key", s.o.Key)
	}
	if id != "" {
		h.Set("X-Request-Id", id)
	}
	return h
}

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	if s.o.API == Stream {
		return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "elevenlabs", Key: s.o.Key, Say: func(ctx context.Context, n int, text string, tell live.Teller) error {
			return s.say(ctx, req, n, text, tell)
		}})
	}
	return live.Stream(ctx, s.clock, "elevenlabs", s.o.Options, text, func(ctx context.Context) (live.Session, error) { return s.open(ctx, req) })
}

// say speaks a piece over HTTP.
func (s *Synthesizer) say(ctx context.Context, req tts.Request, n int, text string, tell live.Teller) error {
	address, err := s.address(cmp.Or(req.Voice, s.o.Voice), "")
	if err != nil {
		return err
	}
	body := map[string]any{"text": text, "model_id": s.o.Model}
	if s.o.VoiceSettings != nil {
		body["voice_settings"] = s.o.VoiceSettings
	}
	if req.Language != "" {
		body["language_code"] = req.Language
	}
	return s.caller.Say(ctx, live.Post{URL: address, Header: s.header(live.PieceID(req, n)), Body: body, Encoding: s.encoding, Rate: s.rate}, tell)
}

// open begins an answer over a WebSocket.
func (s *Synthesizer) open(ctx context.Context, req tts.Request) (live.Session, error) {
	address, err := s.address(cmp.Or(req.Voice, s.o.Voice), req.Language)
	if err != nil {
		return nil, err
	}
	l, err := s.o.Link(ctx, s.clock, s.pools.Of(address), address, s.header(req.RequestID), s.encoding, s.rate)
	if err != nil {
		return nil, err
	}
	a := &session{Link: l, multi: s.o.API == Multi, reader: reader{sound: l.Sound}}
	if a.multi {
		// An ID is used once: attempts and fillers of a turn may share the request's.
		a.reader.id = fmt.Sprintf("%s-%d", cmp.Or(req.RequestID, "firstsound"), s.answers.Add(1))
	}
	first := map[string]any{"text": " "}
	if s.o.VoiceSettings != nil {
		first["voice_settings"] = s.o.VoiceSettings
	}
	if err := a.send(first); err != nil {
		a.Close(false)
		return nil, err
	}
	return a, nil
}

// A session is an answer over a connection.
type session struct {
	live.Link
	multi  bool
	reader reader
}

func (s *session) send(m map[string]any) error {
	if s.multi {
		m = maps.Clone(m)
		m["context_id"] = s.reader.id
	}
	return s.Send(m)
}

// Say implements live.Session. A text has to end with a space.
func (s *session) Say(text string) error {
	s.reader.expect(text)
	return s.send(map[string]any{"text": strings.TrimSpace(text) + " ", "flush": true})
}

// End implements live.Session.
func (s *session) End() error {
	if s.multi {
		return s.send(map[string]any{"close_context": true})
	}
	return s.send(map[string]any{"text": ""})
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) (live.Heard, error) {
	m, err := s.Conn.Next(ctx)
	if err != nil {
		return live.Heard{}, err
	}
	return s.reader.read(m.Data, m.Arrived)
}
