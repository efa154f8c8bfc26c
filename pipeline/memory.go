package pipeline

import "firstsound/llm"

// Memory says what of a conversation goes into a request. Limits of 0 do not
// apply.
type Memory struct {
	System       string // the system prompt
	SystemTokens int    // how long it is; 0: estimated from the text

	MaxMessages int // of history: the oldest go
	MaxTokens   int // of history: the oldest go
	// SummarizeAbove replaces history that is longer, in tokens, by a summary
	// of SummaryTokens. The summary is made between turns: it costs no time here.
	SummarizeAbove, SummaryTokens int
}

// An entry is a message of a conversation, and how long it is.
type entry struct {
	llm.Message
	tokens int
}

// A history is a conversation as it grows from turn to turn.
type history struct {
	memory  Memory
	entries []entry
	dropped int // messages left out for good, by a limit or a summary
	sent    int // tokens of the last request's prompt, which a prefix cache may hold
}

func newHistory(m Memory) *history {
	if m.SystemTokens == 0 {
		m.SystemTokens = llm.EstimateTokens(m.System)
	}
	return &history{memory: m, entries: make([]entry, 0, 16)}
}

func (h *history) add(m llm.Message, tokens int) {
	if tokens == 0 {
		tokens = llm.EstimateTokens(m.Content)
	}
	h.entries = append(h.entries, entry{m, tokens})
}

func (h *history) tokens() int {
	n := 0
	for _, e := range h.entries {
		n += e.tokens
	}
	return n
}

// trim keeps to the limits. It returns whether the head of the conversation
// changed, so that a prefix cache has only the system prompt left.
func (h *history) trim() bool {
	before := h.dropped
	if h.memory.SummarizeAbove > 0 && h.tokens() > h.memory.SummarizeAbove {
		h.dropped += len(h.entries)
		h.entries = append(h.entries[:0], entry{
			llm.Message{Role: llm.System, Content: "Summary of the conversation so far."}, h.memory.SummaryTokens})
	}
	for len(h.entries) > 0 && (h.memory.MaxMessages > 0 && len(h.entries) > h.memory.MaxMessages ||
		h.memory.MaxTokens > 0 && h.tokens() > h.memory.MaxTokens) {
		h.entries = h.entries[1:]
		h.dropped++
	}
	return h.dropped != before
}

// A prompt is what a request says to the model.
type prompt struct {
	messages []llm.Message
	tokens   int // of all messages
	cached   int // of these, how many the service has seen at the head of the request before
	history  int // how many messages of history are in it
	dropped  int // how many have been left out
}

// prompt builds a request out of the system prompt, the history, and the
// entries of this turn. It changes nothing: see sentPrompt.
func (h *history) prompt(turn []entry) prompt {
	p := prompt{
		messages: make([]llm.Message, 0, 1+len(h.entries)+len(turn)),
		tokens:   h.memory.SystemTokens,
		cached:   max(h.sent, h.memory.SystemTokens),
		history:  len(h.entries),
		dropped:  h.dropped,
	}
	if h.memory.SystemTokens > 0 {
		p.messages = append(p.messages, llm.Message{Role: llm.System, Content: h.memory.System})
	}
	for _, part := range [2][]entry{h.entries, turn} {
		for _, e := range part {
			p.messages = append(p.messages, e.Message)
			p.tokens += e.tokens
		}
	}
	p.cached = min(p.cached, p.tokens)
	return p
}
