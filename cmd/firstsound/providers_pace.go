package main

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
)

// maxSendLate is the P99 of the lateness up to which a replay counts as one in
// real time.
const maxSendLate = 2 * time.Millisecond

// A pace tells how late sound came to a recognizer: each piece should be handed
// over at the moment when the line brings it.
type pace struct {
	clock clocks.Clock

	mu     sync.Mutex
	heard  map[string]audio.Speech // by request ID
	handed *quantile.Series        // to the recognizer
	sent   *quantile.Series        // to the wire, which may have to be connected first
}

func newPace(c clocks.Clock) *pace {
	const exact = 100_000
	return &pace{clock: c, heard: map[string]audio.Speech{}, handed: quantile.New(exact), sent: quantile.New(exact)}
}

// paced is a recognizer whose sound is watched.
func (e env) paced(r asr.Recognizer) asr.Recognizer {
	if e.pace == nil {
		return r
	}
	return watched{r, e.pace}
}

type watched struct {
	asr.Recognizer
	p *pace
}

// Recognize implements asr.Recognizer.
func (w watched) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) {
		w.p.mu.Lock()
		w.p.heard[req.RequestID] = speech
		w.p.mu.Unlock()
		defer func() {
			w.p.mu.Lock()
			delete(w.p.heard, req.RequestID)
			w.p.mu.Unlock()
		}()
		for res, err := range w.Recognizer.Recognize(ctx, req, timed{speech, w.p}) {
			if !yield(res, err) {
				return
			}
		}
	}
}

// timed is a Speech whose frames are held against the time when they are there.
type timed struct {
	audio.Speech
	p *pace
}

// Frames implements audio.Speech.
func (s timed) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		var end time.Duration
		for f, err := range s.Speech.Frames(ctx) {
			if err == nil {
				end += f.Duration()
				s.p.note(ctx, s.p.handed, s.Speech, end, s.p.clock.Now())
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// wrote is told of each piece that was written to a service.
func (p *pace) wrote(requestID string, offset, at time.Duration) {
	p.mu.Lock()
	speech := p.heard[requestID]
	p.mu.Unlock()
	if speech != nil {
		p.note(context.Background(), p.sent, speech, offset, at)
	}
}

func (p *pace) note(ctx context.Context, to *quantile.Series, s audio.Speech, offset, at time.Duration) {
	due, err := s.Await(ctx, offset) // it has come: nothing is waited for
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	to.Add(int64(at - due))
}

// late returns how late the sound was handed over; nil if nobody listened.
func (p *pace) late() *report.Timers {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handed.N() == 0 {
		return nil
	}
	return &report.Timers{N: int(p.handed.N()), P50: p.handed.Of(0.5), P99: p.handed.Of(0.99), Max: p.handed.Max()}
}

// String says how late the sound was; empty if nobody listened.
func (p *pace) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handed.N() == 0 {
		return ""
	}
	late := time.Duration(p.handed.Of(0.99))
	text := fmt.Sprintf("the recognizer got the sound in real time: %d frames, late by P50 %s, P99 %s", p.handed.N(), millis(time.Duration(p.handed.Of(0.5))), millis(late))
	if late > maxSendLate {
		text = fmt.Sprintf("the replay was late: the recognizer got %d frames of sound late by P50 %s, P99 %s, and its figures are that much too long",
			p.handed.N(), millis(time.Duration(p.handed.Of(0.5))), millis(late))
	}
	if p.sent.N() > 0 {
		text += fmt.Sprintf("; they were written P50 %s, P99 %s late, connecting included", millis(time.Duration(p.sent.Of(0.5))), millis(time.Duration(p.sent.Of(0.99))))
	}
	return text
}
