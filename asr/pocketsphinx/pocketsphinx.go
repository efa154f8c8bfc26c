// Package pocketsphinx recognizes English speech on this computer with CMU
// PocketSphinx, whose libraries are opened when they are needed: Debian's
// packages libpocketsphinx3 and libsphinxbase3, with the model in
// pocketsphinx-en-us.
//
// A decoder remembers the voices it has heard, so each turn gets a fresh one;
// that it may not have to wait for the model to be loaded, one is kept ready; when
// it has been used, the next is loaded, which takes about half a second of a core.
// Sound is decoded by a goroutine of its own. A Partial is of the time when it
// was decoded, so a decoder that cannot keep up shows.
package pocketsphinx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks"
)

// DefaultModel is where Debian's pocketsphinx-en-us keeps its model.
const DefaultModel = "/usr/share/pocketsphinx/model/en-us"

// Options are how speech is decoded. Start from Defaults.
type Options struct {
	Model string `yaml:"model"` // folder of the model; empty: DefaultModel
	Dict  string `yaml:"dict"`  // file; empty: the model's
	LM    string `yaml:"lm"`    // file; empty: the model's

	// Grammar is a JSGF grammar of all that can be said, in place of the LM. Its
	// words have to be in the dictionary.
	Grammar string `yaml:"grammar"`

	MaxHMMPF int  `yaml:"maxhmmpf"` // most active HMMs a frame; 0: no limit
	DS       int  `yaml:"ds"`       // the acoustic model looks at one frame of so many
	FwdFlat  bool `yaml:"fwdflat"`  // a second pass at the end
	BestPath bool `yaml:"bestpath"` // a third one

	Args  map[string]string `yaml:"args"`  // more of PocketSphinx's own, without the dash; they win
	Spare int               `yaml:"spare"` // decoders that are kept ready

	// Loaded is told how long a decoder took to load. Nil: nobody is.
	Loaded func(took time.Duration) `yaml:"-"`

	// Decoded is told of each piece of sound: where in the stretch of speech it
	// ends, and when it had been decoded. Nil: nobody is.
	Decoded func(requestID string, offset, at time.Duration) `yaml:"-"`
}

// Defaults are settings for live speech: one pass, narrow beams, and every other
// frame. Over the recordings of this repository they keep up with it on one core
// at about a third of the time.
func Defaults() Options { return Options{MaxHMMPF: 3000, DS: 2, Spare: 1} }

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.MaxHMMPF < 0:
		return fmt.Errorf("maxhmmpf: %d; it is not negative", o.MaxHMMPF)
	case o.DS < 1:
		return fmt.Errorf("ds: %d; it is at least 1", o.DS)
	case o.Spare < 0 || o.Spare > 64:
		return fmt.Errorf("spare: %d; it lies between 0 and 64", o.Spare)
	case o.Grammar != "" && o.LM != "":
		return errors.New("grammar: there is an lm as well; write one of them")
	}
	return nil
}

// rate is what the model takes, in samples a second.
const rate = 16000

// arguments returns PocketSphinx's own, with a dash and a value each.
func (o Options) arguments() ([]string, error) {
	model := cmp.Or(o.Model, DefaultModel)
	yes := map[bool]string{true: "yes", false: "no"}
	all := map[string]string{
		"hmm": filepath.Join(model, "en-us"), "dict": cmp.Or(o.Dict, filepath.Join(model, "cmudict-en-us.dict")),
		"samprate": strconv.Itoa(rate), "ds": strconv.Itoa(o.DS), "fwdflat": yes[o.FwdFlat], "bestpath": yes[o.BestPath],
	}
	if o.MaxHMMPF > 0 {
		all["maxhmmpf"] = strconv.Itoa(o.MaxHMMPF)
	}
	if o.Grammar == "" {
		all["lm"] = cmp.Or(o.LM, filepath.Join(model, "en-us.lm.bin"))
	}
	maps.Copy(all, o.Args)
	for _, key := range []string{"hmm", "dict", "lm"} {
		if file, ok := all[key]; ok {
			if _, err := os.Stat(file); err != nil {
				return nil, fmt.Errorf("%w (the model is in Debian's package pocketsphinx-en-us)", err)
			}
		}
	}
	var args []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-"+key, all[key])
	}
	return args, nil
}

