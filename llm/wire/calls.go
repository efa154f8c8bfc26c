package wire

import (
	"fmt"

	"firstsound/llm"
)

// maxCalls is how many tool calls of one answer are put together, and
// maxArguments how long the arguments of one may be: more is no call.
const (
	maxCalls     = 256
	maxArguments = 4 << 20
)

// calls puts tool calls together from their pieces.
type calls struct {
	open []openCall
	n    int // calls that were begun
}

type openCall struct {
	index     int
	call      llm.ToolCall
	arguments []byte
}

// add adds a piece. It returns a call that is whole because another one began.
func (c *calls) add(p Piece) *llm.ToolCall {
	for i := range c.open {
		o := &c.open[i]
		// Some services number all their calls 0, each with an ID of its own.
		if o.index == p.Index && (p.ID == "" || o.call.ID == "" || p.ID == o.call.ID) {
			o.extend(p)
			return nil
		}
	}
	if c.n >= maxCalls {
		return nil
	}
	var whole *llm.ToolCall
	if len(c.open) > 0 {
		done := c.open[0].whole(c.n - len(c.open))
		c.open = c.open[1:]
		if done.Name != "" {
			whole = &done
		}
	}
	o := openCall{index: p.Index}
	o.extend(p)
	c.open = append(c.open, o)
	c.n++
	return whole
}

func (o *openCall) extend(p Piece) {
	if o.call.ID == "" {
		o.call.ID = p.ID
	}
	if p.Name != o.call.Name { // some repeat it in every piece
		o.call.Name += p.Name
	}
	if len(o.arguments)+len(p.Arguments) <= maxArguments {
		o.arguments = append(o.arguments, p.Arguments...)
	}
}

// whole returns the call. A service that gives it no ID gets one, so that its
// result can name it.
func (o *openCall) whole(number int) llm.ToolCall {
	call := o.call
	call.Arguments = string(o.arguments)
	if call.Arguments == "" {
		call.Arguments = "{}"
	}
	if call.ID == "" {
		call.ID = fmt.Sprintf("call_%d", number)
	}
	return call
}

// rest returns what is open, and is empty then.
func (c *calls) rest() []llm.ToolCall {
	var all []llm.ToolCall
	for i := range c.open {
		if call := c.open[i].whole(c.n - len(c.open) + i); call.Name != "" {
			all = append(all, call)
		}
	}
	c.open = nil
	return all
}
