package llmsim

import (
	"cmp"
	"fmt"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
)

// Options say how a Model behaves. The zero value answers at once; start from
// [Defaults]. A Dist is a distribution of durations, a probability lies in
// 0 … 1.
//
// Time to first token = connect + network + base + prefill of the prompt +
// Reasoning × TPOT.
type Options struct {
	// Connect is what a new connection costs: DNS, TCP and TLS. Requests of a
	// session use its idle connections again, unless they have been idle for
	// longer than KeepAlive. As in HTTP/1.1, a connection carries one request at
	// a time, and is lost when the request fails or is cut off.
	Connect   random.Dist   `yaml:"connect"`
	KeepAlive time.Duration `yaml:"keep_alive"` // 0: none is used again

	// MaxConnections is how many requests the client, all sessions together, can
	// have open; the next one waits. 0: no limit.
	MaxConnections int `yaml:"max_connections"`

	// Network is the way to the server and back: a round trip.
	Network random.Dist `yaml:"network"`

	// Base is what the server needs for a request whatever its length: its API,
	// the queue, the wait for the running step to end.
	Base random.Dist `yaml:"base"`

	// Prefill is the time per prompt token that is not cached, and Step what a
	// step takes at least, since all weights are read. They overlap: n tokens
	// take ∛(Step³ + (n·Prefill)³).
	Prefill time.Duration `yaml:"prefill"`
	Step    time.Duration `yaml:"step"`

	// PrefixCache says that the server keeps the prompts of the session: the
	// CachedTokens of a request need no prefill, in whole blocks of 16, and at
	// least one token is computed (vLLM V1).
	PrefixCache bool `yaml:"prefix_cache"`

	// TPOT is the time from one token to the next.
	TPOT random.Dist `yaml:"tpot"`

	// Reasoning is how many tokens of reasoning precede the answer.
	Reasoning int `yaml:"reasoning"`

	// Replies are the answers to draw from, whatever the language of the
	// request. Nil: sentences of a voice agent in the language of the request,
	// Chinese for "zh" and English for all others.
	Replies []string `yaml:"replies"`

	// ToolCall is the probability that a request that has tools, and no result
	// of one since the user spoke, is answered with a call of one of them.
	ToolCall float64 `yaml:"tool_call"`

	Fail      float64     `yaml:"fail"`       // probability of a failure before the first token
	FailAfter random.Dist `yaml:"fail_after"` // from the end of Connect to the failure
	Error     string      `yaml:"error"`      // what the service says when it fails
	Stall     float64     `yaml:"stall"`      // probability of one pause in mid-stream
	StallFor  random.Dist `yaml:"stall_for"`  // how long it takes
	Truncate  float64     `yaml:"truncate"`   // probability that the stream just ends in the middle: no Usage, no Finish, no error
	Empty     float64     `yaml:"empty"`      // probability of an answer without content

	// EarlyRole: the Empty chunk that only tells the role arrives with the
	// headers, not with the first token.
	EarlyRole bool `yaml:"early_role"`

	// Buffered: a gateway keeps the answer until it is whole.
	Buffered bool `yaml:"buffered"`

	// Timings: the service tells its own queue time and prefill time.
	Timings bool `yaml:"timings"`

	// Server, if it is not nil, is shared by all calls: see there.
	Server *Server `yaml:"server"`
}

// Defaults are the options of Llama-3.1-8B in bf16 on one H100 SXM under vLLM,
// at moderate load, in the same region. F is the card's
// arithmetic (989.5 TFLOP/s), ηc the part of it that the server reached, Pblk
// the parameters of the model's layers.
//
//   - prefill 22.6µs: GEMM 2·Pblk/(F·ηc) = 2·6.98e9/(989.5e12·0.64) = 22.04 µs,
//     and attention 4·L·Hq·dh·t/2/(F·ηa) = 4·32·32·128·500/(989.5e12·0.50) =
//     0.53 µs, at the mean over a prompt of t = 1,000 tokens.
//   - step 6.07ms: the weights, W·b/(BW·ηw) = 8.03e9·2/(3350e9·0.79).
//   - base heavy(24ms, 0.39, 84ms): fitted here to the measured TTFT of table T2
//     (8B TP1 "general", 547 tokens: mean 39.75 ms, P90 52.5, P99 96.98) less
//     the 12.8 ms of prefill. The api of 8 to 20 ms, the wait for half a step
//     and c0 0.67 ms are in it.
//   - tpot lognormal(8.7ms, 0.2): mean 8.88 ms, for the measured mean of 8.89 ms
//     between tokens in the same run. The spread is an assumption.
//   - connect lognormal(15ms, 0.3), network lognormal(5ms, 0.3): assumption, a
//     round trip of 5 ms within a region, and three of them for TCP, TLS 1.3 and
//     DNS.
//   - keep_alive 5s: uvicorn, which serves vLLM, closes an idle connection then.
//   - prefix_cache true: the default of vLLM V1.
//   - no reasoning, no tool calls, no errors of any kind. fail_after 50ms and
//     stall_for lognormal(1s, 0.5) are assumptions, used once fail or stall are
//     set.
func Defaults() Options {
	return Options{
		Connect:     random.MustParse("lognormal(15ms, 0.3)"),
		KeepAlive:   5 * time.Second,
		Network:     random.MustParse("lognormal(5ms, 0.3)"),
		Base:        random.MustParse("heavy(24ms, 0.39, 84ms)"),
		Prefill:     22600 * time.Nanosecond,
		Step:        6070 * time.Microsecond,
		PrefixCache: true,
		TPOT:        random.MustParse("lognormal(8.7ms, 0.2)"),
		FailAfter:   random.Const(50 * time.Millisecond),
		Error:       "503 service unavailable (simulated)",
		StallFor:    random.MustParse("lognormal(1s, 0.5)"),
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if o.Reasoning < 0 {
		return fmt.Errorf("reasoning: %d tokens is negative", o.Reasoning)
	}
	if o.MaxConnections < 0 {
		return fmt.Errorf("max_connections: %d is negative", o.MaxConnections)
	}
	if o.Server != nil {
		if _, err := o.Server.fleet(clocks.NewVirtual(), 0); err != nil {
			return err
		}
	}
	return cmp.Or(
		random.Probability("tool_call", o.ToolCall), random.Probability("fail", o.Fail), random.Probability("stall", o.Stall),
		random.Probability("truncate", o.Truncate), random.Probability("empty", o.Empty),
		random.NotNegative("keep_alive", o.KeepAlive), random.NotNegative("prefill", o.Prefill), random.NotNegative("step", o.Step),
	)
}
