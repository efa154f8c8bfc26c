package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/spf13/cobra"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/rtc"
	"firstsound/audio/signal"
	"firstsound/audio/wavfile"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/pipeline/scenario"
)

// callCmd is the command call with its flags.
type callCmd struct {
	streams
	url       string
	protocol  string
	calls     int
	apart     time.Duration
	turns     int
	corpus    string
	utterance string
	language  string
	codec     string
	scenario  string
	interrupt string
	gap       time.Duration
	quiet     time.Duration
	wait      time.Duration
	ice       []string
	tokenEnv  string
	caFile    string
	answer    string
	record    string
	out       string
	overwrite bool
	json      bool
	strict    bool
	made      maker
	impairment
}

func newCallCmd(s streams) *cobra.Command {
	c := &callCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "call URL",
		Short: "Call a voice agent, and time its first sound at the ear",
		Long: `Call plays recordings into a voice agent, as a microphone does, in real time,
hears the answers, and tells the time from the true end of each recording's speech
to the first sound of the answer: on the wire, behind a fixed buffer, and behind
WebRTC's adaptive one (a model of NetEq).

URL is that of the agent. How it is talked to follows from it, unless --protocol
says so:
  smallwebrtc   Pipecat SmallWebRTC: POST …/api/offer (http:// or https://)
  openai        OpenAI Realtime: POST …/v1/realtime/calls
  whip          WHIP: POST of the offer; the answer has to send sound too
  ws            firstsound's own WebSocket line, …/ws (ws:// or wss://)
  twilio        Twilio Media Streams, …/twilio

Where the agent is firstsound serve, what it did in each turn stands beside it, by
request ID. The exit code is 1 if no turn was answered, or if a call failed: it did
not come about, or broke off before its last turn.

` + impairHelp,
		Example: `  firstsound call http://127.0.0.1:8090
  firstsound call http://127.0.0.1:8090 --calls 4 --turns 10 --codec opus
  firstsound call http://127.0.0.1:7860/api/offer --record recordings
  firstsound call https://agent.example/v1/realtime/calls --token-env AGENT_KEY
  firstsound call ws://127.0.0.1:8090/ws --interrupt after=2s
  firstsound call http://127.0.0.1:7860/api/offer --answer greeting.wav --strict`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("call takes the URL of an agent, such as http://127.0.0.1:8090")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.url, c.made = args[0], made(cmd, args, scenario.Real)
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.protocol, "protocol", "auto", "auto, smallwebrtc, openai, whip, ws or twilio")
	f.IntVar(&c.calls, "calls", 1, "calls at the same time")
	f.DurationVar(&c.apart, "apart", 20*time.Millisecond, "from the beginning of a call to that of the next: `TIME`")
	f.IntVar(&c.turns, "turns", 3, "turns of each call")
	f.StringVar(&c.corpus, "corpus", "", "your own WAV files in this `FOLDER`; the built-in recordings if not given")
	f.StringVar(&c.utterance, "utterance", "", "play only the recording with this `ID`")
	f.StringVar(&c.language, "language", "en", "of the recordings; empty: all")
	f.StringVar(&c.codec, "codec", "pcmu", "what is offered to the agent: `NAME` of "+codecNames())
	f.StringVar(&c.scenario, "scenario", "", "ask firstsound serve for a scenario of its library, by `NAME`")
	f.StringVar(&c.interrupt, "interrupt", "", "speak into each answer: `after=TIME` from its first sound")
	f.DurationVar(&c.gap, "gap", 200*time.Millisecond, "`TIME` from the end of an answer to the next recording")
	f.DurationVar(&c.quiet, "quiet", 1200*time.Millisecond, "silence of this `TIME` ends an answer")
	f.DurationVar(&c.wait, "wait", 10*time.Second, "wait so long for an answer: `TIME`")
	f.StringArrayVar(&c.ice, "ice", nil, "STUN or TURN server: `URL`, or URL,USER,ENV with the password in the variable ENV")
	c.impairment.flags(cmd)
	f.StringVar(&c.tokenEnv, "token-env", "", "send the token in this environment `VARIABLE`")
	f.StringVar(&c.caFile, "ca-file", "", "trust the certificates in this `FILE` (PEM)")
	f.StringVar(&c.answer, "answer", "", "the agent's answer as a WAV `FILE`: is its beginning missing, its rate wrong?")
	f.StringVar(&c.record, "record", "", "write a stereo WAV file of each call, with labels, to this `FOLDER`")
	f.StringVar(&c.out, "out", "", "write calls.json, and calls.jsonl as turns end, to this `FOLDER`")
	f.BoolVar(&c.overwrite, "overwrite", false, "replace what is in the folders of --out and --record")
	f.BoolVar(&c.json, "json", false, "print the report as JSON")
	f.BoolVar(&c.strict, "strict", false, "exit 1 if an answer is missing or not whole (--answer), or packets left over 5 ms late")
	return cmd
}

