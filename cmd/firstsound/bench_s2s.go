package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firstsound/audio/realtime"
	"firstsound/audio/realtime/mock"
	"firstsound/audio/realtime/s2sbench"
	"firstsound/clocks"
	"firstsound/clocks/quantile"
	llmbench "firstsound/llm/bench"
	"firstsound/pipeline/scenario"
)

// benchS2S is the command bench s2s with its flags.
type benchS2S struct {
	benchSpeech
	corpus string
	url    string
	model  string
	keyEnv string
	caFile string
	mocked bool
	turns  int
	length int // turns in a session
}

// realtimeNeeds are what OpenAI's agent cannot do without.
var realtimeNeeds = needs{key: "OPENAI_API_KEY", url: realtime.DefaultURL}

// realtimePath is where agents serve the Realtime API.
const realtimePath = "/v1/realtime"

func newBenchS2SCmd(s streams) *cobra.Command {
	b := &benchS2S{benchSpeech: benchSpeech{streams: s, stage: "s2s", provider: "realtime", rounds: 1}}
	o := realtime.Defaults()
	cmd := &cobra.Command{
		Use:   "s2s (--url ADDRESS | --mock)",
		Short: "A speech-to-speech agent over recordings: how long the user waits to hear it",
		Long: `Bench s2s says recordings to an agent that speaks OpenAI's Realtime API over a
WebSocket, in real time, 20 ms of sound every 20 ms, and listens. The wait runs from
the true end of the speech, which is the recording's, to the first sample of the
answer that can be heard (Pipecat's rule: 50 windows of 10 ms, one every 1 ms, above
-40 dBFS), as a player without a buffer plays it. What the agent tells of its work
cuts it into segments, which add up to it in every turn:

  sending    until the message with the last sound of the speech is written: the rest
             of its 20 ms, and the lateness of this computer
  endpoint   until speech_stopped: the silence that the agent waits for, the network
  response   until response.created
  answer     until the first audio delta
  onset      until the first audible sample: silence at the head of the answer

What an agent does not tell is in the next segment (endpoint+response). An answer
that comes before the speech is over counts with its negative time, and is flagged;
so is a turn whose sound was sent late. An answer to a pause, which is followed by
another one, is counted as premature. The first turn of the run stands apart.

The key comes from the environment and is kept nowhere. An interrupt (Ctrl-C) ends
the run; what was measured is kept and shown.`,
		Example: `  firstsound bench s2s --mock --turns 3            no agent, no key: to see what it does
  firstsound bench s2s --model gpt-realtime        OpenAI's own, with OPENAI_API_KEY
  firstsound bench s2s --url wss://agent.example/v1/realtime --model m --key-env MY_KEY
  firstsound bench s2s --mock --set silence_duration_ms=200 --turns 100 --concurrency 4
  firstsound bench s2s --url ws://127.0.0.1:8003 --language zh --out agent-1 --json`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !b.mocked && !cmd.Flags().Changed("url") && !cmd.Flags().Changed("model") {
				return usagef("name the agent: --url wss://HOST%s, or --model for OpenAI's own; --mock is one to try it with", realtimePath)
			}
			b.made = made(cmd, nil, scenario.Real)
			return b.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&b.url, "url", "u", o.URL, "`ADDRESS` of the agent, ws:// or wss://;\n"+realtimePath+" if it has no path")
	f.StringVarP(&b.model, "model", "m", o.Model, "`MODEL`, as the agent names it")
	f.BoolVar(&b.mocked, "mock", false, "measure an agent with known times that runs in this program\n(see firstsound mock s2s)")
	f.StringVar(&b.keyEnv, "key-env", "", "the environment `VARIABLE` with the key ("+realtimeNeeds.key+" if it is set)")
	f.StringVar(&b.caFile, "ca-file", "", "certificate of an authority of your own (PEM `FILE`)")
	f.StringArrayVar(&b.set, "set", nil, "set a key of the session: `KEY=VALUE`; voice, instructions, turn_detection\n(server_vad, semantic_vad, none), threshold, prefix_padding_ms,\nsilence_duration_ms, eagerness, beta, frame, timeout")
	f.IntVarP(&b.turns, "turns", "n", 0, "how many turns at each level, the recordings in turn (`N`);\neach recording once if not given")
	f.IntVar(&b.length, "session-turns", 5, "turns in a session, after which another one is opened (`N`)")
	f.IntSliceVar(&b.levels, "concurrency", []int{1}, "how many callers at a time, one level after the other (`N,N`)")
	f.StringVar(&b.language, "language", "en", "`LANGUAGE` of the recordings: en, zh or another")
	f.StringVar(&b.corpus, "corpus", "", "your own WAV files (`DIR`); the built-in recordings if not given")
	f.StringVar(&b.out, "out", "", "write "+benchTrialsFile+", line by line as they come, and "+benchReportFile+" to this new `FOLDER`")
	f.BoolVar(&b.json, "json", false, "print the report as JSON")
	return cmd
}

// options returns how the agent at an address is measured.
func (b *benchS2S) options(e env, address *url.URL) (o s2sbench.Options, err error) {
	o = s2sbench.Options{Agent: realtime.Defaults(), Turns: b.turns, Session: b.length}
	if err := lay(&o.Agent, b.set); err != nil {
		return o, err
	}
	o.Agent.URL, o.Agent.Model = address.String(), b.model
	own := b.url
	if own == realtime.DefaultURL {
		own = "" // it needs a key
	}
	if !b.mocked {
		if o.Agent.Key, o.Agent.TLS, err = e.reach(realtimeNeeds, own, b.keyEnv, b.caFile); err != nil {
			return o, usageError{flagNames(err)}
		}
	}
	hears := benchASR{benchSpeech: b.benchSpeech, corpus: b.corpus}
	o.Utterances, err = hears.recordings()
	return o, err
}

