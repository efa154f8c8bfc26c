// Package rtc is one end of WebRTC calls that carry speech: it sends packets of
// 20 ms by absolute deadlines and hears packets with the times at which they
// reached this host. It is built on pion, and the same at both ends.
//
// # Time
//
// A packet that is due at D carries the sound from D - 20 ms to D. What [Peer.Speak]
// is given at a moment T begins at T in that time line, to the sample, unless
// earlier sound still waits; its first packet may so begin with silence. Timestamps
// follow the time line through silence, whether packets are sent in it or not, and
// sequence numbers count what was sent: a sender that stops its timestamps in
// silence makes every receiver's jitter buffer grow by the length of its pauses.
//
// All peers of an [Endpoint] are paced by one goroutine, each at its own offset
// into the 20 ms. How late each packet was is recorded ([Sent]).
//
// # Arrival
//
// RTP headers are in the clear under SRTP, so the socket's datagrams are looked at
// before pion decrypts them, and the kernel's stamp is kept per SSRC and sequence
// number until the packet is read. Where there is none, the arrival is the time at
// which the packet was read, and [Packet.Kernel] says so.
package rtc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/logging"
	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// Options are the settings of an Endpoint. The zero value will do, but for Clock.
type Options struct {
	Clock clocks.Clock // a *clocks.Real, in a synctest bubble or not

	ICEServers []webrtc.ICEServer      // STUN and TURN
	Loopback   bool                    // 127.0.0.1 is a candidate too
	Filter     func(a netip.Addr) bool // says which of the host's addresses are used; nil: all
	Net        transport.Net           // nil: the system's

	// Port is one UDP port, on each address, for all peers: for a server behind a
	// firewall. Calls are told apart by the other side's address then, so the other
	// side must not have one port for several calls. 0: each peer has sockets of its own.
	Port uint16

	Codecs   []string      // by preference; nil: opus, pcmu, pcma
	Encoder  codec.Options // of what is spoken
	DTX      bool          // no packets in silence; otherwise packets of silence
	Channels []string      // labels of the data channels that Offer opens

	Peers        int           // most at a time; 0: 256
	Message      int           // most bytes of a message on a data channel, up to 65535; 0: that
	Connect      time.Duration // most from both descriptions to a connection; 0: 5 s
	Idle         time.Duration // a connected peer that hears nothing for so long is closed; 0: 60 s
	Disconnected time.Duration // without a sign of the other side until it counts as disconnected; 0: 3 s
	Failed       time.Duration // more of it until the connection has failed; 0: 12 s
	Log          int           // how many packets Sent and Hear keep for who does not take them; 0: 3000, a minute
}

// The limits that are not options.
const (
	maxSDP        = 256 << 10
	maxMedia      = 32    // sections of a description
	maxCandidates = 100   // of the other side, in a description and as many after it: each pair of two is tried
	maxMessage    = 65535 // the most that pion reads at once
	maxChannels   = 8     // data channels of a peer
	maxWaiting    = 256   // messages and events that nobody takes
	maxSpoken     = 10 * time.Minute
	gatherTime    = 2 * time.Second // for an answer of a STUN server
)

