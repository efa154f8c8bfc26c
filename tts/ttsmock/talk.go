package ttsmock

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/socket"
)

// A talk is a conversation over a WebSocket.
type talk struct {
	*call
	r    *http.Request
	conn *socket.Conn
	ctx  context.Context
	g    *clocks.Group

	mouths map[string]*mouth // by context
}

// A dialog is what a service makes of messages.
type dialog interface {
	// hello is called when the connection stands.
	hello() error
	// message takes a message of the client. errOver ends the conversation well.
	message(m map[string]any, at time.Duration) error
	// failed sends what the service says instead of sound for the piece with an
	// id. errOver closes the connection.
	failed(id, words string) error
}

var errOver = errors.New("the conversation is over")

// converse holds a conversation.
func (c *call) converse(ctx context.Context, w http.ResponseWriter, r *http.Request, rt route) {
	c.truth.Status = http.StatusSwitchingProtocols
	header := http.Header{}
	for _, name := range []string{"X-Request-Id", "Dg-Request-Id", "Request-Id"} {
		header.Set(name, c.truth.RequestID)
	}
	conn, err := socket.Accept(c.s.clock, w, r, header, socket.Options{Limit: maxRequest})
	if err != nil {
		c.truth.Status = http.StatusBadRequest
		c.done("no WebSocket: " + err.Error())
		return
	}
	t := &talk{call: c, r: r, conn: conn, mouths: map[string]*mouth{}}
	t.g, t.ctx = clocks.NewGroup(ctx, c.s.clock)
	t.g.Go("messages of a client", func() error { return t.listen(rt.talk(t)) })
	err = t.g.Wait()
	var broken *brokenError
	switch {
	case errors.As(err, &broken):
		t.tear(broken)
	case errors.Is(err, errOver):
		err = nil
	}
	conn.Close(1000, "")
	if lost := new(socket.CloseError); errors.As(err, &lost) && (lost.Code == 1000 || lost.Code == 1005) {
		err = nil // the client said goodbye
	}
	c.done(ended(err))
}

// tear ends the connection as a fault has it.
func (t *talk) tear(broken *brokenError) {
	if broken.kind == "close" {
		t.conn.Close(t.faults.Number("close"), "closed in the middle of the sound (simulated)")
		return
	}
	stamps := t.conn.Stamps()
	if stamps == nil {
		return
	}
	if n := len(broken.part); broken.kind == "truncated" && n > 1 {
		n = min(n, 0xffff)
		stamps.Write(append([]byte{0x82, 126, byte(n >> 8), byte(n)}, broken.part[:n/2]...)) // half of a binary message
	}
	stamps.Close()
}

// listen takes the client's messages until it or the service ends.
func (t *talk) listen(d dialog) error {
	if err := d.hello(); err != nil {
		return err
	}
	for {
		m, err := t.conn.Next(t.ctx)
		if err != nil {
			return err
		}
		var fields map[string]any
		if json.Unmarshal(m.Data, &fields) != nil || !m.Text {
			err = d.failed("", "the message is no JSON object in text")
		} else {
			err = d.message(fields, m.Arrived)
		}
		if errors.Is(err, errOver) {
			for _, m := range t.mouths { // what was asked for is still said
				m.jobs.Close()
				m.ended.Get(t.ctx)
			}
			return errOver
		}
		if err != nil {
			return err
		}
	}
}

// mouthOf returns the mouth of a context.
func (t *talk) mouthOf(id string) *mouth {
	m := t.mouths[id]
	if m == nil {
		m = t.mouth(t.ctx, t.g)
		t.mouths[id] = m
	}
	return m
}

// last has f called at the end of what is said in a context, which is over then.
func (t *talk) last(id string, f func() error) {
	m := t.mouthOf(id)
	m.do(func(context.Context) error { return t.end(id, f) })
	m.jobs.Close()
	delete(t.mouths, id)
}

// forget cancels what is said in a context.
func (t *talk) forget(id string) {
	if m := t.mouths[id]; m != nil {
		m.cancel(errCancelled)
		delete(t.mouths, id)
	}
}

// say has a piece spoken after those before it in its context. The sound is sent
// by out; then is called at its end.
func (t *talk) say(d dialog, p piece, out sink, then func() error) {
	m := t.mouthOf(p.id)
	m.do(func(ctx context.Context) error {
		p.ready = m.ready
		garbage := t.faults.Has("garbage")
		made, err := t.speak(ctx, p, func(sound []byte, done, total int) error {
			if garbage {
				garbage = false
				t.strike("garbage")
				if _, err := t.conn.Send(true, []byte(`{"type":`)); err != nil {
					return err
				}
			}
			return out(sound, done, total)
		})
		m.ready = made
		if refused := new(refusalError); errors.As(err, &refused) {
			return d.failed(p.id, refused.words)
		}
		if err != nil {
			return err
		}
		return t.end(p.id, then)
	})
}

// end calls then, unless the end is never told.
func (t *talk) end(id string, then func() error) error {
	if t.faults.Has("no_end") {
		t.strike("no_end")
		return nil
	}
	t.told(id)
	if then == nil {
		return nil
	}
	return then()
}

// send sends v as a text message.
func (t *talk) send(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = t.conn.Send(true, b)
	}
	return err
}

// text returns the field of a message under any of its names, if it is a text.
func text(fields map[string]any, names ...string) (string, bool) {
	for _, name := range names {
		if s, ok := fields[name].(string); ok {
			return s, true
		}
	}
	return "", false
}

// inner returns the object in a field.
func inner(fields map[string]any, names ...string) map[string]any {
	for _, name := range names {
		fields, _ = fields[name].(map[string]any)
	}
	return fields
}
