package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"firstsound/asr/asrbench"
	"firstsound/clocks/quantile"
	"firstsound/tts/ttsbench"
)

// figureTable is a table of quantiles, a row for each metric.
type figureTable struct{ *tabwriter.Writer }

func newFigureTable(w io.Writer) figureTable {
	t := figureTable{tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fmt.Fprintln(t, "\tP50\t95 % interval\tP95\tP99\tmax\tn\t")
	return t
}

// row writes a metric; show writes a value with its unit.
func (t figureTable) row(name string, d quantile.Distribution, show func(int64) string) {
	if d.N == 0 {
		fmt.Fprintf(t, "%s\t–\t–\t–\t–\t–\t0\t\n", name)
		return
	}
	value := func(f quantile.Figure) string {
		if f.Value == nil {
			return "–"
		}
		return show(*f.Value)
	}
	between := "–"
	if d.P50.Low != nil && d.P50.High != nil {
		between = show(*d.P50.Low) + " … " + show(*d.P50.High)
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", name, value(d.P50), between, value(d.P95), value(d.P99), show(*d.Max), d.N)
}

func inMillis(ns int64) string { return millis(time.Duration(ns)) }

// outcomeCounts writes how often there was each outcome.
func outcomeCounts[O ~string](order []O, all map[O]int) string {
	var parts []string
	for _, o := range order {
		if n := all[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}

// writeLevel writes the head of a level, and what went wrong.
func writeLevel(w io.Writer, concurrency, trials int, outcomes string, failures map[string]int) {
	fmt.Fprintf(w, "\n%d at a time · %d trials: %s\n", concurrency, trials, outcomes)
	for _, text := range slices.Sorted(maps.Keys(failures)) {
		fmt.Fprintf(w, "!  %d × %s\n", failures[text], printable(text))
	}
}

// A coldPart is a time of the first trial; a nil one is left out.
type coldPart struct {
	name string
	d    *time.Duration
}

// writeCold writes the first trial (or turn) of a run, which stands apart.
func writeCold(w io.Writer, what, outcome string, parts ...coldPart) {
	fmt.Fprintf(w, "cold, the first %s, whose times are in no other figure: %s", what, outcome)
	for _, p := range parts {
		if p.d != nil {
			fmt.Fprintf(w, ", %s %s", p.name, millis(*p.d))
		}
	}
	fmt.Fprintln(w)
}

const partialTrials = "!  partial: the run was interrupted; these are the trials until then"

// writeBenchASR writes the report of bench asr for people.
func writeBenchASR(w io.Writer, r *asrbench.Report) error {
	fmt.Fprintf(w, "bench asr  %s · recordings: %s · the listener says after %v that the speech is over\n", r.Provider, cmp.Or(r.Corpus, "built in"), time.Duration(r.Stop))
	if r.Partial {
		fmt.Fprintln(w, partialTrials)
	}
	if c := r.Cold; c != nil {
		writeCold(w, "trial", string(c.Outcome), coldPart{"connected in", c.Connect}, coldPart{"finalization", c.Final})
	}
	for _, l := range r.Levels {
		writeLevel(w, l.Concurrency, l.Trials, outcomeCounts(asrbench.Outcomes, l.Outcomes), l.Errors)
		writeASRLevel(w, l, r.Characters)
	}
	if len(r.Levels) == 0 {
		return nil
	}
	final := r.Levels[0].Final
	if final.P99.Value == nil {
		_, err := fmt.Fprintf(w, "\nfor Pipecat: no ttfs_p99_latency: a P99 takes 100 trials, and there are %d; --rounds repeats the recordings\n", final.N)
		return err
	}
	_, err := fmt.Fprintf(w, "\nfor Pipecat, at a concurrency of %d:\nttfs_p99_latency=%.2f\n", r.Levels[0].Concurrency, float64(*final.P99.Value)/1e9)
	return err
}

func writeASRLevel(w io.Writer, l *asrbench.Level, characters bool) {
	if l.Late > 0 {
		fmt.Fprintf(w, "!  late: in %d trials sound was sent more than %v after it was there (P99); their figures are that much too long\n", l.Late, asrbench.MaxLate)
	}
	if l.Unpaced > 0 {
		fmt.Fprintf(w, "!  unpaced: in %d trials sound was sent faster than it was said; their figures say nothing about live speech\n", l.Unpaced)
	}
	t := newFigureTable(w)
	t.row("connecting", l.Connect, inMillis)
	t.row("first partial, from the start of the speech", l.FirstPartial, inMillis)
	t.row("finalization, from its true end", l.Final, inMillis)
	t.row("… from the listener's word", l.AfterStop, inMillis)
	t.row("endpoint, from its true end", l.Endpoint, inMillis)
	t.row("sound late by (P99 of each trial)", l.Lateness, inMillis)
	t.Flush()
	if l.EarlyFinals > 0 || l.EarlyEnds > 0 {
		fmt.Fprintf(w, "early, before the end of the speech: a final in %d trials, an endpoint in %d; they are in the figures\n", l.EarlyFinals, l.EarlyEnds)
	}
	if l.WER != nil {
		name, of := "word error rate", "words"
		if characters {
			name, of = "character error rate", "characters"
		}
		fmt.Fprintf(w, "%s %.1f %%: %d substituted, %d inserted, %d missing of %d %s (empty transcripts count)\n",
			name, 100**l.WER, l.Edits.Substitutions, l.Edits.Insertions, l.Edits.Deletions, l.Edits.Words, of)
	}
}

// writeBenchTTS writes the report of bench tts for people.
func writeBenchTTS(w io.Writer, r *ttsbench.Report) error {
	fmt.Fprintf(w, "bench tts  %s · texts: %s\n", r.Provider, r.Language)
	if r.Partial {
		fmt.Fprintln(w, partialTrials)
	}
	if c := r.Cold; c != nil {
		writeCold(w, "trial", string(c.Outcome), coldPart{"connected in", c.Connect}, coldPart{"first byte", c.FirstByte}, coldPart{"heard", c.Heard})
	}
	for _, l := range r.Levels {
		writeLevel(w, l.Concurrency, l.Trials, outcomeCounts(ttsbench.Outcomes, l.Outcomes), l.Errors)
		t := newFigureTable(w)
		t.row("connection ready", l.Connect, inMillis)
		t.row("first byte", l.FirstByte, inMillis)
		t.row("first audible sample has come", l.Audible, inMillis)
		t.row("… is played, from the first byte on", l.Heard, inMillis)
		t.row("silence at the head", l.Lead, inMillis)
		t.row("real-time factor", l.RTF, func(v int64) string { return fmt.Sprintf("%.3f", float64(v)/1e6) })
		t.row("least headroom of the player", l.Ahead, inMillis)
		t.row("length of the sound", l.Length, inMillis)
		t.Flush()
		fmt.Fprintf(w, "stalls of a player that waits for nothing: %d in %d trials, %s in all\n", l.Stalls, l.Stalled, millis(l.Silence))
	}
	return nil
}
