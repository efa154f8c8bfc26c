package llmmock

import (
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"firstsound/clocks/random"
	"firstsound/llm"
)

// replies are what the mock says, and thinking what its reasoning says.
const (
	english = "Sure, I can help you with that. Your order left our warehouse on Monday and should arrive tomorrow before noon. " +
		"Would you like me to send you the tracking link? If nobody is at home, the driver leaves it with a neighbour. "
	chinese  = "好的，我来帮您查一下。您的订单周一已经从仓库发出，预计明天中午以前送到。需要我把物流链接发给您吗？如果家里没有人，可以放在邻居那里。"
	thinking = "The user asks about an order. I should look at what was said before, and answer in one or two short sentences. "
)

// tokens splits a text as a tokenizer might: words with the space before them,
// Chinese characters one by one, punctuation marks.
func tokens(text string) []string {
	var all []string
	begin, prev := 0, ' '
	for i, r := range text {
		word := unicode.IsLetter(r) && !unicode.Is(unicode.Han, r) || unicode.IsDigit(r) || r == '\''
		joins := word && (unicode.IsLetter(prev) && !unicode.Is(unicode.Han, prev) || unicode.IsDigit(prev) || prev == '\'') || prev == ' ' && i > 0
		if i > 0 && !joins {
			all = append(all, text[begin:i])
			begin = i
		}
		prev = r
	}
	if begin < len(text) && strings.TrimSpace(text[begin:]) != "" {
		all = append(all, text[begin:])
	}
	return all
}

// vocabulary holds the tokens of what the mock says.
type vocabulary struct{ english, chinese, thinking []string }

func newVocabulary(reply string) vocabulary {
	if reply != "" {
		return vocabulary{tokens(reply), tokens(reply), tokens(thinking)}
	}
	return vocabulary{tokens(english), tokens(chinese), tokens(thinking)}
}

// draw makes the plan of a request that no script answers.
func (s *Server) draw(a *ask, sv service, d *dialect, cached int, rng *random.Source) *Plan {
	p := &Plan{Status: http.StatusOK, Header: http.Header{}, Timed: s.fleet == nil && s.limit == nil}
	first := s.opts.First.Draw(rng)
	n := s.opts.Tokens.draw(rng)
	callDraw := rng.Chance(s.opts.ToolCall)
	call := len(a.tools) > 0 && a.last != "tool" && callDraw
	p.Prefill = first + time.Duration(float64(s.opts.Prefill)*float64(a.prompt-cached)/1000)
	m := maker{p: p, between: func() time.Duration { return s.opts.Between.Draw(rng) }, modelled: s.fleet != nil, at: p.Prefill, gate: 1}
	reason := "stop"
	if a.maxTokens > 0 && n+s.opts.Reasoning > a.maxTokens {
		n, reason = max(0, a.maxTokens-s.opts.Reasoning), "length"
	}
	p.Usage = Count{Prompt: a.prompt, Cached: cached, Reasoning: min(s.opts.Reasoning, max(a.maxTokens, s.opts.Reasoning))}
	if a.maxTokens > 0 {
		p.Usage.Reasoning = min(p.Usage.Reasoning, a.maxTokens)
	}

	if s.opts.EarlyHeaders || d.early && sv == openAI {
		p.Pieces = append(p.Pieces, Piece{Kind: Headers, Early: true})
	}
	if sv == openAI {
		if d.early {
			p.Pieces = append(p.Pieces, Piece{Kind: Comment, Text: d.comment, Early: true, Join: true})
			p.KeepAlive = d.keepAlive
		}
		if d.filter {
			m.add(Piece{Kind: Filter})
		}
		if d.timings && a.progress {
			m.progress(a.prompt, cached)
		}
	}
	if sv != ollamaChat && !(sv == openAI && d.role) {
		m.add(Piece{Kind: Role})
	}
	m.words(Reasoning, s.words.thinking, p.Usage.Reasoning, s.opts.TokensPerChunk)
	p.Usage.Output = p.Usage.Reasoning
	if call {
		t := a.tools[rng.Below(len(a.tools))]
		args := argumentsFor(t.Parameters)
		p.Calls = []llm.ToolCall{{Name: t.Name, Arguments: args}}
		half := len(args) / 2
		for half > 0 && args[half]&0xc0 == 0x80 {
			half--
		}
		m.token(Piece{Kind: Call, Text: t.Name, Tokens: 1})
		m.token(Piece{Kind: Arguments, Text: args[:half], Tokens: 1})
		m.token(Piece{Kind: Arguments, Text: args[half:], Tokens: 1})
		p.Usage.Output += 3
		reason = "tool_calls"
	} else {
		words := s.words.english
		if a.chinese {
			words = s.words.chinese
		}
		m.words(Text, words, n, s.opts.TokensPerChunk)
		p.Usage.Output += n
	}
	if reason != "length" {
		m.step() // the end-of-sequence token takes a step of its own
	}
	m.end(a, sv, d, reason)
	p.Steps = m.gate
	return p
}

