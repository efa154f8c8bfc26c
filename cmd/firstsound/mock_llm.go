package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"firstsound/clocks"
	"firstsound/llm/llmmock"
	"firstsound/llm/llmsim"
	"firstsound/pipeline/scenario"
)

func newMockCmd(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Be a service whose truth is known",
		Long: `Mock serves what real services serve, with latencies that you choose, and writes
down what it really did: the truth that a measuring client is held against.`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMockLLMCmd(s), newMockASRCmd(s), newMockTTSCmd(s), newMockS2SCmd(s), newMockAllCmd(s))
	return cmd
}

// mockLLMCmd is the command mock llm with its flags.
type mockLLMCmd struct {
	streams
	file     string
	listen   string
	anywhere bool
	texts    map[string]*string // flags that are keys of the options
	set      []string
	faults   []string
	scripts  []string
	truth    string
	tls      bool
	caOut    string
	http2    bool
}

// mockFlags are the flags that are keys of the options, as --set takes them.
var mockFlags = []struct{ flag, key, usage string }{
	{"seed", "seed", "`N`: the same requests in the same order are answered alike (default 0)"},
	{"dialect", "dialect", "`NAME` of the dialect of /v1/chat/completions (default vllm)"},
	{"model", "model", "`NAME` that it tells (default: the one that is asked for)"},
	{"first", "first", "`DISTRIBUTION` of the time to first token (default lognormal(247ms, 0.114))"},
	{"prefill", "prefill", "`TIME` more for every 1,000 prompt tokens"},
	{"between", "between", "`DISTRIBUTION` of the time from token to token (default 20ms)"},
	{"tokens", "tokens", "`NUMBER` of tokens of an answer: 64, uniform(20, 60) (default 64)"},
	{"tokens-per-chunk", "tokens_per_chunk", "`N` tokens come in one event (default 1)"},
	{"reasoning", "reasoning", "`N` tokens of reasoning come first"},
	{"server", "server", "`YAML`: the times come out of a modelled server: '{gpu: l4, model: qwen2.5-7b}'"},
}

func newMockLLMCmd(s streams) *cobra.Command {
	c := &mockLLMCmd{streams: s, texts: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "llm [FILE.yaml]",
		Short: "Serve a language model whose latencies are known",
		Long: `Mock llm answers OpenAI's chat completions (/v1/chat/completions, in a dialect),
Ollama's /api/chat and Anthropic's /v1/messages, streaming or not, and /v1/models,
/health and /metrics (Prometheus, with vLLM's names). The first line that it
prints is its URL. Ctrl-C ends it.

FILE.yaml holds keys of the mock (those of --set), or is a scenario, whose block
llm (of the provider sim) then says how long things take. Flags go over it.

Each request's draws go by its ID (X-Request-Id), or by its number where it has
none. --truth FILE gets a line of JSON for every request when it has ended:
request_id, arrived_ns, headers_ns, chunks_ns, done_ns … on the mock's clock, which
the first line ties to the wall clock (epoch_unix_ns).

` + llmmock.ScriptHelp + `
Scripts that are given several times take turns.

Dialects:
` + mockDialects() + `
Faults, as name, name:VALUE or name:key=value,key=value; p=0.1 for one request in
ten (the first key is the one that VALUE is for):
` + mockFaults(),
		Example: `  firstsound mock llm --listen 127.0.0.1:8000 --first 'lognormal(180ms, 0.3)' --between 12ms
  firstsound mock llm --truth truth.jsonl --fault delayed_ack --fault status:429,retry_after=1s,p=0.05
  firstsound mock llm --server '{gpu: l4, model: qwen2.5-7b}'
  firstsound mock llm --script 'R@5 t@214 t@234 F U(2) D' --script 'S(503)@3'
  firstsound mock llm --tls --http2 --ca-out ca.pem`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				c.file = args[0]
			}
			for flag, v := range c.texts {
				if !cmd.Flags().Changed(flag) {
					*v = ""
				}
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.listen, "listen", "127.0.0.1:0", "`ADDRESS:PORT`; port 0 is a free one")
	f.BoolVar(&c.anywhere, "listen-anywhere", false, "allow an address that others can reach")
	for _, m := range mockFlags {
		c.texts[m.flag] = f.String(m.flag, "", m.usage)
	}
	f.StringArrayVar(&c.set, "set", nil, "set any key of the mock: `KEY=VALUE`, such as prefix_cache=true or server.gpu=l4")
	f.StringArrayVar(&c.faults, "fault", nil, "misbehave: `NAME[:PARAMETERS]`; may be given several times")
	f.StringArrayVar(&c.scripts, "script", nil, "answer with a `SCRIPT`; may be given several times")
	f.StringVar(&c.truth, "truth", "", "write what really happened to `FILE`, a line for each request")
	f.BoolVar(&c.tls, "tls", false, "speak TLS, with a CA that is made now")
	f.StringVar(&c.caOut, "ca-out", "", "write the CA's certificate to `FILE`")
	f.BoolVar(&c.http2, "http2", false, "speak HTTP/2 too: by ALPN, or without TLS by prior knowledge")
	return cmd
}

