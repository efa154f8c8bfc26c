package mock

import (
	"encoding/base64"
	"fmt"
	"time"

	"firstsound/audio"
)

// answer is a response under way.
type answer struct {
	x     *session
	n     int    // of truth.Responses
	id    string // empty: it was not created yet
	item  string
	over  bool
	lead  int // samples of silence at the head
	total int // samples
	sent  int
}

// respond plans an answer; t is when it was asked for.
func (x *session) respond(t time.Duration) {
	for _, fault := range []string{"no_response", "error", "garbage"} {
		if !x.has(fault) {
			continue
		}
		x.strike(fault)
		switch fault {
		case "error":
			x.send(object{"type": "error", "error": object{"type": "server_error", "code": "server_error", "message": x.faults["error"]}})
		case "garbage":
			x.write(true, []byte("<html>Bad Gateway</html>"))
		}
		return
	}
	a := &answer{x: x}
	x.answer = a
	due := t + x.draw(x.s.o.Create, "create")
	first := due + x.draw(x.s.o.First, "first")
	a.lead = audio.Samples(x.draw(x.s.o.Lead, "lead"), rate)
	a.total = a.lead + audio.Samples(min(maxLength, x.draw(x.s.o.Length, "length")), rate)
	if x.has("silent") {
		x.strike("silent")
		a.lead = a.total
	}
	x.at(due, func() {
		a.create()
		x.at(first, func() { a.delta(first) })
	})
}

func (a *answer) create() {
	if a.over {
		return
	}
	x := a.x
	a.n = len(x.truth.Responses)
	a.id = fmt.Sprintf("resp_%d", a.n)
	a.item = "item_" + a.id
	at := x.send(object{"type": "response.created", "response": a.response("in_progress", "", "")})
	x.truth.Responses = append(x.truth.Responses, Response{ID: a.id, Created: at, Lead: audio.Span(a.lead, rate), Deltas: []time.Duration{}, Status: "in_progress"})
	item := a.message("in_progress")
	x.send(object{"type": "response.output_item.added", "response_id": a.id, "output_index": 0, "item": item})
	if x.s.o.Beta {
		x.send(object{"type": "conversation.item.created", "item": item, "previous_item_id": nil})
	} else {
		x.send(object{"type": "conversation.item.added", "item": item, "previous_item_id": nil})
	}
	a.part(object{"type": "response.content_part.added", "part": object{"type": "audio", "transcript": ""}})
	a.part(object{"type": "response.output_audio_transcript.delta", "delta": x.s.o.Text})
}

func (a *answer) truth() *Response { return &a.x.truth.Responses[a.n] }

// part sends an event about the answer's sound.
func (a *answer) part(v object) time.Duration {
	v["response_id"], v["item_id"], v["output_index"], v["content_index"] = a.id, a.item, 0, 0
	return a.x.send(v)
}

func (a *answer) message(status string) object {
	return object{"id": a.item, "object": "realtime.item", "type": "message", "role": "assistant", "status": status, "content": []object{{"type": "output_audio", "transcript": a.x.s.o.Text}}}
}

func (a *answer) response(status, reason, failure string) object {
	r := object{"id": a.id, "object": "realtime.response", "status": status, "status_details": nil, "output": []object{}, "usage": nil}
	switch {
	case failure != "":
		r["status_details"] = object{"type": status, "error": object{"type": "server_error", "code": "server_error", "message": failure}}
	case reason != "":
		r["status_details"] = object{"type": status, "reason": reason}
	}
	return r
}

// delta sends the next piece, which was due at a time, and plans the one after it.
func (a *answer) delta(due time.Duration) {
	if a.over {
		return
	}
	x := a.x
	n := min(a.total-a.sent, audio.Samples(x.s.o.Chunk, rate))
	if x.has("huge") {
		x.strike("huge")
		n = a.total
	}
	pcm := make([]byte, 2*n)
	if from := a.lead - a.sent; from < n {
		tone(pcm[2*max(0, from):], max(0, -from))
	}
	if x.has("odd") && n > 1 {
		x.strike("odd")
		half := base64.StdEncoding.EncodeToString(pcm[n|1:])
		pcm = pcm[:n|1]
		defer func() { a.part(object{"type": "response.output_audio.delta", "delta": half}) }()
	}
	before := a.sent
	a.sent += n
	at := a.part(object{"type": "response.output_audio.delta", "delta": base64.StdEncoding.EncodeToString(pcm)})
	t := a.truth()
	t.Deltas = append(t.Deltas, at)
	t.Sent = audio.Span(a.sent, rate)
	if t.FirstSound == nil && a.sent > a.lead {
		t.FirstSound = &at
	}
	switch words, failed := x.faults["failed"]; {
	case x.closing():
	case failed:
		x.strike("failed")
		a.finish("failed", "", words)
	case a.sent == a.total:
		// The end comes with the last sound, behind it.
		x.todo.Put(func() { a.stop("completed", "") })
	default:
		next := due + x.draw(x.s.o.Gap, fmt.Sprintf("gap.%d", before))
		x.at(next, func() { a.delta(next) })
	}
}

// stop ends the answer with a status.
func (a *answer) stop(status, reason string) { a.finish(status, reason, "") }

func (a *answer) finish(status, reason, failure string) {
	if a.over {
		return
	}
	a.over = true
	x := a.x
	x.answer = nil
	if a.id == "" {
		return // nobody has heard of it
	}
	if failure == "" {
		a.part(object{"type": "response.output_audio.done"})
		a.part(object{"type": "response.output_audio_transcript.done", "transcript": x.s.o.Text})
		a.part(object{"type": "response.content_part.done", "part": object{"type": "audio", "transcript": x.s.o.Text}})
		item := a.message(map[bool]string{true: "completed", false: "incomplete"}[status == "completed"])
		x.send(object{"type": "response.output_item.done", "response_id": a.id, "output_index": 0, "item": item})
		if !x.s.o.Beta {
			x.send(object{"type": "conversation.item.done", "item": item, "previous_item_id": nil})
		}
	}
	at := x.send(object{"type": "response.done", "response": a.response(status, reason, failure)})
	t := a.truth()
	t.Done, t.Status = &at, status
}
