package llmsim_test

import (
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm"
	"firstsound/llm/llmsim"
	"firstsound/llm/llmtest"
)

// subject returns a Subject of the suite with changed defaults.
func subject(change func(*llmsim.Options)) llmtest.Subject {
	with := func(more func(*llmsim.Options)) func(testing.TB, clocks.Clock) llm.Model {
		o := llmsim.Defaults()
		for _, f := range []func(*llmsim.Options){change, more} {
			if f != nil {
				f(&o)
			}
		}
		return func(_ testing.TB, c clocks.Clock) llm.Model { return llmsim.New(c, 7, o) }
	}
	return llmtest.Subject{
		New:        with(nil),
		NewFailing: with(func(o *llmsim.Options) { o.Fail = 1 }),
		NewCalling: with(func(o *llmsim.Options) { o.ToolCall = 1 }),
		Repeats:    true, MaxTokens: true, Usage: true,
	}
}

var constant = random.Const(10 * time.Millisecond)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*llmsim.Options){
		"defaults":  nil,
		"stall":     func(o *llmsim.Options) { o.Stall = 1 },
		"timings":   func(o *llmsim.Options) { o.Timings, o.EarlyRole = true, true },
		"constant":  func(o *llmsim.Options) { o.TPOT = constant },
		"cold":      func(o *llmsim.Options) { o.KeepAlive = 0 },
		"one reply": func(o *llmsim.Options) { o.Replies = []string{"We are. Open until six! Anything else?"} },
	} {
		t.Run(name, func(t *testing.T) { llmtest.Run(t, subject(change)) })
	}
	t.Run("buffered", func(t *testing.T) {
		llmtest.Run(t, subject(func(o *llmsim.Options) { o.Buffered, o.MaxConnections = true, 1 }))
	})
	reasoning := subject(func(o *llmsim.Options) { o.Reasoning = 12 })
	reasoning.MaxTokens = false // three tokens are no content then
	t.Run("reasoning", func(t *testing.T) { llmtest.Run(t, reasoning) })
}
