package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firstsound/pipeline/report"
)

// put makes the file name, with its folders.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wav returns a WAV file of one channel of 16 bits.
func wav(rate int, samples []int16) string {
	var b bytes.Buffer
	size := uint32(2 * len(samples))
	b.WriteString("RIFF")
	binary.Write(&b, binary.LittleEndian, 36+size)
	b.WriteString("WAVEfmt ")
	binary.Write(&b, binary.LittleEndian, []uint32{16, 1 | 1<<16, uint32(rate), uint32(2 * rate), 2 | 16<<16})
	b.WriteString("data")
	binary.Write(&b, binary.LittleEndian, size)
	binary.Write(&b, binary.LittleEndian, samples)
	return b.String()
}

// tone returns half a second of silence, a second of a square wave, and half a
// second of silence.
func tone(rate int) []int16 {
	all := make([]int16, 2*rate)
	for i := rate / 2; i < 3*rate/2; i++ {
		all[i] = 8000
		if i/20%2 == 0 {
			all[i] = -8000
		}
	}
	return all
}

// A mistake is told in one line, with the exit code that says whose it is.
func TestBadInput(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "text.yaml", "load: {turns: 3}\n")
	put(t, "typo.yaml", "asr:\n  timeuot: 1s\n")
	put(t, "option.yaml", "llm:\n  provider: sim\n  tempo: 3\n")
	put(t, "unit.yaml", "vad:\n  stop: 200\n")
	put(t, "list.yaml", "- 1\n")
	put(t, "twice.yaml", "seed: 1\nseed: 2\n")
	put(t, "open.yaml", "load: {turns: 3\n")
	put(t, "binary.yaml", "\x7fELF\x02\x01\x01\x00\xff\xfe")
	put(t, "huge.yaml", strings.Repeat("# x\n", 1<<19))
	put(t, "none/notes.txt", "nothing to play")
	if err := os.Mkdir("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	good := wav(16000, tone(16000))
	put(t, "cut/a.wav", good[:20])
	put(t, "zero/a.wav", "")
	put(t, "noriff/a.wav", "ID3\x04"+good)
	put(t, "bits/a.wav", good[:34]+"\x63\x00"+good[36:])
	put(t, "channels/a.wav", good[:22]+"\x00\x00"+good[24:])
	put(t, "rate/a.wav", good[:24]+"\x00\x00\x00\x00"+good[28:])
	put(t, "codec/a.wav", good[:20]+"\x55\x00"+good[22:])
	put(t, "silent/a.wav", wav(16000, make([]int16, 16000)))
	put(t, "nodata/a.wav", wav(16000, nil))
	put(t, "sidecar/a.wav", good)
	put(t, "sidecar/a.json", `{"text": "hello", "strat": "1s"}`)
	put(t, "bounds/a.wav", good)
	put(t, "bounds/a.json", `{"text": "hello", "language": "en", "start": "1s", "end": "9s"}`)
	put(t, "unsaid/a.wav", good)
	put(t, "unsaid/a.txt", "你好")
	put(t, "file", "")
	put(t, "events.jsonl", "{\"t_ns\":1,\"session\":1,\"turn\":1,\"mark\":\"speech_end\"}\n{\"t_ns\":2.5}\n")
	keepIn := func(dir string) { must(t, "run", "--turns", "2", "--out", dir) }
	keepIn("there")
	keepIn("broken")
	put(t, "broken/run.json", "{\"format\": ")
	keepIn("foreign")
	put(t, "foreign/run.json", "{\"format\": \"other/9\"}")
	keepIn("headless")
	if err := os.Remove("headless/events.jsonl"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("locked", 0o555); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		err  string // has to be in the line
	}{
		// The command line.
		{"run --turn", 2, "flag needs an argument: --turn"},
		{"run --width 79", 2, "--width takes 80 to 1000 columns, not 79"},
		{"run --width x", 2, `--width takes a whole number, not "x"`},
		{"run --what-if fast", 2, `--what-if takes a whole number, not "fast"`},
		{"run --json=maybe", 2, `--json takes true or false, not "maybe"`},
		{"show there --target 5", 2, `--target takes a time such as 800ms, not "5"`},
		{"run --what-if 0", 2, "--what-if takes 1 to 100 per cent, not 0"},
		{"run --what-if 101", 2, "--what-if takes 1 to 100 per cent, not 101"},
		{"run --gate p42", 2, `--gate takes p50, p95 or p99, not "p42"`},
		{"run --color blue", 2, `--color takes auto, always or never, not "blue"`},
		{"run --trun 3", 2, "there is no flag --trun; did you mean --turn?"},
		{"run a.yaml b.yaml", 2, `"b.yaml" is one argument too many`},
		{"run --turns -1", 2, "load.turns=-1: -1 does not lie between"},
		{"run --turns many", 2, `"many" is not a whole number`},
		{"run --turns 0", 2, "the run would never end"},
		{"run --sessions 0", 2, "0 does not lie between 1 and"},
		{"run --seed -1", 2, "-1 is negative"},
		{"run --rate 5", 2, "closed arrival takes no load.rate"},
		{"run --arrival poisson", 2, "poisson arrival needs load.rate"},
		{"run --arrival sometimes", 2, `"sometimes" is not one of`},
		{"run --clock fast", 2, `"fast" is not one of virtual, real`},
		{"run --target 800", 2, `"800" is not a duration: write a number with its unit, such as 800ms`},
		{"run --duration soon", 2, `"soon" is not a duration`},
		{"run --set vad.stop", 2, "write --set key=value"},
		{"run --set =1", 2, "write --set key=value"},
		{"run --set vad.stpo=1ms", 2, "vad.stpo"},
		{"run --set llm=1", 2, "a group of keys is needed here"},
		{"run --set llm.provider=gpt", 2, `there is no provider "gpt" here; there is sim`},
		{"run --set asr.fail=2", 2, "asr.fail"},
		{"run --set tts.first_audio=normal(3)", 2, "tts.first_audio"},
		{"run --set conversation.languages=[fr]", 2, "none of the 26 recordings is in one of the languages"},
		{"show", 2, "show takes one run folder, or one file of events"},
		{"show there there", 2, "show takes one run folder, or one file of events"},
		// The scenario.
		{"run nowhere.yaml", 2, "nowhere.yaml: there is no such file"},
		{"run empty", 2, "empty: is a folder"},
		{"run binary.yaml", 2, "binary.yaml:1:"},
		{"run huge.yaml", 2, "huge.yaml: is larger than 1 MiB"},
		{"run typo.yaml", 2, "typo.yaml:2:3: asr.timeuot: provider sim has no such key; did you mean timeout?"},
		{"run option.yaml", 2, "option.yaml:3:3: llm.tempo: provider sim has no such key"},
		{"run unit.yaml", 2, `unit.yaml:2:9: vad.stop: "200" is not a duration: write a number with its unit, such as 200ms`},
		{"run list.yaml", 2, "list.yaml:1:1: a scenario is a group of keys"},
		{"run twice.yaml", 2, "twice.yaml:2:1: seed: "},
		{"run open.yaml", 2, "open.yaml:"},
		// The recordings.
		{"run --corpus nowhere", 2, "corpus: nowhere: no such file or directory"},
		{"run --corpus empty", 2, "corpus: empty: the folder is empty"},
		{"run --corpus none", 2, "corpus: none: "},
		{"run --corpus file", 2, "corpus: file: not a directory"},
		{"run --corpus cut", 2, "a.wav"},
		{"run --corpus zero", 2, "a.wav"},
		{"run --corpus noriff", 2, "a.wav"},
		{"run --corpus bits", 2, "a.wav"},
		{"run --corpus channels", 2, "a.wav"},
		{"run --corpus rate", 2, "a.wav"},
		{"run --corpus codec", 2, "a.wav"},
		{"run --corpus silent", 2, "a.wav"},
		{"run --corpus nodata", 2, "a.wav"},
		{"run --corpus sidecar", 2, `a.json:`},
		{"run --corpus bounds", 2, "a.json:"},
		// The folder of the run.
		{"run --out there", 2, "run folder there: there is a run in it already (run.json): name another folder, or say --overwrite"},
		{"run --out file", 1, "file: not a directory"},
		{"run --out file/in/it", 1, "file: not a directory"},
		{"show nowhere", 2, "nowhere: there is no such run"},
		{"show empty", 1, "empty is not a run folder"},
		{"show headless", 1, "headless is not a run folder"},
		{"show text.yaml", 1, "text.yaml:1:1: want '{'"},
		{"show events.jsonl", 1, "events.jsonl:2:"},
		{"show broken", 1, "broken/run.json: unexpected end of JSON input"},
		{"show foreign", 1, `foreign/run.json: the format is "other/9", and this program reads "firstsound.run/1"`},
	} {
		stdout, stderr, code := try(strings.Fields(tt.args)...)
		line, hint, _ := strings.Cut(stderr, "\n")
		if code != tt.code || stdout != "" || !strings.HasPrefix(line, "firstsound: ") || !strings.Contains(line, tt.err) {
			t.Errorf("firstsound %s: exit code %d, %q, error\n%s, want\n%s", tt.args, code, stdout, line, tt.err)
		}
		if hint != "" && (code != exitUsage || !regexp.MustCompile(`^Try "firstsound \w+ --help"\.\n$`).MatchString(hint)) {
			t.Errorf("firstsound %s: more than a line: %q", tt.args, hint)
		}
		if strings.Contains(tt.args, ".yaml") && code == exitUsage && strings.Contains(line, ".yaml:") && hint != "" {
			t.Errorf("firstsound %s: a mistake in a file, and a hint about flags", tt.args)
		}
	}

	// What could be used is used, and what looks wrong about it is said.
	if stdout, stderr, code := try("run", "--corpus", "unsaid", "--turns", "2", "--warmup", "0"); code != exitOK || !strings.Contains(stdout, "speech bounds detected") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	must(t, "run", "--turns", "3", "--out", "there", "--overwrite")
	if n := len(rows(t, "there")); n != 8 {
		t.Errorf("%d turns after --overwrite, want 8", n)
	}
	if os.Getuid() == 0 {
		return // may write anywhere
	}
	if _, stderr, code := try("run", "--out", "locked/run"); code != exitFailed || !strings.Contains(stderr, "permission denied") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// What is left of a run is shown as far as it goes, and called partial.
func TestDamagedRuns(t *testing.T) {
	t.Parallel()
	dir, _ := keep(t, "--turns", "40")
	events := string(read(t, filepath.Join(dir, report.EventsFile)))
	half := strings.LastIndex(events[:len(events)/2], "\n") + 1
	for _, tt := range []struct{ name, events, want string }{
		{"cut off within a line", events[:half+30], "the run is partial: the last line of its events is cut off"},
		{"cut off at a line", events[:half], "the run is partial: some of its events are missing"},
		{"empty", "", "the run is partial: some of its events are missing"},
	} {
		if err := os.WriteFile(filepath.Join(dir, report.EventsFile), []byte(tt.events), 0o644); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(must(t, "show", dir)), " ")
		if !strings.Contains(text, tt.want) {
			t.Errorf("%s: no %q in\n%s", tt.name, tt.want, text)
		}
		if r := parse(t, must(t, "show", dir, "--json")); r.Run.State != report.StatePartial {
			t.Errorf("%s: the state is %s", tt.name, r.Run.State)
		}
	}
	// The events alone are a run, too.
	put(t, filepath.Join(dir, "alone.jsonl"), events)
	r := parse(t, must(t, "show", filepath.Join(dir, "alone.jsonl"), "--json"))
	if r.Run.Turns != 45 || r.Headline.OK == 0 {
		t.Errorf("the events alone have %d turns, %d of them ok", r.Run.Turns, r.Headline.OK)
	}
}

