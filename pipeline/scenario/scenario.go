// Package scenario reads what is to be run: a YAML file laid over the default
// scenario, and settings of single keys laid over both.
//
// It is strict. A key that means nothing, a duration without a unit, a number
// out of its range is an error that says where it is and what was probably
// meant. What a provider takes is not known here: a [Block] keeps it until
// somebody who knows decodes it, just as strictly.
package scenario

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/random"
	"firstsound/pipeline"
)

// A Scenario is what is to be run. The comments of its keys are in
// default.yaml. It is not to be changed after it has been loaded: YAML would
// not know.
type Scenario struct {
	Seed         uint64        `yaml:"seed"`
	Clock        Clock         `yaml:"clock"`
	Target       time.Duration `yaml:"target"`
	Load         Arrivals      `yaml:"load"`
	Conversation Conversation  `yaml:"conversation"`
	Corpus       string        `yaml:"corpus"`
	Line         Block         `yaml:"line"`
	VAD          Block         `yaml:"vad"`
	ASR          ASR           `yaml:"asr"`
	Turn         Turn          `yaml:"turn"`
	Agent        Agent         `yaml:"agent"`
	LLM          LLM           `yaml:"llm"`
	TTS          TTS           `yaml:"tts"`
	Cut          Cut           `yaml:"cut"`

	root *node
}

// A Clock says which clock a run is on.
type Clock string

const (
	Virtual Clock = "virtual"
	Real    Clock = "real"
)

// UnmarshalText refuses what is no Clock.
func (c *Clock) UnmarshalText(text []byte) error {
	switch v := Clock(text); v {
	case Virtual, Real:
		*c = v
		return nil
	}
	return fmt.Errorf("%s is not one of virtual, real", quote(string(text)))
}

// Arrivals says how many calls there are, and when they come in.
type Arrivals struct {
	Arrival  string        `yaml:"arrival"` // closed, poisson, constant, gamma or trace
	Sessions int           `yaml:"sessions"`
	Turns    int           `yaml:"turns"`
	Rate     float64       `yaml:"rate"`
	CV       float64       `yaml:"cv"`
	Trace    string        `yaml:"trace"`
	Duration time.Duration `yaml:"duration"`
	Warmup   int           `yaml:"warmup"`
}

// Lengths says how calls differ in how many turns they have.
type Lengths string

const (
	Constant  Lengths = "constant"
	Geometric Lengths = "geometric"
)

// UnmarshalText refuses what is no Lengths.
func (l *Lengths) UnmarshalText(text []byte) error {
	switch v := Lengths(text); v {
	case Constant, Geometric:
		*l = v
		return nil
	}
	return fmt.Errorf("%s is not one of constant, geometric", quote(string(text)))
}

// Conversation says what a call is like, and what the model is sent of it.
type Conversation struct {
	Turns              int         `yaml:"turns"`
	Lengths            Lengths     `yaml:"lengths"`
	Languages          []string    `yaml:"languages"`
	Gap                random.Dist `yaml:"gap"`
	BargeIn            float64     `yaml:"barge_in"`
	BargeInAfter       random.Dist `yaml:"barge_in_after"`
	SystemPrompt       string      `yaml:"system_prompt"`
	SystemPromptTokens int         `yaml:"system_prompt_tokens"`
	MaxMessages        int         `yaml:"max_messages"`
	MaxTokens          int         `yaml:"max_tokens"`
	SummarizeAbove     int         `yaml:"summarize_above"`
	SummaryTokens      int         `yaml:"summary_tokens"`
}

// ASR is the recognizer.
type ASR struct {
	Block
	Timeout time.Duration `yaml:"timeout"`
}

// Turn is the turn detector, and what is made of its judgement.
type Turn struct {
	Block
	MinDelay   time.Duration       `yaml:"min_delay"`
	MaxDelay   time.Duration       `yaml:"max_delay"`
	Add        bool                `yaml:"add"`
	Preemptive pipeline.Preemptive `yaml:"preemptive"`
	Server     bool                `yaml:"server"`
}

// Agent is the work around the model.
type Agent struct {
	Steps       []Step        `yaml:"steps"`
	Parallel    bool          `yaml:"parallel"`
	Tools       []Step        `yaml:"tools"`
	Filler      string        `yaml:"filler"`
	FillerAfter time.Duration `yaml:"filler_after"`
}

