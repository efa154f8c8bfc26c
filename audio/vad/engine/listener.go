package engine

import (
	"context"
	"iter"
	"sync"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

// A Listener says when the speech on a line begins and stops, by a Model. It
// implements pipeline.VAD, for any number of calls at once.
//
// On the computer's clock it judges frames as they come. On a Virtual clock what
// a model says about a recording is worked out once; then the Listener only wakes
// for what there is to say, and draws what a judgement costs. A live caller is
// heard frame by frame on both.
type Listener struct {
	clock   clocks.Clock
	seed    uint64
	m       Model
	o       Options
	setting string
	real    bool

	mu    sync.Mutex
	known map[*audio.Utterance][]Notice
}

// NewListener returns a Listener that draws from seed.
func NewListener(clock clocks.Clock, seed uint64, m Model, o Options) *Listener {
	_, real := clock.(*clocks.Real)
	return &Listener{clock: clock, seed: seed, m: m, o: o, setting: "vad.stop=" + o.Stop.String(), real: real, known: map[*audio.Utterance][]Notice{}}
}

// Listen yields a start and a stop for each stretch of speech that is followed
// by a pause longer than the hangover.
func (l *Listener) Listen(ctx context.Context, id trace.ID, speech audio.Speech) iter.Seq2[audio.Activity, error] {
	return func(yield func(audio.Activity, error) bool) {
		if u := speech.Utterance(); u != nil && !l.real {
			l.replay(ctx, id, speech, u, yield)
			return
		}
		l.hear(ctx, speech, yield)
	}
}

// activity returns n as it is told, without the time.
func (l *Listener) activity(n Notice) audio.Activity {
	a := audio.Activity{Speech: n.Speech, Offset: n.Offset}
	if !n.Speech {
		a.Setting = l.setting
	}
	return a
}

func (l *Listener) replay(ctx context.Context, id trace.ID, speech audio.Speech, u *audio.Utterance, yield func(audio.Activity, error) bool) {
	notices, err := l.notices(u)
	if err != nil {
		yield(audio.Activity{}, err)
		return
	}
	source := random.New(l.seed, "vad", id.Session, id.Turn)
	for _, n := range notices {
		a := l.activity(n)
		at, err := speech.Await(ctx, n.Known)
		if err == nil {
			a.At = at + l.o.Inference.Draw(&source)
			err = l.clock.SleepUntil(ctx, a.At)
		}
		if !yield(a, err) || err != nil {
			return
		}
	}
}

func (l *Listener) notices(u *audio.Utterance) ([]Notice, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	notices, ok := l.known[u]
	if !ok {
		var err error
		if notices, err = Notices(l.m, l.o, u.Sound); err != nil {
			return nil, err
		}
		l.known[u] = notices
	}
	return notices, nil
}

// hear judges frames as they come.
func (l *Listener) hear(ctx context.Context, speech audio.Speech, yield func(audio.Activity, error) bool) {
	var d *Detector
	for f, err := range speech.Frames(ctx) {
		if err != nil {
			yield(audio.Activity{}, err)
			return
		}
		if d == nil {
			if d, err = NewDetector(l.m, l.o, f.Rate); err != nil {
				yield(audio.Activity{}, err)
				return
			}
			defer d.Close()
		}
		notices, err := d.Push(f)
		if err != nil {
			yield(audio.Activity{}, err)
			return
		}
		for _, n := range notices {
			a := l.activity(n)
			a.At = l.clock.Now()
			if !yield(a, nil) {
				return
			}
		}
	}
	if d == nil {
		return
	}
	// The line has ended, and the hangover goes on in silence.
	if stop, ok := d.Rest(); ok {
		a := l.activity(stop)
		_, err := speech.Await(ctx, stop.Known)
		a.At = l.clock.Now()
		yield(a, err)
	}
}
