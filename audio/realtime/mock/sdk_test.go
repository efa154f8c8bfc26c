package mock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"firstsound/audio/realtime/realtimetest"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm/llmmock"
)

// modules is where the npm packages are.
const modules = "../../../asr/asrmock/testdata/sdk"

// The official client, which takes TLS only.
func TestOpenAI(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing (Debian package nodejs)")
	}
	for _, name := range []string{"openai", "ws"} {
		if _, err := os.Stat(filepath.Join(modules, "node_modules", name)); err != nil {
			t.Skipf("the npm package %s is missing: npm ci --prefix asr/asrmock/testdata/sdk", name)
		}
	}
	config, ca, err := llmmock.MakeTLS()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var pcm bytes.Buffer
	for _, x := range realtimetest.Said(100*ms, 600*ms).Sound.PCM {
		pcm.Write([]byte{byte(x), byte(x >> 8)})
	}
	for name, data := range map[string][]byte{"ca.pem": ca, "pcm": pcm.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	o := realtimetest.Exact()
	o.Keys = []string{"test-key"}
	o.Gap = random.Const(60 * ms) // time to cut the answer off
	o.Length = random.Const(time.Second)
	addr, truths := onSocket(t, clocks.NewReal(), o, config)

	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c := exec.CommandContext(limit, node, filepath.Join("testdata", "agent.mjs"), modulesPath(t), "https://"+addr+"/v1", filepath.Join(dir, "pcm"))
	c.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+filepath.Join(dir, "ca.pem"))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	text, err := c.Output()
	all := truths()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	var got struct {
		Status, Transcript, Cut string
		Samples, Truncated      int
		Events                  []string
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got.Status != "completed" || got.Transcript != o.Text || got.Samples != 26400 || got.Cut != "cancelled" || got.Truncated != 50 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "response.created", "response.output_audio.delta", "response.done", "conversation.item.truncated"} {
		if !slices.Contains(got.Events, want) {
			t.Errorf("the client saw no %s: %v", want, got.Events)
		}
	}
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	if truth := all[0]; len(truth.Responses) != 2 || truth.Responses[1].Heard == nil || *truth.Responses[1].Heard != 50 {
		t.Errorf("the truth is %+v", truth)
	}
}

func modulesPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(modules)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// trusting is a client's configuration that trusts a CA.
func trusting(t *testing.T, ca []byte) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("the CA is none")
	}
	return &tls.Config{RootCAs: pool}
}
