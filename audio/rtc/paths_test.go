package rtc

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/transport/v5/vnet"
	"github.com/pion/turn/v5"
	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

// Where the two cannot reach each other, a call goes over a TURN server, and its
// packets have their arrivals all the same.
func TestTURN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		router, err := vnet.NewRouter(&vnet.RouterConfig{CIDR: "10.0.0.0/24", MinDelay: 10 * time.Millisecond, LoggerFactory: loggers(), QueueSize: 10000})
		if err != nil {
			t.Fatal(err)
		}
		var nets []*vnet.Net
		for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			n, err := vnet.NewNet(&vnet.NetConfig{StaticIPs: []string{ip}})
			if err != nil {
				t.Fatal(err)
			}
			router.AddNet(n)
			nets = append(nets, n)
		}
		router.AddChunkFilter(func(c vnet.Chunk) bool {
			return strings.HasPrefix(c.SourceAddr().String(), "10.0.0.3") || strings.HasPrefix(c.DestinationAddr().String(), "10.0.0.3")
		})
		if err := router.Start(); err != nil {
			t.Fatal(err)
		}
		defer router.Stop()
		conn, err := nets[2].ListenPacket("udp4", "10.0.0.3:3478")
		if err != nil {
			t.Fatal(err)
		}
		server, err := turn.NewServer(turn.ServerConfig{
			Realm:         "test",
			LoggerFactory: loggers(),
			AuthHandler: func(a *turn.RequestAttributes) (string, []byte, bool) {
				return a.Username, turn.GenerateAuthKey(a.Username, a.Realm, "secret"), true
			},
			PacketConnConfigs: []turn.PacketConnConfig{{
				PacketConn:            conn,
				RelayAddressGenerator: &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(10, 0, 0, 3), Address: "10.0.0.3", Net: nets[2]},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		o := Options{Clock: clock, Codecs: []string{codec.PCMU}, ICEServers: []webrtc.ICEServer{{URLs: []string{"turn:10.0.0.3:3478?transport=udp"}, Username: "user", Credential: "secret"}}}
		oa, ob := o, o
		oa.Net, ob.Net = nets[0], nets[1]
		p, q := connect(t, endpoint(t, oa), endpoint(t, ob))
		heard := hear(t, q, 100)
		sent, _ := p.Sent()
		for i, k := range heard {
			if k.Seq != sent[i].Seq || k.Arrived-sent[i].At != 20*time.Millisecond {
				t.Fatalf("packet %d: %+v, sent %+v", i, k, sent[i])
			}
		}
		p.Close()
		q.Close()
	})
}

// An endpoint with one port serves several calls on it.
func TestOnePort(t *testing.T) {
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	port := free.LocalAddr().(*net.UDPAddr).Port
	free.Close()
	clock := clocks.NewReal()
	o := loopbackOnly(clock)
	o.Port = uint16(port)
	server, client := endpoint(t, o), endpoint(t, loopbackOnly(clock))
	for i := range 3 {
		p, q := connect(t, client, server)
		for _, x := range []*Peer{p, q} {
			if k := hear(t, x, 20)[19]; k.Index != 19 || !k.Kernel {
				t.Errorf("call %d: %+v", i, k)
			}
		}
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "rtc: UDP on 127.0.0.1") {
		t.Errorf("a port was opened twice: %v", err)
	}
}

// A browser's candidates are names under .local: a call comes about all the same.
func TestNamesUnderLocal(t *testing.T) {
	var s webrtc.SettingEngine
	s.LoggerFactory = loggers()
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeQueryAndGather)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer pc.GracefulClose()
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypePCMU, ClockRate: 8000}, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pc.AddTrack(track); err != nil {
		t.Fatal(err)
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	text := pc.LocalDescription().SDP
	if n, named := candidates(text); n == 0 || named != n {
		t.Skipf("this host gives %d candidates, %d of them names", n, named)
	}
	e := endpoint(t, Options{Clock: clocks.NewReal(), Codecs: []string{codec.PCMU}})
	p, answer, err := e.Answer(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Connected(context.Background()); err != nil {
		t.Error(err)
	}
}

// Who listens late gets all packets with their true arrivals, up to the limit, and
// what did not fit is counted.
func TestLateListener(t *testing.T) {
	bubble(t, 10*time.Millisecond, nil, Options{Codecs: []string{codec.PCMU}, Log: 60}, func(clock clocks.Clock, p, q *Peer) {
		at, _ := p.Speak(sound(100*time.Millisecond, 8000))
		ctx := context.Background()
		clock.Sleep(ctx, 800*time.Millisecond)
		now := clock.Now()
		for i := range 30 {
			k, _ := q.Hear(ctx)
			if k.Index != int64(i) || k.Arrived != k.Read || i == 0 && (!k.Marker || k.Arrived > at+codec.Frame+11*time.Millisecond) || k.Arrived > now {
				t.Errorf("%d: %+v, said at %v", i, k, at)
			}
		}
		clock.Sleep(ctx, 2*time.Second)
		s := q.Stats()
		if s.Untaken < 40 || s.Untaken+60+30 != s.Heard {
			t.Errorf("%+v", s)
		}
		if log, dropped := p.Sent(); len(log) != 60 || dropped != p.Stats().Sent-60 {
			t.Errorf("%d in the log, %d dropped", len(log), dropped)
		}
	})
}

// A slowWriter waits once.
type slowWriter struct {
	webrtc.TrackLocalWriter
	wait func()
}

func (w *slowWriter) WriteRTP(h *rtp.Header, payload []byte) (int, error) {
	if w.wait != nil {
		w.wait()
		w.wait = nil
	}
	return w.TrackLocalWriter.WriteRTP(h, payload)
}

// A sender that is held up for seconds goes on with what is due, not with what was.
func TestHeldUp(t *testing.T) {
	bubble(t, time.Millisecond, nil, Options{Codecs: []string{codec.PCMU}}, func(clock clocks.Clock, p, q *Peer) {
		ctx := context.Background()
		clock.Sleep(ctx, 200*time.Millisecond)
		p.Speak(sound(10*time.Second, 8000))
		p.sender.mu.Lock()
		p.sender.writer = &slowWriter{TrackLocalWriter: p.sender.writer, wait: func() { clock.Sleep(ctx, 3*time.Second) }}
		p.sender.mu.Unlock()
		clock.Sleep(ctx, 4*time.Second+time.Millisecond)
		s := p.Stats()
		if s.Skipped < 145 || s.Skipped > 151 || s.Latest > 20*time.Millisecond {
			t.Errorf("%+v", s)
		}
		var last Packet
		for range s.Sent - 2 {
			k, _ := q.Hear(ctx)
			if step := k.Timestamp - last.Timestamp; last.Read != 0 && step != 160 && step != 160*uint32(s.Skipped+1) || k.Lost != 0 {
				t.Errorf("a step of %d samples, %d lost", step, k.Lost)
			}
			last = k
		}
	})
}
