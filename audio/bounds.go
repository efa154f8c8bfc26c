package audio

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrNoSpeech says that a recording has nothing in it that stands out of its
// noise for 30 ms.
var ErrNoSpeech = errors.New("audio: no speech found: nothing stands out of the noise for 30 ms")

// How SpeechBounds works. The numbers for the frame, the margin and the gate
// were measured on speech with known ends in noise: -2.0 to +2.0 ms.
const (
	boundsMargin = 6.0   // dB over the floor that make a frame active
	boundsGate   = -55.0 // dBFS; below it no frame is active
	activeOf     = 5     // frames of 2 ms (10 ms), of which
	activeMin    = 3     // half and more have to be active in a run

	// A click is shorter than this. So is the burst of a final t or k, but that
	// one comes close to the word it belongs to.
	shortRun = 30 * time.Millisecond
	burstGap = 150 * time.Millisecond

	wantTail   = 200 * time.Millisecond
	wantHead   = 20 * time.Millisecond
	endsApart  = 150 * time.Millisecond
	strictMore = 12.0 // dB that the second opinion on the end asks for on top
)

// Bounds is where the speech of a recording lies.
type Bounds struct {
	Start, End time.Duration // of the first sample, and just after the last one
	Floor      float64       // dBFS; the noise of the recording, -Inf if it has digital silence
	Threshold  float64       // dBFS; what counted as sound
	Warnings   []string      // why the bounds may be wrong, and what else is wrong with the recording
}

// SpeechBounds returns where the speech in f begins and ends, as FindSpeech
// finds it.
func SpeechBounds(f Frame) (start, end time.Duration, err error) {
	b, err := FindSpeech(f)
	return b.Start, b.End, err
}

// FindSpeech looks through a whole recording of one utterance for where the
// speech begins and ends, pauses inside included.
//
// It takes frames of 2 ms, without a constant or a rumble below some 40 Hz.
// The floor is the quietest 100 ms. A frame is active if it is 6 dB above the
// floor and above -55 dBFS; a run is where at least half of 10 ms is active.
// Speech reaches from the first active frame of the first run to the last one
// of the last run. Runs of less than 30 ms count only if they are within 150 ms
// of a longer one, so that a click is no speech but the end of "cat" is.
//
// A sound that starts and stops at once is found within 2 ms at both ends, in
// noise of up to -40 dBFS around a voice at -17. Speech that fades has no sharp
// end: what is below the threshold is not found, and in noise that is more. A
// breath before or after the speech is found as part of it.
//
// The error is ErrNoSpeech, or says that f is too short or its rate is none.
func FindSpeech(f Frame) (Bounds, error) {
	if err := CheckRate(f.Rate); err != nil {
		return Bounds{}, err
	}
	levels := frameLevels(f)
	if len(levels) < activeOf {
		return Bounds{}, fmt.Errorf("audio: recording of %v is too short to find speech in: need 10ms", f.Duration())
	}
	floor := quietest(levels)
	b := Bounds{Floor: dBFS(floor), Threshold: max(dBFS(floor)+boundsMargin, boundsGate)}
	runs, clicks := speechRuns(levels, power(b.Threshold))
	if len(runs) == 0 {
		return b, ErrNoSpeech
	}
	at := func(frame int) time.Duration { return min(Span(frameStart(frame, f.Rate), f.Rate), f.Duration()) }
	b.Start, b.End = at(runs[0][0]), at(runs[len(runs)-1][1])

	if tail := f.Duration() - b.End; tail < wantTail {
		b.warn("only %v of silence after the speech: its end may be cut or lie later; record 200ms and more", tail.Round(time.Millisecond))
	}
	if b.Start < wantHead {
		b.warn("speech begins %v after the recording: its beginning may be cut", b.Start.Round(time.Millisecond))
	}
	if first, n, ok := Clipped(f); ok {
		b.warn("clipped: %d samples at full scale, the first at %v", n, Span(first, f.Rate).Round(time.Millisecond))
	}
	if len(clicks) > 0 {
		c := clicks[0]
		b.warn("%d sounds shorter than 30ms were taken for clicks, the first at %v", len(clicks), at(c[0]).Round(time.Millisecond))
	}
	strict, _ := speechRuns(levels, power(b.Threshold+strictMore))
	if len(strict) > 0 {
		if other := at(strict[len(strict)-1][1]); b.End-other > endsApart {
			b.warn("the end is not clear: %v, or %v for sound that is 12 dB louder; mark it by hand", b.End.Round(time.Millisecond), other.Round(time.Millisecond))
		}
	}
	return b, nil
}

