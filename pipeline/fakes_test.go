package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/tts"
)

const ms = time.Millisecond

// The stages of these tests take exactly as long as they are told, so that
// every moment can be worked out by hand.

// An utterance of a second: speech from 100 to 800 ms.
func utterance(text string) *audio.Utterance {
	return &audio.Utterance{ID: "u", Language: "en", Text: text, Start: 100 * ms, End: 800 * ms,
		Sound: audio.Frame{Rate: 16000, PCM: make([]int16, 16000)}, Bounds: audio.BoundsAnnotated}
}

// unknown is the end of speech that nobody knows before, as of a live caller.
const unknown = 24 * time.Hour

// fakeLine delays sound by the same time each way.
type fakeLine struct {
	c         clocks.Clock
	delay     time.Duration
	free      time.Duration // when the caller's ear is free
	found     time.Duration // when the end of speech is found that nobody knew
	misplaced time.Duration // it is taken to be so much later
}

func (l *fakeLine) Say(_ trace.ID, u *audio.Utterance) audio.Speech {
	return &fakeSpeech{l, u, l.c.Now()}
}

type fakeSpeech struct {
	l     *fakeLine
	u     *audio.Utterance
	began time.Duration
}

func (s *fakeSpeech) Frames(context.Context) iter.Seq2[audio.Frame, error] { return nil }
func (s *fakeSpeech) Utterance() *audio.Utterance                          { return s.u }
func (s *fakeSpeech) Await(ctx context.Context, offset time.Duration) (time.Duration, error) {
	if offset == unknown {
		s.u.End, offset = s.l.found+s.l.misplaced, s.l.found
	}
	at := s.began + offset + s.l.delay
	return at, s.l.c.SleepUntil(ctx, at)
}

func (l *fakeLine) Answer(ctx context.Context, _ trace.ID, on func(audio.PlayEvent)) audio.Player {
	return &fakePlayer{l: l, on: on, over: clocks.NewQueue[int](l.c, "the answer to end")}
}

type fakePlayer struct {
	l          *fakeLine
	on         func(audio.PlayEvent)
	over       *clocks.Queue[int]
	start, end time.Duration
	length     time.Duration
	alarms     []clocks.Alarm
	finished   bool
}

func (p *fakePlayer) at(t time.Duration, e audio.PlayEvent) {
	e.At = t
	p.alarms = append(p.alarms, p.l.c.At(t, func() { p.on(e) }))
}

func (p *fakePlayer) Play(f audio.Frame) {
	if p.length == 0 {
		p.start = max(p.l.c.Now()+p.l.delay, p.l.free)
		p.at(p.l.c.Now()+p.l.delay, audio.PlayEvent{Kind: audio.PlayQueued})
		p.at(p.start, audio.PlayEvent{Kind: audio.PlayStarted})
	}
	p.length += f.Duration()
	p.end = p.start + p.length
	p.l.free = p.end
}

func (p *fakePlayer) Watch(offset time.Duration) {
	p.at(p.start+offset, audio.PlayEvent{Kind: audio.PlayReached})
}

func (p *fakePlayer) Close() {
	p.alarms = append(p.alarms, p.l.c.At(p.end, func() {
		p.on(audio.PlayEvent{Kind: audio.PlayEnded, At: p.end, Playback: audio.Playback{Played: p.length}})
		p.over.Close()
	}))
}

func (p *fakePlayer) Stop() {
	if p.finished {
		return
	}
	p.finished = true
	for _, a := range p.alarms {
		a.Stop()
	}
	if p.length == 0 {
		p.over.Close()
		return
	}
	now := p.l.c.Now()
	p.l.free = now
	if played := now - p.start; played > 0 {
		p.on(audio.PlayEvent{Kind: audio.PlayStopped, At: now, Playback: audio.Playback{Played: played}})
	}
	p.over.Close()
}

func (p *fakePlayer) Wait(ctx context.Context) error {
	p.over.Get(ctx)
	return context.Cause(ctx)
}

// fakeVAD says stop so long after each of the ends that it is told.
type fakeVAD struct {
	c     clocks.Clock
	hang  time.Duration
	runs  [][2]time.Duration
	again time.Duration // another stop, without a start; 0: none
}

func (v *fakeVAD) Listen(ctx context.Context, _ trace.ID, s audio.Speech) iter.Seq2[audio.Activity, error] {
	return func(yield func(audio.Activity, error) bool) {
		for _, run := range v.runs {
			at, err := s.Await(ctx, run[0])
			if err != nil || !yield(audio.Activity{At: at, Speech: true, Offset: run[0]}, nil) {
				return
			}
			at, err = s.Await(ctx, run[1]+v.hang)
			if err != nil || !yield(audio.Activity{At: at, Offset: run[1], Setting: "vad.stop=" + v.hang.String()}, nil) {
				return
			}
		}
		if v.again > 0 {
			if at, err := s.Await(ctx, v.again); err == nil {
				yield(audio.Activity{At: at, Offset: v.again, Setting: "vad.stop=" + v.hang.String()}, nil)
			}
		}
	}
}

// fakeASR yields its results at their times after the beginning of the sound
// has arrived.
type fakeASR struct {
	c       clocks.Clock
	results []asr.Result // At: offset
	err     error
}

func (a *fakeASR) Recognize(ctx context.Context, _ asr.Request, s audio.Speech) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) {
		for _, r := range a.results {
			at, err := s.Await(ctx, r.At)
			if err != nil {
				yield(asr.Result{}, err)
				return
			}
			r.At = at
			if !yield(r, nil) {
				return
			}
		}
		if a.err != nil {
			yield(asr.Result{}, a.err)
		}
	}
}

