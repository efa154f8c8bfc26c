package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"firstsound/pipeline/report"
)

func TestGates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		err  string // how the error begins; empty: there is none
	}{
		{"--target 10s --gate p50 --turns 40", 0, ""},
		{"--target 10s --gate p95 --turns 40", 0, ""},
		{"--target 10s --gate p99 --turns 130", 0, ""},
		{"--target 800ms --gate p50 --turns 40", 1, "gate: p50 of the time to first sound is "},
		{"--target 1200ms --gate p50 --turns 40", 0, ""},
		{"--target 1200ms --gate p95 --turns 40", 1, "gate: p95 of the time to first sound is 1.4957s, above the target of 1.2s; the turns above it most often lose it in turn (2 of 2)"},
		{"--target 10s --gate p95 --turns 60 --set llm.fail=0.4", 1, "gate: 44 of 57 measured turns (77.2 %) are within the target of 10s, and p95 asks for 95 %; 0 are above it, 13 failed or had no reply"},
		{"--target 10s --gate p50 --turns 60 --set llm.fail=0.4", 0, ""},
		{"--target 1ms --turns 20", 0, ""},
		{"--gate p99 --turns 20", 1, "gate: there is no p99: "},
		{"--gate p50 --target 0s", 2, "--gate p50 needs a target: --target 800ms"},
		{"--strict --turns 20", 0, ""},
		{"--strict --turns 20 --set llm.fail=1", 1, "strict: no turn is ok"},
		{"--strict --turns 20 --set asr.late=1", 1, "strict: missing in every turn: ASR finalization"},
		{"--turns 20 --set llm.fail=1", 1, "no turn was answered: all 20 failed"},
		{"--turn 3.2 --turns 60", 0, ""},
		{"--turn 300.2 --turns 20", 1, `there is no turn "300.2": give median, slowest`},
		{"--turn nobody --turns 20", 1, `there is no turn "nobody": give median, slowest`},
	} {
		stdout, stderr, code := try(append([]string{"run"}, strings.Fields(tt.args)...)...)
		got, _, _ := strings.Cut(strings.TrimPrefix(stderr, "firstsound: "), "\n")
		if code != tt.code || !strings.HasPrefix(got, tt.err) || tt.err == "" && stderr != "" {
			t.Errorf("run %s: exit code %d, %q", tt.args, code, stderr)
		}
		if code != exitUsage && !strings.HasPrefix(stdout, "firstsound  default") {
			t.Errorf("run %s: no report, but %q", tt.args, stdout)
		}
	}
}

// The turn in full is the one that was asked for.
func TestTurnInFull(t *testing.T) {
	t.Parallel()
	dir, text := keep(t, "--turns", "60")
	turns := rows(t, dir)
	slowest, some := turns[0], turns[17]
	for _, r := range turns {
		if r.Outcome == "ok" && (slowest.Outcome != "ok" || *r.TTFS > *slowest.TTFS) {
			slowest = r
		}
	}
	name := func(r report.TurnRow) string {
		return fmt.Sprintf("  turn %d.%d · request %s · utterance %s ·", r.Session, r.Turn, r.Request, r.Utterance)
	}
	for _, tt := range []struct{ turn, want string }{
		{"slowest", name(slowest)},
		{fmt.Sprintf("%d.%d", some.Session, some.Turn), name(some)},
		{some.Request, name(some)},
		{"median", "4 One turn in full  the ok turn nearest to the median"},
	} {
		for _, args := range [][]string{{"show", dir, "--turn", tt.turn}, {"run", "--turns", "60", "--turn", tt.turn}} {
			if got := must(t, args...); !strings.Contains(got, "\n"+tt.want) {
				t.Errorf("%q is not in the report of %s:\n%s", tt.want, args, got)
			}
		}
	}
	if got := must(t, "show", dir, "--turn", "median"); got != text {
		t.Errorf("--turn median is another report:\n%s", got)
	}
	r := parse(t, must(t, "show", dir, "--turn", some.Request, "--json"))
	if r.Turn == nil || r.Turn.Request != some.Request || !slices.Equal(r.Turn.Segments, some.Segments) {
		t.Errorf("%s in JSON is %+v", some.Request, r.Turn)
	}
}

