// Package engine makes a voice activity detector of a model that judges sound
// frame by frame: it brings the sound to the model's rate and frames, puts the
// judgements together to beginnings and stops of speech, and says them as a
// pipeline wants to hear them, in real time and in virtual time.
package engine

import (
	"fmt"
	"time"

	"firstsound/audio"
	"firstsound/clocks/random"
)

// A Model judges frames of sound. It may be used by several goroutines at once.
type Model interface {
	// Name is the model's in messages, such as "silero".
	Name() string

	// Rate and Frame are what it hears: samples a second, and samples a frame.
	Rate() int
	Frame() int

	// Open returns a Stream that has heard nothing.
	Open() (Stream, error)
}

// A Stream is a model that listens to one line. One goroutine uses it.
type Stream interface {
	// Speech takes the next frame, of just the model's length, and returns how
	// likely it holds speech, from 0 to 1.
	Speech(pcm []int16) (float64, error)

	// Close gives back what the Stream holds.
	Close()
}

// Options are the settings that all models share. A model's own Options hold
// them inline.
type Options struct {
	Stop      time.Duration `yaml:"stop"`      // how long it has to be silent before speech counts as stopped
	Start     time.Duration `yaml:"start"`     // how much speech in a row makes a beginning
	On        float64       `yaml:"on"`        // speech begins at this probability
	Off       float64       `yaml:"off"`       // it goes on down to this one
	Inference random.Dist   `yaml:"inference"` // what a judgement costs in virtual time; on the computer's clock it costs what it does
}

// Defaults are a hangover of 200 ms, as vad.Defaults has it, and LiveKit's for
// Silero otherwise: 50 ms of speech to begin, at 0.5, down to 0.35.
func Defaults() Options {
	return Options{Stop: 200 * time.Millisecond, Start: 50 * time.Millisecond, On: 0.5, Off: 0.35}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.Stop <= 0:
		return fmt.Errorf("stop: %v is no hangover: a detector without one stops in the middle of words", o.Stop)
	case o.Start < 0:
		return fmt.Errorf("start: %v is negative", o.Start)
	case !(o.On > 0 && o.On <= 1):
		return fmt.Errorf("on: %v; it lies above 0 and not above 1", o.On)
	case !(o.Off > 0 && o.Off <= o.On):
		return fmt.Errorf("off: %v; it lies above 0 and not above on, which is %v", o.Off, o.On)
	}
	return nil
}

// A Notice is a beginning or a stop as a detector with a hangover tells it.
type Notice struct {
	Speech bool

	// Offset is where in the sound it happened: the beginning of the first frame
	// of speech, or the end of the last one.
	Offset time.Duration

	// Known is how much of the sound had to come until it could be told. Behind
	// a stop it is the end of the first frame by which it had been silent for the
	// hangover.
	Known time.Duration
}

// A Detector listens to one line with a Model. It has no clock: it says the same
// about the same samples however they are cut.
type Detector struct {
	o       Options
	m       Model
	stream  Stream
	confirm int // frames of speech that make a beginning

	resample *audio.Resampler // nil: the line has the model's rate
	rate     int              // of the line
	ahead    time.Duration    // sound that the resampler needs beyond what it gives
	frame    []int16          // the one that is being filled

	frames  int  // judged so far
	above   int  // in a row, before a beginning
	speech  bool // a beginning was told, and no stop
	last    int  // frames up to the end of the last one with speech
	notices []Notice
}

// NewDetector returns a Detector for a line at rate samples a second, which is
// brought to the model's if it is another. Close it after use.
func NewDetector(m Model, o Options, rate int) (*Detector, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("vad: %s: %w", m.Name(), err)
	}
	if err := audio.CheckRate(rate); err != nil {
		return nil, fmt.Errorf("vad: %s: %w", m.Name(), err)
	}
	d := &Detector{o: o, m: m, rate: rate, frame: make([]int16, 0, m.Frame())}
	d.confirm = max(1, (audio.Samples(o.Start, m.Rate())+m.Frame()-1)/m.Frame())
	if rate != m.Rate() {
		var err error
		if d.resample, err = audio.NewResampler(rate, m.Rate()); err != nil {
			return nil, fmt.Errorf("vad: %s: %w", m.Name(), err)
		}
		d.ahead = d.resample.Lookahead()
	}
	var err error
	if d.stream, err = m.Open(); err != nil {
		return nil, fmt.Errorf("vad: %s: %w", m.Name(), err)
	}
	return d, nil
}

// Close gives back the model's Stream.
func (d *Detector) Close() { d.stream.Close() }

// Push takes the next piece of the line, of any length, and returns what it makes
// known, in order. The slice is good until the next Push. It fails if f has
// another rate, or if the model does.
func (d *Detector) Push(f audio.Frame) ([]Notice, error) {
	d.notices = d.notices[:0]
	if f.Rate != d.rate {
		return nil, fmt.Errorf("vad: %s: frame at %d samples a second in a stream at %d: resample it first", d.m.Name(), f.Rate, d.rate)
	}
	if d.resample != nil {
		var err error
		if f, err = d.resample.Push(f); err != nil {
			return nil, fmt.Errorf("vad: %s: %w", d.m.Name(), err)
		}
	}
	for pcm := f.PCM; len(pcm) > 0; {
		n := min(len(pcm), cap(d.frame)-len(d.frame))
		d.frame = append(d.frame, pcm[:n]...)
		pcm = pcm[n:]
		if len(d.frame) < cap(d.frame) {
			break
		}
		p, err := d.stream.Speech(d.frame)
		if err != nil {
			return nil, fmt.Errorf("vad: %s: %w", d.m.Name(), err)
		}
		d.frame = d.frame[:0]
		d.judge(p)
	}
	return d.notices, nil
}

// judge goes on by one frame, which holds speech with probability p.
func (d *Detector) judge(p float64) {
	d.frames++
	known := d.at(d.frames) + d.ahead
	if d.speech {
		if p >= d.o.Off {
			d.last = d.frames
		} else if end := d.at(d.last); d.at(d.frames)-end >= d.o.Stop {
			d.speech, d.above = false, 0
			d.notices = append(d.notices, Notice{Offset: end, Known: known})
		}
		return
	}
	if p < d.o.On {
		d.above = 0
		return
	}
	if d.above++; d.above >= d.confirm {
		d.speech, d.last = true, d.frames
		d.notices = append(d.notices, Notice{Speech: true, Offset: d.at(d.frames - d.above), Known: known})
	}
}

// at returns where in the sound a frame begins.
func (d *Detector) at(frame int) time.Duration { return audio.Span(frame*d.m.Frame(), d.m.Rate()) }

// Rest returns the stop that is still to come if nothing but silence follows,
// and whether there is one. Speech that the recording cuts off ends with it.
func (d *Detector) Rest() (Notice, bool) {
	if !d.speech {
		return Notice{}, false
	}
	end := d.at(d.last)
	frames := d.last
	for d.at(frames)-end < d.o.Stop {
		frames++
	}
	return Notice{Offset: end, Known: d.at(frames) + d.ahead}, true
}

// Notices returns what a model says about a whole recording, behind which there
// is taken to be silence enough.
func Notices(m Model, o Options, f audio.Frame) ([]Notice, error) {
	d, err := NewDetector(m, o, f.Rate)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	notices, err := d.Push(f)
	if err != nil {
		return nil, err
	}
	if stop, ok := d.Rest(); ok {
		notices = append(notices, stop)
	}
	return notices, nil
}
