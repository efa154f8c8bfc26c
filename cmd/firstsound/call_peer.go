package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/ear"
	"firstsound/audio/impair"
	"firstsound/audio/liveline"
	"firstsound/audio/rtc"
	"firstsound/audio/signal"
	"firstsound/clocks"
	"firstsound/pipeline/report"
)

// A webClient asks an agent over HTTP.
type webClient struct {
	http  *http.Client
	tls   *tls.Config
	token string
}

// signalTimeout bounds an exchange of descriptions.
const signalTimeout = 15 * time.Second

func newWebClient(c *callCmd) (*webClient, error) {
	w := &webClient{tls: &tls.Config{}}
	if c.tokenEnv != "" {
		if w.token = c.env(c.tokenEnv); w.token == "" {
			return nil, usagef("--token-env %s: the environment variable is empty", c.tokenEnv)
		}
	}
	if c.caFile != "" {
		var err error
		if w.tls.RootCAs, err = trusted(c.caFile); err != nil {
			return nil, usagef("--ca-file: %w", err)
		}
	}
	// What is asked may be told to go elsewhere, but the token goes there only if
	// that is the same host: net/http sees to it.
	w.http = &http.Client{Timeout: signalTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: w.tls}}
	return w, nil
}

// protocols are those of package signal, by their names here.
var protocols = map[string]signal.Protocol{"smallwebrtc": signal.SmallWebRTC, "openai": signal.Realtime, "whip": signal.WHIP}

// offer exchanges descriptions, with the relay in the place of both peers.
func (c *caller) offer(ctx context.Context, relay *impair.Relay, sdp string) (*signal.Call, error) {
	o := signal.Offer{Protocol: protocols[c.protocol]}
	var err error
	if o.SDP, err = rewrite(relay, impair.Client, sdp); err != nil {
		return nil, err
	}
	if c.scenario != "" {
		if o.Data, err = json.Marshal(map[string]string{"scenario": c.scenario}); err != nil {
			return nil, err
		}
	}
	k, err := signal.Client{HTTP: c.web.http, Token: c.web.token}.Dial(ctx, c.address.String(), o)
	if err != nil {
		return nil, err
	}
	k.Answer, err = rewrite(relay, impair.Agent, k.Answer)
	return k, err
}

// A peerLine is a call over WebRTC.
type peerLine struct {
	t     *talk
	p     *rtc.Peer
	c     codec.Codec
	data  *rtc.Data
	call  *signal.Call
	relay *impair.Relay
	group *clocks.Group

	last rtc.Sent
	log  sendLog
}

// dialPeer calls over WebRTC.
func (c *caller) dialPeer(ctx context.Context, t *talk) error {
	p, sdp, err := c.endpoint.Offer(ctx)
	if err != nil {
		return err
	}
	l := &peerLine{t: t, p: p}
	g, inner := clocks.NewGroup(ctx, c.clock)
	l.group = g
	fail := func(err error) error {
		p.Close()
		c.impairment.closeRelay(l.relay, t.number) // the other error matters
		g.Cancel(err)
		g.Wait()
		return err
	}
	if l.relay, err = c.impairment.relay(ctx, c.clock, t.number); err != nil {
		return fail(err)
	}
	if l.call, err = c.offer(ctx, l.relay, sdp); err != nil {
		return fail(err)
	}
	if err := p.Answered(l.call.Answer); err != nil {
		return fail(err)
	}
	if l.c, err = p.Connected(ctx); err != nil {
		return fail(err)
	}
	t.connected = c.clock.Now()
	if l.c.Name == "" {
		return fail(errors.New("the agent takes no sound: its answer has no codec that we speak"))
	}
	t.line, l.data = l, p.Data(marksChannel)
	g.Go("hearing", func() error { return l.hear(inner) })
	if l.data != nil {
		g.Go("marks", func() error { return t.marks(inner, l.data) })
		l.ping(inner)
		// An agent that is ours has to hear of a recording before it hears it.
		for until := c.clock.Now() + maxGreeting; !t.knowsClock() && c.clock.Now() < until; {
			if err := t.pause(ctx); err != nil {
				return fail(err)
			}
		}
	}
	// The first packet has to be out before a recording can be announced.
	for !l.drain() {
		if err := t.pause(ctx); err != nil {
			return fail(err)
		}
	}
	return nil
}

