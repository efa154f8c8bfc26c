package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"firstsound/pipeline/report"
)

// A callLog keeps turns as they end, in calls.jsonl: what is left if the program is
// killed. It knows packets, and not yet which sample of them is the first to be heard,
// as calls.json does. A nil one keeps nothing.
type callLog struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first of writing
}

// A loggedTurn is a line of calls.jsonl. Times are from the true end of the speech.
type loggedTurn struct {
	Call      int             `json:"call"`
	Turn      int             `json:"turn"`
	RequestID string          `json:"request_id,omitempty"` // absent: it never began
	Utterance string          `json:"utterance,omitempty"`
	Ended     *time.Duration  `json:"ended_ns,omitempty"`        // the speech, since the run began
	First     *time.Duration  `json:"first_packet_ns,omitempty"` // with sound in it, when it had arrived; absent: none came
	Last      *time.Duration  `json:"last_packet_ns,omitempty"`
	Error     string          `json:"error,omitempty"`
	Agent     *report.TurnRow `json:"agent,omitempty"` // what the agent had said of it by then
}

// newCallLog begins the file in a folder that is there; without one there is none.
func newCallLog(dir string, by maker) (*callLog, error) {
	if dir == "" {
		return nil, nil
	}
	f, err := os.Create(filepath.Join(dir, turnsAsTheyCome))
	if err != nil {
		return nil, err
	}
	l := &callLog{file: f}
	l.line(map[string]any{"format": "firstsound.calls-log/1", "made": by})
	return l, l.err
}

func (l *callLog) line(v any) {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// keep writes a turn that has ended, or that never began: then there is no a.
func (l *callLog) keep(number, n int, t *talk, a *turnAsked, failed error) {
	if l == nil {
		return
	}
	w := loggedTurn{Call: number, Turn: n}
	if a != nil {
		w.RequestID, w.Utterance, w.Ended = a.id, a.utterance.ID, &a.End
		if first, last, ok := t.sounds(a.End); ok {
			w.First, w.Last = since(&first, a.End), since(&last, a.End)
		}
		t.mu.Lock()
		w.Agent = t.rows[a.id]
		t.mu.Unlock()
	}
	if failed != nil {
		w.Error = firstPart(t.c.public(failed))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(w)
}

func (l *callLog) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.err, l.file.Close())
}
