package asrbench

import (
	"slices"
	"time"

	"firstsound/clocks/quantile"
)

// Format names the layout of a Report.
const Format = "firstsound-bench-asr-1"

// A Report is what the trials of a run come to.
type Report struct {
	Format   string   `json:"format"`
	Provider string   `json:"provider"`
	Corpus   string   `json:"corpus"` // a folder; empty: the recordings of the program
	Partial  bool     `json:"partial"`
	Stop     int64    `json:"stop_ns"` // after the true end of the speech, the listener said that it was over
	Cold     *Cold    `json:"cold,omitempty"`
	Levels   []*Level `json:"levels"`

	// Characters says that errors are counted in characters, as in Chinese.
	Characters bool `json:"characters"`
}

// Cold is the first trial of the run: a name to look up, a session of TLS to
// begin, perhaps a model to load. Its times are in no other figure.
type Cold struct {
	Outcome Outcome        `json:"outcome"`
	Connect *time.Duration `json:"connect_ns,omitempty"`
	Final   *time.Duration `json:"finalization_ns,omitempty"`
}

// A Level is what the trials at one concurrency come to. Of the times there are
// those of trials that are ok.
type Level struct {
	Concurrency  int                   `json:"concurrency"`
	Trials       int                   `json:"trials"`
	Outcomes     map[Outcome]int       `json:"outcomes"`
	Errors       map[string]int        `json:"errors,omitempty"` // in the service's own words
	Connect      quantile.Distribution `json:"connect_ns"`
	FirstPartial quantile.Distribution `json:"first_partial_ns"`
	Final        quantile.Distribution `json:"finalization_ns"`
	AfterStop    quantile.Distribution `json:"after_stop_ns"`
	Endpoint     quantile.Distribution `json:"endpoint_ns"`
	Lateness     quantile.Distribution `json:"send_lateness_p99_ns"` // the P99 of each trial
	EarlyFinals  int                   `json:"early_finals"`         // trials with one
	EarlyEnds    int                   `json:"early_endpoints"`
	Late         int                   `json:"late"` // trials whose replay was late
	Unpaced      int                   `json:"unpaced"`
	Edits        Edits                 `json:"edits"`
	WER          *float64              `json:"wer,omitempty"`
}

// A Summary makes a Report of trials as they come.
type Summary struct {
	report Report
	series map[int]*[6]*quantile.Series
}

// NewSummary returns a Summary of trials with a provider.
func NewSummary(provider, corpus string, o Options, characters bool) *Summary {
	return &Summary{Report{Format: Format, Provider: provider, Corpus: corpus, Stop: int64(o.Stop), Characters: characters, Levels: []*Level{}}, map[int]*[6]*quantile.Series{}}
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
		s.report.Cold = &Cold{t.Outcome, t.Connect, t.Final}
	}
	l := s.level(t.Level)
	l.Trials++
	l.Outcomes[t.Outcome]++
	if t.Error != "" && t.Outcome != Interrupted {
		if _, ok := l.Errors[t.Error]; !ok && len(l.Errors) >= maxErrors {
			t.Error = "others"
		}
		l.Errors[t.Error]++
	}
	if t.Edits != nil {
		l.Edits.Add(*t.Edits)
	}
	if t.Outcome != OK || t.Cold {
		return
	}
	for i, v := range []*time.Duration{t.Connect, t.FirstPartial, t.Final, t.AfterStop, t.Endpoint, t.Lateness} {
		if v != nil {
			s.series[t.Level][i].Add(int64(*v))
		}
	}
	for n, yes := range map[*int]bool{&l.EarlyFinals: t.EarlyFinals > 0, &l.EarlyEnds: t.EarlyEnds > 0, &l.Late: t.Pacing == Late, &l.Unpaced: t.Pacing == Unpaced} {
		if yes {
			*n++
		}
	}
}

func (s *Summary) level(n int) *Level {
	i := slices.IndexFunc(s.report.Levels, func(l *Level) bool { return l.Concurrency == n })
	if i >= 0 {
		return s.report.Levels[i]
	}
	l := &Level{Concurrency: n, Outcomes: map[Outcome]int{}, Errors: map[string]int{}}
	s.report.Levels = append(s.report.Levels, l)
	s.series[n] = new([6]*quantile.Series)
	for i := range s.series[n] {
		s.series[n][i] = quantile.New(maxExact)
	}
	return l
}

// Report returns what the trials so far come to. Partial says that there were to
// be more.
func (s *Summary) Report(partial bool) *Report {
	s.report.Partial = partial
	for _, l := range s.report.Levels {
		for i, d := range []*quantile.Distribution{&l.Connect, &l.FirstPartial, &l.Final, &l.AfterStop, &l.Endpoint, &l.Lateness} {
			*d = s.series[l.Concurrency][i].Distribution()
		}
		if rate, ok := l.Edits.Rate(); ok {
			l.WER = &rate
		}
	}
	return &s.report
}
