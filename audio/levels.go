package audio

import (
	"fmt"
	"math"
)

// The rates this package takes, in samples a second. Outside of them a header
// is more likely broken than meant: the slowest sound in use is 8000, the
// fastest converter 384000.
const (
	MinRate = 1000
	MaxRate = 384000
)

// CheckRate returns an error that names rate if it is not one from MinRate to
// MaxRate.
func CheckRate(rate int) error {
	if rate < MinRate || rate > MaxRate {
		return fmt.Errorf("audio: rate of %d samples a second: need %d to %d", rate, MinRate, MaxRate)
	}
	return nil
}

// fullScale is the power of a sample of -32768, which all levels refer to.
const fullScale = 32768.0 * 32768.0

// RMS returns the level of f in dBFS: 0 is a square wave at full scale, so a
// sine at full scale is -3.01. A mean other than zero counts as sound. Silence,
// and a frame without samples, is -Inf.
func RMS(f Frame) float64 {
	if len(f.PCM) == 0 {
		return math.Inf(-1)
	}
	var sum uint64
	for _, x := range f.PCM {
		sum += uint64(int64(x) * int64(x))
	}
	return dBFS(float64(sum) / float64(len(f.PCM)))
}

// Peak returns the level of the largest sample of f in dBFS, from -90.31 (one
// step) to 0. Silence, and a frame without samples, is -Inf.
func Peak(f Frame) float64 {
	largest := 0
	for _, x := range f.PCM {
		largest = max(largest, int(x), -int(x))
	}
	return dBFS(float64(largest) * float64(largest))
}

// dBFS turns a mean square of samples into a level.
func dBFS(power float64) float64 { return 10 * math.Log10(power/fullScale) }

// power is the opposite of dBFS.
func power(level float64) float64 { return fullScale * math.Pow(10, level/10) }

// clippedRun is how many samples at full scale in a row are taken for clipping.
// One or two may be an honest peak.
const clippedRun = 3

// Clipped returns how many samples of f lie in runs of three or more at full
// scale, and the index of the first one. Without any it returns ok false.
func Clipped(f Frame) (first, count int, ok bool) {
	run := 0
	for i := 0; i <= len(f.PCM); i++ {
		if i < len(f.PCM) && (f.PCM[i] == math.MaxInt16 || f.PCM[i] == math.MinInt16) {
			run++
			continue
		}
		if run >= clippedRun {
			if !ok {
				first, ok = i-run, true
			}
			count += run
		}
		run = 0
	}
	return first, count, ok
}

// saturate rounds x to the nearest sample; what lies beyond full scale becomes
// full scale.
func saturate(x float64) int16 {
	return int16(math.RoundToEven(max(math.MinInt16, min(math.MaxInt16, x))))
}