// protocolOf returns how the agent at a URL is talked to, and the address to ask.
func (c *callCmd) protocolOf() (protocol string, u *url.URL, err error) {
	u, err = url.Parse(c.url)
	if err != nil || u.Host == "" {
		return "", nil, usagef("%q is no URL of an agent, such as http://127.0.0.1:8090", c.url)
	}
	web := map[string]string{"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}[u.Scheme]
	if web == "" {
		return "", nil, usagef("%s: the URL begins with http, https, ws or wss", c.url)
	}
	protocol = c.protocol
	if protocol == "auto" {
		switch p := strings.TrimSuffix(u.Path, "/"); {
		case strings.HasSuffix(p, "/twilio"):
			protocol = "twilio"
		case u.Scheme == "ws" || u.Scheme == "wss" || strings.HasSuffix(p, "/ws"):
			protocol = "ws"
		case strings.HasSuffix(p, "/realtime/calls"):
			protocol = "openai"
		case strings.HasSuffix(p, "/whip"):
			protocol = "whip"
		default:
			protocol = "smallwebrtc"
		}
	}
	own := map[string]string{"smallwebrtc": "/api/offer", "openai": "/v1/realtime/calls", "whip": "/whip", "ws": "/ws", "twilio": "/twilio"}[protocol]
	if own == "" {
		return "", nil, usagef("--protocol takes auto, smallwebrtc, openai, whip, ws or twilio, not %q", protocol)
	}
	if protocol == "ws" || protocol == "twilio" {
		u.Scheme = web
	} else if u.Scheme == "ws" || u.Scheme == "wss" {
		return "", nil, usagef("%s is a WebSocket, and --protocol %s is not", c.url, protocol)
	}
	if path.Clean("/"+u.Path) == "/" {
		u.Path = own
	}
	return protocol, u, nil
}

// check reads the flags that need it.
func (c *callCmd) check() (after *time.Duration, err error) {
	switch {
	case c.calls < 1 || c.calls > 1000:
		return nil, usagef("--calls takes 1 to 1000, not %d", c.calls)
	case c.turns < 1 || c.turns > 100_000:
		return nil, usagef("--turns takes 1 to 100000, not %d", c.turns)
	case c.apart < 0 || c.apart > time.Minute:
		return nil, usagef("--apart takes 0s to 1m, not %v", c.apart)
	case c.quiet <= 0 || c.wait <= 0 || c.gap < 0:
		return nil, usagef("--quiet and --wait take times above 0, and --gap one that is not below")
	}
	if c.interrupt == "" {
		return nil, nil
	}
	value, ok := strings.CutPrefix(c.interrupt, "after=")
	d, err := time.ParseDuration(value)
	if !ok || err != nil || d < 0 {
		return nil, usagef("--interrupt takes after=TIME, such as after=2s, not %q", c.interrupt)
	}
	return &d, nil
}

// choose returns the recordings to play.
func (c *callCmd) choose() ([]*audio.Utterance, error) {
	all, warnings, err := loadCorpus(c.corpus)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintf(c.err, "firstsound: %s\n", w)
	}
	var list []*audio.Utterance
	for _, u := range all {
		if (c.utterance == "" || u.ID == c.utterance) && (c.utterance != "" || c.language == "" || u.Language == c.language || u.Language == "") {
			list = append(list, u)
		}
	}
	if len(list) == 0 {
		if c.utterance != "" {
			return nil, usagef("--utterance %s: none of %d recordings has this ID", c.utterance, len(all))
		}
		return nil, usagef("--language %s: none of %d recordings is in it; there is %s, and --language '' takes all", c.language, len(all), strings.Join(languages(all), ", "))
	}
	return list, nil
}

// languages are those of recordings.
func languages(all []*audio.Utterance) (list []string) {
	for _, u := range all {
		if u.Language != "" && !slices.Contains(list, u.Language) {
			list = append(list, u.Language)
		}
	}
	return list
}

