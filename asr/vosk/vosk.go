// Package vosk recognizes speech with the WebSocket server of alphacep/vosk-server.
//
// It answers each message with one of its own, in order: the last answer is the
// one to the message that says that no more sound comes. A result in between is
// an Endpoint too. The server has no error messages; it just closes.
package vosk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// DefaultURL is where the server listens when nothing else is said.
const DefaultURL = "ws://127.0.0.1:2700"

// Options are how the server is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	SampleRate int      `yaml:"sample_rate"` // sound of another rate is resampled
	PhraseList []string `yaml:"phrase_list"` // all that can be said; empty: anything
}

// Defaults are 16 kHz and anything that can be said.
func Defaults() Options { return Options{SampleRate: 16000} }

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
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
		return nil, fmt.Errorf("asr: vosk: %w", err)
	}
	o.URL = cmp.Or(o.URL, DefaultURL)
	return live.New(clock, "vosk", o.SampleRate, o.Options, service{clock, o}.open), nil
}

func (r service) open(ctx context.Context, req asr.Request) (live.Session, error) {
	began := r.clock.Now()
	conn, err := r.o.Connect(ctx, r.clock, r.o.URL, nil)
	if err != nil {
		return nil, err
	}
	config := map[string]any{"sample_rate": r.o.SampleRate}
	if len(r.o.PhraseList) > 0 {
		config["phrase_list"] = r.o.PhraseList
	}
	text, err := json.Marshal(map[string]any{"config": config})
	if err == nil {
		_, err = conn.Send(true, text) // the only message without an answer
	}
	if err != nil {
		conn.Close(1000, "")
		return nil, err
	}
	r.o.Ready(r.clock, req.RequestID, began)
	return &session{conn: conn}, nil
}

// A session is one connection: it takes one utterance.
type session struct {
	conn    *socket.Conn
	sent    atomic.Int64 // messages that are answered
	ended   atomic.Bool  // the last of them is among these
	answers int64
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) {
	s.sent.Add(1)
	return s.conn.Send(false, live.PCM(f))
}

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return true, s.End(false) }

// eof has to be spelled like this.
const eof = `{"eof" : 1}`

// End implements live.Session.
func (s *session) End(bool) error {
	s.sent.Add(1)
	s.ended.Store(true)
	_, err := s.conn.Send(true, []byte(eof))
	return err
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, err := s.conn.Next(ctx)
	if err != nil {
		return nil, err
	}
	s.answers++
	last := s.ended.Load() && s.answers >= s.sent.Load()
	results, err := read(m.Data, m.Arrived, last)
	if err == nil && last {
		err = io.EOF
	}
	return results, err
}

// Close implements live.Session.
func (s *session) Close() { s.conn.Close(1000, "") }

type message struct {
	Partial      *string `json:"partial"`
	Text         *string `json:"text"`
	Alternatives []struct {
		Text string `json:"text"`
	} `json:"alternatives"`
}

// read says what a message means.
func read(data []byte, at time.Duration, last bool) ([]asr.Result, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, failure.JSON("a message", data, err)
	}
	if len(m.Alternatives) > 0 {
		m.Text = &m.Alternatives[0].Text
	}
	switch {
	case m.Text != nil:
		results := []asr.Result{{At: at, Kind: asr.Final, Text: strings.TrimSpace(*m.Text)}}
		if !last {
			results = append(results, asr.Result{At: at, Kind: asr.Endpoint})
		}
		return results, nil
	case m.Partial != nil:
		return []asr.Result{{At: at, Kind: asr.Partial, Text: strings.TrimSpace(*m.Partial)}}, nil
	}
	return nil, fmt.Errorf("a message has neither partial nor text: %s", failure.Quoted(data))
}
