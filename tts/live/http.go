package live

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/clocks/failure"
	"firstsound/tts"
)

// A Caller speaks pieces of text by one request over HTTP each.
type Caller struct {
	clock  clocks.Clock
	client *exchange.Client
	o      Options
}

// NewCaller returns a Caller on clock. It has to be closed.
func NewCaller(c clocks.Clock, o Options) *Caller {
	return &Caller{clock: c, o: o, client: exchange.New(c, exchange.Options{Protocol: exchange.Auto, TLS: o.TLS, Dial: o.Dial})}
}

// Close closes all connections.
func (c *Caller) Close() { c.client.Close() }

// A Post is a request for the sound of a piece of text.
type Post struct {
	URL    string
	Header http.Header
	Body   any // made JSON of

	// What the sound is if the answer's Content-Type does not say otherwise.
	Encoding string
	Rate     int

	// Events reads a text/event-stream, which is sound in text. Nil: there is none.
	Events func() Events
}

// Events reads the events of a stream.
type Events interface {
	// Event returns the encoded sound in an event, and whether it was the last.
	Event(name string, data []byte) (sound []byte, last bool, err error)
}

// The bounds of an answer: of what is no sound, and of a whole body.
const (
	maxWords = 4 << 10
	maxBody  = 256 << 20
)

// Say speaks one piece. It tells when the connection was there, and of the sound
// with the arrival of the bytes that completed it.
func (c *Caller) Say(ctx context.Context, p Post, tell Teller) error {
	body, err := json.Marshal(p.Body)
	if err != nil {
		return err
	}
	ctx, cancel := clocks.WithCancel(ctx, c.clock)
	defer cancel(nil)
	alarm := c.alarm(cancel)
	defer func() { alarm.Stop() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the address of the service is none") // err would repeat it
	}
	req.Header = p.Header.Clone()
	req.Header.Set("Content-Type", "application/json")
	x, err := c.client.Do(ctx, req)
	if err != nil {
		return err
	}
	defer x.Close()
	if x.Connected != nil {
		if err := tell(tts.Chunk{At: *x.Connected, Connected: true}); err != nil {
			return err
		}
	}
	b, err := newBody(x, p)
	if err != nil {
		return err
	}
	defer b.close()
	var fresh time.Duration // sound since the alarm was set
	say := func(chunk tts.Chunk) error {
		fresh += chunk.Sound.Duration()
		return tell(chunk)
	}
	alarm.Stop()
	alarm = c.alarm(cancel)
	for total := 0; ; {
		if fresh >= leastSound { // one byte after the other is no progress
			fresh = 0
			alarm.Stop()
			alarm = c.alarm(cancel)
		}
		r, err := x.Next()
		if err == io.EOF {
			return b.end(c.clock.Now(), say)
		}
		if err != nil {
			return err
		}
		if total += len(r.Data); total > maxBody {
			return fmt.Errorf("the answer has more than %d bytes", maxBody)
		}
		if done, err := b.take(r.Data, r.Arrived, say); done || err != nil {
			return err
		}
	}
}

func (c *Caller) alarm(cancel context.CancelCauseFunc) clocks.Alarm {
	d := c.o.timeout()
	return c.clock.At(c.clock.Now()+d, func() { cancel(Silent(d)) })
}

// body is the body of an answer.
type body struct {
	sound  Decoder
	events Events // nil: the body is the sound itself
	lines  lines
	words  []byte // of what is no sound
	status int
	refuse bool
	kind   string
	first  bool // of its bytes
}

func newBody(x *exchange.Exchange, p Post) (*body, error) {
	kind, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	b := &body{status: x.Status, kind: kind, first: true}
	encoding := p.Encoding
	switch {
	case x.Status != http.StatusOK:
		b.refuse = true
		return b, nil
	case kind == "text/event-stream" && p.Events != nil:
		b.events = p.Events()
	case strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json"):
		b.refuse = true
		return b, nil
	case kind == "audio/wav" || kind == "audio/x-wav" || kind == "audio/wave":
		encoding = WAV
	case kind == "audio/mpeg" || kind == "audio/mp3":
		encoding = MP3
	case kind == "audio/ogg" || kind == "audio/opus":
		encoding = Opus
	case kind == "audio/aac" || kind == "audio/flac":
		return nil, fmt.Errorf("the service sent %s; ask it for pcm, wav, mp3 or opus", kind)
	}
	var err error
	b.sound, err = NewDecoder(encoding, p.Rate)
	return b, err
}

