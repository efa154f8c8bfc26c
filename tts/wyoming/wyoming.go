// Package wyoming speaks through a server of Home Assistant's Wyoming protocol,
// which wyoming-piper is. A connection serves an answer, one piece of text after
// the other. The first sound is the first audio-chunk with a payload. The protocol
// has no request IDs.
package wyoming

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/url"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/live"
)

// DefaultURL is where wyoming-piper listens on the same machine.
const DefaultURL = "tcp://127.0.0.1:10200"

// Options are how the server is asked. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Voice   string `yaml:"voice"`   // where the request names none; empty: the server's own
	Speaker string `yaml:"speaker"` // of a voice with several
}

// Defaults are the server's own voice at DefaultURL.
func Defaults() Options { return Options{} }

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error { return o.CheckURL("tcp") }

// A Synthesizer asks a server. It may be used by several turns at once.
type Synthesizer struct {
	clock clocks.Clock
	o     Options
	addr  string
}

// New returns a Synthesizer on clock.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: wyoming: %w", err)
	}
	u, err := url.Parse(cmp.Or(o.URL, DefaultURL))
	if err != nil {
		return nil, errors.New("tts: wyoming: url: it is none")
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "10200")
	}
	return &Synthesizer{clock, o, addr}, nil
}

// Speak implements tts.Synthesizer. The connection is made with the first text.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		var l *line
		defer func() {
			if l != nil {
				l.close()
			}
		}()
		live.Pieces(ctx, s.clock, text, live.Speaker{Name: "wyoming", Say: func(ctx context.Context, _ int, text string, tell live.Teller) (err error) {
			if l == nil {
				if l, err = s.connect(ctx); err != nil {
					return err
				}
			}
			return s.say(ctx, l, req, text, tell)
		}})(yield)
	}
}

// timeout returns how long the server may be silent.
func (s *Synthesizer) timeout() time.Duration { return cmp.Or(s.o.Timeout, live.DefaultTimeout) }

var errGone = failure.Errorf(failure.Closed, "the server closed the connection")

// connect opens a connection, and reads it from then on.
func (s *Synthesizer) connect(ctx context.Context) (*line, error) {
	ctx, cancel := clocks.WithTimeout(ctx, s.clock, s.timeout(), live.Unconnected(s.timeout()))
	defer cancel()
	conn, err := s.o.Dialer()(ctx, "tcp", s.addr)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	l := &line{conn: arrival.Wrap(conn, s.clock), events: clocks.NewQueue[event](s.clock, "events of wyoming"), done: clocks.NewQueue[struct{}](s.clock, "the end of wyoming")}
	s.clock.Go("wyoming reader", l.read)
	return l, nil
}

// say speaks a piece.
func (s *Synthesizer) say(ctx context.Context, l *line, req tts.Request, text string, tell live.Teller) error {
	if err := tell(tts.Chunk{At: s.clock.Now(), Connected: true}); err != nil {
		return err
	}
	ask := map[string]any{"text": text}
	voice := map[string]any{}
	for key, value := range map[string]string{"name": cmp.Or(req.Voice, s.o.Voice), "speaker": s.o.Speaker, "language": req.Language} {
		if value != "" && (key != "language" || req.Voice == "" && s.o.Voice == "") {
			voice[key] = value
		}
	}
	if len(voice) > 0 {
		ask["voice"] = voice
	}
	message, err := json.Marshal(map[string]any{"type": "synthesize", "data": ask})
	if err != nil {
		return err
	}
	if _, err := l.conn.Write(append(message, '\n')); err != nil {
		return err
	}
	var d live.Decoder
	for {
		limited, cancel := clocks.WithTimeout(ctx, s.clock, s.timeout(), live.Silent(s.timeout()))
		e, ok := l.events.Get(limited)
		cause := context.Cause(limited)
		cancel()
		switch {
		case !ok && cause != nil && cause != context.Canceled:
			return cause
		case !ok:
			return errGone
		case e.err != nil:
			return e.err
		}
		switch e.Type {
		case "audio-start", "audio-chunk":
			if d == nil {
				if d, err = e.decoder(); err != nil {
					return err
				}
			}
			if err := live.Decode(d, e.payload, e.at, tell); err != nil {
				return err
			}
		case "audio-stop":
			if d == nil {
				return nil // without a sound: the caller's error
			}
			return live.Finish(d, e.at, tell)
		case "error":
			return errors.New(live.Said(e.Data.Code, e.Data.Text))
		}
	}
}

// A line is a connection.
type line struct {
	conn   *arrival.Conn
	events *clocks.Queue[event]
	done   *clocks.Queue[struct{}]
}

// read stamps events as they come.
func (l *line) read() {
	defer l.done.Close()
	defer l.events.Close()
	r := bufio.NewReaderSize(l.conn, 64<<10)
	for {
		e, err := readEvent(r)
		if err == io.EOF {
			err = errGone
		}
		e.err, e.at = err, l.conn.Last().Arrived
		l.events.Put(e)
		if err != nil {
			return
		}
	}
}

func (l *line) close() {
	l.conn.Close()
	l.done.Get(context.Background())
}

// An event is one of the protocol, as far as speech needs it.
type event struct {
	Type string `json:"type"`
	Data about  `json:"data"`

	DataLength    int `json:"data_length"`
	PayloadLength int `json:"payload_length"`

	payload []byte
	at      time.Duration
	err     error
}

type about struct {
	Rate     int    `json:"rate"`
	Width    int    `json:"width"`
	Channels int    `json:"channels"`
	Text     string `json:"text"`
	Code     string `json:"code"`
}

// The bounds of an event, in bytes.
const (
	maxLine    = 64 << 10
	maxPayload = 16 << 20
)

// readEvent reads a line of JSON, its data, which may come apart, and a payload.
func readEvent(r *bufio.Reader) (e event, err error) {
	var text []byte
	for more := true; more; {
		var part []byte
		if part, more, err = r.ReadLine(); err != nil {
			return e, err
		}
		if text = append(text, part...); len(text) > maxLine {
			return e, fmt.Errorf("an event begins with more than %d bytes", maxLine)
		}
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, failure.JSON("an event", text, err)
	}
	if e.DataLength < 0 || e.DataLength > maxLine || e.PayloadLength < 0 || e.PayloadLength > maxPayload {
		return e, fmt.Errorf("an event has %d bytes of data and %d of payload: too many", e.DataLength, e.PayloadLength)
	}
	data := make([]byte, e.DataLength)
	if _, err := io.ReadFull(r, data); err != nil {
		return e, cutOff(err)
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &e.Data); err != nil {
			return e, failure.JSON("the data of an event", data, err)
		}
	}
	e.payload = make([]byte, e.PayloadLength)
	_, err = io.ReadFull(r, e.payload)
	return e, cutOff(err)
}

// cutOff makes the end of a stream in an event an error.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return failure.Errorf(failure.Closed, "the connection ended in the middle of an event")
	}
	return err
}

// decoder returns what reads the sound that e describes.
func (e event) decoder() (live.Decoder, error) {
	if e.Data.Width != 2 || e.Data.Channels != 1 {
		return nil, fmt.Errorf("the sound has %d bytes a sample and %d channels; 2 and 1 can be read", e.Data.Width, e.Data.Channels)
	}
	if err := audio.CheckRate(e.Data.Rate); err != nil {
		return nil, err
	}
	return live.NewDecoder(live.S16, e.Data.Rate)
}
