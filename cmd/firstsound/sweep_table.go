package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
)

// A column is something that is shown of a cell beside its values: text for
// people, or a figure, which is followed by its 95 % interval if it has bounds.
// Programs read it by its name.
type column struct {
	title, name string
	text        func(r *report.Report) string
	figure      func(r *report.Report) quantile.Figure
	bounds      bool
}

var columns = []column{
	{title: "ok", name: "ok_turns", text: func(r *report.Report) string { return strconv.FormatInt(r.Headline.OK, 10) }},
	{title: "failed", name: "failed_turns", text: func(r *report.Report) string { return strconv.FormatInt(failedTurns(r), 10) }},
	{title: "TTFS P50", name: "ttfs_p50_ms", figure: func(r *report.Report) quantile.Figure { return r.Headline.TTFS.P50 }, bounds: true},
	{title: "P95", name: "ttfs_p95_ms", figure: func(r *report.Report) quantile.Figure { return r.Headline.TTFS.P95 }, bounds: true},
	{title: "P99", name: "ttfs_p99_ms", figure: func(r *report.Report) quantile.Figure { return r.Headline.TTFS.P99 }},
	{title: "TTFT P50", name: "ttft_p50_ms", figure: p50Of(report.MetricTTFT)},
	{title: "TPOT P50", name: "tpot_p50_ms", figure: p50Of(report.MetricTPOT)},
	{title: "TTFA P50", name: "ttfa_p50_ms", figure: p50Of(report.MetricTTFA)},
	{title: "stalled", name: "stalled_mean_ms", text: func(r *report.Report) string {
		return optional(r.Metrics[report.MetricUnderrunTime].Values.Mean, milliseconds)
	}},
	{title: "largest part", name: "largest_part", text: func(r *report.Report) string { return largestPart(r, false) }},
	{title: "of the slowest 5 %", name: "largest_part_of_slowest", text: func(r *report.Report) string { return largestPart(r, true) }},
}

func p50Of(m report.Metric) func(r *report.Report) quantile.Figure {
	return func(r *report.Report) quantile.Figure { return r.Metrics[m].Values.P50 }
}

// show returns what the column says of a run.
func (c column) show(r *report.Report) string {
	if c.figure != nil {
		return optional(c.figure(r).Value, milliseconds)
	}
	return c.text(r)
}

// interval returns the bounds of a figure as a text for people.
func interval(f quantile.Figure) string {
	if f.Value == nil || f.Low == nil && f.High == nil {
		return ""
	}
	return "[" + optional(f.Low, milliseconds) + ", " + optional(f.High, milliseconds) + "]"
}

func milliseconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e6, 'f', 1, 64) }

// optional returns – for what the sample cannot bear.
func optional(v *int64, format func(int64) string) string {
	if v == nil {
		return "–"
	}
	return format(*v)
}

// largestPart returns which stage has the largest part of the silence, at the
// median or in the slowest turns.
func largestPart(r *report.Report, tail bool) string {
	sums := map[string]int64{}
	best := "–"
	for _, row := range r.Silence.Rows {
		if tail {
			sums[row.Stage] += row.Tail
		} else {
			sums[row.Stage] += row.Median
		}
		if sums[row.Stage] > sums[best] {
			best = row.Stage
		}
	}
	return best
}

