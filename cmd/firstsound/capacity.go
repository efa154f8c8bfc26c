package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
)

// A goal is what a metric's quantile has to stay below.
type goal struct {
	metric   report.Metric
	quantile string
	limit    time.Duration
	text     string
}

var goalForm = regexp.MustCompile(`^\s*([a-z_]+)\.(p50|p95|p99)\s*<=?\s*([0-9.]+[a-zµ]+)\s*$`)

// parseGoal reads "ttfs.p95<900ms".
func parseGoal(text string) (goal, error) {
	m := goalForm.FindStringSubmatch(text)
	if m == nil {
		return goal{}, usagef("--target %s: write METRIC.QUANTILE<TIME, such as ttfs.p95<900ms or ttft.p95<300ms", text)
	}
	limit, err := time.ParseDuration(m[3])
	if err != nil {
		return goal{}, usagef("--target %s: %q is not a duration", text, m[3])
	}
	g := goal{quantile: m[2], limit: limit, text: text}
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
// than one turn in a hundred failed or went unanswered does not.
func (g goal) met(r *report.Report) (bool, string) {
	bad, all := int64(0), int64(0)
	for _, o := range r.Outcomes {
		all += o.Turns
		if strings.HasPrefix(o.Outcome, "failed") || o.Outcome == string(report.OutcomeNoReply) {
			bad += o.Turns
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
	return *f.Value < int64(g.limit), milliseconds(*f.Value) + " ms"
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
}

func newCapacityCmd(s streams) *cobra.Command {
	c := &capacityCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "capacity [SCENARIO.yaml] --target METRIC.QUANTILE<TIME",
		Short: "Find how many calls at the same time keep to a target",
		Long: `Capacity looks, by bisection, for the largest number of calls at the same time
(load.sessions) at which the target still holds, once for each of several seeds.
It answers with the median of the seeds (to 2 per cent) and their range, and with
what is left of it after headroom for peaks. A number counts as too many as well if more than one
turn in a hundred gets no answer.

Only what the calls share can run out: give the scenario a server
(--set 'llm.server={gpu: h100-sxm}').`,
		Example: `  firstsound capacity --set 'llm.server={gpu: l4, model: qwen2.5-0.5b}' --target 'ttfs.p50<1s'
  firstsound capacity scenario.yaml --target 'ttft.p95<300ms' --try llm.server.replicas=2 --try cut.mode=clause`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	f.IntVar(&c.headroom, "headroom", 30, "per cent that are kept free for peaks")
	f.BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

// A capacity is what was found for one choice of settings.
type capacity struct {
	Settings []string `json:"settings,omitempty"`
	Calls    int      `json:"calls"`         // median over the seeds
	Low      int      `json:"low"`           // the least of them
	High     int      `json:"high"`          // the most
	Planned  int      `json:"with_headroom"` // of Calls
	AtMost   bool     `json:"limit_reached"` // the search ended at --max: it may be more
	Stage    string   `json:"largest_part"`  // of the silence, one call above capacity
	Figure   string   `json:"figure_above"`  // what the target's figure is there
	perSeed  []int
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
	case c.headroom < 0 || c.headroom > 1000:
		return usagef("--headroom takes 0 to 1000 per cent, not %d", c.headroom)
	}
	choices := [][]string{nil}
	for _, t := range c.try {
		choices = append(choices, []string{t})
	}
	found := make([]capacity, len(choices))
	for i := range found {
		found[i] = capacity{Settings: choices[i], perSeed: make([]int, c.seeds)}
	}
	var mu sync.Mutex
	progress := newCounter(c.streams, len(choices)*c.seeds, "searches")
	err = each(ctx, len(choices)*c.seeds, runtime.GOMAXPROCS(0), func(ctx context.Context, i int) error {
		at, seed := i/c.seeds, i%c.seeds
		n, above, err := c.search(ctx, g, choices[at], seed+1)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found[at].perSeed[seed] = n
		if above == nil {
			found[at].AtMost = true
		} else if seed == 0 {
			found[at].Stage = largestPart(above, g.quantile != "p50")
			_, found[at].Figure = g.met(above)
		}
		progress.one()
		return nil
	})
	progress.done()
	if err != nil {
		return err
	}
	for i := range found {
		found[i].sum(c.headroom)
	}
	if c.json {
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Format   string     `json:"format"`
			Target   string     `json:"target"`
			Headroom int        `json:"headroom_percent"`
			Seeds    int        `json:"seeds"`
			Found    []capacity `json:"found"`
		}{"firstsound.capacity/1", g.text, c.headroom, c.seeds, found})
	}
	c.print(g, found)
	return nil
}

func (f *capacity) sum(headroom int) {
	s := slices.Sorted(slices.Values(f.perSeed))
	f.Low, f.High, f.Calls = s[0], s[len(s)-1], s[(len(s)-1)/2]
	f.Planned = int(math.Floor(float64(f.Calls) / (1 + float64(headroom)/100)))
}

// search returns the largest number of calls that meets the goal, to 2 per cent,
// and the report of one that does not; nil if even the most does.
func (c *capacityCmd) search(ctx context.Context, g goal, settings []string, seed int) (int, *report.Report, error) {
	var above *report.Report
	holds := func(n int) (bool, error) {
		// Everybody's first call is warm-up, since all of them begin at once; then
		// one more call each, and enough turns for the quantile to stand on.
		turns := max(2000, 4*n)
		all := slices.Concat(c.set, settings, []string{"load.arrival=closed", "load.rate=0",
			"load.sessions=" + strconv.Itoa(n), "load.turns=" + strconv.Itoa(turns), "load.warmup=" + strconv.Itoa(4*n), "seed=" + strconv.Itoa(seed)})
		r, err := simulate(ctx, c.file, all)
		if err != nil {
			return false, err
		}
		ok, _ := g.met(r)
		if !ok {
			above = r
		}
		return ok, nil
	}
	low, high := 0, 1 // low holds, high does not
	for {
		ok, err := holds(high)
		if err != nil {
			return 0, nil, err
		}
		if !ok {
			break
		}
		if low = high; high == c.most {
			return high, nil, nil
		}
		high = min(2*high, c.most)
	}
	for high-low > max(1, low/50) { // to 2 per cent
		mid := (low + high) / 2
		ok, err := holds(mid)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return low, above, nil
}

func (c *capacityCmd) print(g goal, found []capacity) {
	fmt.Fprintf(c.out, "calls at the same time that keep to %s: median of %d seeds, and their range\n\n", g.text, c.seeds)
	base := found[0].Calls
	for _, f := range found {
		name := strings.Join(f.Settings, " ")
		if name == "" {
			name = "as it is"
		}
		fmt.Fprintf(c.out, "  %-40s %6d   %d … %d   plan for %d (%d %% headroom)", name, f.Calls, f.Low, f.High, f.Planned, c.headroom)
		if f.Settings != nil {
			fmt.Fprintf(c.out, "   %+d", f.Calls-base)
		}
		fmt.Fprintln(c.out)
		switch {
		case f.AtMost:
			fmt.Fprintf(c.out, "  %-40s even %d calls keep to it: --max for more. Do the calls share anything that can run out, such as llm.server?\n", "", f.Calls)
		case f.Figure != "":
			fmt.Fprintf(c.out, "  %-40s above that: %s, most of it in %s\n", "", f.Figure, f.Stage)
		}
	}
	if len(found) > 1 {
		best := slices.MaxFunc(found[1:], func(a, b capacity) int { return a.Calls - b.Calls })
		if best.Calls > base {
			fmt.Fprintf(c.out, "\n%s buys most: %d calls more.\n", strings.Join(best.Settings, " "), best.Calls-base)
		} else {
			fmt.Fprintf(c.out, "\nNone of these buys anything.\n")
		}
	}
}
