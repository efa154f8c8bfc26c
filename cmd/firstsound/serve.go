package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/spf13/cobra"

	"firstsound/audio/codec"
	"firstsound/audio/rtc"
	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/trace"
	"firstsound/llm/llmmock"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// serveCmd is the command serve with its flags.
type serveCmd struct {
	runCmd
	command  string // as it is recorded
	listen   string
	tls      bool
	caOut    string
	tokenEnv string
	origins  []string
	ice      []string
	codec    string
	calls    int
	impairment
}

func newServeCmd(s streams) *cobra.Command {
	c := &serveCmd{runCmd: runCmd{streams: s, view: view{turn: "median", whatIf: report.DefaultPercent, width: 100, color: "auto"}}}
	cmd := &cobra.Command{
		Use:   "serve [SCENARIO.yaml]",
		Short: "Be a voice agent that can be called, with delays that are known",
		Long: `Serve answers calls as a voice agent does, on the real clock: each stage takes the
time that the scenario says, or is a real service where the scenario names one.
It records every mark, and tells them to the caller while the call goes on.

It can be called by a browser (the page at /), by firstsound call, and by any
client that speaks one of
  Pipecat SmallWebRTC   POST /api/offer, PATCH /api/offer, POST /start
  OpenAI Realtime       POST /v1/realtime/calls, data channel oai-events
  WHIP, WHEP            POST /whip, POST /whep
  WebSocket             /ws: PCM or µ-law frames and JSON; /twilio: Twilio Media Streams

A model of a recognizer knows what is said where the caller plays a recording of
the corpus and says so, as the page and firstsound call do. Of other speech it
knows the end, by its energy, and takes the same time.

The first line that it prints is its URL. Ctrl-C ends it, and shows the report of
the turns so far.

--impair is for WebRTC here; for WebSockets firstsound call has it.
` + impairHelp,
		Example: `  firstsound serve                                 then open http://127.0.0.1:8090
  firstsound serve scenario.yaml --out results     keep every mark of every turn
  firstsound serve --set llm.provider=openai --set llm.url=http://127.0.0.1:8000/v1
  firstsound serve --listen 0.0.0.0:8443 --tls --token-env FIRSTSOUND_TOKEN
  firstsound call http://127.0.0.1:8090            in another terminal`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				c.file = args[0]
			}
			if cmd.Flags().Changed("out") && c.out == "" {
				return usagef("--out takes the name of a folder")
			}
			c.command = commandLine(cmd, args)
			return c.serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.listen, "listen", "127.0.0.1:8090", "`ADDRESS:PORT`; port 0 is a free one")
	f.StringArrayVar(&c.set, "set", nil, "set any key of the scenario: `KEY=VALUE`, such as vad.stop=500ms")
	f.StringVar(&c.codec, "codec", "", "what is spoken if the caller takes it: `NAME` of "+codecNames()+" (default: by the caller)")
	f.StringArrayVar(&c.ice, "ice", nil, "STUN or TURN server: `URL`, or URL,USER,ENV with the password in variable ENV; repeatable")
	c.impairment.flags(cmd)
	f.IntVar(&c.calls, "calls", 64, "most calls at a time")
	f.BoolVar(&c.tls, "tls", false, "speak TLS, with a CA that is made now; from elsewhere, a browser's microphone needs it")
	f.StringVar(&c.caOut, "ca-out", "", "write the CA's certificate to `FILE`")
	f.StringVar(&c.tokenEnv, "token-env", "", "ask for the token in this environment `VARIABLE`; a must where others can call")
	f.StringArrayVar(&c.origins, "origin", nil, "pages of this `ORIGIN` may call too, such as https://example.org; repeatable")
	f.StringVar(&c.out, "out", "", "write run.json, events.jsonl, turns.jsonl and clients.jsonl to this `FOLDER`")
	f.BoolVar(&c.overwrite, "overwrite", false, "replace the run that is in the folder")
	f.BoolVar(&c.view.json, "json", false, "print the report as JSON at the end")
	return cmd
}

