package vadtest_test

import (
	"errors"
	"fmt"
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

// silent returns Silero, or nil where its files are missing.
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

// The errors of all detectors over the corpus: go test -v -run Measured.
func TestMeasured(t *testing.T) {
	all := recordings(t)
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
	var table []vadtest.Figures
	for _, d := range detectors {
		f, err := vadtest.Measure(clocks.NewReal(), d, all)
		if err != nil {
			t.Fatal(d.Name, err)
		}
		table = append(table, f)
		if f.Missed > 0 || len(f.End) != len(all) {
			t.Errorf("%s missed %d recordings", d.Name, f.Missed)
		}
	}
	t.Logf("hangover %v, %d recordings\n%s", stop, len(all), vadtest.Table(table))
}
