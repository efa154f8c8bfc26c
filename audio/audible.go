package audio

import (
	"fmt"
	"math"
)

// The rule for the first audible sample. It is Pipecat's (detect_speech_onset
// of its audio/utils.py, 2026), so that figures compare: windows of 10 ms, one
// every 1 ms, each with its mean removed, and the first run of 50 windows whose
// RMS lies above -40 dBFS.
const (
	AudibleLevel = -40.0 // dBFS; a window has to be above it
	audibleRun   = 50    // windows in a row
)

// Audible finds the first audible sample of a stream that comes in pieces. The
// offset it reports is the middle of the first window of the run, as Pipecat
// reports it, which is a whole number of steps of round(rate/1000) samples. For
// a sound that starts at once and is loud, that is up to 5 ms early.
//
// Sound that ends before 50 windows have passed is not found, and so an answer
// of less than about 40 ms is not audible by this rule; Pending tells of it.
// Pipecat repeats the last sample of what has arrived to fill its last 5 ms.
// Audible waits for them instead, so that the answer does not depend on how the
// stream is cut. The offset is the same.
type Audible struct {
	rate        int
	window, hop int // samples
	gate        int64

	// The variance of a window does not change if one number is taken from all
	// its samples. first is that number: the stream's first sample, which also
	// makes the half window that Pipecat puts before it, all first samples,
	// come to nothing.
	first   int64
	started bool
	level   bool // all samples so far are equal to first

	// Sums since the beginning of the stream. They may wrap: only differences
	// over one window are used.
	sum, squares int64
	pos          int // samples so far, the half window before the first included

	// The sums as they were where the windows that are still open began.
	opened, closed int // windows so far
	atStart        [16][2]int64

	run    int // windows above the level in a row
	offset int
	found  bool
}

// NewAudible returns an Audible for a stream at rate, from MinRate to MaxRate.
func NewAudible(rate int) (*Audible, error) {
	if err := CheckRate(rate); err != nil {
		return nil, err
	}
	a := &Audible{
		rate: rate,
		// Pipecat rounds halves to even.
		window: int(math.RoundToEven(float64(rate) / 100)),
		hop:    int(math.RoundToEven(float64(rate) / 1000)),
	}
	a.gate = int64(math.Floor(power(AudibleLevel) * float64(a.window) * float64(a.window)))
	a.pos = a.window / 2
	// The windows that begin before the first sample.
	for a.opened*a.hop <= a.pos {
		a.opened++
	}
	return a, nil
}

// Push takes the next piece of the stream, of any length. Once the first audible
// sample is known it returns its offset from the beginning of the stream, in
// samples, and true, and does so ever after. It fails if f has another rate.
func (a *Audible) Push(f Frame) (offset int, found bool, err error) {
	if f.Rate != a.rate {
		return 0, false, fmt.Errorf("audio: frame at %d samples a second in a stream at %d: resample it first", f.Rate, a.rate)
	}
	pcm := f.PCM
	if !a.started && len(pcm) > 0 {
		a.first, a.started, a.level = int64(pcm[0]), true, true
	}
	if a.level {
		n := same(pcm, int16(a.first))
		a.skip(n)
		pcm = pcm[n:]
		a.level = len(pcm) == 0
	}
	// Windows open and close every hop; between those points there is only
	// summing up.
	opens, closes := a.opened*a.hop, a.closed*a.hop+a.window
	for len(pcm) > 0 && !a.found {
		n := min(len(pcm), min(opens, closes)-a.pos)
		a.add(pcm[:n])
		pcm = pcm[n:]
		if a.pos == closes {
			a.close()
			closes += a.hop
		}
		if a.pos == opens {
			a.atStart[uint(a.opened)%uint(len(a.atStart))] = [2]int64{a.sum, a.squares}
			a.opened++
			opens += a.hop
		}
	}
	return a.offset, a.found, nil
}

// same returns how many samples at the head of pcm are equal to x.
func same(pcm []int16, x int16) int {
	var many [64]int16 // arrays are compared many samples at a time
	n := 0
	if x == 0 {
		for len(pcm)-n >= len(many) && *(*[len(many)]int16)(pcm[n:]) == many {
			n += len(many)
		}
	}
	for n < len(pcm) && pcm[n] == x {
		n++
	}
	return n
}

// skip takes n samples equal to first, as all before them. The windows that open
// and close in them have sums of 0, and none is above the level.
func (a *Audible) skip(n int) {
	a.pos += n
	a.opened = a.pos/a.hop + 1
	a.closed = max(0, a.pos-a.window+a.hop) / a.hop
}

// add sums up Σd and Σd² of the differences d = x - first, from Σx and Σx²,
// which need no more than 32 bits for two samples.
func (a *Audible) add(pcm []int16) {
	n := int64(len(pcm))
	var sum int32 // 384 samples of MaxRate's hop do not overflow it
	var squares uint64
	for len(pcm) >= 8 {
		p := (*[8]int16)(pcm)
		s, t, u, v := int32(p[0]), int32(p[1]), int32(p[2]), int32(p[3])
		w, x, y, z := int32(p[4]), int32(p[5]), int32(p[6]), int32(p[7])
		sum += (s + t) + (u + v) + ((w + x) + (y + z))
		squares += uint64(uint32(s*s)+uint32(t*t)) + uint64(uint32(u*u)+uint32(v*v)) +
			(uint64(uint32(w*w)+uint32(x*x)) + uint64(uint32(y*y)+uint32(z*z)))
		pcm = pcm[8:]
	}
	for _, x := range pcm {
		sum += int32(x)
		squares += uint64(int32(x) * int32(x))
	}
	a.pos += int(n)
	a.sum += int64(sum) - n*a.first
	a.squares += int64(squares) - 2*a.first*int64(sum) + n*a.first*a.first
}

// close judges the oldest open window. n·Σx² - (Σx)² is n² times its variance;
// it is below 2⁵⁷ at MaxRate.
func (a *Audible) close() {
	at := &a.atStart[uint(a.closed)%uint(len(a.atStart))]
	sum, squares := a.sum-at[0], a.squares-at[1]
	a.closed++
	if int64(a.window)*squares-sum*sum <= a.gate {
		a.run = 0
		return
	}
	a.run++
	if a.run == audibleRun {
		a.offset, a.found = (a.closed-audibleRun)*a.hop, true
	}
}

// Pending returns where the sound began that is above the level at the end of
// what has been pushed but has not lasted long enough to count, and how many
// samples it has lasted. It returns ok false if there is none.
func (a *Audible) Pending() (offset, lasted int, ok bool) {
	if a.found || a.run == 0 {
		return 0, 0, false
	}
	return (a.closed - a.run) * a.hop, a.run * a.hop, true
}

// FirstAudible returns the index of the first audible sample of f by the rule
// of Audible. It returns found false if there is none, and an error if f's rate
// is not one to work with.
func FirstAudible(f Frame) (offset int, found bool, err error) {
	a, err := NewAudible(f.Rate)
	if err != nil {
		return 0, false, err
	}
	return a.Push(f)
}
