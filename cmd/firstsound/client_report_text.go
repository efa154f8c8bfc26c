package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/quantile"
	"firstsound/page"
)

const (
	// A buffer counts as grown, or as above the reference, from here on: one and two
	// steps of NetEq's target, which moves by 20 ms.
	clientGrown = 20 * time.Millisecond
	clientAbove = 40 * time.Millisecond

	// NetEq forgets a spike of 200 ms within 5.2 s, and takes out 42 to 90 ms in a
	// second: who is watched for less may yet come back.
	clientWatched = 10 * time.Second

	// Nobody listens to an answer that comes to the speaker so long after it was sent.
	clientFar = time.Minute
)

// conclude works out what the turns come to, and what is found.
func (r *clientReport) conclude() {
	const keep = 1 << 16
	var series [2][3]*quantile.Series
	for i := range series {
		for j := range series[i] {
			series[i][j] = quantile.New(keep)
		}
	}
	add := func(s *quantile.Series, d *time.Duration) {
		if d != nil {
			s.Add(int64(*d))
		}
	}
	var points []quantile.Point
	adds := quantile.New(keep)
	firstOf := map[int]bool{} // calls whose first turn has been seen
	answers := int64(0)
	lowest, highest := 0, 0
	for _, t := range r.Turns {
		later := 0
		if firstOf[t.Session] {
			later = 1
		}
		firstOf[t.Session] = true
		if t.Sent != nil {
			answers++
		}
		g := series[later]
		add(g[0], t.Buffer)
		add(g[1], t.Adds)
		add(g[2], t.Speaker)
		add(adds, t.Adds)
		if later == 1 && t.Buffer != nil {
			points = append(points, quantile.Point{Call: t.Session, X: float64(t.Turn), Y: float64(*t.Buffer)})
			if lowest == 0 || t.Turn < lowest {
				lowest = t.Turn
			}
			highest = max(highest, t.Turn)
		}
		if w := t.Whole; w != nil {
			for _, p := range []struct{ sum, part **time.Duration }{{&r.Concealed, &w.Concealed}, {&r.Stretched, &w.Stretched}, {&r.Squeezed, &w.Squeezed}} {
				switch {
				case *p.part == nil:
				case *p.sum == nil:
					d := **p.part
					*p.sum = &d
				default:
					**p.sum += **p.part
				}
			}
		}
		if w := t.Whole; w == nil || w.Concealed == nil || w.Stretched == nil || w.Squeezed == nil {
			r.Unsummed++
		}
	}
	group := func(s [3]*quantile.Series) clientGroup {
		return clientGroup{s[0].Distribution(), s[1].Distribution(), s[2].Distribution()}
	}
	r.First, r.Later = group(series[0]), group(series[1])
	r.Growth = quantile.Slope(points)
	r.find(adds.Distribution(), highest-lowest)
	r.doubt(adds.N(), answers)
}

// doubt says what cannot be told from n answers that are held against the reference, of
// all answers.
func (r *clientReport) doubt(n, answers int64) {
	if r.unknown() {
		r.undecided("no turn has getStats of the jitter buffer")
		return
	}
	if 2*n <= answers { // the median of all may be anything
		r.undecided("only %d of %s can be held against the reference", n, plural(int(answers), "answer"))
	}
	if need := clientNeeded(); n < need {
		r.undecided("too few turns to tell whether the buffer is above the reference: there are %d, and %d are needed", n, need)
	}
	if g := r.Growth; g.Low == nil {
		r.undecided("too few turns to tell whether the buffer grows: there are %d after the first one of their call, and %d in one call are enough", g.Turns, clientGrowthTurns)
	}
}

// clientGrowthTurns is how many turns of one call have enough pairs for the interval of
// a slope: see quantile.Slope.
const clientGrowthTurns = 6

// clientNeeded returns how many turns have a median with a lower bound.
func clientNeeded() int64 {
	for n := int64(1); ; n++ {
		if low, _ := quantile.Ranks(n, 0.5); low >= 1 {
			return n
		}
	}
}

// find says what a client without faults does not do.
func (r *clientReport) find(adds quantile.Distribution, turns int) {
	found := func(name, format string, args ...any) {
		r.Findings = append(r.Findings, clientFinding{name, fmt.Sprintf(format, args...)})
	}
	if g := r.Growth; g.Low != nil && *g.Low > 0 && *g.Slope*float64(turns) > float64(clientGrown) {
		found("buffer_grows", "the buffer grows by %.1f ms a turn (95 %%: %.1f to %.1f): look for a sender whose timestamps stand while it pauses, or for a clock that drifts",
			*g.Slope/1e6, *g.Low/1e6, *g.High/1e6)
	}
	if p := adds.P50; p.Low != nil && time.Duration(*p.Low) > clientAbove {
		found("buffer_above_reference", "the buffer holds %s ms more than %s in the median turn (95 %%: %s to %s)",
			clientMillis(time.Duration(*p.Value)), r.Reference, clientMillis(time.Duration(*p.Low)), clientMillis(time.Duration(*p.High)))
	}
	for _, l := range r.Losses {
		if l.Back == nil && l.Watched >= clientWatched && l.Before != nil && l.Peak != nil && *l.Peak > *l.Before+clientGrown {
			found("buffer_stays_after_loss", "after %s in %s the buffer went from %s to %s ms and was not back %s s later",
				plural(int(l.Lost), "lost packet"), page.Clean(l.RequestID), clientMillis(*l.Before), clientMillis(*l.Peak), fmt.Sprintf("%.1f", l.Watched.Seconds()))
		}
	}
}

// unknown says that the client has told nothing of its jitter buffer.
func (r *clientReport) unknown() bool { return r.Later.Buffer.N+r.First.Buffer.N == 0 }