// A Step is a piece of the agent's work, or a tool of the model. Its provider
// is "sim" if none is given.
type Step struct {
	Name string `yaml:"name"`
	Block
}

// LLM is the language model.
type LLM struct {
	Block
	Model       string        `yaml:"model"`
	MaxTokens   int           `yaml:"max_tokens"`
	Temperature *float64      `yaml:"temperature"`
	Attempts    int           `yaml:"attempts"`
	Timeout     time.Duration `yaml:"timeout"`
	Backoff     time.Duration `yaml:"backoff"`
	Fallback    []Block       `yaml:"fallback"`
}

// TTS is the synthesizer.
type TTS struct {
	Block
	Attempts int           `yaml:"attempts"`
	Timeout  time.Duration `yaml:"timeout"`
	Backoff  time.Duration `yaml:"backoff"`
	Fallback []Block       `yaml:"fallback"`
}

// Cut says how the answer is cut into pieces that are spoken.
type Cut struct {
	Mode      pipeline.CutMode `yaml:"mode"`
	Words     int              `yaml:"words"`
	LookAhead bool             `yaml:"look_ahead"`
}

// A Block is a choice of a provider, and what is said to it.
type Block struct {
	Provider string `yaml:"provider"`

	path    string
	generic []string // the keys that are not the provider's
	node    *node
}

// Path returns where the block is in the scenario, such as "llm.fallback.0".
func (b Block) Path() string { return b.path }

// Errorf returns an error about a key of the block, or about the block itself
// for the key "", that says where it was written.
func (b Block) Errorf(key, format string, args ...any) error {
	n, path := b.node, b.path
	if key != "" {
		path = join(path, key)
		if v := b.node.find(key); v != nil && v.at.source != "" { // not one that Decode has added
			n = v
		}
	}
	return n.at.errorf(path, format, args...)
}

// Decode stores the provider's own keys in the struct that options points to,
// which holds the defaults of what the scenario does not say. Nil takes no
// keys. If options has a method Check() error, that has the last word; its
// errors begin with the key that they are about, and a colon.
//
// From then on the scenario, as YAML writes it, names all options.
func (b Block) Decode(options any) error {
	if b.node == nil { // of no scenario
		b.node = &node{kind: group}
	}
	owner := "provider " + b.Provider
	if options == nil {
		for _, f := range b.node.fields {
			if !slices.Contains(b.generic, f.key) {
				return unknownKey(f, b.path, b.generic, owner)
			}
		}
		return nil
	}
	v := reflect.ValueOf(options).Elem()
	keys := keysOf(v.Type())
	known := slices.Concat(b.generic, names(keys))
	err := decodeKeys(b.node, b.path, func(f field) (reflect.Value, error) {
		if slices.Contains(b.generic, f.key) {
			return reflect.Value{}, nil
		}
		if k, ok := findKey(keys, f.key); ok {
			return v.FieldByIndex(k.index), nil
		}
		return reflect.Value{}, unknownKey(f, b.path, known, owner)
	})
	if err != nil {
		return err
	}
	if c, ok := options.(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return b.Refuse(err)
		}
	}
	b.complete(b.node, encode(v))
	return nil
}

// Refuse puts an error about the options, such as "uplink: loss: 2 is too much",
// where it belongs: it begins with the key that it is about, and a colon.
func (b Block) Refuse(err error) error {
	key, text := "", err.Error()
	for {
		head, rest, ok := strings.Cut(text, ": ")
		if !ok || strings.ContainsAny(head, " .") {
			break
		}
		key, text = join(key, head), rest
	}
	return b.Errorf(key, "%s", text)
}

// complete adds to n what only all has.
func (b Block) complete(n, all *node) {
	for _, f := range all.fields {
		if slices.Contains(b.generic, f.key) && n == b.node {
			continue
		}
		switch v := n.get(f.key); {
		case v == nil || v.kind == scalar && v.null && f.value.kind == group:
			n.set(f)
		case v.kind == group && f.value.kind == group:
			b.complete(v, f.value)
		}
	}
}

//go:embed default.yaml
var defaultYAML string

// DefaultYAML returns the default scenario as it is documented: every key with
// a comment.
func DefaultYAML() string { return defaultYAML }

// defaultSource names the default scenario in messages.
const defaultSource = "the default scenario"

