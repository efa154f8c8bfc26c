package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"firstsound/audio/impair"
	"firstsound/audio/signal"
	"firstsound/clocks"
)

// An impairProxy stands in front of an agent's HTTP server. Descriptions that pass
// through it get a relay between the two peers.
type impairProxy struct {
	c     *impairCmd
	to    *url.URL
	tls   *tls.Config
	pool  *impair.Pool
	pass  *httputil.ReverseProxy
	group *clocks.Group // of WebSockets
	ctx   context.Context

	mu      sync.Mutex
	relays  map[string]*impair.Relay // by the name of the call, and by the path of its resource
	sockets int
	open    int
	refused int
	errors  []string
	many    map[string]bool
}

// maxImpairErrors are the errors that the report names.
const maxImpairErrors = 20

func newImpairProxy(ctx context.Context, c *impairCmd, to *url.URL) *impairProxy {
	p := &impairProxy{c: c, to: to, tls: &tls.Config{ServerName: to.Hostname(), RootCAs: c.roots}, relays: map[string]*impair.Relay{}, many: map[string]bool{}}
	p.group, p.ctx = clocks.NewGroup(ctx, c.clock)
	p.pool = impair.NewPool(ctx, c.options(c.udp), c.calls)
	p.pass = &httputil.ReverseProxy{
		Rewrite:        p.outgoing,
		ModifyResponse: p.incoming,
		FlushInterval:  -1,
		Transport:      &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: p.tls, ResponseHeaderTimeout: 2 * signalTimeout},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if k := passageOf(r.Context()); k != nil && k.fresh {
				k.relay.Close()
			}
			p.fail(w, http.StatusBadGateway, err)
		},
	}
	return p
}

// A passage is a request that has to do with a relay.
type passage struct {
	relay *impair.Relay
	fresh bool // made for this request
	over  bool // the call ends with it
}

type passageKey struct{}

func passageOf(ctx context.Context) *passage {
	k, _ := ctx.Value(passageKey{}).(*passage)
	return k
}

// fail answers with an error, and notes it.
func (p *impairProxy) fail(w http.ResponseWriter, status int, err error) {
	text := "impair: " + strings.TrimPrefix(err.Error(), "impair: ")
	p.mu.Lock()
	if !p.many[text] && len(p.errors) < maxImpairErrors {
		p.many[text] = true
		p.errors = append(p.errors, text)
	}
	p.mu.Unlock()
	http.Error(w, text, status)
}

// close ends all calls and fills in the report.
func (p *impairProxy) close(rep *impairReport) {
	p.group.Cancel(errors.New("impair has ended"))
	p.group.Wait()
	rep.UDP.Calls, rep.UDP.Free = poolEnd(p.pool)
	p.mu.Lock()
	defer p.mu.Unlock()
	rep.TCP.Calls, rep.Refused, rep.Errors = p.sockets, p.refused, p.errors
}

// ServeHTTP passes a request on.
func (p *impairProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Nobody else's page may come in by a name that points here.
	if p.c.listenOn.Addr().IsLoopback() && !localHost(r.Host) {
		http.Error(w, "impair is called by the name of this computer only", http.StatusForbidden)
		return
	}
	// The agent knows its own pages by its own address.
	if origin := r.Header.Get("Origin"); origin == "http://"+r.Host {
		r.Header.Set("Origin", p.to.Scheme+"://"+p.to.Host)
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		p.socket(w, r)
		return
	}
	k, status, err := p.offered(r)
	if err != nil {
		p.fail(w, status, err)
		return
	}
	if k != nil {
		r = r.WithContext(context.WithValue(r.Context(), passageKey{}, k))
	}
	p.pass.ServeHTTP(w, r)
}

func (p *impairProxy) outgoing(r *httputil.ProxyRequest) {
	r.SetURL(p.to)
	r.Out.Host = p.to.Host
	if passageOf(r.In.Context()) != nil {
		r.Out.Header.Del("Accept-Encoding") // the answer has to be read here
	}
}

