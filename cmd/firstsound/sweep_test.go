package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"firstsound/pipeline/report"
)

func TestParseVary(t *testing.T) {
	for text, want := range map[string][]string{
		"vad.stop=200ms,500ms":                      {"vad.stop", "200ms", "500ms"},
		"sessions=1,10":                             {"load.sessions", "1", "10"},
		"asr.final=lognormal(247ms, 0.1),300ms":     {"asr.final", "lognormal(247ms, 0.1)", "300ms"},
		"conversation.languages=[en],[zh],[en, zh]": {"conversation.languages", "[en]", "[zh]", "[en, zh]"},
	} {
		v, err := parseVary(text)
		if got := append([]string{v.key}, v.values...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "vad.stop", "vad.stop=", "=1", "a=1,,2"} {
		if _, err := parseVary(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestGrid(t *testing.T) {
	got := grid([]vary{{"a", []string{"1", "2"}}, {"b", []string{"x", "y"}}})
	want := [][]string{{"a=1", "b=x"}, {"a=1", "b=y"}, {"a=2", "b=x"}, {"a=2", "b=y"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// The order of the cells and their figures do not depend on how many run at the
// same time.
func TestSweepIsTheSameOnAnyNumberOfCores(t *testing.T) {
	var first string
	for _, jobs := range []string{"1", "2", "7"} {
		out, errs, code := try("sweep", "--set", "load.turns=60", "--vary", "vad.stop=200ms,500ms,800ms", "--vary", "turn.provider=semantic,none", "--format", "csv", "--jobs", jobs)
		if code != exitOK {
			t.Fatal(errs)
		}
		if n := strings.Count(out, "\n"); n != 7 {
			t.Errorf("%d lines:\n%s", n, out)
		}
		if first == "" {
			first = out
		} else if out != first {
			t.Errorf("with %s jobs\n%s\nnot\n%s", jobs, out, first)
		}
	}
}

// Where the last thing to be waited for is the VAD, TTFS grows with its hangover
// exactly: the draws are the same in all cells.
func TestSweepSharesItsLuck(t *testing.T) {
	ttfs := func(stop string) int64 {
		r, err := simulate(context.Background(), "", []string{"vad.stop=" + stop, "turn.provider=none", "conversation.barge_in=0",
			"line.uplink.jitter=0", "line.downlink.jitter=0", "line.playout.mode=ideal", "asr.final=1ms", "load.turns=60"})
		if err != nil {
			t.Fatal(err)
		}
		return *r.Headline.TTFS.P50.Value
	}
	a, b := ttfs("600ms"), ttfs("800ms")
	if d := b - a; d < 170e6 || d > 230e6 { // packets of 20 ms round it
		t.Errorf("200 ms more of hangover moved the median by %.1f ms", float64(d)/1e6)
	}
}

// Common random numbers: what a setting changes is told twice as sharply, at
// least, by two runs that share their seed than by two that do not.
func TestCommonRandomNumbers(t *testing.T) {
	mean := func(seed int, settings ...string) float64 {
		r, err := simulate(context.Background(), "", append(settings, "load.turns=60", fmt.Sprintf("seed=%d", seed)))
		if err != nil {
			t.Fatal(err)
		}
		return float64(*r.Headline.TTFS.Mean)
	}
	sd := func(values []float64) float64 {
		var sum, squares float64
		for _, v := range values {
			sum, squares = sum+v, squares+v*v
		}
		n := float64(len(values))
		return math.Sqrt((squares - sum*sum/n) / (n - 1))
	}
	for _, change := range []string{"llm.tpot=lognormal(12ms, 0.2)", "asr.provider=sim/elevenlabs", "llm.server={}"} {
		var shared, apart []float64
		for seed := 1; seed <= 12; seed++ {
			changed := mean(seed, change)
			shared = append(shared, changed-mean(seed))
			apart = append(apart, changed-mean(seed+1000))
		}
		if ratio := sd(apart) / sd(shared); ratio < 2 {
			t.Errorf("%s: the deviation of the difference is %.1f ms with common random numbers and %.1f ms without: ratio %.1f", change, sd(shared)/1e6, sd(apart)/1e6, ratio)
		} else {
			t.Logf("%s: ratio %.1f", change, ratio)
		}
	}
}

func TestKnee(t *testing.T) {
	v := vary{"load.sessions", []string{"1", "10", "50", "100", "200"}}
	make := func(ms ...int64) []cell {
		var cells []cell
		for i, x := range ms {
			r := &report.Report{}
			ns := x * 1e6
			r.Headline.TTFS.P95.Value = &ns
			cells = append(cells, cell{Values: []string{v.values[i]}, Report: r})
		}
		return cells
	}
	for _, test := range []struct {
		p95  []int64
		want string
	}{
		{[]int64{800, 810, 820, 900, 5000}, "100"},
		{[]int64{800, 805, 810, 820, 830}, ""}, // flat
		{[]int64{1, 10, 50, 100, 200}, ""},     // a straight line has no knee
		{[]int64{800, 810, 900, 3000, 9000}, "50"},
	} {
		got := ""
		if k := knees([]vary{v}, make(test.p95...)); len(k) == 1 {
			got = k[0].At
		}
		if got != test.want {
			t.Errorf("P95 %v: knee at %q, want %q", test.p95, got, test.want)
		}
	}
}

// A sweep over more calls than there are turns for says so, in every format.
func TestSweepSaysThatCallsAreMissing(t *testing.T) {
	args := []string{"sweep", "--set", "load.turns=40", "--set", "load.warmup=0", "--vary", "sessions=10,11,30", "--format"}
	const want = "load.sessions=%s: only 10 calls went on at the same time, since there are no more turns; for all of them, --set load.turns=%d --set load.warmup=%[2]d\n"
	for _, format := range []string{"text", "csv", "json"} {
		out, errs, code := try(append(args, format)...)
		if code != exitOK {
			t.Fatal(errs)
		}
		if format == "json" {
			if n := strings.Count(out, `"note": "only 10 calls`); n != 2 {
				t.Errorf("%d notes", n)
			}
			continue
		}
		if all := out + errs; !strings.Contains(all, fmt.Sprintf(want, "11", 44)+fmt.Sprintf(want, "30", 120)) || strings.Contains(all, "=10: only") {
			t.Errorf("%s:\n%s%s", format, out, errs)
		}
	}
}

// Turns that failed are in the table: without them an overload looks like a
// steady TTFT.
func TestSweepShowsFailures(t *testing.T) {
	out := must(t, "sweep", "--set", "load.turns=60", "--set", "conversation.barge_in=0", "--vary", "llm.attempts=1", "--format", "csv",
		"--set", "llm.server={failures: [{replica: 0, at: 0s}]}")
	rows := strings.Split(out, "\n")
	if want := "llm.attempts,ok_turns,failed_turns,ttfs_p50_ms,ttfs_p50_ms_low,ttfs_p50_ms_high,"; !strings.HasPrefix(rows[0], want) || !strings.HasPrefix(rows[1], "1,0,60,,,,") {
		t.Errorf("want %s\n%s", want, out)
	}
	if text := must(t, "sweep", "--set", "load.turns=5", "--vary", "seed=1"); strings.Contains(text, "[–, –]") || !strings.Contains(text, " failed ") {
		t.Error(text)
	}
}

// A mistake in the last value is said before anything has run, and is not laid to
// another one.
func TestSweepChecksFirst(t *testing.T) {
	out, errs, code := try("sweep", "--set", "load.turns=20", "--vary", "llm.server.gpu=l4,h100-sxm,xx")
	if code != exitUsage || out != "" || !strings.HasPrefix(errs, `firstsound: --vary llm.server.gpu=xx: no gpu is called "xx"`) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// Of several errors the one that was not caused by another's end is told.
func TestEachTellsTheCause(t *testing.T) {
	real := errors.New("broken")
	begun := make(chan bool)
	err := each(t.Context(), 5, 2, func(ctx context.Context, i int) error {
		if i == 0 {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}
		<-begun
		return real
	})
	if err != real {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := each(ctx, 5, 2, func(ctx context.Context, i int) error { cancel(real); return ctx.Err() }); err != real {
		t.Error(err)
	}
	if err := each(t.Context(), 5, 2, func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestSweepUsage(t *testing.T) {
	for _, args := range [][]string{
		{"sweep"}, {"sweep", "--vary", "x"}, {"sweep", "--vary", "seed=1,1"}, {"sweep", "--vary", "seed=1", "--vary", "seed=2"}, {"sweep", "--vary", "vad.stopp=1ms,2ms"}, {"sweep", "--vary", "vad.stop=1,2"},
		{"sweep", "--vary", "seed=1,2", "--format", "xml"}, {"sweep", "--vary", "seed=1,2", "--jobs", "0"}, {"sweep", "--vary", "clock=virtual,real"},
	} {
		if _, errs, code := try(args...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
