package asrmock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// realtime is OpenAI's /v1/realtime, with a session of the type transcription.
type realtime struct {
	finding bool // server VAD
	events  int
	item    int
	said    string // in deltas of the present item
	sent    bool   // sound since the last commit
}

func (p *realtime) name() string { return "openai-realtime" }
func (p *realtime) finds() bool  { return p.finding }
func (p *realtime) shows() bool  { return true }

func (p *realtime) send(c *call, v object) {
	p.events++
	v["event_id"] = fmt.Sprintf("event_%d", p.events)
	c.send(v)
}

func (p *realtime) id() string { return fmt.Sprintf("item_%d", p.item) }

func (p *realtime) session(c *call) object {
	var detection any
	if p.finding {
		detection = object{"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
	}
	return object{"type": "transcription", "object": "realtime.transcription_session", "id": "sess_" + c.truth.RequestID, "expires_at": 0, "include": nil,
		"audio": object{"input": object{"format": object{"type": "audio/pcm", "rate": c.ear.rate}, "transcription": nil, "noise_reduction": nil, "turn_detection": detection}}}
}

func (p *realtime) hello(c *call) {
	if c.listenAt(24000) {
		p.send(c, object{"type": "session.created", "session": p.session(c)})
	}
}

func (p *realtime) message(c *call, m inbound) {
	var v struct {
		Type    string
		Audio   string
		EventID string `json:"event_id"`
		Session struct {
			Audio struct {
				Input struct {
					Format        struct{ Rate int }
					TurnDetection json.RawMessage `json:"turn_detection"`
				}
			}
		}
	}
	if err := json.Unmarshal(m.data, &v); err != nil {
		p.wrong(c, "invalid_json", "the event is no JSON", "")
		return
	}
	switch v.Type {
	case "session.update":
		in := v.Session.Audio.Input
		if in.Format.Rate != 0 && !c.listenAt(in.Format.Rate) {
			return
		}
		if in.TurnDetection != nil {
			p.finding = string(in.TurnDetection) != "null"
		}
		p.send(c, object{"type": "session.updated", "session": p.session(c)})
	case "input_audio_buffer.append":
		pcm, err := base64.StdEncoding.DecodeString(v.Audio)
		if err != nil {
			p.wrong(c, "invalid_value", "audio is no base64", v.EventID)
			return
		}
		p.sent = true
		c.hear(pcm, m.at)
	case "input_audio_buffer.commit":
		if !p.sent {
			p.wrong(c, "input_audio_buffer_commit_empty", "Error committing input audio buffer: buffer too small.", v.EventID)
			return
		}
		p.commit(c)
		c.ear.ask(m.at, true, nil)
	case "input_audio_buffer.clear":
		p.send(c, object{"type": "input_audio_buffer.cleared"})
	default:
		p.wrong(c, "invalid_value", "unknown event "+v.Type, v.EventID)
	}
}

func (p *realtime) commit(c *call) {
	p.sent = false
	p.send(c, object{"type": "input_audio_buffer.committed", "item_id": p.id(), "previous_item_id": nil})
	item := object{"id": p.id(), "object": "realtime.item", "type": "message", "role": "user", "status": "completed", "content": []object{{"type": "input_audio", "transcript": nil}}}
	p.send(c, object{"type": "conversation.item.added", "item": item, "previous_item_id": nil})
	p.send(c, object{"type": "conversation.item.done", "item": item, "previous_item_id": nil})
}

func (p *realtime) started(c *call) {
	if p.finding {
		p.send(c, object{"type": "input_audio_buffer.speech_started", "item_id": p.id(), "audio_start_ms": c.ear.u.Start.Milliseconds()})
	}
}

func (p *realtime) transcription(c *call, kind string, more object) {
	more["type"] = "conversation.item.input_audio_transcription." + kind
	more["item_id"], more["content_index"] = p.id(), 0
	p.send(c, more)
}

func (p *realtime) partial(c *call, text string) {
	if delta, ok := strings.CutPrefix(text, p.said); ok && delta != "" {
		p.said = text
		p.transcription(c, "delta", object{"delta": delta})
	}
}

func (p *realtime) final(c *call, f final) {
	if !f.asked {
		p.send(c, object{"type": "input_audio_buffer.speech_stopped", "item_id": p.id(), "audio_end_ms": c.truth.Audio.Milliseconds()})
		p.commit(c)
	}
	if !c.cut {
		p.partial(c, f.text)
	}
	p.transcription(c, "completed", object{"transcript": f.text, "usage": object{"type": "duration", "seconds": f.end.Seconds()}})
	p.item++
	p.said = ""
}

func (p *realtime) wrong(c *call, code, words, event string) {
	p.send(c, object{"type": "error", "error": object{"type": "invalid_request_error", "code": code, "message": words, "param": nil, "event_id": event}})
}

func (p *realtime) fail(c *call, words string) {
	p.transcription(c, "failed", object{"error": object{"type": "server_error", "code": "internal_error", "message": words, "param": nil}})
	c.end("failed")
}
