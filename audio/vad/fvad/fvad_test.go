package fvad

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/audio/vad/vadtest"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

const ms = time.Millisecond

func speech(t testing.TB) *audio.Utterance {
	t.Helper()
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.ID == "en-cards-002" {
			return u
		}
	}
	t.Fatal("no en-cards-002")
	return nil
}

// The contract, for the strictest mode and for the finest frames.
func TestContract(t *testing.T) {
	for _, frame := range []time.Duration{10 * ms, 30 * ms} {
		o := Defaults()
		o.Frame, o.Inference = frame, random.Const(0)
		m, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		vadtest.Run(t, vadtest.Subject{
			New:       func(t testing.TB, c clocks.Clock) vadtest.VAD { return m.Listener(c, 1) },
			Utterance: speech(t), Stop: o.Stop, Tolerance: 200 * ms,
		})
	}
}

// Every mode with every frame, and every rate: silence is none, speech is.
func TestSettings(t *testing.T) {
	u := speech(t)
	for mode := range 4 {
		for _, frame := range []time.Duration{10 * ms, 20 * ms, 30 * ms} {
			for _, rate := range []int{8000, 16000, 32000, 48000} {
				if rate != 16000 && (mode != 3 || frame != 20*ms) {
					continue // the rate makes no difference behind the first filter
				}
				o := Defaults()
				o.Mode, o.Frame, o.Rate = mode, frame, rate
				m, err := Open(o)
				if err != nil {
					t.Fatal(err)
				}
				s, err := m.Open()
				if err != nil {
					t.Fatal(err)
				}
				if want := audio.Samples(frame, rate); m.Frame() != want {
					t.Errorf("%v at %d: %d samples a frame, want %d", frame, rate, m.Frame(), want)
				}
				share := func(f audio.Frame) float64 {
					n, sum := 0, 0.0
					for pcm := f.PCM; len(pcm) >= m.Frame(); pcm = pcm[m.Frame():] {
						p, err := s.Speech(pcm[:m.Frame()])
						if err != nil {
							t.Fatal(err)
						}
						n++
						sum += p
					}
					return sum / float64(n)
				}
				silence := share(audio.Frame{Rate: rate, PCM: make([]int16, rate)})
				spoken := share(audio.Resample(audio.Frame{Rate: u.Sound.Rate, PCM: u.Sound.PCM[audio.Samples(u.Start, 16000):audio.Samples(u.End, 16000)]}, rate))
				if silence != 0 || spoken < 0.7 {
					t.Errorf("mode %d, %v at %d: %.2f of silence is speech, and %.2f of speech", mode, frame, rate, silence, spoken)
				}
				if _, err := s.Speech(make([]int16, 7)); err == nil {
					t.Error("a frame of 7 samples was taken")
				}
				s.Close()
				m.Close()
			}
		}
	}
}

// The stricter the mode, the less is speech.
func TestModes(t *testing.T) {
	u := speech(t)
	before := 1 << 30
	for mode := range 4 {
		o := Defaults()
		o.Mode = mode
		m, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := m.Open()
		n := 0
		for pcm := u.Sound.PCM; len(pcm) >= m.Frame(); pcm = pcm[m.Frame():] {
			if p, _ := s.Speech(pcm[:m.Frame()]); p == 1 {
				n++
			}
		}
		if n >= before && mode != 1 { // 0 and 1 differ little
			t.Errorf("mode %d takes %d frames for speech, the one before it %d", mode, n, before)
		}
		before = n
		m.Close()
	}
}

// In virtual time a judgement costs what is drawn for it.
func TestInference(t *testing.T) {
	var times [2][]time.Duration
	for i, cost := range []time.Duration{0, 7 * ms} {
		o := Defaults()
		o.Inference = random.Const(cost)
		m, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		err = clockstest.Virtual(func(ctx context.Context, c clocks.Clock) error {
			for a, err := range m.Listener(c, 1).Listen(ctx, trace.ID{}, vadtest.NewSpeech(c, speech(t))) {
				if err != nil {
					return err
				}
				if a.At != c.Now() {
					t.Errorf("told at %v of %v", c.Now(), a.At)
				}
				times[i] = append(times[i], a.At-cost)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(times[0]) == 0 || !slices.Equal(times[0], times[1]) {
		t.Errorf("%v without a cost, %v with 7 ms, less that", times[0], times[1])
	}
}

// A stream that was used before has forgotten all.
func TestFresh(t *testing.T) {
	m, err := Open(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(1, 2))
	f := make([]int16, 50*m.Frame())
	for i := range f {
		f[i] = int16(300 * r.NormFloat64())
	}
	var first []float64
	for round := range 2 {
		s, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			p, err := s.Speech(f[i*m.Frame():][:m.Frame()])
			if err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				first = append(first, p)
			} else if p != first[i] {
				t.Fatalf("frame %d: %v, in a new stream %v", i, p, first[i])
			}
		}
		s.Close()
		s.Close() // does nothing
	}
	if n := len(m.idle); n != 1 {
		t.Errorf("%d streams to be used again", n)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) { o.Mode = 4 }, "mode: 4"}, {func(o *Options) { o.Frame = 15 * ms }, "frame: 15ms"},
		{func(o *Options) { o.Rate = 44100 }, "rate: 44100"}, {func(o *Options) { o.Stop = 0 }, "stop: 0s"},
	} {
		o := Defaults()
		c.change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), "vad: fvad: ") {
			t.Errorf("%v", err)
		}
	}
	if sum := sha256.Sum256(code); hex.EncodeToString(sum[:]) != "f81d42b107a2198a3aa0f8ae4f27a8b7a2cc4218896adae5ff82012178eff727" {
		t.Error("fvad.wasm is not that of @echogarden/fvad-wasm 0.2.0")
	}
}

func BenchmarkSpeech(b *testing.B) {
	m, err := Open(Defaults())
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	s, err := m.Open()
	if err != nil {
		b.Fatal(err)
	}
	u := speech(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if (i+1)*m.Frame() > len(u.Sound.PCM) {
			i = 0
		}
		s.Speech(u.Sound.PCM[i*m.Frame():][:m.Frame()])
		i++
	}
}