// A Recognizer is the engine. It may be used by several turns at once.
type Recognizer struct {
	clock clocks.Clock
	o     Options
	lib   *library
	args  []string

	wanted *clocks.Queue[struct{}] // a decoder each
	done   *clocks.Queue[struct{}] // closed when the loader has ended

	mu      sync.Mutex
	spare   []loaded
	waiting []*clocks.Queue[loaded] // for a decoder each, first come first served
}

type loaded struct {
	*decoder
	owed bool // it was a spare
	err  error
}

// New returns a Recognizer on clock, which begins to load its decoders. It has
// to be closed. The error is that a library or a part of the model is missing,
// and names the Debian package.
func New(clock clocks.Clock, o Options) (*Recognizer, error) {
	fail := func(err error) (*Recognizer, error) { return nil, fmt.Errorf("asr: pocketsphinx: %w", err) }
	if err := o.Check(); err != nil {
		return fail(err)
	}
	lib, err := open()
	if err != nil {
		return fail(err)
	}
	args, err := o.arguments()
	if err != nil {
		return fail(err)
	}
	r := &Recognizer{clock: clock, o: o, lib: lib, args: args,
		wanted: clocks.NewQueue[struct{}](clock, "a decoder to be wanted"), done: clocks.NewQueue[struct{}](clock, "the loader to end")}
	for range o.Spare {
		r.wanted.Put(struct{}{})
	}
	clock.Go("pocketsphinx loader", r.load)
	return r, nil
}

// load loads decoders as they are wanted.
func (r *Recognizer) load() {
	defer r.done.Close()
	for range r.wanted.All(context.Background()) {
		began := r.clock.Now()
		d, err := r.lib.load(r.args, r.o.Grammar)
		if r.o.Loaded != nil && err == nil {
			r.o.Loaded(r.clock.Now() - began)
		}
		r.give(loaded{decoder: d, err: err})
	}
}

// give hands a decoder to whoever waits for one, or keeps it.
func (r *Recognizer) give(l loaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 {
		r.waiting[0].Put(l)
		r.waiting = r.waiting[1:]
		return
	}
	r.spare = append(r.spare, l)
}

// Close frees the decoders that nobody has used.
func (r *Recognizer) Close() {
	r.wanted.Close()
	r.done.Get(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.spare {
		if l.err == nil {
			l.free()
		}
	}
	r.spare = nil
}

// Wait waits until a decoder is ready, so that a turn need not.
func (r *Recognizer) Wait(ctx context.Context) error {
	l, err := r.take(ctx, false)
	if err == nil || l.err != nil {
		r.give(l)
	}
	if err != nil {
		return fmt.Errorf("asr: pocketsphinx: %w", err)
	}
	return nil
}

// take returns a decoder that is ready, or has one loaded and waits for it.
func (r *Recognizer) take(ctx context.Context, want bool) (loaded, error) {
	r.mu.Lock()
	if n := len(r.spare); n > 0 {
		l := r.spare[0]
		r.spare = r.spare[1:]
		r.mu.Unlock()
		l.owed = true
		return l, l.err
	}
	mine := clocks.NewQueue[loaded](r.clock, "a decoder to be loaded")
	r.waiting = append(r.waiting, mine)
	r.mu.Unlock()
	if want {
		r.wanted.Put(struct{}{})
	}
	if l, ok := mine.Get(ctx); ok {
		return l, l.err
	}
	r.mu.Lock()
	i := slices.Index(r.waiting, mine)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	r.mu.Unlock()
	if i < 0 { // it came after all
		if l, ok := mine.Get(context.Background()); ok {
			r.give(l)
		}
	}
	return loaded{}, context.Cause(ctx)
}

// Recognize implements asr.Recognizer. The Final comes when the listener
// believes that the speech is over, or, if nobody will say, when the sound ends.
// Where PocketSphinx has no transcript then, it is the last Partial.
func (r *Recognizer) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	return live.Recognize(ctx, r.clock, req, speech, live.Service{
		Name: "pocketsphinx", Rate: rate,
		Open: func(ctx context.Context) (live.Session, error) { return r.open(ctx, req) },
	})
}

