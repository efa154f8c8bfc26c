package silero

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/audio/vad/vadtest"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

const ms = time.Millisecond

// open skips the test if the files are missing.
func open(t testing.TB, o Options) *Model {
	t.Helper()
	m, err := Open(o)
	if errors.Is(err, ErrMissing) {
		t.Skip("the npm packages @ricky0123/vad-web and sherpa-onnx-linux-x64 are missing:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

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

func TestContract(t *testing.T) {
	o := Defaults()
	o.Inference = random.Const(0)
	m := open(t, o)
	vadtest.Run(t, vadtest.Subject{
		New:       func(t testing.TB, c clocks.Clock) vadtest.VAD { return m.Listener(c, 1) },
		Utterance: speech(t), Stop: o.Stop, Tolerance: 100 * ms,
	})
}

// The probabilities are those of the same network under another runtime, npm's
// onnxruntime-web 1.22.0 (testdata/en-cards-002.json), and a new stream says the
// same however much garbage was collected meanwhile.
func TestSpeech(t *testing.T) {
	m := open(t, Defaults())
	u := speech(t)
	var first []float64
	for round := range 3 {
		s, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for at := 0; at+frame <= len(u.Sound.PCM); at += frame {
			p, err := s.Speech(u.Sound.PCM[at : at+frame])
			if err != nil {
				t.Fatal(err)
			}
			if !(p >= 0 && p <= 1) {
				t.Fatalf("a probability of %v", p)
			}
			if round == 0 {
				first = append(first, p)
			} else if p != first[n] {
				t.Fatalf("round %d, frame %d: %v, before %v", round, n, p, first[n])
			}
			n++
			if n%20 == 0 {
				runtime.GC()
			}
		}
		if _, err := s.Speech(make([]int16, 480)); err == nil {
			t.Error("a frame of 480 samples was taken")
		}
		s.Close()
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "en-cards-002.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	if err := json.Unmarshal(golden, &want); err != nil || len(want) != len(first) {
		t.Fatalf("%v, %d frames and %d in the golden file", err, len(first), len(want))
	}
	for i, p := range first {
		if math.Abs(p-want[i]) > 0.001 {
			t.Errorf("frame %d: %.4f, want %.4f", i, p, want[i])
		}
	}
}

func TestFiles(t *testing.T) {
	o := Defaults()
	o.Folder = t.TempDir()
	_, err := Open(o)
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), filepath.Join(o.Folder, ModelFile)) || !strings.Contains(err.Error(), "fetch.sh") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, name := range []string{ModelFile, LibraryFile} {
		if err := os.WriteFile(filepath.Join(o.Folder, name), []byte("no network"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), "vad: silero: library: ") {
		t.Errorf("a library that is none: %v", err)
	}
	real := Defaults()
	open(t, real)
	_, library, err := real.files()
	if err != nil {
		t.Fatal(err)
	}
	o.Library = library
	if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), "vad: silero: ONNX Runtime: model: ") {
		t.Errorf("a model that is none: %v", err)
	}
}

func BenchmarkSpeech(b *testing.B) {
	m := open(b, Defaults())
	s, err := m.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	u := speech(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if (i+1)*frame > len(u.Sound.PCM) {
			i = 0
		}
		s.Speech(u.Sound.PCM[i*frame:][:frame])
		i++
	}
}
