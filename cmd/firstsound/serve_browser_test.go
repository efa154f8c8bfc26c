package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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

// serveChild runs firstsound serve as a process of its own, and returns its URL and
// what ends it as Ctrl-C does.
func serveChild(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return url, func() {
		cmd.Process.Signal(os.Interrupt)
		go lines.WriteTo(io.Discard)
		cmd.Wait()
	}
}

// A browser loads the page, calls, plays a recording, hears the answer, shows where
// the silence went, and its getStats are joined by the request ID.
func TestServePageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a browser and some seconds")
	}
	path := browser(t)
	dir := filepath.Join(t.TempDir(), "run")
	url, stop := serveChild(t, "--out", dir)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1000, 1100),
		chromedp.Flag("use-fake-device-for-media-stream", true), chromedp.Flag("use-fake-ui-for-media-stream", true),
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"), chromedp.Flag("allow-loopback-in-peer-connection", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, opts...)
	defer cancelAllocator()
	ctx, cancelTab := chromedp.NewContext(ctx)
	defer cancelTab()
	do := func(a chromedp.Action[chromedp.Void]) {
		t.Helper()
		if _, err := chromedp.Run(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(expression string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(40*time.Second))); err != nil {
			said, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
			t.Fatalf("%s: %v\nthe page says:\n%s", expression, err, said)
		}
	}
	do(chromedp.Navigate(url))
	wait(`document.querySelectorAll('#recording option').length > 10`)
	do(chromedp.Click("#call"))
	wait(`window.firstsound.state() === 'connected'`)
	do(chromedp.SetValue("#recording", "en-flite-yes"))
	for turn := range 2 {
		do(chromedp.Click("#play"))
		wait(fmt.Sprintf(`window.firstsound.results.length > %d`, turn))
	}
	type result struct {
		Request  string             `json:"request"`
		Outcome  string             `json:"outcome"`
		TTFS     float64            `json:"ttfs_ms"`
		Segments int                `json:"segments"`
		Stats    map[string]float64 `json:"stats"`
	}
	results, err := chromedp.Run(ctx, chromedp.Evaluate[[]result](`window.firstsound.results`))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
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
	lines := strings.Split(strings.TrimSpace(string(read(t, filepath.Join(dir, "clients.jsonl")))), "\n")
	turns := rows(t, dir)
	if len(lines) != 2 || len(turns) != 2 {
		t.Fatalf("%d lines, %d turns", len(lines), len(turns))
	}
	for i, line := range lines {
		var c struct {
			RequestID string             `json:"request_id"`
			Stats     map[string]float64 `json:"stats"`
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.RequestID != turns[i].Request || c.Stats["jitter_buffer_ms"] <= 0 {
			t.Errorf("%s: %v; the turn is %s", line, err, turns[i].Request)
		}
	}
}
