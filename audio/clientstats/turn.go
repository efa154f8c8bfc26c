package clientstats

import (
	"cmp"
	"slices"
	"time"
)

// minAround is the shortest window around the first sound: NetEq moves in steps of
// 10 ms, and shorter ones hold too few packets.
const minAround = 200 * time.Millisecond

// A Turn is what a client did in one turn.
type Turn struct {
	Line
	Whole Window // from the end of the user's speech to the end of the turn

	// First is the window around the first sound, as narrow as the samples let it
	// be; Whole where the first sound is not known.
	First Window
}

// Turns works out the turns of lines, each with the samples of its call that lie
// before. They keep their order.
func Turns(lines []Line) []Turn {
	before := map[int]*Sample{} // the last one of each call
	turns := make([]Turn, 0, len(lines))
	for _, l := range lines {
		samples := l.Stats.Samples
		if last := before[l.Session]; last != nil {
			samples = append([]Sample{*last}, samples...)
		} else if len(samples) == 1 {
			samples = append([]Sample{{}}, samples...) // the beginning of the call
		}
		t := Turn{Line: l}
		if n := len(samples); n == 0 {
			t.Whole.why("there are no samples")
			t.First = t.Whole
		} else {
			t.windows(samples)
			before[l.Session] = &samples[n-1]
		}
		turns = append(turns, t)
	}
	return turns
}

func (t *Turn) windows(samples []Sample) {
	n := len(samples)
	start := 0
	if t.Stats.From != nil {
		start = max(0, atOrBefore(samples, *t.Stats.From))
	}
	if start == n-1 { // all of them were taken before the speech ended
		start = max(0, n-2)
	}
	t.Whole = Between(samples[start], samples[n-1])
	t.First = t.Whole
	if t.Stats.Sound == nil {
		return
	}
	// Half of the window lies before the sound, and half behind it.
	half := float64(minAround/2) / float64(time.Millisecond)
	from := max(0, atOrBefore(samples, *t.Stats.Sound-half))
	to := atOrBefore(samples, *t.Stats.Sound+half) + 1
	if to < n && from < to {
		t.First = Between(samples[from], samples[to])
	}
}

// atOrBefore returns the index of the last sample at or before a time, and -1 if all
// are later.
func atOrBefore(samples []Sample, at float64) int {
	i, found := slices.BinarySearchFunc(samples, at, func(s Sample, at float64) int { return cmp.Compare(s.At, at) })
	if found {
		return i
	}
	return i - 1
}

// Heard returns when the first sound was at the speaker on the agent's clock, in
// nanoseconds, and false if the client did not say.
func (t Turn) Heard() (time.Duration, bool) {
	if t.Stats.Sound == nil || t.Stats.AgentOffset == nil {
		return 0, false
	}
	return millis(*t.Stats.Sound + *t.Stats.AgentOffset), true
}

// granularity is by how much a jitter buffer may be above what it was and count as
// back: NetEq's kDelayAdjustmentGranularityMs.
const granularity = 20 * time.Millisecond

// A Loss is a stretch in which packets were lost, and what came of it.
type Loss struct {
	Session   int           `json:"session"`
	RequestID string        `json:"request_id"` // of the turn that it began in
	At        time.Duration `json:"at_ns"`      // on the client's clock: the sample before
	Length    time.Duration `json:"length_ns"`  // until the sample after which no more was lost
	Lost      int64         `json:"lost"`

	Concealed *time.Duration `json:"concealed_ns,omitempty"` // to be heard; nil, with the reason, if a part of it is not told
	Why       []string       `json:"why,omitempty"`

	Before *time.Duration `json:"buffer_before_ns,omitempty"` // the buffer, before
	Peak   *time.Duration `json:"buffer_peak_ns,omitempty"`   // the highest that it came to

	// Back is the time from the end of the loss until the buffer was within 20 ms of
	// what it was. It is as exact as Step, the
	// time between two samples. If it is nil, BackWhy says why.
	Back    *time.Duration `json:"back_ns,omitempty"`
	BackWhy string         `json:"back_why,omitempty"`
	Watched time.Duration  `json:"watched_ns"` // from the end of the loss to the last sample of the call
	Step    time.Duration  `json:"step_ns"`
}

// Losses finds the losses in the samples of all calls, in their order, and what it has
// left out between two samples.
func Losses(lines []Line) (out []Loss, left []Left) {
	type at struct {
		Sample
		id string
	}
	calls := map[int][]at{}
	var order []int
	for _, l := range lines {
		if _, ok := calls[l.Session]; !ok {
			order = append(order, l.Session)
		}
		for _, s := range l.Stats.Samples {
			calls[l.Session] = append(calls[l.Session], at{s, l.RequestID})
		}
	}
	for _, session := range order {
		samples := calls[session]
		var calm []time.Duration // buffers of late, without loss
		var open *Loss           // whose end, or whose buffer's return, is to come
		var end float64          // of open's loss
		finish := func(why string) {
			if open != nil {
				open.BackWhy, open.Watched = why, millis(samples[len(samples)-1].At-end)
				out, open = append(out, *open), nil
			}
		}
		for i := 1; i < len(samples); i++ {
			a, b := samples[i-1], samples[i]
			w := Between(a.Sample, b.Sample)
			left = AddLeft(left, w.Left...)
			if w.Lost != nil && *w.Lost > 0 {
				if open == nil {
					open = &Loss{Session: session, RequestID: b.id, At: millis(a.At), Concealed: new(time.Duration), Before: median(calm)}
				}
				open.Lost += *w.Lost
				end = b.At
				open.Length = millis(end - millisOf(open.At))
				open.Step = max(open.Step, w.Length)
			}
			if open == nil {
				if w.Buffer != nil {
					calm = append(calm, *w.Buffer)
					calm = calm[max(0, len(calm)-10):]
				}
				continue
			}
			switch {
			case w.Concealed == nil:
				open.Concealed, open.Why = nil, w.Why
			case open.Concealed != nil:
				*open.Concealed += *w.Concealed
			}
			if w.Buffer == nil {
				continue
			}
			if open.Peak == nil || *w.Buffer > *open.Peak {
				open.Peak = w.Buffer
			}
			if b.At > end && open.Before != nil && *w.Buffer <= *open.Before+granularity {
				back := millis(a.At - end)
				open.Back, open.Step = &back, max(open.Step, w.Length)
				finish("")
			}
		}
		if open != nil && open.Before == nil {
			finish("nothing was played before the loss")
		} else {
			finish("the samples end before the buffer is back")
		}
	}
	return out, left
}

func millisOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(ds []time.Duration) *time.Duration {
	if len(ds) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(ds))
	m := (s[(len(s)-1)/2] + s[len(s)/2]) / 2
	return &m
}
