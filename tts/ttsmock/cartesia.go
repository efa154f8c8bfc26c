package ttsmock

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// cartesia is its websocket with contexts.
type cartesia struct {
	*talk
	contexts map[string]*cartesiaContext
}

type cartesiaContext struct {
	buffered string
	flushes  int // that were asked for
	words    bool
}

func newCartesia(t *talk) dialog {
	return &cartesia{talk: t, contexts: map[string]*cartesiaContext{}}
}

func (c *cartesia) hello() error { return nil }

func (c *cartesia) failed(id, words string) error {
	return c.send(map[string]any{"type": "error", "done": true, "status_code": 500, "title": "Error", "message": words, "error_code": "mock", "context_id": id})
}

// defaultDelay is max_buffer_delay_ms where it is not set.
const defaultDelay = 3000

func (c *cartesia) message(m map[string]any, at time.Duration) error {
	id, _ := text(m, "context_id")
	if m["cancel"] == true {
		c.forget(id)
		delete(c.contexts, id)
		return nil
	}
	f := cartesiaFormat(inner(m, "output_format"))
	if err := f.check(); err != nil {
		return c.failed(id, "output_format: "+err.Error())
	}
	x := c.contexts[id]
	if x == nil {
		x = &cartesiaContext{}
		c.contexts[id] = x
	}
	x.words = m["add_timestamps"] == true
	words, _ := text(m, "transcript")
	x.buffered += words
	delay := defaultDelay
	if _, ok := m["max_buffer_delay_ms"].(float64); ok {
		delay = number(m, "max_buffer_delay_ms")
	}
	more := m["continue"] == true
	// The delay itself is not played: what is not flushed waits for more or the end.
	if delay == 0 || m["flush"] == true || !more {
		c.speakBuffered(id, x, f, at)
	}
	if m["flush"] == true {
		x.flushes++
		n := x.flushes
		c.mouthOf(id).do(func(context.Context) error {
			return c.end(id, func() error {
				return c.send(map[string]any{"type": "flush_done", "done": false, "flush_done": true, "flush_id": n, "status_code": 206, "context_id": id})
			})
		})
	}
	if !more {
		delete(c.contexts, id)
		c.last(id, func() error {
			return c.send(map[string]any{"type": "done", "done": true, "status_code": 200, "context_id": id})
		})
	}
	return nil
}

func (c *cartesia) speakBuffered(id string, x *cartesiaContext, f format, at time.Duration) {
	p := piece{id: id, text: x.buffered, arrived: at, format: f}
	x.buffered = ""
	if strings.TrimSpace(p.text) == "" {
		return
	}
	flush, words := x.flushes+1, x.words
	last := at
	c.say(c, p, func(sound []byte, _, _ int) error {
		now := c.s.clock.Now()
		step := float64(now-last) / float64(time.Millisecond)
		last = now
		if words {
			words = false
			if err := c.send(c.timestamps(id, p.text)); err != nil {
				return err
			}
		}
		return c.send(map[string]any{"type": "chunk", "data": base64Of(sound), "done": false, "status_code": 206, "step_time": step, "flush_id": flush, "context_id": id})
	}, nil)
}

// timestamps are the words of a text, each with a quarter of a second.
func (c *cartesia) timestamps(id, spoken string) map[string]any {
	all, starts, ends := strings.Fields(spoken), []float64{}, []float64{}
	for i := range all {
		starts, ends = append(starts, 0.25*float64(i)), append(ends, 0.25*float64(i+1))
	}
	return map[string]any{"type": "timestamps", "done": false, "status_code": 206, "context_id": id,
		"word_timestamps": map[string]any{"words": all, "start": starts, "end": ends}}
}

// deepgram is v1/speak as a WebSocket.
type deepgram struct {
	*talk
	format   format
	buffered string
	flushes  int
}

func newDeepgram(t *talk) dialog { return &deepgram{talk: t, format: deepgramFormat(t.r)} }

func (d *deepgram) hello() error {
	if err := d.format.check(); err != nil {
		return d.failed("", err.Error())
	}
	return d.send(map[string]any{"type": "Metadata", "request_id": d.truth.RequestID, "model_name": d.r.URL.Query().Get("model"), "model_version": "mock", "model_uuid": "mock", "additional_model_uuids": []string{}})
}

func (d *deepgram) failed(_, words string) error {
	if err := d.send(map[string]any{"type": "Error", "err_code": "MOCK", "err_msg": words, "description": words}); err != nil {
		return err
	}
	return errOver
}

func (d *deepgram) message(m map[string]any, at time.Duration) error {
	kind, _ := text(m, "type")
	switch kind {
	case "Speak":
		words, _ := text(m, "text")
		d.buffered += words
	case "Flush":
		d.flush(at)
	case "Clear":
		d.buffered = ""
		d.forget("")
		n := d.flushes
		d.flushes++
		return d.send(map[string]any{"type": "Cleared", "sequence_id": n})
	case "Close":
		if d.buffered != "" {
			d.flush(at)
		}
		return errOver
	default:
		return d.send(map[string]any{"type": "Warning", "code": "UNKNOWN", "description": fmt.Sprintf("the message type %q is not known", kind)})
	}
	return nil
}

func (d *deepgram) flush(at time.Duration) {
	n := d.flushes
	d.flushes++
	flushed := func() error { return d.send(map[string]any{"type": "Flushed", "sequence_id": n}) }
	p := piece{text: d.buffered, arrived: at, format: d.format}
	if d.buffered = ""; strings.TrimSpace(p.text) == "" {
		d.mouthOf("").do(func(context.Context) error { return d.end("", flushed) })
		return
	}
	d.say(d, p, func(sound []byte, _, _ int) error {
		_, err := d.conn.Send(false, sound)
		return err
	}, flushed)
}
