package ttsbench

import (
	"slices"
	"time"

	"firstsound/clocks/quantile"
)

// Format names the layout of a Report.
const Format = "firstsound-bench-tts-1"

// A Report is what the trials of a run come to.
type Report struct {
	Format   string   `json:"format"`
	Provider string   `json:"provider"`
	Language string   `json:"language"`
	Partial  bool     `json:"partial"`
	Cold     *Trial   `json:"cold,omitempty"` // the first trial: its times are in no other figure
	Levels   []*Level `json:"levels"`
}

// A Level is what the trials at one concurrency come to. Of the times there are
// those of trials that are ok.
type Level struct {
	Concurrency int                   `json:"concurrency"`
	Trials      int                   `json:"trials"`
	Outcomes    map[Outcome]int       `json:"outcomes"`
	Errors      map[string]int        `json:"errors,omitempty"` // in the service's own words
	Connect     quantile.Distribution `json:"connect_ns"`
	FirstByte   quantile.Distribution `json:"first_byte_ns"`
	Audible     quantile.Distribution `json:"first_audible_ns"`
	Heard       quantile.Distribution `json:"heard_ns"`
	Lead        quantile.Distribution `json:"lead_silence_ns"`
	RTF         quantile.Distribution `json:"rtf_millionths"` // in millionths
	Ahead       quantile.Distribution `json:"headroom_ns"`
	Length      quantile.Distribution `json:"length_ns"`
	Stalled     int                   `json:"stalled"` // trials with a stall
	Stalls      int                   `json:"stalls"`
	Silence     time.Duration         `json:"stalled_ns"` // of all stalls
}

// A Summary makes a Report of trials as they come.
type Summary struct {
	report Report
	series map[*Level][]*quantile.Series
}

// NewSummary returns a Summary of trials with a provider.
func NewSummary(provider, language string) *Summary {
	return &Summary{Report{Format: Format, Provider: provider, Language: language, Levels: []*Level{}}, map[*Level][]*quantile.Series{}}
}

func (l *Level) distributions() []*quantile.Distribution {
	return []*quantile.Distribution{&l.Connect, &l.FirstByte, &l.Audible, &l.Heard, &l.Lead, &l.Ahead, &l.Length, &l.RTF}
}

// maxErrors is how many different texts of errors are kept, and maxExact how many
// values of a level are kept one by one.
const (
	maxErrors = 10
	maxExact  = 10_000
)

// Add takes a trial. What was interrupted is counted, and in no figure.
func (s *Summary) Add(t Trial) {
	if t.Cold {
		s.report.Cold = &t
	}
	l := s.level(t.Level)
	l.Trials++
	l.Outcomes[t.Outcome]++
	if text := t.Error; text != "" && t.Outcome != Interrupted {
		if l.Errors[text] == 0 && len(l.Errors) >= maxErrors {
			text = "others"
		}
		l.Errors[text]++
	}
	if t.Outcome != OK || t.Cold {
		return
	}
	var rtf *time.Duration
	if t.RTF != nil {
		millionths := time.Duration(*t.RTF * 1e6)
		rtf = &millionths
	}
	for i, v := range []*time.Duration{t.Connect, t.FirstByte, t.Audible, t.Heard, t.Lead, t.Ahead, &t.Length, rtf} {
		if v != nil {
			s.series[l][i].Add(int64(*v))
		}
	}
	if t.Stalls > 0 {
		l.Stalled++
	}
	l.Stalls += t.Stalls
	l.Silence += t.Stalled
}

func (s *Summary) level(n int) *Level {
	for _, l := range s.report.Levels {
		if l.Concurrency == n {
			return l
		}
	}
	l := &Level{Concurrency: n, Outcomes: map[Outcome]int{}, Errors: map[string]int{}}
	for range l.distributions() {
		s.series[l] = append(s.series[l], quantile.New(maxExact))
	}
	s.report.Levels = append(s.report.Levels, l)
	return l
}

// Report returns what the trials so far come to. Partial says that there were to
// be more.
func (s *Summary) Report(partial bool) *Report {
	s.report.Partial = partial
	for l, series := range s.series {
		for i, d := range l.distributions() {
			*d = series[i].Distribution()
		}
	}
	slices.SortFunc(s.report.Levels, func(a, b *Level) int { return a.Concurrency - b.Concurrency })
	return &s.report
}
