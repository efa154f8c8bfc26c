package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"firstsound/asr/asrmock"
	"firstsound/audio/realtime/mock"
	"firstsound/clocks"
	"firstsound/llm/llmmock"
	"firstsound/tts/ttsmock"
)

// mockSpeech is the command mock asr, tts or all with its flags.
type mockSpeech struct {
	streams
	parts    []string // llm, asr, tts, s2s
	file     string
	listen   string
	wyoming  string
	anywhere bool
	set      []string
	faults   []string
	texts    []string
	corpus   string
	truth    string
	tls      bool
	caOut    string
}

// A mockPart is a mock that is made and waits to be served.
type mockPart struct {
	name    string // llm, asr, tts, s2s
	serve   func(ctx context.Context, l net.Listener, config *tls.Config) error
	wyoming func(ctx context.Context, l net.Listener) error // nil: it does not speak Wyoming
	show    string                                          // behind the address
	scheme  string
	close   func() error
}

const mockSpeechTimes = `FILE.yaml is a scenario: the mock takes its times from the block %s, of the provider
sim, as far as it knows them. --set goes over it, with any key of the mock, such as
%s.

What happens to a request follows from its ID (X-Request-Id, or the service's own
way to say it) and the seed. --truth writes a line of JSON for each connection or
request when it has ended: what arrived and when, what was sent and when, on the
mock's clock, which the first line ties to the wall clock (epoch_unix_ns).

`

func newMockASRCmd(s streams) *cobra.Command {
	c := &mockSpeech{streams: s, parts: []string{"asr"}}
	return c.command(&cobra.Command{
		Use:   "asr [FILE.yaml]",
		Short: "Serve a speech recognizer whose latencies are known",
		Long: `Mock asr speaks the protocols of Deepgram (/v1/listen, /v2/listen), AssemblyAI
(/v3/ws), OpenAI (/v1/realtime, /v1/audio/transcriptions), whisper.cpp (/inference),
DashScope (/api-ws/v1/inference), FunASR and Vosk (any other path), and with
--wyoming ADDRESS Wyoming. The first line that it prints is its address. Ctrl-C
ends it.

It knows the recordings that come with firstsound, or those of --corpus, when it
hears one from its beginning: their words, and where the speech ends. Of anything
else it hears where it is loud, and understands one of the texts, in turn.

` + fmt.Sprintf(mockSpeechTimes, "asr", "final, finalize, first_partial, interim, silence, seed") + `Faults:
` + indent(asrmock.FaultHelp),
		Example: `  firstsound mock asr --listen 127.0.0.1:8001 --set final=300ms
  firstsound mock asr --truth truth.jsonl --fault late_final=5s,p=0.1
  firstsound mock asr --text 'a table for four please' --tls --ca-out ca.pem
  firstsound bench asr --provider deepgram --set url=ws://127.0.0.1:8001`,
	})
}

func newMockTTSCmd(s streams) *cobra.Command {
	c := &mockSpeech{streams: s, parts: []string{"tts"}}
	return c.command(&cobra.Command{
		Use:   "tts [FILE.yaml]",
		Short: "Serve a speech synthesizer whose latencies are known",
		Long: `Mock tts speaks the protocols of OpenAI (…/audio/speech), ElevenLabs
(/v1/text-to-speech/…, stream, stream-input, multi-stream-input), Cartesia
(/tts/bytes, /tts/sse, /tts/websocket), Deepgram (/v1/speak), Piper (/synthesize)
and DashScope (/api-ws/v1/inference), and with --wyoming ADDRESS Wyoming. The first
line that it prints is its address. Ctrl-C ends it. Its speech is a tone, as long as
the text takes to be said.

` + fmt.Sprintf(mockSpeechTimes, "tts", "first_audio, lead_silence, rtf, chunk, rate, seed") + `Faults:
` + indent(ttsmock.FaultHelp),
		Example: `  firstsound mock tts --listen 127.0.0.1:8002 --set first_audio=150ms --set lead_silence=80ms
  firstsound mock tts --truth truth.jsonl --fault stall=2s,p=0.05
  firstsound bench tts --provider cartesia --set url=ws://127.0.0.1:8002`,
	})
}

func newMockS2SCmd(s streams) *cobra.Command {
	c := &mockSpeech{streams: s, parts: []string{"s2s"}}
	return c.command(&cobra.Command{
		Use:   "s2s",
		Short: "Serve a speech-to-speech agent whose latencies are known",
		Long: `Mock s2s is an agent that speaks OpenAI's Realtime API over a WebSocket (any path
that ends in /realtime). The first line that it prints is its address. Ctrl-C ends
it. It finds the end of the speech by its energy, after the silence_duration_ms of
the session, and its answer is a tone.

--set takes silence, endpoint, create, first, lead, length, chunk, gap, text, beta,
seed and max_audio; those that are times may be distributions. --truth writes a line
of JSON for each session when it has ended: what was heard and when, what was sent
and when, on the mock's clock, which the first line ties to the wall clock
(epoch_unix_ns).

Faults:
` + indent(mock.FaultHelp),
		Example: `  firstsound mock s2s --listen 127.0.0.1:8003 --set first=400ms --set lead=80ms --truth truth.jsonl
  firstsound mock s2s --set 'first=lognormal(350ms, 0.25)' --fault odd --tls --ca-out ca.pem
  firstsound bench s2s --url ws://127.0.0.1:8003`,
	})
}

