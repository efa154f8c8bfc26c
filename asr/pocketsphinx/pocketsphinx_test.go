package pocketsphinx

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrtest"
	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
)

// needEngine skips the test where PocketSphinx is not installed.
func needEngine(t testing.TB) {
	t.Helper()
	if _, err := open(); err != nil {
		t.Skipf("%v", err)
	}
	if _, err := Defaults().arguments(); err != nil {
		t.Skipf("%v", err)
	}
}

func recording(t testing.TB, id string) *audio.Utterance {
	t.Helper()
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(u *audio.Utterance) bool { return u.ID == id })
	if i < 0 {
		t.Fatalf("there is no recording %q", id)
	}
	return all[i]
}

// small are Options that load in some milliseconds: a grammar of three words.
func small(t testing.TB) Options {
	dict := filepath.Join(t.TempDir(), "words.dict")
	if err := os.WriteFile(dict, []byte("no N OW\nplease P L IY Z\nyes Y EH S\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.Dict = dict
	o.Grammar = "#JSGF V1.0; grammar answer; public <answer> = (yes | no) [please];"
	return o
}

func TestSuite(t *testing.T) {
	needEngine(t)
	u := *recording(t, "en-flite-yes")
	u.Text = "yes please"
	asrtest.Run(t, asrtest.Subject{
		New: func(t testing.TB, c clocks.Clock) asr.Recognizer {
			r, err := New(c, small(t))
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Close:    func(r asr.Recognizer) { r.(*Recognizer).Close() },
		Partials: true, Text: true, Finalizes: true, Utterance: &u,
	})
}

func TestMissing(t *testing.T) {
	needEngine(t)
	for text, change := range map[string]func(*Options){
		"pocketsphinx-en-us": func(o *Options) { o.Model = "/nowhere" },
		"ds: 0":              func(o *Options) { o.DS = 0 },
		"write one of them":  func(o *Options) { o.LM = "x" },
	} {
		o := small(t)
		o.Dict = ""
		change(&o)
		if _, err := New(clocks.NewReal(), o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is wrong with a grammar or an argument comes with the recognition.
func TestRefused(t *testing.T) {
	needEngine(t)
	for text, change := range map[string]func(*Options){
		"grammar":               func(o *Options) { o.Grammar = "#JSGF V1.0; grammar g; public <g> = unheard;" },
		"does not take its arg": func(o *Options) { o.Args = map[string]string{"nonsense": "1"} },
	} {
		o := small(t)
		change(&o)
		err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
			r, err := New(c, o)
			if err != nil {
				return err
			}
			defer r.Close()
			for _, err := range r.Recognize(ctx, asr.Request{}, asrtest.NewSpeech(c, recording(t, "en-flite-yes"))) {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%q: %v", text, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Free memory of the C library comes back: a hundred decoders do not make the
// process grow by more than a few of them would.
func TestNoLeak(t *testing.T) {
	needEngine(t)
	lib, err := open()
	if err != nil {
		t.Fatal(err)
	}
	o := small(t)
	args, err := o.arguments()
	if err != nil {
		t.Fatal(err)
	}
	use := func(n int) {
		for range n {
			d, err := lib.load(args, o.Grammar)
			if err != nil {
				t.Fatal(err)
			}
			d.start()
			d.push(make([]int16, 3200))
			d.end()
			d.free()
		}
	}
	use(5)
	before := resident(t)
	use(40)
	if grown := resident(t) - before; grown > 40<<20 {
		t.Errorf("40 decoders left %d MB", grown>>20)
	}
}

func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc here")
	}
	var pages int
	for i, field := range strings.Fields(string(text)) {
		if i == 1 {
			for _, c := range field {
				pages = 10*pages + int(c-'0')
			}
		}
	}
	return pages * os.Getpagesize()
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "<s> turn on read(2) ++NOISE++ </s>": "turn on read", "[SPEECH] a <sil> b": "a b",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// BenchmarkRecognize decodes a recording as fast as it can.
func BenchmarkRecognize(b *testing.B) {
	needEngine(b)
	u := recording(b, "en-flite-hours")
	lib, err := open()
	if err != nil {
		b.Fatal(err)
	}
	args, err := Defaults().arguments()
	if err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	clock := clocks.NewReal()
	for b.Loop() {
		d, err := lib.load(args, "")
		if err != nil {
			b.Fatal(err)
		}
		d.start()
		began := clock.Now()
		for i := 0; i < len(u.Sound.PCM); i += 320 {
			d.push(u.Sound.PCM[i:min(i+320, len(u.Sound.PCM))])
		}
		d.end()
		took += clock.Now() - began
		d.free()
	}
	b.ReportMetric(took.Seconds()/float64(b.N)/u.Sound.Duration().Seconds(), "rtf")
}
