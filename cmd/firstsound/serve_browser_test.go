package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"firstsound/audio"
	"firstsound/audio/corpus"
)

// browser returns a browser to drive, or skips the test.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser here: apt-get install chromium-headless-shell")
	return ""
}

// newBrowser starts a browser, with a page to drive it by, or skips the test. It is
// ended with the test, and after two minutes.
func newBrowser(t *testing.T, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1000, 1100),
		chromedp.Flag("use-fake-device-for-media-stream", true), chromedp.Flag("use-fake-ui-for-media-stream", true),
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"), chromedp.Flag("allow-loopback-in-peer-connection", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, append(opts, flags...)...)
	t.Cleanup(cancelAllocator)
	ctx, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(cancelTab)
	return ctx
}

// A tab is driven by a test.
type tab struct {
	*testing.T
	ctx context.Context
}

func (p tab) do(a chromedp.Action[chromedp.Void]) {
	p.Helper()
	if _, err := chromedp.Run(p.ctx, a); err != nil {
		p.Fatal(err)
	}
}

// wait waits until an expression is true.
func (p tab) wait(expression string) {
	p.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(40*time.Second))); err != nil {
		said, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		p.Fatalf("%s: %v\nthe page says:\n%s", expression, err, said)
	}
}

// A pageResult is what the page says of a turn.
type pageResult struct {
	Request  string             `json:"request"`
	Outcome  string             `json:"outcome"`
	TTFS     float64            `json:"ttfs_ms"`
	Segments int                `json:"segments"`
	Stats    map[string]float64 `json:"stats"`
}

func (p tab) results() []pageResult {
	p.Helper()
	results, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]pageResult](`window.firstsound.results`))
	if err != nil {
		p.Fatal(err)
	}
	return results
}

// serveChild runs firstsound serve as a process of its own, and returns its URL and
// what ends it as Ctrl-C does.
func serveChild(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	cmd, url, rest := listening(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	return url, func() {
		cmd.Process.Signal(os.Interrupt)
		go io.Copy(io.Discard, rest)
		cmd.Wait()
	}
}

// A browser loads the page, calls, plays a recording, hears the answer, shows where
// the silence went, and its getStats are joined by the request ID.
func TestServePageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a browser and some seconds")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	url, stop := serveChild(t, "--out", dir)
	ctx := newBrowser(t)
	p := tab{t, ctx}
	p.do(chromedp.Navigate(url))
	p.wait(`document.querySelectorAll('#recording option').length > 10`)
	p.do(chromedp.Click("#call"))
	p.wait(`window.firstsound.state() === 'connected'`)
	p.do(chromedp.SetValue("#recording", "en-flite-yes"))
	for turn := range 2 {
		p.do(chromedp.Click("#play"))
		p.wait(fmt.Sprintf(`window.firstsound.results.length > %d`, turn))
	}
	for _, r := range p.results() {
		t.Logf("%+v", r)
		if r.Outcome != "ok" || r.Segments < 5 || r.Stats["energy"] <= 0 || r.Stats["jitter_buffer_ms"] <= 0 || r.Stats["playout_device_ms"] <= 0 {
			t.Errorf("%+v", r)
		}
		// The page's own clock has to agree with the agent's: what comes on top is
		// the microphone, the network, the buffer and the sound card.
		if ear := r.Stats["ear_ms"]; ear < r.TTFS || ear > r.TTFS+500 {
			t.Errorf("heard after %.1f ms, and the agent says %.1f ms", ear, r.TTFS)
		}
	}
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll('.turn .row').length`))
	if err != nil || shown < 10 {
		t.Errorf("%d rows of waterfalls, %v", shown, err)
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil || len(picture) < 10_000 {
		t.Errorf("a screenshot of %d bytes, %v", len(picture), err)
	}
	keep := os.Getenv("FIRSTSOUND_ARTIFACTS")
	if keep == "" {
		keep = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(keep, "serve-page.png"), picture, 0o644); err != nil {
		t.Error(err)
	}
	stop()
	pageJoined(t, dir, 2)
}

// pageJoined holds what client-report makes of the page's words against what a browser on
// the same computer is known to do.
func pageJoined(t *testing.T, dir string, turns int) {
	t.Helper()
	var r clientReport
	text := must(t, "client-report", "--json", dir)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", must(t, "client-report", dir))
	if r.Told != turns || len(r.Turns) != turns || len(r.Warnings) > 0 {
		t.Fatalf("%d of %d turns are told of; want %d; %v", r.Told, len(r.Turns), turns, r.Warnings)
	}
	for i, row := range rows(t, dir) {
		c := r.Turns[i]
		if c.RequestID != row.Request || c.Rest == nil || c.Clean == nil || *c.Buffer <= 0 || *c.Device <= 0 || *c.Whole.Energy <= 0 {
			t.Errorf("turn %d, of which the agent says %s: %+v", i+1, row.Request, c)
			continue
		}
		// What nobody accounts for is blocks of 10 ms in the browser, unless the
		// computer is busy. That it is not negative by more than one says that the
		// clocks are joined right.
		if *c.Rest < -20*time.Millisecond || *c.Rest > 300*time.Millisecond {
			t.Errorf("turn %d: %v are not accounted for", i+1, *c.Rest)
		}
	}
}

// A recording in the place of the browser's microphone is a turn that nobody has
// announced: its end is found by its energy, and all else is as with the others.
func TestServePageMicrophone(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a browser and some seconds")
	}
	t.Parallel()
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	sound := all[slices.IndexFunc(all, func(u *audio.Utterance) bool { return u.ID == "en-flite-yes" })].Sound
	// The file begins to play when the page opens the microphone, which nobody can
	// time: there is silence before it.
	quiet := make([]int16, 3*sound.Rate/2)
	wav := filepath.Join(t.TempDir(), "microphone.wav")
	var file bytes.Buffer
	if err := writeWAV(&file, audio.Frame{Rate: sound.Rate, PCM: slices.Concat(quiet, sound.PCM, quiet)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wav, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	p := tab{t, newBrowser(t, chromedp.Flag("use-file-for-fake-audio-capture", wav+"%noloop"))}
	dir := filepath.Join(t.TempDir(), "run")
	url, stop := serveChild(t, "--out", dir)
	p.do(chromedp.Navigate(url))
	p.wait(`document.querySelectorAll('#recording option').length > 10`)
	p.do(chromedp.Click("#call"))
	p.wait(`window.firstsound.state() === 'connected'`)
	p.do(chromedp.Click("#microphone"))
	p.wait(`window.firstsound.results.length > 0`)
	r := p.results()[0]
	t.Logf("%+v", r)
	if r.Outcome != "ok" || r.Stats["energy"] <= 0 || r.Segments < 5 {
		t.Errorf("%+v", r)
	}
	stop()
	pageJoined(t, dir, 1)
}
