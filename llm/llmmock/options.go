package llmmock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"firstsound/clocks/random"
	"firstsound/llm/llmsim"
)

// Options say how the mock answers. Start from [Defaults].
type Options struct {
	Seed    uint64 `yaml:"seed"`
	Model   string `yaml:"model"`   // the name that it tells; empty: the one that was asked for
	Dialect string `yaml:"dialect"` // of /v1/chat/completions: see Dialects

	// Time to first token = first + prefill × computed prompt tokens / 1,000;
	// then between from each token to the next. Reasoning counts as tokens.
	First   random.Dist   `yaml:"first"`
	Prefill time.Duration `yaml:"prefill"` // per 1,000 prompt tokens
	Between random.Dist   `yaml:"between"`

	Tokens         Number  `yaml:"tokens"`           // of an answer
	TokensPerChunk int     `yaml:"tokens_per_chunk"` // in an event
	Reasoning      int     `yaml:"reasoning"`        // tokens of reasoning ahead of the answer
	Reply          string  `yaml:"reply"`            // the answer, over and over until Tokens; empty: sentences of a voice agent
	ToolCall       float64 `yaml:"tool_call"`        // probability that a request with tools is answered with a call of one

	// PrefixCache: the head of a prompt that was seen before needs no prefill, in
	// whole blocks of 16 tokens, and is told as cached_tokens.
	PrefixCache bool `yaml:"prefix_cache"`

	// EarlyHeaders: the status line goes out on arrival, not with the first event.
	EarlyHeaders bool `yaml:"early_headers"`

	// ServerTiming: the header Server-Timing tells queue and prefill, as far as
	// they are known when the headers go out.
	ServerTiming bool `yaml:"server_timing"`

	// Server, if it is not nil, is an inference server that is modelled: queue,
	// batch and prefill come out of it, and First, Prefill and Between have no say.
	Server *llmsim.Server `yaml:"server"`

	Scripts []string `yaml:"scripts"` // answers in turn, in place of made-up ones: see ScriptHelp
	Faults  []string `yaml:"faults"`  // see Faults

	MaxConcurrent int   `yaml:"max_concurrent"` // requests at once; one more is refused with 503
	MaxBody       int64 `yaml:"max_body"`       // bytes of a request

	// Epoch is what the wall clock showed when the run's clock was at 0; zero: a
	// fixed day.
	Epoch time.Time `yaml:"-"`

	// Truth is told of each request when it has ended, by several goroutines at
	// once. Nil: nobody listens.
	Truth func(Truth) `yaml:"-"`
}

// Defaults are a small model nearby: TTFT lognormal(247ms, 0.114), which is the
// median and spread of the P50 247 ms and P95 298 ms of an 8B model that the
// issue's article measured, 20 ms between tokens (50 tokens a second), answers
// of 64 tokens.
func Defaults() Options {
	return Options{
		Dialect: "vllm", First: random.MustParse("lognormal(247ms, 0.114)"), Between: random.Const(20 * time.Millisecond),
		Tokens: MustNumber("64"), TokensPerChunk: 1, MaxConcurrent: 4096, MaxBody: 16 << 20,
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	_, err := findDialect(o.Dialect)
	if err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	if o.TokensPerChunk < 1 || o.TokensPerChunk > 1e4 {
		return fmt.Errorf("tokens_per_chunk: %d; it lies between 1 and 10000", o.TokensPerChunk)
	}
	if o.Reasoning < 0 || o.Reasoning > maxOutput {
		return fmt.Errorf("reasoning: %d; it lies between 0 and %d tokens", o.Reasoning, maxOutput)
	}
	if o.MaxConcurrent < 1 || o.MaxBody < 1 {
		return fmt.Errorf("max_concurrent: it is %d, and max_body %d; both are at least 1", o.MaxConcurrent, o.MaxBody)
	}
	for i, s := range o.Scripts {
		if _, err := ParseScript(s); err != nil {
			return fmt.Errorf("scripts: %d: %w", i+1, err)
		}
	}
	if o.Server != nil {
		if _, err := o.Server.Fleet(); err != nil {
			return err
		}
		if len(o.Scripts) > 0 {
			return errors.New("scripts: a modelled server makes its own times; leave one of them out")
		}
	}
	if _, err := parseFaults(o.Faults, o.Server != nil); err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	return cmp.Or(random.NotNegative("prefill", o.Prefill), random.Probability("tool_call", o.ToolCall))
}

// Set sets one key of the options, as YAML writes it: "first=120ms",
// "server={gpu: l4}", "server.gpu=l4".
func (o *Options) Set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q: write KEY=VALUE", setting)
	}
	var text strings.Builder // in YAML's block style, where a value may have commas
	for i, k := range strings.Split(key, ".") {
		fmt.Fprintf(&text, "\n%s%q:", strings.Repeat(" ", i), k)
	}
	text.WriteString(" " + value)
	return o.Decode([]byte(text.String()))
}

