package vad

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

// Options are the settings of a Listener.
type Options struct {
	// Stop is the hangover: how long it has to be silent before speech counts as
	// stopped.
	Stop time.Duration `yaml:"stop"`
	// Inference is what the judgement costs once the sound is there.
	Inference random.Dist `yaml:"inference"`
}

// Defaults are a hangover of 200 ms, Pipecat's choice next to a semantic turn
// detector, and 1 ms of computing, which its documentation gives for Silero.
func Defaults() Options {
	return Options{Stop: 200 * time.Millisecond, Inference: random.MustParse("1ms")}
}

// Check says what is wrong with o.
func (o Options) Check() error {
	if o.Stop <= 0 {
		return fmt.Errorf("stop: %v is no hangover: a detector without one stops in the middle of words", o.Stop)
	}
	return nil
}

// A Listener says when the speech of a recording begins and stops, as an Energy
// would that hears it. What an Energy says about a recording is the same each
// time, so it is worked out once; then the Listener only wakes for what there
// is to say. It implements pipeline.VAD, for any number of calls at once.
type Listener struct {
	clock   clocks.Clock
	seed    uint64
	o       Options
	setting string

	mu    sync.Mutex
	known map[*audio.Utterance]decisions
}

// decisions are what an Energy says about a recording.
type decisions struct {
	begins []time.Duration // the starts that are told: the first one, and one behind every stop
	stops  []Stop
}

// NewListener returns a Listener that draws from seed.
func NewListener(clock clocks.Clock, seed uint64, o Options) *Listener {
	return &Listener{clock: clock, seed: seed, o: o, setting: "vad.stop=" + o.Stop.String(), known: map[*audio.Utterance]decisions{}}
}

// onset is how much sound it takes to tell that speech has begun: see
// Change.Known.
const onset = 30 * time.Millisecond

// Listen yields a start and a stop for each stretch of speech that is followed
// by a pause longer than the hangover.
func (l *Listener) Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error] {
	return func(yield func(audio.Activity, error) bool) {
		u := speech.Utterance()
		if u == nil {
			yield(audio.Activity{}, errors.New("vad: a replayed detector needs a recording, and this is a live caller"))
			return
		}
		source := random.New(l.seed, "vad", id.Session, id.Turn)
		rec := l.decisions(u)
		tell := func(a audio.Activity, sound time.Duration) bool {
			at, err := speech.Await(ctx, sound)
			if err == nil {
				a.At = at + l.o.Inference.Draw(&source)
				err = l.clock.SleepUntil(ctx, a.At)
			}
			return yield(a, err) && err == nil
		}
		for i, stop := range rec.stops {
			if !tell(audio.Activity{Speech: true, Offset: rec.begins[i]}, rec.begins[i]+onset) ||
				!tell(audio.Activity{Offset: stop.SpeechEnd, Setting: l.setting}, stop.DecidedAt) {
				return
			}
		}
	}
}

func (l *Listener) decisions(u *audio.Utterance) decisions {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec, ok := l.known[u]
	if !ok {
		runs := Runs(u.Sound)
		rec.stops = Stops(runs, l.o.Stop)
		for i := range rec.stops {
			if i == 0 {
				rec.begins = append(rec.begins, runs[0].Start)
			} else {
				rec.begins = append(rec.begins, rec.stops[i-1].Resumed)
			}
		}
		l.known[u] = rec
	}
	return rec
}
