package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"firstsound/audio/codec"
	"firstsound/audio/ear"
	"firstsound/clocks/quantile"
	"firstsound/pipeline/report"
)

// maxLate is the lateness of packets, at P99, from which on figures are marked.
const maxLate = 5 * time.Millisecond

// A callReport is what all calls came to, as JSON: times are nanoseconds.
type callReport struct {
	Format   string    `json:"format"`
	URL      string    `json:"url"`
	Protocol string    `json:"protocol"`
	Codec    string    `json:"codec,omitempty"`
	Calls    int       `json:"calls"`
	Turns    []turnEar `json:"turns"`

	Answered, NoAnswer, Overlap, Unjudged int `json:"-"`

	FirstSound  quantile.Distribution  `json:"first_sound_ns"` // on the wire
	FirstSpeech quantile.Distribution  `json:"first_speech_ns"`
	Fixed       quantile.Distribution  `json:"first_sound_fixed_ns"`
	NetEq       quantile.Distribution  `json:"first_sound_neteq_ns"`
	BargeIn     quantile.Distribution  `json:"barge_in_stop_ns"`
	Late        quantile.Distribution  `json:"send_late_ns"`
	Agent       *quantile.Distribution `json:"agent_first_sound_ns,omitempty"` // as the agent says
	Beyond      *quantile.Distribution `json:"beyond_agent_ns,omitempty"`      // on the wire less as the agent says, with the wait for the packet
	Budget      errorBudget            `json:"error_budget"`
	Errors      []string               `json:"errors,omitempty"`
	Stage       ear.Stage              `json:"stage"` // the furthest of a call
	Drift       []float64              `json:"drift_ppm,omitempty"`
	Trend       *callTrend             `json:"first_sound_trend,omitempty"` // on the wire, over the turns of a call; nil: no call has four answered turns
	NetEqTrend  *callTrend             `json:"first_sound_neteq_trend,omitempty"`
	Cut         int                    `json:"clipped_turns,omitempty"` // whose answer lacks its beginning
	Wrong       int                    `json:"wrong_rate_turns,omitempty"`
	Other       int                    `json:"other_answer_turns,omitempty"` // whose answer is not the known one, as far as can be told
	calls       []*callResult
	connected   *quantile.Series
	codec       codec.Codec
}

// An errorBudget says how far figures may be off, and what is in them.
type errorBudget struct {
	Onset      [2]time.Duration `json:"onset_ns"` // earliest, latest
	Packet     time.Duration    `json:"packet_ns"`
	Codec      time.Duration    `json:"codec_ns"`
	LateP99    *int64           `json:"send_late_p99_ns,omitempty"`
	FixedDelay time.Duration    `json:"fixed_buffer_ns"`
}

// A turnEar is what was heard in a turn.
type turnEar struct {
	Call      int             `json:"call"`
	Turn      int             `json:"turn"`
	RequestID string          `json:"request_id"`
	Utterance string          `json:"utterance"`
	Status    ear.Status      `json:"status"`
	Stage     ear.Stage       `json:"stage"`
	Kind      string          `json:"kind,omitempty"` // of the first sound: speech, tone or short
	Packet    *time.Duration  `json:"first_packet_ns,omitempty"`
	Sound     *time.Duration  `json:"first_sound_ns,omitempty"` // from the end of speech, on the wire
	Fixed     *time.Duration  `json:"first_sound_fixed_ns,omitempty"`
	NetEq     *time.Duration  `json:"first_sound_neteq_ns,omitempty"`
	Speech    *time.Duration  `json:"first_speech_ns,omitempty"`
	Waited    *time.Duration  `json:"uplink_packet_ns,omitempty"` // from the end of speech until its packet left
	TalkOver  time.Duration   `json:"talk_over_ns"`
	Stopped   *time.Duration  `json:"barge_in_stop_ns,omitempty"`
	Lost      time.Duration   `json:"lost_ns"`
	Concealed time.Duration   `json:"concealed_ns"`
	Stretched time.Duration   `json:"stretched_ns"`
	Squeezed  time.Duration   `json:"squeezed_ns"`
	Clipped   *time.Duration  `json:"clipped_ns,omitempty"` // what is missing of the beginning of the known answer
	Speed     *float64        `json:"speed,omitempty"`      // of the known answer: 0.5 is half as fast, and an octave lower
	KnownWhy  string          `json:"known_why,omitempty"`  // why the two are not there, with --answer
	Agent     *report.TurnRow `json:"agent,omitempty"`      // what the agent says of the same turn, on its own clock
	Offset    *time.Duration  `json:"agent_clock_ns,omitempty"`
	AgentTTFS *time.Duration  `json:"agent_ttfs_ns,omitempty"`
}

