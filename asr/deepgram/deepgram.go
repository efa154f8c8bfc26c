// Package deepgram recognizes speech with Deepgram's streaming services: live v1
// (Nova) and v2 (Flux), as its SDK 5.8 has them.
//
// A Final of v1 is a Results message with is_final; speech_final and UtteranceEnd
// are Endpoints. When the listener believes that the speech is over, v1 is sent
// Finalize. Flux decides by itself when a turn is over, EndOfTurn being both
// Final and Endpoint, and has no such message: Request.Finalize is waited for,
// and nothing is sent.
package deepgram

import (
	"cmp"
	"context"
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
	"firstsound/clocks/socket"
)

// Env is the environment variable in which users keep their key.
const Env = "DEEPGRAM_API_KEY"

// DefaultURL is Deepgram's own address. A path is added to one that has none.
const DefaultURL = "wss://api.deepgram.com"

// Options are how Deepgram is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	API        string `yaml:"api"` // v1, or v2 for Flux
	Model      string `yaml:"model"`
	SampleRate int    `yaml:"sample_rate"` // sound of another rate is resampled

	// Of v1.
	InterimResults bool `yaml:"interim_results"`
	Endpointing    int  `yaml:"endpointing"`      // ms of silence that make an endpoint; 0: none
	UtteranceEndMS int  `yaml:"utterance_end_ms"` // 0: none; at least 1000
	NoDelay        bool `yaml:"no_delay"`
	SmartFormat    bool `yaml:"smart_format"`
	Punctuate      bool `yaml:"punctuate"`

	// Of v2. 0: the service's own.
	EOTThreshold      float64 `yaml:"eot_threshold"`
	EagerEOTThreshold float64 `yaml:"eager_eot_threshold"`
	EOTTimeoutMS      int     `yaml:"eot_timeout_ms"`

	Extra map[string]string `yaml:"extra"` // more parameters of the query; they win
}

// Defaults are nova-3 by v1 as LiveKit asks it: interim results, no delay, and
// an endpoint after 25 ms of silence.
func Defaults() Options {
	return Options{API: "v1", Model: "nova-3", SampleRate: 16000, InterimResults: true, Endpointing: 25, NoDelay: true}
}

// Flux are the defaults of v2.
func Flux() Options {
	return Options{API: "v2", Model: "flux-general-en", SampleRate: 16000}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if o.API != "v1" && o.API != "v2" {
		return fmt.Errorf("api: %q; it is v1, or v2 for Flux", o.API)
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	if o.Endpointing < 0 || o.UtteranceEndMS < 0 || o.UtteranceEndMS > 0 && o.UtteranceEndMS < 1000 {
		return fmt.Errorf("endpointing: %d, and utterance_end_ms %d; neither is negative, and the latter is at least 1000", o.Endpointing, o.UtteranceEndMS)
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
		return nil, fmt.Errorf("asr: deepgram: %w", err)
	}
	o.URL = cmp.Or(o.URL, DefaultURL)
	return live.New(clock, "deepgram", o.SampleRate, o.Options, service{clock, o}.open), nil
}

// address returns the URL of a request.
func (r service) address(req asr.Request) (string, error) {
	o := r.o
	u, err := url.Parse(o.URL)
	if err != nil {
		return "", errors.New("url: it is none")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/" + o.API + "/listen"
	}
	q := u.Query()
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	number := func(key string, value float64) {
		if value != 0 {
			q.Set(key, strconv.FormatFloat(value, 'g', -1, 64))
		}
	}
	set("model", o.Model)
	set("encoding", "linear16")
	set("sample_rate", strconv.Itoa(o.SampleRate))
	set("tag", req.RequestID)
	if o.API == "v1" {
		set("channels", "1")
		set("language", req.Language)
		set("interim_results", strconv.FormatBool(o.InterimResults))
		set("endpointing", cmp.Or(strings.TrimPrefix(strconv.Itoa(o.Endpointing), "0"), "false"))
		number("utterance_end_ms", float64(o.UtteranceEndMS))
		for key, on := range map[string]bool{"no_delay": o.NoDelay, "smart_format": o.SmartFormat, "punctuate": o.Punctuate} {
			if on {
				set(key, "true")
			}
		}
	} else {
		number("eot_threshold", o.EOTThreshold)
		number("eager_eot_threshold", o.EagerEOTThreshold)
		number("eot_timeout_ms", float64(o.EOTTimeoutMS))
	}
	for key, value := range o.Extra {
		q.Set(key, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (r service) open(ctx context.Context, req asr.Request) (live.Session, error) {
	address, err := r.address(req)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if r.o.Key != "" {
		header.Set("Authorization", "Token "+r.o.Key)
	}
	if req.RequestID != "" {
		header.Set("X-Request-Id", req.RequestID)
	}
	began := r.clock.Now()
	conn, err := r.o.Connect(ctx, r.clock, address, header)
	if err != nil {
		return nil, err
	}
	r.o.Ready(r.clock, req.RequestID, began)
	s := &session{clock: r.clock, conn: conn, flux: r.o.API == "v2"}
	s.reader = &segments{}
	if s.flux {
		s.reader = &turns{}
	}
	return s, nil
}

// A session is one connection.
type session struct {
	clock  clocks.Clock
	conn   *socket.Conn
	flux   bool
	ended  atomic.Bool // CloseStream is on its way
	reader interface {
		// read says what a message means that arrived at a time.
		read(data []byte, at time.Duration) ([]asr.Result, error)
		// rest returns what is still to be said when the connection has been closed.
		rest(at time.Duration) []asr.Result
	}
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) { return s.conn.Send(false, live.PCM(f)) }

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) {
	if s.flux {
		return false, nil
	}
	_, err := s.conn.Send(true, []byte(`{"type":"Finalize"}`))
	return false, err
}

// End implements live.Session.
func (s *session) End(bool) error {
	s.ended.Store(true)
	_, err := s.conn.Send(true, []byte(`{"type":"CloseStream"}`))
	return err
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, err := s.conn.Next(ctx)
	if s.ended.Load() && live.SaidGoodbye(err) {
		return s.reader.rest(s.clock.Now()), io.EOF
	}
	if err != nil || !m.Text {
		return nil, err
	}
	return s.reader.read(m.Data, m.Arrived)
}

// Close implements live.Session.
func (s *session) Close() { s.conn.Close(1000, "") }