// offered puts the relay into what a client sends. It returns nil if that has
// nothing to do with a relay.
func (p *impairProxy) offered(r *http.Request) (k *passage, status int, err error) {
	if r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/hangup") {
		if relay := p.find(strings.TrimSuffix(r.URL.Path, "/hangup")); relay != nil {
			return &passage{relay: relay, over: true}, 0, nil
		}
		return nil, 0, nil
	}
	kind := r.Header.Get("Content-Type")
	if r.Method != http.MethodPost && r.Method != http.MethodPatch || !describes(kind) {
		return nil, 0, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, signal.MaxBody))
	if err != nil {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the offer: %w", err)
	}
	m, err := readMessage(kind, body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	defer func() {
		if err != nil && k != nil && k.fresh {
			k.relay.Close()
		}
	}()
	switch {
	case m == nil:
	case m.sdp == nil: // candidates
		call := m.call
		if call == "" {
			call = r.URL.Path
		}
		if relay := p.find(call); relay != nil {
			k = &passage{relay: relay}
			body, err = m.write(relay, impair.Client)
		}
	default:
		if relay := p.find(m.call); relay != nil && !m.restart {
			k = &passage{relay: relay}
		} else if k, err = p.relay(); err != nil {
			return k, http.StatusServiceUnavailable, err
		}
		body, err = m.write(k.relay, impair.Client)
	}
	if err != nil {
		return k, http.StatusBadRequest, fmt.Errorf("the offer: %w", err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Length")
	return k, 0, nil
}

// relay makes the relay of a new call.
func (p *impairProxy) relay() (*passage, error) {
	if p.c.listenOn.Addr().IsLoopback() {
		if local, err := loopbackOnly(net.JoinHostPort(p.to.Hostname(), "0")); err != nil || !local {
			return nil, fmt.Errorf("the agent %s is not on this computer, and could not send to %s: --listen an address of the network, with --listen-anywhere", p.to.Host, p.c.listen)
		}
	}
	r, err := p.pool.Open()
	if err != nil {
		p.mu.Lock()
		p.refused++
		p.mu.Unlock()
		return nil, err
	}
	return &passage{relay: r, fresh: true}, nil
}

// find returns the relay of a call by its name or path; nil if there is none.
func (p *impairProxy) find(call string) *impair.Relay {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.relays[call]; r != nil && !r.Closed() {
		return r
	}
	return nil
}

// name lets a call be found.
func (p *impairProxy) name(call string, r *impair.Relay) {
	if call == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, old := range p.relays {
		if old.Closed() {
			delete(p.relays, name)
		}
	}
	p.relays[call] = r
}

// incoming puts the relay into what the agent answers.
func (p *impairProxy) incoming(r *http.Response) error {
	k := passageOf(r.Request.Context())
	if k == nil {
		return nil
	}
	good := r.StatusCode >= 200 && r.StatusCode < 300
	if k.over || k.fresh && !good {
		if good || k.fresh {
			k.relay.Close()
		}
		return nil
	}
	if location := r.Header.Get("Location"); location != "" {
		u, err := r.Request.URL.Parse(location)
		if err == nil && u.Host == p.to.Host {
			r.Header.Set("Location", u.RequestURI())
			p.name(u.Path, k.relay)
		}
	}
	kind := r.Header.Get("Content-Type")
	if !good || !describes(kind) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, signal.MaxBody+1))
	r.Body.Close()
	if err != nil || len(body) > signal.MaxBody {
		return errors.Join(fmt.Errorf("the agent's answer: it breaks off, or has more than %d bytes", signal.MaxBody), err)
	}
	m, err := readMessage(kind, body)
	if err != nil {
		return fmt.Errorf("the agent's answer: %w", err)
	}
	if m != nil {
		p.name(m.call, k.relay)
		if body, err = m.write(k.relay, impair.Agent); err != nil {
			return fmt.Errorf("the agent's answer: %w", err)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// socket joins a WebSocket with one to the agent, as streams of bytes.
func (p *impairProxy) socket(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	full := p.open >= p.c.calls
	if full {
		p.refused++
	} else {
		p.open++
		p.sockets++
	}
	call := p.sockets
	p.mu.Unlock()
	if full {
		p.fail(w, http.StatusServiceUnavailable, impair.ErrFull)
		return
	}
	done := func() {
		p.mu.Lock()
		p.open--
		p.mu.Unlock()
	}
	agent, err := p.dial(r.Context())
	if err != nil {
		done()
		p.fail(w, http.StatusBadGateway, err)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		done()
		agent.Close()
		p.fail(w, http.StatusInternalServerError, errors.New("the connection cannot be taken over"))
		return
	}
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		done()
		agent.Close()
		return
	}
	out := r.Clone(p.ctx)
	out.Host, out.URL.Host, out.URL.Scheme = p.to.Host, p.to.Host, p.to.Scheme
	var head bytes.Buffer
	if err := out.Write(&head); err != nil {
		done()
		conn.Close()
		agent.Close()
		return
	}
	p.group.Go("impair websocket", func() error {
		defer done()
		o := p.c.options(p.c.tcp)
		client := &readBefore{Conn: conn, r: io.MultiReader(&head, rw.Reader)}
		up, down := impair.NewWay(o.Up, o.Seed, 2*call), impair.NewWay(o.Down, o.Seed, 2*call+1)
		// Who was cut off knows; there is nobody else to tell.
		impair.Join(p.ctx, p.c.clock, client, agent, up, down, func(k impair.Chunk) { p.c.book.seen(k.Entry(call)) })
		return nil
	})
}

func (p *impairProxy) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := clocks.WithTimeout(ctx, p.c.clock, signalTimeout, errors.New("the agent does not answer"))
	defer cancel()
	port := p.to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[p.to.Scheme]
	}
	at := net.JoinHostPort(p.to.Hostname(), port)
	if p.to.Scheme == "https" {
		config := p.tls.Clone()
		config.NextProtos = []string{"http/1.1"} // there are no WebSockets over HTTP/2 here
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", at)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", at)
}

// A readBefore is a connection of which something was read already.
type readBefore struct {
	net.Conn
	r io.Reader
}

func (c *readBefore) Read(b []byte) (int, error) { return c.r.Read(b) }

// CloseWrite ends what is sent, and nothing else.
func (c *readBefore) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
