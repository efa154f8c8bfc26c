package asrmock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/audio/wavfile"
	"firstsound/clocks"
	"firstsound/llm/llmmock"
)

// listen runs a mock on a socket, over TLS if config is not nil, and returns its
// address, and what ends it and tells the truth.
func listen(t *testing.T, o asrmock.Options, config *tls.Config) (addr string, truth func() []asrmock.Truth) {
	t.Helper()
	return listenOn(t, clocks.NewReal(), o, config)
}

func listenOn(t *testing.T, clock clocks.Clock, o asrmock.Options, config *tls.Config) (addr string, truth func() []asrmock.Truth) {
	t.Helper()
	var mu sync.Mutex
	var all []asrmock.Truth
	o.Truth = func(x asrmock.Truth) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, x)
	}
	mock, err := asrmock.New(clock, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- mock.Serve(ctx, l, config) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), func() []asrmock.Truth {
		stop()
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// client runs a script of testdata/sdk and returns what it printed.
func client(t *testing.T, script, npm string, env []string, args ...string) (got map[string]any) {
	t.Helper()
	node(t, filepath.Join("testdata", "sdk"), script, npm, env, &got, args...)
	return got
}

// node runs a script of a folder, which needs an npm package there, and reads what
// it printed into got.
func node(t *testing.T, dir, script, npm string, env []string, got any, args ...string) {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing (Debian package nodejs)")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", npm)); err != nil {
		t.Skipf("the npm package %s is missing: npm ci --prefix asr/asrmock/%s", npm, filepath.ToSlash(dir))
	}
	c := exec.CommandContext(t.Context(), program, append([]string{filepath.Join(dir, script)}, args...)...)
	c.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
}

func compare(t *testing.T, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %v, want %v", key, got[key], value)
		}
	}
	if t.Failed() {
		t.Logf("%v", got)
	}
}

func raw(t *testing.T, f audio.Frame) string {
	name := filepath.Join(t.TempDir(), "sound.raw")
	if err := os.WriteFile(name, live.PCM(f), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestDeepgramSDK(t *testing.T) {
	u := mocktest.Utterance()
	o := mocktest.Options(u)
	o.Keys = []string{"test-key"}
	addr, truth := listen(t, o, nil)
	got := client(t, "deepgram.mjs", "@deepgram/sdk", nil, "ws://"+addr, raw(t, u.Sound))
	compare(t, got, map[string]any{
		"v1": u.Text, "v1Interim": true, "v1Finalized": true, "v1Started": true, "v1Last": "Metadata",
		"v2": u.Text, "v2First": "Connected", "v2Event": "StartOfTurn", "error": nil,
	})
	for _, x := range truth() {
		if x.Ended != "complete" || len(x.Utterances) != 1 || x.Audio != u.Sound.Duration() {
			t.Errorf("the mock told %+v", x)
		}
	}
}

func TestOpenAISDK(t *testing.T) {
	u := mocktest.Utterance()
	o := mocktest.Options(u)
	o.Keys = []string{"test-key"}
	config, ca, err := llmmock.MakeTLS()
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := listen(t, o, config)
	dir := t.TempDir()
	pem, wav := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "sound.wav")
	if err := os.WriteFile(pem, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := wavfile.Write(wav, u.Sound); err != nil {
		t.Fatal(err)
	}
	got := client(t, "openai.mjs", "openai", []string{"NODE_EXTRA_CA_CERTS=" + pem}, "https://"+addr+"/v1", wav, raw(t, audio.Resample(u.Sound, 24000)))
	compare(t, got, map[string]any{
		"whole": u.Text, "verbose": u.Text, "deltas": u.Text, "done": u.Text, "status": 400.0,
		"committed": u.Text, "committedDeltas": u.Text, "vad": u.Text, "vadDeltas": u.Text,
	})
}
