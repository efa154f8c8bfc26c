package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/tts"
)

// A passed is a mark, and when it was.
type passed struct {
	ref trace.Ref
	at  time.Duration
}

// A voice speaks an answer, or a filler, to the caller.
type voice struct {
	r      *reply
	sound  trace.Mark // what its first audible sample is: FirstSound or FirstFiller
	pieces *clocks.Queue[piece]

	mu     sync.Mutex // over what the synthesizer's own goroutines may touch
	texts  []string   // handed to the synthesizer so far
	handed []time.Duration

	audio     time.Duration // how much sound has come
	synthesis time.Duration // how long its making took
	firstRef  trace.Ref     // its first samples
	playing   trace.Ref     // the last of play_queued, play_start, play_stalled, play_resumed
	passed    []passed      // all of them, until the first audible sample is reached
	space     struct {      // for these: most answers have few
		texts  [4]string
		handed [4]time.Duration
		passed [4]passed
	}
	reached  bool
	playback audio.Playback
	yields   *atomic.Bool // of a filler: the answer is there, say no more
}

// speak says the pieces as they come, once the turn is committed.
func (v *voice) speak(ctx context.Context, pieces *clocks.Queue[piece], gate *clocks.Queue[trace.Ref]) error {
	v.pieces = pieces
	first, ok := pieces.Get(ctx)
	if !ok {
		return nil // nothing to say, or cut off
	}
	committed, ok := gate.Get(ctx)
	if !ok {
		return nil
	}
	v.texts, v.handed = append(v.space.texts[:0], first.text), v.space.handed[:0]
	t := v.r.t
	player := t.c.Line.Answer(t.ctx, t.id, v.played)
	err := v.synthesize(ctx, player, t.rec.Refs(first.ref, committed))
	if ctx.Err() != nil || v.audio == 0 {
		player.Stop()
	} else {
		player.Close()
	}
	if ctx.Err() != nil || player.Wait(ctx) != nil {
		player.Stop()
		player.Wait(t.ctx) // until what was sent already has been played
	}
	return err
}

// synthesize has the pieces spoken, and again from the first if the
// synthesizer fails before it has brought any sound.
func (v *voice) synthesize(ctx context.Context, player audio.Player, causes []trace.Ref) error {
	t := v.r.t
	backoff := t.c.Speech.Backoff
	for n := 1; ; n++ {
		provider := t.c.TTS[min(n, len(t.c.TTS))-1]
		number := n
		if v.sound == trace.FirstSound {
			number = int(t.ttsAttempts.Add(1))
		}
		failed, err := v.attempt(ctx, provider, number, player, causes)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if v.audio > 0 || n >= t.c.Speech.Attempts {
			return err
		}
		if causes, err = v.r.pause(ctx, failed, trace.StageTTSRetry, "tts.backoff", backoff, number); err != nil {
			return err
		}
		backoff = min(2*backoff, max(backoff, maxBackoff))
	}
}

