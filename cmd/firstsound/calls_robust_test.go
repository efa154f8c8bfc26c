package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/turn/v5"
	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
	"firstsound/audio/impair"
	"firstsound/audio/rtc"
	"firstsound/audio/signal"
	"firstsound/clocks"
)

// hang is when a test gives up. Nothing that it waits for takes half as long.
const hang = 90 * time.Second

// callEnds waits until a caller ends by itself, and returns its report.
func callEnds(t *testing.T, cmd *exec.Cmd, out io.Reader) *callReport {
	t.Helper()
	stop := time.AfterFunc(hang, func() { cmd.Process.Kill() })
	defer stop.Stop()
	text, err := io.ReadAll(out)
	cmd.Wait() // the exit code does not matter here
	r := new(callReport)
	if err != nil || json.Unmarshal(text, r) != nil {
		t.Fatalf("the caller: %v, %v\n%s", err, cmd.ProcessState, text)
	}
	return r
}

// longCall begins a call that goes on for ever.
func longCall(t *testing.T, url string) (*exec.Cmd, io.Reader) {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "call", url, "--json", "--turns", "1000", "--utterance", "en-flite-yes", "--quiet", "600ms", "--gap", "0s")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	return cmd, out
}

func socketURL(url string) string { return strings.Replace(url, "http", "ws", 1) + "/ws" }

// kill -9 of the agent in mid-call: the caller says what was lost, keeps the turns
// before, and ends.
func TestCallAgentKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	for _, protocol := range []string{"webrtc", "ws"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			agent, url, _ := listening(t, "serve", exact(t, 60*time.Millisecond), "--listen", "127.0.0.1:0", "--out", dir)
			want := "nothing came from the other side for 15s"
			if protocol == "ws" {
				url, want = socketURL(url), "call 1: "
			}
			caller, out := longCall(t, url)
			waitForLines(t, filepath.Join(dir, "turns.jsonl"), 2)
			kill(agent)
			r := callEnds(t, caller, out)
			if len(r.Errors) != 1 || !strings.Contains(r.Errors[0], want) || len(r.Turns) < 2 || r.FirstSound.N < 1 {
				t.Errorf("%q, %d turns, %d were answered", r.Errors, len(r.Turns), r.FirstSound.N)
			}
			if code := caller.ProcessState.ExitCode(); code != exitFailed { // a call that broke off, although turns were answered
				t.Errorf("the caller's exit code is %d", code)
			}
			t.Logf("%q, %d turns, %v", r.Errors, len(r.Turns), caller.ProcessState)
		})
	}
}

// kill -9 of the caller in mid-call, at an agent that takes one call: before, others
// are refused, with the reason; after a while the place is free, and the turn that was
// under way has an end in the files.
func TestServeCallerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	for _, protocol := range []string{"webrtc", "ws"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			agent, url, rest := listening(t, "serve", exact(t, 60*time.Millisecond), "--listen", "127.0.0.1:0", "--out", dir, "--calls", "1")
			go io.Copy(io.Discard, rest)
			to := url
			if protocol == "ws" {
				to = socketURL(url)
			}
			caller, _ := longCall(t, to)
			waitForLines(t, filepath.Join(dir, "turns.jsonl"), 1)
			for _, other := range []string{url, socketURL(url)} {
				stdout, stderr, code := try("call", other, "--turns", "1")
				if code != exitFailed || !strings.Contains(stdout, "the server says") && !strings.Contains(stdout, "there are too many calls") {
					t.Errorf("a second call: exit code %d, %s%s", code, stdout, stderr)
				}
			}
			before := strings.Count(string(read(t, filepath.Join(dir, "turns.jsonl"))), "\n")
			clock := clocks.NewReal()
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			defer cancel()
			clock.Sleep(ctx, 700*time.Millisecond) // the next turn is under way, most likely
			kill(caller)
			for { // dialled from here: a program for each attempt would be slow
				conn, status, err := upgrade(ctx, url)
				if err != nil {
					t.Fatalf("the place of a caller who was killed does not become free: %v", err)
				}
				conn.Close()
				if status == http.StatusSwitchingProtocols {
					break
				}
				clock.Sleep(ctx, 100*time.Millisecond)
			}
			agent.Process.Signal(os.Interrupt)
			stop := time.AfterFunc(hang, func() { agent.Process.Kill() })
			defer stop.Stop()
			if err := agent.Wait(); err != nil {
				t.Errorf("the agent ends with %v", err)
			}
			opened := strings.Count(string(read(t, filepath.Join(dir, "events.jsonl"))), `"turn_opened"`)
			closed := rows(t, dir)
			if len(closed) != opened || len(closed) < before {
				t.Errorf("%d turns were opened and %d closed", opened, len(closed))
			}
			t.Logf("%d turns, the last one %s", len(closed), closed[len(closed)-1].Outcome)
		})
	}
}

