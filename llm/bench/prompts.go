package bench

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"firstsound/llm"
)

//go:embed conversations/*.yaml
var builtin embed.FS

// A Prompt is what one request asks.
type Prompt struct {
	Messages []llm.Message
	Tools    []llm.Tool
	Language string
	Tokens   int // as PromptOptions.Count tells, with those around the messages
	fresh    bool
}

// A dialogue is a made-up call of a voice agent.
type dialogue struct {
	Name      string `yaml:"name"`
	System    string `yaml:"system"`
	Summary   string `yaml:"summary"`   // of what was said in earlier calls
	Knowledge string `yaml:"knowledge"` // what a retrieval would bring
	Turns     []turn `yaml:"turns"`

	language string
	tools    []llm.Tool
}

// A turn is what the user says, as a speech recognizer gives it, and what comes
// of it. The last of a dialogue has no answer.
type turn struct {
	User      string `yaml:"user"`
	Tool      *call  `yaml:"tool"`
	Assistant string `yaml:"assistant"`
}

// A call is the use of a tool, and its result.
type call struct {
	Name      string `yaml:"name"`
	Arguments string `yaml:"arguments"`
	Result    string `yaml:"result"`
}

// PromptOptions say how prompts are made.
type PromptOptions struct {
	Language string // "en", "zh" or "both"
	// Shared leaves out the number at the head of each prompt, so that a service
	// may find their heads in its prefix cache.
	Shared bool
	Count  func(text string) int // tokens of a text
	// Nonce tells the runs apart: the same one makes the same heads.
	Nonce uint64
}

// Prompts are the prompts of a run. They may be used by several goroutines.
type Prompts struct {
	o         PromptOptions
	dialogues []*dialogue
	file      []Prompt // in place of the dialogues

	mu    sync.Mutex
	sized map[int][]Prompt
	made  map[[2]int]Prompt
}

// NewPrompts returns the built-in conversations.
func NewPrompts(o PromptOptions) (*Prompts, error) {
	p := &Prompts{o: o, sized: map[int][]Prompt{}, made: map[[2]int]Prompt{}}
	var all [][]*dialogue
	for _, language := range []string{"en", "zh"} {
		if o.Language == language || o.Language == "both" {
			d, err := loadDialogues(language)
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("prompts: the language is en, zh or both, not %q", o.Language)
	}
	for i := range all[0] { // in turn
		for _, language := range all {
			if i < len(language) {
				p.dialogues = append(p.dialogues, language[i])
			}
		}
	}
	return p, nil
}

func loadDialogues(language string) ([]*dialogue, error) {
	name := "conversations/" + language + ".yaml"
	data, err := builtin.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	var all []*dialogue
	if err := yaml.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("prompts: %s: %w", name, err)
	}
	for _, d := range all {
		d.language = language
		if language == "zh" { // the ends of lines are no spaces there
			for _, text := range []*string{&d.System, &d.Summary, &d.Knowledge} {
				*text = strings.ReplaceAll(*text, " ", "")
			}
		}
		for _, t := range d.Turns {
			if t.Tool != nil && !slices.ContainsFunc(d.tools, func(o llm.Tool) bool { return o.Name == t.Tool.Name }) {
				d.tools = append(d.tools, llm.Tool{Name: t.Tool.Name, Description: strings.ReplaceAll(t.Tool.Name, "_", " "), Parameters: `{"type":"object"}`})
			}
		}
	}
	return all, nil
}

// messages returns what a turn puts into the conversation before it is answered.
func (t turn) messages(id string) []llm.Message {
	m := []llm.Message{{Role: llm.User, Content: t.User}}
	if t.Tool != nil {
		m = append(m,
			llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: id, Name: t.Tool.Name, Arguments: t.Tool.Arguments}}},
			llm.Message{Role: llm.Result, Content: t.Tool.Result, ToolCallID: id})
	}
	return m
}

// history returns the first n turns of d with their answers.
func (d *dialogue) history(n int) []llm.Message {
	var m []llm.Message
	for i, t := range d.Turns[:n] {
		m = append(m, t.messages(callID(d, i))...)
		m = append(m, llm.Message{Role: llm.Assistant, Content: t.Assistant})
	}
	return m
}

// callID returns the ID of the tool call of a turn. Mistral's templates want
// nine letters and digits.
func callID(d *dialogue, turn int) string {
	return (d.Name + "000000000")[:8] + string(rune('a'+turn%26))
}

