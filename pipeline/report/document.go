package report

import (
	"encoding/json"
	"fmt"
	"io"

	"firstsound/clocks/quantile"
)

// ReportFormat names the layout of the JSON report.
const ReportFormat = "firstsound.report/1"

// A Report is what a run comes to. It is the JSON report as it stands: times
// are whole nanoseconds, and what is nil or empty is absent, with a reason
// beside it where one is due. Every list has a fixed order.
type Report struct {
	Format   string        `json:"format"` // ReportFormat
	Run      RunInfo       `json:"run"`
	Headline Headline      `json:"headline"`
	Silence  Silence       `json:"silence"`
	Improve  Improve       `json:"improve"`
	Metrics  []MetricRow   `json:"metrics"`
	Sum      *SumCheck     `json:"sum,omitempty"`
	Turn     *TurnRow      `json:"turn,omitempty"`        // one turn in full
	TurnWhy  string        `json:"turn_choice,omitempty"` // why this one, or why none
	Outcomes []OutcomeRow  `json:"outcomes"`
	Attempts AttemptTotals `json:"attempts"`
	Detector Detector      `json:"turn_detector"`
	Flags    []FlagRow     `json:"flags,omitempty"`
	Faults   Faults        `json:"faults"`
	Warnings []string      `json:"warnings,omitempty"`
}

// A Headline is the time to first sound of the ok turns.
type Headline struct {
	OK      int64                  `json:"ok_turns"`
	TTFS    quantile.Distribution  `json:"ttfs_ns"`
	FromDue *quantile.Distribution `json:"ttfs_from_due_ns,omitempty"` // of open-loop load, if a turn began late
	Target  *Target                `json:"target,omitempty"`
}

// A Target is what TTFS is held against.
type Target struct {
	TTFS   int64  `json:"ttfs_ns"`
	Source string `json:"source,omitempty"`
	// P50 says "met" or "missed": a target is for the median. P95 says "below"
	// or "above". Either may say why that cannot be told.
	P50 string `json:"p50"`
	P95 string `json:"p95"`
	// Over counts ok turns beyond the target; Cause is the stage that most often
	// had the largest part in them: in CauseTurns of them, which need not be most.
	Over       int64  `json:"turns_over"`
	Cause      string `json:"turns_over_cause,omitempty"`
	CauseTurns int64  `json:"turns_over_cause_turns,omitempty"`
	// Measured counts the ok turns that have a TTFS, those that failed, and those
	// without a reply; Within those among them that are within the target.
	Measured int64 `json:"turns_measured"`
	Within   int64 `json:"turns_within"`
}

// Silence is where the time to first sound goes, at the median (the ok turns
// whose rank by TTFS is within 45–55 %) and in the tail (the slowest 5 %). Each
// column is a mean over those turns and sums to their mean TTFS.
type Silence struct {
	MedianTurns int        `json:"median_turns"`
	TailTurns   int        `json:"tail_turns"`
	MedianTTFS  int64      `json:"median_ttfs_ns"`
	TailTTFS    int64      `json:"tail_ttfs_ns"`
	Rows        []ShareRow `json:"rows"`
	// Sampled is how many turns were drawn at random to say this, if not all.
	Sampled int    `json:"sampled,omitempty"`
	Absent  string `json:"absent,omitempty"`
}

// A ShareRow is one stage's part of the silence.
type ShareRow struct {
	Stage   string `json:"stage"`
	Setting string `json:"setting,omitempty"` // the setting that owns the time, as key=value, or key=varies
	Median  int64  `json:"median_ns"`
	Tail    int64  `json:"tail_ns"`
}

// Improve says what a faster stage would do to TTFS, from the max-plus
// recurrence over each turn's events.
type Improve struct {
	Percent  int         `json:"faster_percent"`
	Rows     []WhatIfRow `json:"rows"` // by P50 gain, largest first
	Sentence string      `json:"sentence,omitempty"`
	Absent   string      `json:"absent,omitempty"`
}

// A WhatIfRow is TTFS if one stage took Improve.Percent less time.
type WhatIfRow struct {
	Stage   string   `json:"stage"`
	Setting []string `json:"settings,omitempty"` // settings that own some of its time
	P50     int64    `json:"p50_ns"`
	P50Gain int64    `json:"p50_gain_ns"`
	P95     *int64   `json:"p95_ns,omitempty"`
	P95Gain *int64   `json:"p95_gain_ns,omitempty"`
}

// A MetricRow is one metric over the ok turns; of barge-in stop, over the
// interrupted turns too.
type MetricRow struct {
	Key    string                `json:"key"`
	Title  string                `json:"title"`
	Unit   Unit                  `json:"unit"`
	Means  string                `json:"means"`
	Values quantile.Distribution `json:"values"`
	Absent []Reason              `json:"absent,omitempty"` // most frequent first
}

// A Reason is why some turns lack a metric.
type Reason struct {
	Why   string `json:"why"`
	Turns int64  `json:"turns"`
}

// A SumCheck splits the time from the request to the end of the answer as
// TTFT + TPOT × (tokens − 1) + synthesis and playback: means over the ok turns
// that have all of it. Speech is what is left of the total: it overlaps with the
// decoding, so it is what comes after the last token.
type SumCheck struct {
	Turns  int64  `json:"turns"`
	TTFT   int64  `json:"ttft_ns"`
	Decode int64  `json:"tpot_times_tokens_ns"`
	Speech int64  `json:"synthesis_and_playback_ns"`
	Total  int64  `json:"request_to_play_end_ns"`
	Blame  string `json:"blame"` // which term is high, and what that usually means
}

// An OutcomeRow counts the turns of one outcome.
type OutcomeRow struct {
	Outcome string `json:"outcome"` // ok, failed:<kind> …
	Turns   int64  `json:"turns"`
	Note    string `json:"note,omitempty"`
}

// AttemptTotals count attempts over all turns but the warm-up.
type AttemptTotals struct {
	Failures  int64 `json:"failed_attempts"`
	Retries   int64 `json:"retries"`
	Adopted   int64 `json:"speculative_adopted"`
	Discarded int64 `json:"speculative_discarded"`
	Saved     int64 `json:"speculative_saved_ns"`
	Wasted    int64 `json:"tokens_wasted"`
	WastedOf  int64 `json:"tokens_wasted_told_by"` // discarded attempts that told their tokens
}

// Detector counts how the turn detector went wrong, over all turns but the
// warm-up.
type Detector struct {
	Turns     int64 `json:"turns"`
	Early     int64 `json:"early"`           // committed before speech_end, and that stood
	TakenBack int64 `json:"taken_back"`      // turns in which a commit was taken back (turn_dropped)
	Dropped   int64 `json:"commits_dropped"` // commits that were taken back; a turn may have several
	Stuck     int64 `json:"stuck"`           // never committed
	Forced    int64 `json:"forced"`          // committed by a maximum delay
}

// A FlagRow counts the turns with one flag.
type FlagRow struct {
	Flag  Flag  `json:"flag"`
	Turns int64 `json:"turns"`
}

// Faults are what cannot be right in the events.
type Faults struct {
	Count int64      `json:"count"`
	First []FaultRow `json:"first,omitempty"` // at most MaxProblems
}

// A FaultRow is one fault.
type FaultRow struct {
	Session int    `json:"session"`
	Turn    int    `json:"turn"`
	Seq     int32  `json:"seq,omitempty"`
	Text    string `json:"text"`
}

// WriteJSON writes the report as indented JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("report: writing JSON: %w", err)
	}
	return nil
}
