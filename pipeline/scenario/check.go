package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// The kinds of arrival, as package load has them.
const (
	closed = "closed"
	traced = "trace"
)

var arrivalKinds = []string{closed, "poisson", "constant", "gamma", traced}

// Upper bounds that no sensible run reaches: a digit too many is noticed.
const (
	maxTurns    = 100_000_000
	maxSessions = 100_000
	maxRate     = 100_000
	maxTokens   = 10_000_000
	maxAttempts = 100
)

// A checker collects the first thing that is wrong.
type checker struct {
	s   *Scenario
	err error
}

// refuse notes an error if bad. It concerns the given keys: it is shown at the
// first of them that somebody wrote.
func (c *checker) refuse(bad bool, paths string, format string, args ...any) {
	if !bad || c.err != nil {
		return
	}
	keys := strings.Fields(paths)
	for _, key := range keys {
		if n := c.s.root.find(key); n != nil && n.at.source != defaultSource {
			c.err = n.at.errorf(key, format, args...)
			return
		}
	}
	n := c.s.root
	if v := n.find(keys[0]); v != nil {
		n = v
	}
	c.err = n.at.errorf(keys[0], format, args...)
}

// within refuses a number that does not lie between two bounds.
func within[T int | float64](c *checker, path string, v, low, high T) {
	c.refuse(!(v >= low && v <= high), path, "%v does not lie between %v and %v", v, low, high)
}

// check returns what is wrong with values that are right by their type.
func (s *Scenario) check() error {
	c := &checker{s: s}
	s.checkLoad(c)
	s.checkConversation(c)
	for path, b := range s.blocks() {
		c.refuse(b.Provider == "", path+".provider "+path, "names no provider")
	}
	s.checkTurn(c)
	s.checkSteps(c, "agent.steps", s.Agent.Steps)
	s.checkSteps(c, "agent.tools", s.Agent.Tools)
	within(c, "llm.max_tokens", s.LLM.MaxTokens, 0, maxTokens)
	if t := s.LLM.Temperature; t != nil {
		within(c, "llm.temperature", *t, 0, 2)
	}
	c.checkAttempts("llm", s.LLM.Attempts, len(s.LLM.Fallback))
	c.checkAttempts("tts", s.TTS.Attempts, len(s.TTS.Fallback))
	within(c, "cut.words", s.Cut.Words, 1, 1000)
	return c.err
}

// blocks yields all blocks whose provider has to be named, and their paths.
func (s *Scenario) blocks() func(yield func(string, Block) bool) {
	all := []Block{s.Line, s.VAD, s.ASR.Block, s.Turn.Block, s.LLM.Block, s.TTS.Block}
	all = slices.Concat(all, s.LLM.Fallback, s.TTS.Fallback)
	return func(yield func(string, Block) bool) {
		for _, b := range all {
			if !yield(b.path, b) {
				return
			}
		}
	}
}

func (s *Scenario) checkLoad(c *checker) {
	l := s.Load
	if !slices.Contains(arrivalKinds, l.Arrival) {
		c.refuse(true, "load.arrival", "%s is not one of %s", quote(l.Arrival), strings.Join(arrivalKinds, ", "))
	}
	within(c, "load.sessions", l.Sessions, 1, maxSessions)
	within(c, "load.turns", l.Turns, 0, maxTurns)
	within(c, "load.rate", l.Rate, 0, maxRate)
	within(c, "load.warmup", l.Warmup, 0, maxTurns)
	c.refuse(l.Arrival != closed && l.Arrival != traced && l.Rate == 0, "load.rate load.arrival",
		"%s arrival needs load.rate, the new calls a second, above 0", l.Arrival)
	c.refuse(l.Arrival == closed && l.Rate > 0, "load.rate load.arrival",
		"closed arrival takes no load.rate: set load.arrival to poisson, constant or gamma")
	c.refuse(l.Arrival == traced && l.Rate > 0, "load.rate load.arrival",
		"trace arrival takes no load.rate: the trace says when calls begin")
	c.refuse(l.Arrival == traced && l.Trace == "", "load.trace load.arrival",
		"trace arrival needs load.trace, a file of recorded arrivals")
	c.refuse(l.Arrival != traced && l.Trace != "", "load.trace load.arrival",
		"%s arrival takes no load.trace: set load.arrival to trace", l.Arrival)
	c.refuse(l.Arrival == "gamma" && !(l.CV >= 0.01 && l.CV <= 100), "load.cv load.arrival",
		"gamma arrival needs load.cv, the spread of the gaps, between 0.01 and 100, and not %v", l.CV)
	c.refuse(l.Rate > 0 && l.Rate < 1e-5, "load.rate",
		"%v calls a second is less than one a day: write 0.00001 or more", l.Rate)
	c.refuse(l.Turns == 0 && l.Duration == 0 && l.Arrival != traced, "load.turns load.duration",
		"load.turns and load.duration are both 0: the run would never end")
}

func (s *Scenario) checkConversation(c *checker) {
	v := s.Conversation
	within(c, "conversation.turns", v.Turns, 1, 100_000)
	for i, l := range v.Languages {
		path := fmt.Sprintf("conversation.languages.%d", i)
		c.refuse(l == "", path, "names no language")
		c.refuse(slices.Contains(v.Languages[:i], l), path, "%s is there twice", quote(l))
	}
	within(c, "conversation.barge_in", v.BargeIn, 0, 1)
	within(c, "conversation.system_prompt_tokens", v.SystemPromptTokens, 0, maxTokens)
	within(c, "conversation.max_messages", v.MaxMessages, 0, maxTokens)
	within(c, "conversation.max_tokens", v.MaxTokens, 0, maxTokens)
	within(c, "conversation.summarize_above", v.SummarizeAbove, 0, maxTokens)
	within(c, "conversation.summary_tokens", v.SummaryTokens, 0, maxTokens)
	c.refuse(v.SummarizeAbove > 0 && v.SummaryTokens >= v.SummarizeAbove, "conversation.summary_tokens conversation.summarize_above",
		"a summary of %d tokens is no shorter than the %d that it replaces", v.SummaryTokens, v.SummarizeAbove)
}

func (s *Scenario) checkTurn(c *checker) {
	t := s.Turn
	if t.Provider == "none" {
		return
	}
	c.refuse(t.MaxDelay == 0, "turn.max_delay turn.provider",
		"with a turn detector turn.max_delay must be above 0: a turn that it takes for unfinished would never end")
	c.refuse(t.MaxDelay < t.MinDelay, "turn.max_delay turn.min_delay",
		"turn.max_delay, %v, is below turn.min_delay, %v", t.MaxDelay, t.MinDelay)
}

func (s *Scenario) checkSteps(c *checker, path string, steps []Step) {
	seen := map[string]bool{}
	for i, step := range steps {
		at := fmt.Sprintf("%s.%d.name %[1]s.%d", path, i)
		c.refuse(step.Name == "", at, "has no name")
		c.refuse(strings.ContainsFunc(step.Name, notInName), at,
			"%s is no name: use letters, digits, _ and -", quote(step.Name))
		c.refuse(seen[step.Name], at, "the name %s is there twice", quote(step.Name))
		seen[step.Name] = true
	}
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

func (c *checker) checkAttempts(block string, attempts, fallbacks int) {
	within(c, block+".attempts", attempts, 1, maxAttempts)
	c.refuse(attempts <= fallbacks, block+".attempts "+block+".fallback",
		"with %[2]s.attempts: %[1]d a fallback is never asked: set it to %[3]d or more", attempts, block, fallbacks+1)
}
