package ttsbench

import (
	"context"
	"errors"
	"iter"
	"net"
	"testing"
	"time"
	"unicode"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/socket"
	"firstsound/tts"
	"firstsound/tts/live"
)

const (
	ms   = time.Millisecond
	rate = 16000
)

// A part is sound that a fake yields.
type part struct {
	after time.Duration // the part before, or the text
	sound time.Duration
	loud  bool
}

// A fake synthesizer.
type fake struct {
	c       clocks.Clock
	connect time.Duration
	parts   []part
	err     error
}

func (f fake) Speak(ctx context.Context, _ tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		for range text {
			at := f.c.Now() + f.connect
			f.c.SleepUntil(ctx, at)
			if !yield(tts.Chunk{At: at, Connected: true}, nil) {
				return
			}
			for _, p := range f.parts {
				at += p.after
				if err := f.c.SleepUntil(ctx, at); err != nil {
					yield(tts.Chunk{}, err)
					return
				}
				sound := audio.Frame{Rate: rate, PCM: make([]int16, audio.Samples(p.sound, rate))}
				for i := range sound.PCM {
					if p.loud {
						sound.PCM[i] = int16(i%100-50) * 200
					}
				}
				if !yield(tts.Chunk{At: at, Sound: sound}, nil) {
					return
				}
			}
			if f.err != nil {
				yield(tts.Chunk{}, f.err)
				return
			}
			yield(tts.Chunk{At: at, Last: true}, nil)
		}
	}
}

// one runs a trial in a bubble.
func one(t *testing.T, f fake) (trial Trial) {
	t.Helper()
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		f.c = c
		b, err := New(c, Options{Texts: []Text{{ID: "t", Language: "en", Text: "héllo"}}, RunID: "fs", Rounds: 1})
		if err != nil {
			return err
		}
		return b.Run(ctx, f, 1, func(x Trial) error { trial = x; return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

func is(t *testing.T, name string, got *time.Duration, want time.Duration) {
	t.Helper()
	if got == nil || *got != want {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// 100 ms of silence in the first chunk and 50 ms in the second, then a tone: the
// rule sees it up to 5 ms early. The second chunk comes 20 ms late for a player
// that began at the first byte, and the third 30 ms early.
func TestTimes(t *testing.T) {
	x := one(t, fake{connect: 10 * ms, parts: []part{
		{200 * ms, 100 * ms, false}, {120 * ms, 50 * ms, false}, {20 * ms, 300 * ms, true}, {320 * ms, 200 * ms, true},
	}})
	is(t, "connected", x.Connect, 10*ms)
	is(t, "first byte", x.FirstByte, 210*ms)
	is(t, "lead", x.Lead, 146*ms) // of 150: four of its ten ms are loud enough
	is(t, "audible", x.Audible, 330*ms)
	is(t, "heard", x.Heard, 210*ms+146*ms+20*ms)
	is(t, "last byte", x.Last, 670*ms)
	is(t, "headroom", x.Ahead, -20*ms)
	if x.Stalls != 1 || x.Stalled != 20*ms || x.Length != 650*ms || x.Chunks != 4 || x.Rate != rate || *x.RTF != 670.0/650 || x.Outcome != OK || !x.Cold || x.Characters != 5 {
		t.Errorf("%+v", x)
	}
}

func TestOneChunk(t *testing.T) {
	x := one(t, fake{parts: []part{{30 * ms, 500 * ms, true}}})
	is(t, "heard", x.Heard, 30*ms+*x.Lead)
	if x.Ahead != nil || x.Stalls != 0 || x.Outcome != OK || *x.Lead != 0 {
		t.Errorf("%+v", x)
	}
}

func TestOutcomes(t *testing.T) {
	for want, f := range map[Outcome]fake{
		OK: {parts: []part{{ms, 500 * ms, true}}}, Inaudible: {parts: []part{{ms, 500 * ms, false}}}, Empty: {},
		Timeout: {err: live.Silent(time.Second)}, Refused: {err: &live.StatusError{Status: 401}}, Closed: {err: &socket.CloseError{Code: 1011}},
		Unreachable: {err: &net.OpError{Op: "dial", Err: errors.New("x")}}, Failed: {parts: []part{{ms, 500 * ms, true}}, err: errors.New("sorry")},
	} {
		x := one(t, f)
		if x.Outcome != want || (x.Error != "") != (f.err != nil) {
			t.Errorf("%s: %+v", want, x)
		}
	}
	if got := outcome(t.Context(), live.ErrNoSound); got != Empty {
		t.Errorf("no sound is %s", got)
	}
}

// The summary keeps cold trials and failures out of the times, and counts them.
func TestSummary(t *testing.T) {
	s := NewSummary("fake", "en")
	for i := range 22 {
		first := time.Duration(i) * 10 * ms
		x := Trial{Level: 4, Cold: i == 0, FirstByte: &first, Length: time.Second, Outcome: OK, Stalls: i % 2}
		if i == 21 {
			x.Outcome, x.Error, x.FirstByte = Failed, "sorry", nil
		}
		s.Add(x)
	}
	r := s.Report(true)
	l := r.Levels[0]
	if !r.Partial || r.Cold == nil || l.Trials != 22 || l.Outcomes[OK] != 21 || l.Outcomes[Failed] != 1 || l.Errors["sorry"] != 1 {
		t.Errorf("%+v, %+v", r, l)
	}
	if d := l.FirstByte; d.N != 20 || *d.P50.Value != int64(105*ms) || *d.Min != int64(10*ms) || d.P95.Value == nil || d.P99.Value != nil {
		t.Errorf("%+v", d)
	}
	if l.Stalled != 10 || l.Stalls != 10 || l.RTF.N != 0 || l.Length.N != 20 {
		t.Errorf("%+v", l)
	}
}

func TestInterrupt(t *testing.T) {
	n := 0
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		ctx, cancel := clocks.WithCancel(ctx, c)
		b, err := New(c, Options{Texts: Texts("zh"), Rounds: 100})
		if err != nil {
			return err
		}
		c.At(c.Now()+500*ms, func() { cancel(errors.New("enough")) })
		if err := b.Run(ctx, fake{c: c, parts: []part{{200 * ms, time.Second, true}}}, 2, func(x Trial) error {
			if n++; (x.Outcome == OK) != (n <= 4) {
				t.Errorf("trial %d: %s", n, x.Outcome)
			}
			return nil
		}); err == nil || err.Error() != "enough" {
			t.Errorf("the run ended with %v", err)
		}
		return nil
	})
	if err != nil || n != 6 {
		t.Errorf("%v; %d trials", err, n)
	}
}

func TestTexts(t *testing.T) {
	ids := map[string]bool{}
	for _, language := range []string{"en", "zh"} {
		for _, x := range Texts(language) {
			han := false
			for _, r := range x.Text {
				han = han || unicode.Is(unicode.Han, r)
			}
			if ids[x.ID] || x.Language != language || han != (language == "zh") {
				t.Errorf("%+v", x)
			}
			ids[x.ID] = true
		}
	}
	if len(ids) != 16 || Texts("fr") != nil {
		t.Errorf("%d texts, and in French %v", len(ids), Texts("fr"))
	}
}

func TestWrongOptions(t *testing.T) {
	for _, o := range []Options{{Rounds: 1}, {Texts: Texts("en")}} {
		if _, err := New(clocks.NewReal(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
