package rtc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/clocks"
)

// A State is how far a peer is.
type State string

// The states.
const (
	StateNew          State = "new"
	StateConnecting   State = "connecting"
	StateConnected    State = "connected"
	StateDisconnected State = "disconnected" // nothing is heard of the other side, which may come back
	StateFailed       State = "failed"       // it ended by itself: Peer.Failed says why
	StateClosed       State = "closed"       // one of the two sides closed it
)

// An Event is a change of state.
type Event struct {
	At    time.Duration
	State State
}

// A Peer is one connection to another side.
type Peer struct {
	e      *Endpoint
	pc     *webrtc.PeerConnection
	number int // counts the endpoint's peers
	sender *sender
	in     *receiver
	group  *clocks.Group
	events *clocks.Queue[Event]
	opened *clocks.Queue[*Data] // by the other side

	connected chan struct{} // closed when packets flow
	ended     chan struct{} // closed when it begins to end
	closed    chan struct{} // closed when it is over
	closing   atomic.Bool

	mu        sync.Mutex
	state     State
	err       error
	up        bool // pion is connected
	isBound   bool
	started   bool // packets flow
	mute      bool // the other side takes no sound
	onlyTakes bool // it sends none
	sends     bool // its description says that it sends sound
	tracks    int
	channels  map[string]*Data
	alarm     clocks.Alarm // of the connection, then of idleness
	local     string       // the description sent last
	remote    string       // the description that came last
	trickled  int          // candidates that came after it
}

// newPeer makes a peer for what was offered, or is to be.
func (e *Endpoint) newPeer(codecs []codec.Codec, o offered) (*Peer, error) {
	api, err := e.api(codecs, o)
	if err != nil {
		return nil, err
	}
	p := &Peer{
		e: e, state: StateNew, channels: map[string]*Data{},
		events:    clocks.NewQueue[Event](e.clock, "states of a peer"),
		opened:    clocks.NewQueue[*Data](e.clock, "data channels of a peer"),
		connected: make(chan struct{}), ended: make(chan struct{}), closed: make(chan struct{}),
	}
	if err := e.add(p); err != nil {
		return nil, err
	}
	p.in = &receiver{p: p, heard: clocks.NewQueue[Packet](e.clock, "packets of a peer")}
	p.sender = newSender(e, codecs, p.number)
	p.sender.bound = func() { p.flow(func() { p.isBound = true }) }
	p.group, _ = clocks.NewGroup(context.Background(), e.clock)
	p.pc, err = api.NewPeerConnection(webrtc.Configuration{ICEServers: e.o.ICEServers, Certificates: []webrtc.Certificate{e.cert}})
	if err != nil {
		e.remove(p)
		p.group.Wait()
		return nil, fmt.Errorf("rtc: %w", err)
	}
	p.pc.OnConnectionStateChange(p.changed)
	p.pc.OnDataChannel(p.channelOpened)
	if o.channels {
		p.pc.SCTP().OnClose(func(error) { p.fail(nil) })
	}
	p.pc.OnTrack(func(track *webrtc.TrackRemote, r *webrtc.RTPReceiver) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if track.Kind() != webrtc.RTPCodecTypeAudio || p.tracks == maxTracks || p.isEnded() {
			return
		}
		p.tracks++
		p.group.Go("rtc receiver", func() error { return p.in.hear(track, r) })
	})
	if err := p.addTrack(); err != nil {
		p.end(err)
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Peer) addTrack() error {
	s, err := p.pc.AddTrack(p.sender)
	if err != nil {
		return fmt.Errorf("rtc: %w", err)
	}
	p.group.Go("rtc reports", func() error {
		for {
			// The interceptors take what they need while this reads.
			if _, _, err := s.ReadRTCP(); err != nil {
				return nil
			}
			p.mu.Lock()
			only := p.onlyTakes
			p.mu.Unlock()
			if only { // its reports are all that is heard of it
				p.heardSomething()
			}
		}
	})
	return nil
}

// offer makes an offer. restart asks for new ICE credentials and candidates.
func (p *Peer) offer(ctx context.Context, restart bool) (string, error) {
	if !restart {
		for _, label := range p.e.o.Channels {
			c, err := p.pc.CreateDataChannel(label, nil)
			if err != nil {
				return "", fmt.Errorf("rtc: the data channel %q: %w", label, err)
			}
			p.mu.Lock()
			p.channels[label] = newData(p, c)
			p.mu.Unlock()
		}
	}
	d, err := p.pc.CreateOffer(&webrtc.OfferOptions{ICERestart: restart})
	if err != nil {
		return "", fmt.Errorf("rtc: %w", err)
	}
	return p.describe(ctx, d)
}

func (p *Peer) answer(ctx context.Context, offer string) (string, error) {
	remote, err := readSDP(offer)
	if err != nil {
		return "", err
	}
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}); err != nil {
		return "", fmt.Errorf("rtc: the offer: %w", err)
	}
	d, err := p.pc.CreateAnswer(nil)
	if err != nil {
		return "", fmt.Errorf("rtc: the answer: %w", err)
	}
	sdp, err := p.describe(ctx, d)
	if err == nil {
		p.described(offer, remote)
	}
	return sdp, err
}