func newMockAllCmd(s streams) *cobra.Command {
	c := &mockSpeech{streams: s, parts: []string{"llm", "asr", "tts"}}
	return c.command(&cobra.Command{
		Use:   "all [SCENARIO.yaml]",
		Short: "Serve all three: a language model, a recognizer and a synthesizer",
		Long: `Mock all is mock llm, mock asr and mock tts in one: on three ports, since DashScope
has one path for two of them. With --listen 127.0.0.1:8000 they are 8000 (llm), 8001
(asr) and 8002 (tts). Keys of --set and faults begin with the part: asr.final=300ms,
tts.stall=2s. --truth names a folder for llm.jsonl, asr.jsonl and tts.jsonl.

SCENARIO.yaml says in its blocks llm, asr and tts, of the provider sim, how long
things take: an agent that is pointed at the mocks has the stages of that scenario.`,
		Example: `  firstsound mock all --listen 127.0.0.1:8000 --set asr.final=250ms --set tts.first_audio=180ms --truth truth
  firstsound mock all scenario.yaml --fault asr.no_final,p=0.02 --fault tts.drop,p=0.02`,
	})
}

// command completes cmd with the flags.
func (c *mockSpeech) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = atMost(1)
	if c.has("s2s") {
		cmd.Args = atMost(0)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			c.file = args[0]
		}
		return c.run(cmd.Context())
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.listen, "listen", "127.0.0.1:0", "`ADDRESS:PORT`; port 0 is a free one")
	f.BoolVar(&c.anywhere, "listen-anywhere", false, "allow an address that others can reach")
	f.StringArrayVar(&c.set, "set", nil, "set any key of the mock: `KEY=VALUE`")
	f.StringArrayVar(&c.faults, "fault", nil, "misbehave: `NAME[=VALUE][,p=SHARE]`; may be given several times")
	if c.has("asr") {
		f.StringArrayVar(&c.texts, "text", nil, "what is understood of sound that it does not know (`TEXT`); several take turns")
		f.StringVar(&c.corpus, "corpus", "", "the recordings that it knows (`DIR`); those that come with firstsound if not given")
	}
	if len(c.parts) == 1 && !c.has("s2s") {
		f.StringVar(&c.wyoming, "wyoming", "", "speak Wyoming too, at this `ADDRESS:PORT`")
	}
	f.StringVar(&c.truth, "truth", "", "write what really happened to this `FILE`; for all, to this folder")
	f.BoolVar(&c.tls, "tls", false, "speak TLS, with a CA that is made now")
	f.StringVar(&c.caOut, "ca-out", "", "write the CA's certificate to `FILE`")
	return cmd
}

func (c *mockSpeech) has(part string) bool {
	for _, p := range c.parts {
		if p == part {
			return true
		}
	}
	return false
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// checkListen says whether others could reach the address, and ought not.
func checkListen(flag, address string, anywhere bool) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, usagef("--%s %s: write ADDRESS:PORT, such as 127.0.0.1:8000", flag, address)
	}
	if ip := net.ParseIP(host); !anywhere && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", 0, usagef("--%s %s: others could reach it; use 127.0.0.1, or say --listen-anywhere", flag, address)
	}
	return host, port, nil
}

func (c *mockSpeech) run(ctx context.Context) (err error) {
	host, port, err := checkListen("listen", c.listen, c.anywhere)
	if err != nil {
		return err
	}
	if c.wyoming != "" {
		if _, _, err := checkListen("wyoming", c.wyoming, c.anywhere); err != nil {
			return err
		}
	}
	if c.caOut != "" && !c.tls {
		return usagef("--ca-out goes with --tls")
	}
	if port > 0 && port+len(c.parts)-1 > 65535 {
		return usagef("--listen %s: it takes %d ports from there, and the last one is 65535", c.listen, len(c.parts))
	}
	// Whoever has the port may be writing the truth of --truth, which the making of
	// the parts begins anew.
	lines, err := c.occupy(host, port)
	defer func() {
		for _, l := range lines {
			l.Close() // again, where it was served
		}
	}()
	if err != nil {
		return err
	}
	clock := clocks.NewReal()
	parts, err := c.make(clock)
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.close())
		}
	}()
	if err != nil {
		return err
	}
	var config *tls.Config
	if c.tls {
		var ca []byte
		if config, ca, err = llmmock.MakeTLS(host); err != nil {
			return err
		}
		if c.caOut != "" {
			if err := os.WriteFile(c.caOut, ca, 0o644); err != nil {
				return err
			}
		}
	}
	g, inner := clocks.NewGroup(ctx, clock)
	defer func() {
		if served := g.Wait(); ctx.Err() == nil {
			err = errors.Join(err, served)
		}
	}()
	for i, p := range parts {
		c.serve(inner, g, p, lines[i], config)
	}
	if c.wyoming != "" {
		w := lines[len(parts)]
		fmt.Fprintf(c.out, "listening on tcp://%s (Wyoming)\n", w.Addr())
		g.Go("Wyoming", func() error { return parts[0].wyoming(inner, w) })
	}
	return nil
}

// occupy listens for each part, and for Wyoming behind them.
func (c *mockSpeech) occupy(host string, port int) (all []net.Listener, err error) {
	var addresses []string
	for i := range c.parts {
		at := port
		if at > 0 {
			at += i
		}
		addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(at)))
	}
	if c.wyoming != "" {
		addresses = append(addresses, c.wyoming)
	}
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	return all, nil
}

// serve says where a part listens, and serves it.
func (c *mockSpeech) serve(ctx context.Context, g *clocks.Group, p *mockPart, l net.Listener, config *tls.Config) {
	name, scheme := "", p.scheme
	if len(c.parts) > 1 {
		name = p.name + ": "
	}
	if config != nil {
		scheme += "s"
	}
	fmt.Fprintf(c.out, "%slistening on %s://%s%s\n", name, scheme, l.Addr(), p.show)
	g.Go(p.name, func() error { return p.serve(ctx, l, config) })
}
