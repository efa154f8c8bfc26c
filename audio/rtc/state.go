package rtc

import (
	"errors"
	"fmt"
	"time"

	"github.com/pion/webrtc/v4"
)

// isEnded says that the peer is about to end. Its caller holds p.mu.
func (p *Peer) isEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// become notes a state. Its caller holds p.mu.
func (p *Peer) become(s State) {
	if p.state != s {
		p.state = s
		p.events.Put(Event{p.e.clock.Now(), s})
	}
}

// end begins the end: failed if err is not nil. Only the first call counts.
func (p *Peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isEnded() {
		return
	}
	p.alarm.Stop()
	p.err = err
	if err != nil {
		p.become(StateFailed)
	} else {
		p.become(StateClosed)
	}
	close(p.ended)
}

// fail ends the peer from a callback, which cannot wait for the end.
func (p *Peer) fail(err error) {
	p.end(err)
	p.e.clock.Go("rtc close", p.Close)
}

// changed follows pion's state.
func (p *Peer) changed(s webrtc.PeerConnectionState) {
	switch s {
	case webrtc.PeerConnectionStateConnected:
		p.flow(func() { p.up = true })
		p.to(StateConnected)
	case webrtc.PeerConnectionStateConnecting:
		p.to(StateConnecting)
	case webrtc.PeerConnectionStateDisconnected:
		p.to(StateDisconnected)
	case webrtc.PeerConnectionStateFailed:
		p.mu.Lock()
		started, err := p.started, p.unconnected()
		p.mu.Unlock()
		if started {
			err = fmt.Errorf("rtc: the connection was lost: nothing came from the other side for %v", p.e.o.Disconnected+p.e.o.Failed)
		}
		p.fail(err)
	case webrtc.PeerConnectionStateClosed:
		p.fail(nil) // the other side closed, or Close did
	}
}

func (p *Peer) to(s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isEnded() {
		p.become(s)
	}
}

// flow lets packets flow once the connection is up and the codec is known, or none
// is needed. is sets one of these.
func (p *Peer) flow(is func()) {
	p.mu.Lock()
	is()
	start := p.up && (p.isBound || p.mute) && !p.started && !p.isEnded()
	if start {
		p.started = true
		p.alarm.Stop()
		now := p.e.clock.Now()
		p.alarm = p.e.clock.At(now+p.e.o.Idle, func() { p.idle(now) })
	}
	mute := p.mute
	p.mu.Unlock()
	if !start {
		return
	}
	if !mute {
		p.e.pacer.add(p.sender)
	}
	close(p.connected)
}

// idle ends the peer if nothing was heard for too long. since is when it began.
func (p *Peer) idle(since time.Duration) {
	p.in.mu.Lock()
	last := max(since, p.in.last)
	p.in.mu.Unlock()
	now := p.e.clock.Now()
	if now-last >= p.e.o.Idle {
		p.fail(fmt.Errorf("rtc: nothing was heard for %v: neither sound nor messages", p.e.o.Idle))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isEnded() {
		p.alarm = p.e.clock.At(last+p.e.o.Idle, func() { p.idle(since) })
	}
}

// heardSomething puts the end by idleness off.
func (p *Peer) heardSomething() {
	now := p.e.clock.Now()
	p.in.mu.Lock()
	p.in.last = now
	p.in.mu.Unlock()
}

// notConnected is called when the connection took too long.
func (p *Peer) notConnected() {
	p.mu.Lock()
	started, err := p.started, p.unconnected()
	p.mu.Unlock()
	if !started {
		p.fail(err)
	}
}

// unconnected says why there is no connection, as far as it can be told. Its
// caller holds p.mu.
func (p *Peer) unconnected() error {
	ours, _ := candidates(p.local)
	theirs, named := candidates(p.remote)
	if p.pc.ICEConnectionState() == webrtc.ICEConnectionStateConnected || p.pc.ICEConnectionState() == webrtc.ICEConnectionStateCompleted {
		if !p.up {
			return fmt.Errorf("rtc: ICE is connected, but the DTLS handshake did not end within %v", p.e.o.Connect)
		}
		return errors.New("rtc: connected, but the other side agreed to no codec of ours")
	}
	var hint string
	switch {
	case theirs == 0:
		return fmt.Errorf("rtc: no usable ICE candidates from the other side within %v: its description has none, and none came after it", p.e.o.Connect)
	case named == theirs:
		hint = "theirs are names under .local, which only resolve within one local network (multicast DNS)"
	case onlyLoopback(p.remote) && !p.e.o.Loopback:
		hint = "theirs are loopback addresses: allow loopback candidates here"
	default:
		hint = "a firewall between the two, or another network: a STUN or TURN server may help"
	}
	return fmt.Errorf("rtc: no usable ICE candidates: none of ours (%d) reached one of theirs (%d) within %v: %s", ours, theirs, p.e.o.Connect, hint)
}
