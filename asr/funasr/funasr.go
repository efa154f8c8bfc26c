// Package funasr recognizes speech with a FunASR server over a WebSocket: the
// runtime's in C++ and the script in Python, old and new, which differ in when
// they say that a result is the last.
//
// An online result adds to the Partial, an offline one is a Final. In mode 2pass
// an offline result that nobody asked for is an Endpoint too: the server's VAD
// has found the end of a sentence.
package funasr

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

// DefaultURL is where the runtime's server listens, started without a
// certificate.
const DefaultURL = "ws://127.0.0.1:10095"

// The quirks.
const (
	CPP       = "cpp"    // is_final answers is_speaking:false, but never comes in mode offline
	PythonOld = "py-old" // is_final is true while the client speaks, and false in the last answer
	PythonNew = "py-new" // is_end answers is_end
)

// Options are how the server is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Quirk         string `yaml:"quirk"`          // cpp, py-old, py-new
	Mode          string `yaml:"mode"`           // 2pass, online, offline
	ChunkSize     []int  `yaml:"chunk_size"`     // look-back, chunk and look-ahead, in units of 60 ms
	ChunkInterval int    `yaml:"chunk_interval"` // messages a chunk
	SampleRate    int    `yaml:"audio_fs"`       // sound of another rate is resampled
	ITN           bool   `yaml:"itn"`
	Hotwords      string `yaml:"hotwords"` // a JSON object as text: {"小智":20}
}

// Defaults are the runtime's server in mode 2pass with chunks of 600 ms.
func Defaults() Options {
	return Options{Quirk: CPP, Mode: "2pass", ChunkSize: []int{5, 10, 5}, ChunkInterval: 10, SampleRate: 16000, ITN: true}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch o.Quirk {
	case CPP, PythonOld, PythonNew:
	default:
		return fmt.Errorf("quirk: %q; it is cpp, py-old or py-new", o.Quirk)
	}
	switch o.Mode {
	case "2pass", "online", "offline":
	default:
		return fmt.Errorf("mode: %q; it is 2pass, online or offline", o.Mode)
	}
	if len(o.ChunkSize) != 3 || o.ChunkInterval < 1 {
		return fmt.Errorf("chunk_size: %v, and chunk_interval %d; the first are three numbers, the other is at least 1", o.ChunkSize, o.ChunkInterval)
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("audio_fs: %w", err)
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
		return nil, fmt.Errorf("asr: funasr: %w", err)
	}
	o.URL = cmp.Or(o.URL, DefaultURL)
	return live.New(clock, "funasr", o.SampleRate, o.Options, service{clock, o}.open), nil
}

type hello struct {
	Mode          string `json:"mode"`
	ChunkSize     []int  `json:"chunk_size"`
	ChunkInterval int    `json:"chunk_interval"`
	WavName       string `json:"wav_name"`
	WavFormat     string `json:"wav_format"`
	AudioFS       int    `json:"audio_fs"`
	IsSpeaking    bool   `json:"is_speaking"`
	Hotwords      string `json:"hotwords"`
	ITN           bool   `json:"itn"`
}

func (r service) open(ctx context.Context, req asr.Request) (live.Session, error) {
	began := r.clock.Now()
	conn, err := r.o.Connect(ctx, r.clock, r.o.URL, nil, "binary")
	if err != nil {
		return nil, err
	}
	o := r.o
	text, err := json.Marshal(hello{o.Mode, o.ChunkSize, o.ChunkInterval, cmp.Or(req.RequestID, "firstsound"), "pcm", o.SampleRate, true, o.Hotwords, o.ITN})
	if err == nil {
		_, err = conn.Send(true, text)
	}
	if err != nil {
		conn.Close(1000, "")
		return nil, err
	}
	r.o.Ready(r.clock, req.RequestID, began)
	return &session{conn: conn, results: results{quirk: o.Quirk, mode: o.Mode}}, nil
}

// A session is one connection: it takes one utterance.
type session struct {
	conn    *socket.Conn
	ended   atomic.Bool // the server has been told that the speech is over
	results results
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) { return s.conn.Send(false, live.PCM(f)) }

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return true, s.End(false) }

// End implements live.Session.
func (s *session) End(bool) error {
	s.ended.Store(true)
	_, err := s.conn.Send(true, []byte(`{"is_speaking":false,"is_finished":true,"is_end":true}`))
	return err
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, err := s.conn.Next(ctx)
	if err != nil {
		return nil, err
	}
	return s.results.read(m.Data, m.Arrived, s.ended.Load())
}

// Close implements live.Session.
func (s *session) Close() { s.conn.Close(1000, "") }

// results reads the messages of the server.
type results struct {
	quirk, mode string
	said        string // by online results since the last Final
}

type message struct {
	Mode    string `json:"mode"`
	Text    string `json:"text"`
	IsFinal bool   `json:"is_final"`
	IsEnd   bool   `json:"is_end"`
	Error   string `json:"error"`
}

// maxText bounds the text between two Finals, in bytes.
const maxText = 1 << 20

// read says what a message means. asked: the server has been told that the
// speech is over. The error is io.EOF with the last message.
func (r *results) read(data []byte, at time.Duration, asked bool) ([]asr.Result, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, failure.JSON("a message", data, err)
	}
	switch {
	case m.Error != "":
		return nil, fmt.Errorf("the service says %s", m.Error)
	case strings.HasPrefix(m.Text, "ERROR."):
		return nil, fmt.Errorf("the service says %s", m.Text)
	case m.IsEnd && m.Text == "":
		return r.final("", at), io.EOF // empty if all has been said
	}
	last := asked && r.last(m)
	if m.Mode == "2pass-online" || m.Mode == "online" {
		if r.said += m.Text; len(r.said) > maxText {
			return nil, fmt.Errorf("the text is longer than %d bytes", maxText)
		}
		if last {
			return r.final("", at), io.EOF
		}
		return []asr.Result{{At: at, Kind: asr.Partial, Text: strings.TrimSpace(r.said)}}, nil
	}
	r.said = ""
	out := r.final(m.Text, at)
	switch {
	case last:
		return out, io.EOF
	case !asked && r.mode == "2pass":
		out = append(out, asr.Result{At: at, Kind: asr.Endpoint})
	}
	return out, nil
}

func (r *results) final(text string, at time.Duration) []asr.Result {
	text = strings.TrimSpace(r.said + text)
	r.said = ""
	return []asr.Result{{At: at, Kind: asr.Final, Text: text}}
}

// last says whether m is the last answer, now that the server has been asked for
// it.
func (r *results) last(m message) bool {
	offline := m.Mode == "2pass-offline" || m.Mode == "offline"
	switch r.quirk {
	case CPP:
		return m.IsFinal || m.Mode == "offline"
	case PythonOld:
		return !m.IsFinal && (offline || r.mode == "online")
	}
	return m.IsEnd
}
