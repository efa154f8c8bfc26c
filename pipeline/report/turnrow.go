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
	Request     string       `json:"request_id,omitempty"`
	Session     int          `json:"session"`
	Turn        int          `json:"turn"`
	Utterance   string       `json:"utterance,omitempty"`
	Bounds      string       `json:"bounds,omitempty"` // annotated or detected
	Outcome     string       `json:"outcome"`
	Warmup      bool         `json:"warmup,omitempty"`
	FailureKind string       `json:"failure_kind,omitempty"`
	Error       string       `json:"error,omitempty"`
	LastMark    string       `json:"last_mark,omitempty"` // of a turn without first_sound
	TTFS        *int64       `json:"ttfs_ns,omitempty"`   // signed
	Marks       NamedValues  `json:"marks"`               // ns since the run began, in the order of a plain cascade
	Segments    []SegmentRow `json:"segments"`            // in order; they sum to ttfs_ns
	Metrics     NamedValues  `json:"metrics"`
	Absent      NamedTexts   `json:"absent,omitempty"`
	TokenSource string       `json:"token_source,omitempty"`
	Slacks      []SlackRow   `json:"slacks,omitempty"`  // what first_sound waited for off its path
	WhatIfs     []WhatIfTurn `json:"what_if,omitempty"` // by stage of the path
	Attempts    AttemptCount `json:"attempts"`
	Flags       []Flag       `json:"flags,omitempty"`
	Faults      []string     `json:"faults,omitempty"`
}

// A SegmentRow is a piece of the critical path.
type SegmentRow struct {
	Stage   string `json:"stage"`
	Start   int64  `json:"start_ns"`
	End     int64  `json:"end_ns"`
	Setting string `json:"setting,omitempty"`
}

// A SlackRow is a mark off the critical path.
type SlackRow struct {
	Mark  string `json:"mark"`
	At    int64  `json:"at_ns"`
	Stage string `json:"stage"`
	Slack int64  `json:"slack_ns"`
}

// A WhatIfTurn is the turn's TTFS if one stage were faster.
type WhatIfTurn struct {
	Stage string `json:"stage"`
	TTFS  int64  `json:"ttfs_ns"`
}

// An AttemptCount counts the attempts of a turn.
type AttemptCount struct {
	Failures  int   `json:"failed"`
	Retries   int   `json:"retries"`
	Adopted   int   `json:"speculative_adopted"`
	Discarded int   `json:"speculative_discarded"`
	Saved     int64 `json:"saved_ns"`
	Wasted    int64 `json:"tokens_wasted"`
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
		Attempts: AttemptCount{t.Counters.Failures, t.Counters.Retries, t.Counters.Adopted, t.Counters.Discarded, int64(t.Counters.Saved), t.Counters.Wasted},
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