// A maker appends pieces at the times of tokens.
type maker struct {
	p        *Plan
	between  func() time.Duration
	modelled bool
	at       time.Duration
	gate     int
	begun    bool // the first token is out
}

// when is the moment of the token under way.
func (m *maker) when() When {
	if m.modelled {
		return When{Gate: m.gate}
	}
	return When{Gate: 1, After: m.at}
}

// step goes on to the next token.
func (m *maker) step() {
	if m.begun {
		m.at += m.between()
		m.gate++
	}
	m.begun = true
}

// add adds a piece now. What follows the role goes out with it, as one write.
func (m *maker) add(e Piece) {
	e.When = m.when()
	if n := len(m.p.Pieces); n > 0 && !e.Join {
		before := &m.p.Pieces[n-1]
		e.Join = (before.Kind == Role || before.Kind == Filter) && before.When == e.When
	}
	m.p.Pieces = append(m.p.Pieces, e)
}

// token adds a piece of one token, after its step.
func (m *maker) token(e Piece) {
	m.step()
	m.add(e)
}

// words adds n tokens, so many to an event; the event comes with its last token.
func (m *maker) words(kind Kind, words []string, n, chunk int) {
	var text strings.Builder
	inChunk := 0
	for i := range n {
		m.step()
		w := words[i%len(words)]
		if i == 0 {
			w = strings.TrimLeft(w, " ")
		} else if i%len(words) == 0 && w[0] < 0x80 && w[0] != ' ' {
			w = " " + w
		}
		text.WriteString(w)
		if inChunk++; inChunk == chunk || i == n-1 {
			m.add(Piece{Kind: kind, Text: text.String(), Tokens: inChunk})
			text.Reset()
			inChunk = 0
		}
	}
}

func (m *maker) progress(prompt, cached int) {
	for _, part := range []float64{0.5, 1} {
		done := cached + int(float64(prompt-cached)*part)
		at := time.Duration(float64(m.p.Prefill) * part)
		w := When{Gate: 1, After: at}
		if m.modelled {
			w = m.when()
		}
		m.p.Pieces = append(m.p.Pieces, Piece{When: w, Kind: Progress, Text: string(appendf(nil, `,"prompt_progress":{"total":%d,"cache":%d,"processed":%d,"time_ms":%d}`,
			prompt, cached, done, at.Milliseconds()))})
	}
}

// end adds what comes after the last token, in one write.
func (m *maker) end(a *ask, sv service, d *dialect, reason string) {
	p := m.p
	finish := Piece{Kind: Finish, Text: reason}
	if sv == openAI && d.usageOnFinish {
		finish.Count = &p.Usage
	}
	m.add(finish)
	rest := []Piece{{Kind: End, Join: true}}
	if sv == openAI && a.usage && !d.usageOnFinish {
		rest = append([]Piece{{Kind: Usage, Count: &p.Usage, Join: true}}, rest...)
	}
	for _, e := range rest {
		m.add(e)
	}
	if a.continuous {
		so := Count{Prompt: p.Usage.Prompt, Cached: p.Usage.Cached}
		for i := range p.Pieces {
			if e := &p.Pieces[i]; e.Kind == Text || e.Kind == Reasoning {
				so.Output += e.Tokens
				c := so
				e.Count = &c
			}
		}
	}
}

// A prefixes remembers the heads of prompts that were seen, by block.
type prefixes struct {
	mu   sync.Mutex
	seen map[uint64]struct{}
}

// block is how many bytes of a prompt are taken for 16 tokens, and maxBlocks how
// many are remembered before all are forgotten.
const (
	block     = 64
	maxBlocks = 1 << 20
)

// look returns what part of the text's head was seen before, in bytes, and
// remembers all of it.
func (c *prefixes) look(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) > maxBlocks {
		c.seen = map[uint64]struct{}{}
	}
	h, known, hit := uint64(14695981039346656037), 0, true
	for i := 0; i+block <= len(text); i += block {
		for _, b := range []byte(text[i : i+block]) {
			h = (h ^ uint64(b)) * 0x100000001b3
		}
		if _, ok := c.seen[h]; !ok {
			hit = false
			c.seen[h] = struct{}{}
		}
		if hit {
			known = i + block
		}
	}
	return known
}

// cachedTokens is the part of the prompt that the cache holds: whole blocks of 16
// tokens, and at least one token is computed, as vLLM has it.
func cachedTokens(prompt, known, bytes int) int {
	if bytes == 0 {
		return 0
	}
	n := int(float64(prompt) * float64(known) / float64(bytes))
	n -= n % 16
	if n >= prompt {
		n = (prompt - 1) / 16 * 16
	}
	return n
}
