package vadtest_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/audio/vad"
	"firstsound/audio/vad/engine"
	"firstsound/audio/vad/fvad"
	"firstsound/audio/vad/silero"
	"firstsound/audio/vad/vadtest"
	"firstsound/clocks"
)

const ms = time.Millisecond

func recordings(t testing.TB) []*audio.Utterance {
	t.Helper()
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func energy(stop time.Duration) vadtest.Detector {
	return vadtest.Detector{Name: "energy", Frame: 10 * ms, Notices: func(u *audio.Utterance) (all []engine.Notice, err error) {
		runs := vad.Runs(u.Sound)
		if len(runs) == 0 {
			return nil, nil
		}
		begin := runs[0].Start
		for _, s := range vad.Stops(runs, stop) {
			all = append(all, engine.Notice{Speech: true, Offset: begin}, engine.Notice{Offset: s.SpeechEnd, Known: s.DecidedAt})
			begin = s.Resumed
		}
		return all, nil
	}}
}

func model(name string, m engine.Model, o engine.Options) vadtest.Detector {
	return vadtest.Detector{Name: name, Frame: audio.Span(m.Frame(), m.Rate()), Notices: func(u *audio.Utterance) ([]engine.Notice, error) {
		return engine.Notices(m, o, u.Sound)
	}}
}

// sileroModel returns Silero, or nil where its files are missing.
func sileroModel(t testing.TB) *silero.Model {
	t.Helper()
	m, err := silero.Open(silero.Defaults())
	if errors.Is(err, silero.ErrMissing) {
		t.Log(err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// noisy adds white noise so far below the speech in each recording, in dB.
func noisy(all []*audio.Utterance, snr float64) (with []*audio.Utterance) {
	for i, u := range all {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		n := *u
		n.Sound.PCM = slices.Clone(u.Sound.PCM)
		rate := u.Sound.Rate
		speech := audio.Frame{Rate: rate, PCM: u.Sound.PCM[audio.Samples(u.Start, rate):audio.Samples(u.End, rate)]}
		sigma := 32768 * math.Pow(10, (audio.RMS(speech)-snr)/20)
		for j, x := range n.Sound.PCM {
			n.Sound.PCM[j] = int16(max(-32768, min(32767, float64(x)+sigma*r.NormFloat64())))
		}
		with = append(with, &n)
	}
	return with
}

// The errors of all detectors over the corpus, and over it with noise: go test -v
// -run Measured.
func TestMeasured(t *testing.T) {
	quiet := recordings(t)
	const stop = 200 * ms
	detectors := []vadtest.Detector{energy(stop)}
	for mode := range 4 {
		o := fvad.Defaults()
		o.Mode = mode
		m, err := fvad.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		detectors = append(detectors, model(fmt.Sprintf("fvad mode %d", mode), m, o.Options))
	}
	if m := sileroModel(t); m != nil {
		detectors = append(detectors, model("silero v6", m, silero.Defaults().Options))
	}
	for _, snr := range []float64{math.Inf(1), 20, 10} {
		all := noisy(quiet, snr)
		var table []vadtest.Figures
		for _, d := range detectors {
			f, err := vadtest.Measure(clocks.NewReal(), d, all)
			if err != nil {
				t.Fatal(d.Name, err)
			}
			table = append(table, f)
			if !math.IsInf(snr, 1) {
				continue // there it fails, as the table says
			}
			if f.Missed > 0 || f.FalseStops > 5 || f.End[0] < -200*ms || f.End[len(f.End)-1] > 250*ms {
				t.Errorf("%+v", f)
			}
		}
		t.Logf("hangover %v, %d recordings, noise %v dB below the speech\n%s", stop, len(all), snr, vadtest.Table(table))
	}
}
