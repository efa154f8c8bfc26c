package rtc

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

// The first codec of ours that both have is spoken, both ways, with the rates and
// payload types of the standards.
func TestNegotiation(t *testing.T) {
	clock := clocks.NewReal()
	for _, test := range []struct{ ours, theirs, want, line string }{
		{"", "", "opus", "a=rtpmap:111 opus/48000/2"},
		{"pcma opus", "", "opus", "a=rtpmap:111 opus/48000/2"}, // the answerer's order counts
		{"", "pcmu opus", "pcmu", "m=audio 9 UDP/TLS/RTP/SAVPF 0"},
		{"pcma pcmu", "opus pcmu pcma", "pcmu", "m=audio 9 UDP/TLS/RTP/SAVPF 0"},
		{"opus pcma", "pcma", "pcma", "m=audio 9 UDP/TLS/RTP/SAVPF 8"},
	} {
		oa, ob := loopbackOnly(clock), loopbackOnly(clock)
		oa.Codecs, ob.Codecs = strings.Fields(test.ours), strings.Fields(test.theirs)
		a, b := endpoint(t, oa), endpoint(t, ob)
		p, q := connect(t, a, b)
		c, _ := p.Connected(context.Background())
		d, _ := q.Connected(context.Background())
		if c.Name != test.want || d.Name != test.want {
			t.Errorf("%+v: %s and %s", test, c.Name, d.Name)
		}
		q.mu.Lock()
		if !strings.Contains(q.local, test.line) {
			t.Errorf("%+v: the answer is\n%s", test, q.local)
		}
		q.mu.Unlock()
		if k := hear(t, q, 1)[0]; k.Codec != test.want || !k.Marker && k.Index != 0 {
			t.Errorf("%+v: %+v", test, k)
		}
		a.Close()
		b.Close()
	}
}

// chromeOffer has the form of a browser's offer: two codecs with parameters, video
// beside it, a data channel, and a candidate by mDNS.
const chromeOffer = `v=0
o=- 4611731400430051336 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1 2
a=msid-semantic: WMS
m=audio 54321 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13 110 126
c=IN IP4 192.0.2.1
a=candidate:1 1 udp 2113937151 4f1c2d3e-0a1b-4c2d-8e3f-0123456789ab.local 54321 typ host generation 0 network-cost 999
a=ice-ufrag:EsAw
a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
a=ice-options:trickle
a=fingerprint:sha-256 D2:FA:0E:C3:22:59:5E:14:95:69:92:3D:13:B4:84:24:2C:C2:A2:C0:3E:FD:34:8E:5E:EA:6F:AF:52:CE:E6:0F
a=setup:actpass
a=mid:0
a=sendrecv
a=rtcp-mux
a=rtpmap:111 opus/48000/2
a=rtcp-fb:111 transport-cc
a=fmtp:111 minptime=10;useinbandfec=1;stereo=1
a=rtpmap:63 red/48000/2
a=fmtp:63 111/111
a=rtpmap:9 G722/8000
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:13 CN/8000
a=rtpmap:110 telephone-event/48000
a=rtpmap:126 telephone-event/8000
a=ssrc:3735928559 cname:abc
m=video 9 UDP/TLS/RTP/SAVPF 96
c=IN IP4 0.0.0.0
a=ice-ufrag:EsAw
a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
a=fingerprint:sha-256 D2:FA:0E:C3:22:59:5E:14:95:69:92:3D:13:B4:84:24:2C:C2:A2:C0:3E:FD:34:8E:5E:EA:6F:AF:52:CE:E6:0F
a=setup:actpass
a=mid:1
a=recvonly
a=rtcp-mux
a=rtpmap:96 VP8/90000
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:EsAw
a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
a=fingerprint:sha-256 D2:FA:0E:C3:22:59:5E:14:95:69:92:3D:13:B4:84:24:2C:C2:A2:C0:3E:FD:34:8E:5E:EA:6F:AF:52:CE:E6:0F
a=setup:actpass
a=mid:2
a=sctp-port:5000
a=max-message-size:262144
`

