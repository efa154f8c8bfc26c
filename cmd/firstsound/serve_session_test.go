package main

import (
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/audio/liveline"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// A silentPort says nothing.
type silentPort struct{}

func (silentPort) Speak(audio.Frame) (time.Duration, error) { return 0, nil }
func (silentPort) Hush() time.Duration                      { return 0 }

// What the caller announces before its sound can be heard is not lost: on a busy
// computer the data channel may be there before the call is.
func TestEarlyAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		u := &audio.Utterance{ID: "hello"}
		s := &session{a: &agent{clock: clock}, st: &stages{corpus: []*audio.Utterance{u}}, out: newOutlet[toCaller](clock, "news")}
		for range maxEarly + 2 {
			s.message([]byte(`{"type":"utterance","utterance":"hello","rtp":320,"request_id":"r7"}`), 0)
		}
		line, err := liveline.New(liveline.Options{Clock: clock, Port: silentPort{}, Rate: 8000, Packet: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s.speaks(line, func(n uint32) int64 { return int64(n) })
		s.message([]byte(`{"type":"utterance","utterance":"hello","rtp":640,"request_id":"r8"}`), 0)
		line.Close(nil)
		var said []string
		for {
			next, ok := line.Next(t.Context())
			if !ok {
				break
			}
			if next.Utterance != u {
				t.Errorf("%+v", next)
			}
			said = append(said, next.RequestID)
		}
		line.End()
		if len(said) != maxEarly+1 || said[0] != "r7" || said[maxEarly] != "r8" {
			t.Errorf("%v", said)
		}
		s.out.close()
		refused := 0
		for m := range s.out.all(t.Context()) {
			if m.Type == "error" {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d are refused", refused)
		}
	})
}

// A line that is held up by its caller holds up nothing else: while an announcement
// waits for it, events still come through.
func TestHeldUpLine(t *testing.T) {
	clock := clocks.NewReal()
	u := &audio.Utterance{ID: "hello"}
	s := &session{a: &agent{clock: clock}, st: &stages{corpus: []*audio.Utterance{u}}, out: newOutlet[toCaller](clock, "news")}
	line, err := liveline.New(liveline.Options{Clock: clock, Port: silentPort{}, Rate: 8000, Packet: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	held, free := make(chan bool), make(chan bool)
	s.speaks(line, func(uint32) int64 { close(held); <-free; return 0 })
	announced := make(chan bool)
	go func() {
		s.message([]byte(`{"type":"utterance","utterance":"hello","rtp":320}`), 0)
		close(announced)
	}()
	<-held
	told := make(chan bool)
	go func() {
		s.event(&trace.Event{Mark: trace.FirstSound, At: time.Second})
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("an event waits for the line")
	}
	close(free)
	<-announced
	line.Close(nil)
	line.End()
}
