package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"firstsound/audio/rtc"
	"firstsound/audio/signal"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// realtimeEvents tells the marks of a call as OpenAI's Realtime API tells them.
type realtimeEvents struct {
	s     *session
	out   *outlet[signal.Event]
	count int
}

// realtime serves the data channel oai-events.
func (s *session) realtime(ctx context.Context, g *clocks.Group, d *rtc.Data) {
	e := &realtimeEvents{s: s, out: newOutlet[signal.Event](s.a.clock, "events for the caller")}
	s.a.mu.Lock() // events come under it
	e.put(signal.Event{Type: signal.SessionCreated, Session: &signal.Session{
		Type: "realtime", ID: fmt.Sprintf("sess_%d", s.number), Model: "firstsound", Output: []string{"audio"},
		Audio: json.RawMessage(`{"input":{"turn_detection":{"type":"server_vad"}}}`),
	}})
	s.oai = e
	s.a.mu.Unlock()
	g.Go("events", func() error {
		for m := range e.out.all(ctx) {
			text, err := m.Marshal()
			if err != nil || d.Send(ctx, string(text)) != nil {
				return nil // the caller does not read: the call goes on
			}
		}
		return nil
	})
	g.Go("messages", func() error {
		for {
			m, ok := d.Receive(ctx)
			if !ok {
				return nil
			}
			e.take(m.Data)
		}
	})
}

func (e *realtimeEvents) put(ev signal.Event) {
	e.count++
	ev.EventID = fmt.Sprintf("event_%d_%d", e.s.number, e.count)
	e.out.put(ev)
}

func (e *realtimeEvents) refuse(code, text, about string) {
	e.put(signal.Event{Type: signal.ErrorEvent, Error: &signal.Error{Type: "invalid_request_error", Code: &code, Message: text, EventID: about}})
}

// take answers what a client asks. How the agent behaves is the scenario's: what a
// client wants of its session is confirmed and not followed.
func (e *realtimeEvents) take(data []byte) {
	m, err := signal.ParseEvent(data)
	e.s.a.mu.Lock()
	defer e.s.a.mu.Unlock()
	switch {
	case err != nil:
		e.refuse("invalid_json", err.Error(), "")
	case m.Type == signal.SessionUpdate:
		e.put(signal.Event{Type: signal.SessionUpdated, Session: m.Session})
	case m.Type == signal.OutputClear || m.Type == signal.ResponseCancel || m.Type == signal.ResponseCreate || m.Type == signal.ItemCreate:
		e.refuse("unsupported", "this agent answers speech, and nothing else: "+m.Type+" has no effect", m.EventID)
	}
}

// event tells a mark. It is called with the agent locked, in order.
func (e *realtimeEvents) event(ev *trace.Event) {
	zero := 0
	ms := int64(ev.At / time.Millisecond)
	response := fmt.Sprintf("resp_%d_%d", ev.ID.Session, ev.ID.Turn)
	item := fmt.Sprintf("item_%d_%d", ev.ID.Session, ev.ID.Turn)
	part := func(kind string) signal.Event {
		return signal.Event{Type: kind, ResponseID: response, ItemID: item + "_answer", OutputIndex: &zero, ContentIndex: &zero}
	}
	status := func(kind, status string) signal.Event {
		return signal.Event{Type: kind, Response: &signal.Response{ID: response, Status: status}}
	}
	switch ev.Mark {
	case trace.VADStart:
		e.put(signal.Event{Type: signal.SpeechStarted, ItemID: item, AudioStartMS: &ms})
	case trace.VADStop:
		e.put(signal.Event{Type: signal.SpeechStopped, ItemID: item, AudioEndMS: &ms})
	case trace.TurnEnd:
		e.put(signal.Event{Type: signal.InputCommitted, ItemID: item})
	case trace.ASRFinal:
		for _, a := range ev.Attrs {
			if a.Key == trace.AttrText {
				e.put(signal.Event{Type: signal.InputTranscript, ItemID: item, ContentIndex: &zero, Transcript: a.Text})
			}
		}
	case trace.LLMSend:
		e.put(status(signal.ResponseCreated, "in_progress"))
	case trace.TTSFirstFrame:
		e.put(part(signal.OutputItemAdded))
		e.put(part(signal.ContentPartAdded))
	case trace.TTSEnd:
		e.put(part(signal.AudioDone))
	case trace.FirstSound:
		e.put(signal.Event{Type: signal.OutputStarted, ResponseID: response})
	case trace.PlayStopped:
		e.put(signal.Event{Type: signal.OutputCleared, ResponseID: response})
		e.put(status(signal.ResponseDone, "cancelled"))
	case trace.PlayEnd:
		e.put(signal.Event{Type: signal.OutputStopped, ResponseID: response})
		e.put(status(signal.ResponseDone, "completed"))
	case trace.TurnFailed:
		e.put(status(signal.ResponseDone, "failed"))
	}
}