func since(m *time.Duration, end time.Duration) *time.Duration {
	if m == nil {
		return nil
	}
	d := *m - end
	return &d
}

func newCallReport(c *caller, results []*callResult) *callReport {
	r := &callReport{Format: "firstsound.calls/1", URL: c.shown, Protocol: c.protocol, Calls: len(results), calls: results, connected: quantile.New(1 << 16)}
	const keep = 1 << 16
	sound, speech, fixed, neteq := quantile.New(keep), quantile.New(keep), quantile.New(keep), quantile.New(keep)
	barge, late, agent, beyond := quantile.New(keep), quantile.New(keep), quantile.New(keep), quantile.New(keep)
	add := func(s *quantile.Series, d *time.Duration) {
		if d != nil {
			s.Add(int64(*d))
		}
	}
	order := []ear.Stage{ear.Nothing, ear.Connected, ear.Track, ear.Packets, ear.SoundCame}
	further := func(s ear.Stage) {
		if slices.Index(order, s) > slices.Index(order, r.Stage) {
			r.Stage = s
		}
	}
	var wires, buffered []turnFigure
	for _, call := range results {
		if call == nil {
			continue
		}
		if call.err != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("call %d: %s", call.number, firstPart(c.public(call.err))))
		}
		if call.codec.Name != "" {
			r.Codec, r.codec = call.codec.Name, call.codec
		}
		further(call.stage)
		add(r.connected, call.connected)
		for _, d := range call.late {
			late.Add(int64(d))
		}
		if call.drift != nil {
			r.Drift = append(r.Drift, *call.drift)
		}
		for i, h := range call.heard {
			t := call.turn(i, h)
			r.Turns = append(r.Turns, t)
			further(t.Stage)
			switch t.Status {
			case ear.Answered:
				r.Answered++
			case ear.Overlap:
				r.Overlap++
			case ear.Unjudged:
				r.Unjudged++
			default:
				r.NoAnswer++
			}
			if t.Sound != nil {
				wires = append(wires, turnFigure{t.Call, t.Turn, *t.Sound})
			}
			if t.NetEq != nil {
				buffered = append(buffered, turnFigure{t.Call, t.Turn, *t.NetEq})
			}
			if call.known && t.Status == ear.Answered && t.KnownWhy != "" {
				r.Other++
			}
			if t.Clipped != nil && *t.Clipped > 0 {
				r.Cut++
			}
			if t.Speed != nil && *t.Speed != 1 {
				r.Wrong++
			}
			add(sound, t.Sound)
			add(speech, t.Speech)
			add(fixed, t.Fixed)
			add(neteq, t.NetEq)
			add(barge, t.Stopped)
			add(agent, t.AgentTTFS)
			if t.Sound != nil && t.AgentTTFS != nil {
				beyond.Add(int64(*t.Sound - *t.AgentTTFS))
			}
		}
	}
	r.FirstSound, r.FirstSpeech, r.Fixed, r.NetEq = sound.Distribution(), speech.Distribution(), fixed.Distribution(), neteq.Distribution()
	r.Trend, r.NetEqTrend = trendOf(wires), trendOf(buffered)
	r.BargeIn, r.Late = barge.Distribution(), late.Distribution()
	if d := agent.Distribution(); d.N > 0 {
		b := beyond.Distribution()
		r.Agent, r.Beyond = &d, &b
	}
	r.Budget = errorBudget{Onset: onsetError(r.Codec), Packet: codec.Frame, Codec: r.codec.Delay, LateP99: r.Late.P99.Value, FixedDelay: ear.Defaults(8000).Fixed}
	return r
}

// maxError bounds how much of an error the report shows, in bytes: some hold what the
// other side said.
const maxError = 500

func firstPart(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + " …"
}

// onsetError is how far the first sound is off, the codec's own delay included.
func onsetError(name string) [2]time.Duration {
	early, late := ear.OnsetError(name)
	return [2]time.Duration{early, late}
}