// upgrade asks for a WebSocket and returns the status.
func upgrade(ctx context.Context, url string) (net.Conn, int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, 0, err
	}
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", conn.RemoteAddr())
	var status int
	if _, err := fmt.Fscanf(conn, "HTTP/1.1 %d", &status); err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, status, nil
}

// The network is cut for 5 s in mid-call: the call goes on, what was lost is counted
// in both directions, and turns are answered after it.
func TestCallCut(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	t.Parallel()
	agent, stop := serveChild(t, exact(t, 60*time.Millisecond))
	defer stop()
	url, end := impairChild(t, "--to", agent, "--udp", "cut=2s-7s")
	r := callChild(t, url, "--turns", "4", "--utterance", "en-flite-yes", "--quiet", "600ms", "--gap", "0s", "--wait", "6s")
	rep := end()
	last := r.Turns[len(r.Turns)-1]
	if len(r.Errors) > 0 || len(r.Turns) != 4 || r.Turns[0].Sound == nil || last.Sound == nil {
		t.Errorf("%q, %+v", r.Errors, r.Turns)
	}
	for _, way := range rep.UDP.Ways {
		// 50 packets a second; a sender that is held up leaves some out.
		if n := way.Lost[impair.ByCut]; n < 150 || n > 300 {
			t.Errorf("from the %s %d packets were cut off", way.From, n)
		}
		t.Logf("from the %s: %d of %d lost", way.From, way.Lost[impair.ByCut], way.Packets)
	}
}

// ICE is restarted in mid-call, as after a change of network, through impair and an
// agent behind it: both directions go on, still through the relay.
func TestServeICERestart(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a program of its own")
	}
	t.Parallel()
	agent, stop := serveChild(t, exact(t, 60*time.Millisecond))
	defer stop()
	url, end := impairChild(t, "--to", agent, "--udp", "delay=5ms")
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	e, err := rtc.New(rtc.Options{Clock: clocks.NewReal(), Loopback: true, Filter: onlyLoopback, Codecs: []string{codec.PCMU}, Channels: []string{marksChannel}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, offer, err := e.Offer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first, err := signal.Client{}.Dial(ctx, url+"/api/offer", signal.Offer{Protocol: signal.SmallWebRTC, SDP: offer})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Answered(first.Answer); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	hear := func(n int) (last int64) {
		t.Helper()
		for range n {
			k, ok := p.Hear(ctx)
			if !ok {
				t.Fatalf("it ended: %v", p.Failed())
			}
			last = k.Index
		}
		return last
	}
	before := hear(20)
	for range 2 {
		again, err := p.Restart(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if ufrag(again) == ufrag(offer) {
			t.Error("the credentials have not changed")
		}
		k, err := signal.Client{}.Dial(ctx, url+"/api/offer", signal.Offer{Protocol: signal.SmallWebRTC, SDP: again, Call: first.Resource})
		if err != nil {
			t.Fatal(err)
		}
		if k.Resource != first.Resource || ufrag(k.Answer) == ufrag(first.Answer) {
			t.Errorf("call %s became %s, %s", first.Resource, k.Resource, ufrag(k.Answer))
		}
		if err := p.Answered(k.Answer); err != nil {
			t.Fatal(err)
		}
		if after := hear(50); after < before+50 {
			t.Errorf("packet %d came after packet %d", after, before)
		} else {
			before = after
		}
		offer = again
	}
	// What is sent between two pairs of candidates may be lost.
	if s := p.Stats(); p.State() != rtc.StateConnected || s.Lost > 10 {
		t.Errorf("%s, %+v", p.State(), s)
	}
	heard := p.Stats().Heard
	t.Logf("%d packets were heard, %d lost", heard, p.Stats().Lost)
	e.Close()
	if r := end(); r.UDP.Calls != 1 || r.UDP.Ways[1].RTP < heard || r.UDP.Ways[0].RTP < 100 {
		t.Errorf("%d packets were heard, and in the relay %+v", heard, r.UDP)
	}
}

func ufrag(sdp string) string {
	_, rest, _ := strings.Cut(sdp, "a=ice-ufrag:")
	name, _, _ := strings.Cut(rest, "\r\n")
	return name
}

// A listener that is no caller: plain pion takes the agent's sound by WHEP, and hangs
// up.
func TestServeWHEP(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a program of its own")
	}
	url, stop := serveChild(t, exact(t, 60*time.Millisecond))
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	if _, err := pc.AddTransceiverFromKind(webrtc.RTPCodecTypeAudio, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly}); err != nil {
		t.Fatal(err)
	}
	got := make(chan uint32, 1000)
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		for {
			p, _, err := track.ReadRTP()
			if err != nil {
				close(got)
				return
			}
			got <- p.Timestamp
		}
	})
	d, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(d); err != nil {
		t.Fatal(err)
	}
	<-gathered
	call, err := signal.Client{}.Dial(ctx, url+"/whep", signal.Offer{Protocol: signal.WHEP, SDP: pc.LocalDescription().SDP})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(call.Answer, "a=sendonly") {
		t.Errorf("the answer to who only listens:\n%s", call.Answer)
	}
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: call.Answer}); err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		select {
		case _, ok := <-got:
			if !ok {
				t.Fatalf("it ended after %d packets", n)
			}
		case <-ctx.Done():
			t.Fatalf("%d packets came", n)
		}
	}
	if err := call.Hangup(ctx); err != nil {
		t.Error(err)
	}
	for ctx.Err() == nil && call.Hangup(ctx) == nil { // until it is over
		time.Sleep(10 * time.Millisecond)
	}
	if err := call.Hangup(ctx); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("hanging up again: %v", err)
	}
}

