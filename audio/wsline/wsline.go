// Package wsline carries the sound of a call over a WebSocket, at both ends: binary
// frames of PCM or µ-law with JSON beside them, or Twilio Media Streams' messages.
//
// # The plain dialect
//
// The client connects to …/ws?format=pcm16&rate=16000 (pcm16: little-endian, 8000 to
// 48000 samples a second; mulaw: 8000). Binary messages are sound, without a header,
// whose samples follow each other without gaps: the number of a sample is its place. What the client
// sends is its microphone, from its first message on, so it has to go on in silence.
// What the server sends is paced too: 20 ms at a time, and in silence nothing; each
// stretch begins with the text message {"type":"start"} and ends with {"type":"end"},
// or, when it was cut off, with {"type":"clear"}: what is buffered must not be played.
// Other text messages are JSON and the caller's business.
//
// # Twilio
//
// The client is Twilio's side, which connects, sends "connected" and "start", and then
// "media" with µ-law at 8000 as base64; the server sends "media", "mark" and "clear"
// with the streamSid. (Twilio's documentation of Media Streams, WebSocket messages.)
//
// A WebSocket is TCP: nothing is lost, and what is late holds up what comes after it.
package wsline

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/clocks/socket"
)

// Packet is the sound in one message that is sent.
const Packet = codec.Frame

// MaxMessage bounds a message that is read, in bytes: a second of sound at 48 kHz, as
// base64, and more.
const MaxMessage = 1 << 18

// A Dialect names what the messages look like.
type Dialect string

// The dialects.
const (
	Plain  Dialect = "plain"
	Twilio Dialect = "twilio"
)

// A Format is how samples are written.
type Format struct {
	Name string // pcm16 or mulaw
	Rate int
}

// ReadFormat reads the query of a plain line's URL. Without one it is PCM at 16000.
func ReadFormat(q url.Values) (Format, error) {
	f := Format{Name: q.Get("format"), Rate: 16000}
	switch f.Name {
	case "", "pcm16":
		f.Name = "pcm16"
	case "mulaw":
		f.Rate = 8000
	default:
		return f, fmt.Errorf("wsline: format %q is not pcm16 or mulaw", f.Name)
	}
	if text := q.Get("rate"); text != "" {
		rate, err := strconv.Atoi(text)
		if err != nil || rate < 8000 || rate > 48000 || rate%50 != 0 || f.Name == "mulaw" && rate != 8000 {
			return f, fmt.Errorf("wsline: rate %q: pcm16 has 8000 to 48000 in steps of 50, mulaw has 8000", text)
		}
		f.Rate = rate
	}
	return f, nil
}

// encode writes the samples of one packet.
func (c *Conn) encode(pcm []int16) ([]byte, error) {
	if c.mulaw != nil {
		return c.mulaw.Encode(audio.Frame{Rate: 8000, PCM: pcm})
	}
	out := make([]byte, 0, 2*len(pcm))
	for _, x := range pcm {
		out = binary.LittleEndian.AppendUint16(out, uint16(x))
	}
	return out, nil
}

