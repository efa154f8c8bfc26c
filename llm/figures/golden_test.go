package figures

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firstsound/llm/record"
	"firstsound/page"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sampleReport returns the report of the made-up run.
func sampleReport(t testing.TB) *Report {
	t.Helper()
	goodput, err := ParseGoodput("ttft:300,tpot:50,e2e:2000")
	if err != nil {
		t.Fatal(err)
	}
	target, err := ParseGate("ttft.p50<400ms")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Goodput: goodput, Targets: []Gate{target}})
	run := sampleRun(1, s.Add)
	return s.Report(run)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not as it was; run with -update and look at the difference. Now:\n%s", file, got)
	}
}

func TestGolden(t *testing.T) {
	r := sampleReport(t)
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", b.Bytes())
	if bytes.Contains(b.Bytes(), []byte(page.Tie)) {
		t.Error("the JSON has blanks that are none")
	}
	b.Reset()
	if err := r.WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.Bytes())
	b.Reset()
	s := New(Options{})
	run := sampleRun(2, s.Add)
	run.Fixed["temperature"], run.Target.Model = "0", ""
	if err := Compare(r, s.Report(run)).WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", b.Bytes())
}

// TestWidth holds every line to the width, and the colours to be all that they
// add.
func TestWidth(t *testing.T) {
	r := sampleReport(t)
	for _, width := range []int{0, 40, 80, 100, 132} {
		var plain, colored bytes.Buffer
		r.WriteText(&plain, TextOptions{Width: width})
		r.WriteText(&colored, TextOptions{Width: width, Color: true})
		most := max(width, 80)
		if width == 0 {
			most = 100
		}
		for line := range strings.SplitSeq(plain.String(), "\n") {
			if n := page.Columns(line); n > most {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
		out := colored.String()
		for _, code := range []string{page.Bold, page.Dim, page.Red, page.Green, "0"} {
			out = strings.ReplaceAll(out, "\x1b["+code+"m", "")
		}
		if out != plain.String() {
			t.Errorf("width %d: colours change the text", width)
		}
	}
}

// TestNothing writes reports of runs in which nothing, or nothing good, happened.
func TestNothing(t *testing.T) {
	for _, attempts := range [][]*record.Attempt{nil, {{Phase: record.Single, Class: record.ConnectError}}, {{Phase: "new in a later version", Class: record.OK}}, {{Phase: record.Single, Warmup: true, Class: record.OK}}} {
		s := New(Options{})
		for _, a := range attempts {
			s.Add(a)
		}
		var b bytes.Buffer
		r := s.Report(record.Run{})
		if err := r.WriteText(&b, TextOptions{}); err != nil || !strings.Contains(b.String(), "no request ended ok") && len(attempts) < 2 && (len(attempts) == 0 || attempts[0].Class != record.OK) {
			t.Errorf("%v\n%s", err, b.String())
		}
		if err := r.WriteJSON(&b); err != nil || strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%v", err)
		}
	}
}

// TestHostile writes what a service could send to move the cursor.
func TestHostile(t *testing.T) {
	s := New(Options{})
	s.Add(&record.Attempt{Phase: "x\x1b[2J", Class: record.OK, Protocol: "\x1b[31m", Stamps: "\r", TokenSource: "\x07"})
	if name := s.Report(record.Run{}).Parts[0].Name; name != "x·[2J" {
		t.Errorf("the part is called %q", name)
	}
	var b bytes.Buffer
	if err := s.Report(record.Run{Target: record.Target{Model: "\x1b[2J", URL: "\x1b]0;x\x07"}}).WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\x07") {
		t.Errorf("%q", b.String())
	}
}

func BenchmarkAdd(b *testing.B) {
	var attempts []*record.Attempt
	sampleRun(1, func(a *record.Attempt) { attempts = append(attempts, a) })
	s := New(Options{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Add(attempts[i%len(attempts)])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkReport(b *testing.B) {
	s := New(Options{})
	run := sampleRun(1, s.Add)
	for b.Loop() {
		s.Report(run)
	}
}
