package asrmock_test

import (
	"path/filepath"
	"testing"

	"firstsound/asr/asrmock/mocktest"
)

// LiveKit's plugin for Deepgram, both interfaces, without a room. Its packages take
// 272 MB, so that make setup leaves them out.
func TestLiveKit(t *testing.T) {
	u := mocktest.Utterance()
	o := mocktest.Options(u)
	o.Keys = []string{"test-key"}
	addr, truth := listen(t, o, nil)
	type heard struct {
		Text              string
		Partials, Started bool
	}
	var got struct{ Deepgram, Flux heard }
	node(t, filepath.Join("testdata", "livekit"), "livekit.mjs", "@livekit/agents-plugin-deepgram", nil, &got, "stt", "http://"+addr, raw(t, u.Sound))
	if want := (heard{u.Text, true, true}); got.Deepgram != want || got.Flux != want {
		t.Errorf("%+v", got)
	}
	spoke := map[string]bool{}
	for _, x := range truth() {
		spoke[x.Protocol] = true
	}
	if !spoke["deepgram"] || !spoke["deepgram-flux"] {
		t.Errorf("the mock spoke %v", spoke)
	}
}
