package ttsmock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/llm/llmmock"
	"firstsound/tts/ttsmock"
)

const sdk = "testdata/sdk"

// Official clients hear what the mock sent, as soon as it sent it.
func TestOfficialClients(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err, "; install the Debian package nodejs")
	}
	for _, test := range []struct {
		name, module string
		tls, refused bool
		words        int
	}{
		{name: "openai-pcm", module: "openai"},
		{name: "openai-sse", module: "openai"},
		{name: "openai-refused", module: "openai", refused: true},
		{name: "elevenlabs", module: "@elevenlabs/elevenlabs-js"},
		{name: "cartesia-bytes", module: "@cartesia/cartesia-js"},
		{name: "cartesia-websocket", module: "@cartesia/cartesia-js", tls: true, words: 8},
		{name: "deepgram-http", module: "@deepgram/sdk"},
		{name: "deepgram-websocket", module: "@deepgram/sdk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(sdk, "node_modules", test.module)); err != nil {
				t.Skipf("run npm ci in %s: the npm package %s is not there", sdk, test.module)
			}
			told := make(chan ttsmock.Truth, 10)
			url, env := serve(t, test.tls, func(x ttsmock.Truth) { told <- x })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			p := exec.CommandContext(ctx, node, "clients.mjs", test.name, url)
			p.Dir, p.Env = sdk, append(os.Environ(), env...)
			var words bytes.Buffer
			p.Stderr = &words
			out, err := p.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, words.Bytes())
			}
			var got struct {
				Bytes, Chunks, Words int
				First                float64 `json:"first_ms"`
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			truth := <-told
			if test.refused {
				if truth.Status != 401 {
					t.Errorf("the status is %d", truth.Status)
				}
				return
			}
			sent := 0
			for _, piece := range truth.Pieces {
				for _, n := range piece.Sizes {
					sent += n
				}
			}
			if truth.Ended != "complete" || sent == 0 || got.Bytes != sent || got.Chunks < 2 || got.Words != test.words || got.First < 150 {
				t.Errorf("the client got %+v; the mock sent %d bytes and ended with %q", got, sent, truth.Ended)
			}
			t.Logf("first sound after %.0f ms of the program, %d chunks", got.First, got.Chunks)
		})
	}
}

// serve runs a mock on a socket, and returns its address and the environment in
// which Node trusts it.
func serve(t *testing.T, secure bool, truth func(ttsmock.Truth)) (url string, env []string) {
	o := exact()
	o.Keys, o.Truth = []string{"sk-sdk"}, truth
	mock, err := ttsmock.New(clocks.NewReal(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url = "http://" + l.Addr().String()
	var config *tls.Config
	if secure {
		var ca []byte
		if config, ca, err = llmmock.MakeTLS(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, ca, 0o600); err != nil {
			t.Fatal(err)
		}
		url, env = "https://"+l.Addr().String(), []string{"NODE_EXTRA_CA_CERTS=" + file}
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- mock.Serve(ctx, l, config) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return url, env
}