// writeCSV writes the table for programs: each bound is a column of its own, and
// what is absent is empty.
func writeCSV(w io.Writer, varies []vary, cells []cell) error {
	out := csv.NewWriter(w)
	var head []string
	for _, v := range varies {
		head = append(head, v.key)
	}
	for _, col := range columns {
		head = append(head, col.name)
		if col.bounds {
			head = append(head, col.name+"_low", col.name+"_high")
		}
	}
	rows := [][]string{head}
	for _, c := range cells {
		row := slices.Clone(c.Values)
		for _, col := range columns {
			row = append(row, strings.TrimPrefix(col.show(c.Report), "–"))
			if col.bounds {
				for _, bound := range []*int64{col.figure(c.Report).Low, col.figure(c.Report).High} {
					row = append(row, strings.TrimPrefix(optional(bound, milliseconds), "–"))
				}
			}
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}

func writeGrid(w io.Writer, varies []vary, cells []cell) error {
	var head []string
	for _, v := range varies {
		head = append(head, v.key)
	}
	for _, col := range columns {
		head = append(head, col.title)
		if col.bounds {
			head = append(head, "95 %")
		}
	}
	rows := [][]string{head}
	for _, c := range cells {
		row := slices.Clone(c.Values)
		for _, col := range columns {
			row = append(row, col.show(c.Report))
			if col.bounds {
				row = append(row, interval(col.figure(c.Report)))
			}
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(head))
	for _, row := range rows {
		for k, field := range row {
			widths[k] = max(widths[k], len([]rune(field)))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "times in ms, of ok turns; stalled is the mean per turn; – is not supported by their number\n\n")
	for _, row := range rows {
		var line strings.Builder
		for k, field := range row {
			pad := strings.Repeat(" ", widths[k]-len([]rune(field)))
			if k < len(varies) || k >= len(row)-2 { // texts to the left, numbers to the right
				line.WriteString(field + pad + "  ")
			} else {
				line.WriteString(pad + field + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for _, k := range knees(varies, cells) {
		fmt.Fprintf(&b, "\nknee at %s=%s%s: the P95 is %.1f ms there and %.1f ms at %s", k.Key, k.At, k.where(), float64(k.P95)/1e6, float64(k.LastP95)/1e6, k.Last)
	}
	for _, note := range notes(varies, cells) {
		b.WriteString("\n" + note)
	}
	if len(cells) > 0 {
		fmt.Fprintf(&b, "\nagain, one cell: %s\n", cells[0].Command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// notes returns those of the cells, with the cells' settings before them.
func notes(varies []vary, cells []cell) []string {
	var all []string
	for _, c := range cells {
		if c.Note == "" {
			continue
		}
		var at []string
		for i, v := range varies {
			at = append(at, v.key+"="+c.Values[i])
		}
		all = append(all, strings.Join(at, " ")+": "+c.Note)
	}
	return all
}

// A knee is where a curve of P95 over a growing number bends upwards most.
type knee struct {
	Key     string   `json:"key"`
	At      string   `json:"at"`
	P95     int64    `json:"p95_ns"`
	Last    string   `json:"last"`
	LastP95 int64    `json:"last_p95_ns"`
	Others  []string `json:"others,omitempty"` // the settings of the other keys
}

func (k knee) where() string {
	if len(k.Others) == 0 {
		return ""
	}
	return " with " + strings.Join(k.Others, " ")
}

// knees returns the knees along the last key, if its values are growing numbers,
// for each combination of the others: the point farthest below the line from the
// first to the last (Kneedle: Satopää and others, 2011), where the last P95 is at
// least half as much again as the first. It takes four points.
func knees(varies []vary, cells []cell) []knee {
	last := varies[len(varies)-1]
	n := len(last.values)
	if len(cells) != len(grid(varies)) {
		return nil // some are missing
	}
	x := make([]float64, n)
	for i, v := range last.values {
		var err error
		if x[i], err = strconv.ParseFloat(v, 64); err != nil || i > 0 && x[i] <= x[i-1] {
			return nil
		}
	}
	var found []knee
	for from := 0; n >= 4 && from+n <= len(cells); from += n {
		row := cells[from : from+n]
		y := make([]float64, n)
		for i, c := range row {
			if c.Report.Headline.TTFS.P95.Value == nil {
				y = nil
				break
			}
			y[i] = float64(*c.Report.Headline.TTFS.P95.Value)
		}
		if y == nil || y[n-1] < 1.5*y[0] {
			continue
		}
		at, deepest := 0, 0.0
		for i := range x {
			below := (x[i]-x[0])/(x[n-1]-x[0]) - (y[i]-y[0])/(y[n-1]-y[0])
			if below > deepest+1e-12 {
				at, deepest = i, below
			}
		}
		if deepest == 0 || math.IsNaN(deepest) {
			continue
		}
		k := knee{Key: last.key, At: last.values[at], P95: int64(y[at]), Last: last.values[n-1], LastP95: int64(y[n-1])}
		for i, v := range varies[:len(varies)-1] {
			k.Others = append(k.Others, v.key+"="+row[0].Values[i])
		}
		found = append(found, k)
	}
	return found
}
