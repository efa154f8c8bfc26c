//go:build !race

package serving

const underRace = false
