package main

import (
	"errors"
	"time"

	"firstsound/audio/realtime/mock"
	"firstsound/clocks"
)

// s2s makes the agent of mock s2s.
func (c *mockSpeech) s2s(clock clocks.Clock, epoch time.Time) (*mockPart, error) {
	o := mock.Defaults()
	set, err := c.of("set", c.set, "s2s")
	if err == nil {
		err = lay(&o, set)
	}
	if err != nil {
		return nil, err
	}
	faults, err := c.of("fault", c.faults, "s2s")
	if err != nil {
		return nil, err
	}
	o.Faults, o.Epoch = append(o.Faults, faults...), epoch
	if _, err := mock.New(clock, o); err != nil { // before the truth begins anew
		return nil, usageError{err}
	}
	file, err := c.openTruth("s2s")
	if err != nil {
		return nil, err
	}
	p := &mockPart{name: "s2s", scheme: "ws", show: realtimePath, close: file.Close}
	if file != nil {
		w, err := mock.NewWriter(file, epoch)
		if err != nil {
			return nil, err
		}
		o.Truth, p.close = w.Write, func() error { return errors.Join(w.Err(), file.Close()) }
	}
	m, err := mock.New(clock, o)
	if err != nil {
		return nil, usageError{err}
	}
	p.serve = m.Serve
	return p, nil
}
