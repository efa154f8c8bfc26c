package realtime

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"firstsound/audio"
)

// The bounds of what a service may make of a turn; that of a transcript is in bytes.
const (
	maxAnswers    = 100
	maxMarks      = 10000
	maxTranscript = 1 << 20
)

// take goes on by an event. It says whether the turn is over.
func (c *caller) take(e event, at time.Duration) (over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.answer(e)
	if err := c.mark(e, a, at); err != nil {
		return false, err
	}
	switch e.Type {
	case "input_audio_buffer.speech_started":
		c.speech = true
		if len(c.said) == 2 { // it is what cuts the answer off
			err = c.truncate()
		}
	case "response.created":
		c.speech = false
		err = c.created(e, at)
	case "response.output_audio.delta":
		if a == nil {
			return false, fmt.Errorf("sound came for the response %.40q, which was not created", e.ResponseID)
		}
		err = c.sound(a, e, at)
	case "response.output_audio_transcript.delta":
		if a == nil {
			break
		}
		if a.Transcript += e.Delta; len(a.Transcript) > maxTranscript {
			err = fmt.Errorf("the transcript of an answer has more than %d bytes", maxTranscript)
		}
	case "conversation.item.truncated":
		for i := range c.turn.Answers {
			if t := &c.turn.Answers[i]; t.item == e.ItemID && t.Truncated == nil {
				t.Truncated = &at
			}
		}
	case "response.done":
		if a == nil {
			return false, errors.New("a response is done that was not created")
		}
		err = a.done(e, at)
	case "error":
		// The answer may be done before the wish to stop it arrives.
		if e.Error == nil || e.Error.Code != "response_cancel_not_active" {
			err = e.Error.asError()
		}
	}
	return err == nil && c.over(at), err
}

// answer returns the answer that an event is about; nil if there is none.
func (c *caller) answer(e event) *Answer {
	id := e.ResponseID
	if e.Response != nil {
		id = e.Response.ID
	}
	for i := range c.turn.Answers {
		if a := &c.turn.Answers[i]; id != "" && a.ID == id {
			return a
		}
	}
	return nil
}

// mark notes an event.
func (c *caller) mark(e event, a *Answer, at time.Duration) error {
	switch e.Type {
	case "response.output_audio.delta":
		if a == nil || a.FirstDelta != nil {
			return nil
		}
	case "response.output_audio_transcript.delta":
		if a == nil || a.Transcript != "" {
			return nil
		}
	}
	if len(c.turn.Marks) >= maxMarks {
		return fmt.Errorf("more than %d events in a turn", maxMarks)
	}
	m := Mark{Event: e.Type, At: at, ID: e.ResponseID}
	if e.Response != nil {
		m.ID = e.Response.ID
	}
	if m.ID == "" {
		m.ID = e.ItemID
	}
	for _, ms := range []*int64{e.StartMS, e.EndMS} {
		if ms != nil {
			d := time.Duration(*ms) * time.Millisecond
			m.Offset = &d
		}
	}
	c.turn.Marks = append(c.turn.Marks, m)
	return nil
}

func (c *caller) created(e event, at time.Duration) error {
	switch {
	case e.Response == nil || e.Response.ID == "":
		return errors.New("a response was created without an ID")
	case len(c.turn.Answers) >= maxAnswers:
		return fmt.Errorf("more than %d answers in a turn", maxAnswers)
	}
	c.turn.Answers = append(c.turn.Answers, Answer{ID: e.Response.ID, SpeechEnd: c.said[len(c.said)-1].end, Created: at, Sound: audio.Frame{Rate: Rate}})
	return nil
}

// sound plays a delta, and plans the cut once it is known when it is due.
func (c *caller) sound(a *Answer, e event, at time.Duration) error {
	pcm, err := base64.StdEncoding.DecodeString(e.Delta)
	if err != nil {
		return fmt.Errorf("the sound of %.40q is no base64: %w", a.ID, err)
	}
	a.item, a.content = e.ItemID, e.Content
	if err := a.play(pcm, at); err != nil {
		return err
	}
	if c.cut == nil || c.cutting || a != &c.turn.Answers[len(c.turn.Answers)-1] {
		return nil
	}
	if due, ok := a.playedAt(c.cut.After); ok {
		c.cutting, c.target = true, len(c.turn.Answers)-1
		c.alarm = c.clock.At(due, c.interrupt)
	}
	return nil
}

// interrupt is the moment of the cut.
func (c *caller) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	if c.cut.Say != nil {
		c.said = append(c.said, newSaid(c.cut.Say, c.clock))
		return
	}
	if err := c.send(map[string]any{"type": "response.cancel"}); err == nil {
		c.truncate() // if it fails, so does the reader
	}
}

// truncate stops the player and tells the agent how much was heard.
func (c *caller) truncate() error {
	a := &c.turn.Answers[c.target]
	if a.Heard != nil {
		return nil
	}
	heard := a.heard(c.clock.Now())
	a.Heard = &heard
	return c.send(map[string]any{"type": "conversation.item.truncate", "item_id": a.item, "content_index": a.content, "audio_end_ms": heard.Milliseconds()})
}

func (a *Answer) done(e event, at time.Duration) error {
	a.Done, a.Status = &at, e.Response.Status
	if d := e.Response.Details; d != nil {
		a.Reason = d.Reason
		if a.Status == "failed" {
			return d.Error.asError()
		}
	}
	if a.Status == "failed" {
		return (*apiError)(nil).asError()
	}
	return nil
}

// over says whether all that was said has been answered.
func (c *caller) over(now time.Duration) bool {
	n := len(c.turn.Answers)
	if n == 0 || c.speech || now < c.said[len(c.said)-1].end {
		return false
	}
	for i := range c.turn.Answers {
		if c.turn.Answers[i].Done == nil {
			return false
		}
	}
	cut, last := &c.turn.Answers[c.target], &c.turn.Answers[n-1]
	switch {
	case c.cutting && c.cut.Say == nil:
		return cut.Truncated != nil
	case c.cutting: // what was said over the answer has one of its own
		return cut.Truncated != nil && len(c.said) == 2 && last.SpeechEnd == c.said[1].end && last.Status != "cancelled"
	}
	return last.Status != "cancelled"
}
