package report

import (
	"bytes"
	"encoding/json"
	"strconv"

	"firstsound/clocks/trace"
)

// A TurnRow is a turn as a line of turns.jsonl. What is absent is not among
// the metrics but among Absent, with the reason.
type TurnRow struct {
	Request     string       `json:"request_id,omitempty"`   // the same in every mark of the turn; absent if the events have none
	Session     int          `json:"session"`                // the number of the call
	Turn        int          `json:"turn"`                   // the number of the turn in its call
	Utterance   string       `json:"utterance,omitempty"`    // the name of the recording
	Bounds      string       `json:"bounds,omitempty"`       // where speech_end comes from: annotated, or detected offline
	Outcome     string       `json:"outcome"`                // ok, warmup, interrupted, early_reply, no_reply, failed:llm (or another failure_kind) or unfinished: see metrics.md
	Warmup      bool         `json:"warmup,omitempty"`       // left out of all figures
	FailureKind string       `json:"failure_kind,omitempty"` // of a failed turn, or a failed warm-up: agent, asr, asr_timeout, line, llm, tts, or what else the events name; unknown if they name nothing
	Error       string       `json:"error,omitempty"`        // of a failed turn: in the provider's own words
	LastMark    string       `json:"last_mark,omitempty"`    // of a turn without first_sound: the latest mark on the way to an answer
	TTFS        *int64       `json:"ttfs_ns,omitempty"`      // first_sound − speech_end; negative if the answer sounded into the user's speech
	Marks       NamedValues  `json:"marks"`                  // mark: ns since the run began, one of each, in the order of a plain cascade
	Segments    []SegmentRow `json:"segments"`               // the critical path from speech_end to first_sound, in order: stage, start_ns, end_ns, and setting (key=value) if one owns the time; they sum to ttfs_ns
	Metrics     NamedValues  `json:"metrics"`                // key: value, of the metrics that the turn has: see metrics.md
	Absent      NamedTexts   `json:"absent,omitempty"`       // key: why, of the metrics that the turn lacks
	TokenSource string       `json:"token_source,omitempty"` // what output_tokens is counted by: usage (the server's own count), tokenizer or chunks
	Slacks      []SlackRow   `json:"slacks,omitempty"`       // marks that first_sound waited for off its path: mark, at_ns, stage, and slack_ns, how much later it could have been without moving first_sound
	WhatIfs     []WhatIfTurn `json:"what_if,omitempty"`      // for each stage of the path: ttfs_ns if that stage took less time, by the per cent of --what-if (25 if not told)
	Attempts    AttemptCount `json:"attempts"`               // counts: failed (of LLM and TTS), retries, speculative_adopted, speculative_discarded, saved_ns (by the adopted ones), tokens_wasted (by the discarded ones), commits_dropped (turn_dropped)
	Flags       []Flag       `json:"flags,omitempty"`        // remarks that are no faults: turn_end_before_speech_end, turn_never_committed, turn_end_forced, asr_final_before_speech_end, slow_completion
	Faults      []string     `json:"faults,omitempty"`       // what cannot be right in the turn's events, in words
}

// A SegmentRow is a piece of the critical path.
type SegmentRow struct {
	Stage   string `json:"stage"`             // what the time is charged to: see metrics.md
	Start   int64  `json:"start_ns"`          // since the run began
	End     int64  `json:"end_ns"`            // since the run began; where the next segment starts
	Setting string `json:"setting,omitempty"` // the setting, as key=value, that owns the time
}

// A SlackRow is a mark off the critical path.
type SlackRow struct {
	Mark  string `json:"mark"`     // its name
	At    int64  `json:"at_ns"`    // since the run began
	Stage string `json:"stage"`    // what the time before the mark is charged to
	Slack int64  `json:"slack_ns"` // how much later it could have been without moving first_sound
}

// A WhatIfTurn is the turn's TTFS if one stage were faster.
type WhatIfTurn struct {
	Stage string `json:"stage"`   // the one that is faster
	TTFS  int64  `json:"ttfs_ns"` // what the turn's would then be
}

// An AttemptCount counts the attempts of a turn.
type AttemptCount struct {
	Failures  int   `json:"failed"`                    // of LLM and TTS
	Retries   int   `json:"retries"`                   // attempts that followed a failed one
	Adopted   int   `json:"speculative_adopted"`       // early LLM attempts that became the answer
	Discarded int   `json:"speculative_discarded"`     // early LLM attempts that were thrown away
	Saved     int64 `json:"saved_ns"`                  // how much earlier the adopted ones were sent
	Wasted    int64 `json:"tokens_wasted"`             // that discarded ones had produced, where told
	Dropped   int   `json:"commits_dropped,omitempty"` // commits of the turn that were taken back (turn_dropped)
}

