package mock

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/audio/vad"
	"firstsound/clocks"
	"firstsound/clocks/mockserver"
	"firstsound/clocks/random"
	"firstsound/clocks/socket"
)

// rate is that of audio/pcm.
const rate = 24000

type object map[string]any

// session is a conversation. Everything but the reader of the messages is called
// one at a time, by hold.
type session struct {
	s      *Server
	conn   *socket.Conn
	write  func(text bool, data []byte) (time.Duration, error) // conn's
	todo   *clocks.Queue[func()]
	truth  Truth
	faults mockserver.Faults
	seed   int
	ended  bool

	silence    time.Duration // that ends the speech
	finds      bool          // the mock finds the end by itself
	creates    bool          // … and answers then
	interrupts bool          // speech stops the answer

	odd    []byte
	ear    *vad.Energy
	held   int // samples since the last commit
	speech bool
	silent *time.Duration // offset of the end of the speech, while the silence lasts

	events, items int
	answer        *answer // under way
	alarms        []clocks.Alarm
}

// inbound is what a client says, as far as it matters.
type inbound struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Audio   string `json:"audio"`
	ItemID  string `json:"item_id"`
	EndMS   int64  `json:"audio_end_ms"`
	Session struct {
		TurnDetection json.RawMessage `json:"turn_detection"` // of the beta
		Audio         struct {
			Input struct {
				TurnDetection json.RawMessage `json:"turn_detection"`
			} `json:"input"`
		} `json:"audio"`
	} `json:"session"`
}

// newSession returns the session of a Server with a number.
func newSession(s *Server, n int) *session {
	x := &session{s: s, seed: n, silence: s.o.Silence, finds: true, creates: true, interrupts: true}
	x.truth = Truth{RequestID: fmt.Sprintf("realtime-%d", n), Number: n, Arrived: s.clock.Now(), Speeches: []Speech{}, Responses: []Response{}}
	x.faults = mockserver.Draw(s.faults, random.New(s.o.Seed, "realtime.mock.faults", n))
	x.todo = clocks.NewQueue[func()](s.clock, "a session of the mock")
	x.ear, _ = vad.NewEnergy(rate) // a rate to work with
	return x
}

// hold talks until the client has gone or ctx ends.
func (x *session) hold(ctx context.Context, conn *socket.Conn) {
	x.conn, x.write = conn, conn.Send
	g, inner := clocks.NewGroup(ctx, x.s.clock)
	g.Go("messages of a client", func() error {
		defer x.todo.Close()
		for {
			m, err := conn.Next(inner)
			if err != nil {
				return nil
			}
			x.todo.Put(func() { x.message(m.Data, m.Arrived) })
		}
	})
	if x.has("slow") {
		x.strike("slow")
	}
	x.at(x.s.clock.Now()+x.faults.Duration("slow"), func() { x.send(object{"type": "session.created", "session": x.session()}) })
	for !x.ended {
		f, ok := x.todo.Get(inner)
		if !ok {
			if ctx.Err() != nil {
				x.end("stopped")
			}
			x.end("client_gone")
			break
		}
		f()
	}
	for _, a := range x.alarms {
		a.Stop()
	}
	conn.Close(1000, "")
	g.Wait()
}

// at calls f at t and notes how late it was.
func (x *session) at(t time.Duration, f func()) {
	run := func() {
		late := x.s.clock.Now() - t
		if x.truth.Late == nil || late > *x.truth.Late {
			x.truth.Late = &late
		}
		f()
	}
	x.alarms = append(x.alarms, x.s.clock.At(t, func() { x.todo.Put(run) }))
}

func (x *session) end(how string) {
	if !x.ended {
		x.ended, x.truth.Ended = true, how
	}
}

func (x *session) has(fault string) bool { return x.faults.Has(fault) }

func (x *session) strike(fault string) {
	if !strings.Contains(","+x.truth.Fault+",", ","+fault+",") {
		x.truth.Fault = strings.Trim(x.truth.Fault+","+fault, ",")
	}
}

func (x *session) draw(d random.Dist, purpose string) time.Duration {
	src := random.New(x.s.o.Seed, "realtime.mock."+purpose, x.seed, len(x.truth.Speeches), len(x.truth.Responses))
	return d.Draw(&src)
}

