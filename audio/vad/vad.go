// Package vad tells speech from silence by its energy: a small stand-in for the
// detectors that voice agents use, so that the decision "the user has stopped"
// can be replayed without one. In quiet recordings it is right within a few
// hundredths of a second; in loud noise it is not, as none of its kind is.
//
// The true bounds of an utterance do not come from here, but from
// audio.SpeechBounds or from a label: a detector has to be judged by something
// that is not a detector.
package vad

import (
	"fmt"
	"math"
	"time"

	"firstsound/audio"
)

// How the detector decides. It looks at hops of 10 ms, as WebRTC's does.
const (
	hopsPerSecond = 100

	// Speech begins when a hop is 8 dB above the floor and above -50 dBFS: noise
	// of 10 ms varies by 1 dB at 8 kHz, and speech at an arm's length from a
	// microphone lies at -30. It ends 3 dB lower, or a voice on the edge would
	// switch to and fro.
	onMargin, onGate   = 8.0, -50.0
	offMargin, offGate = 5.0, -53.0

	// Three hops in a row make a beginning, so that a click is none.
	confirm = 3

	// The floor is the quietest of the last 1.5 s: in that time all speech has
	// a gap, and noise that grows louder is taken for speech no longer than
	// that. (Minimum statistics; R. Martin, 2001.)
	memory = 150 // hops

	// Who speaks from the first sample on has shown no floor yet. It is taken
	// to be no higher than this.
	highestFloor = -45.0 // dBFS
)

// The same as ratios of powers, and as mean squares of samples.
var (
	on, off           = ratio(onMargin), ratio(offMargin)
	onPower, offPower = power(onGate), power(offGate)
	highest           = power(highestFloor)
)

// A Change is the beginning or the end of speech.
type Change struct {
	Speech bool

	// At is where in the stream it happened, a multiple of 10 ms: the beginning
	// of the first hop with speech, or the end of the last one.
	At time.Duration

	// Known is how much of the stream had to pass until it could be told: 30 ms
	// after a beginning, 10 ms after an end. There is no hangover in it.
	Known time.Duration
}

// Energy is a detector for one stream. It has no clock: it sees samples, and
// says the same about the same samples however they are cut.
type Energy struct {
	rate int

	// The hop that is being filled.
	hop          int // its number
	left         int // samples it still needs
	n            int
	sum, squares int64

	powers  [memory]float64 // of the last hops, around their means
	speech  bool
	above   int // hops in a row above the beginning's threshold
	changes []Change
}

// NewEnergy returns a detector for a stream at rate, from audio.MinRate to
// audio.MaxRate.
func NewEnergy(rate int) (*Energy, error) {
	if err := audio.CheckRate(rate); err != nil {
		return nil, fmt.Errorf("vad: %w", err)
	}
	e := &Energy{rate: rate}
	for i := range e.powers {
		e.powers[i] = math.Inf(1)
	}
	e.left = e.hopEnd(1)
	return e, nil
}

// hopEnd returns the first sample after n hops. Hops are not all of the same
// length where the rate is no multiple of 100.
func (e *Energy) hopEnd(n int) int { return int(int64(n) * int64(e.rate) / hopsPerSecond) }

// Speaking returns whether the last whole hop is taken for speech.
func (e *Energy) Speaking() bool { return e.speech }

// Push takes the next piece of the stream, of any length, and returns what
// changed, in order. The slice is good until the next Push. It fails if f has
// another rate.
func (e *Energy) Push(f audio.Frame) ([]Change, error) {
	if f.Rate != e.rate {
		return nil, fmt.Errorf("vad: frame at %d samples a second in a stream at %d: resample it first", f.Rate, e.rate)
	}
	e.changes = e.changes[:0]
	for pcm := f.PCM; len(pcm) > 0; {
		n := min(len(pcm), e.left)
		for _, x := range pcm[:n] {
			e.sum += int64(x)
			e.squares += int64(x) * int64(x)
		}
		e.n += n
		e.left -= n
		pcm = pcm[n:]
		if e.left == 0 {
			e.judge()
		}
	}
	return e.changes, nil
}

// judge decides on a hop that is full.
func (e *Energy) judge() {
	// Around its own mean, so that a constant counts for nothing.
	mean := float64(e.sum) / float64(e.n)
	p := max(0, float64(e.squares)/float64(e.n)-mean*mean)
	e.powers[e.hop%memory] = p
	e.hop++
	e.sum, e.squares, e.n = 0, 0, 0
	e.left = e.hopEnd(e.hop+1) - e.hopEnd(e.hop)

	floor := highest
	for _, q := range e.powers {
		if q < floor { // the built-in min has to think of NaN
			floor = q
		}
	}
	now := at(e.hop)
	if e.speech {
		if p < max(floor*off, offPower) {
			e.speech = false
			e.above = 0
			e.changes = append(e.changes, Change{At: at(e.hop - 1), Known: now})
		}
		return
	}
	if p < max(floor*on, onPower) {
		e.above = 0
		return
	}
	if e.above++; e.above == confirm {
		e.speech = true
		e.changes = append(e.changes, Change{Speech: true, At: at(e.hop - confirm), Known: now})
	}
}

func at(hop int) time.Duration { return time.Duration(hop) * time.Second / hopsPerSecond }

// ratio turns dB into a ratio of powers, and power turns dBFS into the mean
// square of samples.
func ratio(dB float64) float64   { return math.Pow(10, dB/10) }
func power(dBFS float64) float64 { return 32768 * 32768 * ratio(dBFS) }

// A Run is a stretch of speech without a pause, at hops of 10 ms.
type Run struct{ Start, End time.Duration }

// Runs returns what an Energy says about a whole recording, without a hangover.
// A run that the recording cuts off ends with it. A frame whose rate is none to
// work with has no runs.
func Runs(f audio.Frame) []Run {
	e, err := NewEnergy(f.Rate)
	if err != nil {
		return nil
	}
	changes, err := e.Push(f)
	if err != nil {
		return nil
	}
	var runs []Run
	for _, c := range changes {
		if c.Speech {
			runs = append(runs, Run{Start: c.At, End: f.Duration()})
		} else {
			runs[len(runs)-1].End = c.At
		}
	}
	return runs
}

// A Stop is a decision that the speaker has finished.
type Stop struct {
	SpeechEnd time.Duration // the end of the run before, as the detector saw it
	DecidedAt time.Duration // SpeechEnd and the hangover

	// Resumed is where speech went on though it had been taken for finished.
	// It means nothing if Resumes is false: the stop was the last one.
	Resumed time.Duration
	Resumes bool
}

// Stops returns the decisions that a detector with this hangover takes: one
// after every run whose pause is longer than the hangover, and one after the
// last run, behind which there is taken to be silence enough. Runs have to be in
// order, as Runs returns them. A pause that is just as long as the hangover does
// not stop. A hangover below zero is taken for none.
func Stops(runs []Run, hangover time.Duration) []Stop {
	hangover = max(0, hangover)
	var stops []Stop
	for i, r := range runs {
		s := Stop{SpeechEnd: r.End, DecidedAt: r.End + hangover}
		if i+1 < len(runs) {
			if runs[i+1].Start <= s.DecidedAt {
				continue
			}
			s.Resumed, s.Resumes = runs[i+1].Start, true
		}
		stops = append(stops, s)
	}
	return stops
}
