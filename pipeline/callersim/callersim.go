// Package callersim is a model of the person who calls: which recordings they
// speak, how long they think, and how often they interrupt.
package callersim

import (
	"fmt"
	"slices"
	"time"

	"firstsound/audio"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
)

// Options are the constants of the model.
type Options struct {
	Languages []string    // of the recordings to use; empty: all of them
	Gap       random.Dist // between the end of an answer and the user's next words
	BargeIn   float64     // how often the user speaks into an answer, 0 … 1
	// BargeInAfter is how long after the first sound of the answer that is. An
	// answer that is over by then is not interrupted.
	BargeInAfter random.Dist
}

// A Caller is the model.
type Caller struct {
	seed   uint64
	run    string
	o      Options
	corpus map[string][]*audio.Utterance
	langs  []string
}

// New returns a Caller who draws from seed. run is the head of the request IDs.
// It fails if no recording is in one of the languages.
func New(seed uint64, run string, corpus []*audio.Utterance, o Options) (*Caller, error) {
	c := &Caller{seed: seed, run: run, o: o, corpus: map[string][]*audio.Utterance{}}
	for _, u := range corpus {
		if len(o.Languages) > 0 && !slices.Contains(o.Languages, u.Language) {
			continue
		}
		if c.corpus[u.Language] == nil {
			c.langs = append(c.langs, u.Language)
		}
		c.corpus[u.Language] = append(c.corpus[u.Language], u)
	}
	if len(c.langs) == 0 {
		return nil, fmt.Errorf("none of the %d recordings is in one of the languages %q: change conversation.languages, or set the recordings' language in their sidecar files; an empty list takes all: --set \"conversation.languages=[]\"", len(corpus), o.Languages)
	}
	slices.Sort(c.langs)
	return c, nil
}

// Call returns what the caller says in a call: turns in all, of which the first
// warmup are only to warm up. Every call is in one language, and goes through
// its recordings in an order of its own. due, if known, is when an open-loop
// call should have begun.
func (c *Caller) Call(session, turns, warmup int, due *time.Duration) func(n int) (pipeline.Say, bool) {
	source := random.New(c.seed, "caller", session)
	lang := c.langs[source.Below(len(c.langs))]
	list := c.corpus[lang]
	first, step := source.Below(len(list)), stride(&source, len(list))
	return func(n int) (pipeline.Say, bool) {
		if n > turns {
			return pipeline.Say{}, false
		}
		s := random.New(c.seed, "caller", session, n)
		say := pipeline.Say{
			Utterance: list[(first+(n-1)*step)%len(list)],
			RequestID: fmt.Sprintf("%s-%d-%d", c.run, session, n),
			Warmup:    n <= warmup,
		}
		gap, bargeIn, after := c.o.Gap.Draw(&s), s.Chance(c.o.BargeIn), c.o.BargeInAfter.Draw(&s)
		if n > 1 {
			say.Gap = gap
			if bargeIn {
				say.BargeIn = &after
			}
		} else if due != nil {
			say.Attrs = []trace.Attr{{Key: trace.AttrDue, Int: int64(*due)}}
		}
		return say, true
	}
}

// stride returns a step that visits all of n places before it comes back.
func stride(s *random.Source, n int) int {
	if n == 1 {
		return 1
	}
	for {
		if step := 1 + s.Below(n-1); gcd(step, n) == 1 {
			return step
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
