package pipeline

import (
	"context"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
)

// A Call is one conversation of one caller over one line.
type Call struct {
	Session  int
	Line     Line
	Recorder *trace.Recorder

	// Script returns what the caller says as turn n, counted from 1, or false
	// when the caller has hung up.
	Script func(n int) (Say, bool)
}

// A Say is what a caller does in one turn.
type Say struct {
	Utterance *audio.Utterance
	RequestID string
	Warmup    bool           // the turn is played and recorded, but left out of the figures
	Gap       time.Duration  // between the end of the answer before and the start of the recording
	BargeIn   *time.Duration // instead: start so long after the first sound of the answer before, if that still plays
	Attrs     []trace.Attr   // further facts for the turn's record

	// Live says that somebody else speaks, on a real line: the turn begins when that is
	// known, and the speech may have begun before. So its end is marked when it is heard.
	Live bool
}

// A conversation is a Call that is going on.
type conversation struct {
	Options
	Call
	history *history
	news    *clocks.Queue[news]
}

// A news item is what the caller hears of a turn.
type news struct {
	turn  *turn
	kind  newsKind
	after time.Duration // of newsSound: when it was
}

type newsKind int

const (
	newsSound newsKind = iota // the answer begins
	newsBarge                 // it is time to speak into it
	newsOver                  // the turn is over
)

// Run plays the call to its end. An error means that ctx has ended: what goes
// wrong in a turn is in the record of the turn.
func (o Options) Run(ctx context.Context, call Call) error {
	c := &conversation{Options: o, Call: call, history: newHistory(o.Memory), news: clocks.NewQueue[news](o.Clock, "news of its turn")}
	g, inner := clocks.NewGroup(ctx, o.Clock)
	var prev *turn
	for n := 1; ; n++ {
		say, ok := call.Script(n)
		if !ok || c.waitToSpeak(inner, prev, say) != nil {
			break
		}
		t := c.newTurn(n, say, prev)
		g.Go("turn", func() error { t.run(inner); return nil })
		prev = t
	}
	g.Wait() // turns return no errors
	return context.Cause(ctx)
}

// waitToSpeak waits until the caller says what comes next.
func (c *conversation) waitToSpeak(ctx context.Context, prev *turn, say Say) error {
	if prev == nil {
		return c.Clock.Sleep(ctx, say.Gap)
	}
	for {
		e, ok := c.news.Get(ctx)
		switch {
		case !ok:
			return context.Cause(ctx)
		case e.turn != prev: // of a turn that went on after the caller had spoken into it
		case e.kind == newsOver:
			return c.Clock.Sleep(ctx, say.Gap)
		case e.kind == newsBarge:
			return nil
		case say.BargeIn != nil:
			c.Clock.At(e.after+*say.BargeIn, func() { c.news.Put(news{turn: prev, kind: newsBarge}) })
		}
	}
}

// remember adds a turn to the history: what the user said, what the tools
// returned, and as much of the answer as was heard.
func (c *conversation) remember(turn []entry, answer string, sent int) {
	for _, e := range turn {
		c.history.add(e.Message, e.tokens)
	}
	if answer != "" {
		c.history.add(llm.Message{Role: llm.Assistant, Content: answer}, 0)
	}
	c.history.sent = sent
	if c.history.trim() {
		c.history.sent = 0
	}
}