// attempt speaks through one provider. It returns the mark of its failure.
func (v *voice) attempt(ctx context.Context, provider Named[tts.Synthesizer], number int, player audio.Player, causes []trace.Ref) (trace.Ref, error) {
	t := v.r.t
	clock, timeout := t.c.Clock, t.c.Speech.Timeout
	ctx, cancel := clocks.WithCancel(ctx, clock)
	defer cancel(nil)
	var alarm clocks.Alarm
	if timeout > 0 {
		alarm = clock.At(clock.Now()+timeout, func() {
			cancel(fmt.Errorf("no sound within %v: %w", timeout, ErrTimeout))
		})
		defer alarm.Stop()
	}
	sink := sink{v: v, player: player, number: number}
	sink.arrived = sink.space[:0]
	var who []trace.Attr
	if len(t.c.TTS) > 1 {
		who = []trace.Attr{{Key: trace.AttrProvider, Text: provider.Name}}
	}
	send := sink.mark(clock.Now(), trace.TTSSend, causes, who...)
	ready := send
	req := tts.Request{ID: t.id, RequestID: t.say.RequestID, Attempt: number, Language: t.say.Utterance.Language}
	for chunk, err := range provider.Use.Speak(ctx, req, v.text(ctx)) {
		if err == nil && !v.yielding() {
			err = sink.take(chunk, ready)
		}
		if v.audio > 0 {
			alarm.Stop()
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && errors.Is(cause, ErrTimeout) {
				err = cause
			}
			err = fmt.Errorf("%s: %w", provider.Name, err)
			e := trace.Event{At: clock.Now(), Mark: trace.TTSFailed, Causes: []trace.Ref{send}, Stage: trace.StageTTSRetry,
				Attempt: number, Attrs: []trace.Attr{{Key: trace.AttrError, Text: err.Error()}}}
			if errors.Is(err, ErrTimeout) {
				e.Setting = "tts.timeout=" + timeout.String()
			}
			if v.sound != trace.FirstSound || v.r.ctx.Err() != nil { // cut off: no failure
				return trace.None, err
			}
			return t.rec.Record(e), err
		}
		if chunk.Connected {
			ready = sink.mark(chunk.At, trace.TTSConnected, t.rec.Refs(send))
		}
		if v.yielding() {
			return trace.None, nil
		}
	}
	if ctx.Err() != nil {
		return trace.None, context.Cause(ctx)
	}
	sink.mark(clock.Now(), trace.TTSEnd, t.rec.Refs(v.firstRef),
		trace.Attr{Key: trace.AttrAudio, Int: int64(v.audio)}, trace.Attr{Key: trace.AttrSynthesis, Int: int64(v.synthesis)})
	return trace.None, nil
}

// yielding says whether v is a filler that comes too late.
func (v *voice) yielding() bool {
	return v.yields != nil && v.yields.Load() && v.audio == 0
}

// text yields the pieces for one attempt: those of the attempts before it, then
// new ones as they come.
func (v *voice) text(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; ; i++ {
			v.mu.Lock()
			n := len(v.texts)
			v.mu.Unlock()
			if i == n {
				p, ok := v.pieces.Get(ctx)
				if !ok {
					return
				}
				v.mu.Lock()
				v.texts = append(v.texts, p.text)
				v.mu.Unlock()
			}
			v.mu.Lock()
			text := v.texts[i]
			v.handed = append(v.handed[:i], v.r.t.c.Clock.Now())
			v.mu.Unlock()
			if !yield(text) {
				return
			}
		}
	}
}

// A sink takes the sound of one attempt.
type sink struct {
	v       *voice
	player  audio.Player
	number  int // of the attempt
	rate    int
	samples int // so far
	audible *audio.Audible
	found   bool
	piece   int           // of the text, from 0
	last    time.Duration // when the piece before was complete
	arrived []arrival     // until the first audible sample is found
	space   [4]arrival    // for these
}

// mark records what happens to an answer. The stages of a filler are nobody's.
func (s *sink) mark(at time.Duration, m trace.Mark, causes []trace.Ref, attrs ...trace.Attr) trace.Ref {
	if s.v.sound != trace.FirstSound {
		return trace.None
	}
	rec := s.v.r.t.rec
	return rec.Record(trace.Event{At: at, Mark: m, Causes: causes, Attempt: s.number, Attrs: rec.Attrs(attrs...)})
}

// An arrival says when the sound up to an offset had come.
type arrival struct{ end, at time.Duration }

// take takes one chunk into account. It fails if the chunk's rate is none, or
// is another one than before.
func (s *sink) take(c tts.Chunk, ready trace.Ref) (err error) {
	v := s.v
	if len(c.Sound.PCM) > 0 {
		switch {
		case s.audible == nil:
			s.rate = c.Sound.Rate
			if s.audible, err = audio.NewAudible(s.rate); err != nil {
				return err
			}
		case c.Sound.Rate != s.rate:
			return fmt.Errorf("sound at %d samples a second after sound at %d", c.Sound.Rate, s.rate)
		}
		if v.audio == 0 {
			v.firstRef = s.mark(c.At, trace.TTSFirstFrame, v.r.t.rec.Refs(ready))
			if v.yields == nil {
				v.r.answering.Store(true)
			}
		}
		s.samples += len(c.Sound.PCM)
		v.audio = audio.Span(s.samples, s.rate)
		s.player.Play(c.Sound)
		if !s.found {
			s.arrived = append(s.arrived, arrival{v.audio, c.At})
			if n, ok, err := s.audible.Push(c.Sound); err != nil {
				return err
			} else if ok {
				s.heard(audio.Span(n, c.Sound.Rate))
			}
		}
	}
	if c.Last {
		v.mu.Lock()
		if s.piece < len(v.handed) {
			v.synthesis += c.At - max(v.handed[s.piece], s.last)
		}
		v.mu.Unlock()
		s.piece++
		s.last = c.At
	}
	return nil
}