// The what-if gains more from a stage that becomes faster by more.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	last := int64(-1)
	for _, percent := range []int{1, 25, 50, 100} {
		args := []string{"run", "--turns", "60", "--what-if", fmt.Sprint(percent)}
		r := parse(t, must(t, append(args, "--json")...))
		if r.Improve.Percent != percent || len(r.Improve.Rows) == 0 || r.Improve.Rows[0].P50Gain <= last {
			t.Errorf("%d %% faster: %+v", percent, r.Improve)
		}
		last = r.Improve.Rows[0].P50Gain
		if text, want := must(t, args...), fmt.Sprintf(" first: %d %% less of it takes P50 from", percent); !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The text has the numbers of the JSON document.
func TestTextHasTheNumbersOfJSON(t *testing.T) {
	t.Parallel()
	args := append(sets("llm.fail=0.3", "turn.preemptive=partial"), "--turns", "200")
	text := must(t, append([]string{"run"}, args...)...)
	r := parse(t, must(t, append([]string{"run", "--json"}, args...)...))
	line := func(begin string) string {
		for l := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimLeft(l, " "), begin) {
				return l
			}
		}
		t.Errorf("no line begins with %q in\n%s", begin, text)
		return ""
	}
	has := func(l string, values ...string) {
		for _, v := range values {
			if !strings.Contains(l, v) {
				t.Errorf("no %s in %q", v, l)
			}
		}
	}
	ms := func(ns int64) string {
		tenths := (ns + 50_000) / 100_000
		return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
	}
	has(line("firstsound"), "seed 1", fmt.Sprintf(" %d turns", r.Run.Turns), "virtual clock")
	h := r.Headline.TTFS
	has(line("P50 "), ms(*h.P50.Value), ms(*h.P50.Low), ms(*h.P50.High))
	has(line("P95 "), ms(*h.P95.Value), ms(*h.P95.Low))
	has(line("max "), ms(*h.Max))
	rows := 0
	for _, m := range r.Metrics {
		if m.Unit != report.UnitTime || m.Key == "ttfs_ns" || m.Values.N == 0 || m.Values.P95.Value == nil {
			continue
		}
		rows++
		has(line(m.Title+" "), ms(*m.Values.P50.Value), ms(*m.Values.P95.Value), ms(*m.Values.Max), fmt.Sprint(m.Values.N))
	}
	if rows < 8 {
		t.Errorf("%d metrics only", rows)
	}
	sum := int64(0)
	for _, s := range r.Silence.Rows {
		sum += s.Median
		if s.Setting == "" {
			l := line(s.Stage + " ") // rounded so that the column adds up, so by up to 0.1 ms
			if f := strings.Fields(l); len(f) < 2 || !slices.Contains([]string{ms(s.Median), ms(s.Median + 1e5), ms(max(s.Median-1e5, 0))}, f[1]) {
				t.Errorf("no %s in %q", ms(s.Median), l)
			}
		}
	}
	if sum != r.Silence.MedianTTFS {
		t.Errorf("the shares come to %d ns, and the whole to %d", sum, r.Silence.MedianTTFS)
	}
	has(line("sum "), ms(r.Silence.MedianTTFS), ms(r.Silence.TailTTFS))
	for _, o := range r.Outcomes {
		has(line(o.Outcome+" "), fmt.Sprint(o.Turns))
	}
	has(line("attempts: "), fmt.Sprintf("%d failed", r.Attempts.Failures), fmt.Sprintf("%d retries", r.Attempts.Retries))
}

