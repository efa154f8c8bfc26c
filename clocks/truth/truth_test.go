package truth

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter[map[string]int](&out, "x-1", time.Unix(0, 42))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(map[string]int{"a": 1})
	if want := "{\"format\":\"x-1\",\"epoch_unix_ns\":42}\n{\"a\":1}\n"; out.String() != want || w.Err() != nil {
		t.Errorf("%q, %v", out.String(), w.Err())
	}
	if _, err := NewWriter[int](&failing{0}, "x", time.Time{}); err == nil {
		t.Error("the first line was not written, and nobody says so")
	}
	f, _ := NewWriter[int](&failing{1}, "x", time.Time{})
	f.Write(1)
	f.Write(2)
	if err := f.Err(); err == nil || err.Error() != "truth file: disk full" {
		t.Error(err)
	}
}
