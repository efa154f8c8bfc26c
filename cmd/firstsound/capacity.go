package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// A goal is what a metric's quantile has to stay below.
type goal struct {
	metric   report.Metric
	quantile string
	limit    time.Duration
	orEqual  bool
	text     string
}

var goalForm = regexp.MustCompile(`^\s*([a-z_]+)\.(p50|p95|p99)\s*(<=?)\s*([0-9.]+[a-zµ]+)\s*$`)

// parseGoal reads "ttfs.p95<900ms".
func parseGoal(text string) (goal, error) {
	m := goalForm.FindStringSubmatch(text)
	if m == nil {
		return goal{}, usagef("--target %s: write METRIC.QUANTILE<TIME, such as ttfs.p95<900ms or ttft.p95<300ms", text)
	}
	limit, err := time.ParseDuration(m[4])
	if err != nil {
		return goal{}, usagef("--target %s: %q is not a duration", text, m[4])
	}
	g := goal{quantile: m[2], limit: limit, orEqual: m[3] == "<=", text: text}
	var names []string
	for i := range report.Metrics {
		name, isTime := strings.CutSuffix(report.Metrics[i].Key, "_ns")
		if isTime {
			names = append(names, name)
		}
		if name == m[1] && isTime {
			g.metric = report.Metric(i)
			return g, nil
		}
	}
	return goal{}, usagef("--target %s: there is no metric %q; there are %s", text, m[1], strings.Join(names, ", "))
}

// met says whether a run meets the goal, and by which figure. A run in which more
// than one turn in a hundred failed or went unanswered does not. Warm-up is no
// part of either number.
func (g goal) met(r *report.Report) (bool, string) {
	bad, all := failedTurns(r), int64(0)
	for _, o := range r.Outcomes {
		if o.Outcome != string(report.OutcomeWarmup) {
			all += o.Turns
		}
	}
	if bad*100 > all {
		return false, fmt.Sprintf("%d of %d turns got no answer", bad, all)
	}
	d := r.Metrics[g.metric].Values
	f := map[string]quantile.Figure{"p50": d.P50, "p95": d.P95, "p99": d.P99}[g.quantile]
	if f.Value == nil {
		return false, "no " + g.quantile + ": " + f.Absent
	}
	return *f.Value < int64(g.limit) || g.orEqual && *f.Value == int64(g.limit), milliseconds(*f.Value) + " ms"
}

// capacityCmd is the command capacity with its flags.
type capacityCmd struct {
	streams
	file     string
	set      []string
	target   string
	try      []string
	most     int
	seeds    int
	headroom int
	json     bool
	made     maker
}

