package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"firstsound/audio/impair"
	"firstsound/clocks"
	"firstsound/pipeline/scenario"
)

// impairCmd is the command impair with its flags.
type impairCmd struct {
	streams
	to        string
	listen    string
	anywhere  bool
	udp, tcp  directions
	seed      uint64
	calls     int
	log       string
	overwrite bool
	caFile    string
	json      bool
	clock     *clocks.Real
	listenOn  netip.AddrPort
	roots     *x509.CertPool // nil: the system's
	book      *impairBook
	made      maker
}

// A directions is three flags: a model for both ways, or one for each.
type directions struct {
	name           string
	both, up, down string
	models         [2]impair.Model // up, down
}

func (d *directions) flags(cmd *cobra.Command, name, what string) {
	d.name = name
	f := cmd.Flags()
	f.StringVar(&d.both, name, "", "do this to "+what+", both ways: `MODEL` (see above)")
	f.StringVar(&d.up, name+"-up", "", "the same from the client to the agent only")
	f.StringVar(&d.down, name+"-down", "", "the same from the agent to the client only")
}

func (d *directions) given() bool { return d.both+d.up+d.down != "" }

// text returns the model of what a side sends, as it was given.
func (d *directions) text(from impair.Side) string {
	if from == impair.Client {
		return d.both + d.up
	}
	return d.both + d.down
}

// read reads the flags. A stream takes fewer models.
func (d *directions) read(stream bool) error {
	for i, text := range []string{d.up, d.down} {
		if d.both != "" && text != "" {
			return usagef("--%s goes for both directions: use --%[1]s-up and --%[1]s-down without it", d.name)
		}
		m, err := impair.ParseModel(d.both + text)
		if err == nil && stream {
			err = m.CheckStream()
		}
		if err != nil {
			return usagef("--%s: %w", d.name, err)
		}
		d.models[i] = m
	}
	return nil
}

func newImpairCmd(s streams) *cobra.Command {
	c := &impairCmd{streams: s}
	cmd := &cobra.Command{
		Use:   "impair --to URL",
		Short: "Be a bad network between any client and any agent",
		Long: `Impair stands between a client and a voice agent, neither of which has to be
firstsound's, and delays and drops what they send each other by a seeded model. It
writes down what it has drawn for each packet, so that the right answer of a
measurement can be computed. Only the client has to be told: it calls the address
of impair instead of the agent's.

--to says what is between:
  http://HOST:PORT   an agent's HTTP server, https:// too: SmallWebRTC, OpenAI
                     Realtime, WHIP and WHEP. The candidates in offers and answers
                     are replaced, so that the media of each call go through a
                     relay (--udp). WebSockets are impaired as streams (--tcp).
                     Pages and other requests pass at once.
  tcp://HOST:PORT    any service over TCP (--tcp)
  udp://HOST:PORT    any service at a fixed UDP port, such as RTP (--udp)

Models are drawn for each call apart, from the seed, the number of the call and the
number of the packet: the same calls in the same order meet the same network.
ICE and handshakes are left alone unless the model has stun or dtls, and in a cut.

The first line that it prints is where it listens. Ctrl-C ends it, and shows what
happened to the packets.

A MODEL is a list of these, with commas between them:
` + impair.Usage,
		Example: `  firstsound impair --to http://127.0.0.1:8090 --udp 'delay=40ms,jitter=normal(10ms,5ms),loss=2%,burst=3'
  firstsound call http://127.0.0.1:9000                   in another terminal
  firstsound impair --to http://127.0.0.1:7860 --udp-down rate=64kbit,queue=1s --log packets
  firstsound impair --to http://127.0.0.1:8090 --udp cut=10s-15s
  firstsound impair --to tcp://127.0.0.1:8765 --tcp delay=80ms
  firstsound impair --to udp://127.0.0.1:5004 --udp loss=5%`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.made = made(cmd, nil, scenario.Real)
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.to, "to", "", "the agent: `URL`, such as http://127.0.0.1:8090")
	f.StringVar(&c.listen, "listen", "127.0.0.1:9000", "`ADDRESS:PORT`; port 0 is a free one, as for the media")
	f.BoolVar(&c.anywhere, "listen-anywhere", false, "allow an address that others can reach")
	c.udp.flags(cmd, "udp", "datagrams")
	c.tcp.flags(cmd, "tcp", "the bytes of TCP connections and WebSockets")
	f.Uint64Var(&c.seed, "seed", 1, "`N` from which all is drawn")
	f.IntVar(&c.calls, "calls", 64, "most calls at a time")
	f.StringVar(&c.log, "log", "", "write packets.jsonl, a line for each packet, and impair.json to this `FOLDER`")
	f.BoolVar(&c.overwrite, "overwrite", false, "replace what is in the folder")
	f.StringVar(&c.caFile, "ca-file", "", "trust the certificates in this `FILE` (PEM) for https://")
	f.BoolVar(&c.json, "json", false, "print the report as JSON")
	return cmd
}

// target reads --to.
func (c *impairCmd) target() (*url.URL, error) {
	if c.to == "" {
		return nil, usagef("impair needs --to, the URL of an agent, such as --to http://127.0.0.1:8090")
	}
	u, err := url.Parse(c.to)
	if err != nil || u.Host == "" {
		return nil, usagef("--to %q is no URL, such as http://127.0.0.1:8090", c.to)
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	case "tcp", "udp":
		if u.Port() == "" {
			return nil, usagef("--to %s: the port is missing, as in %s://127.0.0.1:5004", c.to, u.Scheme)
		}
		return u, nil
	default:
		return nil, usagef("--to %s: the URL begins with http, https, tcp or udp", c.to)
	}
	if u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
		return nil, usagef("--to %s: it takes the server only, without path, user or query: what the client asks for is passed on", u.Redacted())
	}
	return u, nil
}

