package clocks

import (
	"context"
	"slices"
	"testing"
	"time"
)

// However many wait, a clock has so many bells; those of waits that are over, or
// were given up, serve again.
func TestBells(t *testing.T) {
	r := NewReal()
	var alarms []Alarm
	for range 2 * mostBells {
		alarms = append(alarms, r.At(r.Now()+near/2, func() { t.Error("a stopped alarm rings") }))
	}
	if r.bells.made != mostBells || len(r.bells.idle) != 0 || r.bells.ring(time.Second) != nil {
		t.Errorf("%d bells were made, %d are idle", r.bells.made, len(r.bells.idle))
	}
	for _, a := range alarms {
		a.Stop()
		a.Stop()
	}
	rang := make(chan struct{})
	r.At(r.Now()+time.Millisecond, func() { close(rang) })
	<-rang
	ctx, cancel := context.WithCancel(t.Context())
	r.At(r.Now()+time.Millisecond, cancel)
	if r.Sleep(ctx, near/2) == nil || r.Sleep(t.Context(), time.Millisecond) != nil || r.Sleep(t.Context(), 0) != nil {
		t.Error("it does not sleep as it should")
	}
	if r.bells.made != mostBells || len(r.bells.idle) != mostBells {
		t.Errorf("%d bells were made, %d are idle", r.bells.made, len(r.bells.idle))
	}
	if r.bells.ring(near+1) != nil || r.bells.ring(0) != nil {
		t.Error("a bell rings for what needs none")
	}
}

// How late a pace of 20 ms is on a computer that is left alone: with bells, and
// as Go's timers are.
func BenchmarkPace(b *testing.B) {
	for _, mode := range []string{"bells", "timers"} {
		b.Run(mode, func(b *testing.B) {
			r := NewReal()
			if mode == "timers" {
				r.bells.made = mostBells
			}
			var late []time.Duration
			n := 0
			for at := range Ticks(b.Context(), r, 20*time.Millisecond) {
				late = append(late, r.Now()-at)
				if n++; n == b.N {
					break
				}
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "µs-late-P50")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "µs-late-P99")
		})
	}
}
