// Package assemblyai recognizes speech with AssemblyAI's Universal-Streaming, v3 of
// its streaming interface, as its SDK 4.41 has it.
//
// A Turn message with end_of_turn is Final and Endpoint. With format_turns the
// models before Universal-3 send it twice, and the Final is the second one, which
// has punctuation. When the listener believes that the speech is over, the service
// is sent ForceEndpoint.
//
// The service takes no message with less than 50 ms of sound (it closes with 3007),
// so that sound is gathered until there are as many; what is left when the speech is
// over is filled up with silence.
package assemblyai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/clocks/socket"
)

// Env is the environment variable in which users keep their key.
const Env = "ASSEMBLYAI_API_KEY"

// DefaultURL is AssemblyAI's own address. A path is added to one that has none.
const DefaultURL = "wss://streaming.assemblyai.com"

// Options are how the service is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	SpeechModel string `yaml:"speech_model"`
	SampleRate  int    `yaml:"sample_rate"`  // sound of another rate is resampled
	FormatTurns bool   `yaml:"format_turns"` // punctuation, capitals and numbers, which come later

	// 0: the service's own.
	EndOfTurnConfidence float64 `yaml:"end_of_turn_confidence_threshold"`
	MinTurnSilence      int     `yaml:"min_turn_silence"` // ms, where it is that confident
	MaxTurnSilence      int     `yaml:"max_turn_silence"` // ms, where it is not

	KeytermsPrompt []string          `yaml:"keyterms_prompt"`
	Extra          map[string]string `yaml:"extra"` // more parameters of the query; they win
}

// Defaults are the English model without formatting, which is what an agent needs
// and comes soonest.
func Defaults() Options {
	return Options{SpeechModel: "universal-streaming-english", SampleRate: 16000}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	switch {
	case !(o.EndOfTurnConfidence >= 0 && o.EndOfTurnConfidence <= 1):
		return fmt.Errorf("end_of_turn_confidence_threshold: %v; it lies between 0 and 1", o.EndOfTurnConfidence)
	case o.MinTurnSilence < 0:
		return fmt.Errorf("min_turn_silence: %d is negative", o.MinTurnSilence)
	case o.MaxTurnSilence < 0:
		return fmt.Errorf("max_turn_silence: %d is negative", o.MaxTurnSilence)
	}
	return o.CheckURL("ws", "wss")
}

type service struct {
	clock clocks.Clock
	o     Options
}

// New returns a recognizer on clock. Each turn has a connection of its own.
func New(clock clocks.Clock, o Options) (*live.Recognizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("asr: assemblyai: %w", err)
	}
	o.URL = cmp.Or(o.URL, DefaultURL)
	base := o.Options
	base.Sent = nil // a piece of sound is not a message: the session tells of these
	return live.New(clock, "assemblyai", o.SampleRate, base, service{clock, o}.open), nil
}

// address returns the URL of a request.
func (r service) address() (string, error) {
	o := r.o
	u, err := url.Parse(o.URL)
	if err != nil {
		return "", errors.New("url: it is none")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v3/ws"
	}
	q := u.Query()
	q.Set("sample_rate", strconv.Itoa(o.SampleRate))
	q.Set("encoding", "pcm_s16le")
	number := func(key string, value float64) {
		if value != 0 {
			q.Set(key, strconv.FormatFloat(value, 'g', -1, 64))
		}
	}
	if o.SpeechModel != "" {
		q.Set("speech_model", o.SpeechModel)
	}
	if o.FormatTurns {
		q.Set("format_turns", "true")
	}
	number("end_of_turn_confidence_threshold", o.EndOfTurnConfidence)
	number("min_turn_silence", float64(o.MinTurnSilence))
	number("max_turn_silence", float64(o.MaxTurnSilence))
	if len(o.KeytermsPrompt) > 0 {
		text, err := json.Marshal(o.KeytermsPrompt)
		if err != nil {
			return "", err
		}
		q.Set("keyterms_prompt", string(text))
	}
	for key, value := range o.Extra {
		q.Set(key, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// beginTimeout is how long the service may take to say Begin after the handshake.
const beginTimeout = 10 * time.Second

func (r service) open(ctx context.Context, req asr.Request) (live.Session, error) {
	address, err := r.address()
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if r.o.Key != "" {
		header.Set("Authorization", r.o.Key)
	}
	if req.RequestID != "" {
		header.Set("X-Request-Id", req.RequestID)
	}
	began := r.clock.Now()
	conn, err := r.o.Connect(ctx, r.clock, address, header)
	if err != nil {
		return nil, err
	}
	s := &session{clock: r.clock, conn: conn, id: req.RequestID, told: r.o.Sent, rate: r.o.SampleRate, turns: turns{formatted: r.o.FormatTurns}}
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	r.o.Ready(r.clock, req.RequestID, began)
	return s, nil
}

// A session is one connection.
type session struct {
	clock clocks.Clock
	conn  *socket.Conn
	id    string
	told  func(requestID string, offset, at time.Duration)
	rate  int
	held  []int16 // until it is enough for a message
	sent  int     // samples of the speech
	ended atomic.Bool
	turns turns
}

// begin waits until the service takes sound.
func (s *session) begin(ctx context.Context) error {
	ctx, cancel := clocks.WithTimeout(ctx, s.clock, beginTimeout, failure.Errorf(failure.Timeout, "the service did not say Begin within %v", beginTimeout))
	defer cancel()
	for {
		m, err := s.conn.Next(ctx)
		if err != nil {
			return err
		}
		v, err := decode(m.Data)
		if err != nil {
			return err
		}
		if v.Type == "Begin" {
			return nil
		}
	}
}

// The sound of a message, at the least and at the most.
const (
	least = 50 * time.Millisecond
	most  = time.Second
)

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (at time.Duration, err error) {
	s.held = append(s.held, f.PCM...)
	at = s.clock.Now()
	for err == nil && len(s.held) >= audio.Samples(least, s.rate) {
		at, err = s.message(min(len(s.held), audio.Samples(most, s.rate)), nil)
	}
	return at, err
}

// message sends n samples of what is held, with silence behind them.
func (s *session) message(n int, silence []int16) (time.Duration, error) {
	s.sent += n
	at, err := s.conn.Send(false, live.PCM(audio.Frame{Rate: s.rate, PCM: append(s.held[:n:n], silence...)}))
	s.held = s.held[n:]
	if err == nil && s.told != nil {
		s.told(s.id, audio.Span(s.sent, s.rate), at)
	}
	return at, err
}

// say sends what is held, and then a message of a type.
func (s *session) say(kind string) (err error) {
	if n := len(s.held); n > 0 {
		_, err = s.message(n, make([]int16, audio.Samples(least, s.rate)-n))
	}
	if err == nil {
		_, err = s.conn.Send(true, []byte(`{"type":"`+kind+`"}`))
	}
	return err
}

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return false, s.say("ForceEndpoint") }

// End implements live.Session.
func (s *session) End(settled bool) error {
	if !settled {
		if err := s.say("ForceEndpoint"); err != nil {
			return err
		}
	}
	s.ended.Store(true)
	return s.say("Terminate")
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, err := s.conn.Next(ctx)
	if s.ended.Load() && live.SaidGoodbye(err) {
		return s.turns.rest(s.clock.Now()), io.EOF
	}
	if err != nil || !m.Text {
		return nil, err
	}
	return s.turns.read(m.Data, m.Arrived)
}

// Close implements live.Session.
func (s *session) Close() { s.conn.Close(1000, "") }
