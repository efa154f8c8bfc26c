// Package realtime is a caller of a speech-to-speech agent that speaks OpenAI's
// Realtime API over a WebSocket: sound goes in while it is spoken, sound comes
// out with its arrivals, and what the agent tells of its work becomes marks. The
// agent is a black box: the end of the speech is that of the recording, whatever
// the agent takes for it.
//
// The names of the API's beta are understood as well, and spoken if Options.Beta
// is set: https://platform.openai.com/docs/api-reference/realtime.
package realtime

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/clocks/socket"
)

// Options say which agent is called and how. Start from Defaults.
type Options struct {
	URL   string `yaml:"url"` // ws:// or wss://; the model is added to its query
	Model string `yaml:"model"`
	Key   string `yaml:"-"`

	Instructions string `yaml:"instructions"`
	Voice        string `yaml:"voice"` // empty: the service's own choice

	// TurnDetection is server_vad, semantic_vad, or none: then the caller says
	// when it has finished, right at the true end of the speech.
	TurnDetection     string  `yaml:"turn_detection"`
	Threshold         float64 `yaml:"threshold"`           // of server_vad
	PrefixPaddingMS   int     `yaml:"prefix_padding_ms"`   // of server_vad
	SilenceDurationMS int     `yaml:"silence_duration_ms"` // of server_vad: the wait that the agent adds to each answer
	Eagerness         string  `yaml:"eagerness"`           // of semantic_vad: low, medium, high or auto

	Beta    bool          `yaml:"beta"`    // the names before the API was made general, as StepFun, Qwen-Omni and others have them
	Frame   time.Duration `yaml:"frame"`   // sound in a message
	Timeout time.Duration `yaml:"timeout"` // for the session, and for an answer after the speech

	TLS  *tls.Config                                                       `yaml:"-"`
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `yaml:"-"` // nil: the system's
}

// DefaultURL is OpenAI's own.
const DefaultURL = "wss://api.openai.com/v1/realtime"

// Rate is what goes in and comes out, in samples a second: the one rate of
// audio/pcm that the API has.
const Rate = 24000

// Defaults are OpenAI's agent with the service's own settings of server VAD, and
// frames of 20 ms.
func Defaults() Options {
	return Options{
		URL: DefaultURL, Model: "gpt-realtime", TurnDetection: "server_vad", Threshold: 0.5, PrefixPaddingMS: 300, SilenceDurationMS: 500,
		Eagerness: "auto", Frame: 20 * time.Millisecond, Timeout: 30 * time.Second,
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss":
		return errors.New("url: it is no address that begins with ws:// or wss://")
	case o.Model == "":
		return errors.New("model: it is empty")
	case o.TurnDetection != "server_vad" && o.TurnDetection != "semantic_vad" && o.TurnDetection != "none":
		return fmt.Errorf("turn_detection: %q; it is server_vad, semantic_vad or none", o.TurnDetection)
	case !(o.Threshold >= 0 && o.Threshold <= 1):
		return fmt.Errorf("threshold: %v; it lies between 0 and 1", o.Threshold)
	case o.PrefixPaddingMS < 0:
		return fmt.Errorf("prefix_padding_ms: %d is negative", o.PrefixPaddingMS)
	case o.SilenceDurationMS < 0:
		return fmt.Errorf("silence_duration_ms: %d is negative", o.SilenceDurationMS)
	case !slices.Contains([]string{"low", "medium", "high", "auto"}, o.Eagerness):
		return fmt.Errorf("eagerness: %q; it is low, medium, high or auto", o.Eagerness)
	case o.Frame < time.Millisecond || o.Frame > time.Second:
		return fmt.Errorf("frame: %v; it lies between 1ms and 1s", o.Frame)
	case o.Timeout <= 0:
		return fmt.Errorf("timeout: %v; it is above 0", o.Timeout)
	}
	return nil
}