// describe sets the local description, and returns it with all its candidates.
func (p *Peer) describe(ctx context.Context, d webrtc.SessionDescription) (string, error) {
	gathered := webrtc.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(d); err != nil {
		return "", fmt.Errorf("rtc: %w", err)
	}
	select {
	case <-gathered:
	case <-p.ended:
		return "", errors.New("rtc: the peer was closed while it gathered candidates")
	case <-ctx.Done():
		return "", fmt.Errorf("rtc: gathering candidates: %w", context.Cause(ctx))
	}
	sdp := p.pc.LocalDescription().SDP
	if n, _ := candidates(sdp); n == 0 {
		return "", errors.New("rtc: no usable ICE candidates on this host")
	}
	p.mu.Lock()
	p.local = sdp
	p.mu.Unlock()
	return sdp, nil
}

// described notes the other side's description: from now on the connection must
// come about.
func (p *Peer) described(text string, d *sdp.SessionDescription) {
	takes, sends := directions(d)
	p.mu.Lock()
	p.remote, p.onlyTakes, p.sends, p.trickled = text, takes && !sends, sends, 0
	if !p.started && !p.isEnded() {
		p.alarm.Stop()
		p.alarm = p.e.clock.At(p.e.clock.Now()+p.e.o.Connect, p.notConnected)
	}
	p.mu.Unlock()
	if !takes {
		p.flow(func() { p.mute = true })
	}
}

// Answered takes the other side's answer to the offer that this peer made last.
func (p *Peer) Answered(sdp string) error {
	remote, err := readSDP(sdp)
	if err != nil {
		return err
	}
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: sdp}); err != nil {
		return fmt.Errorf("rtc: the answer: %w", err)
	}
	p.described(sdp, remote)
	return nil
}

// Sends says whether the other side's description has a track of sound that it sends.
// Packets of it may never come.
func (p *Peer) Sends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sends
}

// Restart begins an ICE restart, as after a change of network: it returns a new
// offer, whose answer goes to Answered. The call goes on meanwhile.
func (p *Peer) Restart(ctx context.Context) (string, error) { return p.offer(ctx, true) }

// Renegotiate answers a further offer of the other side, of an ICE restart for
// example.
func (p *Peer) Renegotiate(ctx context.Context, offer string) (string, error) {
	return p.answer(ctx, offer)
}

// AddCandidate takes a candidate that the other side sent after its description.
// An empty one, which ends them, is ignored.
func (p *Peer) AddCandidate(c webrtc.ICECandidateInit) error {
	if c.Candidate == "" {
		return nil
	}
	if len(c.Candidate) > 1024 {
		return fmt.Errorf("rtc: a candidate of %d bytes", len(c.Candidate))
	}
	p.mu.Lock()
	p.trickled++
	n := p.trickled
	p.mu.Unlock()
	if n > maxCandidates {
		return fmt.Errorf("rtc: more than %d candidates after the description", maxCandidates)
	}
	if err := p.pc.AddICECandidate(c); err != nil {
		return fmt.Errorf("rtc: the candidate %q: %w", c.Candidate, err)
	}
	p.mu.Lock()
	p.remote += "\r\na=" + c.Candidate // for a message
	p.mu.Unlock()
	return nil
}

// Connected waits until packets flow, and returns the codec that this side speaks:
// none if the other side takes no sound. Its error says why they never will.
func (p *Peer) Connected(ctx context.Context) (codec.Codec, error) {
	select {
	case <-p.connected:
		p.sender.mu.Lock()
		defer p.sender.mu.Unlock()
		return p.sender.codec, nil
	case <-p.ended:
		if err := p.Failed(); err != nil {
			return codec.Codec{}, err
		}
		return codec.Codec{}, errors.New("rtc: the peer was closed before it was connected")
	case <-ctx.Done():
		return codec.Codec{}, context.Cause(ctx)
	}
}

// Speak says f after what was said before, or from this moment on if that is over:
// it returns when its first sample is said. The rate has to be that of the codec.
// The samples must not be changed afterwards.
func (p *Peer) Speak(f audio.Frame) (time.Duration, error) { return p.sender.speak(f) }

// Hush cuts off what is to be said after now, and returns how much that was.
func (p *Peer) Hush() time.Duration { return p.sender.hush() }

// Until returns when that which is to be said ends, if there is something. It is
// on the wire when the packet that holds it is due, up to 20 ms later.
func (p *Peer) Until() (time.Duration, bool) { return p.sender.until() }

// Sent returns the log of the packets that were sent since the last call, up to
// Options.Log of them, and how many were before those.
func (p *Peer) Sent() (log []Sent, dropped int) { return p.sender.take() }

// Hear waits for the next packet that was heard, in order of reading. It returns
// false once the peer has ended and all have been taken, or ctx has ended.
func (p *Peer) Hear(ctx context.Context) (Packet, bool) { return p.in.next(ctx) }

// Event waits for the next change of state; false means that there are no more.
func (p *Peer) Event(ctx context.Context) (Event, bool) { return p.events.Get(ctx) }

// State returns the present state.
func (p *Peer) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Failed says why the peer failed; nil if it did not.
func (p *Peer) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close ends the connection, and returns when all its goroutines have ended.
func (p *Peer) Close() {
	p.end(nil)
	if p.closing.Swap(true) { // not a sync.Once: who waits for the end must not hold time up in a bubble
		<-p.closed
		return
	}
	p.e.pacer.remove(p.sender)
	p.sender.stop()
	p.pc.GracefulClose() // what it says about a broken connection is of no use any more
	p.in.heard.Close()
	p.mu.Lock()
	for _, d := range p.channels {
		d.close()
	}
	p.mu.Unlock()
	p.opened.Close()
	p.events.Close()
	p.group.Wait()
	p.e.remove(p)
	close(p.closed)
}