// Decode lays YAML over the options.
func (o *Options) Decode(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(o); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// FromSim returns o with the times and answers of a simulated model, as a
// scenario writes it: base is first, prefill counts per 1,000 tokens, tpot is
// between, and failures and stalls take their median. Its network and
// connections are the real ones here.
func (o Options) FromSim(s llmsim.Options) (Options, error) {
	o.First, o.Prefill, o.Between, o.Reasoning, o.PrefixCache = s.Base, s.Prefill*1000, s.TPOT, s.Reasoning, s.PrefixCache
	o.ToolCall, o.Server, o.EarlyHeaders = s.ToolCall, s.Server, s.EarlyRole
	if len(s.Replies) > 0 {
		o.Reply = strings.Join(s.Replies, " ")
	}
	for _, f := range []struct {
		name string
		p    float64
	}{
		{"status:503,after=" + s.FailAfter.Quantile(0.5).String(), s.Fail}, {"stall:at=5,for=" + s.StallFor.Quantile(0.5).String(), s.Stall},
		{"truncate:5", s.Truncate}, {"empty", s.Empty},
	} {
		if f.p > 0 {
			sep := ","
			if !strings.Contains(f.name, ":") {
				sep = ":"
			}
			o.Faults = append(o.Faults, fmt.Sprintf("%s%sp=%g", f.name, sep, f.p))
		}
	}
	return o, o.Check()
}

// maxOutput bounds an answer, in tokens.
const maxOutput = 1 << 16

// A Number is a distribution of whole numbers, written as a random.Dist whose
// durations have no unit: 64, uniform(20, 60), lognormal(120, 0.3).
type Number struct {
	dist random.Dist
	text string
}

// MustNumber is ParseNumber for constants in code. It panics on an error.
func MustNumber(text string) Number {
	n, err := ParseNumber(text)
	if err != nil {
		panic(err)
	}
	return n
}

var plainNumber = regexp.MustCompile(`(^|[(,=]\s*)(\d+(?:\.\d+)?)`)

// ParseNumber reads a Number.
func ParseNumber(text string) (Number, error) {
	text = strings.TrimSpace(text)
	logarithm := strings.HasPrefix(text, "lognormal") || strings.HasPrefix(text, "heavy")
	i := 0
	asNS := plainNumber.ReplaceAllStringFunc(text, func(m string) string {
		i++
		if logarithm && i == 2 { // the σ
			return m
		}
		return m + "ns"
	})
	d, err := random.Parse(asNS)
	if err != nil {
		return Number{}, fmt.Errorf("%q is no number and no distribution such as uniform(20, 60)", text)
	}
	if q := d.Quantile(1 - 1e-15); d.Quantile(0.5) > maxOutput || q < 0 || q > 1<<60 {
		return Number{}, fmt.Errorf("%q is more than %d, or has a tail beyond reason", text, maxOutput)
	}
	return Number{d, text}, nil
}

// draw returns a draw from 0 to maxOutput.
func (n Number) draw(s *random.Source) int {
	return int(math.Min(float64(n.dist.Draw(s)), maxOutput))
}

// String returns the number as it was written.
func (n Number) String() string { return cmp.Or(n.text, "0") }

// UnmarshalText reads a Number.
func (n *Number) UnmarshalText(text []byte) error {
	v, err := ParseNumber(string(text))
	if err == nil {
		*n = v
	}
	return err
}

// MarshalText returns what UnmarshalText reads.
func (n Number) MarshalText() ([]byte, error) { return []byte(n.String()), nil }
