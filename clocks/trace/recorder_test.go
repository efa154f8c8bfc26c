package trace

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"firstsound/clocks"
)

// record runs f on a clock that stands at 10 ms and returns the events.
func record(t *testing.T, f func(turn *Turn)) []Event {
	v := clocks.NewVirtual()
	var events []Event
	v.Go("main", func() {
		v.Sleep(context.Background(), 10*time.Millisecond)
		f(NewRecorder(v, func(e Event) { events = append(events, e) }).Open(ID{Session: 1, Turn: 2}))
	})
	if err := v.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return events
}

func TestMark(t *testing.T) {
	events := record(t, func(turn *Turn) {
		a := turn.Mark(SpeechEnd)
		b := turn.Mark(VADStop, None, a)
		turn.Record(Event{At: 3, Mark: TurnEnd, Causes: []Ref{b, None}, Stage: StageTurn})
	})
	want := []Event{
		{At: 10e6, ID: ID{1, 2}, Seq: 1, Mark: SpeechEnd},
		{At: 10e6, ID: ID{1, 2}, Seq: 2, Mark: VADStop, Causes: []Ref{1}},
		{At: 3, ID: ID{1, 2}, Seq: 3, Mark: TurnEnd, Causes: []Ref{2}, Stage: StageTurn},
	}
	for i := range events {
		if len(events[i].Causes) == 0 {
			events[i].Causes = nil
		}
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("got %+v", events)
	}
}

// What cannot be right is recorded as what it is.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(turn *Turn)
		want string
	}{
		"another clock":    {func(turn *Turn) { turn.Record(Event{At: 1_700_000_000_000_000_000, Mark: VADStop}) }, "vad_stop is at 1700000000000000000 ns, which is not on the run's clock"},
		"before the run":   {func(turn *Turn) { turn.Record(Event{At: -1, Mark: VADStop}) }, "vad_stop is at -1 ns"},
		"of a closed turn": {func(turn *Turn) { turn.Mark(TurnClosed); turn.Mark(ASRFinal) }, "asr_final came after the turn was closed"},
	} {
		events := record(t, test.do)
		last := events[len(events)-1]
		if last.Mark != Fault || !strings.Contains(last.Attrs[0].Text, test.want) {
			t.Errorf("%s: got %+v", name, last)
		}
	}
}

func TestNoTurn(t *testing.T) {
	var turn *Turn
	if turn.Mark(VADStop) != None || turn.Record(Event{}) != None || FromContext(context.Background()) != nil {
		t.Error("a turn that is not there recorded something")
	}
}

// Numbers are given out and events handed on under one lock.
func TestConcurrentMarks(t *testing.T) {
	var events []Event
	turn := NewRecorder(clocks.NewReal(), func(e Event) { events = append(events, e) }).Open(ID{1, 1})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				turn.Mark(VADStop)
			}
		})
	}
	wg.Wait()
	for i, e := range events {
		if e.Seq != Ref(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}