// decode reads samples. Half a sample at the end is an error.
func (c *Conn) decode(data []byte) (audio.Frame, error) {
	if c.heard != nil {
		if len(data) == 0 {
			return audio.Frame{Rate: 8000}, nil
		}
		return c.heard.Decode(data)
	}
	if len(data)%2 != 0 {
		return audio.Frame{}, fmt.Errorf("wsline: %d bytes are no whole number of 16-bit samples", len(data))
	}
	out := make([]int16, len(data)/2)
	for i := range out {
		out[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return audio.Frame{Rate: c.o.Format.Rate, PCM: out}, nil
}

// A Heard is sound or a message that came.
type Heard struct {
	Sound   audio.Frame // empty in other messages
	Place   int64       // of its first sample, from the first that came
	Text    []byte      // of a plain line: JSON that is not the line's own
	Event   string      // start, end or clear, of a plain line; of Twilio, the event
	Arrived time.Duration
	Read    time.Duration
	Kernel  bool
}

// Options are the settings of a Conn.
type Options struct {
	Clock   clocks.Clock
	Dialect Dialect
	Format  Format // Twilio: mulaw at 8000
	Server  bool
	Steady  bool // send silence too, as a microphone does
	Stream  string
}

// A Sent is a message of sound that was sent.
type Sent struct {
	At, Due time.Duration
	Place   int64 // of its first sample
}

// A Conn is one end of a line.
type Conn struct {
	o     Options
	c     *socket.Conn
	place int64         // of what is heard next
	mulaw codec.Encoder // nil: PCM
	heard codec.Decoder // the same

	mu     sync.Mutex
	stream string
	queue  []int16
	head   time.Duration // when the first sample in queue is said
	sealed time.Duration // what was said before is sent
	sent   int64         // samples
	saying bool
	begun  time.Duration // of the pacing
	log    []Sent
	closed bool
	woken  chan struct{}
}

// New makes a line of a WebSocket. Run has to be called.
func New(c *socket.Conn, o Options) (*Conn, error) {
	if o.Dialect == Twilio {
		o.Format = Format{"mulaw", 8000}
	}
	l := &Conn{o: o, c: c, stream: o.Stream, woken: make(chan struct{}, 1)}
	if o.Format.Name != "mulaw" {
		return l, nil
	}
	var err error
	if l.mulaw, err = codec.NewEncoder(codec.PCMU, codec.Options{}); err != nil {
		return nil, err
	}
	l.heard, err = codec.NewDecoder(codec.PCMU)
	return l, err
}

// Format returns how the samples are written.
func (c *Conn) Format() Format { return c.o.Format }

var errClosed = errors.New("wsline: the line is closed")

// Speak says f after what was said before, or from now on.
func (c *Conn) Speak(f audio.Frame) (time.Duration, error) {
	if f.Rate != c.o.Format.Rate {
		return 0, fmt.Errorf("wsline: sound at %d samples a second on a line at %d", f.Rate, c.o.Format.Rate)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errClosed
	}
	now := c.o.Clock.Now()
	if len(c.queue) == 0 {
		c.head = max(now, c.sealed)
	}
	at := c.head + audio.Span(len(c.queue), f.Rate)
	c.queue = append(c.queue, f.PCM...)
	select {
	case c.woken <- struct{}{}:
	default:
	}
	return at, nil
}

// Hush cuts off what is to be said after now, and returns how much that was.
func (c *Conn) Hush() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := audio.Span(len(c.queue), c.o.Format.Rate)
	c.queue = nil
	if c.saying {
		c.saying = false
		c.control("clear")
	}
	return cut
}

// Sent returns what was sent since the last call.
func (c *Conn) Sent() []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log
	c.log = nil
	return log
}

// maxLog bounds the log, in messages: ten minutes.
const maxLog = 30_000

// Run sends what is said, at its time, until ctx ends or the line breaks. A steady
// line sends a message every 20 ms; another one begins when something is said. Due is
// when the sound of a message has been said.
func (c *Conn) Run(ctx context.Context) error {
	clock := c.o.Clock
	due := clock.Now() + Packet
	c.mu.Lock()
	c.begun, c.sealed = due-Packet, due-Packet
	c.mu.Unlock()
	for {
		if err := clock.SleepUntil(ctx, due); err != nil {
			return err
		}
		if err := c.tick(due); err != nil {
			return err
		}
		due += Packet
		if c.o.Steady {
			continue
		}
		c.mu.Lock()
		idle := len(c.queue) == 0
		c.mu.Unlock()
		if !idle {
			continue
		}
		select {
		case <-c.woken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c.mu.Lock()
		if len(c.queue) > 0 && c.head >= due-Packet { // the next message begins with it
			due = c.head + Packet
		}
		c.mu.Unlock()
	}
}

// tick sends the sound up to due.
func (c *Conn) tick(due time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate := c.o.Format.Rate
	n := audio.Samples(Packet, rate)
	from := due - Packet
	c.sealed = due
	pcm := make([]int16, n)
	skip := 0
	if len(c.queue) > 0 && c.head > from {
		skip = min(n, audio.Samples(c.head-from, rate))
	}
	k := 0
	if len(c.queue) > 0 {
		k = copy(pcm[skip:], c.queue)
	}
	c.queue = c.queue[k:]
	c.head = due
	if k == 0 && !c.o.Steady {
		return nil
	}
	if !c.o.Steady && !c.saying {
		c.saying = true
		if err := c.control("start"); err != nil {
			return err
		}
	}
	at, err := c.send(pcm)
	if err != nil {
		return err
	}
	if len(c.log) < maxLog {
		c.log = append(c.log, Sent{At: at, Due: due, Place: c.sent})
	}
	c.sent += int64(len(pcm))
	if !c.o.Steady && len(c.queue) == 0 {
		c.saying = false
		return c.control("end")
	}
	return nil
}

func (c *Conn) send(pcm []int16) (time.Duration, error) {
	data, err := c.encode(pcm)
	if err != nil {
		return 0, fmt.Errorf("wsline: %w", err)
	}
	if c.o.Dialect == Plain {
		return c.c.Send(false, data)
	}
	m := map[string]any{"event": "media", "streamSid": c.stream, "media": map[string]string{"payload": base64.StdEncoding.EncodeToString(data)}}
	if !c.o.Server {
		m["media"] = map[string]string{"track": "inbound", "timestamp": strconv.FormatInt(c.sent/8, 10), "payload": base64.StdEncoding.EncodeToString(data)}
	}
	return c.sendJSON(m)
}

func (c *Conn) sendJSON(v any) (time.Duration, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("wsline: %w", err)
	}
	return c.c.Send(true, text)
}

