package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrsim"
	"firstsound/audio"
	"firstsound/audio/liveline"
	"firstsound/audio/vad"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/pipeline"
	"firstsound/pipeline/scenario"
)

// stages are the stages of a scenario, for calls that are really made.
type stages struct {
	name     string
	scenario *scenario.Scenario
	pipe     pipeline.Options
	corpus   []*audio.Utterance
	warnings []string
	ends     []func()
}

// stages returns the stages of a scenario of the library, or of the one that is
// served for an empty name.
func (a *agent) stages(ctx context.Context, name string) (*stages, error) {
	a.making.Lock() // not a.mu: the calls that go on must not wait for it
	defer a.making.Unlock()
	if st := a.variants[name]; st != nil {
		return st, nil
	}
	s := a.scenario
	if name != "" {
		text, ok := scenario.LibraryYAML(name)
		if !ok {
			return nil, fmt.Errorf("there is no scenario %q; there is %s", name, strings.Join(scenario.Library(), ", "))
		}
		var err error
		if s, err = scenario.Load(name, []byte(text), a.set...); err != nil {
			return nil, err
		}
	}
	made, warnings, err := assemble(ctx, s, a.clock)
	if err != nil {
		return nil, err
	}
	st := &stages{name: name, scenario: s, pipe: made.pipe, warnings: warnings, ends: made.ends}
	if st.corpus, _, err = loadCorpus(s.Corpus); err == nil {
		err = st.live(a.clock)
	}
	if err != nil {
		st.end()
		return nil, err
	}
	a.variants[name] = st
	return st, nil
}

// end ends what the stages have opened.
func (st *stages) end() {
	for _, end := range slices.Backward(st.ends) {
		end()
	}
}

func (a *agent) endStages() {
	a.making.Lock() // a call that begins just now may make some
	defer a.making.Unlock()
	for _, st := range a.variants {
		st.end()
	}
}

// live lets the models of stages cope with speech that nobody has announced.
func (st *stages) live(clock clocks.Clock) error {
	s := st.scenario
	if st.pipe.VAD != nil {
		o := vad.Defaults()
		if err := s.VAD.Decode(&o); err != nil {
			return err
		}
		st.pipe.VAD = &liveline.Listener{Clock: clock, Seed: s.Seed, Options: o, Known: st.pipe.VAD}
	}
	if d := st.pipe.Turn.Detector; d != nil {
		st.pipe.Turn.Detector = anySpeech{d}
	}
	if s.ASR.Provider != "sim" && !strings.HasPrefix(s.ASR.Provider, "sim/") {
		return nil
	}
	o := asrsim.Defaults()
	for _, p := range asrProfiles() {
		if s.ASR.Provider == "sim/"+p.name {
			o = p.options()
		}
	}
	if err := s.ASR.Decode(&o); err != nil {
		return err
	}
	st.pipe.ASR = &liveRecognizer{clock: clock, seed: s.Seed, o: o, known: st.pipe.ASR, alone: st.pipe.VAD == nil}
	return nil
}

// find returns the recording with an ID.
func (st *stages) find(id string) *audio.Utterance {
	for _, u := range st.corpus {
		if u.ID == id {
			return u
		}
	}
	return nil
}

// anySpeech is a model of a turn detector that takes the end of speech which it
// does not know for the end of the turn.
type anySpeech struct{ pipeline.TurnDetector }

// Finished asks the model, where it knows the recording.
func (d anySpeech) Finished(ctx context.Context, p pipeline.Pause) (bool, error) {
	if p.Speech.Utterance() == nil {
		return true, nil
	}
	return d.TurnDetector.Finished(ctx, p)
}

// A liveRecognizer is asrsim, which for speech that it does not know says how long
// it was, at the time at which it would say what it was.
type liveRecognizer struct {
	clock clocks.Clock
	seed  uint64
	o     asrsim.Options
	known asr.Recognizer
	alone bool // there is no detector: it finds the pauses itself
}

// ownHangover is the silence after which a recognizer without a detector takes
// speech for finished, before its own delays: that of the detector's defaults.
var ownHangover = vad.Defaults().Stop

// pauses yields, after each pause of the speaker, since when it has been.
func (r *liveRecognizer) pauses(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[time.Duration, error] {
	since := func() time.Duration {
		if s, ok := speech.(*liveline.Speech); ok {
			if at, silent := s.Silent(); silent {
				return at
			}
		}
		return r.clock.Now()
	}
	if r.alone {
		l := &liveline.Listener{Clock: r.clock, Seed: r.seed, Options: vad.Options{Stop: ownHangover}}
		return func(yield func(time.Duration, error) bool) {
			for a, err := range l.Listen(ctx, req.ID, speech) {
				if (err != nil || !a.Speech) && !yield(since(), err) {
					return
				}
			}
		}
	}
	return func(yield func(time.Duration, error) bool) {
		for {
			err := req.Finalize(ctx)
			if !yield(since(), err) || err != nil {
				return
			}
		}
	}
}

// Recognize yields a final result after each pause of the speaker.
func (r *liveRecognizer) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	if speech.Utterance() != nil {
		return r.known.Recognize(ctx, req, speech)
	}
	return func(yield func(asr.Result, error) bool) {
		final := random.New(r.seed, "asr.final", req.ID.Session, req.ID.Turn)
		finalize := random.New(r.seed, "asr.finalize", req.ID.Session, req.ID.Turn)
		began := r.clock.Now()
		for since, err := range r.pauses(ctx, req, speech) {
			if err != nil {
				yield(asr.Result{}, err)
				return
			}
			at := r.clock.Now()
			if r.o.WaitForFinalize {
				at += r.o.Finalize.Draw(&finalize)
			} else {
				at = max(at, since+r.o.Final.Draw(&final))
			}
			if err := r.clock.SleepUntil(ctx, at); err != nil {
				yield(asr.Result{}, err)
				return
			}
			text := fmt.Sprintf("(%.1f s of speech)", (since - began).Seconds())
			if !yield(asr.Result{At: at, Kind: asr.Final, Text: text}, nil) {
				return
			}
		}
	}
}
