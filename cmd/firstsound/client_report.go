package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"firstsound/audio/clientstats"
	"firstsound/clocks/quantile"
	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
)

// clientsFile is what serve --out keeps of the clients' words.
const clientsFile = "clients.jsonl"

func newClientReportCmd(s streams) *cobra.Command {
	var asJSON, gate bool
	var against string
	cmd := &cobra.Command{
		Use:   "client-report FOLDER",
		Short: "Say what a WebRTC client adds to the silence, turn by turn",
		Long: `Client-report reads what "firstsound serve --out FOLDER" has kept of a client under
test: the agent's marks, and what the client's getStats said of the same turns. It
follows the first sound of each answer, joined by call and request ID:

  network   half of the round trip
  buffer    the client's jitter buffer, around the first sound
  clean     the buffer of a client without faults at that moment: the model of NetEq
            on the same stream of 20 ms packets; with --against, the client of the
            other folder in the turn of that number
  device    the sound card and what is in front of it
  rest      what nobody accounts for: the browser, blocks of 10 ms
  speaker   from the first sound on the wire to the first sound at the speaker,
            by the agent's clock

and then says whether the buffer grows from turn to turn (Sen's slope, with its
95 % interval, first turns left out), how first turns differ from later ones, and
how long the buffer takes to come back after packets were lost.

A figure that the client does not tell is "-"; --json says why. What it tells and
cannot be is left out, and counted.`,
		Example: `  firstsound serve --out results               then call it with the client under test
  firstsound client-report results
  firstsound client-report results --against results-of-the-old-version
  firstsound client-report results --gate      exit code 1 if the client does what a clean one does not`,
		Args: oneRun,
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := readClients(args[0])
			if err != nil {
				return err
			}
			if against != "" {
				other, err := readClients(against)
				if err != nil {
					return err
				}
				r.against(other, against)
			}
			r.conclude()
			for _, w := range r.Warnings {
				fmt.Fprintf(s.err, "warning: %s\n", w)
			}
			if asJSON {
				err = writeIndented(s.out, r)
			} else {
				err = r.writeText(s.out)
			}
			if err != nil || !gate {
				return err
			}
			return r.pass()
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&against, "against", "", "compare with the client of this `FOLDER`, instead of the model")
	f.BoolVar(&gate, "gate", false, "exit code 1 if something is found, or if that cannot be told")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON, in nanoseconds")
	return cmd
}

// A clientReport is what a client adds, as JSON: times are nanoseconds.
type clientReport struct {
	Format    string             `json:"format"`
	Reference string             `json:"reference"` // what the buffer is held against
	Turns     []*clientTurn      `json:"turns"`
	Told      int                `json:"turns_with_stats"`
	Calls     int                `json:"calls"`
	Growth    quantile.Trend     `json:"buffer_growth_ns_per_turn"`
	First     clientGroup        `json:"first_turns"`
	Later     clientGroup        `json:"later_turns"`
	Losses    []clientstats.Loss `json:"losses"`
	Concealed *time.Duration     `json:"concealed_ns,omitempty"` // of the turns that tell it, as the next two
	Stretched *time.Duration     `json:"stretched_ns,omitempty"`
	Squeezed  *time.Duration     `json:"squeezed_ns,omitempty"`
	Unsummed  int                `json:"turns_not_in_sums"`       // that tell not all of these three
	JoinError *time.Duration     `json:"join_error_ns,omitempty"` // how far the clocks of client and agent may be apart, at most
	Findings  []clientFinding    `json:"findings"`
	Undecided []string           `json:"undecided,omitempty"` // why there may be more to find
	LeftOut   []clientstats.Left `json:"left_out,omitempty"`  // what the client said and cannot be
	Warnings  []string           `json:"warnings,omitempty"`
}

// A clientTurn is one turn at the client.
type clientTurn struct {
	Session   int    `json:"session"`
	Turn      int    `json:"turn"`
	RequestID string `json:"request_id,omitempty"`

	Sent    *time.Duration `json:"sent_ns,omitempty"`    // the first sound on the wire, on the agent's clock
	Network *time.Duration `json:"network_ns,omitempty"` // from there to its arrival: half of the round trip
	Buffer  *time.Duration `json:"buffer_ns,omitempty"`
	Clean   *time.Duration `json:"clean_ns,omitempty"`
	Adds    *time.Duration `json:"adds_ns,omitempty"` // the buffer less the clean one
	Device  *time.Duration `json:"device_ns,omitempty"`
	Rest    *time.Duration `json:"rest_ns,omitempty"`
	Speaker *time.Duration `json:"speaker_ns,omitempty"` // from Sent to the speaker

	Whole *clientstats.Window `json:"window,omitempty"` // from the end of the user's speech to the end of the turn
	Why   []string            `json:"why,omitempty"`    // what is absent, and why

	left []clientstats.Left // of its windows: what cannot be
}

