package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	llmfigures "firstsound/llm/figures"
	"firstsound/llm/record"
)

// showBench shows a run of bench llm.
func (c *showCmd) showBench(dir string) error {
	if err := c.bench.check(); err != nil {
		return err
	}
	if err := c.logs.check(); err != nil {
		return err
	}
	d, err := openLLMFolder(dir)
	if err != nil {
		return err
	}
	goodput, targets := c.bench.goodput, c.bench.targets
	if len(goodput) == 0 {
		goodput = d.run.Goodput
	}
	if len(targets) == 0 {
		targets = d.run.Targets
	}
	options, gates, err := c.bench.options(goodput, targets)
	if err != nil {
		return err
	}
	if len(c.logs.files) > 0 {
		if err := d.join(&c.logs); err != nil {
			return err
		}
	}
	if c.reads {
		if c.against != "" || len(gates) > 0 {
			return usagef("--reads shows no figures: leave out --against and --gate")
		}
		return c.showReads(d)
	}
	result, err := d.result(options)
	if err != nil {
		return err
	}
	for _, w := range d.warnings {
		if !strings.HasPrefix(w, "the run is ") { // the report has it
			fmt.Fprintf(c.streams.err, "warning: %s\n", w)
		}
	}
	if c.against != "" {
		report := result.summary.Report(result.info)
		if err := c.compare(dir, report, options); err != nil {
			return err
		}
		return passGates(report, gates)
	}
	report, err := c.bench.print(c.streams, result)
	if err != nil {
		return err
	}
	return passGates(report, gates)
}

// compare holds the run against another one.
func (c *showCmd) compare(dir string, b *llmfigures.Report, o llmfigures.Options) error {
	if _, err := os.Stat(c.against); err != nil {
		return usagef("--against: %s: there is no such run", c.against)
	}
	other, ok := isLLMFolder(c.against)
	if !ok {
		return usagef("--against: %s is no folder of bench llm", c.against)
	}
	d, err := openLLMFolder(other)
	if err != nil {
		return err
	}
	result, err := d.result(o)
	if err != nil {
		return err
	}
	a := result.summary.Report(result.info)
	comparison := llmfigures.Compare(a, b)
	if c.json {
		return writeIndented(c.streams.out, struct {
			Format string `json:"format"`
			A      string `json:"a"`
			B      string `json:"b"`
			*llmfigures.Comparison
		}{"firstsound.comparison/1", other, dir, comparison})
	}
	fmt.Fprintf(c.streams.out, "a: %s (%s, %s)\nb: %s (%s, %s)\n\n", other, cmp.Or(a.Head.Run.Started, "no date"), plural(int(a.Head.Measured), "request"), dir, cmp.Or(b.Head.Run.Started, "no date"), plural(int(b.Head.Measured), "request"))
	return comparison.WriteText(c.streams.out, c.bench.text(c.streams))
}

// showReads analyses the answers of a run again.
func (c *showCmd) showReads(d *llmFolder) error {
	if _, err := os.Stat(filepath.Join(d.path, record.ReadsFile)); err != nil {
		return usagef("%s has no %s: measure with --keep-reads", d.path, record.ReadsFile)
	}
	found, err := replayReads(d)
	if err != nil {
		return err
	}
	if c.json {
		err = writeIndented(c.streams.out, found)
	} else {
		err = found.writeText(c.streams.out)
	}
	if err == nil && found.Different > 0 {
		err = fmt.Errorf("%d of %s are not as they were recorded", found.Different, plural(found.Answers, "answer"))
	}
	return err
}

// A reanalysis is what came of analysing a run's answers again.
type reanalysis struct {
	Format    string       `json:"format"`
	Answers   int          `json:"answers"` // analysed again
	Bytes     int64        `json:"bytes"`
	NotKept   int          `json:"not_kept"` // of which not all reads are there
	Different int          `json:"different"`
	First     []difference `json:"first,omitempty"`
}

// A difference is a field that came out otherwise than it was recorded.
type difference struct {
	RequestID string `json:"request_id"`
	Field     string `json:"field"`
	Was       string `json:"was"`
	Is        string `json:"is"`
}

// maxDifferences is how many are shown.
const maxDifferences = 20

func (r *reanalysis) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s analysed again from %d bytes: ", plural(r.Answers, "answer"), r.Bytes)
	if r.Different == 0 {
		fmt.Fprintln(w, "no differences")
	} else {
		fmt.Fprintf(w, "%d differ\n", r.Different)
	}
	if r.NotKept > 0 {
		fmt.Fprintf(w, "%s left out: not all of their bytes were kept\n", plural(r.NotKept, "answer"))
	}
	for _, d := range r.First {
		fmt.Fprintf(w, "  %s  %s: was %s, is %s\n", d.RequestID, d.Field, printable(d.Was), printable(d.Is))
	}
	return nil
}
