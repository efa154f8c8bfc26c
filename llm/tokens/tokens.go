// Package tokens counts the tokens of a text, with a tokenizer whose vocabulary
// is built in.
package tokens

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"
)

// Default is the vocabulary that is used when nothing else is said: of OpenAI's
// models since GPT-4o. Other makers' models have others; for English the counts
// differ by about a tenth.
const Default = "o200k_base"

// A Counter counts tokens. It loads its vocabulary when it is first used, which
// takes part of a second and some tens of megabytes, and may be used from several
// goroutines. The zero Counter counts with Default.
type Counter struct {
	name  string
	once  sync.Once
	codec tokenizer.Codec
	err   error
}

// New returns a Counter for a vocabulary by name: o200k_base, cl100k_base,
// p50k_base, r50k_base. An empty name is Default.
func New(name string) (*Counter, error) {
	switch name {
	case "", "o200k_base", "cl100k_base", "p50k_base", "r50k_base":
		return &Counter{name: name}, nil
	}
	return nil, fmt.Errorf("llm: tokens: there is no vocabulary %q; there are o200k_base, cl100k_base, p50k_base, r50k_base", name)
}

// Name returns the name of the vocabulary.
func (c *Counter) Name() string {
	if c.name == "" {
		return Default
	}
	return c.name
}

// load loads the vocabulary.
func (c *Counter) load() {
	c.codec, c.err = tokenizer.Get(tokenizer.Encoding(c.Name()))
}

// Count returns how many tokens text has.
func (c *Counter) Count(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	c.once.Do(c.load)
	if c.err != nil {
		return 0, fmt.Errorf("llm: tokens: %w", c.err)
	}
	n, err := c.codec.Count(strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return 0, fmt.Errorf("llm: tokens: %w", err)
	}
	return n, nil
}