func newCapacityCmd(s streams) *cobra.Command {
	c := &capacityCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "capacity [SCENARIO.yaml] --target METRIC.QUANTILE<TIME",
		Short: "Find how many calls at the same time keep to a target",
		Long: `Capacity looks, by bisection, for the largest number of calls at the same time
(load.sessions) at which the target still holds, once for each of several seeds.
It answers with the median of the seeds (to 2 per cent) and their range, and with
what is left of it when headroom is kept free for peaks. A number counts as too
many as well if more than one turn in a hundred gets no answer.

All calls begin at once, so the first of each is warm-up. Capacity sets load.* and
seed itself. Ctrl-C ends the search and prints what has been found.

Only what the calls share can run out: give the scenario a server
(--set 'llm.server={gpu: h100-sxm}').`,
		Example: `  firstsound capacity --set 'llm.server={gpu: l4, model: qwen2.5-0.5b}' --target 'ttfs.p50<1s'
  firstsound capacity scenario.yaml --target 'ttft.p95<300ms' --try llm.server.replicas=2 --try cut.mode=clause`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.made = made(cmd, args, scenario.Virtual)
			if len(args) == 1 {
				c.file = args[0]
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.target, "target", "", "what has to hold: `METRIC.QUANTILE<TIME`, such as ttfs.p95<900ms")
	f.StringArrayVar(&c.set, "set", nil, "set any key of the scenario: `KEY=VALUE`")
	f.StringArrayVar(&c.try, "try", nil, "a `KEY=VALUE` whose gain is looked for as well; may be given several times")
	f.IntVar(&c.most, "max", 1024, "look no further than this many calls")
	f.IntVar(&c.seeds, "seeds", 5, "how many seeds")
	f.IntVar(&c.headroom, "headroom", 30, "per cent of the calls that are kept free for peaks")
	f.BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

// A capacity is what was found for one choice of settings.
type capacity struct {
	Settings []string `json:"settings,omitempty"`
	Seeds    int      `json:"seeds"`                  // that were searched with
	Calls    int      `json:"calls"`                  // median over the seeds
	Low      int      `json:"low"`                    // the least of them
	High     int      `json:"high"`                   // the most
	Planned  int      `json:"with_headroom"`          // of Calls
	AtMost   bool     `json:"limit_reached"`          // Calls is --max: it may be more
	Stage    string   `json:"largest_part,omitempty"` // of the silence, with the least number that was too many; only if the target is about ttfs
	Figure   string   `json:"figure_above"`           // the target's figure there
}

// A searched is what one search has found: how many calls keep to the target, and
// the report of the least number that does not; nil if all did.
type searched struct {
	calls int
	above *report.Report
}

// choices returns the settings to search with: as it is, and each of --try.
func (c *capacityCmd) choices() ([][]string, error) {
	all := [][]string{nil}
	for _, t := range c.try {
		all = append(all, []string{t})
	}
	for _, set := range slices.Concat(c.set, c.try) {
		key, _, _ := strings.Cut(set, "=")
		if key == "seed" || key == "load" || strings.HasPrefix(key, "load.") {
			return nil, usagef("%s: capacity sets load.* and seed itself; --max and --seeds bound the search", set)
		}
	}
	return all, nil
}

func (c *capacityCmd) run(ctx context.Context) error {
	if c.target == "" {
		return usagef("capacity needs a target: --target 'ttfs.p95<900ms'")
	}
	g, err := parseGoal(c.target)
	switch {
	case err != nil:
		return err
	case c.most < 1 || c.most > 100_000:
		return usagef("--max takes 1 to 100000, not %d", c.most)
	case c.seeds < 1 || c.seeds > 100:
		return usagef("--seeds takes 1 to 100, not %d", c.seeds)
	case c.headroom < 0 || c.headroom > 99:
		return usagef("--headroom takes 0 to 99 per cent, not %d", c.headroom)
	}
	choices, err := c.choices()
	if err != nil {
		return err
	}
	perCall := make([]int, len(choices))
	for i, settings := range choices { // before hours are spent on the others
		p, err := checkSettings(ctx, c.file, c.settings(settings, 1, 1, 1))
		if err != nil {
			return err
		}
		perCall[i] = p.PerCall
	}
	all := make([]*searched, len(choices)*c.seeds)
	progress := newCounter(c.streams, len(all), "searches")
	err = each(ctx, len(all), runtime.GOMAXPROCS(0), func(ctx context.Context, i int) error {
		at, seed := i/c.seeds, i%c.seeds+1
		found, err := c.search(ctx, g, func(calls int) []string { return c.settings(choices[at], calls, perCall[at], seed) })
		all[i] = found
		if err == nil {
			progress.one()
		}
		return err
	})
	progress.done()
	return c.answer(g, choices, all, err)
}

// answer writes what was found, c.seeds searches for each of choices, of which
// those are nil that err kept from ending.
func (c *capacityCmd) answer(g goal, choices [][]string, all []*searched, err error) error {
	var found []capacity
	for i, settings := range choices {
		done := slices.DeleteFunc(slices.Clone(all[i*c.seeds:(i+1)*c.seeds]), func(s *searched) bool { return s == nil })
		if len(done) > 0 {
			found = append(found, c.sum(g, settings, done))
		}
	}
	if len(found) == 0 {
		return err
	}
	if writeErr := c.write(g, found); writeErr != nil {
		return writeErr
	}
	if err != nil {
		missing := 0
		for _, s := range all {
			if s == nil {
				missing++
			}
		}
		return fmt.Errorf("%d of %d searches are missing: %w", missing, len(all), err)
	}
	return nil
}

// sum makes one answer of what was found with several seeds.
func (c *capacityCmd) sum(g goal, settings []string, done []*searched) capacity {
	var calls []int
	for _, s := range done {
		calls = append(calls, s.calls)
	}
	slices.Sort(calls)
	f := capacity{Settings: settings, Seeds: len(calls), Low: calls[0], High: calls[len(calls)-1], Calls: calls[(len(calls)-1)/2]}
	f.Planned = f.Calls * (100 - c.headroom) / 100
	f.AtMost = f.Calls == c.most
	if above := done[0].above; above != nil {
		_, f.Figure = g.met(above)
		if g.metric == report.MetricTTFS { // the stages divide the silence, and no other metric
			f.Stage = largestPart(above, g.quantile != "p50")
		}
	}
	return f
}

// settings returns those of a run with so many calls at the same time. All calls
// begin at once, so the first one of each is warm-up; then comes one more of each,
// and enough turns for the quantile to stand on.
func (c *capacityCmd) settings(choice []string, calls, perCall, seed int) []string {
	turns := perCall * calls
	return slices.Concat(c.set, choice, []string{"load.arrival=closed", "load.rate=0", "load.trace=", "load.duration=0s",
		fmt.Sprintf("load.sessions=%d", calls), fmt.Sprintf("load.turns=%d", max(2000, turns)), fmt.Sprintf("load.warmup=%d", turns), fmt.Sprintf("seed=%d", seed)})
}

// search returns the largest number of calls that meets the goal, to 2 per cent.
func (c *capacityCmd) search(ctx context.Context, g goal, settings func(calls int) []string) (*searched, error) {
	found := &searched{}
	holds := func(n int) (bool, error) {
		r, err := simulate(ctx, c.file, settings(n))
		if err != nil {
			return false, err
		}
		ok, _ := g.met(r)
		if ok {
			found.calls = n
		} else {
			found.above = r
		}
		return ok, nil
	}
	high := 1 // does not hold, in the end
	for {
		ok, err := holds(high)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if high == c.most {
			return found, nil
		}
		high = min(2*high, c.most)
	}
	for high-found.calls > max(1, found.calls/50) {
		mid := (found.calls + high) / 2
		ok, err := holds(mid)
		if err != nil {
			return nil, err
		}
		if !ok {
			high = mid
		}
	}
	return found, nil
}

func (c *capacityCmd) write(g goal, found []capacity) error {
	if c.json {
		return writeIndented(c.out, signed{c.made, struct {
			Format   string     `json:"format"`
			Target   string     `json:"target"`
			Headroom int        `json:"headroom_percent"`
			Seeds    int        `json:"seeds"`
			Found    []capacity `json:"found"`
		}{"firstsound.capacity/1", g.text, c.headroom, c.seeds, found}})
	}
	var b strings.Builder
	c.print(&b, g, found)
	_, err := io.WriteString(c.out, b.String())
	return err
}

// print writes the answers for people. Not every choice has to be there; the first
// is the scenario as it is, since its searches were begun first.
func (c *capacityCmd) print(w io.Writer, g goal, found []capacity) {
	seeds := fmt.Sprintf("median of %d seeds, and their range", c.seeds)
	if c.seeds == 1 {
		seeds = "with one seed"
	}
	fmt.Fprintf(w, "calls at the same time that keep to %s: %s\n\n", g.text, seeds)
	base := found[0]
	for _, f := range found {
		name := strings.Join(f.Settings, " ")
		if name == "" {
			name = "as it is"
		}
		high := strconv.Itoa(f.High)
		if f.High == c.most {
			high += " or more"
		}
		fmt.Fprintf(w, "  %-40s %6d   %d … %s   plan for %d (%d %% headroom)", name, f.Calls, f.Low, high, f.Planned, c.headroom)
		if f.Seeds < c.seeds {
			fmt.Fprintf(w, "   of %d seeds only", f.Seeds)
		}
		if f.Settings != nil && base.Settings == nil && !base.AtMost {
			fmt.Fprintf(w, "   %+d%s", f.Calls-base.Calls, orMore(f))
		}
		fmt.Fprintln(w)
		figure := f.Figure
		if f.Stage != "" {
			figure += ", most of it in " + f.Stage
		}
		switch {
		case f.AtMost:
			fmt.Fprintf(w, "  %-40s even %d calls keep to it: --max for more. Do the calls share anything that can run out, such as llm.server?\n", "", f.Calls)
		case f.Calls == 0 && f.Figure != "":
			fmt.Fprintf(w, "  %-40s not even one call keeps to it: %s\n", "", figure)
		case f.Figure != "":
			fmt.Fprintf(w, "  %-40s above that: %s\n", "", figure)
		}
	}
	if len(found) == 1 || base.Settings != nil {
		return
	}
	best := slices.MaxFunc(found[1:], func(a, b capacity) int { return a.Calls - b.Calls })
	switch {
	case base.AtMost:
		fmt.Fprintf(w, "\nThe scenario as it is reaches --max already: what these buy is not known.\n")
	case best.Calls > base.Calls:
		fmt.Fprintf(w, "\n%s buys most: %d calls%s.\n", strings.Join(best.Settings, " "), best.Calls-base.Calls, cmp.Or(orMore(best), " more"))
	default:
		fmt.Fprintf(w, "\nNone of these buys anything.\n")
	}
}

// orMore is what follows a gain that --max has cut off.
func orMore(f capacity) string {
	if f.AtMost {
		return " or more"
	}
	return ""
}