func mockDialects() string {
	var b strings.Builder
	for _, d := range llmmock.Dialects() {
		fmt.Fprintf(&b, "  %-11s %s\n", d[0], d[1])
	}
	return b.String()
}

func mockFaults() string {
	var b strings.Builder
	for _, f := range llmmock.Faults() {
		fmt.Fprintf(&b, "  %-15s %s\n", f.Name, f.About)
		if len(f.Params) > 0 {
			fmt.Fprintf(&b, "  %-15s   %s\n", "", strings.Join(f.Params, ", "))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// maxMockFile bounds the file, in bytes.
const maxMockFile = 1 << 20

// options returns the mock's options: defaults, the file, --set, other flags.
func (c *mockLLMCmd) options() (llmmock.Options, error) {
	o := llmmock.Defaults()
	if c.file != "" {
		var err error
		if o, err = c.fromFile(o); err != nil {
			return o, err
		}
	}
	for _, s := range c.set {
		if err := o.Set(s); err != nil {
			return o, usagef("--set %s: %w", s, err)
		}
	}
	for _, m := range mockFlags {
		if v := *c.texts[m.flag]; v != "" {
			if err := o.Set(m.key + "=" + v); err != nil {
				return o, usagef("--%s %s: %w", m.flag, v, err)
			}
		}
	}
	o.Faults = append(o.Faults, c.faults...)
	o.Scripts = append(o.Scripts, c.scripts...)
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// fromFile lays the file over o.
func (c *mockLLMCmd) fromFile(o llmmock.Options) (llmmock.Options, error) {
	f, err := os.Open(c.file)
	if err != nil {
		return o, usageError{err}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMockFile+1))
	if err != nil {
		return o, usageError{err}
	}
	if len(text) > maxMockFile {
		return o, usagef("%s has more than %d bytes", c.file, maxMockFile)
	}
	var keys map[string]yaml.Node
	if yaml.Unmarshal(text, &keys) == nil && keys["llm"].Kind == 0 {
		if err := o.Decode(text); err != nil {
			return o, usagef("%s: %w", c.file, err)
		}
		return o, nil
	}
	sc, err := scenario.LoadFile(c.file)
	if err != nil {
		return o, usageError{err}
	}
	sim := llmsim.Defaults()
	if sc.LLM.Provider != "sim" {
		return o, usageError{sc.LLM.Errorf("provider", "the mock takes its times from the provider sim, not from %q", sc.LLM.Provider)}
	}
	if err := sc.LLM.Decode(&sim); err != nil {
		return o, usageError{err}
	}
	o.Seed, o.Model = sc.Seed, sc.LLM.Model
	if o, err = o.FromSim(sim); err != nil {
		return o, usagef("%s: llm: %w", c.file, err)
	}
	return o, nil
}

func (c *mockLLMCmd) run(ctx context.Context) (err error) {
	o, err := c.options()
	if err != nil {
		return err
	}
	if c.caOut != "" && !c.tls {
		return usagef("--ca-out goes with --tls")
	}
	host, _, err := checkListen("listen", c.listen, c.anywhere)
	if err != nil {
		return err
	}
	// Whoever has the port may be writing this truth file.
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	defer l.Close() // again, once it was served
	clock := clocks.NewReal()
	o.Epoch = clock.Epoch()
	if c.truth != "" {
		f, err2 := os.Create(c.truth)
		if err2 != nil {
			return err2
		}
		w, err2 := llmmock.NewWriter(f, o.Epoch)
		defer func() { err = cmp.Or(err, w.Err(), f.Close()) }()
		if err2 != nil {
			return err2
		}
		o.Truth = w.Write
	}
	serving := llmmock.Serving{HTTP2: c.http2, Grace: 500 * time.Millisecond}
	scheme := "http"
	if c.tls {
		config, ca, err := llmmock.MakeTLS(host)
		if err != nil {
			return err
		}
		if c.caOut != "" {
			if err := os.WriteFile(c.caOut, ca, 0o644); err != nil {
				return err
			}
		}
		serving.TLS, scheme = config, "https"
	}
	mock, err := llmmock.New(clock, o)
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintf(c.out, "listening on %s://%s/v1\n", scheme, l.Addr())
	if err := mock.Serve(ctx, l, serving); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	st := mock.Stats()
	fmt.Fprintf(c.out, "%d requests, %d failed or cut off; at most %d at once; %d writes, %d of them more than 1 ms late, the latest by %.1f ms\n",
		st.Requests, st.Failures, st.Concurred, st.Writes, st.Late, float64(st.LateMax)/1e6)
	return nil
}
