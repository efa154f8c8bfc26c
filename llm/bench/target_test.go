package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/exchange"
	"firstsound/llm/record"
)

func TestTarget(t *testing.T) {
	for _, test := range []struct{ in, public string }{
		{"http://user:secret@127.0.0.1:8000/v1?key=secret#x", "http://127.0.0.1:8000/v1"},
		{"127.0.0.1:8000", "http://127.0.0.1:8000"},
		{"https://[::1]:8443/openai%2Fx", "https://[::1]:8443/openai%2Fx"},
	} {
		u, err := ParseURL(test.in)
		if err != nil || PublicURL(u) != test.public {
			t.Errorf("%s: %v, %v", test.in, u, err)
			continue
		}
		if addresses, own, err := Resolve(t.Context(), u); err != nil || !own || len(addresses) != 1 {
			t.Errorf("%s: %v, %v, %v", test.in, addresses, own, err)
		}
	}
	for _, bad := range []string{"", "ftp://x", "http://", "http://user:secret@[::1", "http://user:secret@h:secret/"} {
		if _, err := ParseURL(bad); err == nil || strings.Contains(err.Error(), "user") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	far, _ := ParseURL("https://192.0.2.7/v1") // of a net for documents: nobody's
	if addresses, own, err := Resolve(t.Context(), far); own || err != nil || !slices.Equal(addresses, []string{"192.0.2.7"}) {
		t.Errorf("%v, %v, %v", addresses, own, err)
	}
}

func TestReads(t *testing.T) {
	dir := t.TempDir()
	r, err := CreateReads(dir, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := Read{RequestID: "a-1", Arrived: 5, Earliest: 4, Read: 7, N: 3, Kernel: true, Data: []byte("data: \xe4")}
	r.Keep("a-1", exchange.Read{Data: want.Data, Arrived: 5, Earliest: 4, Read: 7, N: 3, Kernel: true})
	r.Keep("a-1", exchange.Read{Data: make([]byte, 4), Arrived: time.Second})
	if dropped, err := r.Close(); dropped != 4 || err != nil {
		t.Errorf("%d dropped, %v", dropped, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, record.ReadsFile))
	var got Read
	if err != nil || json.Unmarshal(data, &got) != nil || string(got.Data) != string(want.Data) || got.RequestID != want.RequestID || got.N != 3 || !got.Kernel {
		t.Errorf("%s, %v", data, err)
	}
}
