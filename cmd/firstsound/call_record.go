package main

import (
	"fmt"
	"path/filepath"

	"firstsound/audio/ear"
)

// recording is the file of a call.
func (c *callCmd) recording(call int) string {
	return filepath.Join(c.record, fmt.Sprintf("call-%d.wav", call))
}

// keep writes both directions of the call, with the marks.
func (t *talk) keep(r *callResult) error {
	var rec ear.Recording
	for i, a := range r.asked {
		if err := rec.Add(ear.Caller, a.began, a.frame); err != nil {
			return err
		}
		rec.Mark(a.Start, a.End, fmt.Sprintf("%s %s", a.id, a.utterance.ID))
		if i >= len(r.heard) {
			continue
		}
		if m := r.heard[i].FirstSound; m != nil {
			rec.Mark(a.End, m.Wire, "time to first sound")
		}
		if m := r.heard[i].FirstSpeech; m != nil {
			rec.Mark(m.Wire, m.Wire, "first speech")
		}
	}
	for _, p := range t.packets {
		if err := rec.Add(ear.Agent, p.Arrived, p.Sound); err != nil {
			return err
		}
	}
	return rec.Write(t.c.recording(t.number))
}