func (r *Recognizer) open(ctx context.Context, req asr.Request) (live.Session, error) {
	l, err := r.take(ctx, true)
	if err != nil {
		if l.owed {
			r.wanted.Put(struct{}{})
		}
		return nil, err
	}
	s := &session{r: r, requestID: req.RequestID, decoder: l.decoder, owed: l.owed, sound: clocks.NewQueue[audio.Frame](r.clock, "sound to decode"),
		said: clocks.NewQueue[said](r.clock, "a decoder"), done: clocks.NewQueue[struct{}](r.clock, "a decoder to end")}
	r.clock.Go("pocketsphinx", s.decode)
	return s, nil
}

// A session is one decoder at work.
type session struct {
	r         *Recognizer
	requestID string
	decoder   *decoder
	owed      bool                       // another spare is to be loaded, which would take time from this one
	sound     *clocks.Queue[audio.Frame] // ends with an empty frame
	said      *clocks.Queue[said]
	done      *clocks.Queue[struct{}]
}

type said struct {
	result asr.Result
	err    error
}

// decode turns sound into text until no more comes.
func (s *session) decode() {
	defer s.done.Close()
	defer s.said.Close()
	defer s.decoder.free()
	if err := s.decoder.start(); err != nil {
		s.said.Put(said{err: err})
		return
	}
	var samples int
	var partial string
	for f := range s.sound.All(context.Background()) {
		if len(f.PCM) == 0 {
			text, err := s.decoder.end()
			text = cmp.Or(text, partial)
			s.said.Put(said{asr.Result{At: s.r.clock.Now(), Kind: asr.Final, Text: text}, err})
			return
		}
		text, err := s.decoder.push(f.PCM)
		if err != nil {
			s.said.Put(said{err: err})
			return
		}
		samples += len(f.PCM)
		now := s.r.clock.Now()
		if s.r.o.Decoded != nil {
			s.r.o.Decoded(s.requestID, audio.Span(samples, rate), now)
		}
		if text != "" && text != partial {
			partial = text
			s.said.Put(said{result: asr.Result{At: now, Kind: asr.Partial, Text: text}})
		}
	}
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) {
	s.sound.Put(f)
	return s.r.clock.Now(), nil
}

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return true, s.End(false) }

// End implements live.Session.
func (s *session) End(bool) error {
	s.sound.Put(audio.Frame{})
	return nil
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	x, ok := s.said.Get(ctx)
	switch {
	case ok && x.err != nil:
		return nil, x.err
	case ok && x.result.Kind == asr.Final:
		return []asr.Result{x.result}, io.EOF
	case ok:
		return []asr.Result{x.result}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("the decoder has ended")
}

// Close implements live.Session.
func (s *session) Close() {
	s.sound.Close()
	s.decoder.cancel()
	s.done.Get(context.Background())
	if s.owed {
		s.r.wanted.Put(struct{}{})
	}
}

// clean takes the marks of silence and noise out of a hypothesis.
func clean(text string) string {
	words := strings.Fields(text)
	words = slices.DeleteFunc(words, func(w string) bool {
		return strings.HasPrefix(w, "<") || strings.HasPrefix(w, "[") || strings.HasPrefix(w, "++")
	})
	for i, w := range words { // read(2) is another way to say read
		if n := strings.IndexByte(w, '('); n > 0 {
			words[i] = w[:n]
		}
	}
	return strings.Join(words, " ")
}