// Decode lays YAML over the options. A key that there is not is an error.
func (o *Options) Decode(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(o); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// session returns the settings of the session, in the names of the API or in
// those of its beta.
func (o Options) session() map[string]any {
	var detection map[string]any
	switch o.TurnDetection {
	case "server_vad":
		detection = map[string]any{"type": "server_vad", "threshold": o.Threshold, "prefix_padding_ms": o.PrefixPaddingMS, "silence_duration_ms": o.SilenceDurationMS}
	case "semantic_vad":
		detection = map[string]any{"type": "semantic_vad", "eagerness": o.Eagerness}
	}
	if detection != nil {
		detection["create_response"], detection["interrupt_response"] = true, true
	}
	var s map[string]any
	out := map[string]any{}
	if o.Beta {
		s = map[string]any{"modalities": []string{"audio", "text"}, "input_audio_format": "pcm16", "output_audio_format": "pcm16", "turn_detection": detection}
		out = s
	} else {
		format := map[string]any{"type": "audio/pcm", "rate": Rate}
		out["format"] = format
		s = map[string]any{"type": "realtime", "output_modalities": []string{"audio"},
			"audio": map[string]any{"input": map[string]any{"format": format, "turn_detection": detection}, "output": out}}
	}
	if o.Voice != "" {
		out["voice"] = o.Voice
	}
	if o.Instructions != "" {
		s["instructions"] = o.Instructions
	}
	return s
}

// A Session is a conversation with an agent. One goroutine calls Turn and Close.
type Session struct {
	clock clocks.Clock
	o     Options
	conn  *socket.Conn
	Setup Setup
}

// Setup is how a session came about, on the run's clock.
type Setup struct {
	Began   time.Duration // Dial was called
	Open    time.Duration // the handshake was done
	Created time.Duration // session.created arrived
	Updated time.Duration // session.updated arrived
}

// Dial opens a session on clock and waits until the agent has taken its settings.
// An error has the service's own words and no key, and failure.Of knows its kind.
func Dial(ctx context.Context, clock clocks.Clock, o Options) (*Session, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("realtime: %w", err)
	}
	s := &Session{clock: clock, o: o}
	ctx, cancel := clocks.WithTimeout(ctx, clock, o.Timeout, failure.Errorf(failure.Timeout, "no session within %v", o.Timeout))
	defer cancel()
	if err := s.open(ctx); err != nil {
		if s.conn != nil {
			s.Close()
		}
		return nil, o.wrap(err)
	}
	return s, nil
}

// wrap says where err comes from, and takes the key out of it should the service
// have repeated it.
func (o Options) wrap(err error) error { return fmt.Errorf("realtime: %w", failure.Hide(err, o.Key)) }

func (s *Session) open(ctx context.Context) error {
	s.Setup.Began = s.clock.Now()
	address, err := url.Parse(s.o.URL)
	if err != nil {
		return err
	}
	query := address.Query()
	query.Set("model", s.o.Model)
	address.RawQuery = query.Encode()
	header := http.Header{}
	if s.o.Key != "" {
		header.Set("Authorization", "Bearer "+s.o.Key)
	}
	if s.o.Beta {
		header.Set("OpenAI-Beta", "realtime=v1")
	}
	s.conn, err = socket.Dial(ctx, s.clock, address.String(), socket.Options{Header: header, TLS: s.o.TLS, Dial: s.o.Dial, Timeout: s.o.Timeout})
	if err != nil {
		return err
	}
	s.Setup.Open = s.clock.Now()
	if s.Setup.Created, err = s.await(ctx, "session.created"); err != nil {
		return err
	}
	if err := s.send(map[string]any{"type": "session.update", "session": s.o.session()}); err != nil {
		return err
	}
	s.Setup.Updated, err = s.await(ctx, "session.updated")
	return err
}

// await returns when an event of a kind arrived; what comes before it is dropped.
func (s *Session) await(ctx context.Context, kind string) (time.Duration, error) {
	for {
		m, err := s.conn.Next(ctx)
		if err != nil {
			return 0, fmt.Errorf("waiting for %s: %w", kind, err)
		}
		e, err := read(m.Data)
		switch {
		case err != nil:
			return 0, err
		case e.Type == "error":
			return 0, e.Error.asError()
		case e.Type == kind:
			return m.Arrived, nil
		case ctx.Err() != nil: // however much there is to be read yet
			return 0, context.Cause(ctx)
		}
	}
}

func (s *Session) send(v map[string]any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = s.conn.Send(true, text)
	}
	return err
}

// Close ends the session.
func (s *Session) Close() { s.conn.Close(1000, "") }

// An event is what the service says in one message, as far as it matters here.
type event struct {
	Type       string    `json:"type"`
	ItemID     string    `json:"item_id"`
	ResponseID string    `json:"response_id"`
	Content    int       `json:"content_index"`
	Delta      string    `json:"delta"`
	Transcript string    `json:"transcript"`
	StartMS    *int64    `json:"audio_start_ms"`
	EndMS      *int64    `json:"audio_end_ms"`
	Error      *apiError `json:"error"`
	Response   *struct {
		ID      string `json:"id"`
		Status  string `json:"status"`
		Details *struct {
			Reason string    `json:"reason"`
			Error  *apiError `json:"error"`
		} `json:"status_details"`
	} `json:"response"`
}

type apiError struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *apiError) asError() error {
	if e == nil {
		return errors.New("the service says that something is wrong, and not what")
	}
	return fmt.Errorf("the service says: %s (%s)", cmp.Or(e.Message, "nothing"), cmp.Or(e.Code, e.Type, "no code"))
}

// read decodes a message. A name of the beta becomes that of the API.
func read(data []byte) (event, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, failure.JSON("a message", data, err)
	}
	if e.Type == "" {
		return e, fmt.Errorf("a message has no type: %s", failure.Quoted(data))
	}
	if rest, ok := strings.CutPrefix(e.Type, "response.audio"); ok {
		e.Type = "response.output_audio" + rest
	}
	return e, nil
}
