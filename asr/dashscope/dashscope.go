// Package dashscope recognizes speech with Alibaba's DashScope, by its task
// protocol over a WebSocket: paraformer-realtime, fun-asr-realtime and others.
//
// A sentence that has ended is a Final, and an Endpoint too unless the listener
// has asked for it. Sound is sent once the service says task-started: that is
// when the connection counts as made.
package dashscope

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
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
const Env = "DASHSCOPE_API_KEY"

// DefaultURL is the service's address in China.
const DefaultURL = "wss://dashscope.aliyuncs.com/api-ws/v1/inference"

// Options are how the service is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Model              string         `yaml:"model"`
	SampleRate         int            `yaml:"sample_rate"`          // sound of another rate is resampled
	MaxSentenceSilence int            `yaml:"max_sentence_silence"` // ms after which a sentence has ended
	Parameters         map[string]any `yaml:"parameters"`           // more of them; they win
}

// Defaults are paraformer-realtime-v2 as xiaozhi-esp32-server asks it, with a
// sentence ended by 200 ms of silence.
func Defaults() Options {
	return Options{Model: "paraformer-realtime-v2", SampleRate: 16000, MaxSentenceSilence: 200}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if o.Model == "" {
		return fmt.Errorf("model: it is missing")
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	if o.MaxSentenceSilence < 0 {
		return fmt.Errorf("max_sentence_silence: %d; it is not negative", o.MaxSentenceSilence)
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
		return nil, fmt.Errorf("asr: dashscope: %w", err)
	}
	o.URL = cmp.Or(o.URL, DefaultURL)
	return live.New(clock, "dashscope", o.SampleRate, o.Options, service{clock, o}.open), nil
}

type command struct {
	Header  map[string]string `json:"header"`
	Payload map[string]any    `json:"payload"`
}

// run returns the message that begins the task.
func (r service) run(req asr.Request, task string) command {
	parameters := map[string]any{"format": "pcm", "sample_rate": r.o.SampleRate, "max_sentence_silence": r.o.MaxSentenceSilence}
	if req.Language != "" {
		parameters["language_hints"] = []string{req.Language}
	}
	maps.Copy(parameters, r.o.Parameters)
	return command{
		map[string]string{"action": "run-task", "task_id": task, "streaming": "duplex"},
		map[string]any{"task_group": "audio", "task": "asr", "function": "recognition", "model": r.o.Model, "parameters": parameters, "input": map[string]any{}},
	}
}

func (r service) open(ctx context.Context, req asr.Request) (live.Session, error) {
	header := http.Header{}
	if r.o.Key != "" {
		header.Set("Authorization", "Bearer "+r.o.Key)
	}
	if req.RequestID != "" {
		header.Set("X-Request-Id", req.RequestID)
	}
	began := r.clock.Now()
	conn, err := r.o.Connect(ctx, r.clock, r.o.URL, header)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	rand.Read(id) // never fails
	s := &session{conn: conn, task: hex.EncodeToString(id)}
	if err := s.start(ctx, r.run(req, s.task)); err != nil {
		s.Close()
		return nil, err
	}
	r.o.Ready(r.clock, req.RequestID, began)
	return s, nil
}

// A session is one task.
type session struct {
	conn  *socket.Conn
	task  string
	ended atomic.Bool // finish-task is on its way
}

// start begins the task and waits until it has begun.
func (s *session) start(ctx context.Context, c command) error {
	if err := s.send(c); err != nil {
		return err
	}
	for {
		m, err := s.conn.Next(ctx)
		if err != nil {
			return err
		}
		e, err := read(m.Data)
		if err != nil || e.Header.Event == "task-started" {
			return err
		}
	}
}

func (s *session) send(c command) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = s.conn.Send(true, text)
	return err
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) { return s.conn.Send(false, live.PCM(f)) }

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return true, s.End(false) }

// End implements live.Session.
func (s *session) End(bool) error {
	s.ended.Store(true)
	return s.send(command{
		map[string]string{"action": "finish-task", "task_id": s.task, "streaming": "duplex"},
		map[string]any{"input": map[string]any{}},
	})
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, err := s.conn.Next(ctx)
	if err != nil || !m.Text {
		return nil, err
	}
	e, err := read(m.Data)
	if err != nil {
		return nil, err
	}
	if e.Header.Event == "task-finished" {
		return nil, io.EOF
	}
	return e.results(m.Arrived, s.ended.Load()), nil
}

// Close implements live.Session.
func (s *session) Close() { s.conn.Close(1000, "") }

// An event is a message of the service.
type event struct {
	Header struct {
		Event   string `json:"event"`
		Code    string `json:"error_code"`
		Message string `json:"error_message"`
	} `json:"header"`
	Payload struct {
		Output struct {
			Sentence *struct {
				Text        string `json:"text"`
				EndTime     *int64 `json:"end_time"`
				SentenceEnd bool   `json:"sentence_end"`
				Heartbeat   bool   `json:"heartbeat"`
			} `json:"sentence"`
		} `json:"output"`
	} `json:"payload"`
}

// read reads a message. A failure of the task is an error.
func read(data []byte) (event, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, failure.JSON("a message", data, err)
	}
	if e.Header.Event == "task-failed" {
		return e, fmt.Errorf("the service says %s", live.Said(e.Header.Code, e.Header.Message))
	}
	return e, nil
}

// results says what the event means. asked: the service has been told that the
// speech is over.
func (e event) results(at time.Duration, asked bool) []asr.Result {
	s := e.Payload.Output.Sentence
	if e.Header.Event != "result-generated" || s == nil || s.Heartbeat {
		return nil
	}
	text := strings.TrimSpace(s.Text)
	if !s.SentenceEnd || s.EndTime == nil {
		return []asr.Result{{At: at, Kind: asr.Partial, Text: text}}
	}
	results := []asr.Result{{At: at, Kind: asr.Final, Text: text}}
	if !asked {
		results = append(results, asr.Result{At: at, Kind: asr.Endpoint})
	}
	return results
}
