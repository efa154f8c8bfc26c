//go:build race

package serving

// underRace says that the race detector watches, under which all this takes ten
// times as long.
const underRace = true