// turn says what was heard in turn i.
func (c *callResult) turn(i int, h ear.Report) turnEar {
	a := c.asked[i]
	t := turnEar{
		Call: c.number, Turn: i + 1, RequestID: a.id, Utterance: a.utterance.ID, Status: h.Status, Stage: h.Stage, Kind: h.Kind,
		Waited: since(a.left, a.End), TalkOver: h.TalkOver, Stopped: h.Stopped,
		Lost: h.Lost, Concealed: h.Concealed, Stretched: h.Stretched, Squeezed: h.Squeezed, Offset: c.offset,
	}
	if c.known {
		t.Clipped, t.Speed, t.KnownWhy = h.Clipped, h.Speed, h.ClippedWhy
	}
	if m := h.FirstPacket; m != nil {
		t.Packet = since(&m.Wire, a.End)
	}
	if m := h.FirstSound; m != nil && h.Status == ear.Answered {
		t.Sound, t.Fixed, t.NetEq = since(&m.Wire, a.End), since(m.Fixed, a.End), since(m.NetEq, a.End)
	}
	if m := h.FirstSpeech; m != nil && h.Status == ear.Answered {
		t.Speech = since(&m.Wire, a.End)
	}
	if row := c.rows[a.id]; row != nil {
		t.Agent = row
		if row.TTFS != nil {
			d := time.Duration(*row.TTFS)
			t.AgentTTFS = &d
		}
	}
	return t
}

// What --out writes.
const (
	reportFile      = "calls.json"
	turnsAsTheyCome = "calls.jsonl"
)

// room makes the folders that the command writes to, before it calls anybody: what is
// measured must not be lost for want of a place.
func (c *callCmd) room() error {
	files := []string{}
	if c.out != "" {
		files = append(files, filepath.Join(c.out, reportFile), filepath.Join(c.out, turnsAsTheyCome))
	}
	for n := 1; n <= c.calls && c.record != ""; n++ {
		files = append(files, c.recording(n))
	}
	for _, name := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if _, err := os.Stat(name); err == nil && !c.overwrite {
			return usagef("%s is there already: name another folder, or say --overwrite", name)
		}
	}
	return nil
}

func (r *callReport) write(c *callCmd) error {
	if c.out != "" {
		text, err := json.MarshalIndent(signed{c.made, r}, "", "  ")
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(c.out, reportFile), append(text, '\n')); err != nil {
			return err
		}
	}
	if c.json {
		e := json.NewEncoder(c.streams.out)
		e.SetIndent("", "  ")
		return e.Encode(signed{c.made, r})
	}
	r.text(c.streams.out)
	return nil
}

func ms[T ~int64](d *T) string {
	if d == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(*d)/1e6)
}

// text prints the report.
func (r *callReport) text(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", r.URL, r.Protocol)
	if r.Codec != "" {
		fmt.Fprintf(w, "  %s", r.Codec)
	}
	fmt.Fprintf(w, "\ncalls %d  turns %d  answered %d  no answer %d  talk-over %d\n", r.Calls, len(r.Turns), r.Answered, r.NoAnswer, r.Overlap)
	if r.Unjudged > 0 {
		fmt.Fprintf(w, "not judged %d, since what came makes no sense\n", r.Unjudged)
	}
	if d := r.connected.Distribution(); d.N > 0 {
		fmt.Fprintf(w, "connected after %s ms on average, %s at most\n", ms(d.Mean), ms(d.Max))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "! %s\n", e)
	}
	if len(r.Turns) > 0 {
		fmt.Fprintf(w, "\nfrom the end of speech, in ms\n%-9s %-18s %9s %9s %9s %9s %9s  %s\n", "turn", "recording", "wire", "fixed", "neteq", "speech", "agent", "remarks")
	}
	for i, t := range r.Turns {
		if i == 20 {
			fmt.Fprintf(w, "… %d more turns; --json shows all\n", len(r.Turns)-i)
			break
		}
		fmt.Fprintf(w, "%-9s %-18.18s %9s %9s %9s %9s %9s  %s\n", fmt.Sprintf("%d.%d", t.Call, t.Turn), t.Utterance,
			ms(t.Sound), ms(t.Fixed), ms(t.NetEq), ms(t.Speech), ms(t.AgentTTFS), strings.Join(t.remarks(), ", "))
	}
	fmt.Fprintln(w)
	line := func(name string, d quantile.Distribution) {
		if d.N == 0 {
			return
		}
		fmt.Fprintf(w, "%-34s n %-4d P50 %s  P95 %s  P99 %s  max %s ms\n", name, d.N, shownFigure(d.P50), shownFigure(d.P95), shownFigure(d.P99), ms(d.Max))
	}
	line("first sound, on the wire", r.FirstSound)
	line(fmt.Sprintf("first sound, fixed buffer %d ms", r.Budget.FixedDelay.Milliseconds()), r.Fixed)
	line("first sound, NetEq (model)", r.NetEq)
	line("first speech, on the wire", r.FirstSpeech)
	if r.Trend != nil {
		fmt.Fprintf(w, "%-34s wire %v\n", "trend over the turns of a call", r.Trend)
	}
	if r.NetEqTrend != nil {
		fmt.Fprintf(w, "%-34s NetEq %v\n", "", r.NetEqTrend)
	}
	if r.Agent != nil {
		line("as the agent says", *r.Agent)
		line("beyond the agent's word", *r.Beyond)
	}
	line("barge-in: silent after", r.BargeIn)
	line("our packets were late by", r.Late)
	if len(r.Turns) > 0 {
		b := r.Budget
		fmt.Fprintf(w, "\nerror budget: onset %+d…%+d ms, with the codec's %.1f ms; send lateness P99 %s ms. In the figures: packet %d ms each way.\n",
			b.Onset[0].Milliseconds(), b.Onset[1].Milliseconds(), float64(b.Codec)/1e6, ms(b.LateP99), b.Packet.Milliseconds())
	}
	if r.Late.P99.Value != nil && time.Duration(*r.Late.P99.Value) > maxLate {
		fmt.Fprintf(w, "! our packets left more than %v late (P99): this computer is too busy for figures in milliseconds\n", maxLate)
	}
	if row, t := r.slowest(); row != nil {
		fmt.Fprintf(w, "\nthe slowest turn, %s, by the agent's own marks:\n", t.RequestID)
		for _, s := range row.Segments {
			fmt.Fprintf(w, "  %-18s %9.1f ms  %s\n", s.Stage, float64(s.End-s.Start)/1e6, s.Setting)
		}
		if t.Sound != nil && t.AgentTTFS != nil {
			fmt.Fprintf(w, "  %-18s %9.1f ms  to the ear, on the wire\n", "network", float64(*t.Sound-*t.AgentTTFS)/1e6)
		}
	}
}

