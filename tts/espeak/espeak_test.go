package espeak

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live/livetest"
	"firstsound/tts/ttstest"
)

func engine(t testing.TB) *Synthesizer {
	s, err := New(clocks.NewReal(), Defaults())
	if err != nil {
		t.Skip(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	engine(t)
	with := func(voice string) func(testing.TB, clocks.Clock) tts.Synthesizer {
		return func(t testing.TB, c clocks.Clock) tts.Synthesizer {
			o := Defaults()
			o.Voices["en"] = voice
			s, err := New(c, o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	ttstest.Run(t, ttstest.Subject{New: with("en"), NewFailing: with("xx-nowhere"), OnlyReal: true, Repeats: true})
}

// heard is what a synthesizer said.
type heard struct {
	sound        audio.Frame
	chunks       int
	first, whole time.Duration
	lasts        int
}

func listen(t testing.TB, s *Synthesizer, req tts.Request, texts ...string) (h heard) {
	t.Helper()
	began := s.clock.Now()
	for c, err := range s.Speak(t.Context(), req, slices.Values(texts)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Last {
			h.lasts++
		}
		if len(c.Sound.PCM) == 0 {
			continue
		}
		if h.chunks == 0 {
			h.first = c.At - began
		}
		h.chunks++
		h.sound.Rate = c.Sound.Rate
		h.sound.PCM = append(h.sound.PCM, c.Sound.PCM...)
	}
	h.whole = s.clock.Now() - began
	return h
}

const english, chinese = "We are open from ten until six today, is there anything else that I can do?", "您好，我们今天从十点到六点营业，请问还有什么可以帮您？"

func TestSpeak(t *testing.T) {
	s := engine(t)
	for name, test := range map[string]struct {
		req  tts.Request
		text string
	}{
		"english":   {tts.Request{Language: "en"}, english},
		"mandarin":  {tts.Request{Language: "zh"}, chinese},
		"cantonese": {tts.Request{Language: "yue"}, chinese},
		"flag":      {tts.Request{}, "--version -x is no flag"},
	} {
		h := listen(t, s, test.req, test.text)
		lead, found, err := audio.FirstAudible(h.sound)
		if err != nil || !found {
			t.Fatalf("%s: nothing to hear: %v", name, err)
		}
		if h.sound.Rate != 22050 || h.lasts != 1 || h.chunks < 2 || h.sound.Duration() < time.Second {
			t.Errorf("%s: %d Hz, %d lasts, %d chunks, %v", name, h.sound.Rate, h.lasts, h.chunks, h.sound.Duration())
		}
		t.Logf("%s: first sound %v, all %v, lead %v, %v of sound, RTF %.4f", name, h.first, h.whole, audio.Span(lead, h.sound.Rate),
			h.sound.Duration(), h.whole.Seconds()/h.sound.Duration().Seconds())
	}
}

// A voice that spells pinyin in English takes several times as long.
func TestChineseIsNotSpelled(t *testing.T) {
	s := engine(t)
	right := listen(t, s, tts.Request{Language: "zh-CN"}, chinese).sound.Duration()
	spelled := listen(t, s, tts.Request{Voice: "cmn"}, chinese).sound.Duration()
	if right >= spelled || right > 10*time.Second {
		t.Errorf("Chinese takes %v; with the voice cmn, which spells, %v", right, spelled)
	}
}

func TestPieces(t *testing.T) {
	s := engine(t)
	one := listen(t, s, tts.Request{}, english)
	two := listen(t, s, tts.Request{}, english, " ", english)
	if two.lasts != 3 || len(two.sound.PCM) != 2*len(one.sound.PCM) {
		t.Errorf("twice the text with an empty one between: %d ends, %d samples of twice %d", two.lasts, len(two.sound.PCM), len(one.sound.PCM))
	}
}

func TestCancel(t *testing.T) {
	s := engine(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	var last error
	for c, err := range s.Speak(ctx, tts.Request{}, slices.Values([]string{strings.Repeat(english, 50)})) {
		if last = err; len(c.Sound.PCM) > 0 {
			n++
			cancel(cause)
		}
	}
	if !errors.Is(last, cause) || n != 1 {
		t.Errorf("%d chunks, then %v", n, last)
	}
	for c := range s.Speak(t.Context(), tts.Request{}, slices.Values([]string{strings.Repeat(english, 50)})) {
		if len(c.Sound.PCM) > 0 {
			break // it returns only when the process is gone: Wait has
		}
	}
}

func TestErrors(t *testing.T) {
	s := engine(t)
	var last error
	for _, err := range s.Speak(t.Context(), tts.Request{Voice: "xx-nowhere"}, slices.Values([]string{"Hi."})) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "tts: espeak: ") || !strings.Contains(last.Error(), "voice") {
		t.Errorf("a voice that there is not: %v", last)
	}
	o := Defaults()
	o.Program = "/nowhere/espeak-ng"
	if _, err := New(clocks.NewReal(), o); err == nil || !strings.Contains(err.Error(), "package espeak-ng") {
		t.Errorf("a program that there is not: %v", err)
	}
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"program": func(o *Options) { o.Program = "" }, "voice": func(o *Options) { o.Voice = "" }, "speed": func(o *Options) { o.Speed = 0 },
		"pitch": func(o *Options) { o.Pitch = 100 }, "gap": func(o *Options) { o.Gap = -1 }, "voices": func(o *Options) { o.Voices = map[string]string{"de": ""} },
	})
}

func TestNothingToDo(t *testing.T) {
	s := engine(t)
	synctest.Test(t, func(t *testing.T) { // what waits for nothing is not stuck
		for c, err := range s.Speak(t.Context(), tts.Request{}, slices.Values([]string(nil))) {
			t.Errorf("%v, %v", c, err)
		}
	})
}