// A browser's offer is answered with Opus alone, and without its video.
func TestBrowserOffer(t *testing.T) {
	o := loopbackOnly(clocks.NewReal())
	o.Codecs = nil
	o.Connect = 300 * time.Millisecond // nobody is there
	e := endpoint(t, o)
	offer := strings.ReplaceAll(chromeOffer, "\n", "\r\n")
	p, answer, err := e.Answer(context.Background(), offer)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", "a=rtpmap:111 opus/48000/2\r\n", "m=video 0 ", "m=application 9 ", "127.0.0.1 ", "typ host"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer has no %q:\n%s", want, answer)
		}
	}
	if err := p.AddCandidate(webrtc.ICECandidateInit{Candidate: "candidate:2 1 udp 2113937150 127.0.0.1 9 typ host"}); err != nil {
		t.Error(err)
	}
	if err := p.AddCandidate(webrtc.ICECandidateInit{}); err != nil {
		t.Error(err)
	}
	if err := p.AddCandidate(webrtc.ICECandidateInit{Candidate: strings.Repeat("x", 2000)}); err == nil {
		t.Error("a candidate of 2000 bytes is taken")
	}
	if _, err := p.Connected(context.Background()); err == nil || !strings.Contains(err.Error(), "no usable ICE candidates") {
		t.Error(err)
	}
}

// One side may only send, as over WHIP, or only take, as over WHEP.
func TestOneWay(t *testing.T) {
	for _, direction := range []string{"sendonly", "recvonly"} {
		o := Options{Codecs: []string{codec.PCMU}, Idle: 5 * time.Second}
		synctest.Test(t, func(t *testing.T) {
			x, y := network(t, time.Millisecond, nil)
			o.Clock = clocks.NewReal()
			oa, ob := o, o
			oa.Net, ob.Net = x, y
			a, b := endpoint(t, oa), endpoint(t, ob)
			ctx := context.Background()
			p, offer, err := a.Offer(ctx)
			if err != nil {
				t.Fatal(err)
			}
			q, answer, err := b.Answer(ctx, strings.Replace(offer, "a=sendrecv", "a="+direction, 1))
			if err != nil {
				t.Fatal(err)
			}
			// The offerer is as it said.
			if err := p.Answered(answer); err != nil {
				t.Fatal(err)
			}
			for _, x := range []*Peer{p, q} {
				if _, err := x.Connected(ctx); err != nil {
					t.Fatal(direction, err)
				}
			}
			hears := q
			if direction == "recvonly" {
				hears = p
			}
			hear(t, hears, 20)
			if direction == "sendonly" {
				if _, err := q.Speak(sound(time.Second, 8000)); err == nil {
					t.Error("spoke to who takes no sound")
				}
			}
			o.Clock.Sleep(ctx, 20*time.Second)
			for _, x := range []*Peer{p, q} { // reports keep the silent one
				if x.State() != StateConnected {
					t.Errorf("%s: %v: %v", direction, x.State(), x.Failed())
				}
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	if n, named := candidates(chromeOffer); n != 1 || named != 1 {
		t.Error(n, named)
	}
	if n, named := candidates("a=candidate:1 1 udp 1 10.0.0.1 5 typ host\r\na=candidate:1 2 udp 1 10.0.0.1 5 typ host\r\na=candidate:x\r\n"); n != 1 || named != 0 {
		t.Error(n, named)
	}
}

func FuzzOffer(f *testing.F) {
	f.Add(chromeOffer)
	f.Add("v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := readOffer(text, codec.All())
		if err == nil && o.codec.Name == "" {
			t.Error("no codec and no error")
		}
	})
}

func FuzzRTPHeader(f *testing.F) {
	f.Add([]byte{0x80, 0, 1, 2, 0, 0, 0, 0, 9, 8, 7, 6})
	f.Add([]byte{0x80, 200, 0, 6, 0, 0, 0, 0, 9, 8, 7, 6})
	f.Add([]byte{0x40, 1, 0, 12, 0x80, 0, 1, 2, 0, 0, 0, 0, 9, 8, 7, 6})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, ok := rtpHeader(b); ok && len(b) < 12 {
			t.Error("a header of less than 12 bytes")
		}
	})
}
