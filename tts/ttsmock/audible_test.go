package ttsmock_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/random"
	"firstsound/llm/llmmock"
	"firstsound/tts"
	"firstsound/tts/cosyvoice"
	"firstsound/tts/elevenlabs"
	"firstsound/tts/live"
	"firstsound/tts/openai"
	"firstsound/tts/ttsmock"
)

// Whatever sound is sent as, its first audible sample is found within 2 ms of where
// the same rule finds it in the sound that went in: of a tone that begins at its
// height, and of a man's voice, which swells.
func TestAudibleRows(t *testing.T) {
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var human audio.Frame
	for _, u := range all {
		if u.ID == "en-librivox-0870" {
			human = u.Sound
		}
	}
	if len(human.PCM) == 0 {
		t.Fatal("the corpus has no en-librivox-0870")
	}
	worst := map[string]time.Duration{}
	for _, p := range providers {
		if strings.HasSuffix(p.name, "/opus") && clockstest.Race {
			continue
		}
		for name, lead := range map[string]time.Duration{"tone": 0, "tone later": 80 * time.Millisecond, "voice": 137 * time.Millisecond} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				o := exact()
				o.LeadSilence = random.Const(lead)
				const text = "We are open from ten until six."
				sound := audio.Frame{Rate: p.rate, PCM: make([]int16, audio.Samples(lead, p.rate))}
				if name == "voice" {
					o.Voice = func(string) ([]int16, int) { return human.PCM, human.Rate }
					sound.PCM = append(sound.PCM, audio.Resample(human, p.rate).PCM...)
				} else {
					sound.PCM = append(sound.PCM, ttsmock.Tone(p.rate)...)
				}
				was, found, err := audio.FirstAudible(sound)
				if err != nil || !found {
					t.Fatal(found, err)
				}
				in(t, p, o, func(c clocks.Clock, w *world) {
					s := say(c, w, "x", text)
					is, found, err := audio.FirstAudible(s.sound)
					off := audio.Span(is, p.rate) - audio.Span(was, p.rate)
					if s.err != nil || err != nil || !found || off.Abs() > 2*time.Millisecond {
						t.Errorf("audible %v at %v, and was at %v; %v, %v", found, audio.Span(is, p.rate), audio.Span(was, p.rate), s.err, err)
					}
					worst[p.name] = max(worst[p.name], off.Abs())
				})
			})
		}
	}
	for _, p := range providers {
		t.Logf("%-24s off by %v at the most", p.name, worst[p.name])
	}
}

// MP3, which the mock does not make, comes from a file in parts: what is audible is
// found in it, and has the time of the part that it came with.
func TestAudibleMP3(t *testing.T) {
	file, err := os.ReadFile("../live/testdata/tone-44k-info.mp3")
	if err != nil {
		t.Fatal(err)
	}
	const part = 100 * time.Millisecond
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/mpeg")
		for rest := file; len(rest) > 0; {
			n := min(500, len(rest))
			w.Write(rest[:n])
			http.NewResponseController(w).Flush()
			rest = rest[n:]
			time.Sleep(part)
		}
	})
	for name, make := range map[string]func(clocks.Clock, live.Options) (tts.Synthesizer, error){
		"openai":     openAI(func(o *openai.Options) { o.ResponseFormat = "mp3" }),
		"elevenlabs": elevenLabs(func(o *elevenlabs.Options) { o.API, o.OutputFormat = elevenlabs.Stream, "mp3_44100_64" }),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := clocks.NewReal()
			n := llmmock.Pipe(c, llmmock.Link{})
			server := &http.Server{Handler: h}
			go server.Serve(n)
			s, err := make(c, live.Options{Dial: n.Dial})
			if err != nil {
				t.Fatal(err)
			}
			v := say(c, s, "x", sentence)
			is, found, err := audio.FirstAudible(v.sound)
			// 76 ms by the rule, as of the tone in TestAudible, and 1105 samples.
			const want = 76*time.Millisecond + 1105*time.Second/44100
			if off := audio.Span(is, 44100) - want; v.err != nil || err != nil || !found || off.Abs() > 2*time.Millisecond {
				t.Errorf("%s: audible %v, off by %v; %v, %v", name, found, off, v.err, err)
			}
			s.(interface{ Close() }).Close()
			server.Close()
			n.Wait()
		})
	}
}

// Formats that a service offers and this program does not read are refused by name
// before anything is sent.
func TestRefusedFormats(t *testing.T) {
	c := clocks.NewReal()
	_, err1 := openAI(func(o *openai.Options) { o.ResponseFormat = "flac" })(c, live.Options{})
	_, err2 := elevenLabs(func(o *elevenlabs.Options) { o.OutputFormat = "aac_44100" })(c, live.Options{})
	_, err3 := cosy(func(o *cosyvoice.Options) { o.Format = "amr" })(c, live.Options{})
	for _, err := range []error{err1, err2, err3} {
		if err == nil || !strings.Contains(err.Error(), "opus") {
			t.Errorf("%v", err)
		}
	}
}

// Opus of the mock is what other players take.
func TestOpusForOthers(t *testing.T) {
	program, err := exec.LookPath("opusdec")
	if err != nil {
		t.Skip(err, "; install the Debian package opus-tools")
	}
	p := providers[slices.IndexFunc(providers, func(p provider) bool { return p.name == "openai/opus" })]
	o := exact()
	var data []byte
	synctest.Test(t, func(t *testing.T) {
		c := clocks.NewReal()
		w := newWorld(t, c, p, o)
		client := &http.Client{Transport: &http.Transport{DialContext: w.network.Dial}}
		r, err := client.Post("http://192.0.2.1/v1/audio/speech", "application/json", strings.NewReader(`{"input":"We are open.","response_format":"opus"}`))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1<<20)
		for n := 0; err == nil; {
			n, err = r.Body.Read(buf)
			data = append(data, buf[:n]...)
		}
		r.Body.Close()
		client.CloseIdleConnections()
		if _, err := w.close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	in, out := filepath.Join(dir, "x.opus"), filepath.Join(dir, "x.wav")
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, "--force-wav", in, out).CombinedOutput()
	if err != nil || strings.Contains(strings.ToLower(string(text)), "warn") {
		t.Fatalf("%v: %s", err, text)
	}
	d, err := live.NewDecoder(live.WAV, 0)
	if err != nil {
		t.Fatal(err)
	}
	wave, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err1 := d.Push(wave)
	d, err2 := live.NewDecoder(live.Opus, 0)
	ours, err3 := d.Push(data)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	at, _, _ := audio.FirstAudible(theirs)
	mine, _, _ := audio.FirstAudible(ours)
	if len(theirs.PCM) != len(ours.PCM) || at != mine || theirs.Rate != 48000 {
		t.Errorf("opusdec has %v, audible at %d; we have %v, audible at %d", theirs.Duration(), at, ours.Duration(), mine)
	}
}
