package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"firstsound/llm/record"
)

// A Tool says what the measuring itself took, and whether that bent the figures.
type Tool struct {
	// Verdict is "not bent", "bent" or "not known"; Sentence says it for people.
	Verdict  string   `json:"verdict"`
	Sentence string   `json:"sentence"`
	Findings []string `json:"findings,omitempty"` // what the verdict rests on
	Rule     string   `json:"rule"`

	Lag    Values `json:"lag_ns"` // of content events, from arrival to read
	LagMax int64  `json:"lag_max_ns"`
	// FirstLag is the lag of the first content event in millionths of TTFT.
	FirstLag    Values            `json:"first_token_lag_millionths_of_ttft"`
	StampFaults int64             `json:"attempts_with_stamp_faults"`
	SelfTest    *record.SelfTest  `json:"self_test,omitempty"`
	Resources   *record.Resources `json:"resources,omitempty"`
	CPUShare    *float64          `json:"cpu_share,omitempty"` // of all CPUs of this machine
}

// Beyond these the tool has bent the figures (assumptions of ours: a twentieth is
// half of what separates two services that people would tell apart).
const (
	bentShare   = 0.05 // of the least median of TTFT; and between the bounds of a quantile
	bentCPU     = 0.80 // of all CPUs
	faultyShare = 0.01 // of attempts with a stamp that cannot be right
)

// notBent is the verdict that lets the figures stand.
const notBent = "not bent"

// toolRule is how the verdict is reached.
const toolRule = "the arrival of the last event of a read is by the kernel's stamp, or by the read: there the self-test's P99 error counts; the others of a read came earlier than that; " +
	"sending is moved by late timers where requests are due at set times. Bent: one of these above 5 % of the least median TTFT, " +
	"or more than 80 % of all CPUs used, or fewer requests in flight than a level asks for. Not known: arrivals by the read without a self-test, " +
	"P50 or P95 of TTFT by its bounds more than 5 % apart where first events came with others in one read, stamp faults in more than 1 % of the attempts, or resources not recorded"

// tool returns what is known of the tool's own part.
func (s *Summary) tool(r *Report) Tool {
	t := s.judged(r)
	t.Sentence = plain(t.Sentence)
	for i := range t.Findings {
		t.Findings[i] = plain(t.Findings[i])
	}
	return t
}

// judged returns the tool's part with the verdict.
func (s *Summary) judged(r *Report) Tool {
	run := r.Head.Run
	t := Tool{Rule: toolRule, Lag: valuesOf(s.lag), LagMax: int64(s.lagMax), FirstLag: valuesOf(s.lagPart), StampFaults: s.stampFaults, SelfTest: run.SelfTest, Resources: run.Resources}
	if u := t.Resources; u != nil && u.Elapsed > 0 && run.CPUs > 0 {
		t.CPUShare = new(u.CPU.Seconds() / u.Elapsed.Seconds() / float64(run.CPUs))
	}
	if byModel := s.stamps[string(record.ByModel)]; byModel > 0 && byModel == s.attempts {
		t.Verdict, t.Sentence = notBent, "the run is on a virtual clock: the tool takes no time"
		return t
	}
	bent, unknown := append(t.arrivals(r), t.sending(r)...), []string{}
	if s.stamps[string(record.ByRead)] > 0 && t.SelfTest == nil {
		unknown = append(unknown, "arrivals are the times of reads, and no self-test says how late those are")
	}
	var apart []string
	for _, p := range r.Parts {
		if p.Bounds != nil && p.Bounds.Apart {
			apart = append(apart, p.Name)
		}
	}
	if len(apart) > 0 {
		unknown = append(unknown, "first events came with others in one read, so that the bounds of TTFT are more than 5 % apart: "+joined(apart, ", "))
	}
	if ratio(s.stampFaults, s.attempts) > faultyShare {
		unknown = append(unknown, fmt.Sprintf("%s of the attempts have stamps that cannot be right", share(s.stampFaults, s.attempts)))
	}
	if t.Resources == nil {
		unknown = append(unknown, "what the tool itself used is not recorded")
	}
	switch {
	case len(bent) > 0:
		t.Verdict, t.Findings = "bent", append(bent, unknown...)
		t.Sentence = "the tool bent the figures: " + strings.Join(bent, "; ")
	case len(unknown) > 0:
		t.Verdict, t.Findings = "not known", unknown
		t.Sentence = "whether the tool bent the figures is not known: " + strings.Join(unknown, "; ")
	default:
		t.Verdict = notBent
		t.Sentence = "the tool did not bend the figures"
		if s.stamps[string(record.ByKernel)] > 0 {
			t.Sentence += ": arrivals are the kernel's, "
			if slices.ContainsFunc(r.Parts, func(p *Part) bool { return p.Bounds != nil }) {
				t.Sentence += "and P50 and P95 of TTFT are within 5 % by both bounds where first events came with others in one read"
			} else {
				t.Sentence += "and each first event has its own"
			}
		}
	}
	return t
}

// leastTTFT returns the least median of TTFT of the main parts, 0 if there is none.
func (r *Report) leastTTFT() time.Duration {
	var all []int64
	for _, p := range r.Parts {
		if m := p.metric("ttft"); m != nil && isMain(p.Phase) && m.Values.P50.Value != nil {
			all = append(all, *m.Values.P50.Value)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return time.Duration(slices.Min(all))
}

// beyond returns whether d is above the bearable share of the least median TTFT.
func (r *Report) beyond(d time.Duration) bool {
	least := r.leastTTFT()
	return least > 0 && float64(d) > bentShare*float64(least)
}

// arrivals returns how the receiving side bent the figures.
func (t *Tool) arrivals(r *Report) (bent []string) {
	if st := t.SelfTest; st != nil && r.beyond(st.TTFT99) {
		bent = append(bent, fmt.Sprintf("in the self-test this machine and client add %s to TTFT at P99, more than 5 %% of the least median (%s)", inMS(st.TTFT99), inMS(r.leastTTFT())))
	}
	return bent
}

// sending returns how the sending side bent the figures.
func (t *Tool) sending(r *Report) (bent []string) {
	u := t.Resources
	if u == nil {
		return nil
	}
	open := slices.ContainsFunc(r.Parts, func(p *Part) bool { return p.Phase == record.Rate })
	if open && r.beyond(u.TimerLateP99) {
		bent = append(bent, fmt.Sprintf("its timers are %s late at P99, more than 5 %% of the least median TTFT (%s), and requests were due at set times", inMS(u.TimerLateP99), inMS(r.leastTTFT())))
	}
	if t.CPUShare != nil && *t.CPUShare > bentCPU {
		bent = append(bent, fmt.Sprintf("it used %.0f %% of all CPUs", 100**t.CPUShare))
	}
	if len(r.Parts) > 0 {
		most := slices.MaxFunc(r.Parts, func(a, b *Part) int { return cmp.Compare(a.Level, b.Level) })
		if u.PeakInFlight < most.Level && most.Attempted >= int64(most.Level) {
			bent = append(bent, fmt.Sprintf("there were never more than %d requests in flight, where %d were asked for", u.PeakInFlight, most.Level))
		}
	}
	return bent
}