func (b *body) close() {
	if b.sound != nil {
		b.sound.Close()
	}
}

// take takes the next bytes. It returns true if the rest does not matter.
func (b *body) take(data []byte, at time.Duration, tell Teller) (done bool, err error) {
	if b.first && b.events == nil && !b.refuse {
		// No sound begins as an object of JSON does, or a WAV where it is none.
		switch {
		case bytes.HasPrefix(data, []byte(`{"`)):
			b.refuse = true
		case bytes.HasPrefix(data, []byte("RIFF")):
			b.sound.Close()
			b.sound = &wav{}
		}
	}
	b.first = false
	switch {
	case b.refuse:
		b.words = append(b.words, data[:min(len(data), maxWords-len(b.words))]...)
		return len(b.words) == maxWords, b.full()
	case b.events == nil:
		return false, Decode(b.sound, data, at, tell)
	}
	return b.lines.push(data, func(name string, data []byte) (bool, error) {
		sound, last, err := b.events.Event(name, data)
		if err == nil && len(sound) > 0 {
			err = Decode(b.sound, sound, at, tell)
		}
		if err == nil && last {
			err = Finish(b.sound, at, tell)
		}
		return last, err
	})
}

func (b *body) full() error {
	if len(b.words) == maxWords {
		return b.refusal()
	}
	return nil
}

// refusal is the error of an answer that is no sound.
func (b *body) refusal() error {
	words := Words(b.words)
	if b.status != http.StatusOK {
		return &StatusError{Status: b.status, Words: words}
	}
	kind := b.kind
	if kind == "" {
		kind = "nothing that says what it is"
	}
	return fmt.Errorf("the service answered %s, not sound: %s", kind, words)
}

// end is called when the body is over.
func (b *body) end(at time.Duration, tell Teller) error {
	switch {
	case b.refuse:
		return b.refusal()
	case b.events != nil:
		return failure.Errorf(failure.Closed, "the stream of events ended before its last one")
	}
	return Finish(b.sound, at, tell)
}

// A StatusError is the answer of a service that refuses.
type StatusError struct {
	Status int
	Words  string // the service's own
}

// Kind returns what kind of failure it is: see failure.Of.
func (e *StatusError) Kind() failure.Kind { return failure.OfStatus(e.Status) }

// Error returns status and words.
func (e *StatusError) Error() string {
	return strings.TrimRight(fmt.Sprintf("the service answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Words), ": ")
}

// lines cuts a text/event-stream into events (HTML Standard, 9.2).
type lines struct {
	part []byte
	name string
	data []byte
}

const maxEvent = 16 << 20

// push hands over each event that data completes, until one returns true or fails.
func (l *lines) push(data []byte, event func(name string, data []byte) (bool, error)) (bool, error) {
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			if l.part = append(l.part, data...); len(l.part)+len(l.data) > maxEvent {
				return false, fmt.Errorf("an event has more than %d bytes", maxEvent)
			}
			return false, nil
		}
		line := bytes.TrimSuffix(append(l.part, data[:i]...), []byte("\r"))
		data = data[i+1:]
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			done, err := false, error(nil)
			if len(l.data) > 0 {
				done, err = event(l.name, bytes.TrimSuffix(l.data, []byte("\n")))
			}
			l.name, l.data = "", l.data[:0]
			if done || err != nil {
				return done, err
			}
		case string(name) == "event":
			l.name = string(value)
		case string(name) == "data":
			l.data = append(append(l.data, value...), '\n')
		}
		l.part = l.part[:0]
	}
	return false, nil
}