// send writes an event, in the names that the mock speaks, and returns the time
// just before.
func (x *session) send(v object) time.Duration {
	x.events++
	v["event_id"] = fmt.Sprintf("event_%d", x.events)
	if rest, ok := strings.CutPrefix(v["type"].(string), "response.output_audio"); ok && x.s.o.Beta {
		v["type"] = "response.audio" + rest
	}
	text, err := json.Marshal(v)
	var at time.Duration
	if err == nil {
		at, err = x.write(true, text)
	}
	if err != nil {
		x.end("client_gone")
	}
	return at
}

func (x *session) session() object {
	var detection any
	if x.finds {
		detection = object{"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": x.silence.Milliseconds(), "create_response": x.creates, "interrupt_response": x.interrupts}
	}
	id := "sess_" + x.truth.RequestID
	if x.s.o.Beta {
		return object{"object": "realtime.session", "id": id, "modalities": []string{"audio", "text"}, "input_audio_format": "pcm16", "output_audio_format": "pcm16", "turn_detection": detection}
	}
	format := object{"type": "audio/pcm", "rate": rate}
	return object{"type": "realtime", "object": "realtime.session", "id": id, "output_modalities": []string{"audio"},
		"audio": object{"input": object{"format": format, "turn_detection": detection}, "output": object{"format": format, "voice": "mock"}}}
}

func (x *session) wrong(code, words, event string) {
	x.send(object{"type": "error", "error": object{"type": "invalid_request_error", "code": code, "message": words, "param": nil, "event_id": event}})
}

// message takes what the client says.
func (x *session) message(data []byte, at time.Duration) {
	var v inbound
	if err := json.Unmarshal(data, &v); err != nil {
		x.wrong("invalid_json", "the event is no JSON", "")
		return
	}
	switch v.Type {
	case "session.update":
		x.configure(v)
	case "input_audio_buffer.append":
		pcm, err := base64.StdEncoding.DecodeString(v.Audio)
		if err != nil {
			x.wrong("invalid_value", "audio is no base64", v.EventID)
			return
		}
		x.hear(pcm, at)
	case "input_audio_buffer.commit":
		if x.held < rate/10 {
			x.wrong("input_audio_buffer_commit_empty", "Error committing input audio buffer: buffer too small.", v.EventID)
			return
		}
		x.commit()
	case "input_audio_buffer.clear":
		x.held = 0
		x.send(object{"type": "input_audio_buffer.cleared"})
	case "response.create":
		if x.answer != nil {
			x.wrong("conversation_already_has_active_response", "Conversation already has an active response", v.EventID)
			return
		}
		x.respond(at)
	case "response.cancel":
		if x.answer == nil || x.answer.id == "" {
			x.wrong("response_cancel_not_active", "Cancellation failed: no active response found", v.EventID)
			return
		}
		x.answer.stop("cancelled", "client_cancelled")
	case "conversation.item.truncate":
		x.truncate(v)
	default:
		x.wrong("invalid_value", fmt.Sprintf("unknown event %.40q", v.Type), v.EventID)
	}
}

func (x *session) configure(v inbound) {
	detection := v.Session.Audio.Input.TurnDetection
	if detection == nil {
		detection = v.Session.TurnDetection
	}
	var d struct {
		Silence    *int64 `json:"silence_duration_ms"`
		Creates    *bool  `json:"create_response"`
		Interrupts *bool  `json:"interrupt_response"`
	}
	if detection != nil {
		if err := json.Unmarshal(detection, &d); err != nil || d.Silence != nil && *d.Silence < 0 {
			x.wrong("invalid_value", "turn_detection is none", v.EventID)
			return
		}
		x.finds = string(detection) != "null"
	}
	if d.Silence != nil {
		x.silence = time.Duration(*d.Silence) * time.Millisecond
	}
	if d.Creates != nil {
		x.creates = *d.Creates
	}
	if d.Interrupts != nil {
		x.interrupts = *d.Interrupts
	}
	x.send(object{"type": "session.updated", "session": x.session()})
}

