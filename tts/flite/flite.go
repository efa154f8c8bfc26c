// Package flite speaks English with Flite (Debian: libflite1), a library that is
// opened when it is asked for: no cgo, no header files.
//
// Its sound comes while it is made, in blocks through a callback, at 16 kHz
// (kal: 8 kHz). It begins with some 200 ms of silence. A voice is one object in
// the process and holds what streams, so that one piece is made at a time,
// whoever asks; the others wait.
package flite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Package is the Debian package with the libraries.
const Package = "libflite1"

// Options are how Flite speaks. Start from Defaults.
type Options struct {
	Voice   string  `yaml:"voice"`        // slt, awb, rms, kal or kal16, where the request names none
	Block   int     `yaml:"min_buffsize"` // samples of a chunk, at least
	Stretch float64 `yaml:"stretch"`      // how much slower than usual: Flite's duration_stretch
}

// Defaults are Flite's own, with the voice slt.
func Defaults() Options { return Options{Voice: "slt", Block: 256, Stretch: 1} }

// voices are those of Debian's package, with the function that registers each.
var voices = map[string]string{"slt": "cmu_us_slt", "awb": "cmu_us_awb", "rms": "cmu_us_rms", "kal": "cmu_us_kal", "kal16": "cmu_us_kal16"}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case voices[o.Voice] == "":
		return fmt.Errorf("voice: %w", noVoice(o.Voice))
	case o.Block < 1 || o.Block > 1<<16:
		return fmt.Errorf("min_buffsize: %d does not lie between 1 and 65536", o.Block)
	case !(o.Stretch >= 0.2 && o.Stretch <= 5):
		return fmt.Errorf("stretch: %v does not lie between 0.2 and 5", o.Stretch)
	}
	return nil
}

func noVoice(name string) error {
	return fmt.Errorf("there is no %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(voices)), ", "))
}

// A Synthesizer speaks with Flite. It may be used by several turns at once.
type Synthesizer struct {
	clock clocks.Clock
	o     Options
	lib   *library
}

// New returns a Synthesizer on clock. It fails if the libraries are not there.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: flite: %w", err)
	}
	lib, err := load()
	if err != nil {
		return nil, fmt.Errorf("tts: flite: %w; install the Debian package %s", err, Package)
	}
	return &Synthesizer{clock, o, lib}, nil
}

// Speak implements tts.Synthesizer. Connected is told when it is the turn of the
// first piece.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "flite", Say: func(ctx context.Context, _ int, text string, tell live.Teller) error {
		name := cmp.Or(req.Voice, s.o.Voice)
		switch {
		case voices[name] == "":
			return noVoice(name)
		case req.Language != "" && req.Language != "en" && !strings.HasPrefix(req.Language, "en-"):
			return fmt.Errorf("it speaks English, not %q", req.Language)
		}
		if err := s.lib.take(ctx); err != nil {
			return err
		}
		defer s.lib.release()
		return s.say(ctx, name, text, tell)
	}})
}

// An utterance is a piece of text that is being spoken.
type utterance struct {
	clock   clocks.Clock
	made    *clocks.Queue[block]
	stopped atomic.Bool
}

// A block is sound, and when it was made.
type block struct {
	at    time.Duration
	sound audio.Frame
	err   error
}

// take is called with each block as it is made. It returns whether to go on.
func (u *utterance) take(rate int, samples []int16) bool {
	at := u.clock.Now()
	if u.stopped.Load() {
		return false
	}
	u.made.Put(block{at: at, sound: audio.Frame{Rate: rate, PCM: slices.Clone(samples)}})
	return true
}

// say speaks a piece. The library is taken.
func (s *Synthesizer) say(ctx context.Context, voice, text string, tell live.Teller) error {
	if err := tell(tts.Chunk{At: s.clock.Now(), Connected: true}); err != nil {
		return err
	}
	u := &utterance{clock: s.clock, made: clocks.NewQueue[block](s.clock, "sound of flite")}
	ended := clocks.NewQueue[struct{}](s.clock, "the end of flite")
	s.clock.Go("flite", func() {
		defer ended.Close()
		defer u.made.Close()
		// The library would take a zero for the end of the text.
		if err := s.lib.speak(u, voice, strings.ReplaceAll(text, "\x00", " "), s.o); err != nil {
			u.made.Put(block{err: err})
		}
	})
	defer func() {
		u.stopped.Store(true)
		ended.Get(context.Background())
	}()
	for {
		b, ok := u.made.Get(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ok:
			return nil
		case b.err != nil:
			return b.err
		}
		if err := tell(tts.Chunk{At: b.at, Sound: b.sound}); err != nil {
			return err
		}
	}
}

var errNotSpoken = errors.New("the library could not speak the text")
