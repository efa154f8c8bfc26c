package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/clockstest"
	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
)

// sets returns a flag --set for each setting.
func sets(settings ...string) []string {
	var args []string
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// must runs the program, which has to succeed without a word on its error
// output, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := try(args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("firstsound %s: exit code %d, %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// keep runs a scenario into a folder of its own, and returns the folder and what
// was printed.
func keep(t *testing.T, args ...string) (dir, stdout string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	return dir, must(t, slices.Concat([]string{"run", "--out", dir}, args)...)
}

// rows reads the turns of a run.
func rows(t *testing.T, dir string) []report.TurnRow {
	t.Helper()
	var all []report.TurnRow
	for line := range bytes.Lines(read(t, filepath.Join(dir, report.TurnsFile))) {
		var row report.TurnRow
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	return all
}

// unlessRace returns n, or less with the race detector, which makes all slower by
// a factor of ten and finds what it finds in few turns.
func unlessRace(n, less int) int {
	if clockstest.Race {
		return less
	}
	return n
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t *testing.T, text string) *report.Report {
	t.Helper()
	r := new(report.Report)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// everything is a scenario in which all goes on that can go on.
var everything = []string{
	"turn.preemptive=partial", "turn.false_finish=0.4", "asr.segments=200ms", "asr.fail=0.05", "asr.late=0.1", "asr.empty=0.05",
	"llm.fail=0.2", "llm.stall=0.2", "llm.tool_call=0.3", "llm.truncate=0.1", "llm.empty=0.1", "tts.fail=0.2", "tts.stall=0.2",
	"agent.filler=Hm.", "agent.filler_after=200ms", "conversation.barge_in=0.5", "line.downlink.loss=0.05", "line.uplink.loss=0.05",
}

// The same scenario and seed give the same bytes, however many processors there
// are and whatever ran before; another seed gives others.
func TestSameBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	args := append(sets(everything...), "--turns", fmt.Sprint(unlessRace(40, 15)), "--sessions", "7")
	once := func() map[string]string {
		dir, text := keep(t, args...)
		return map[string]string{
			"text": text, "JSON": must(t, append([]string{"run", "--json"}, args...)...),
			report.EventsFile: string(read(t, filepath.Join(dir, report.EventsFile))),
			report.TurnsFile:  string(read(t, filepath.Join(dir, report.TurnsFile))),
			report.RunFile:    string(read(t, filepath.Join(dir, report.RunFile))),
		}
	}
	machine := func(s string) string { return cpus.ReplaceAllString(s, "") }
	first := once()
	for i := range 20 {
		runtime.GOMAXPROCS(1 + i%2)
		if i%5 == 0 {
			must(t, "run", "--turns", "20", "--seed", fmt.Sprint(i+2))
		}
		for name, got := range once() {
			if machine(got) != machine(first[name]) {
				t.Fatalf("run %d: another %s", i, name)
			}
		}
	}
	args = append(args, "--seed", "2")
	for name, got := range once() {
		if got == first[name] {
			t.Errorf("seed 2 gives the same %s as seed 1", name)
		}
	}
}

// What one stage draws does not move what the others draw.
func TestOtherStagesKeepTheirDraws(t *testing.T) {
	t.Parallel()
	base := append([]string{"--turns", "60"}, sets("conversation.barge_in=0", "line.uplink.jitter=10ms")...)
	own := []string{"asr_finalization_ns", "endpointing_ns", "agent_ns", "tpot_ns", "output_tokens"}
	for _, tt := range []struct {
		set  string
		same []string // metrics that stay as they are in every turn
		move string   // one that does not
	}{
		{"tts.first_audio=400ms", own, "ttfa_ns"},
		{"asr.final=lognormal(400ms, 0.1)", []string{"endpointing_ns", "agent_ns", "tpot_ns", "output_tokens", "lead_silence_ns"}, "asr_finalization_ns"},
		{"llm.base=300ms", own, "ttft_ns"},
		{"agent.steps=[{name: retrieval, time: 200ms, tokens: 300}]", []string{"asr_finalization_ns", "endpointing_ns", "tpot_ns", "output_tokens"}, "agent_ns"},
		{"line.playout.mode=ideal", own, "playback_buffering_ns"},
	} {
		was, _ := keep(t, base...)
		is, _ := keep(t, append(sets(tt.set), base...)...)
		before, after, moved := byID(rows(t, was)), byID(rows(t, is)), 0
		if len(before) != 65 || len(after) != 65 {
			t.Fatalf("%s: %d and %d turns", tt.set, len(before), len(after))
		}
		for id, a := range before {
			b := after[id]
			for _, m := range tt.same {
				v, ok1 := a.Metrics.Get(m)
				w, ok2 := b.Metrics.Get(m)
				if v != w || ok1 != ok2 || !ok1 {
					t.Fatalf("%s: turn %s: %s was %d (%v), and is %d (%v)", tt.set, id, m, v, ok1, w, ok2)
				}
			}
			v, _ := a.Metrics.Get(tt.move)
			if w, _ := b.Metrics.Get(tt.move); v != w {
				moved++
			}
		}
		if moved < 60 {
			t.Errorf("%s: %s moved in %d turns only", tt.set, tt.move, moved)
		}
	}
}

func byID(rows []report.TurnRow) map[string]report.TurnRow {
	m := map[string]report.TurnRow{}
	for _, r := range rows {
		m[fmt.Sprintf("%d.%d", r.Session, r.Turn)] = r
	}
	return m
}

// In every turn of every scenario the segments are the silence, to the
// nanosecond; nothing is unexplained, nothing is a fault, every turn has one
// outcome, and the files show what the run has shown.
func TestEveryTurnAddsUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sets []string
		want string // outcomes that have to be among those of the run
	}{
		{"default", nil, "ok interrupted warmup"},
		{"much barge-in", []string{"conversation.barge_in=0.5", "conversation.barge_in_after=100ms"}, "ok interrupted"},
		{"preemptive, final", []string{"turn.preemptive=final"}, "ok"},
		{"preemptive, partial", []string{"turn.preemptive=partial", "turn.false_finish=0.5", "asr.segments=200ms"}, "ok"},
		{"LLM retries", []string{"llm.fail=0.4"}, "ok failed:llm"},
		{"LLM fallback", []string{"llm.fail=0.5", "llm.fallback=[{provider: sim, base: 50ms, fail: 0.5}]", "llm.attempts=3"}, "ok failed:llm"},
		{"LLM timeouts", []string{"llm.timeout=60ms", "llm.attempts=2", "llm.backoff=0s"}, "ok failed:llm"},
		{"TTS retries", []string{"tts.fail=0.4"}, "ok failed:tts"},
		{"TTS fallback", []string{"tts.fail=0.5", "tts.fallback=[{provider: sim, first_audio: 50ms, fail: 0.5}]", "tts.attempts=3"}, "ok failed:tts"},
		{"TTS timeouts", []string{"tts.timeout=200ms", "tts.attempts=3", "tts.backoff=0s"}, "ok failed:tts"},
		{"fillers", []string{"agent.filler=One moment.", "agent.filler_after=100ms"}, "ok"},
		{"tools", []string{"llm.tool_call=0.5"}, "ok"},
		{"tools and fillers", []string{"llm.tool_call=0.9", "agent.filler=Let me see.", "agent.filler_after=200ms"}, "ok"},
		{"parallel steps", []string{"agent.parallel=true", `agent.steps=[{name: a, time: "lognormal(60ms, 0.5)"}, {name: b, time: "lognormal(60ms, 0.5)", fail: 0.1}, {name: c, time: 60ms}]`}, "ok failed:agent"},
		{"no steps", []string{"agent.steps=[]"}, "ok"},
		{"server endpointing", []string{"turn.server=true", "asr.endpoint=lognormal(400ms, 0.3)", "asr.false_endpoint=0.2", "turn.provider=none"}, "ok"},
		{"no VAD", []string{"vad.provider=none", "turn.provider=none"}, "ok"},
		{"no detector, minimum delay", []string{"turn.provider=none", "turn.min_delay=300ms"}, "ok"},
		{"minimum delay on top", []string{"turn.min_delay=300ms", "turn.add=true"}, "ok"},
		{"detector answers too soon", []string{"turn.false_finish=1", "vad.stop=30ms", "asr.segments=50ms", "asr.final=50ms", "agent.steps=[]"}, "ok"},
		{"loss in bursts", []string{"line.uplink.loss=0.1", "line.downlink.loss=0.1", "line.uplink.burst=4", "line.downlink.burst=4"}, "ok"},
		{"reordering", []string{"line.uplink.reorder=true", "line.downlink.reorder=true", "line.downlink.jitter=exponential(40ms)"}, "ok"},
		{"fixed playout", []string{"line.playout.mode=fixed", "line.playout.prebuffer=60ms"}, "ok"},
		{"no prebuffer", []string{"line.playout.mode=fixed", "line.playout.prebuffer=0s"}, "ok"},
		{"ideal playout", []string{"line.playout.mode=ideal"}, "ok"},
		{"sent at once", []string{"line.pacing=burst"}, "ok"},
		{"words", []string{"cut.mode=words", "cut.words=2"}, "ok"},
		{"clauses", []string{"cut.mode=clause", "cut.look_ahead=false"}, "ok"},
		{"Chinese", []string{"conversation.languages=[zh]", "cut.mode=clause"}, "ok"},
		{"stalls", []string{"llm.stall=0.5", "tts.stall=0.5"}, "ok"},
		{"cut short and empty", []string{"llm.truncate=0.3", "llm.empty=0.2"}, "ok no_reply"},
		{"ASR fails, hears nothing", []string{"asr.fail=0.2", "asr.empty=0.2"}, "ok no_reply failed:asr"},
		{"ASR late", []string{"asr.late=0.3"}, "ok"},
		{"ASR late, no partials", []string{"asr.late=0.3", "asr.partials=false"}, "ok failed:asr_timeout"},
		{"ASR waits to be asked", []string{"asr.wait_for_finalize=true", "asr.word_errors=0.2"}, "ok"},
		{"ASR early", []string{"asr.early=200ms", "asr.final=uniform(1ms, 50ms)"}, "ok"},
		{"poisson", []string{"load.arrival=poisson", "load.rate=20", "load.duration=20s"}, "ok"},
		{"constant", []string{"load.arrival=constant", "load.rate=50"}, "ok"},
		{"reasoning", []string{"llm.reasoning=50", "llm.timings=true", "llm.early_role=true"}, "ok"},
		{"no delays", []string{"conversation.gap=0s", "line.uplink.delay=0s", "line.uplink.jitter=0s", "line.downlink.delay=0s", "line.downlink.jitter=0s", "line.codec_delay=0s", "vad.inference=0s"}, "ok"},
		{"everything", everything, "ok interrupted no_reply failed:llm failed:tts failed:asr"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append(sets(tt.sets...), "--turns", fmt.Sprint(unlessRace(80, 30)), "--warmup", "5", "--sessions", "9")
			dir, text := keep(t, args...)
			document := must(t, append([]string{"run", "--json"}, args...)...)
			if got := must(t, "show", dir); got != text {
				t.Errorf("show prints\n%s, and run printed\n%s", got, text)
			}
			if got := must(t, "show", dir, "--json"); got != document {
				t.Errorf("show --json prints another document than run --json:\n%s\n%s", got, document)
			}
			addsUp(t, parse(t, document), rows(t, dir), tt.want)
		})
	}
}