// heard notes where the first audible sample lies.
func (s *sink) heard(offset time.Duration) {
	s.found = true
	for _, a := range s.arrived {
		if offset < a.end {
			s.mark(a.at, trace.TTSFirstAudible, s.v.r.t.rec.Refs(s.v.firstRef), trace.Attr{Key: trace.AttrLead, Int: int64(offset)})
			break
		}
	}
	s.arrived = nil
	s.player.Watch(offset)
}

// played turns what happens at the caller's end into marks.
func (v *voice) played(e audio.PlayEvent) {
	t := v.r.t
	answer := v.sound == trace.FirstSound
	mark := func(m trace.Mark, stage trace.Stage, cause trace.Ref, attrs ...trace.Attr) trace.Ref {
		return t.rec.Record(trace.Event{At: e.At, Mark: m, Causes: t.rec.Refs(cause), Stage: stage, Setting: e.Setting, Attrs: t.rec.Attrs(attrs...)})
	}
	pass := func(m trace.Mark, stage trace.Stage, cause trace.Ref) {
		v.playing = mark(m, stage, cause)
		if v.passed == nil {
			v.passed = v.space.passed[:0]
		}
		v.passed = append(v.passed, passed{v.playing, e.At})
	}
	switch e.Kind {
	case audio.PlayQueued:
		if answer {
			pass(trace.PlayQueued, trace.StageDownlink, v.firstRef)
		}
	case audio.PlayStarted:
		if answer {
			pass(trace.PlayStart, trace.StagePlayout, v.playing)
		}
	case audio.PlayStalled:
		if answer && !v.reached {
			pass(trace.PlayStalled, trace.StageSilence, v.playing)
		}
	case audio.PlayResumed:
		if answer && !v.reached {
			pass(trace.PlayResumed, trace.StagePlayout, v.playing)
		}
	case audio.PlayReached:
		v.reached = true
		if !answer && t.ctx.Err() != nil {
			return // a filler that is still on its way when the turn is over
		}
		cause := v.playing
		for _, p := range v.passed { // it may come to light late, when the sound has run out since
			if p.at <= e.At {
				cause = p.ref
			}
		}
		mark(v.sound, trace.StageSilence, cause)
		if answer {
			t.inbox.Put(event{kind: evSound, at: e.At, reply: v.r})
		}
	case audio.PlayEnded, audio.PlayStopped:
		v.playback = e.Playback
		m := trace.PlayEnd
		if e.Kind == audio.PlayStopped {
			m = trace.PlayStopped
		}
		if answer {
			mark(m, trace.StagePlayout, v.playing,
				trace.Attr{Key: trace.AttrHeard, Int: int64(e.Played)},
				trace.Attr{Key: trace.AttrUnderruns, Int: int64(e.Underruns)},
				trace.Attr{Key: trace.AttrStalled, Int: int64(e.Stalled)},
				trace.Attr{Key: trace.AttrConcealed, Int: int64(e.Concealed)})
		}
	}
}

// startFiller says the filler, unless the answer is there already.
func (r *reply) startFiller() {
	if r.answering.Load() || r.ctx.Err() != nil {
		return
	}
	f := &voice{r: r, sound: trace.FirstFiller, yields: &r.answering}
	pieces := clocks.NewQueue[piece](r.t.c.Clock, "the filler")
	pieces.Put(piece{text: r.t.c.Agent.Filler})
	pieces.Close()
	gate := clocks.NewQueue[trace.Ref](r.t.c.Clock, "nothing")
	gate.Put(trace.None)
	r.t.g.Go("filler", func() error {
		f.speak(r.ctx, pieces, gate) // an answer without its filler is no failure
		return nil
	})
}
