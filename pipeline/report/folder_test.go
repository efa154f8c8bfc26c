package report

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"firstsound/clocks/trace"
)

// writeRun writes a made-up run to dir and returns its report.
func writeRun(t *testing.T, dir string, info RunInfo) *Report {
	t.Helper()
	f, err := Create(dir, info, false)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSummary(Options{Percent: 25})
	a, err := NewAssembler(Limit{}, 25, func(turn *Turn) { f.Turn(turn); s.Add(turn) })
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := 1; i <= 60; i++ {
		for _, e := range sampleTurn(r, trace.ID{Session: i, Turn: 1}) {
			f.Event(&e)
			a.Add(&e)
		}
	}
	late := a.Close()
	if err := f.Close(StateComplete, "", Limit{time.Hour, true}); err != nil {
		t.Fatal(err)
	}
	return s.Report(f.Info(), late)
}

func TestFolderShowsTheSame(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "run")
	want := writeRun(t, dir, RunInfo{Seed: 7, Name: "x", Fixed: map[string]string{"a": "<b>"}})
	got, err := Read(dir, Options{Percent: 25})
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	want.WriteJSON(&a)
	got.WriteJSON(&b)
	if a.String() != b.String() {
		t.Errorf("the report from the files differs from that of the run")
	}
	turns, err := os.ReadFile(filepath.Join(dir, TurnsFile))
	if err != nil || bytes.Count(turns, []byte("\n")) != 60 {
		t.Errorf("turns.jsonl has %d lines (%v), want 60", bytes.Count(turns, []byte("\n")), err)
	}
	if _, err := Create(dir, RunInfo{}, false); !errors.Is(err, ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	f, err := Create(dir, RunInfo{}, true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir, Options{Percent: 25})
	if err != nil || r.Run.State != StatePartial {
		t.Errorf("a run that goes on: %v, %v", r, err)
	}
	f.Close(StatePartial, "interrupted", Limit{})
}

func TestReadBadFiles(t *testing.T) {
	const line = `{"t_ns":0,"session":1,"turn":1,"mark":"speech_end"}` + "\n"
	tests := []struct{ name, events, run, wantErr, wantWarning string }{
		{"cut", line + line[:20], "", "", "events.jsonl:2: the last line is cut off"},
		{"bad line", line + "{}\n" + line, "", "events.jsonl:2:3: an event needs", ""},
		{"no run.json", line, "", "", "no run.json"},
		{"format", line, `{"format":"x/9"}`, `"x/9"`, ""},
		{"count", line, `{"format":"firstsound.run/1","state":"complete","events":2}`, "", "holds 1 events"},
		{"not JSON", line, `{`, "run.json", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			os.WriteFile(filepath.Join(dir, EventsFile), []byte(test.events), 0o644)
			if test.run != "" {
				os.WriteFile(filepath.Join(dir, RunFile), []byte(test.run), 0o644)
			}
			r, err := Read(dir, Options{})
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("got %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, test.wantWarning) {
				t.Errorf("got %q, want %q", all, test.wantWarning)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
	if _, err := Read(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "not a run folder") {
		t.Errorf("got %v, want that it is no run folder", err)
	}
}

func TestCreateInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	os.WriteFile(path, nil, 0o644)
	if _, err := Create(path, RunInfo{}, false); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// A fullDisk takes so many bytes and no more.
type fullDisk struct {
	bytes.Buffer
	left int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.left)
	d.left -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *fullDisk) Truncate(n int64) error { d.Buffer.Truncate(int(n)); return nil }
func (d *fullDisk) Close() error           { return nil }

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(dir, RunInfo{}, false)
	if err != nil {
		t.Fatal(err)
	}
	disk := &fullDisk{left: 100_000}
	f.events.file = disk
	r := rand.New(rand.NewPCG(3, 4))
	for i := 1; i <= 100; i++ {
		for _, e := range sampleTurn(r, trace.ID{Session: i, Turn: 1}) {
			f.Event(&e)
		}
	}
	if err := f.Err(); !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "no space") != 1 {
		t.Errorf("got %v, want one error that the disk is full", err)
	}
	kept := disk.Bytes()
	if len(kept) < 90_000 || kept[len(kept)-1] != '\n' {
		t.Errorf("%d bytes were kept, ending in %q", len(kept), kept[len(kept)-1:])
	}
	if err := f.Close(StateComplete, "", Limit{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if i := f.Info(); i.State != StatePartial || !strings.Contains(i.Reason, "no space") {
		t.Errorf("the run is %s: %s", i.State, i.Reason)
	}
}