// Where the two cannot reach each other, --ice takes both to a TURN server, with the
// password from the environment; it is in nothing that they print.
func TestCallTURN(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	const secret = "pass-4711"
	t.Setenv("FIRSTSOUND_TEST_TURN", secret)
	t.Setenv("FIRSTSOUND_TEST_WRONG", "pass-0815")
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var allocations atomic.Int64
	server, err := turn.NewServer(turn.ServerConfig{
		Realm: "firstsound",
		AuthHandler: func(a *turn.RequestAttributes) (string, []byte, bool) {
			return a.Username, turn.GenerateAuthKey(a.Username, a.Realm, secret), a.Username == "user"
		},
		EventHandler: turn.EventHandler{OnAllocationCreated: func(_, _ net.Addr, _, user, _ string, _ net.Addr, _ int) {
			if user == "user" {
				allocations.Add(1)
			}
		}},
		PacketConnConfigs: []turn.PacketConnConfig{{
			PacketConn:            pc,
			RelayAddressGenerator: &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(127, 0, 0, 1), Address: "127.0.0.1"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ice := "turn:" + pc.LocalAddr().String() + "?transport=udp,user,"
	url, stop := serveChild(t, exact(t, 60*time.Millisecond), "--ice", ice+"FIRSTSOUND_TEST_TURN")
	defer stop()
	// As between two networks: neither learns of the other's own addresses.
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		resp, err := http.Post(url+r.URL.Path, r.Header.Get("Content-Type"), strings.NewReader(onlyRelayed(string(body))))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		io.WriteString(w, onlyRelayed(string(answer)))
	}))
	defer between.Close()
	r := callChild(t, between.URL, append(quickCall, "--ice", ice+"FIRSTSOUND_TEST_TURN")...)
	if len(r.Errors) > 0 || len(r.Turns) != 1 || r.Turns[0].Sound == nil {
		t.Errorf("%q, %+v", r.Errors, r.Turns)
	}
	if n := allocations.Load(); n < 2 {
		t.Errorf("the TURN server has made %d allocations, want one for each side", n)
	}
	// Without the server there is no way, and the reason is told.
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, append([]string{"call", between.URL, "--ice", ice + "FIRSTSOUND_TEST_WRONG"}, quickCall...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no usable ICE candidates") || strings.Contains(string(out), "pass-") {
		t.Errorf("a wrong password: %v\n%s", err, out)
	}
}

// onlyRelayed removes all candidates but those of TURN servers from JSON.
func onlyRelayed(body string) string {
	var m map[string]any
	if json.Unmarshal([]byte(body), &m) != nil {
		return body
	}
	sdp, _ := m["sdp"].(string)
	var out strings.Builder
	for line := range strings.Lines(sdp) {
		if !strings.HasPrefix(line, "a=candidate:") || strings.Contains(line, " typ relay") {
			out.WriteString(line)
		}
	}
	m["sdp"] = out.String()
	text, _ := json.Marshal(m)
	return string(text)
}