// fakeLLM answers with one token for each word.
type fakeLLM struct {
	c           clocks.Clock
	first, each time.Duration
	answers     []string // by attempt; "!" fails; "tool:NAME" calls a tool; "…" never comes
	seen        []llm.Request
}

func (m *fakeLLM) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	m.seen = append(m.seen, req)
	answer := m.answers[min(req.Attempt, len(m.answers))-1]
	return func(yield func(llm.Delta, error) bool) {
		d := m.first
		if answer == "…" {
			d = time.Hour
		}
		if err := m.c.Sleep(ctx, d); err != nil {
			yield(llm.Delta{}, err)
			return
		}
		if answer == "!" {
			yield(llm.Delta{}, errors.New("503 overloaded"))
			return
		}
		if name, ok := strings.CutPrefix(answer, "tool:"); ok {
			yield(llm.Delta{At: m.c.Now(), Kind: llm.Call, Call: llm.ToolCall{ID: "1", Name: name}}, nil)
			return
		}
		for i, word := range strings.SplitAfter(answer, " ") {
			if i > 0 {
				if err := m.c.Sleep(ctx, m.each); err != nil {
					yield(llm.Delta{}, err)
					return
				}
			}
			if !yield(llm.Delta{At: m.c.Now(), Kind: llm.Content, Text: word, Tokens: 1}, nil) {
				return
			}
		}
	}
}

// fakeTTS speaks each piece after a while: some silence, then a loud second.
type fakeTTS struct {
	c           clocks.Clock
	first, lead time.Duration
	fails       int // attempts
	said        []string
}

func (s *fakeTTS) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		for piece := range text {
			s.said = append(s.said, piece)
			if err := s.c.Sleep(ctx, s.first); err != nil {
				yield(tts.Chunk{}, err)
				return
			}
			if req.Attempt <= s.fails {
				yield(tts.Chunk{}, errors.New("voice unknown"))
				return
			}
			pcm := make([]int16, audio.Samples(s.lead+time.Second, 16000))
			for i := audio.Samples(s.lead, 16000); i < len(pcm); i++ {
				pcm[i] = int16(8000 * (1 - i%2*2))
			}
			if !yield(tts.Chunk{At: s.c.Now(), Sound: audio.Frame{Rate: 16000, PCM: pcm}, Last: true}, nil) {
				return
			}
		}
	}
}

// fakeStep takes its time.
type fakeStep struct {
	c clocks.Clock
	d time.Duration
}

func (s fakeStep) Do(ctx context.Context, _ trace.ID, _ int, _ string) (string, int, error) {
	return "found", 10, s.c.Sleep(ctx, s.d)
}

// always is a turn detector that always says the same.
type always bool

func (a always) Finished(context.Context, Pause) (bool, error) { return bool(a), nil }

// A bench is a pipeline of fakes on a virtual clock.
type bench struct {
	Options
	v    *clocks.Virtual
	line *fakeLine
	vad  *fakeVAD
	asr  *fakeASR
	llm  *fakeLLM
	tts  *fakeTTS
}

func newBench() *bench {
	v := clocks.NewVirtual()
	b := &bench{v: v,
		line: &fakeLine{c: v, delay: 10 * ms},
		vad:  &fakeVAD{c: v, hang: 200 * ms, runs: [][2]time.Duration{{100 * ms, 800 * ms}}},
		asr: &fakeASR{c: v, results: []asr.Result{{At: 300 * ms, Text: "book"}, {At: 900 * ms, Text: "book a table"},
			{At: 1050 * ms, Kind: asr.Final, Text: "book a table"}}},
		llm: &fakeLLM{c: v, first: 50 * ms, each: 10 * ms, answers: []string{"Sure, done. Anything else?"}},
		tts: &fakeTTS{c: v, first: 100 * ms, lead: 80 * ms},
	}
	b.Options = Options{Clock: v, VAD: b.vad, ASR: b.asr, ASRTimeout: time.Second,
		Turn:   Endpointing{MaxDelay: 3 * time.Second},
		LLM:    []Named[llm.Model]{{"fake", b.llm}},
		TTS:    []Named[tts.Synthesizer]{{"fake", b.tts}},
		Retry:  Retry{Attempts: 1},
		Speech: Retry{Attempts: 1},
		Cut:    Cutting{Mode: CutSentence, LookAhead: true},
		Memory: Memory{System: "You are kind."},
	}
	return b
}

// run plays a call of the given turns and returns its events.
func (b *bench) run(t *testing.T, says ...Say) []trace.Event {
	t.Helper()
	var events []trace.Event
	b.v.Go("call", func() {
		err := b.Options.Run(context.Background(), Call{Session: 1, Line: b.line,
			Recorder: trace.NewRecorder(b.v, func(e trace.Event) { events = append(events, e) }),
			Script: func(n int) (Say, bool) {
				if n > len(says) {
					return Say{}, false
				}
				return says[n-1], true
			}})
		if err != nil {
			t.Error(err)
		}
	})
	if err := b.v.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return events
}

// times returns "mark@ms" for the marks named (all, if none is), in order of the
// record, with #n for attempts after the first.
func times(events []trace.Event, turn int, only ...trace.Mark) string {
	var out []string
	for _, e := range events {
		keep := len(only) == 0
		for _, m := range only {
			keep = keep || e.Mark == m
		}
		if !keep || e.ID.Turn != turn {
			continue
		}
		s := fmt.Sprintf("%s@%g", e.Mark, float64(e.At)/1e6)
		if e.Attempt > 1 {
			s += fmt.Sprintf("#%d", e.Attempt)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
