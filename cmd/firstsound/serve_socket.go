package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"firstsound/audio/liveline"
	"firstsound/audio/wsline"
	"firstsound/clocks"
	"firstsound/clocks/socket"
)

// socket answers a call over a WebSocket.
func (a *agent) socket(w http.ResponseWriter, r *http.Request) {
	if a.token != "" && !a.knows(r) {
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		return
	}
	o := wsline.Options{Clock: a.clock, Server: true, Dialect: wsline.Plain}
	if strings.HasPrefix(r.URL.Path, "/twilio") {
		o.Dialect = wsline.Twilio
	}
	var err error
	if o.Format, err = wsline.ReadFormat(r.URL.Query()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	st, err := a.stages(r.Context(), r.URL.Query().Get("scenario"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	s, err := a.newSession(st)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.over()
	c, err := socket.Accept(a.clock, w, r, nil, socket.Options{Limit: wsline.MaxMessage})
	if err != nil {
		return // the answer has been written
	}
	err = s.overSocket(a.ctx, c, o)
	var closed *socket.CloseError
	switch {
	case err == nil:
	case !errors.As(err, &closed):
		s.ended(err)
		c.Close(1002, shortReason(err))
		return
	case closed.Code == 1006: // it went without a goodbye (RFC 6455, section 7.1.5)
		s.ended(err)
	}
	c.Close(1000, "")
}

// shortReason fits an error into the reason of a close (RFC 6455, section 5.5).
func shortReason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), 120)], "")
}

// overSocket answers a call over a WebSocket until it ends.
func (s *session) overSocket(ctx context.Context, c *socket.Conn, o wsline.Options) error {
	conn, err := wsline.New(c, o)
	if err != nil {
		return err
	}
	line, err := liveline.New(liveline.Options{Clock: s.a.clock, Port: conn, Rate: conn.Format().Rate, Packet: wsline.Packet})
	if err != nil {
		return err
	}
	g, ctx := clocks.NewGroup(ctx, s.a.clock)
	s.begins(g.Cancel)
	s.speaks(line, func(n uint32) int64 { return int64(n) })
	g.Go("sending", func() error { return conn.Run(ctx) })
	if o.Dialect == wsline.Plain {
		s.out.put(s.hello())
		g.Go("news", func() error {
			for m := range s.out.all(ctx) {
				if text := m.json(); text == nil || conn.Tell(text) != nil {
					return nil
				}
			}
			return nil
		})
	}
	var broken error
	g.Go("hearing", func() error {
		broken = s.hearSocket(ctx, conn, line)
		line.Close(broken)
		g.Cancel(liveline.ErrClosed)
		return nil
	})
	s.answer(ctx, line)
	g.Cancel(liveline.ErrClosed)
	g.Wait()
	return broken
}

// idleSocket is how long nothing may come from a caller.
const idleSocket = 60 * time.Second

var errIdle = errors.New("nothing has come for a minute")

// hearSocket takes what the caller sends.
func (s *session) hearSocket(ctx context.Context, conn *wsline.Conn, line *liveline.Line) error {
	for {
		next, cancel := clocks.WithTimeout(ctx, s.a.clock, idleSocket, errIdle)
		h, err := conn.Hear(next)
		cancel()
		switch {
		case err != nil:
			return err
		case h.Event == "stop": // Twilio's end of a call
			return nil
		case h.Text != nil:
			s.message(h.Text, h.Read)
		case len(h.Sound.PCM) > 0:
			if err := line.Hear(h.Sound, h.Place, h.Arrived); err != nil {
				return err
			}
		}
	}
}
