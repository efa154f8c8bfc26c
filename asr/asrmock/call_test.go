package asrmock

import (
	"reflect"
	"testing"
	"time"

	"firstsound/clocks"
)

// What is planned is called in its order, also when the alarms come in another, and
// not after the end.
func TestOrder(t *testing.T) {
	s, err := New(clocks.NewReal(), Defaults())
	if err != nil {
		t.Fatal(err)
	}
	c := s.newCall(&vosk{}, "")
	var got []int
	for i, due := range []time.Duration{2 * time.Hour, time.Hour, 2 * time.Hour, 4 * time.Hour, 3 * time.Hour} {
		c.at(due, func() { got = append(got, i) })
	}
	c.at(3*time.Hour, func() { c.end("over") })
	c.callUntil(2 * time.Hour) // its alarm is the first to come
	c.callUntil(time.Hour)
	if want := []int{1, 0, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.callUntil(4 * time.Hour)
	if want := []int{1, 0, 2, 4}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, a := range c.alarms {
		a.Stop()
	}
}