// paragraphs joins the parts of a system message.
func paragraphs(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

// remembered puts words before a summary that say what it is.
func (d *dialogue) remembered() string {
	if d.language == "zh" {
		return "之前通话的摘要：" + d.Summary
	}
	return "Summary of earlier calls: " + d.Summary
}

// Natural returns prompt i: a dialogue up to some turn of it, with the system
// prompt, the summary of earlier calls, and what tools have returned.
func (p *Prompts) Natural(i int) Prompt {
	if p.file != nil {
		return p.file[i%len(p.file)]
	}
	n := i % len(p.dialogues)
	d := p.dialogues[n]
	// Neighbours are at different turns, so that the length of the prompts does
	// not grow in the course of a part.
	k := (i/len(p.dialogues) + 2*n) % len(d.Turns)
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]int{n, k}
	made, ok := p.made[key]
	if !ok {
		system := llm.Message{Role: llm.System, Content: paragraphs(d.System, d.remembered())}
		made = p.prompt(d, append(append([]llm.Message{system}, d.history(k)...), d.Turns[k].messages(callID(d, k))...))
		p.made[key] = made
	}
	return made
}

// prompt completes a prompt of d.
func (p *Prompts) prompt(d *dialogue, m []llm.Message) Prompt {
	made := Prompt{Messages: m, Tools: d.tools, Language: d.language}
	made.Tokens = p.tokens(p.head(made, 0))
	return made
}

// tokens counts m, with the tokens that the templates put around each message
// and before the answer: 4 and 3, as in OpenAI's cookbook (how to count tokens).
func (p *Prompts) tokens(m []llm.Message) int {
	n := 3
	for _, m := range m {
		n += 4 + p.o.Count(m.Content)
		for _, c := range m.ToolCalls {
			n += p.o.Count(c.Name) + p.o.Count(c.Arguments)
		}
	}
	return n
}

// head returns the messages of a prompt with the number of a request at their
// head, if there is to be one: no two prompts of a run begin with the same, so
// no service finds one in its prefix cache. All numbers have the same length.
func (p *Prompts) head(prompt Prompt, request int) []llm.Message {
	if p.o.Shared || len(prompt.Messages) == 0 || prompt.fresh {
		return prompt.Messages
	}
	// 387420489 is prime to 10⁹: no number comes twice before all have come.
	n := (p.o.Nonce%1e9 + uint64(request)%1e9*387420489) % 1e9
	name := "Call"
	if prompt.Language == "zh" {
		name = "来电"
	}
	m := slices.Clone(prompt.Messages)
	m[0].Content = fmt.Sprintf("%s %03d-%03d-%03d. %s", name, n/1e6, n/1e3%1e3, n%1e3, m[0].Content)
	return m
}

// A Session is a conversation that grows.
type Session struct {
	p        *Prompts
	d        *dialogue
	number   int
	at, turn int // the dialogue that it is in, and the turn of it
	messages []llm.Message
}

// Session returns conversation n, from 1, before its first turn. When its turns
// are used up it goes on with those of the next dialogue in the same language.
func (p *Prompts) Session(n int) *Session {
	at := (n - 1) % len(p.dialogues)
	d := p.dialogues[at]
	system := llm.Message{Role: llm.System, Content: paragraphs(d.System, d.remembered())}
	s := &Session{p: p, d: d, number: n, at: at, messages: []llm.Message{system}}
	// One number for the whole conversation, or no turn would find the one before
	// it in the cache, as it does in a real call.
	s.messages = p.head(Prompt{Messages: s.messages, Language: d.language}, -n&0x3fffffff)
	return s
}

// Next returns what the next turn asks. Reply has to be called before each turn
// but the first.
func (s *Session) Next() Prompt {
	d := s.p.dialogues[s.at]
	if s.turn == len(d.Turns) {
		s.turn = 0
		for {
			s.at = (s.at + 1) % len(s.p.dialogues)
			if d = s.p.dialogues[s.at]; d.language == s.d.language {
				break
			}
		}
	}
	s.messages = append(s.messages, d.Turns[s.turn].messages(callID(d, len(s.messages)))...)
	s.turn++
	made := s.p.prompt(d, slices.Clone(s.messages))
	made.fresh = true
	made.Tokens = s.p.tokens(s.messages)
	return made
}

// Reply takes the content of the answer just received.
func (s *Session) Reply(content string) {
	s.messages = append(s.messages, llm.Message{Role: llm.Assistant, Content: content})
}

