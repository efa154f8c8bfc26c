//go:build !race

package diagnosis_test

const raceEnabled = false