// failing is an output to which nothing can be written.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// What cannot be printed is a failure, whatever is to be printed.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	dir, _ := keep(t, "--turns", "3")
	broken := errors.New("the pipe is broken")
	for _, args := range [][]string{
		{"run", "--turns", "3"}, {"run", "--turns", "3", "--json"}, {"show", dir}, {"list"}, {"list", "providers"},
		{"version"}, {"version", "--json"}, {"init", "-"}, {"help"}, {"run", "--help"}, {"selftest"},
	} {
		var errs bytes.Buffer
		code := run(args, streams{in: strings.NewReader(""), out: failing{broken}, err: &errs, env: func(string) string { return "" }})
		if code != exitFailed || !strings.Contains(errs.String(), broken.Error()) {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
	// A pipe whose reader has gone.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var errs bytes.Buffer
	kept := filepath.Join(t.TempDir(), "run")
	code := run([]string{"run", "--turns", "3", "--out", kept}, streams{in: strings.NewReader(""), out: w, err: &errs, env: func(string) string { return "" }})
	if code != exitFailed || !strings.Contains(errs.String(), "broken pipe") || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
	if r := parse(t, must(t, "show", kept, "--json")); r.Run.State != report.StateComplete || r.Run.Turns != 8 {
		t.Errorf("the run is %s, with %d turns: its files do not depend on who listens", r.Run.State, r.Run.Turns)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer full.Close()
	errs.Reset()
	code = run([]string{"run", "--turns", "3"}, streams{in: strings.NewReader(""), out: full, err: &errs, env: func(string) string { return "" }})
	if code != exitFailed || !strings.Contains(errs.String(), "no space left") || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// A disk that is full ends the run; what is on it are whole lines.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs a small disk, which only root can mount")
	}
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", disk).Run() })
	dir := filepath.Join(disk, "run")
	stdout, stderr, code := try("run", "--turns", "1000000", "--out", dir)
	if code != exitFailed || !strings.Contains(stderr, "no space left on device") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if !strings.Contains(stdout, "the run is partial: not all could be written: ") {
		t.Errorf("the report does not say that it is partial:\n%s", stdout)
	}
	wholeLines(t, dir)
	if text := must(t, "show", dir); !strings.Contains(text, "the run is partial") {
		t.Errorf("show does not say that the run is partial:\n%s", text)
	}
}

func wholeLines(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{report.EventsFile, report.TurnsFile} {
		if data := read(t, filepath.Join(dir, name)); len(data) > 0 && !bytes.HasSuffix(data, []byte("}\n")) {
			t.Errorf("%s ends with %q", name, data[max(0, len(data)-80):])
		}
	}
	rows(t, dir) // parses each line
}

// builtIn is the folder of the program, once it has been built.
var builtIn string

// packageDir is where the tests begin; empty, and so the same, if that is not known.
var packageDir, _ = os.Getwd()

// built is the program as a file.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "firstsound")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "firstsound")
	builtIn = dir
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = packageDir // a test may have gone elsewhere
	out, err := build.CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return program, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// An interrupt in mid-run ends it with all that was measured, marked as partial;
// a killed run leaves whole lines.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("signals")
	}
	t.Parallel()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	long := []string{"--turns", "50000000", "--sessions", "50"}
	for _, tt := range []struct {
		name   string
		args   []string
		signal os.Signal
		first  string // file that has to be so large before
		size   int64
		wait   time.Duration
	}{
		{"interrupt, virtual", long, os.Interrupt, report.TurnsFile, 200_000, 0},
		{"terminate, virtual", long, syscall.SIGTERM, report.TurnsFile, 200_000, 0},
		{"interrupt, virtual, JSON", append([]string{"--json"}, long...), os.Interrupt, report.TurnsFile, 200_000, 0},
		// A turn takes seconds on the real clock: this one is in the middle of its first.
		{"interrupt, real", []string{"--clock", "real"}, os.Interrupt, report.RunFile, 1, time.Second},
		{"kill, virtual", long, os.Kill, report.TurnsFile, 200_000, 0},
		{"kill, real", []string{"--clock", "real"}, os.Kill, report.RunFile, 1, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.Command(program, slices.Concat([]string{"run", "--out", dir}, tt.args)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				if info, err := os.Stat(filepath.Join(dir, tt.first)); err == nil && info.Size() >= tt.size {
					break
				}
				if time.Now().After(deadline) {
					cmd.Process.Kill()
					t.Fatal("too little has been written in 20 s")
				}
			}
			time.Sleep(tt.wait)
			if err := cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			killed := tt.signal == os.Kill
			if code := cmd.ProcessState.ExitCode(); !killed && code != exitFailed {
				t.Errorf("exit code %d, %s\n%s", code, errs.String(), out.String())
			}
			if !killed && errs.String() != "firstsound: the run is not complete: interrupted\n" {
				t.Errorf("%q", errs.String())
			}
			args := []string{"show", dir}
			if slices.Contains(tt.args, "--json") {
				args = append(args, "--json")
			}
			text, want := must(t, args...), "the run is partial: interrupted"
			if killed {
				want = "the run is partial: it did not come to its end"
			} else {
				wholeLines(t, dir)
				if out.String() != text {
					t.Errorf("show prints\n%s, and run printed\n%s", text, out.String())
				}
			}
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
			r := parse(t, must(t, "show", dir, "--json"))
			if strings.Contains(tt.name, "virtual") && (r.Headline.OK == 0 || r.Faults.Count > 0 || r.Attempts.Failures > 0) {
				t.Errorf("%d ok turns, %d failed attempts, faults %+v", r.Headline.OK, r.Attempts.Failures, r.Faults)
			}
		})
	}
}

// Whoever reads only the first lines of a report ends the program, as is the
// custom, and the run's files are whole.
func TestReaderLeaves(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("signals")
	}
	t.Parallel()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := exec.Command(program, "run", "--turns", "20", "--out", dir)
	cmd.Stdout = w
	err = cmd.Run()
	w.Close()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || ok && status.Signaled() && status.Signal() != syscall.SIGPIPE {
		t.Errorf("%v", cmd.ProcessState)
	}
	wholeLines(t, dir)
	if got := parse(t, must(t, "show", dir, "--json")); got.Run.State != report.StateComplete || got.Run.Turns != 25 {
		t.Errorf("the run is %s, with %d turns", got.Run.State, got.Run.Turns)
	}
}