// addsUp holds the turns of a run against each other and against its report.
func addsUp(t *testing.T, r *report.Report, turns []report.TurnRow, want string) {
	t.Helper()
	if r.Faults.Count != 0 {
		t.Errorf("%d faults: %+v", r.Faults.Count, r.Faults.First)
	}
	outcomes := map[string]int64{}
	seen := map[string]bool{}
	for _, row := range turns {
		outcomes[row.Outcome]++
		id := fmt.Sprintf("%d.%d", row.Session, row.Turn)
		if seen[id] {
			t.Errorf("turn %s is there twice", id)
		}
		seen[id] = true
		sum, at := int64(0), int64(0)
		for i, s := range row.Segments {
			if s.End < s.Start || i > 0 && s.Start != at {
				t.Errorf("turn %s: segment %d does not follow the one before: %+v", id, i, row.Segments)
			}
			if s.Stage == string(report.StageUnexplained) {
				t.Errorf("turn %s: %d ns are unexplained", id, s.End-s.Start)
			}
			sum, at = sum+s.End-s.Start, s.End
		}
		switch end, _ := row.Marks.Get("speech_end"); {
		case row.TTFS == nil || *row.TTFS <= 0:
			if len(row.Segments) > 0 {
				t.Errorf("turn %s: segments without a silence", id)
			}
		case len(row.Segments) == 0:
			t.Errorf("turn %s: %d ns without segments", id, *row.TTFS)
		case sum != *row.TTFS || row.Segments[0].Start != end:
			t.Errorf("turn %s: the segments begin at %d and are %d ns; the silence begins at %d and is %d ns", id, row.Segments[0].Start, sum, end, *row.TTFS)
		}
	}
	all := int64(0)
	for _, o := range r.Outcomes {
		all += o.Turns
		if o.Turns != outcomes[o.Outcome] {
			t.Errorf("the report has %d turns that are %s, and the file %d", o.Turns, o.Outcome, outcomes[o.Outcome])
		}
	}
	if n := unlessRace(85, 35); all != int64(len(turns)) || r.Run.Turns != all || len(turns) != n {
		t.Errorf("%d turns by outcome, %d in the file, %d by the report, want %d", all, len(turns), r.Run.Turns, n)
	}
	for o := range strings.FieldsSeq(want) {
		if outcomes[o] == 0 {
			t.Errorf("no turn is %s: %v", o, outcomes)
		}
	}
}