// A NamedValue is a name and a whole number.
type NamedValue struct {
	Name  string
	Value int64
}

// NamedValues is a JSON object of whole numbers that keeps its order.
type NamedValues []NamedValue

// Get returns the value of name, and whether it is there.
func (n NamedValues) Get(name string) (int64, bool) {
	for _, v := range n {
		if v.Name == name {
			return v.Value, true
		}
	}
	return 0, false
}

// MarshalJSON writes the object in its order.
func (n NamedValues) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = trace.AppendString(b, v.Name)
		b = append(b, ':')
		b = strconv.AppendInt(b, v.Value, 10)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads the object and keeps its order.
func (n *NamedValues) UnmarshalJSON(data []byte) error {
	*n = NamedValues{}
	return eachMember(data, func(name string, d *json.Decoder) error {
		v := int64(0)
		if err := d.Decode(&v); err != nil {
			return err
		}
		*n = append(*n, NamedValue{name, v})
		return nil
	})
}

// A NamedText is a name and a text.
type NamedText struct{ Name, Text string }

// NamedTexts is a JSON object of texts that keeps its order.
type NamedTexts []NamedText

// MarshalJSON writes the object in its order.
func (n NamedTexts) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = trace.AppendString(b, v.Name)
		b = append(b, ':')
		b = trace.AppendString(b, v.Text)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads the object and keeps its order.
func (n *NamedTexts) UnmarshalJSON(data []byte) error {
	*n = nil
	return eachMember(data, func(name string, d *json.Decoder) error {
		v := ""
		if err := d.Decode(&v); err != nil {
			return err
		}
		*n = append(*n, NamedText{name, v})
		return nil
	})
}

// eachMember calls f for each member of a JSON object, in order.
func eachMember(data []byte, f func(string, *json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil { // the opening brace
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if err := f(name.(string), d); err != nil {
			return err
		}
	}
	return nil
}

// Row returns the turn as a line of turns.jsonl.
func (t *Turn) Row() *TurnRow {
	r := &TurnRow{
		Request: t.Request, Session: t.ID.Session, Turn: t.ID.Turn, Utterance: t.Utterance, Bounds: t.Bounds,
		Outcome: t.OutcomeKey(), Warmup: t.Warmup, FailureKind: t.FailureKind, Error: t.FailureText,
		LastMark: string(t.LastMark), TokenSource: t.TokenSource,
		Segments: []SegmentRow{}, Marks: NamedValues{}, Metrics: NamedValues{},
		Attempts: AttemptCount{t.Counters.Failures, t.Counters.Retries, t.Counters.Adopted, t.Counters.Discarded, int64(t.Counters.Saved), t.Counters.Wasted, t.Counters.Dropped},
	}
	if t.TTFS.OK {
		n := t.TTFS.N
		r.TTFS = &n
	}
	r.Flags = append(r.Flags, t.Flags...)
	for _, m := range t.Marks {
		r.Marks = append(r.Marks, NamedValue{string(m.Mark), int64(m.At)})
	}
	for _, s := range t.Segments {
		r.Segments = append(r.Segments, SegmentRow{string(s.Stage), int64(s.Start), int64(s.End), s.Setting})
	}
	for m, v := range t.Values {
		if v.OK {
			r.Metrics = append(r.Metrics, NamedValue{Metrics[m].Key, v.N})
		} else {
			r.Absent = append(r.Absent, NamedText{Metrics[m].Key, v.Why})
		}
	}
	for _, s := range t.Slacks {
		r.Slacks = append(r.Slacks, SlackRow{string(s.Mark), int64(s.At), string(s.Stage), int64(s.Slack)})
	}
	for _, w := range t.WhatIfs {
		r.WhatIfs = append(r.WhatIfs, WhatIfTurn{string(w.Stage), int64(w.TTFS)})
	}
	for _, p := range t.Problems {
		r.Faults = append(r.Faults, p.Text)
	}
	return r
}

// AppendJSON appends the turn as one line, without its end, to dst.
func (r *TurnRow) AppendJSON(dst []byte) ([]byte, error) {
	line, err := json.Marshal(r)
	return append(dst, line...), err
}
