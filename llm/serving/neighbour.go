package serving

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"firstsound/clocks/random"
)

// A Neighbour is another tenant of the same servers: requests at random, for
// none of which anybody here waits.
type Neighbour struct {
	Rate     float64       `yaml:"rate"`     // requests a second; 0: the workload's
	Prompt   int           `yaml:"prompt"`   // mean tokens, exponential
	Output   int           `yaml:"output"`   // mean tokens, exponential
	Workload string        `yaml:"workload"` // or lengths and bursts as in a recorded one: azure-conv, azure-code
	From     time.Duration `yaml:"from"`
	Until    time.Duration `yaml:"until"` // 0: for ever
}

// A Workload says what requests of real users are like: computed from Azure's LLM
// inference traces of November 2023 (Patel et al., "Splitwise", ISCA 2024), as
// Vidur keeps them, cut off at 4,096 tokens.
type Workload struct {
	Name   string
	Rate   float64 // requests a second
	CV     float64 // of the gaps between them: above 1 they come in bursts
	Prompt Lengths
	Output Lengths
}

// Lengths is a distribution of tokens by its least value, P50, P90, P99 and
// greatest value. Between two of them it goes straight, or straight by logarithm,
// whichever comes nearer to the published mean.
type Lengths struct {
	At  [5]float64
	Log bool
}

// at returns the quantile p, in whole tokens.
func (l Lengths) at(p float64) int {
	ranks := [5]float64{0, 0.5, 0.9, 0.99, 1}
	i := 1
	for i < 4 && p > ranks[i] {
		i++
	}
	part := (p - ranks[i-1]) / (ranks[i] - ranks[i-1])
	if l.Log {
		return int(math.Round(l.At[i-1] * math.Pow(l.At[i]/l.At[i-1], part)))
	}
	return int(math.Round(l.At[i-1] + float64((l.At[i]-l.At[i-1])*part))) // the conversion keeps it from being fused
}

// Workloads returns the recorded ones.
func Workloads() []Workload {
	return []Workload{
		{"azure-conv", 5.53, 1.09, Lengths{[5]float64{30, 1020, 2734, 4142, 4298}, true}, Lengths{[5]float64{1, 129, 424, 601, 1000}, false}},
		{"azure-code", 2.57, 13.2, Lengths{[5]float64{100, 1469, 5188, 7436, 7841}, true}, Lengths{[5]float64{2, 13, 55, 251, 400}, true}},
	}
}

func (n Neighbour) workload() (w Workload, err error) {
	all := Workloads()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == n.Workload })
	if i < 0 {
		var names []string
		for _, w := range all {
			names = append(names, w.Name)
		}
		return w, fmt.Errorf("workload: none is called %q; there are %s", n.Workload, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Move lets the neighbour send requests to submit, at its times on c. The draws
// depend on seed.
func (n Neighbour) Move(c Clock, seed uint64, submit func(Request) (*Job, error)) error {
	// By default gaps and lengths are exponential.
	gap := func(r *random.Source) time.Duration { return r.Exp(time.Duration(1e9 / n.Rate)) }
	tokens := func(r *random.Source) (prompt, output int) {
		draw := func(mean int) int { return 1 + int(r.Exp(time.Duration(mean-1)*time.Microsecond)/time.Microsecond) }
		return draw(n.Prompt), draw(n.Output)
	}
	if n.Workload != "" {
		w, err := n.workload()
		if err != nil {
			return err
		}
		if n.Prompt != 0 || n.Output != 0 {
			return fmt.Errorf("prompt: the workload %s has its own lengths", n.Workload)
		}
		if n.Rate == 0 {
			n.Rate = w.Rate
		}
		n.Prompt, n.Output = 1, 1
		shape := 1 / (w.CV * w.CV)
		gap = func(r *random.Source) time.Duration {
			return time.Duration(math.Round(r.Gamma(shape) / shape / n.Rate * 1e9))
		}
		tokens = func(r *random.Source) (int, int) { return w.Prompt.at(r.Float()), w.Output.at(r.Float()) }
	}
	if !(n.Rate > 0 && n.Rate <= 1e6) || n.Prompt < 1 || n.Output < 1 || n.Prompt > maxTokens/64 || n.Output > maxTokens/64 || n.From < 0 || n.Until < 0 {
		return fmt.Errorf("serving: a neighbour with %g requests a second of %d + %d tokens from %v until %v; rate and tokens have to be above zero, and times not negative", n.Rate, n.Prompt, n.Output, n.From, n.Until)
	}
	i := 0
	var come func()
	come = func() {
		if n.Until > 0 && c.Now() >= n.Until {
			return
		}
		r := random.New(seed, "serving.neighbour", i)
		i++
		prompt, output := tokens(&r)
		submit(Request{Prompt: prompt, Output: output, Tag: -1})
		c.At(c.Now()+gap(&r), come)
	}
	first := random.New(seed, "serving.neighbour.first")
	c.At(n.From+gap(&first), come)
	return nil
}
