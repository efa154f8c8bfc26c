package llmmock

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// A write is noted when it begins, though it takes long: so a truth is what left the
// server, not what was meant to.
func TestWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		c := &conn{Conn: arrival.NewSource(clock).Wrap(a), clock: clock}
		if at := c.writing(time.Second); at != time.Second {
			t.Errorf("nothing was written: %v", at)
		}
		clock.SleepUntil(t.Context(), 3*time.Second)
		go func() {
			clock.SleepUntil(t.Context(), 5*time.Second)
			b.Read(make([]byte, 8))
		}()
		c.Write([]byte("chunk"))
		if now := clock.Now(); now != 5*time.Second {
			t.Fatalf("the write ended at %v", now)
		}
		for since, want := range map[time.Duration]time.Duration{time.Second: 3 * time.Second, 4 * time.Second: 4 * time.Second} {
			if at := c.writing(since); at != want {
				t.Errorf("since %v: %v, not %v", since, at, want)
			}
		}
		if at := (*conn)(nil).writing(time.Second); at != time.Second {
			t.Errorf("without a connection: %v", at)
		}
	})
}
