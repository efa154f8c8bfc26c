// Package cosyvoice speaks with Alibaba's CosyVoice through DashScope's task
// protocol over a WebSocket.
//
// The service speaks text as it finds sentences in it, and what is no sentence
// only when the task is finished: each piece of text is a task of its own, of which
// the first is begun as soon as there is a connection, before the text. Tasks run
// one after the other on a connection, and the next answer uses it again. The first
// sound is the first binary message with a sample in it. A task is named after the
// request.
package cosyvoice

import (
	"cmp"
	"context"
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
	"firstsound/clocks/socket"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Env is the environment variable in which users keep their key.
const Env = "DASHSCOPE_API_KEY"

// DefaultURL is DashScope's address in China; dashscope-intl.aliyuncs.com is the
// one elsewhere.
const DefaultURL = "wss://dashscope.aliyuncs.com/api-ws/v1/inference/"

// Options are how DashScope is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Model      string  `yaml:"model"`
	Voice      string  `yaml:"voice"`  // where the request names none
	Format     string  `yaml:"format"` // pcm, wav, mp3 or opus
	SampleRate int     `yaml:"sample_rate"`
	Volume     int     `yaml:"volume"` // 0 … 100
	Rate       float64 `yaml:"rate"`   // 0.5 … 2
	Pitch      float64 `yaml:"pitch"`  // 0.5 … 2

	KeepAlive time.Duration  `yaml:"keep_alive"` // how long a connection is kept for the next answer; 0: not at all
	Extra     map[string]any `yaml:"extra"`      // more parameters of the task; they win
}

// Defaults are cosyvoice-v2 as xiaozhi-esp32-server asks it. DashScope keeps a
// connection for 60 s between two tasks.
func Defaults() Options {
	return Options{Model: "cosyvoice-v2", Voice: "longxiaochun_v2", Format: "pcm", SampleRate: 24000, Volume: 50, Rate: 1, Pitch: 1, KeepAlive: 50 * time.Second}
}

var encodings = map[string]string{"pcm": live.S16, "wav": live.WAV, "mp3": live.MP3, "opus": live.Opus}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.Model == "":
		return errors.New("model: it is empty")
	case o.Voice == "":
		return errors.New("voice: it is empty")
	case encodings[o.Format] == "":
		return fmt.Errorf("format: %q; it is pcm, wav, mp3 or opus", o.Format)
	case o.Volume < 0 || o.Volume > 100:
		return fmt.Errorf("volume: %d does not lie between 0 and 100", o.Volume)
	case !(o.Rate >= 0.5 && o.Rate <= 2):
		return fmt.Errorf("rate: %v does not lie between 0.5 and 2", o.Rate)
	case !(o.Pitch >= 0.5 && o.Pitch <= 2):
		return fmt.Errorf("pitch: %v does not lie between 0.5 and 2", o.Pitch)
	case o.KeepAlive < 0:
		return fmt.Errorf("keep_alive: %v is negative", o.KeepAlive)
	}
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	return o.CheckURL("ws", "wss")
}

// A Synthesizer asks DashScope. It may be used by several turns at once: each has
// a connection of its own.
type Synthesizer struct {
	clock clocks.Clock
	o     Options
	pool  *live.Pool
	tasks atomic.Int64
}

// New returns a Synthesizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: cosyvoice: %w", err)
	}
	u, err := live.Address(cmp.Or(o.URL, DefaultURL), live.WebSocket, "/api-ws/v1/inference/")
	if err != nil {
		return nil, fmt.Errorf("tts: cosyvoice: %w", err)
	}
	o.URL = u.String()
	return &Synthesizer{clock: clock, o: o, pool: live.NewPool(clock, o.KeepAlive)}, nil
}

// Close closes all connections that are not in use.
func (s *Synthesizer) Close() { s.pool.Close() }

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		a := &answer{Synthesizer: s, req: req}
		whole := false
		defer func() { a.close(whole) }()
		stopped := false
		live.Pieces(ctx, s.clock, text, live.Speaker{Name: "cosyvoice", Key: s.o.Key, Open: a.open, Say: a.say})(func(c tts.Chunk, err error) bool {
			more := yield(c, err)
			stopped = stopped || !more || err != nil
			return more
		})
		whole = !stopped && !a.running
	}
}

