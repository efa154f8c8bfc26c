package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/pipeline/report"
)

// On the real clock, in a bubble whose time does not pass by itself, the default
// scenario comes out as it does on the virtual one, to the nanosecond.
func TestRealAsVirtualInBubble(t *testing.T) {
	must(t, "version") // so that what waits for signals does not belong to the bubble
	args := []string{"--turns", "3", "--warmup", "0"}
	want, _ := keep(t, args...)
	dir := filepath.Join(t.TempDir(), "real")
	var half []byte
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(9 * time.Second)
			half = read(t, filepath.Join(dir, report.EventsFile))
		}()
		must(t, append([]string{"run", "--clock", "real", "--out", dir}, args...)...)
	})
	virtual, real := byID(rows(t, want)), byID(rows(t, dir))
	if len(real) != 3 {
		t.Fatalf("%d turns", len(real))
	}
	for id, v := range virtual {
		r := real[id]
		if !slices.Equal(v.Marks, r.Marks) || !slices.Equal(v.Segments, r.Segments) || r.TTFS == nil || *v.TTFS != *r.TTFS {
			t.Errorf("turn %s: on the virtual clock\n%v\n%v, on the real one\n%v\n%v", id, v.Marks, v.Segments, r.Marks, r.Segments)
		}
	}
	// Turns are in the file as soon as they are over: a run that is killed loses
	// no more than those that go on.
	if n := bytes.Count(half, []byte(`"turn_closed"`)); n == 0 || n == 3 || !bytes.HasSuffix(half, []byte("}\n")) {
		t.Errorf("half way through there were %d turns in the file, %d bytes", n, len(half))
	}
}

// On the computer's own clock the same turns take the same path, and their
// silence differs by no more than its timers are late. The playout buffer is the
// ideal one: one that adapts, or waits for the next tick of a sound card, makes a
// large difference of a small one.
func TestRealAsVirtual(t *testing.T) {
	t.Parallel()
	args := append([]string{"--turns", "3", "--sessions", "3", "--warmup", "0", "--seed", "2"},
		sets("conversation.turns=1", "llm.replies=[Yes. Of course.]", "line.playout.mode=ideal")...)
	want, _ := keep(t, args...)
	dir, text := keep(t, append([]string{"--clock", "real"}, args...)...)

	shown := regexp.MustCompile(`(?m)^  timers: \d+ waits, late by P50 \d+\.\d ms, P99 \d+\.\d ms, max \d+\.\d ms$`)
	if !shown.MatchString(text) {
		t.Errorf("the report does not say how late the timers were:\n%s", text)
	}
	if again := must(t, "show", dir); again != text {
		t.Errorf("show prints\n%s, and run printed\n%s", again, text)
	}
	timers := parse(t, must(t, "show", dir, "--json")).Run.Timers
	if timers == nil || timers.N < 30 || timers.P50 <= 0 || timers.P50 > timers.P99 || timers.P99 > timers.Max {
		t.Fatalf("the timers were late by %+v", timers)
	}
	if strings.Contains(must(t, append([]string{"run"}, args...)...), "timers:") {
		t.Error("the report of a virtual run speaks of timers")
	}
	virtual, real := byID(rows(t, want)), byID(rows(t, dir))
	if len(real) != 3 || len(virtual) != 3 {
		t.Fatalf("%d and %d turns", len(virtual), len(real))
	}
	for id, v := range virtual {
		r := real[id]
		if v.TTFS == nil || r.TTFS == nil || v.Utterance != r.Utterance || v.Request == r.Request && v.Request == "" {
			t.Errorf("turn %s: %+v, %+v", id, v, r)
			continue
		}
		if timers.Max > int64(25*time.Millisecond) {
			t.Logf("the machine is too busy to compare paths: timers were late by up to %v", time.Duration(timers.Max))
			continue
		}
		// A stage that is shorter than a timer is late may vanish behind it.
		floor := 2 * timers.Max
		if a, b := stagesOf(v, floor), stagesOf(r, 0); !within(a, b) {
			t.Errorf("turn %s: the path is %v on the virtual clock, and %v on the real one", id, a, b)
		}
		if a, b := stagesOf(r, floor), stagesOf(v, 0); !within(a, b) {
			t.Errorf("turn %s: the path is %v on the real clock, and %v on the virtual one", id, a, b)
		}
		if late := *r.TTFS - *v.TTFS; late < 0 || late > timers.Max*int64(len(r.Segments)) {
			t.Errorf("turn %s: %v later than on the virtual clock, with %d waits and timers late by at most %v",
				id, time.Duration(late), len(r.Segments), time.Duration(timers.Max))
		}
	}
}

// stagesOf returns the stages of the silence in order that took longer than floor,
// without the program's own, which take no time on a virtual clock.
func stagesOf(r report.TurnRow, floor int64) []string {
	var stages []string
	for _, s := range r.Segments {
		if own := s.Stage == "harness" || s.Stage == "agent"; !own && s.End-s.Start > floor {
			stages = append(stages, s.Stage)
		}
	}
	return stages
}

// within says whether all of a is in b, in this order.
func within(a, b []string) bool {
	for _, s := range b {
		if len(a) > 0 && a[0] == s {
			a = a[1:]
		}
	}
	return len(a) == 0
}