// hear takes what the agent says.
func (l *peerLine) hear(ctx context.Context) error {
	d, err := codec.NewDecoder(l.c.Name)
	if err != nil {
		return err
	}
	for {
		k, ok := l.p.Hear(ctx)
		if !ok {
			l.t.end(l.p.Failed())
			return nil
		}
		if k.Codec != l.c.Name { // comfort noise, or another codec than we speak
			continue
		}
		kind := ear.Decoded
		if l.c.Quiet(k.Payload) {
			kind = ear.Quiet
		}
		f, err := d.Decode(k.Payload)
		if err != nil {
			continue // it cannot be heard: it is lost
		}
		l.t.hear(fromRTC(k, f, kind))
	}
}

func (l *peerLine) codec() codec.Codec { return l.c }

func (l *peerLine) speak(f audio.Frame) (time.Duration, error) { return l.p.Speak(f) }

// drain reads the log of what was sent, and says whether anything was.
func (l *peerLine) drain() bool {
	log, _ := l.p.Sent()
	for _, s := range log {
		l.last = s
		l.log.add(s.Due, s.At)
	}
	return len(l.log.due) > 0
}

func (l *peerLine) announce(ctx context.Context, requestID, utterance string, at time.Duration) {
	l.drain()
	if l.data == nil {
		return
	}
	stamp := liveline.StampAt(l.c, l.last, at)
	text, err := json.Marshal(toAgent{Type: "utterance", RequestID: requestID, Utterance: utterance, At: &stamp})
	if err == nil {
		l.t.tell(ctx, l.data, string(text))
	}
}

func (l *peerLine) sends() *sendLog {
	l.drain()
	return &l.log
}

func (l *peerLine) track() bool { return l.p.Sends() }

func (l *peerLine) close() {
	err := l.call.Hangup(context.Background()) // it has the HTTP client's own limit
	if err != nil && l.t.broken() == nil {
		l.t.end(fmt.Errorf("hanging up: %w", err))
	}
	l.p.Close()
	if err := l.t.c.impairment.closeRelay(l.relay, l.t.number); err != nil {
		fmt.Fprintf(l.t.c.err, "firstsound: call %d: %v\n", l.t.number, err)
	}
	l.group.Cancel(errors.New("the call is over"))
	l.group.Wait()
}

// maxGreeting is how long a call waits for a sign that the agent is ours: its data
// channel may open long after the first sound, on a busy computer.
const maxGreeting = time.Second

// ping asks for the agent's clock a few times.
func (l *peerLine) ping(ctx context.Context) {
	l.group.Go("clock", func() error {
		for range 8 {
			text := fmt.Sprintf(`{"type":"clock","sent":%d}`, l.t.c.clock.Now())
			if l.t.tell(ctx, l.data, text) != nil || l.t.c.clock.Sleep(ctx, 30*time.Millisecond) != nil {
				return nil
			}
		}
		return nil
	})
}

// tell sends a message, unless the agent does not open the channel: one that is not
// ours need not.
func (t *talk) tell(ctx context.Context, d *rtc.Data, text string) error {
	ctx, cancel := clocks.WithTimeout(ctx, t.c.clock, time.Second, errors.New("the agent has not opened the data channel"))
	defer cancel()
	return d.Send(ctx, text)
}

// marks takes what the agent tells of its turns.
func (t *talk) marks(ctx context.Context, d *rtc.Data) error {
	for {
		m, ok := d.Receive(ctx)
		if !ok {
			return nil
		}
		t.told(m.Data, m.Read)
	}
}

// knowsClock says whether the agent has told its clock.
func (t *talk) knowsClock() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offset != nil
}

// told takes one message of the agent.
func (t *talk) told(data []byte, read time.Duration) {
	var m struct {
		Type  string           `json:"type"`
		Turn  *report.TurnRow  `json:"turn"`
		Sent  *time.Duration   `json:"sent"`
		Clock *time.Duration   `json:"clock_ns"`
		_     *json.RawMessage // the rest is not for us
	}
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &m) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m.Type == "turn" && m.Turn != nil && len(t.rows) < 100_000:
		t.rows[m.Turn.Request] = m.Turn
	case m.Type == "clock" && m.Sent != nil && m.Clock != nil:
		// As NTP has it: the agent's clock was read half way.
		trip := read - *m.Sent
		if t.offset == nil || trip < t.least {
			offset := *m.Clock - (*m.Sent + trip/2)
			t.offset, t.least = &offset, trip
		}
	}
}