// pass returns an error if the client does not pass the gate.
func (r *clientReport) pass() error {
	var why []string
	if len(r.Findings) > 0 {
		var names []string
		for _, f := range r.Findings {
			names = append(names, f.Name)
		}
		why = append(why, "found "+strings.Join(names, ", "))
	}
	if len(r.Undecided) > 0 {
		why = append(why, "not decided: "+strings.Join(r.Undecided, "; "))
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("gate: %s", strings.Join(why, "; "))
}

func clientMillis(d time.Duration) string { return page.Tenths(int64(d)) }

func clientOrDash(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return clientMillis(*d)
}

// writeText prints the report for people.
func (r *clientReport) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s, %d with getStats; the buffer is held against %s\n\n", plural(len(r.Turns), "turn"), plural(r.Calls, "call"), r.Told, r.Reference)
	b.WriteString("from the first sound on the wire, in ms\n")
	fmt.Fprintf(&b, "%-7s%9s%9s%9s%9s%9s%9s%9s%6s%9s%9s%9s  %s\n", "turn", "network", "buffer", "clean", "device", "rest", "speaker", "target", "lost", "made up", "stretch", "squeeze", "request")
	for _, t := range r.Turns {
		var target, made, stretched, squeezed *time.Duration
		lost := "-"
		if win := t.Whole; win != nil {
			target, made, stretched, squeezed = win.Target, win.Concealed, win.Stretched, win.Squeezed
			if win.Lost != nil {
				lost = fmt.Sprint(*win.Lost)
			}
		}
		fmt.Fprintf(&b, "%-7s", fmt.Sprintf("%d.%d", t.Session, t.Turn))
		for _, d := range []*time.Duration{t.Network, t.Buffer, t.Clean, t.Device, t.Rest, t.Speaker, target} {
			fmt.Fprintf(&b, "%9s", clientOrDash(d))
		}
		fmt.Fprintf(&b, "%6s%9s%9s%9s  %s\n", lost, clientOrDash(made), clientOrDash(stretched), clientOrDash(squeezed), page.Clean(t.RequestID))
	}
	b.WriteString("\n")
	for _, g := range []struct {
		name string
		clientGroup
	}{{"first turns", r.First}, {"later turns", r.Later}} {
		fmt.Fprintf(&b, "%-14s", g.name)
		for _, d := range []struct {
			name string
			quantile.Distribution
		}{{"buffer", g.Buffer}, {"above the reference", g.Adds}, {"speaker", g.Speaker}} {
			fmt.Fprintf(&b, "%s P50 %s  ", d.name, figureMillis(d.P50))
		}
		fmt.Fprintf(&b, "ms, n %d\n", g.Buffer.N)
	}
	r.writeGrowth(&b)
	r.writeLosses(&b)
	for _, l := range r.LeftOut {
		fmt.Fprintf(&b, "left out      %s\n", page.Clean(l.String()))
	}
	if r.JoinError != nil {
		fmt.Fprintf(&b, "the clocks of client and agent are joined to within %s ms\n", clientMillis(*r.JoinError))
	}
	b.WriteString("\n")
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "! %s: %s\n", f.Name, f.Text)
	}
	for _, why := range r.Undecided {
		fmt.Fprintf(&b, "? not decided: %s\n", why)
	}
	if len(r.Findings)+len(r.Undecided) == 0 {
		b.WriteString("nothing was found that a client without faults does not do\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func figureMillis(f quantile.Figure) string {
	if f.Value == nil {
		return "-"
	}
	return clientMillis(time.Duration(*f.Value))
}

func (r *clientReport) writeGrowth(b *strings.Builder) {
	g := r.Growth
	switch {
	case g.Slope == nil:
		b.WriteString("growth        of the buffer: too few turns after the first one\n")
	case g.Low == nil:
		fmt.Fprintf(b, "growth        of the buffer %+.1f ms a turn; too few turns for an interval\n", *g.Slope/1e6)
	default:
		shown := "; no growth is shown"
		if *g.Low > 0 {
			shown = ""
		}
		fmt.Fprintf(b, "growth        of the buffer %+.1f ms a turn, 95 %%: %+.1f to %+.1f%s\n", *g.Slope/1e6, *g.Low/1e6, *g.High/1e6, shown)
	}
}

func (r *clientReport) writeLosses(b *strings.Builder) {
	switch {
	case len(r.Losses) > 0:
	case slices.ContainsFunc(r.Turns, func(t *clientTurn) bool { return t.Whole != nil && t.Whole.Lost != nil }):
		b.WriteString("loss          none\n")
	default:
		b.WriteString("loss          not known: no turn tells packetsLost\n")
	}
	for _, l := range r.Losses {
		fmt.Fprintf(b, "loss          %s in %s: %s ms made up, buffer %s, at most %s ms, ", plural(int(l.Lost), "packet"), page.Clean(l.RequestID),
			clientOrDash(l.Concealed), clientOrDash(l.Before), clientOrDash(l.Peak))
		if l.Back == nil {
			fmt.Fprintf(b, "not back: %s\n", l.BackWhy)
		} else {
			fmt.Fprintf(b, "back after %s ms (seen every %s)\n", clientMillis(*l.Back), l.Step.Round(time.Millisecond))
		}
	}
	fmt.Fprintf(b, "in all        %s ms made up, %s stretched, %s squeezed", clientOrDash(r.Concealed), clientOrDash(r.Stretched), clientOrDash(r.Squeezed))
	if r.Unsummed > 0 {
		fmt.Fprintf(b, "; %d of %s tell not all of it", r.Unsummed, plural(len(r.Turns), "turn"))
	}
	b.WriteString("\n")
}
