package wire

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"firstsound/llm/record"
)

// Why an attempt has no TPOT.
const (
	noContent     = "no content"
	oneRead       = "all content came in one read"
	tooFew        = "no token after those of the first content event"
	mixedUp       = "the reasoning's tokens are not told apart from the answer's"
	fewerThanSeen = "the service counts fewer tokens than came"
)

// conclude takes down what follows from all that came. cause is why the attempt
// did not come to an end by itself, nil if it did; cancelled, that it was told to end.
// The error says why there is no whole answer.
func (t *tape) conclude(cause error, cancelled bool) error {
	a := &t.a
	a.End = t.end
	t.tokens()
	t.classify(cause, cancelled)
	good := a.Class == record.OK || a.Class == record.Empty || a.Class == record.ToolOnly || a.Class == record.ReasoningOnly
	if good && t.end != nil {
		t.flush(*t.end)
		if t.usage.Output != nil && !t.usageTold {
			t.tellUsage(*t.end)
		}
	}
	if good && a.FirstSegment == nil && a.FirstSpoken != nil && t.text.Len() < maxSegment { // the whole answer is the piece
		a.FirstSegment = firstOf(a.Finished, a.Done, a.End)
	}
	if a.Send != nil {
		if a.FirstToken != nil {
			a.TTFT = ptr(*a.FirstToken - *a.Send)
		}
		if over := firstOf(a.Done, t.over, a.End); over != nil {
			a.Total = ptr(*over - *a.Send)
		}
	}
	t.tpot()
	a.Error = t.clean(a.Error)
	if good {
		return nil
	}
	if cause != nil && (a.Class == record.Cancelled || a.Class == record.Timeout || a.Class == record.Unfinished) {
		return cause
	}
	return errors.New(a.Error)
}

func firstOf(marks ...*time.Duration) *time.Duration {
	for _, m := range marks {
		if m != nil {
			return m
		}
	}
	return nil
}

// classify says how the attempt ended.
func (t *tape) classify(cause error, cancelled bool) {
	a := &t.a
	ended := a.Done != nil || a.Finished != nil // the answer is whole, whatever became of the connection
	if cause != nil && cause != errGrace && cause != errStopped {
		a.Error = cause.Error()
	}
	switch {
	case t.fault != "" && a.Status != http.StatusOK:
		a.Class, a.Error = record.HTTPError, t.fault
	case t.fault != "":
		a.Class, a.Error = record.StreamError, t.fault
	case ended:
		a.Class = t.whole()
	case errors.Is(cause, ErrTimeout):
		a.Class = record.Timeout
	case errors.Is(cause, ErrRunEnded):
		a.Class = record.Unfinished
	case cancelled:
		a.Class = record.Cancelled
	case a.Headers == nil:
		a.Class = record.ConnectError
	default:
		a.Class = record.Truncated
		if a.Error == "" {
			a.Error = t.cut()
		}
	}
}

// whole is the class of an answer that ended as it should.
func (t *tape) whole() record.Class {
	switch a := &t.a; {
	case a.FirstToken != nil:
		return record.OK
	case a.FirstToolCall != nil:
		return record.ToolOnly
	case a.FirstReasoning != nil:
		return record.ReasoningOnly
	}
	return record.Empty
}

// cut says how a body ended that did not end as it should.
func (t *tape) cut() string {
	kind := t.a.Header["content-type"]
	switch {
	case t.a.Events == 0 && t.a.Bytes == 0:
		return "the body is empty"
	case t.a.Events == 0:
		return fmt.Sprintf("no event in %d bytes of %q", t.a.Bytes, kind)
	case t.broken != "":
		return t.broken
	}
	return "the body ended without a finish reason and without an end mark"
}

// tokens takes down how many tokens there were, and who says so.
func (t *tape) tokens() {
	a := &t.a
	if t.usage.Prompt != nil {
		a.PromptTokens, a.PromptSource = t.usage.Prompt, record.ByUsage
	}
	a.CachedTokens, a.ReasoningTokens = t.usage.Cached, t.usage.Reasoning
	if t.o.Count != nil && len(a.Chunks) > 0 {
		whole, err := t.o.Count(t.text.String())
		head, err2 := t.o.Count(t.firstText)
		if err == nil && err2 == nil { // a text that nobody can count is not counted
			a.Tokenized, t.tokenizedFirst = &whole, head
		}
	}
	n := t.usage.Output
	switch {
	case n != nil && (*n > 0 || len(a.Chunks) == 0): // 0 beside content is a service that does not count
		a.OutputTokens, a.TokenSource = n, record.ByUsage
	case a.Tokenized != nil:
		a.OutputTokens, a.TokenSource = a.Tokenized, record.ByTokenizer
	case len(a.Chunks) > 0:
		a.OutputTokens, a.TokenSource = ptr(len(a.Chunks)), record.ByChunks
	}
}

// tpot takes down the time per output token after those of the first event.
func (t *tape) tpot() {
	a := &t.a
	if len(a.Chunks) == 0 {
		a.TPOTAbsent = noContent
		return
	}
	after, why := t.tokensAfterFirst()
	switch {
	case why != "":
		a.TPOTAbsent = why
	case after < 1:
		a.TPOTAbsent = tooFew
	case t.firstN == t.lastN:
		a.TPOTAbsent = oneRead
	default:
		a.TPOT = ptr((*a.LastContent - *a.FirstToken) / time.Duration(after))
	}
}

// tokensAfterFirst returns n − k: how many of the answer's tokens came after
// those of the first event. Both are by the same count.
func (t *tape) tokensAfterFirst() (after int, why string) {
	a := &t.a
	n := *a.OutputTokens
	switch a.TokenSource {
	case record.ByChunks:
		return n - 1, ""
	case record.ByTokenizer:
		return n - t.tokenizedFirst, ""
	}
	if t.atFirst != nil { // the reasoning before it is in both
		return n - *t.atFirst, ""
	}
	if a.ReasoningTokens != nil {
		n -= *a.ReasoningTokens
		if n < 0 {
			return 0, fewerThanSeen
		}
	} else if a.FirstReasoning != nil {
		if a.Tokenized == nil {
			return 0, mixedUp
		}
		return *a.Tokenized - t.tokenizedFirst, ""
	}
	return n - max(1, t.firstTokens), ""
}
