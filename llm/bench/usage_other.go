//go:build !unix

package bench

import "time"

// cpuTime and peakRSS are not known on this system.
func cpuTime() time.Duration { return 0 }
func peakRSS() int64         { return 0 }