// An answer is one at work.
type answer struct {
	*Synthesizer
	req     tts.Request
	conn    *socket.Conn
	id      string // of the task
	running bool   // it was begun, and has not ended
}

// open connects and begins a task.
func (a *answer) open(ctx context.Context, tell live.Teller) error {
	h := http.Header{}
	h.Set("X-Dashscope-Datainspection", "enable")
	if a.o.Key != "" {
		h.Set("Authorization", "Bearer "+a.o.Key)
	}
	if a.req.RequestID != "" {
		h.Set("X-Request-Id", a.req.RequestID)
	}
	limited, cancel := clocks.WithTimeout(ctx, a.clock, a.timeout(), live.Unconnected(a.timeout()))
	defer cancel()
	conn, err := a.o.Connect(limited, a.clock, a.pool, a.o.URL, h)
	if err != nil {
		return err
	}
	a.conn = conn
	if err := a.begin(); err != nil {
		return err
	}
	return tell(tts.Chunk{At: a.clock.Now(), Connected: true})
}

func (a *answer) timeout() time.Duration { return cmp.Or(a.o.Timeout, live.DefaultTimeout) }

// begin begins a task. That it has begun comes later.
func (a *answer) begin() error {
	a.id = fmt.Sprintf("%s-%d", cmp.Or(a.req.RequestID, "firstsound"), a.tasks.Add(1))
	o := a.o
	p := map[string]any{"text_type": "PlainText", "voice": cmp.Or(a.req.Voice, o.Voice), "format": o.Format, "sample_rate": o.SampleRate, "volume": o.Volume, "rate": o.Rate, "pitch": o.Pitch}
	maps.Copy(p, o.Extra)
	a.running = true
	return a.send("run-task", map[string]any{"task_group": "audio", "task": "tts", "function": "SpeechSynthesizer", "model": o.Model, "parameters": p, "input": map[string]any{}})
}

func (a *answer) send(action string, payload map[string]any) error {
	return live.SendJSON(a.conn, map[string]any{"header": map[string]any{"action": action, "task_id": a.id, "streaming": "duplex"}, "payload": payload})
}

// say speaks a piece: the text goes out once the task has begun.
func (a *answer) say(ctx context.Context, _ int, text string, tell live.Teller) error {
	if !a.running {
		if err := a.begin(); err != nil {
			return err
		}
	}
	d, err := live.NewDecoder(encodings[a.o.Format], a.o.SampleRate)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		limited, cancel := clocks.WithTimeout(ctx, a.clock, a.timeout(), live.Silent(a.timeout()))
		m, err := a.conn.Next(limited)
		cancel()
		if err != nil {
			return err
		}
		if !m.Text {
			if err := live.Decode(d, m.Data, m.Arrived, tell); err != nil {
				return err
			}
			continue
		}
		event, err := read(m.Data, a.id)
		switch {
		case err != nil:
			return err
		case event == "task-started":
			if err := a.send("continue-task", map[string]any{"input": map[string]any{"text": text}}); err != nil {
				return err
			}
			if err := a.send("finish-task", map[string]any{"input": map[string]any{}}); err != nil {
				return err
			}
		case event == "task-finished":
			a.running = false
			return live.Finish(d, m.Arrived, tell)
		}
	}
}

// read returns the event of a message, if it is of the task.
func read(data []byte, id string) (string, error) {
	var m struct {
		Header struct {
			Event   string `json:"event"`
			Task    string `json:"task_id"`
			Code    string `json:"error_code"`
			Message string `json:"error_message"`
		} `json:"header"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return "", failure.JSON("a message", data, err)
	}
	h := m.Header
	if h.Event == "task-failed" {
		return "", errors.New(cmp.Or(live.Said(h.Code, h.Message), "the task failed without words"))
	}
	if h.Task != id {
		return "", nil // of a task before this one
	}
	return h.Event, nil
}

// close lets go of the connection. A task that was begun for a text that never
// came ends with it.
func (a *answer) close(whole bool) {
	switch {
	case a.conn == nil:
	case whole:
		a.pool.Put(a.conn)
	default:
		a.conn.Close(1000, "")
	}
}
