package impair

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
)

func peer(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func addr(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

func rtp(seq int) []byte {
	p := make([]byte, 40)
	p[0], p[1] = 0x80, 111
	binary.BigEndian.PutUint16(p[2:], uint16(seq))
	binary.BigEndian.PutUint32(p[4:], uint32(seq)*960)
	binary.BigEndian.PutUint32(p[8:], 0x1234)
	return p
}

func TestRelay(t *testing.T) {
	clock := clocks.NewReal()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := Model{Delay: 30 * ms, Drop: []Range{{2, 3}}, Jitter: Dist{}, Trace: []time.Duration{40 * ms, 0, 0, 0, 0}, Reorder: true}
	r, err := NewRelay(ctx, Options{Clock: clock, Seed: 1, Up: up, Down: Model{Delay: 5 * ms}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client, agent := peer(t), peer(t)
	forAgent, err := r.Stand(Agent, addr(agent))
	if err != nil {
		t.Fatal(err)
	}
	forClient, err := r.Stand(Client, addr(client))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := r.Stand(Client, addr(client)); again != forClient {
		t.Errorf("one address stands at %v and at %v", forClient, again)
	}
	for i := range 5 {
		client.WriteToUDPAddrPort(rtp(i), forAgent)
	}
	stun := []byte{0, 1, 0, 0}
	client.WriteToUDPAddrPort(stun, forAgent)
	var got []uint16
	buf := make([]byte, 1500)
	stunAt := -1
	for i := range 4 {
		n, from, err := agent.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if from != forClient {
			t.Errorf("the agent hears from %v, want %v", from, forClient)
		}
		if n == len(stun) {
			stunAt = i
			continue
		}
		if n != 40 {
			t.Fatalf("%d bytes", n)
		}
		got = append(got, binary.BigEndian.Uint16(buf[2:]))
	}
	// 0 is 40 ms later than the others, 2 and 3 are lost, and ICE does not wait.
	if !slices.Equal(got, []uint16{1, 4, 0}) || stunAt != 0 {
		t.Errorf("%v, STUN at place %d", got, stunAt)
	}
	agent.WriteToUDPAddrPort(rtp(9), forClient)
	if _, from, err := client.ReadFromUDPAddrPort(buf); err != nil || from != forAgent {
		t.Errorf("the client hears from %v %v", from, err)
	}
	entries, untold := r.Log()
	if len(entries) != 6 || untold != 0 {
		t.Fatalf("%d entries", len(entries))
	}
	for i, e := range entries {
		lost := i == 2 || i == 3
		if (e.Sent == nil) != lost || e.Class != ClassRTP || e.SSRC != 0x1234 {
			t.Errorf("%d: %+v", i, e)
		}
		if e.Sent != nil && (*e.Sent < e.Out || e.Out != e.In+e.Drawn) {
			t.Errorf("%d: sent at %v, due at %v", i, *e.Sent, e.Out)
		}
	}
	var b bytes.Buffer
	if err := WriteLog(&b, entries[:1]); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line["from"] != "client" || line["drawn_ns"] != 70e6 || line["timestamp"] != 0.0 && line["timestamp"] != nil {
		t.Errorf("%s %v", b.String(), err)
	}

	// Whoever was in no description is heard all the same, from a port of its own.
	stranger := peer(t)
	stranger.WriteToUDPAddrPort(stun, forAgent)
	if _, from, err := agent.ReadFromUDPAddrPort(buf); err != nil || from == forClient || from == addr(stranger) {
		t.Errorf("the agent hears from %v %v", from, err)
	}
	cancel()
	r.Close()
	if _, err := r.Stand(Client, addr(agent)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed relay: %v", err)
	}
}

func TestRelayBounds(t *testing.T) {
	if _, err := NewRelay(t.Context(), Options{Clock: clocks.NewReal(), Address: netip.MustParseAddr("0.0.0.0")}); err == nil {
		t.Error("a relay for everybody")
	}
	if _, err := NewRelay(t.Context(), Options{Clock: clocks.NewReal(), Down: Model{Delay: -1}}); err == nil || !strings.Contains(err.Error(), "down: delay") {
		t.Errorf("%v", err)
	}
	r, err := NewRelay(t.Context(), Options{Clock: clocks.NewReal(), Up: Model{Delay: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range maxPorts {
		if _, err := r.Stand(Client, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(1000+i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Stand(Client, netip.MustParseAddrPort("127.0.0.1:9")); err == nil || !strings.Contains(err.Error(), "more than 32") {
		t.Errorf("%v", err)
	}
	var p *port
	for _, p = range r.side[Client] {
		break
	}
	// As if the agent sent to the client without end; the sockets are all taken, so
	// that the sender has to be one that is known.
	r.side[Agent][netip.MustParseAddrPort("127.0.0.1:7")] = p
	r.ways[Agent] = NewWay(Model{Delay: time.Hour}, 0, 0)
	for i := range maxHeld + 3 {
		r.take(p, netip.MustParseAddrPort("127.0.0.1:7"), rtp(i))
	}
	entries, _ := r.Log()
	if len(r.held) != maxHeld || entries[maxHeld].Lost != ByRelay {
		t.Errorf("%d are held, the next is %+v", len(r.held), entries[maxHeld])
	}
	delete(r.side[Agent], netip.MustParseAddrPort("127.0.0.1:7"))
}

func TestClass(t *testing.T) {
	for want, p := range map[string][]byte{
		ClassSTUN: {0, 1}, ClassDTLS: {22, 254}, ClassRTP: rtp(1), ClassRTCP: {0x80, 200, 0, 1, 0, 0, 0, 0}, ClassOther: {64},
	} {
		if got := Class(p); got != want {
			t.Errorf("%v is %s, want %s", p, got, want)
		}
	}
	if Class(nil) != ClassOther || Class([]byte{0x80, 111}) != ClassOther {
		t.Error("short packets")
	}
}

func TestRewrite(t *testing.T) {
	r, err := NewRelay(t.Context(), Options{Clock: clocks.NewReal()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sdp := strings.Join([]string{
		"v=0", "c=IN IP4 192.0.2.1", "m=audio 5004 UDP/TLS/RTP/SAVPF 111", "a=rtcp:5005 IN IP4 192.0.2.1",
		"a=candidate:1 1 udp 2130706431 127.0.0.1 5004 typ host generation 0",
		"a=candidate:2 1 UDP 2130706431 ab-cd.local 5006 typ host",
		"a=candidate:3 1 tcp 1 127.0.0.1 9 typ host tcptype active",
		"a=candidate:4 1 udp 1 198.51.100.1 5008 typ srflx raddr 0.0.0.0 rport 0",
		"a=end-of-candidates", "m=video 0 UDP/TLS/RTP/SAVPF 96", "",
	}, "\r\n")
	got, removed, err := r.Rewrite(Agent, sdp)
	if err != nil {
		t.Fatal(err)
	}
	to, _ := r.Stand(Agent, netip.MustParseAddrPort("127.0.0.1:5004"))
	want := strings.Join([]string{
		"v=0", "c=IN IP4 0.0.0.0", "m=audio 9 UDP/TLS/RTP/SAVPF 111", "a=rtcp:9 IN IP4 0.0.0.0",
		"a=candidate:1 1 udp 2130706431 127.0.0.1 " + to.String()[len("127.0.0.1:"):] + " typ host generation 0",
		"a=end-of-candidates", "m=video 0 UDP/TLS/RTP/SAVPF 96", "",
	}, "\r\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(removed) != 3 || !strings.HasSuffix(removed[0], "a name and no address") || !strings.HasSuffix(removed[1], "not UDP") || !strings.HasSuffix(removed[2], "srflx") {
		t.Errorf("removed %q", removed)
	}
	if _, _, err := r.Rewrite(Agent, "v=0\na=candidate:3 1 tcp 1 127.0.0.1 9 typ host\n"); err == nil || !strings.Contains(err.Error(), "no UDP host candidate") {
		t.Errorf("%v", err)
	}
	if got, gone, err := r.Rewrite(Client, "v=0\na=candidate:2 1 udp 1 ab-cd.local 9 typ host\n"); err != nil || got != "v=0\n" || len(gone) != 1 {
		t.Errorf("a client with names: %q %v", got, err)
	}
	if got, _, err := r.Rewrite(Agent, "v=0\n"); err != nil || got != "v=0\n" {
		t.Errorf("candidates to come: %q %v", got, err)
	}
	if line, why, err := r.Candidate(Agent, ""); line != "" || why != "" || err != nil {
		t.Errorf("the end: %q %q %v", line, why, err)
	}
	for _, bad := range []string{"x", "candidate:1 1 udp 1 127.0.0.1 99999 typ host", "candidate:1 1 udp 1 127.0.0.1 0 typ host"} {
		if _, _, err := r.Candidate(Agent, bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzCandidate(f *testing.F) {
	f.Add("candidate:1 1 udp 2130706431 127.0.0.1 5004 typ host")
	f.Fuzz(func(t *testing.T, line string) {
		r := &Relay{done: true} // opens no sockets
		if got, why, err := r.Candidate(Client, line); err == nil && why == "" && got != "" {
			t.Errorf("%q became %q without a socket", line, got)
		}
	})
}
