package socket

import "time"

// deadline returns the moment after d as a net.Conn wants it, which is on the
// computer's clock.
func deadline(d time.Duration) time.Time { return time.Now().Add(d) }