// prepare reads the flags.
func (c *impairCmd) prepare() (u *url.URL, err error) {
	if u, err = c.target(); err != nil {
		return nil, err
	}
	if c.listenOn, err = netip.ParseAddrPort(c.listen); err != nil {
		return nil, usagef("--listen %s: write ADDRESS:PORT, such as 127.0.0.1:9000", c.listen)
	}
	if at := c.listenOn.Addr(); !at.IsLoopback() && !c.anywhere {
		return nil, usagef("--listen %s: others could reach it; --listen-anywhere allows it", c.listen)
	} else if at.IsUnspecified() {
		return nil, usagef("--listen %s: it has to be one address, since clients are told of it", c.listen)
	}
	if c.calls < 1 || c.calls > 10_000 {
		return nil, usagef("--calls takes 1 to 10000, not %d", c.calls)
	}
	if err := c.udp.read(false); err != nil {
		return nil, err
	}
	if err := c.tcp.read(true); err != nil {
		return nil, err
	}
	switch {
	case u.Scheme == "udp" && c.tcp.given():
		return nil, usagef("--tcp goes with --to tcp:// or http://; for %s there is --udp", c.to)
	case u.Scheme == "tcp" && c.udp.given():
		return nil, usagef("--udp goes with --to udp:// or http://; for %s there is --tcp", c.to)
	case c.caFile != "" && u.Scheme != "https":
		return nil, usagef("--ca-file goes with --to https://")
	}
	if c.caFile != "" {
		if c.roots, err = trusted(c.caFile); err != nil {
			return nil, usagef("--ca-file: %w", err)
		}
	}
	return u, nil
}

// options are those of a relay or a proxy.
func (c *impairCmd) options(d directions) impair.Options {
	return impair.Options{
		Clock: c.clock, Seed: c.seed, Up: d.models[0], Down: d.models[1],
		Address: c.listenOn.Addr(), Port: c.listenOn.Port(), Anywhere: c.anywhere, Seen: c.book.seen,
	}
}

func (c *impairCmd) run(ctx context.Context) (err error) {
	u, err := c.prepare()
	if err != nil {
		return err
	}
	c.clock = clocks.NewReal()
	c.book = newImpairBook(c.clock)
	rep := &impairReport{Format: "firstsound.impair/1", To: u.Redacted(), Seed: c.seed}
	switch u.Scheme {
	case "udp":
		err = c.overUDP(ctx, u, rep)
	case "tcp":
		err = c.overTCP(ctx, u, rep)
	default:
		err = c.overHTTP(ctx, u, rep)
	}
	err = errors.Join(err, c.book.close())
	if rep.Listen == "" { // it never began
		return err
	}
	c.book.report(rep, &c.udp, &c.tcp)
	return errors.Join(err, rep.write(c))
}

// listening begins the log, and says where it listens on the first line.
func (c *impairCmd) listening(rep *impairReport, scheme, at string) error {
	if err := c.book.start(c.log, c.overwrite, c.made); err != nil {
		return err
	}
	rep.Listen = scheme + "://" + at
	fmt.Fprintf(c.streams.out, "listening on %s\n", rep.Listen)
	return nil
}

func (c *impairCmd) overUDP(ctx context.Context, u *url.URL, rep *impairReport) error {
	to, err := net.ResolveUDPAddr("udp", u.Host)
	if err != nil {
		return usagef("--to %s: %w", c.to, err)
	}
	agent := to.AddrPort()
	agent = netip.AddrPortFrom(agent.Addr().Unmap(), agent.Port())
	if c.listenOn.Addr().IsLoopback() && !agent.Addr().IsLoopback() {
		return usagef("--to %s is not on this computer, and could not answer %s: --listen an address of the network, with --listen-anywhere", c.to, c.listen)
	}
	pool := impair.NewPool(ctx, c.options(c.udp), c.calls)
	front, err := impair.ListenUDP(pool, agent)
	if err != nil {
		return err
	}
	if err = c.listening(rep, "udp", front.Addr().String()); err == nil {
		err = front.Serve(ctx)
	}
	rep.UDP.Calls, rep.UDP.Free = poolEnd(pool)
	rep.Refused = front.Refused()
	return err
}

func poolEnd(p *impair.Pool) (calls int, free map[string]int) {
	calls, n := p.Close()
	return calls, map[string]int{impair.Client.String(): n[impair.Client], impair.Agent.String(): n[impair.Agent]}
}

func (c *impairCmd) overTCP(ctx context.Context, u *url.URL, rep *impairReport) error {
	proxy, err := impair.Listen(c.options(c.tcp), u.Host, func(call int, k impair.Chunk) { c.book.seen(k.Entry(call + 1)) })
	if err != nil {
		return err
	}
	if err = c.listening(rep, "tcp", proxy.Addr()); err == nil {
		err = proxy.Serve(ctx)
	}
	rep.TCP.Calls = proxy.Calls()
	return err
}

func (c *impairCmd) overHTTP(ctx context.Context, u *url.URL, rep *impairReport) error {
	p := newImpairProxy(ctx, c, u)
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	if err := c.listening(rep, "http", l.Addr().String()); err != nil {
		l.Close()
		return err
	}
	server := &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err = server.Serve(l); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	p.close(rep)
	return err
}
