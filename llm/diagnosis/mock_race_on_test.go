//go:build race

package diagnosis_test

const raceEnabled = true
