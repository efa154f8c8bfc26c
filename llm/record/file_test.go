package record

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, Run{Format: Format, State: Running})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, Run{}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second run in the folder: %v", err)
	}
	want := Attempt{RequestID: "r-1", Number: 1, Phase: Level, Level: 5, Class: OK, Send: ptr(time.Duration(0)), TTFT: ptr(214 * time.Millisecond),
		Chunks: []Chunk{{At: 214, Lag: 3, Chars: 2}, {At: 250, Earliest: ptr(time.Duration(220)), Chars: 1, Tokens: 1}}, Server: &Server{Source: "x"}}
	if err := w.Add(&want); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(Run{Format: Format, State: Complete, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	if err := Free(dir); err == nil || !strings.Contains(err.Error(), "already") || Free(filepath.Join(dir, "new")) != nil || Free(filepath.Join(dir, RunFile)) == nil {
		t.Errorf("free: %v", err)
	}
	if r, err := ReadRun(dir); err != nil || r.State != Complete || r.Seed != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	// A line that was cut off is told and left out.
	f, _ := os.OpenFile(filepath.Join(dir, RequestsFile), os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString("\n  \n" + `{"request_id":"r-2","att`) // blank lines are none
	f.Close()
	cut, n := 0, 0
	for a, err := range ReadAttempts(dir, func(line int) { cut = line }) {
		if n++; err != nil || !reflect.DeepEqual(*a, want) {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if n != 1 || cut != 4 {
		t.Errorf("%d attempts, cut off at line %d", n, cut)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("{\"request_id\":\"a\",\"ttft_ns\":1}\n{\"chunks\":[{\"at_ns\":1}]}")
	f.Fuzz(func(t *testing.T, s string) {
		for _, err := range Decode(strings.NewReader(s), nil) {
			if err != nil && !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%v", err)
			}
		}
	})
}