func codecNames() string {
	var names []string
	for _, c := range codec.All() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// preferred returns the codecs with the wished one first.
func preferred(wish string) ([]string, error) {
	if wish == "" {
		return nil, nil
	}
	c, err := codec.Named(wish)
	if err != nil {
		return nil, usagef("--codec %s: there is %s", wish, codecNames())
	}
	names := []string{c.Name}
	for _, other := range codec.All() {
		if other.Name != c.Name {
			names = append(names, other.Name)
		}
	}
	return names, nil
}

// iceServers reads --ice.
func iceServers(flags []string, getenv func(string) string) ([]webrtc.ICEServer, error) {
	var list []webrtc.ICEServer
	for _, f := range flags {
		parts := strings.Split(f, ",")
		s := webrtc.ICEServer{URLs: parts[:1]}
		switch {
		case !strings.HasPrefix(parts[0], "stun") && !strings.HasPrefix(parts[0], "turn"):
			return nil, usagef("--ice %s: write stun:HOST:PORT or turn:HOST:PORT,USER,ENV", f)
		case len(parts) == 3:
			s.Username, s.Credential = parts[1], getenv(parts[2])
			if getenv(parts[2]) == "" {
				return nil, usagef("--ice %s: the environment variable %s is empty", f, parts[2])
			}
		case len(parts) != 1:
			return nil, usagef("--ice %s: write stun:HOST:PORT or turn:HOST:PORT,USER,ENV", f)
		}
		list = append(list, s)
	}
	return list, nil
}

// loopbackOnly says whether an address can be reached from this computer only.
func loopbackOnly(listen string) (bool, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false, usagef("--listen %s: write ADDRESS:PORT, such as 127.0.0.1:8090", listen)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// onlyLoopback is a filter of addresses.
func onlyLoopback(a netip.Addr) bool { return a.IsLoopback() }

// An agent is all that answers calls.
type agent struct {
	*serveCmd
	clock    *clocks.Real
	epoch    time.Time
	scenario *scenario.Scenario
	endpoint *rtc.Endpoint
	recorder *trace.Recorder
	token    string
	local    bool // reached from this computer only

	making   sync.Mutex         // of what follows
	variants map[string]*stages // by the name of the scenario

	mu       sync.Mutex
	rec      *recording
	calls    map[int]*session
	count    int
	live     sync.WaitGroup // calls
	stopping bool           // there are no more
	relays   atomic.Int64
	peers    map[string]*session // by the ID that a signalling protocol gave
	clients  *clientLog
	failed   error // of writing the files
	ctx      context.Context
	group    *clocks.Group
}

func (c *serveCmd) serve(ctx context.Context) (err error) {
	c.set = append(c.set, "clock=real")
	s, err := scenario.LoadFile(c.file, c.set...)
	if err != nil {
		return usageError{err}
	}
	a := &agent{serveCmd: c, clock: clocks.NewReal(), scenario: s, calls: map[int]*session{}, peers: map[string]*session{}, variants: map[string]*stages{}}
	a.epoch = a.clock.Epoch()
	if a.local, err = loopbackOnly(c.listen); err != nil {
		return err
	}
	if c.tokenEnv != "" {
		if a.token = c.env(c.tokenEnv); a.token == "" {
			return usagef("--token-env %s: the environment variable is empty", c.tokenEnv)
		}
	} else if !a.local {
		return usagef("--listen %s: others could reach it, so --token-env has to name an environment variable with a token", c.listen)
	}
	if c.caOut != "" && !c.tls {
		return usagef("--ca-out goes with --tls")
	}
	if err := c.impairment.read(); err != nil {
		return err
	}
	o := rtc.Options{Clock: a.clock, Loopback: a.local, Peers: c.calls}
	if a.local {
		o.Filter = onlyLoopback
	}
	if o.Codecs, err = preferred(c.codec); err != nil {
		return err
	}
	if o.ICEServers, err = iceServers(c.ice, c.env); err != nil {
		return err
	}
	first, err := a.stages(ctx, "")
	if err != nil {
		return usageError{err}
	}
	defer a.endStages()
	for _, w := range first.warnings {
		fmt.Fprintf(c.err, "firstsound: %s\n", w)
	}
	if a.endpoint, err = rtc.New(o); err != nil {
		return err
	}
	defer a.endpoint.Close()
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	info := runInfo(s, c.file, c.set)
	info.Command = c.command
	for _, load := range []string{"concurrency", "turns_per_call", "line"} { // the callers'
		delete(info.Fixed, load)
	}
	if a.rec, err = c.record(s, info); err != nil {
		return err
	}
	a.rec.also = a.turn
	if a.clients, err = newClientLog(c.out); err != nil {
		return err
	}
	a.recorder = trace.NewRecorder(a.clock, a.event)
	serving := fmt.Sprintf("http://%s", l.Addr())
	server := &http.Server{Handler: a.routes(), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	if c.tls {
		host, _, _ := net.SplitHostPort(c.listen)
		config, ca, err := llmmock.MakeTLS(host)
		if err != nil {
			return err
		}
		if c.caOut != "" {
			if err := writeFile(c.caOut, ca); err != nil {
				return err
			}
		}
		server.TLSConfig, serving = config, fmt.Sprintf("https://%s", l.Addr())
	}
	fmt.Fprintf(c.streams.out, "listening on %s\n", serving)
	return a.run(ctx, server, l)
}

// run answers calls until ctx ends, and shows the report.
func (a *agent) run(ctx context.Context, server *http.Server, l net.Listener) error {
	a.group, a.ctx = clocks.NewGroup(context.WithoutCancel(ctx), a.clock)
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	listener := arrival.Listen(l, a.clock)
	var err error
	if server.TLSConfig != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	a.hangUp()
	a.live.Wait() // what they tell until then belongs into the files
	a.group.Wait()
	a.group.Cancel(errors.New("the server is stopped"))
	a.mu.Lock()
	defer a.mu.Unlock()
	rep, writeErr := a.rec.close(report.StateComplete, "", a.clock.Now(), a.clock)
	err = errors.Join(err, writeErr, a.failed, a.clients.close())
	if rep.Headline.OK == 0 && !a.view.json {
		fmt.Fprintf(a.streams.out, "%d calls, no turn that was answered\n", a.count)
		return err
	}
	return errors.Join(a.view.show(rep, a.streams), err)
}

// hangUp ends all calls.
func (a *agent) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopping = true
	for _, s := range a.calls {
		s.hangUp()
	}
}

// event takes an event of any call.
func (a *agent) event(e trace.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.rec.event(&e); err != nil && a.failed == nil {
		a.failed = err
		fmt.Fprintf(a.streams.err, "firstsound: %v; the calls go on, and the files lack what comes from here on\n", err)
	}
	if s := a.calls[e.ID.Session]; s != nil {
		s.event(&e)
	}
}

// turn takes a turn that is closed. It is called by event.
func (a *agent) turn(t *report.Turn) {
	if s := a.calls[t.ID.Session]; s != nil {
		s.turn(t)
	}
}
