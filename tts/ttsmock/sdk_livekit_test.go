package ttsmock_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"firstsound/tts/ttsmock"
)

// livekit is where the plugins of LiveKit Agents are. They take 272 MB, so that make
// setup leaves them out.
const livekit = "../../asr/asrmock/testdata/livekit"

// LiveKit's plugins, without a room: each sample that the mock sent is in their
// frames, and the first byte by LiveKit's own metrics is not before the mock's.
func TestLiveKit(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err, "; install the Debian package nodejs")
	}
	for _, name := range []string{"deepgram", "cartesia", "elevenlabs"} {
		if npm := "@livekit/agents-plugin-" + name; missing(npm) {
			t.Skipf("the npm package %s is missing: npm ci --prefix asr/asrmock/testdata/livekit", npm)
		}
	}
	told := make(chan ttsmock.Truth, 10)
	url, _ := serve(t, false, func(x ttsmock.Truth) { told <- x })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := exec.CommandContext(ctx, node, "livekit.mjs", "tts", url)
	p.Dir, p.Env = livekit, append(os.Environ(), "KEY=sk-sdk")
	out, err := p.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got map[string]struct {
		Samples, Rate, Loud int
		TTFB                float64
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for protocol, plugin := range map[string]string{"deepgram": "deepgram", "cartesia": "cartesia", "elevenlabs-multi": "elevenlabs"} {
		x := <-told
		for ; x.Protocol != protocol; x = <-told {
			told <- x
		}
		samples := 0
		for _, piece := range x.Pieces {
			for _, n := range piece.Sizes {
				samples += n / 2
			}
		}
		first := x.Pieces[0].Chunks[0] - x.Pieces[0].Arrived
		g := got[plugin]
		if samples == 0 || g.Samples != samples || g.Rate != x.Pieces[0].Rate || g.Loud < 3000 {
			t.Errorf("%s: LiveKit has %+v; the mock sent %d samples at %d", plugin, g, samples, x.Pieces[0].Rate)
		}
		// LiveKit rounds to a millisecond.
		if ttfb := time.Duration(g.TTFB * float64(time.Millisecond)); ttfb < first-time.Millisecond {
			t.Errorf("%s: LiveKit has the first byte after %v, which the mock sent after %v", plugin, ttfb, first)
		} else {
			t.Logf("%s: first byte after %v by LiveKit, %v by the mock", plugin, ttfb, first)
		}
	}
}

func missing(npm string) bool {
	_, err := os.Stat(filepath.Join(livekit, "node_modules", npm))
	return err != nil
}
