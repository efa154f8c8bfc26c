package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/audio/impair"
	"firstsound/audio/liveline"
	"firstsound/audio/rtc"
	"firstsound/audio/signal"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
	"firstsound/pipeline/report"
)

// marksChannel is the label of the data channel on which the agent tells its marks.
const marksChannel = "firstsound"

// maxRequestID bounds what a caller may call a turn.
const maxRequestID = 128

// A toAgent is a message of a caller, as JSON on the data channel or the WebSocket.
type toAgent struct {
	// Type is utterance (a recording begins), live (whether speech that is not
	// announced is a turn), clock (what the agent's clock shows) or stats.
	Type      string          `json:"type"`
	RequestID string          `json:"request_id,omitempty"`
	Utterance string          `json:"utterance,omitempty"` // its ID
	At        *uint32         `json:"rtp,omitempty"`       // the timestamp of its first sample; on a WebSocket it counts samples
	On        bool            `json:"on,omitempty"`
	Sent      json.Number     `json:"sent,omitempty"` // comes back as it is
	Stats     json.RawMessage `json:"stats,omitempty"`
}

// A toCaller is a message of the agent.
type toCaller struct {
	Type       string             `json:"type"` // hello, event, turn, clock, error
	Session    int                `json:"session,omitempty"`
	Scenario   string             `json:"scenario,omitempty"`
	Utterances []utteranceWord    `json:"utterances,omitempty"`
	Event      json.RawMessage    `json:"event,omitempty"` // as in events.jsonl
	Turn       *report.TurnRow    `json:"turn,omitempty"`  // as in turns.jsonl
	Sent       json.Number        `json:"sent,omitempty"`
	Clock      *time.Duration     `json:"clock_ns,omitempty"` // the agent's clock, on which all marks are
	Epoch      int64              `json:"epoch_unix_ns,omitempty"`
	Error      string             `json:"error,omitempty"`
	Stats      *rtcStatsForCaller `json:"stats,omitempty"`
}

// json returns m as it is sent; nil if it cannot be: an event that is not JSON, which
// would be a fault of the recorder.
func (m toCaller) json() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}

// An utteranceWord names a recording that the agent knows.
type utteranceWord struct {
	ID       string        `json:"id"`
	Language string        `json:"language,omitempty"`
	Text     string        `json:"text,omitempty"`
	Start    time.Duration `json:"start_ns"` // of its speech, as offsets into it
	End      time.Duration `json:"end_ns"`
}

// rtcStatsForCaller says how the agent's packets have gone out.
type rtcStatsForCaller struct {
	Sent   int           `json:"sent"`
	Latest time.Duration `json:"latest_ns"`
}

// A session is a call.
type session struct {
	a      *agent
	number int
	st     *stages
	peer   *rtc.Peer     // nil on a WebSocket
	relay  *impair.Relay // nil: nothing is impaired
	out    *outlet[toCaller]
	oai    *realtimeEvents // nil: nobody wants them

	mu     sync.Mutex
	line   *liveline.Line
	place  func(uint32) int64
	early  []toAgent // what came before there was a line
	cancel context.CancelCauseFunc
	hungUp bool
	sound  time.Duration // the last first_sound
}

// maxNews is how many messages may wait for a caller. Of one that does not take them
// the rest is dropped: it may have no data channel at all, or ask without listening.
const maxNews = 1024

// An outlet holds what is to be told to a caller.
type outlet[T any] struct {
	queue   *clocks.Queue[T]
	waiting atomic.Int64
}

func newOutlet[T any](c clocks.Clock, name string) *outlet[T] {
	return &outlet[T]{queue: clocks.NewQueue[T](c, name)}
}

func (o *outlet[T]) put(m T) {
	if o.waiting.Add(1) > maxNews {
		o.waiting.Add(-1)
		return
	}
	o.queue.Put(m)
}

func (o *outlet[T]) close() { o.queue.Close() }

func (o *outlet[T]) all(ctx context.Context) iter.Seq[T] {
	return func(yield func(T) bool) {
		for m := range o.queue.All(ctx) {
			o.waiting.Add(-1)
			if !yield(m) {
				return
			}
		}
	}
}

var errHungUp = errors.New("the server is stopped")