// medianOf returns the median of the times of a metric, over the ok turns that f
// picks.
func medianOf(t *testing.T, rows []report.TurnRow, metric string, f func(report.TurnRow) bool) time.Duration {
	t.Helper()
	var all []int64
	for _, r := range rows {
		if v, ok := r.Metrics.Get(metric); ok && r.Outcome == "ok" && f(r) {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	v, ok := quantile.Of(all, 0.5)
	if !ok {
		t.Fatalf("no values of %s", metric)
	}
	return time.Duration(v)
}

// A larger prebuffer makes the first sound later and underruns rarer.
func TestPrebufferTradeOff(t *testing.T) {
	t.Parallel()
	lastSound, lastRuns := time.Duration(0), int64(1<<62)
	for _, prebuffer := range []string{"20ms", "60ms", "120ms", "200ms"} {
		dir, _ := keep(t, append(sets("line.playout.mode=fixed", "line.playout.prebuffer="+prebuffer, "line.downlink.jitter=exponential(30ms)",
			"line.downlink.reorder=true", "conversation.barge_in=0"), "--turns", "150")...)
		turns, runs := rows(t, dir), int64(0)
		for _, r := range turns {
			n, _ := r.Metrics.Get("underruns")
			runs += n
		}
		sound := medianOf(t, turns, "ttfs_ns", func(report.TurnRow) bool { return true })
		if sound <= lastSound || runs >= lastRuns {
			t.Errorf("prebuffer %s: first sound after %v, %d underruns; with less it was %v and %d", prebuffer, sound, runs, lastSound, lastRuns)
		}
		lastSound, lastRuns = sound, runs
	}
}

// Without a prompt cache a history that grows makes late turns slower, and
// cutting it short makes them faster.
func TestHistoryGain(t *testing.T) {
	t.Parallel()
	measure := func(set ...string) (early, late time.Duration) {
		dir, _ := keep(t, append(sets(append(set, "conversation.turns=12", "conversation.barge_in=0", "llm.prefix_cache=false",
			"agent.steps=[{name: retrieval, time: 65ms, tokens: 600}]")...), "--turns", "360", "--sessions", "10")...)
		turns := rows(t, dir)
		early = medianOf(t, turns, "ttft_ns", func(r report.TurnRow) bool { return r.Turn >= 2 && r.Turn <= 3 })
		late = medianOf(t, turns, "ttft_ns", func(r report.TurnRow) bool { return r.Turn >= 10 })
		return early, late
	}
	early, whole := measure()
	if whole < early+50*time.Millisecond {
		t.Errorf("TTFT is %v early in a call and %v late: the history does not show", early, whole)
	}
	for _, set := range []string{"conversation.max_messages=4", "conversation.max_tokens=700", "conversation.summarize_above=700"} {
		if _, late := measure(set); late > whole-50*time.Millisecond {
			t.Errorf("%s: TTFT of late turns is %v, and %v with the whole history", set, late, whole)
		}
	}
}

// A recognizer that waits to be asked for the final transcript is asked when the
// VAD hears the end of the speech: not in a pause before, and only once.
func TestFinalTranscriptOnDemand(t *testing.T) {
	t.Parallel()
	dir, _ := keep(t, append(sets("asr.wait_for_finalize=true", "asr.finalize=100ms", "conversation.barge_in=0", "turn.false_finish=0"), "--turns", "200", "--warmup", "0")...)
	resumed := 0
	for _, r := range rows(t, dir) {
		stop, ok1 := r.Marks.Get("vad_stop")
		heard, ok2 := r.Marks.Get("speech_heard")
		final, ok3 := r.Marks.Get("asr_final")
		if !ok1 || !ok2 || !ok3 || final-max(stop, heard) != int64(100*time.Millisecond) {
			t.Errorf("turn %d.%d: the speech was heard at %d, the VAD stopped at %d, the final transcript came at %d", r.Session, r.Turn, heard, stop, final)
		}
		if _, ok := r.Marks.Get("vad_resumed"); ok {
			resumed++
		}
	}
	if resumed < 10 {
		t.Errorf("the user has paused and gone on in %d turns only", resumed)
	}
}