// control tells the other side where a stretch of sound begins and ends.
func (c *Conn) control(kind string) error {
	var err error
	switch {
	case c.o.Dialect == Plain:
		_, err = c.sendJSON(map[string]string{"type": kind})
	case c.o.Server && kind == "clear":
		_, err = c.sendJSON(map[string]string{"event": "clear", "streamSid": c.stream})
	case c.o.Server && kind == "end":
		_, err = c.sendJSON(map[string]any{"event": "mark", "streamSid": c.stream, "mark": map[string]string{"name": "end"}})
	}
	return err
}

// Tell sends a text message of a plain line.
func (c *Conn) Tell(text []byte) error {
	if c.o.Dialect != Plain {
		return nil // Twilio would not know it
	}
	_, err := c.c.Send(true, text)
	return err
}

// Greet sends what Twilio sends first.
func (c *Conn) Greet() error {
	if c.o.Dialect != Twilio || c.o.Server {
		return nil
	}
	if _, err := c.sendJSON(map[string]string{"event": "connected", "protocol": "Call", "version": "1.0.0"}); err != nil {
		return err
	}
	_, err := c.sendJSON(map[string]any{"event": "start", "sequenceNumber": "1", "streamSid": c.stream, "start": map[string]any{
		"streamSid": c.stream, "accountSid": "AC0", "callSid": "CA0", "tracks": []string{"inbound"},
		"mediaFormat": map[string]any{"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
	}})
	return err
}

// Hear waits for the next sound or message.
func (c *Conn) Hear(ctx context.Context) (Heard, error) {
	m, err := c.c.Next(ctx)
	if err != nil {
		return Heard{}, err
	}
	h := Heard{Arrived: m.Arrived, Read: m.Read, Kernel: m.Kernel}
	switch {
	case c.o.Dialect == Plain && !m.Text:
		return c.sound(h, m.Data)
	case !m.Text:
		return h, errors.New("wsline: a binary message on a line of Twilio's")
	case c.o.Dialect == Plain:
		var w struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(m.Data, &w); err != nil {
			return h, fmt.Errorf("wsline: %w", failure.JSON("a text message", m.Data, err))
		}
		if w.Type == "start" || w.Type == "end" || w.Type == "clear" {
			h.Event = w.Type
		} else {
			h.Text = m.Data
		}
		return h, nil
	}
	return c.twilio(h, m.Data)
}

func (c *Conn) sound(h Heard, data []byte) (Heard, error) {
	f, err := c.decode(data)
	if err != nil {
		return h, err
	}
	h.Sound, h.Place = f, c.place
	c.place += int64(len(f.PCM))
	return h, nil
}

// twilio reads a message of Twilio's dialect.
func (c *Conn) twilio(h Heard, data []byte) (Heard, error) {
	var m struct {
		Event  string `json:"event"`
		Stream string `json:"streamSid"`
		Start  struct {
			Stream string `json:"streamSid"`
			Format struct {
				Encoding string `json:"encoding"`
				Rate     int    `json:"sampleRate"`
			} `json:"mediaFormat"`
		} `json:"start"`
		Media struct {
			Payload string `json:"payload"`
			Track   string `json:"track"`
		} `json:"media"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return h, fmt.Errorf("wsline: twilio: %w", failure.JSON("a message", data, err))
	}
	h.Event = m.Event
	switch m.Event {
	case "start":
		if e := m.Start.Format.Encoding; e != "" && !strings.EqualFold(e, "audio/x-mulaw") || m.Start.Format.Rate != 0 && m.Start.Format.Rate != 8000 {
			return h, fmt.Errorf("wsline: twilio: mediaFormat %s at %d is not audio/x-mulaw at 8000", e, m.Start.Format.Rate)
		}
		c.mu.Lock()
		c.stream = m.Stream
		if c.stream == "" {
			c.stream = m.Start.Stream
		}
		c.mu.Unlock()
	case "media":
		if m.Media.Track != "" && m.Media.Track != "inbound" {
			return h, nil // the other side's own voice
		}
		payload, err := base64.StdEncoding.DecodeString(m.Media.Payload)
		if err != nil {
			return h, fmt.Errorf("wsline: twilio: the payload: %w", err)
		}
		return c.sound(h, payload)
	}
	return h, nil
}

// Close ends the line.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.c.Close(1000, "")
}