// flagNames names the flags in place of the keys of a scenario.
func flagNames(err error) error {
	return errors.New(strings.NewReplacer("key_env:", "--key-env:", "ca_file:", "--ca-file:").Replace(err.Error()))
}

// agentAddress adds the usual path to an address that has none.
func agentAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, usagef("--url takes an address that begins with ws:// or wss://, such as %s", realtime.DefaultURL)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = realtimePath
	}
	return u, nil
}

// serveMock serves an agent with known times on this computer, and returns its
// address and what ends it.
func serveMock(ctx context.Context, clock clocks.Clock) (address string, end func() error, err error) {
	m, err := mock.New(clock, mock.Defaults())
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	g, inner := clocks.NewGroup(context.WithoutCancel(ctx), clock)
	g.Go("the mock", func() error { return m.Serve(inner, l, nil) })
	return "ws://" + l.Addr().String(), func() error {
		g.Cancel(errors.New("the benchmark is over"))
		return g.Wait()
	}, nil
}

func (b *benchS2S) run(ctx context.Context) (failed error) {
	switch err := b.check(); {
	case err != nil:
		return err
	case b.turns < 0 || b.turns > 1_000_000:
		return usagef("--turns takes 1 to 1,000,000, not %d", b.turns)
	case b.length < 1:
		return usagef("--session-turns takes 1 and more, not %d", b.length)
	case b.mocked && b.url != realtime.DefaultURL:
		return usagef("--mock measures the agent in this program: leave --url out")
	}
	clock := clocks.NewReal()
	if b.mocked {
		address, end, err := serveMock(ctx, clock)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, end()) }()
		b.url, b.model = address, "mock"
	}
	address, err := agentAddress(b.url)
	if err != nil {
		return err
	}
	e, closing := b.environment(clock)
	defer closing()
	o, err := b.options(e, address)
	if err != nil {
		return err
	}
	bench, err := s2sbench.New(clock, o)
	if err != nil {
		return usageError{err}
	}
	summary := s2sbench.NewSummary(s2sbench.Report{URL: llmbench.PublicURL(address), Model: b.model, TurnDetection: detection(o.Agent), Corpus: b.corpus, Language: b.language})
	return measure(ctx, &b.benchSpeech, len(b.levels)*bench.Turns(), "turns", summary, writeBenchS2S,
		func(level int, keep func(s2sbench.Trial) error) error { return bench.Run(ctx, level, keep) },
		func(t s2sbench.Trial) bool { return t.Outcome == s2sbench.OK })
}

// detection says how the agent is told to find the end of the speech.
func detection(o realtime.Options) string {
	switch o.TurnDetection {
	case "server_vad":
		return fmt.Sprintf("server_vad, %d ms of silence", o.SilenceDurationMS)
	case "none":
		return "none: the caller says so at the true end of the speech"
	}
	return o.TurnDetection + ", eagerness " + o.Eagerness
}

// writeBenchS2S writes the report of bench s2s for people.
func writeBenchS2S(w io.Writer, r *s2sbench.Report) error {
	fmt.Fprintf(w, "bench s2s  %s · model %s · recordings: %s, %s\nturn detection: %s\n", r.URL, printable(r.Model), cmp.Or(r.Corpus, "built in"), r.Language, r.TurnDetection)
	if r.Partial {
		fmt.Fprintln(w, partialTrials)
	}
	if c := r.Cold; c != nil {
		writeCold(w, "turn", string(c.Outcome), coldPart{"session in", c.Connect}, coldPart{"first audible sample", c.Wait})
	}
	for _, l := range r.Levels {
		writeLevel(w, l.Concurrency, l.Turns, outcomeCounts(s2sbench.Outcomes, l.Outcomes), l.Errors)
		writeS2SLevel(w, l)
	}
	return nil
}

func writeS2SLevel(w io.Writer, l *s2sbench.Level) {
	if l.Late > 0 {
		fmt.Fprintf(w, "!  late: in %d turns sound was sent more than %v after it was there (P99); their figures are that much too long\n", l.Late, s2sbench.MaxLate)
	}
	t := newFigureTable(w)
	t.row("first audible sample, from the true end of the speech", l.Wait, inMillis)
	for _, s := range l.Segments {
		t.row("… "+s.Name, s.Times, inMillis)
	}
	for _, row := range []struct {
		name string
		d    quantile.Distribution
	}{
		{"the same in the first turns of sessions", l.First}, {"first audio delta, audible or not", l.Delta},
		{"opening a session", l.Connect}, {"sound late by (P99 of each turn)", l.Lateness},
	} {
		if row.d.N > 0 {
			t.row(row.name, row.d, inMillis)
		}
	}
	t.Flush()
	if l.Wait.N > 0 {
		var parts []string
		for _, s := range l.Segments {
			parts = append(parts, s.Name+" "+millis(s.Share))
		}
		fmt.Fprintf(w, "the mean wait of %s is %s\n", millis(time.Duration(*l.Wait.Mean)), strings.Join(parts, " + "))
	}
	for _, c := range []struct {
		n    int
		what string
	}{
		{l.Early, "early: the answer was heard before the speech was over; it is in the figures with its negative time"},
		{l.Premature, "premature: the agent answered a pause first; the answer that counts came later"},
		{l.Slow, "slow: the answer was heard, and was not done in time"},
		{l.Stalled, "stalled: a player without a buffer ran dry"},
	} {
		if c.n > 0 {
			fmt.Fprintf(w, "%d × %s\n", c.n, c.what)
		}
	}
}
