// Package audio holds sound as samples, and what can be said about it: how
// loud it is, where the speech in it begins and ends, and what it becomes at
// another rate.
package audio

import (
	"context"
	"iter"
	"time"
)

// A Frame is a stretch of mono 16-bit sound of any length. The rate travels
// with the samples.
type Frame struct {
	Rate int // samples a second
	PCM  []int16
}

// Duration returns how long f plays. It is exact up to the nanosecond below.
func (f Frame) Duration() time.Duration { return Span(len(f.PCM), f.Rate) }

// Span returns how long n samples last at rate, rounded down to a nanosecond.
func Span(n, rate int) time.Duration {
	return time.Duration(int64(n) * int64(time.Second) / int64(rate))
}

// Samples returns how many whole samples at rate fit into d.
func Samples(d time.Duration, rate int) int {
	return int(int64(d) * int64(rate) / int64(time.Second))
}

// An Utterance is a recording of somebody who speaks once, with what is known
// about it.
type Utterance struct {
	ID       string // unique in its corpus: the file's name without its ending
	Language string // "en", "zh"; empty if not known
	Text     string // what is said; empty if not known
	Sound    Frame

	// Start and End are the true bounds of the speech, as offsets into Sound:
	// its first sample, and the moment just after its last one.
	Start, End time.Duration

	// Bounds says where Start and End come from: BoundsAnnotated or BoundsDetected.
	Bounds string
}

// Where the bounds of an Utterance come from.
const (
	BoundsAnnotated = "annotated" // somebody, or the program that made the sound, marked them
	BoundsDetected  = "detected"  // SpeechBounds found them in the whole file
)

// A Speech is an utterance on its way to whoever listens. It may be read by
// several stages at once, each from its beginning.
type Speech interface {
	// Frames yields the sound as it arrives. It stops early if ctx ends, or if
	// the line broke, and then yields the reason last.
	Frames(ctx context.Context) iter.Seq2[Frame, error]

	// Await waits until the sound up to offset has arrived: what a model needs
	// that knows the recording and only has to wake when the sound is there.
	// It returns the time on the clock when it arrived, which is earlier than
	// now if it had arrived already.
	Await(ctx context.Context, offset time.Duration) (time.Duration, error)

	// Utterance returns the recording that is being replayed, or nil where
	// somebody speaks who is not a recording. Only models look at it.
	Utterance() *Utterance
}

// An Activity is what a voice activity detector has noticed.
type Activity struct {
	At     time.Duration // when it was noticed, on the clock of the run
	Speech bool          // speech has begun; false: it has stopped
	Offset time.Duration // where in the sound that was, as the detector places it

	// Setting is what owns the time between the sound and At, as key=value; empty if nothing does.
	Setting string
}