func (o *Options) setDefaults() error {
	if o.Clock == nil {
		return errors.New("rtc: Options.Clock is missing")
	}
	if len(o.Codecs) == 0 {
		o.Codecs = []string{codec.Opus, codec.PCMU, codec.PCMA}
	}
	if o.Message < 0 || o.Message > maxMessage {
		return fmt.Errorf("rtc: messages of %d bytes: the most is %d", o.Message, maxMessage)
	}
	if len(o.Channels) > maxChannels {
		return fmt.Errorf("rtc: %d data channels: the most is %d", len(o.Channels), maxChannels)
	}
	for _, n := range []struct {
		v *int
		d int
	}{{&o.Peers, 256}, {&o.Message, maxMessage}, {&o.Log, 3000}} {
		if *n.v == 0 {
			*n.v = n.d
		}
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&o.Connect, 5 * time.Second}, {&o.Idle, time.Minute}, {&o.Disconnected, 3 * time.Second}, {&o.Failed, 12 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	return nil
}

// An Endpoint has what many peers share: the sockets, the pacer, the encoders.
type Endpoint struct {
	o        Options
	clock    clocks.Clock
	codecs   []codec.Codec
	net      transport.Net
	mux      *ice.MultiUDPMuxDefault // nil: peers have sockets of their own
	source   *arrival.Source
	arrivals *arrivals
	cert     webrtc.Certificate
	pacer    *pacer
	encoders *encoders
	release  func() // of the kernel's stamps

	mu     sync.Mutex
	peers  map[*Peer]bool
	made   int // peers so far
	closed bool
}

// New returns an Endpoint that uses the IPv4 addresses of the host. If there is none
// it says so: peers could never connect.
func New(o Options) (*Endpoint, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	e := &Endpoint{o: o, clock: o.Clock, peers: map[*Peer]bool{}, source: arrival.NewSource(o.Clock)}
	for _, name := range o.Codecs {
		c, err := codec.Named(name)
		if err != nil {
			return nil, fmt.Errorf("rtc: %w", err)
		}
		e.codecs = append(e.codecs, c)
	}
	if _, err := codec.NewEncoder(codec.Opus, o.Encoder); err != nil {
		return nil, fmt.Errorf("rtc: %w", err)
	}
	inner := o.Net
	if inner == nil {
		var err error
		if inner, err = stdnet.NewNet(); err != nil {
			return nil, fmt.Errorf("rtc: the host's interfaces: %w", err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("rtc: %w", err)
	}
	cert, err := webrtc.GenerateCertificate(key)
	if err != nil {
		return nil, fmt.Errorf("rtc: %w", err)
	}
	e.cert = *cert
	e.arrivals = newArrivals(4 * o.Peers)
	e.net = stampedNet{inner, e}
	addrs, passed, err := addresses(inner, o.Loopback, o.Filter)
	if err != nil {
		return nil, fmt.Errorf("rtc: the host's interfaces: %w", err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("rtc: no usable ICE candidates on this host: %s", passed)
	}
	if o.Port != 0 {
		if err := e.listen(addrs); err != nil {
			return nil, err
		}
	}
	e.release = arrival.Hold()
	e.pacer = newPacer(e.clock)
	e.encoders = newEncoders(e.clock)
	return e, nil
}

// listen opens the one port.
func (e *Endpoint) listen(addrs []netip.Addr) error {
	var muxes []ice.UDPMux
	for _, a := range addrs {
		conn, err := e.net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, e.o.Port)))
		if err != nil {
			for _, m := range muxes {
				m.Close()
			}
			return fmt.Errorf("rtc: UDP on %v: %w", a, err)
		}
		muxes = append(muxes, ice.NewUDPMuxDefault(ice.UDPMuxParams{Logger: loggers().NewLogger("ice"), UDPConn: conn, Net: e.net}))
	}
	e.mux = ice.NewMultiUDPMuxDefault(muxes...)
	return nil
}

// loggers returns pion's own, silent unless PION_LOG_* in the environment asks.
func loggers() *logging.DefaultLoggerFactory {
	f := logging.NewDefaultLoggerFactory()
	f.DefaultLogLevel = logging.LogLevelDisabled
	return f
}

// Offer makes a peer, and the offer to the other side, with all candidates in it.
// The other side's answer goes to [Peer.Answered].
func (e *Endpoint) Offer(ctx context.Context) (*Peer, string, error) {
	p, err := e.newPeer(e.codecs, offered{channels: len(e.o.Channels) > 0})
	if err != nil {
		return nil, "", err
	}
	sdp, err := p.offer(ctx, false)
	if err != nil {
		p.end(err)
		p.Close()
		return nil, "", err
	}
	return p, sdp, nil
}

// Answer makes a peer for an offer of the other side, and the answer to it, with
// all candidates in it. It speaks the first of its codecs that was offered.
func (e *Endpoint) Answer(ctx context.Context, offer string) (*Peer, string, error) {
	o, err := readOffer(offer, e.codecs)
	if err != nil {
		return nil, "", err
	}
	p, err := e.newPeer([]codec.Codec{o.codec}, o)
	if err != nil {
		return nil, "", err
	}
	sdp, err := p.answer(ctx, offer)
	if err != nil {
		p.end(err)
		p.Close()
		return nil, "", err
	}
	return p, sdp, nil
}

// api returns pion's API for one peer.
func (e *Endpoint) api(codecs []codec.Codec, o offered) (*webrtc.API, error) {
	var s webrtc.SettingEngine
	s.LoggerFactory = loggers()
	s.SetNet(e.net)
	if e.mux != nil {
		s.SetICEUDPMux(e.mux)
	}
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	s.SetIncludeLoopbackCandidate(e.o.Loopback)
	if e.o.Filter != nil {
		s.SetIPFilter(func(ip net.IP) bool {
			a, ok := netip.AddrFromSlice(ip)
			return ok && e.o.Filter(a.Unmap())
		})
	}
	s.SetICETimeouts(e.o.Disconnected, e.o.Failed, min(time.Second, e.o.Disconnected/2))
	s.SetSTUNGatherTimeout(gatherTime)
	s.SetSCTPMaxMessageSize(uint32(e.o.Message))
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	if o.named {
		s.SetICEMulticastDNSMode(ice.MulticastDNSModeQueryOnly)
	}
	// Where there are data channels, their end is the sign that the other side has
	// closed. pion closes when DTLS ends, and holds a lock, while it waits, that the
	// end of the data channels needs: it stalls for 400 ms, and for ever in a bubble.
	s.DisableCloseByDTLS(o.channels)
	var m webrtc.MediaEngine
	for _, c := range codecs {
		if err := m.RegisterCodec(parameters(c), webrtc.RTPCodecTypeAudio); err != nil {
			return nil, fmt.Errorf("rtc: %w", err)
		}
	}
	// No jitter buffer and no repeats: what arrives is heard as it arrives.
	var r interceptor.Registry
	if err := errors.Join(webrtc.ConfigureRTCPReports(&r), webrtc.ConfigureStatsInterceptor(&r)); err != nil {
		return nil, fmt.Errorf("rtc: %w", err)
	}
	return webrtc.NewAPI(webrtc.WithSettingEngine(s), webrtc.WithMediaEngine(&m), webrtc.WithInterceptorRegistry(&r)), nil
}

// add takes p in, if there is room.
func (e *Endpoint) add(p *Peer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("rtc: the endpoint is closed")
	}
	if len(e.peers) >= e.o.Peers {
		return fmt.Errorf("rtc: %d peers are connected already, which is the limit", len(e.peers))
	}
	e.peers[p] = true
	e.made++
	p.number = e.made
	return nil
}

func (e *Endpoint) remove(p *Peer) {
	e.mu.Lock()
	delete(e.peers, p)
	e.mu.Unlock()
}

// Peers returns how many peers there are now.
func (e *Endpoint) Peers() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.peers)
}

// Steps returns how often the wall clock was seen to have been set: around that,
// arrivals may be off by it.
func (e *Endpoint) Steps() int { return e.source.Steps() }

// Close closes all peers and the sockets, and returns when all goroutines have
// ended.
func (e *Endpoint) Close() {
	e.mu.Lock()
	e.closed = true
	var all []*Peer
	for p := range e.peers {
		all = append(all, p)
	}
	e.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(p.Close)
	}
	wg.Wait()
	e.pacer.close()
	e.encoders.close()
	if e.mux != nil {
		e.mux.Close()
	}
	e.release()
}