func shownFigure(f quantile.Figure) string {
	if f.Value == nil {
		return "-"
	}
	s := ms(f.Value)
	if f.Low != nil && f.High != nil {
		s += fmt.Sprintf(" [%s, %s]", ms(f.Low), ms(f.High))
	}
	return s
}

// slowest returns the slowest turn of which the agent has told.
func (r *callReport) slowest() (row *report.TurnRow, slow turnEar) {
	for _, t := range r.Turns {
		if t.Agent != nil && t.Sound != nil && (row == nil || *t.Sound > *slow.Sound) {
			row, slow = t.Agent, t
		}
	}
	return row, slow
}

func (t *turnEar) remarks() (list []string) {
	add := func(name string, d time.Duration) {
		if d != 0 {
			list = append(list, fmt.Sprintf("%s %.0f ms", name, float64(d)/1e6))
		}
	}
	if t.Status != ear.Answered {
		list = append(list, fmt.Sprintf("%s (%s)", t.Status, t.Stage))
	}
	if t.Kind != "" && t.Kind != "speech" {
		list = append(list, "begins with a "+t.Kind)
	}
	add("talk-over", t.TalkOver)
	if t.Stopped != nil {
		add("silent after", *t.Stopped)
	}
	add("lost", t.Lost)
	add("concealed", t.Concealed)
	if t.Clipped != nil && *t.Clipped > 0 {
		list = append(list, fmt.Sprintf("answer start missing %.1f s", t.Clipped.Seconds()))
	}
	if t.Speed != nil && *t.Speed != 1 {
		list = append(list, fmt.Sprintf("wrong rate: heard at %.3g times its speed", *t.Speed))
	}
	if t.KnownWhy != "" && t.Status == ear.Answered {
		list = append(list, t.KnownWhy)
	}
	return list
}

// verdict is the error that the command ends with.
func (r *callReport) verdict(strict bool) error {
	switch {
	case r.Answered+r.Overlap+r.Unjudged == 0:
		reached := map[ear.Stage]string{
			ear.Nothing: "no connection came about", ear.Connected: "the calls were connected, and no sound track came",
			ear.Track: "the agent has a sound track, but no packet of it came after the end of speech", ear.Packets: "packets came, with silence or steady noise in them",
		}[r.Stage]
		return fmt.Errorf("no turn was answered: %s", reached)
	case len(r.Errors) > 0:
		return fmt.Errorf("%d of %d calls failed; the figures are of what was heard until then", len(r.Errors), r.Calls)
	case strict && r.NoAnswer > 0:
		return fmt.Errorf("strict: %d of %d turns had no answer", r.NoAnswer, len(r.Turns))
	case strict && r.Cut+r.Wrong > 0:
		return fmt.Errorf("strict: the beginning of the answer is missing in %d turns, and its rate is wrong in %d", r.Cut, r.Wrong)
	case strict && r.Other > 0:
		return fmt.Errorf("strict: %d of %d answers are not the one that --answer names", r.Other, r.Answered)
	case strict && r.Late.P99.Value != nil && time.Duration(*r.Late.P99.Value) > maxLate:
		return errors.New("strict: our packets left too late")
	}
	return nil
}