// LoadFile reads the scenario in a file, laid over the default one, and settings
// of the form "key.path=value" laid over both. The file "" is no file.
func LoadFile(name string, settings ...string) (*Scenario, error) {
	if name == "" {
		return Load("", nil, settings...)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &Error{Source: name, Problem: "is a folder: name the file in it"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	return Load(name, data, settings...)
}

func fileError(name string, err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Source: name, Problem: "there is no such file"}
	case errors.As(err, &path):
		err = path.Err
	}
	return &Error{Source: name, Problem: err.Error()}
}

// Load reads the scenario data as LoadFile does. The source is what messages
// call it.
func Load(source string, data []byte, settings ...string) (*Scenario, error) {
	t := reflect.TypeFor[Scenario]()
	root, err := readYAML(defaultSource, []byte(defaultYAML))
	if err != nil {
		return nil, err
	}
	over, err := readYAML(source, data)
	if err != nil {
		return nil, err
	}
	if over.kind != group && !over.null {
		return nil, over.at.errorf("", "a scenario is a group of keys, such as load: {turns: 100}, and not %s", over.what())
	}
	root = lay(root, over, t)

	parsed := make([]setting, len(settings))
	for i, text := range settings {
		if parsed[i], err = parseSetting(text); err != nil {
			return nil, err
		}
	}
	// A provider goes first, so that it takes the keys of the one before it
	// away and not those that are set for itself.
	slices.SortStableFunc(parsed, func(a, b setting) int { return a.rank() - b.rank() })
	for _, s := range parsed {
		if root, err = s.apply(root, t, 0); err != nil {
			return nil, err
		}
	}

	s := &Scenario{root: root}
	if err := decode(root, reflect.ValueOf(s).Elem(), ""); err != nil {
		return nil, err
	}
	for _, steps := range [][]Step{s.Agent.Steps, s.Agent.Tools} {
		for i := range steps {
			if steps[i].Provider == "" {
				steps[i].Provider = "sim"
			}
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s setting) rank() int {
	if s.keys[len(s.keys)-1] == "provider" {
		return 0
	}
	return 1
}

// YAML returns the whole scenario, with what was not said filled in. The same
// scenario has the same bytes, and they load to the same scenario.
func (s *Scenario) YAML() string { return s.root.write() }

// A KV is a key and its value.
type KV struct{ Key, Value string }

// Fixed returns what has to be the same in two runs that are compared, as far
// as the scenario knows it.
func (s *Scenario) Fixed() []KV {
	load := fmt.Sprintf("%s, %d sessions", s.Load.Arrival, s.Load.Sessions)
	if s.Load.Arrival != closed {
		load = fmt.Sprintf("%s, %v calls/s", s.Load.Arrival, s.Load.Rate)
	}
	temperature := "the service's own"
	if s.LLM.Temperature != nil {
		temperature = strconv.FormatFloat(*s.LLM.Temperature, 'g', -1, 64)
	}
	kv := []KV{
		{"clock", string(s.Clock)},
		{"model", s.LLM.Model},
		{"max_tokens", orOwn(s.LLM.MaxTokens)},
		{"temperature", temperature},
		{"stream", "true"},
		{"concurrency", load},
		{"turns_per_call", strconv.Itoa(s.Conversation.Turns)},
		{"system_prompt_tokens", strconv.Itoa(s.Conversation.SystemPromptTokens)},
		{"history", s.Conversation.history()},
		{"languages", strings.Join(s.Conversation.Languages, " ")},
		{"corpus", s.Corpus},
		{"line", s.Line.Provider},
		{"vad", s.VAD.Provider},
		{"asr", s.ASR.Provider},
		{"turn", s.Turn.Provider},
		{"llm", s.LLM.Provider},
		{"tts", s.TTS.Provider},
		{"cut", string(s.Cut.Mode)},
	}
	if s.Corpus == "" {
		kv[slices.IndexFunc(kv, func(kv KV) bool { return kv.Key == "corpus" })].Value = "built in"
	}
	return kv
}

// history says what becomes of a long history.
func (c Conversation) history() string {
	var parts []string
	add := func(n int, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(c.MaxMessages, "at most %d messages")
	add(c.MaxTokens, "at most %d tokens")
	add(c.SummarizeAbove, "summarized above %d tokens")
	if parts == nil {
		return "whole"
	}
	return strings.Join(parts, ", ")
}

func orOwn(n int) string {
	if n == 0 {
		return "the service's own"
	}
	return strconv.Itoa(n)
}
