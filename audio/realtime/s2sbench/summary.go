package s2sbench

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/quantile"
)

// Format names the layout of a Report.
const Format = "firstsound-bench-s2s-1"

// A Report is what the turns of a run come to.
type Report struct {
	Format        string   `json:"format"`
	URL           string   `json:"url"` // without what may be secret in it
	Model         string   `json:"model"`
	TurnDetection string   `json:"turn_detection"`
	Corpus        string   `json:"corpus"` // a folder; empty: the recordings of the program
	Language      string   `json:"language"`
	Partial       bool     `json:"partial"`
	Cold          *Trial   `json:"cold,omitempty"` // the first turn of the run, whose times are in no figure
	Levels        []*Level `json:"levels"`
}

// A Level is what the turns at one concurrency come to. Of the times there are
// those of turns that are ok.
type Level struct {
	Concurrency int                   `json:"concurrency"`
	Turns       int                   `json:"turns"`
	Outcomes    map[Outcome]int       `json:"outcomes"`
	Errors      map[string]int        `json:"errors,omitempty"` // in the service's own words
	Connect     quantile.Distribution `json:"connect_ns"`
	Wait        quantile.Distribution `json:"first_audible_ns"`
	First       quantile.Distribution `json:"first_audible_first_turn_ns"` // in the first turns of sessions
	Delta       quantile.Distribution `json:"first_delta_ns"`
	Lateness    quantile.Distribution `json:"send_lateness_p99_ns"` // the P99 of each turn
	Segments    []SegmentFigures      `json:"segments"`
	Premature   int                   `json:"premature"` // turns with such an answer
	Early       int                   `json:"early"`
	Slow        int                   `json:"slow_completion"`
	Stalled     int                   `json:"stalled"`
	Late        int                   `json:"late"` // turns whose sound was
}

// SegmentFigures are those of a segment. The shares of all segments of a level add
// up to the mean wait.
type SegmentFigures struct {
	Name  string                `json:"name"`
	Share time.Duration         `json:"share_of_mean_ns"`
	Times quantile.Distribution `json:"ns"`
}

// A Summary makes a Report of turns as they come.
type Summary struct {
	report Report
	levels map[int]*series
}

// series are the values of a level.
type series struct {
	connect, wait, first, delta, late quantile.Series
	segments                          map[string]*quantile.Series
	sums                              map[string]time.Duration
}

// NewSummary returns a Summary of turns. Of about its levels are not looked at.
func NewSummary(about Report) *Summary {
	about.Format, about.Levels = Format, []*Level{}
	return &Summary{about, map[int]*series{}}
}

// maxErrors is how many different texts of errors are kept, and maxExact how many
// values of a level are kept one by one.
const (
	maxErrors = 10
	maxExact  = 10_000
)

// Add takes a turn. What was interrupted is counted, and in no figure.
func (s *Summary) Add(t Trial) {
	if t.Cold {
		s.report.Cold = &t
	}
	l, v := s.level(t.Level)
	l.Turns++
	l.Outcomes[t.Outcome]++
	if t.Outcome == Interrupted {
		return
	}
	if text := t.Error; text != "" {
		if l.Errors[text] == 0 && len(l.Errors) >= maxErrors {
			text = "others"
		}
		l.Errors[text]++
	}
	if t.Outcome != OK || t.Cold {
		return
	}
	if t.Connect != nil {
		v.connect.Add(int64(*t.Connect))
		v.first.Add(int64(*t.Wait))
	}
	v.wait.Add(int64(*t.Wait))
	v.delta.Add(int64(*t.Delta))
	if t.Lateness != nil {
		v.late.Add(int64(*t.Lateness))
	}
	for _, part := range t.Segments {
		if v.segments[part.Name] == nil {
			v.segments[part.Name] = quantile.New(maxExact)
		}
		v.segments[part.Name].Add(int64(part.Took))
		v.sums[part.Name] += part.Took
	}
	for n, yes := range map[*int]bool{&l.Premature: t.Premature > 0, &l.Early: t.Early, &l.Slow: t.Slow, &l.Stalled: t.Stalled > 0, &l.Late: t.Pacing == Late} {
		if yes {
			*n++
		}
	}
}

func (s *Summary) level(n int) (*Level, *series) {
	if v := s.levels[n]; v != nil {
		return s.report.Levels[slices.IndexFunc(s.report.Levels, func(l *Level) bool { return l.Concurrency == n })], v
	}
	l := &Level{Concurrency: n, Outcomes: map[Outcome]int{}, Errors: map[string]int{}}
	v := &series{segments: map[string]*quantile.Series{}, sums: map[string]time.Duration{}}
	for _, x := range []*quantile.Series{&v.connect, &v.wait, &v.first, &v.delta, &v.late} {
		*x = *quantile.New(maxExact)
	}
	s.report.Levels = append(s.report.Levels, l)
	s.levels[n] = v
	return l, v
}

// Report returns what the turns so far come to. Partial says that there were to
// be more.
func (s *Summary) Report(partial bool) *Report {
	s.report.Partial = partial
	for _, l := range s.report.Levels {
		v := s.levels[l.Concurrency]
		l.Connect, l.Wait, l.First, l.Delta, l.Lateness = v.connect.Distribution(), v.wait.Distribution(), v.first.Distribution(), v.delta.Distribution(), v.late.Distribution()
		l.Segments = []SegmentFigures{}
		for name, values := range v.segments {
			l.Segments = append(l.Segments, SegmentFigures{name, v.sums[name] / time.Duration(v.wait.N()), values.Distribution()})
		}
		slices.SortFunc(l.Segments, func(a, b SegmentFigures) int {
			return cmp.Or(cmp.Compare(place(a.Name), place(b.Name)), cmp.Compare(a.Name, b.Name))
		})
	}
	return &s.report
}

// place returns where in the order a segment, or the first of joined ones, stands.
func place(name string) int {
	first, _, _ := strings.Cut(name, "+")
	return slices.Index(order, first)
}