// A shorthand is its setting; what is said with --set after it counts.
func TestShorthands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ short, long string }{
		{"--seed 7", "seed=7"},
		{"--sessions 3", "load.sessions=3"},
		{"--warmup 0", "load.warmup=0"},
		{"--target 800ms", "target=800ms"},
		{"--arrival poisson --rate 3", "load.arrival=poisson load.rate=3"},
		{"--duration 3s", "load.duration=3s"},
		{"--clock virtual", "clock=virtual"},
		{"--corpus ../../audio/corpus/recordings", "corpus=../../audio/corpus/recordings"},
	} {
		short, stderr, code := try(append([]string{"run", "--turns", "20"}, strings.Fields(tt.short)...)...)
		long, _, _ := try(append([]string{"run"}, sets(append([]string{"load.turns=20"}, strings.Fields(tt.long)...)...)...)...)
		again := regexp.MustCompile(`(?m)^  again: .*\n`) // which tells how it was written
		if short, long = again.ReplaceAllString(short, ""), again.ReplaceAllString(long, ""); code != exitOK || short != long {
			t.Errorf("%s: exit code %d, %s\n%s, and with --set %s\n%s", tt.short, code, stderr, short, tt.long, long)
		}
	}
}

// The line at the end of a report runs it again.
func TestAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("mine.yaml", []byte("llm: {tpot: 20ms}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run"},
		{"run", "--turns", "20", "--seed", "3"},
		{"run", "mine.yaml", "--turns", "20", "--set", "vad.stop=300ms"},
	} {
		text := must(t, args...)
		_, again, found := strings.Cut(text, "\n  again: firstsound ")
		if !found {
			t.Fatalf("%v: no line to run it again in\n%s", args, text)
		}
		if got := must(t, strings.Fields(again)...); got != text {
			t.Errorf("%s: another report than %v:\n%s\n%s", again, args, got, text)
		}
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tty   bool
		env   string
		args  []string
		wants bool
	}{
		{tty: true, wants: true},
		{tty: false, wants: false},
		{tty: true, env: "1", wants: false},
		{tty: true, args: []string{"--color", "never"}, wants: false},
		{tty: false, args: []string{"--color", "always"}, wants: true},
		{tty: true, env: "1", args: []string{"--color", "always"}, wants: true},
		{tty: true, args: []string{"--json"}, wants: false},
	} {
		var out, errs bytes.Buffer
		env := func(name string) string {
			if name == "NO_COLOR" {
				return tt.env
			}
			return ""
		}
		code := run(append([]string{"run", "--turns", "20"}, tt.args...), streams{in: strings.NewReader(""), out: &out, err: &errs, tty: tt.tty, env: env})
		if code != exitOK || bytes.Contains(out.Bytes(), []byte("\x1b[")) != tt.wants {
			t.Errorf("%+v: exit code %d, %s\n%q", tt, code, errs.String(), out.String()[:100])
		}
	}
}

// Lines are no longer than asked for, but for the command that runs it again.
func TestWidths(t *testing.T) {
	t.Parallel()
	dir, _ := keep(t, append(sets(everything...), "--turns", "60")...)
	for _, width := range []int{80, 100, 140} {
		text := must(t, "show", dir, "--width", fmt.Sprint(width))
		for l := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(l, "\n")); n > width && !strings.HasPrefix(l, "  again: ") {
				t.Errorf("width %d: a line of %d: %s", width, n, l)
			}
		}
	}
}

// On a terminal a run that takes long says how far it has come, and wipes that
// out at its end.
func TestProgress(t *testing.T) {
	var errs bytes.Buffer
	c := newCounter(streams{progress: true, err: &errs}, 3, "turns")
	c.next = 0 // as if it had gone on for a while
	for range 3 {
		c.one()
	}
	c.done()
	if got := errs.String(); !strings.HasPrefix(got, "\r1 of 3 turns ") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
}
