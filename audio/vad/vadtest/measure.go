package vadtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/audio/vad/engine"
	"firstsound/clocks"
)

// A Detector says what there is to notice in a recording.
type Detector struct {
	Name    string
	Frame   time.Duration // what it judges at a time
	Notices func(u *audio.Utterance) ([]engine.Notice, error)
}

// Figures are how well a detector did over recordings.
type Figures struct {
	Name        string
	Recordings  int
	Missed      int             // recordings in which it noticed nothing
	Start, End  []time.Duration // errors against the true bounds, sorted; late is positive
	FalseStarts int             // beginnings more than 100 ms before the true one
	FalseStops  int             // stops with speech after them
	PerFrame    time.Duration   // what a judgement cost on average
}

// early is how long before the true beginning one is false.
const early = 100 * time.Millisecond

// Measure hears all utterances with d, and takes the time on c.
func Measure(c clocks.Clock, d Detector, all []*audio.Utterance) (Figures, error) {
	f := Figures{Name: d.Name, Recordings: len(all)}
	var took, heard time.Duration
	for _, u := range all {
		before := c.Now()
		notices, err := d.Notices(u)
		took += c.Now() - before
		heard += u.Sound.Duration()
		if err != nil {
			return f, fmt.Errorf("%s: %w", u.ID, err)
		}
		if len(notices) == 0 {
			f.Missed++
			continue
		}
		f.Start = append(f.Start, notices[0].Offset-u.Start)
		f.End = append(f.End, notices[len(notices)-1].Offset-u.End)
		for i, n := range notices {
			if n.Speech && n.Offset < u.Start-early {
				f.FalseStarts++
			}
			if !n.Speech && i+1 < len(notices) {
				f.FalseStops++
			}
		}
	}
	slices.Sort(f.Start)
	slices.Sort(f.End)
	if frames := heard / d.Frame; frames > 0 {
		f.PerFrame = took / frames
	}
	return f, nil
}

// Table writes figures as lines.
func Table(all []Figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %4s %6s  %-22s %-22s %12s %11s %9s\n", "detector", "n", "missed", "start error ms", "end error ms", "false starts", "false stops", "per frame")
	for _, f := range all {
		fmt.Fprintf(&b, "%-24s %4d %6d  %-22s %-22s %12d %11d %9v\n", f.Name, f.Recordings, f.Missed, spread(f.Start), spread(f.End), f.FalseStarts, f.FalseStops, f.PerFrame.Round(100*time.Nanosecond))
	}
	return b.String()
}

// spread returns minimum, median and maximum in ms.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%+.0f", float64(d)/1e6) }
	return ms(d[0]) + " / " + ms(d[len(d)/2]) + " / " + ms(d[len(d)-1])
}
