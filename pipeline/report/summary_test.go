package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/trace"
	"firstsound/page"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden holds got against testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: make it with go test -update", err)
	}
	if !bytes.Equal(got, want) {
		a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("%s:%d:\n got %s\nwant %s\nif that is right: go test -update", path, i+1, a[i], b[i])
			}
		}
		t.Fatalf("%s: got %d lines, want %d", path, len(a), len(b))
	}
}

var goldenOptions = Options{Percent: 25, Target: Limit{800 * time.Millisecond, true}, TargetSource: "house goal"}

func TestGoldenText(t *testing.T) {
	for _, test := range []struct {
		name            string
		sessions, turns int
		turn            string
		text            TextOptions
	}{
		{"report.txt", 40, 10, "median", TextOptions{}},
		{"few.txt", 6, 2, "slowest", TextOptions{Width: 80}},
		{"color.txt", 6, 2, "r-0002-02", TextOptions{Width: 120, Color: true}},
		{"none.txt", 0, 0, "12.3", TextOptions{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := goldenOptions
			o.Turn = test.turn
			r, err := sampleReport(test.sessions, test.turns, o)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := r.WriteText(&b, test.text); err != nil {
				t.Fatal(err)
			}
			golden(t, test.name, b.Bytes())
			width := test.text.Width
			if width == 0 {
				width = 100
			}
			if test.text.Color {
				return
			}
			for i, l := range strings.Split(b.String(), "\n") {
				if page.Columns(l) > width {
					t.Errorf("line %d takes %d columns, not %d: %s", i+1, page.Columns(l), width, l)
				}
			}
		})
	}
}

func TestGoldenJSON(t *testing.T) {
	r, err := sampleReport(30, 4, goldenOptions)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", b.Bytes())
	var again Report
	if err := json.Unmarshal(b.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&again, r) {
		for i, v := range []any{again.Run, again.Headline, again.Silence, again.Improve, again.Metrics, again.Sum, again.Turn, again.Outcomes, again.Faults, again.Flags, again.Warnings} {
			w := []any{r.Run, r.Headline, r.Silence, r.Improve, r.Metrics, r.Sum, r.Turn, r.Outcomes, r.Faults, r.Flags, r.Warnings}[i]
			if !reflect.DeepEqual(v, w) {
				t.Errorf("the JSON report holds %+v, not %+v", v, w)
			}
		}
	}
}

func TestColumnsAddUp(t *testing.T) {
	for _, n := range []int{1, 2, 3, 19, 40, 300} {
		r, err := sampleReport(n, 3, goldenOptions)
		if err != nil {
			t.Fatal(err)
		}
		median, tail := int64(0), int64(0)
		for _, row := range r.Silence.Rows {
			median += row.Median
			tail += row.Tail
		}
		if median != r.Silence.MedianTTFS || tail != r.Silence.TailTTFS {
			t.Errorf("%d: the columns sum to %d and %d, not %d and %d", n, median, tail, r.Silence.MedianTTFS, r.Silence.TailTTFS)
		}
	}
}

// TestBounded takes more turns than are kept one by one: memory stays, and the
// figures stay near the exact ones.
func TestBounded(t *testing.T) {
	exact, small := goldenOptions, goldenOptions
	small.Exact, small.Seed = 500, 3
	a, err := sampleReport(800, 5, exact)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sampleReport(800, 5, small)
	if err != nil {
		t.Fatal(err)
	}
	if b.Silence.Sampled != 500 || a.Silence.Sampled != 0 {
		t.Errorf("sampled %d and %d", b.Silence.Sampled, a.Silence.Sampled)
	}
	if d := float64(distance(a.Silence.MedianTTFS, b.Silence.MedianTTFS)) / float64(a.Silence.MedianTTFS); d > 0.03 {
		t.Errorf("the median turns differ by %.3f", d)
	}
	if a.Improve.Rows[0].Stage != b.Improve.Rows[0].Stage {
		t.Errorf("%s and %s", a.Improve.Sentence, b.Improve.Sentence)
	}
	c, err := sampleReport(800, 5, small)
	if err != nil || !reflect.DeepEqual(b, c) {
		t.Errorf("the same seed draws another sample (%v)", err)
	}
}

func TestSettingsThatVary(t *testing.T) {
	var c columns
	a := c.find(trace.StageTurn, "hold=1s")
	if c.find(trace.StageTurn, "hold=2s") != a || c.find(trace.StageTurn, "hold=3s") != a || c[a].setting != "hold=varies" {
		t.Errorf("%+v", c)
	}
	if b := c.find(trace.StageTurn, ""); b == a {
		t.Error("time that no setting owns was charged to one")
	}
}

func TestNoControlCharacters(t *testing.T) {
	s := NewSummary(Options{})
	a, err := NewAssembler(Limit{}, 25, s.Add)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []trace.Event{
		ev(0, trace.TurnOpened, trace.Attr{Key: trace.AttrRequest, Text: "\x1b[31mr"}), ev(0, trace.SpeechEnd), ev(100, "\x1b[2J"),
		ev(500, trace.TurnFailed, trace.Attr{Key: trace.AttrKind, Text: "\x07x"}, trace.Attr{Key: trace.AttrError, Text: "a\x1b]0;b\x07\u202e"}),
		ev(500, trace.Fault, trace.Attr{Key: trace.AttrError, Text: "\x1b[8m"}), ev(500, trace.TurnClosed),
	} {
		a.Add(&e)
	}
	var b bytes.Buffer
	if err := s.Report(RunInfo{Name: "\x1b", Command: "\x1b"}, a.Close()).WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07\u202e") {
		t.Errorf("%q", b.String())
	}
}

func TestWidths(t *testing.T) {
	for s, want := range map[string]int{"abc": 3, "晓晓": 4, "e\u0301": 1, "ｆ": 2, "😀": 2, "─█": 2} {
		if got := page.Columns(s); got != want {
			t.Errorf("%q takes %d columns, want %d", s, got, want)
		}
	}
	if got := page.Cut("晓晓晓", 5); got != "晓晓…" {
		t.Errorf("got %q", got)
	}
	for _, l := range page.Wrap(strings.Repeat("晓", 50)+" a b", 21) {
		if page.Columns(l) > 21 {
			t.Errorf("%q is too wide", l)
		}
	}
}

func TestRowRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for i := range 50 {
		events := sampleTurn(r, trace.ID{Session: i, Turn: 1})
		want := newAnalysis(Limit{}, 25).analyse(events[0].ID, events, nil, true).Row()
		line, err := want.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got TurnRow
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, want) {
			t.Errorf("got  %+v\nwant %+v", got, *want)
		}
	}
}