// Prepare makes the prompts of a length in tokens, which takes time that should
// not be that of a measurement. Each is within 2 % of it, or one token.
func (p *Prompts) Prepare(target int) error {
	if p.file != nil {
		return errors.New("prompts: those of a file have the length that they have; prompts of a given length are made of the built-in ones")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sized[target] != nil {
		return nil
	}
	var all []Prompt
	for i := range p.dialogues {
		made, err := p.fit(i, target)
		if err != nil {
			return err
		}
		all = append(all, made)
	}
	p.sized[target] = all
	return nil
}

// Sized returns prompt i of those that Prepare has made.
func (p *Prompts) Sized(target, i int) Prompt {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.sized[target]
	return all[i%len(all)]
}

// fit makes a prompt of dialogue i with target tokens: of its system prompt and
// its last question, then as much of its history as fits, the latest first, then
// what is known, of this dialogue and the others, cut where the tokens are used
// up.
func (p *Prompts) fit(i, target int) (Prompt, error) {
	d := p.dialogues[i]
	last := len(d.Turns) - 1
	question := d.Turns[last].messages(callID(d, last))
	build := func(system string, history []llm.Message) Prompt {
		m := append([]llm.Message{{Role: llm.System, Content: system}}, history...)
		return p.prompt(d, append(m, question...))
	}
	if least := build("", nil).Tokens + 4; target < least {
		return Prompt{}, fmt.Errorf("prompts: %d tokens are too few for a system prompt and a question; %d are the least", target, least)
	}
	if build(d.System, nil).Tokens >= target {
		return p.cut("", d.System, target, 0, func(system string) Prompt { return build(system, nil) }), nil
	}
	from := last
	for from > 0 && build(d.System, d.historyFrom(from-1)).Tokens <= target {
		from--
	}
	history := d.historyFrom(from)
	with := func(system string) Prompt { return build(system, history) }
	// A piece is counted once: paragraphs have no tokens in common.
	text, sum := d.System, with(d.System).Tokens
	pieces := []string{d.remembered(), d.Knowledge}
	for k := 1; ; k++ {
		for _, piece := range pieces {
			n := p.o.Count("\n\n" + piece)
			if sum+n >= target {
				return p.cut(text+"\n\n", piece, target, sum, with), nil
			}
			text, sum = paragraphs(text, piece), sum+n
		}
		pieces = nil
		if o := p.dialogues[(i+k)%len(p.dialogues)]; o.language == d.language {
			pieces = []string{p.excerpt(o, k/len(p.dialogues))}
		}
	}
}

// historyFrom returns the turns from the given one up to the last, with their
// answers.
func (d *dialogue) historyFrom(turn int) []llm.Message {
	return d.history(len(d.Turns) - 1)[len(d.history(turn)):]
}

// excerpt returns what o adds to the prompt of another dialogue: what is known
// there, or in later rounds the record of that call.
func (p *Prompts) excerpt(o *dialogue, round int) string {
	if round == 0 {
		return o.Knowledge
	}
	names := [2]string{"Caller", "Agent"}
	title := fmt.Sprintf("Record %d of an earlier call:", round)
	if o.language == "zh" {
		names, title = [2]string{"来电人", "助手"}, fmt.Sprintf("以往通话记录之%d：", round)
	}
	lines := []string{title}
	for _, t := range o.Turns {
		lines = append(lines, names[0]+": "+t.User)
		if t.Assistant != "" {
			lines = append(lines, names[1]+": "+t.Assistant)
		}
	}
	return strings.Join(lines, "\n")
}

// cut returns the prompt of kept and as much of last as comes nearest to target
// tokens. sum is how many kept has, with all that is around it; 0 if nobody knows.
func (p *Prompts) cut(kept, last string, target, sum int, build func(string) Prompt) Prompt {
	if sum == 0 {
		sum = build(kept).Tokens
	}
	count := func(end int) int { return sum + p.o.Count(last[:end]) }
	end := nearest(last, target, count)
	made := build(kept + last[:end])
	if off := made.Tokens - count(end); off != 0 { // where the two meet
		made = build(kept + last[:nearest(last, target-off, count)])
	}
	return made
}

// nearest returns where to cut text so that count comes nearest to target: before
// a word, between two characters of Chinese, or if no such place is within a
// token of it, in a word.
func nearest(text string, target int, count func(end int) int) int {
	var ends []int
	for at, r := range text {
		if r == ' ' || r == '\n' || at > 0 && utf8.RuneLen(r) > 2 {
			ends = append(ends, at)
		}
	}
	ends = append(ends, len(text))
	high := sort.Search(len(ends)-1, func(i int) bool { return count(ends[i]) >= target })
	best, off := ends[high], distance(count(ends[high]), target)
	if high == 0 {
		return best
	}
	if below := distance(count(ends[high-1]), target); below < off {
		best, off = ends[high-1], below
	}
	for at := range text[ends[high-1]:ends[high]] {
		if off <= 1 {
			break
		}
		if n := distance(count(ends[high-1]+at), target); n < off {
			best, off = ends[high-1]+at, n
		}
	}
	return best
}

// distance returns how far a is from b.
func distance(a, b int) int { return max(a-b, b-a) }

// Lengths returns the least, the median and the greatest length in tokens of the
// prompts of natural shape.
func (p *Prompts) Lengths() (least, median, most int) {
	n := len(p.file)
	for _, d := range p.dialogues {
		n = max(n, len(p.dialogues)*len(d.Turns))
	}
	all := make([]int, n)
	for i := range all {
		all[i] = p.Natural(i).Tokens
	}
	slices.Sort(all)
	return all[0], all[n/2], all[n-1]
}

// Digest returns the head of a checksum of the prompts of a file.
func (p *Prompts) Digest() string {
	h := sha256.New()
	json.NewEncoder(h).Encode(p.file) // neither can fail
	return fmt.Sprintf("sha256 %x", h.Sum(nil)[:8])
}