// A clientGroup is what some turns come to.
type clientGroup struct {
	Buffer  quantile.Distribution `json:"buffer_ns"`
	Adds    quantile.Distribution `json:"adds_ns"`
	Speaker quantile.Distribution `json:"speaker_ns"`
}

// A clientFinding is something that a client without faults does not do.
type clientFinding struct {
	Name string `json:"name"` // buffer_grows, buffer_above_reference or buffer_stays_after_loss
	Text string `json:"text"`
}

// readClients reads what serve has kept in a folder.
func readClients(dir string) (*clientReport, error) {
	file, err := os.Open(filepath.Join(dir, clientsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%s: there is no %s: name a folder that firstsound serve --out has written", dir, clientsFile)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, warnings, err := clientstats.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	src, err := report.Open(dir)
	if err != nil {
		return nil, err
	}
	r := &clientReport{Format: "firstsound.client/1", Reference: "the model of NetEq on a clean stream", Findings: []clientFinding{}, Losses: []clientstats.Loss{}}
	var rows []*report.TurnRow
	first := map[int]time.Duration{} // the first event of each call
	a, err := report.NewAssembler(src.End(), report.DefaultPercent, func(t *report.Turn) { rows = append(rows, t.Row()) })
	if err != nil {
		return nil, err
	}
	err = src.Events(func(e *trace.Event) {
		if at, ok := first[e.ID.Session]; !ok || e.At < at {
			first[e.ID.Session] = e.At
		}
		a.Add(e)
	})
	if err != nil {
		return nil, err
	}
	a.Close()
	for _, w := range warnings {
		r.warn("%s: %s", file.Name(), w)
		r.undecided("%s: %s", clientsFile, w)
	}
	r.Warnings = append(r.Warnings, src.Warnings...)
	switch src.Info.State {
	case report.StateComplete:
	case "":
		r.undecided("whether the run is complete is not known: there is no %s, or no state in it", report.RunFile)
	default:
		r.undecided("the run is %s: %s", src.Info.State, src.Info.Reason)
	}
	slices.SortStableFunc(rows, func(a, b *report.TurnRow) int {
		if a.Session != b.Session {
			return a.Session - b.Session
		}
		return a.Turn - b.Turn
	})
	r.join(rows, lines)
	r.clean(rows, first)
	losses, left := clientstats.Losses(lines)
	r.Losses = append(r.Losses, losses...)
	r.leftOut(lines, left)
	return r, nil
}

// leftOut gathers what cannot be: what the lines say, what the turns come to, and what is
// between two samples where no turn shows it.
func (r *clientReport) leftOut(lines []clientstats.Line, between []clientstats.Left) {
	for _, l := range lines {
		r.LeftOut = clientstats.AddLeft(r.LeftOut, l.Left...)
	}
	for _, t := range r.Turns {
		for _, l := range t.left {
			l.Why = fmt.Sprintf("turn %d.%d: %s", t.Session, t.Turn, l.Why)
			r.LeftOut = clientstats.AddLeft(r.LeftOut, l)
		}
	}
	r.LeftOut = addUnseen(r.LeftOut, between)
	n := 0
	for _, l := range r.LeftOut {
		n += l.N
	}
	if n > 0 {
		r.undecided("%s of the client cannot be", plural(n, "value"))
	}
}

// addUnseen adds those whose key is not among all.
func addUnseen(all, more []clientstats.Left) []clientstats.Left {
	for _, l := range more {
		if !slices.ContainsFunc(all, func(x clientstats.Left) bool { return x.Key == l.Key }) {
			all = append(all, l)
		}
	}
	return all
}

// join puts together what the agent and what the client says of each turn.
func (r *clientReport) join(rows []*report.TurnRow, lines []clientstats.Line) {
	type key struct { // calls may use the same request IDs
		session   int
		requestID string
	}
	told := map[key]*clientstats.Turn{}
	turns := clientstats.Turns(lines)
	for i := range turns {
		t := &turns[i]
		k := key{t.Session, t.RequestID}
		if told[k] != nil {
			r.warn("the client tells of %q twice in call %d: the later one counts", t.RequestID, t.Session)
		}
		told[k] = t
	}
	calls := map[int]bool{}
	for _, row := range rows {
		calls[row.Session] = true
		t := &clientTurn{Session: row.Session, Turn: row.Turn, RequestID: row.Request}
		r.Turns = append(r.Turns, t)
		if at, ok := row.Marks.Get(string(trace.FirstSound)); ok {
			d := time.Duration(at)
			t.Sent = &d
		} else {
			t.why("sent: the agent gave no answer: %s", row.Outcome)
		}
		k := key{row.Session, row.Request}
		c := told[k]
		if c == nil {
			t.why("the client tells nothing of this turn")
			continue
		}
		delete(told, k)
		r.Told++
		t.join(c)
		if e := c.Stats.AgentError; e != nil {
			d := time.Duration(*e * float64(time.Millisecond))
			if r.JoinError == nil || d > *r.JoinError {
				r.JoinError = &d
			}
		}
	}
	r.Calls = len(calls)
	for _, l := range lines {
		k := key{l.Session, l.RequestID}
		if told[k] != nil {
			r.warn("the client tells of %q, and the agent knows no such turn in call %d", l.RequestID, l.Session)
			delete(told, k)
		}
	}
}

func (r *clientReport) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

func (r *clientReport) undecided(format string, args ...any) {
	r.Undecided = append(r.Undecided, fmt.Sprintf(format, args...))
}

func (t *clientTurn) why(format string, args ...any) {
	t.Why = append(t.Why, fmt.Sprintf(format, args...))
}

// join takes what the client says.
func (t *clientTurn) join(c *clientstats.Turn) {
	t.Whole = &c.Whole
	t.Buffer, t.Device = c.First.Buffer, c.First.Device
	t.left = addUnseen(slices.Clone(c.Whole.Left), c.First.Left)
	for _, l := range c.Left {
		t.why("%v", l)
	}
	for _, why := range c.First.Why {
		t.why("%s", why)
	}
	if c.First.RoundTrip != nil {
		d := *c.First.RoundTrip / 2
		t.Network = &d
	} else {
		t.why("network: the client does not tell the round trip, or it is left out")
	}
	heard, ok := c.Heard()
	switch {
	case !ok:
		t.why("speaker: the client does not say when it heard the first sound (sound_ms), or how its clock goes (agent_offset_ms)")
	case t.Sent != nil:
		if d := heard - *t.Sent; d < -clientFar || d > clientFar {
			t.left = append(t.left, clientstats.Left{Key: "sound_ms", N: 1, Why: fmt.Sprintf("with agent_offset_ms it is %s ms from the first sound on the wire", clientMillis(d))})
			t.why("speaker: %v", t.left[len(t.left)-1])
		} else {
			t.Speaker = &d
		}
	}
	if t.Speaker != nil && t.Network != nil && t.Buffer != nil && t.Device != nil {
		d := *t.Speaker - *t.Network - *t.Buffer - *t.Device
		t.Rest = &d
	}
}

// clean works out what a client without faults would hold.
func (r *clientReport) clean(rows []*report.TurnRow, first map[int]time.Duration) {
	type span struct{ from, to time.Duration }
	said := map[int][]span{}
	for _, row := range rows {
		from, ok := row.Marks.Get(string(trace.PlayStart))
		if !ok {
			continue
		}
		to, ok := row.Marks.Get(string(trace.PlayEnd))
		if !ok {
			to, ok = row.Marks.Get(string(trace.PlayStopped))
		}
		if ok {
			said[row.Session] = append(said[row.Session], span{time.Duration(from), time.Duration(to)})
		}
	}
	for session, start := range first {
		var turns []*clientTurn
		var at []time.Duration
		for _, t := range r.Turns {
			if t.Session == session && t.Sent != nil {
				turns, at = append(turns, t), append(at, *t.Sent)
			}
		}
		// The agent has sent since the call was connected, which is before the first
		// event of the call: so much of the start of NetEq is left out.
		held := clientstats.Clean(start, at, func(t time.Duration) bool {
			return !slices.ContainsFunc(said[session], func(s span) bool { return t >= s.from && t <= s.to })
		})
		for i, t := range turns {
			t.hold(&held[i])
		}
	}
}

// hold sets what the buffer is held against.
func (t *clientTurn) hold(clean *time.Duration) {
	t.Clean, t.Adds = clean, nil
	if t.Buffer != nil && clean != nil {
		d := *t.Buffer - *clean
		t.Adds = &d
	}
}

// against holds r against the client of another folder instead: turn by turn of that
// number, the median of its calls.
func (r *clientReport) against(other *clientReport, name string) {
	r.Reference = "the client of " + name
	r.Warnings = append(r.Warnings, other.Warnings...)
	for _, l := range other.LeftOut {
		r.warn("%s: left out: %v", name, l)
	}
	for _, why := range other.Undecided {
		r.undecided("%s: %s", name, why)
	}
	byTurn := map[int][]int64{}
	for _, t := range other.Turns {
		if t.Buffer != nil {
			byTurn[t.Turn] = append(byTurn[t.Turn], int64(*t.Buffer))
		}
	}
	for _, t := range r.Turns {
		median, ok := quantile.Of(slices.Sorted(slices.Values(byTurn[t.Turn])), 0.5)
		if !ok {
			t.hold(nil)
			t.why("%s tells no buffer of a turn %d", name, t.Turn)
			continue
		}
		d := time.Duration(median)
		t.hold(&d)
	}
}