func (b *Bounds) warn(format string, args ...any) {
	b.Warnings = append(b.Warnings, fmt.Sprintf(format, args...))
}

// frameStart returns the first sample of a frame of 2 ms. The frames have no
// common length where the rate has none.
func frameStart(frame, rate int) int { return int(int64(frame) * int64(rate) / 500) }

// frameLevels returns the power of every frame of 2 ms, and of a last one that
// may be shorter. It is the lower of two: around the mean of the recording, and
// around the mean of the 10 ms about each sample. The first is exact where
// sound stops at once. The second does not hear the rumble below some 40 Hz
// that most of the noise of a room consists of.
//
// Digital silence has no part in the mean and is silent: padding that was added
// to a recording with a constant in it has no constant.
func frameLevels(f Frame) []float64 {
	n := len(f.PCM)
	before := make([]int64, n+1) // the sum of all samples before one
	sum, count := int64(0), 0
	var levels []float64
	for i := 0; i < n; i = frameStart(len(levels), f.Rate) {
		part := f.PCM[i:min(frameStart(len(levels)+1, f.Rate), n)]
		levels = append(levels, 0)
		total := int64(0)
		quiet := true
		for j, x := range part {
			before[i+j] = sum + total
			total += int64(x)
			quiet = quiet && x == 0
		}
		sum += total
		if !quiet {
			count += len(part)
		}
	}
	before[n] = sum
	mean := float64(sum) / float64(max(1, count))
	half := f.Rate / 200 // samples in 5 ms
	for k := range levels {
		from, to := frameStart(k, f.Rate), min(frameStart(k+1, f.Rate), n)
		if silent(f.PCM[from:to]) {
			continue
		}
		global, local := 0.0, 0.0
		for i := from; i < to; i++ {
			x := float64(f.PCM[i])
			global += (x - mean) * (x - mean)
			a, b := max(0, i-half), min(n, i+half+1)
			x -= float64(before[b]-before[a]) / float64(b-a)
			local += x * x
		}
		levels[k] = min(global, local) / float64(to-from)
	}
	return levels
}

func silent(pcm []int16) bool {
	for _, x := range pcm {
		if x != 0 {
			return false
		}
	}
	return true
}

// quietest returns the lowest mean of 100 ms, or of all if there is less.
func quietest(levels []float64) float64 {
	n := min(50, len(levels))
	lowest := math.Inf(1)
	for i := 0; i+n <= len(levels); i += 5 {
		sum := 0.0
		for _, l := range levels[i : i+n] {
			sum += l
		}
		lowest = min(lowest, sum/float64(n))
	}
	return lowest
}

// speechRuns returns the runs of frames that are speech as [first, after last],
// and those that were taken for clicks.
func speechRuns(levels []float64, threshold float64) (runs, clicks [][2]int) {
	var all [][2]int
	active := 0 // of the last activeOf frames
	for i := range levels {
		if levels[i] >= threshold {
			active++
		}
		if i >= activeOf && levels[i-activeOf] >= threshold {
			active--
		}
		if active < activeMin {
			continue
		}
		first, last := max(0, i-activeOf+1), i
		for levels[first] < threshold {
			first++
		}
		for levels[last] < threshold {
			last--
		}
		if n := len(all); n > 0 && first <= all[n-1][1] {
			all[n-1][1] = max(all[n-1][1], last+1)
		} else {
			all = append(all, [2]int{first, last + 1})
		}
	}
	const frame = 2 * time.Millisecond
	long := func(r [2]int) bool { return time.Duration(r[1]-r[0])*frame >= shortRun }
	near := func(gap int) bool { return time.Duration(gap)*frame <= burstGap }
	keep := make([]bool, len(all))
	last := -1 // the long run before
	for i, r := range all {
		if long(r) {
			last = i
		}
		keep[i] = last >= 0 && near(r[0]-all[last][1])
	}
	last = -1 // the long run after
	for i := len(all) - 1; i >= 0; i-- {
		if long(all[i]) {
			last = i
		}
		keep[i] = keep[i] || last >= 0 && near(all[last][0]-all[i][1])
	}
	for i, r := range all {
		if keep[i] {
			runs = append(runs, r)
		} else {
			clicks = append(clicks, r)
		}
	}
	return runs, clicks
}
