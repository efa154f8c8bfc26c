package asrmock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firstsound/asr/asrmock/mocktest"
	"firstsound/llm/llmmock"
)

// The official client of AssemblyAI, which takes TLS only and waits for Begin and
// Termination.
func TestAssemblyAISDK(t *testing.T) {
	u := mocktest.Utterance()
	o := mocktest.Options(u)
	o.Keys = []string{"test-key"}
	config, ca, err := llmmock.MakeTLS()
	if err != nil {
		t.Fatal(err)
	}
	addr, truth := listen(t, o, config)
	pem := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(pem, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	got := client(t, "assemblyai.mjs", "assemblyai", []string{"NODE_EXTRA_CA_CERTS=" + pem}, "wss://"+addr+"/v3/ws", raw(t, u.Sound))
	compare(t, got, map[string]any{
		"started": true, "text": u.Text, "words": u.Text, "order": 0.0, "partials": true, "errors": "",
		"formatted": u.Text + "|Please tell me when you are open today.", "shortCode": 3007.0, "shortError": true,
	})
	if text, _ := got["refused"].(string); !strings.Contains(text, "401") {
		t.Errorf("a wrong key: %q", text)
	}
	all := truth()
	if len(all) != 4 {
		t.Fatalf("%d connections", len(all))
	}
	for i, ended := range []string{"complete", "complete", "failed", "refused"} {
		if x := all[i]; x.Ended != ended || x.Protocol != "assemblyai" || i == 0 && x.RequestID != got["id"] {
			t.Errorf("connection %d: %+v", i, x)
		}
	}
}
