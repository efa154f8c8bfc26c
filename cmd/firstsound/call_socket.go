package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/ear"
	"firstsound/audio/wsline"
	"firstsound/clocks"
	"firstsound/clocks/socket"
)

// A socketLine is a call over a WebSocket.
type socketLine struct {
	t     *talk
	conn  *wsline.Conn
	group *clocks.Group

	last wsline.Sent
	log  sendLog

	index   int64
	media   int64         // of the next sample
	arrived time.Duration // the last message of sound
	fresh   bool          // a new stretch of sound begins
}

// dialSocket calls over a WebSocket.
func (c *caller) dialSocket(ctx context.Context, t *talk) error {
	u := *c.address
	o := wsline.Options{Clock: c.clock, Dialect: wsline.Plain, Steady: true, Stream: "MZ" + c.requestID(t.number, 0)}
	if c.protocol == "twilio" {
		o.Dialect = wsline.Twilio
	}
	q := u.Query()
	if c.scenario != "" {
		q.Set("scenario", c.scenario)
	}
	if o.Dialect == wsline.Plain && q.Get("format") == "" {
		q.Set("format", map[string]string{codec.PCMU: "mulaw"}[c.codec])
		if q.Get("format") == "" {
			q.Set("format", "pcm16")
		}
	}
	u.RawQuery = q.Encode()
	var err error
	if o.Format, err = wsline.ReadFormat(q); err != nil {
		return err
	}
	header := http.Header{}
	if c.web.token != "" {
		header.Set("Authorization", "Bearer "+c.web.token)
	}
	s, err := socket.Dial(ctx, c.clock, u.String(), socket.Options{Header: header, TLS: c.web.tls, Limit: wsline.MaxMessage})
	if err != nil {
		return err
	}
	t.connected = c.clock.Now()
	l := &socketLine{t: t, fresh: true}
	if l.conn, err = wsline.New(s, o); err == nil {
		err = l.conn.Greet()
	}
	if err != nil {
		s.Close(1000, "")
		return err
	}
	g, inner := clocks.NewGroup(ctx, c.clock)
	l.group, t.line = g, l
	g.Go("sending", func() error {
		if err := l.conn.Run(inner); inner.Err() == nil {
			t.end(err)
		}
		return nil
	})
	g.Go("hearing", func() error { l.hear(inner); return nil })
	if o.Dialect == wsline.Plain {
		g.Go("clock", func() error {
			for range 8 {
				if l.conn.Tell(fmt.Appendf(nil, `{"type":"clock","sent":%d}`, c.clock.Now())) != nil || c.clock.Sleep(inner, 30*time.Millisecond) != nil {
					return nil
				}
			}
			return nil
		})
	}
	for !l.drain() {
		if err := t.pause(ctx); err != nil {
			l.close()
			return err
		}
	}
	return nil
}

// hear takes what the agent sends.
func (l *socketLine) hear(ctx context.Context) {
	rate := l.conn.Format().Rate
	for {
		h, err := l.conn.Hear(ctx)
		switch {
		case err != nil:
			var closed *socket.CloseError
			if errors.As(err, &closed) && closed.Code == 1000 {
				err = nil
			}
			l.t.end(err)
			return
		case h.Text != nil:
			l.t.told(h.Text, h.Read)
			continue
		case len(h.Sound.PCM) == 0:
			l.fresh = l.fresh || h.Event != ""
			continue
		}
		l.silence(h.Arrived, rate)
		l.take(h.Sound, h.Arrived, ear.Decoded)
		l.fresh, l.arrived = false, h.Arrived
	}
}

func (l *socketLine) take(f audio.Frame, arrived time.Duration, kind ear.Kind) {
	l.t.hear(ear.Packet{Index: l.index, Timestamp: uint32(l.media & math.MaxUint32), Arrived: arrived, Kind: kind, Sound: f})
	l.index++
	l.media += int64(len(f.PCM))
}

// maxSilence bounds what silence makes up.
const maxSilence = 2 * time.Minute

// silence plays silence between two stretches of sound, as a player does: there are
// no messages in it, and no timestamps on this line.
func (l *socketLine) silence(now time.Duration, rate int) {
	if l.index > 0 && !l.fresh && now < l.arrived+time.Second {
		return
	}
	quiet := audio.Frame{Rate: rate, PCM: make([]int16, audio.Samples(wsline.Packet, rate))}
	for at := max(l.arrived, now-maxSilence) + wsline.Packet; at < now-wsline.Packet; at += wsline.Packet {
		l.take(quiet, at, ear.Quiet)
	}
}

// codec describes the samples: nothing is added to them.
func (l *socketLine) codec() codec.Codec {
	f := l.conn.Format()
	return codec.Codec{Name: f.Name, Rate: f.Rate, Channels: 1, ClockRate: uint32(f.Rate)}
}

func (l *socketLine) speak(f audio.Frame) (time.Duration, error) { return l.conn.Speak(f) }

// drain reads the log of what was sent, and says whether anything was.
func (l *socketLine) drain() bool {
	for _, s := range l.conn.Sent() {
		l.last = s
		l.log.add(s.Due, s.At)
	}
	return len(l.log.due) > 0
}

func (l *socketLine) announce(_ context.Context, requestID, utterance string, at time.Duration) {
	l.drain()
	since := at - (l.last.Due - wsline.Packet)
	place := uint32(l.last.Place + int64(audio.Samples(since, l.conn.Format().Rate)))
	text, err := json.Marshal(toAgent{Type: "utterance", RequestID: requestID, Utterance: utterance, At: &place})
	if err == nil {
		l.conn.Tell(text) // if the line is broken, hear says so
	}
}

func (l *socketLine) sends() *sendLog {
	l.drain()
	return &l.log
}

func (l *socketLine) track() bool { return false } // there are no tracks: only sound tells

func (l *socketLine) close() {
	l.conn.Close()
	l.group.Cancel(errors.New("the call is over"))
	l.group.Wait()
}
