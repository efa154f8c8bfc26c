package serverside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that can never be joined is told from one that does not speak of requests
// yet.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name, text string
		o          Options
		want       string // in the error; "": none
	}{
		{"empty", "", Options{}, ""},
		{"starting", "INFO loading the model\nINFO ready\n", Options{Format: Auto}, ""},
		{"head of a truth", `{"format":"x","epoch_unix_ns":5}` + "\n", Options{}, ""},
		{"gzip", "\x1f\x8b\x08abc", Options{Format: VLLM}, "gunzip"},
		{"gzip, any format", "\x1f\x8b\x08abc", Options{}, "gunzip"},
		{"unknown JSON", `{"a":1}` + "\n", Options{}, "field map"},
		{"unknown JSON with a map", `{"a":1}` + "\n", Options{Map: FieldMap{{}}}, ""},
		{"no JSON", `{"arrived_ns":1,"chunks_ns":` + "\n", Options{}, "are no JSON"},
	} {
		name := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(name, []byte(test.text), 0o666); err != nil {
			t.Fatal(err)
		}
		err := Check(name, test.o)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