// hear takes sound that arrived at a time.
func (x *session) hear(data []byte, at time.Duration) {
	data = append(x.odd, data...)
	x.odd = append([]byte(nil), data[len(data)&^1:]...)
	f := audio.Frame{Rate: rate, PCM: make([]int16, len(data)/2)}
	for i := range f.PCM {
		f.PCM[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	x.held += len(f.PCM)
	if x.truth.Audio += f.Duration(); x.truth.Audio > x.s.o.MaxAudio {
		x.wrong("session_expired", fmt.Sprintf("more than %v of sound", x.s.o.MaxAudio), "")
		x.end("too much sound")
		return
	}
	changes, _ := x.ear.Push(f) // of its rate
	for _, c := range changes {
		end := c.At
		switch {
		case !x.finds || x.has("deaf"):
		case c.Speech && x.speech:
			x.silent = nil
		case c.Speech:
			x.started(c.At)
		case x.speech:
			x.silent = &end
		}
	}
	if x.silent != nil && x.truth.Audio >= *x.silent+x.silence {
		end := *x.silent
		x.speech, x.silent = false, nil
		// The moment of the decision, were the frame not that long.
		due := at - (x.truth.Audio - end - x.silence)
		x.stopped(end, max(due, at-f.Duration()), at)
	}
}

func (x *session) started(offset time.Duration) {
	x.speech, x.silent = true, nil
	if x.answer != nil && x.interrupts {
		x.answer.stop("cancelled", "turn_detected")
	}
	at := x.send(object{"type": "input_audio_buffer.speech_started", "item_id": x.item(), "audio_start_ms": offset.Milliseconds()})
	x.truth.Speeches = append(x.truth.Speeches, Speech{Start: offset, Started: at})
}

// stopped has the end of the speech told.
func (x *session) stopped(end, known, arrived time.Duration) {
	n := len(x.truth.Speeches) - 1
	endAt := known - x.silence
	x.truth.Speeches[n].End, x.truth.Speeches[n].EndAt = end, &endAt
	due := arrived + x.draw(x.s.o.Endpoint, "endpoint")
	x.at(due, func() {
		at := x.send(object{"type": "input_audio_buffer.speech_stopped", "item_id": x.item(), "audio_end_ms": end.Milliseconds()})
		x.truth.Speeches[n].Stopped = &at
		x.commit()
		if x.creates && x.answer == nil {
			x.respond(due)
		}
	})
}

// item is the name of what the user says at present.
func (x *session) item() string { return fmt.Sprintf("item_user_%d", x.items) }

func (x *session) commit() {
	item := object{"id": x.item(), "object": "realtime.item", "type": "message", "role": "user", "status": "completed", "content": []object{{"type": "input_audio", "transcript": nil}}}
	x.send(object{"type": "input_audio_buffer.committed", "item_id": x.item(), "previous_item_id": nil})
	x.added(item)
	x.items++
	x.held = 0
}

// added tells of an item that is complete.
func (x *session) added(item object) {
	if x.s.o.Beta {
		x.send(object{"type": "conversation.item.created", "item": item, "previous_item_id": nil})
		return
	}
	x.send(object{"type": "conversation.item.added", "item": item, "previous_item_id": nil})
	x.send(object{"type": "conversation.item.done", "item": item, "previous_item_id": nil})
}

func (x *session) truncate(v inbound) {
	for i := range x.truth.Responses {
		if r := &x.truth.Responses[i]; "item_"+r.ID == v.ItemID {
			if v.EndMS < 0 || v.EndMS > r.Sent.Milliseconds() {
				x.wrong("invalid_value", fmt.Sprintf("Audio content of %dms is already shorter than %dms", r.Sent.Milliseconds(), v.EndMS), v.EventID)
				return
			}
			r.Heard = &v.EndMS
			x.send(object{"type": "conversation.item.truncated", "item_id": v.ItemID, "content_index": 0, "audio_end_ms": v.EndMS})
			return
		}
	}
	x.wrong("item_truncate_invalid_item_id", "there is no item of this name", v.EventID)
}

// tone fills pcm with 200 Hz at -20 dBFS, from the sample at on.
func tone(pcm []byte, at int) {
	const level = 0.1 * math.Sqrt2 * 32768
	for i := range len(pcm) / 2 {
		binary.LittleEndian.PutUint16(pcm[2*i:], uint16(int16(level*math.Sin(2*math.Pi*200*float64(at+i)/rate))))
	}
}

// closing cuts the connection, if that is to happen now.
func (x *session) closing() bool {
	if x.has("close") {
		x.strike("close")
		x.conn.Close(x.faults.Number("close"), "closed in the midst of the answer by the mock")
		x.end("fault")
		return true
	}
	if x.has("drop") {
		x.strike("drop")
		if stamps := x.conn.Stamps(); stamps != nil {
			stamps.Close()
		}
		x.end("fault")
		return true
	}
	return false
}