// newSession counts a call, and refuses it if there are too many.
func (a *agent) newSession(st *stages) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopping {
		return nil, fmt.Errorf("%w: %w", signal.ErrBusy, errHungUp)
	}
	if len(a.calls) >= a.serveCmd.calls {
		return nil, fmt.Errorf("%w: %d go on already, and --calls allows no more", signal.ErrBusy, len(a.calls))
	}
	a.count++
	a.live.Add(1)
	s := &session{a: a, number: a.count, st: st,
		out: newOutlet[toCaller](a.clock, "news for the caller")}
	a.calls[s.number] = s
	return s, nil
}

// over forgets the call.
func (s *session) over() {
	s.out.close()
	defer s.a.live.Done()
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.rec.endSession(s.number) // a call that broke off may have left turns open
	delete(s.a.calls, s.number)
	for id, other := range s.a.peers {
		if other == s {
			delete(s.a.peers, id)
		}
	}
}

// ended says why the call ended, if not by one of the two sides.
func (s *session) ended(err error) {
	if err != nil {
		fmt.Fprintf(s.a.streams.err, "firstsound: call %d ended: %v\n", s.number, err)
	}
}

func (s *session) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hungUp = true
	if s.cancel != nil {
		s.cancel(errHungUp)
	}
}

// begins says how the call is ended, which somebody may have wished already.
func (s *session) begins(cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	if s.hungUp {
		cancel(errHungUp)
	}
}

// overPeer answers a call over WebRTC until it ends.
func (s *session) overPeer(ctx context.Context) {
	defer s.over()
	defer func() {
		s.ended(s.peer.Failed())
		s.peer.Close()
		if err := s.a.impairment.closeRelay(s.relay, s.number); err != nil {
			fmt.Fprintf(s.a.streams.err, "firstsound: call %d: %v\n", s.number, err)
		}
	}()
	g, ctx := clocks.NewGroup(ctx, s.a.clock)
	s.begins(g.Cancel)
	g.Go("data channels", func() error {
		for {
			d, ok := s.peer.Opened(ctx)
			if !ok {
				return nil
			}
			s.channel(ctx, g, d)
		}
	})
	g.Go("call", func() error {
		defer g.Cancel(liveline.ErrClosed)
		call, err := liveline.OverPeer(ctx, s.a.clock, s.peer)
		if err != nil {
			return err
		}
		s.speaks(call.Line, call.Stamps.Place)
		g.Go("hearing", func() error { call.Listen(ctx); return nil })
		s.answer(ctx, call.Line)
		return nil
	})
	g.Wait()
}

// channel serves a data channel of the caller.
func (s *session) channel(ctx context.Context, g *clocks.Group, d *rtc.Data) {
	if d.Label() == signal.DataChannel {
		s.realtime(ctx, g, d)
		return
	}
	if d.Label() == marksChannel {
		g.Go("news", func() error {
			for m := range s.out.all(ctx) {
				if text := m.json(); text == nil || d.Send(ctx, string(text)) != nil {
					return nil // the caller does not read: the call goes on
				}
			}
			return nil
		})
		s.out.put(s.hello())
	}
	g.Go("messages", func() error {
		for {
			m, ok := d.Receive(ctx)
			if !ok {
				return nil
			}
			s.message(m.Data, m.Read)
		}
	})
}

func (s *session) hello() toCaller {
	m := toCaller{Type: "hello", Session: s.number, Scenario: s.st.name, Epoch: s.a.epoch.UnixNano()}
	for _, u := range s.st.corpus {
		m.Utterances = append(m.Utterances, utteranceWord{u.ID, u.Language, u.Text, u.Start, u.End})
	}
	return m
}

// message takes what the caller sent. What is no message of ours is left alone: a
// client may have its own.
func (s *session) message(data []byte, read time.Duration) {
	var m toAgent
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &m) != nil {
		return
	}
	if len(m.RequestID) > maxRequestID {
		s.out.put(toCaller{Type: "error", Error: fmt.Sprintf("a request_id of more than %d bytes", maxRequestID)})
		return
	}
	switch m.Type {
	case "clock":
		s.out.put(toCaller{Type: "clock", Sent: m.Sent, Clock: &read})
	case "stats":
		s.a.clients.add(s.number, m.RequestID, m.Stats)
	case "utterance", "live":
		s.mu.Lock()
		line, place := s.line, s.place
		if line == nil && len(s.early) < maxEarly {
			s.early = append(s.early, m)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock() // the line may be held up by its caller, and then only this call waits
		if line == nil {
			s.out.put(toCaller{Type: "error", Error: "the call is not connected yet"})
			return
		}
		s.expect(m, line, place)
	}
}

