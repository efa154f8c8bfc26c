// Package wyoming recognizes speech with a server of Home Assistant's Wyoming
// protocol, over TCP.
//
// The transcript comes when the server has been told that the sound ends; one
// that streams sends it piece by piece, which are Partials.
package wyoming

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/failure"
)

// DefaultURL is where wyoming-faster-whisper listens when nothing else is said.
const DefaultURL = "tcp://127.0.0.1:10300"

// Options are how the server is asked. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	Name       string `yaml:"name"` // of the model; empty: the server's choice
	SampleRate int    `yaml:"rate"` // sound of another rate is resampled
}

// Defaults are 16 kHz, which is what Home Assistant sends.
func Defaults() Options { return Options{SampleRate: 16000} }

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("rate: %w", err)
	}
	return o.CheckURL("tcp")
}

type service struct {
	clock  clocks.Clock
	o      Options
	addr   string
	source *arrival.Source
}

// New returns a recognizer on clock. Each turn has a connection of its own.
func New(clock clocks.Clock, o Options) (*live.Recognizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("asr: wyoming: %w", err)
	}
	u, err := url.Parse(cmp.Or(o.URL, DefaultURL))
	if err != nil {
		return nil, errors.New("asr: wyoming: url: it is none")
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "10300")
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return live.New(clock, "wyoming", o.SampleRate, o.Options, service{clock, o, addr, arrival.NewSource(clock)}.open), nil
}

type format struct {
	Rate      int   `json:"rate"`
	Width     int   `json:"width"`
	Channels  int   `json:"channels"`
	Timestamp int64 `json:"timestamp"` // ms
}

type transcribe struct {
	Name     string `json:"name,omitempty"`
	Language string `json:"language,omitempty"`
}

// connectTimeout is how long a connection may take to be made.
const connectTimeout = 10 * time.Second

func (r service) open(ctx context.Context, req asr.Request) (live.Session, error) {
	began := r.clock.Now()
	dialing, cancel := clocks.WithTimeout(ctx, r.clock, connectTimeout, failure.Errorf(failure.Timeout, "no connection within %v", connectTimeout))
	defer cancel()
	conn, err := r.o.Dial(dialing, "tcp", r.addr)
	if err != nil {
		if dialing.Err() != nil {
			err = context.Cause(dialing)
		}
		return nil, err
	}
	s := &session{clock: r.clock, conn: r.source.Wrap(conn), rate: r.o.SampleRate,
		in: clocks.NewQueue[incoming](r.clock, "events of a Wyoming server"), done: clocks.NewQueue[struct{}](r.clock, "the end of a connection")}
	r.clock.Go("wyoming reader", s.read)
	if _, err = s.send("transcribe", transcribe{r.o.Name, req.Language}, nil); err == nil {
		_, err = s.send("audio-start", format{Rate: s.rate, Width: 2, Channels: 1}, nil)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	r.o.Ready(r.clock, req.RequestID, began)
	return s, nil
}

// A session is one connection: it takes one utterance.
type session struct {
	clock clocks.Clock
	conn  *arrival.Conn
	rate  int
	sent  int // samples
	buf   []byte
	in    *clocks.Queue[incoming]
	done  *clocks.Queue[struct{}] // closed when the reader has ended
	text  string                  // by pieces
}

type incoming struct {
	Event
	at  time.Duration
	err error
}

// read stamps events as they come.
func (s *session) read() {
	defer s.done.Close()
	defer s.in.Close()
	b := bufio.NewReader(s.conn)
	for {
		e, err := Read(b)
		if err == io.EOF || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			err = failure.Errorf(failure.Closed, "the server closed the connection")
		}
		s.in.Put(incoming{e, s.conn.Last().Arrived, err})
		if err != nil {
			return
		}
	}
}

func (s *session) send(kind string, data any, payload []byte) (time.Duration, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return 0, err
	}
	if s.buf, err = (Event{kind, text, payload}).Append(s.buf[:0]); err != nil {
		return 0, err
	}
	at := s.clock.Now()
	_, err = s.conn.Write(s.buf)
	return at, err
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) {
	at := audio.Span(s.sent, s.rate)
	s.sent += len(f.PCM)
	return s.send("audio-chunk", format{s.rate, 2, 1, at.Milliseconds()}, live.PCM(f))
}

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return true, s.End(false) }

// End implements live.Session.
func (s *session) End(bool) error {
	_, err := s.send("audio-stop", struct{}{}, nil)
	return err
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, ok := s.in.Get(ctx)
	switch {
	case ok && m.err != nil:
		return nil, m.err
	case ok:
		return s.results(m.Event, m.at)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, failure.Errorf(failure.Closed, "the server closed the connection")
}

// maxText bounds a transcript, in bytes.
const maxText = 1 << 20

// results says what an event means. The error is io.EOF with the transcript.
func (s *session) results(e Event, at time.Duration) ([]asr.Result, error) {
	switch e.Type {
	case "transcript", "transcript-chunk", "error":
	default:
		return nil, nil
	}
	var v struct {
		Text string `json:"text"`
		Code string `json:"code"`
	}
	if err := json.Unmarshal(e.Data, &v); err != nil {
		return nil, failure.JSON(fmt.Sprintf("the data of %q", e.Type), e.Data, err)
	}
	switch e.Type {
	case "error":
		return nil, fmt.Errorf("the service says %s", live.Said(v.Code, v.Text))
	case "transcript-chunk":
		if s.text += v.Text; len(s.text) > maxText {
			return nil, fmt.Errorf("the transcript is longer than %d bytes", maxText)
		}
		return []asr.Result{{At: at, Kind: asr.Partial, Text: strings.TrimSpace(s.text)}}, nil
	}
	return []asr.Result{{At: at, Kind: asr.Final, Text: strings.TrimSpace(v.Text)}}, io.EOF
}

// Close implements live.Session.
func (s *session) Close() {
	s.conn.Close()
	s.done.Get(context.Background())
}