func (c *callCmd) run(ctx context.Context) error {
	protocol, u, err := c.protocolOf()
	if err != nil {
		return err
	}
	after, err := c.check()
	if err != nil {
		return err
	}
	if err := c.impairment.read(); err != nil {
		return err
	}
	list, err := c.choose()
	if err != nil {
		return err
	}
	caller := &caller{callCmd: c, clock: clocks.NewReal(), address: u, shown: u.Redacted(), protocol: protocol, recordings: list, interruptAfter: after}
	if c.answer != "" {
		w, err := wavfile.ReadFile(c.answer)
		if err != nil {
			return usageError{err}
		}
		caller.known = &w.Sound
	}
	caller.epoch = caller.clock.Epoch()
	caller.run8 = fmt.Sprintf("call-%08x", uint32(caller.epoch.UnixNano()>>20))
	if err := c.room(); err != nil {
		return err
	}
	if err := caller.prepare(ctx); err != nil {
		return err
	}
	defer caller.close()
	if caller.log, err = newCallLog(c.out, c.made); err != nil {
		return err
	}
	results := make([]*callResult, c.calls)
	progress := newCounter(c.streams, c.calls*c.turns, "turns")
	g, inner := clocks.NewGroup(ctx, caller.clock)
	for i := range results {
		g.Go("call", func() error {
			if err := caller.clock.Sleep(inner, time.Duration(i)*c.apart); err != nil {
				return err
			}
			results[i] = caller.call(inner, i+1, progress.one)
			return nil
		})
	}
	g.Wait()
	progress.done()
	judgeAll(ctx, caller.clock, results, newCounter(c.streams, c.calls, "calls judged"))
	rep := newCallReport(caller, results)
	if err := errors.Join(rep.write(c), caller.log.close()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: the report is of what was measured until then")
	}
	return rep.verdict(c.strict)
}

// A caller makes all calls of the command.
type caller struct {
	*callCmd
	clock          *clocks.Real
	epoch          time.Time
	run8           string // the head of the request IDs
	address        *url.URL
	shown          string // the address, without a password
	protocol       string
	recordings     []*audio.Utterance
	sounds         sync.Map // of them, by soundKey, at the rate of a line
	log            *callLog
	servers        []webrtc.ICEServer
	interruptAfter *time.Duration
	endpoint       *rtc.Endpoint // nil with a WebSocket
	web            *webClient
	known          *audio.Frame // what the answers should be; nil: nobody knows
	endProxy       func()       // nil: there is no proxy
}

// prepare makes what all calls share.
func (c *caller) prepare(ctx context.Context) (err error) {
	if c.web, err = newWebClient(c.callCmd); err != nil {
		return err
	}
	if c.protocol == "ws" || c.protocol == "twilio" {
		return c.impairSocket(ctx)
	}
	o := rtc.Options{Clock: c.clock, Peers: c.calls + 1, Log: maxTurnLog, Channels: []string{marksChannel}}
	if c.protocol == "openai" {
		o.Channels = append(o.Channels, signal.DataChannel)
	}
	if local, err := loopbackOnly(c.address.Hostname() + ":0"); err == nil && local {
		o.Loopback, o.Filter = true, onlyLoopback
	}
	// Only this one is offered, or the agent would choose.
	wish, err := codec.Named(c.codec)
	if err != nil {
		return usagef("--codec %s: there is %s", c.codec, codecNames())
	}
	o.Codecs = []string{wish.Name}
	if c.servers, err = iceServers(c.ice, c.env); err != nil {
		return err
	}
	o.ICEServers = c.servers
	c.endpoint, err = rtc.New(o)
	return err
}

// public is an error's text without what may be secret: some agents repeat what they
// were told.
func (c *caller) public(err error) string {
	text := failure.Without(err.Error(), c.web.token)
	for _, server := range c.servers {
		if password, ok := server.Credential.(string); ok {
			text = failure.Without(text, password)
		}
	}
	return text
}

type soundKey struct {
	*audio.Utterance
	rate int
}

// sound returns a recording at a rate.
func (c *caller) sound(u *audio.Utterance, rate int) audio.Frame {
	key := soundKey{u, rate}
	if f, ok := c.sounds.Load(key); ok {
		return f.(audio.Frame)
	}
	f := audio.Resample(u.Sound, rate)
	c.sounds.Store(key, f)
	return f
}

func (c *caller) close() {
	if c.endpoint != nil {
		c.endpoint.Close()
	}
	if c.endProxy != nil {
		c.endProxy()
	}
	c.web.http.CloseIdleConnections()
}

// requestID names a turn.
func (c *caller) requestID(call, turn int) string {
	return fmt.Sprintf("%s-%d-%d", c.run8, call, turn)
}

// maxTurnLog is how many packets a turn may have in the log of what was sent: those of
// ten minutes.
const maxTurnLog = 30_000