// maxEarly is how many announcements may come before the call is connected.
const maxEarly = 8

// expect tells the line what the caller says next.
func (s *session) expect(m toAgent, line *liveline.Line, place func(uint32) int64) {
	u := s.st.find(m.Utterance)
	if m.Type == "live" || u == nil || m.At == nil {
		line.Detect(m.Type != "live" || m.On, m.RequestID)
		return
	}
	if err := line.Announce(u, place(*m.At), m.RequestID); err != nil {
		s.out.put(toCaller{Type: "error", Error: err.Error()})
	}
}

// speaks says on which line the caller speaks.
func (s *session) speaks(line *liveline.Line, place func(uint32) int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.early {
		s.expect(m, line, place)
	}
	s.line, s.place, s.early = line, place, nil
}

// answer lets the pipeline answer what comes over a line until the call is over.
func (s *session) answer(ctx context.Context, line *liveline.Line) {
	stop := context.AfterFunc(ctx, func() { line.Close(context.Cause(ctx)) })
	defer stop()
	s.st.pipe.Run(ctx, pipeline.Call{
		Session: s.number, Line: line, Recorder: s.a.recorder,
		Script: func(n int) (pipeline.Say, bool) { return s.next(ctx, line, n) },
	})
	line.Close(nil)
	line.End()
}

// next waits until the caller speaks. The pipeline lets the turn begin at once where
// the turn before is over or can be heard.
func (s *session) next(ctx context.Context, line *liveline.Line, n int) (pipeline.Say, bool) {
	said, ok := line.Next(ctx)
	if !ok {
		return pipeline.Say{}, false
	}
	id := said.RequestID
	if id == "" {
		id = fmt.Sprintf("%s-%d-%d", runID(s.a.scenario), s.number, n)
	}
	say := pipeline.Say{Utterance: said.Utterance, RequestID: id, BargeIn: new(time.Duration), Live: true}
	s.mu.Lock()
	if s.sound > 0 {
		*say.BargeIn = s.a.clock.Now() - s.sound // now, and not late
	}
	s.mu.Unlock()
	if s.st.name != "" {
		say.Attrs = []trace.Attr{{Key: "scenario", Text: s.st.name}}
	}
	return say, true
}

// event tells the caller what happened.
func (s *session) event(e *trace.Event) {
	if e.Mark == trace.FirstSound {
		s.mu.Lock()
		s.sound = e.At
		s.mu.Unlock()
	}
	s.out.put(toCaller{Type: "event", Event: trace.AppendJSON(nil, e)})
	if s.oai != nil {
		s.oai.event(e)
	}
}

// turn tells the caller what a turn came to.
func (s *session) turn(t *report.Turn) {
	m := toCaller{Type: "turn", Turn: t.Row()}
	m.Turn.WhatIfs = nil // for the report, not for a caller
	if s.peer != nil {
		st := s.peer.Stats()
		m.Stats = &rtcStatsForCaller{st.Sent, st.Latest}
	}
	s.out.put(m)
}

// A clientLog keeps what the callers' clients say of their turns: a line of JSON for
// each in clients.jsonl, with the request ID.
type clientLog struct {
	mu   sync.Mutex
	file *os.File
	n    int
	err  error
}

// maxClientBytes bounds what callers can make us write.
const maxClientBytes = 1 << 30

func newClientLog(dir string) (*clientLog, error) {
	if dir == "" {
		return &clientLog{}, nil
	}
	f, err := os.Create(filepath.Join(dir, "clients.jsonl"))
	return &clientLog{file: f}, err
}

func (l *clientLog) add(session int, requestID string, stats json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.err != nil {
		return
	}
	if l.n > maxClientBytes {
		l.err = fmt.Errorf("clients.jsonl is full: it lacks what came after %d bytes", l.n)
		return
	}
	line, err := json.Marshal(struct {
		RequestID string          `json:"request_id"`
		Session   int             `json:"session"`
		Stats     json.RawMessage `json:"stats"`
	}{requestID, session, stats})
	if err == nil {
		l.n += len(line) + 1
		_, err = l.file.Write(append(line, '\n'))
	}
	l.err = err
}

func (l *clientLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return errors.Join(l.err, l.file.Close())
}
