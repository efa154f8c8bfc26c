package flite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live/livetest"
	"firstsound/tts/ttstest"
)

func engine(t testing.TB, c clocks.Clock) *Synthesizer {
	s, err := New(c, Defaults())
	if err != nil {
		t.Skip(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	engine(t, clocks.NewReal())
	ttstest.Run(t, ttstest.Subject{
		New: func(t testing.TB, c clocks.Clock) tts.Synthesizer { return engine(t, c) },
		NewFailing: func(t testing.TB, c clocks.Clock) tts.Synthesizer {
			s := engine(t, c)
			s.o.Voice = "nobody"
			return s
		},
		OnlyReal: true, // no two excitations are the same: it does not repeat
	})
}

// A speech is what a synthesizer said.
type speech struct {
	sound         audio.Frame
	chunks, lasts int
	first, ended  time.Duration
}

func listen(t testing.TB, s *Synthesizer, req tts.Request, texts ...string) (h speech) {
	t.Helper()
	began := s.clock.Now()
	for c, err := range s.Speak(t.Context(), req, slices.Values(texts)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Last {
			h.lasts++
		}
		if len(c.Sound.PCM) > 0 {
			if h.chunks++; h.chunks == 1 {
				h.first = c.At - began
			}
			h.sound.Rate = c.Sound.Rate
			h.sound.PCM = append(h.sound.PCM, c.Sound.PCM...)
		}
	}
	h.ended = s.clock.Now() - began
	return h
}

const sentence = "We are open from ten until six today, is there anything else that I can do?"

func TestSpeak(t *testing.T) {
	s := engine(t, clocks.NewReal())
	for name, rate := range map[string]int{"slt": 16000, "rms": 16000, "kal16": 16000, "kal": 8000} {
		listen(t, s, tts.Request{Voice: name}, "Hi.") // registers the voice
		h := listen(t, s, tts.Request{Voice: name, Language: "en-US"}, sentence)
		lead, found, err := audio.FirstAudible(h.sound)
		if err != nil || !found {
			t.Fatalf("%s: nothing to hear: %v", name, err)
		}
		if h.sound.Rate != rate || h.lasts != 1 || h.chunks < 10 || h.sound.Duration() < 2*time.Second {
			t.Errorf("%s: %d Hz, %d lasts, %d chunks, %v", name, h.sound.Rate, h.lasts, h.chunks, h.sound.Duration())
		}
		t.Logf("%s: first sound %v, all %v, lead %v, %v of sound, RTF %.4f", name, h.first, h.ended, audio.Span(lead, rate), h.sound.Duration(),
			h.ended.Seconds()/h.sound.Duration().Seconds())
	}
}

func TestStretch(t *testing.T) {
	s := engine(t, clocks.NewReal())
	usual := listen(t, s, tts.Request{}, sentence).sound.Duration()
	s.o.Stretch = 2
	if slow := listen(t, s, tts.Request{}, sentence).sound.Duration(); slow < usual*3/2 {
		t.Errorf("stretched to twice its length it lasts %v, otherwise %v", slow, usual)
	}
}

func TestStop(t *testing.T) {
	s := engine(t, clocks.NewReal())
	long := strings.Repeat(sentence+" ", 6)
	short, whole := len(listen(t, s, tts.Request{}, sentence).sound.PCM), len(listen(t, s, tts.Request{}, long).sound.PCM)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	got := 0
	var last error
	for c, err := range s.Speak(ctx, tts.Request{}, slices.Values([]string{long})) {
		if got += len(c.Sound.PCM); got > 0 {
			cancel(cause)
		}
		last = err
	}
	if !errors.Is(last, cause) || got > whole/2 {
		t.Errorf("%d samples of %d, then %v", got, whole, last)
	}
	if again := len(listen(t, s, tts.Request{}, sentence).sound.PCM); again != short {
		t.Errorf("%d samples after a stop, %d before", again, short)
	}
}

func TestRefused(t *testing.T) {
	s := engine(t, clocks.NewReal())
	for _, req := range []tts.Request{{Voice: "nobody"}, {Language: "zh"}} {
		var last error
		for _, err := range s.Speak(t.Context(), req, slices.Values([]string{sentence})) {
			last = err
		}
		if last == nil || !strings.HasPrefix(last.Error(), "tts: flite: ") {
			t.Errorf("%+v: %v", req, last)
		}
	}
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"voice": func(o *Options) { o.Voice = "" }, "min_buffsize": func(o *Options) { o.Block = 0 }, "stretch": func(o *Options) { o.Stretch = 9 },
	})
}

func TestZeroInText(t *testing.T) {
	s := engine(t, clocks.NewReal())
	if a, b := listen(t, s, tts.Request{}, "one\x00two"), listen(t, s, tts.Request{}, "one two"); len(a.sound.PCM) != len(b.sound.PCM) {
		t.Errorf("%d samples with a zero between, %d with a space", len(a.sound.PCM), len(b.sound.PCM))
	}
}
