//go:build !race

package clockstest

// Race says that the race detector is on: what has no goroutines and takes long is
// better left out then, as it takes ten times as long.
const Race = false
