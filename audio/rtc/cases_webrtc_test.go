package rtc

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/transport/v5/vnet"
	"github.com/pion/webrtc/v4"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/ear"
	"firstsound/audio/playout"
	"firstsound/clocks"
)

// Faults of other programs that were reported in public, and what is right: the list
// of docs/webrtc.md, section 9, by its numbers. Those about WAV files are in
// audio/wavfile.
//
// Not here: 27, a delay that grows from turn to turn, is TestCallTrend of
// cmd/firstsound, and 13, 15 and 37 at the command line TestCallFaultyAnswers; 31 to
// 33, the units of a browser's getStats, are audio/clientstats; 41, the remainder of a
// sum, is pipeline/report; 47, a relay for UDP, is audio/impair; 48 is clocks/socket,
// and 49 needs a browser.
func TestReportedCases(t *testing.T) {
	for _, c := range []struct {
		number string
		report string
		run    func(t *testing.T)
	}{
		{"13", "livekit/livekit#2827: the first second is lost for a late subscriber", lateSubscriber},
		{"15", "livekit/agents#3721, #4587: the first answer is never audible", neverAudible},
		{"16", "livekit/sip PR 46: the first packet is not the first sound", packetThenSound},
		{"17", "pion/webrtc#1001: the packet that triggers OnTrack cannot be read", firstPacket},
		{"19", "i365dev/free4chat#191: the first sentences are missing", missingMarker},
		{"20", "pion: what is said before the connection vanishes, and uses up sequence numbers", earlySpeech},
		{"21", "discordgo PR 1695, livekit/server-sdk-go PR 419 (22): timestamps stand still in pauses", pauses},
		{"24", "pion: the marker is on every packet; and 25: a pause takes sequence numbers with it", markers},
		{"28", "freeswitch#563, livekit#675, opus PR 84: gaps of DTX are taken for loss, its refreshes for sound", refreshes},
		{"30", "w3c/webrtc-extensions#8: a jitterBufferTarget of 0 is thought to lower the delay", targetZero},
		{"34", "pion/webrtc PR 1919, golang/go#44343: sleeps add up to hundreds of ms", noDrift},
		{"35", "livekit/python-sdks#209: writing takes its time, and that adds up", backPressure},
		{"37", "pipecat#5114, #2045: a wrong rate, half the speed", wrongRate},
		{"39", "livekit/server-sdk-go#835: Opus with one channel", opusChannels},
		{"40", "voicegateway#244, livekit/agents#5669: the clock starts when a detector stops", acousticEnd},
		{"42", "pipecat PR 4782: silence before the speech of a synthesizer", leadingSilence},
		{"43", "Azure Voice-Assistant#309: sound that is sent faster than it lasts", realTime},
		{"45", "pion/webrtc#2275: only the loopback interface is there", onlyLo},
		{"46", "janus#1692, streamlit-webrtc#277: names under .local", dotLocal},
	} {
		t.Run(c.number+" "+c.report, c.run)
	}
}

// voice returns a sound that counts as speech: harmonics whose loudness wobbles.
func voice(d time.Duration, rate int) audio.Frame {
	f := audio.Frame{Rate: rate, PCM: make([]int16, audio.Samples(d, rate))}
	for i := range f.PCM {
		s := float64(i) / float64(rate)
		v := 0.0
		for h := 1.0; h <= 8; h++ {
			v += math.Sin(2*math.Pi*(110+30*math.Sin(2*math.Pi*1.3*s))*h*s+h*h) / h
		}
		f.PCM[i] = int16(3500 * v * (1 + 0.6*math.Sin(2*math.Pi*4*s)))
	}
	return f
}

// listen takes what q has heard until the peer p was closed, as the ear wants it.
func listen(t *testing.T, q *Peer) []ear.Packet {
	t.Helper()
	d, err := codec.NewDecoder(codec.PCMU)
	if err != nil {
		t.Fatal(err)
	}
	var out []ear.Packet
	for {
		k, ok := q.Hear(context.Background())
		if !ok {
			return out
		}
		f, err := d.Decode(k.Payload)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ear.Packet{Index: k.Index, Timestamp: k.Timestamp, Arrived: k.Arrived, Sound: f})
	}
}

// judge returns what the ear says of turns.
func judge(t *testing.T, packets []ear.Packet, turns ...ear.Turn) []ear.Report {
	t.Helper()
	s, err := ear.New(packets, ear.Defaults(8000))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Turns(turns)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pcmuCall runs f in a bubble with a call that has 10 ms each way.
func pcmuCall(t *testing.T, o Options, filter vnet.ChunkFilter, f func(ctx context.Context, clock clocks.Clock, p, q *Peer)) {
	o.Codecs = []string{codec.PCMU}
	bubble(t, 10*time.Millisecond, filter, o, func(clock clocks.Clock, p, q *Peer) { f(context.Background(), clock, p, q) })
}

// within fails unless got lies between want less early and want and late.
func within(t *testing.T, what string, got, want, early, late time.Duration) {
	t.Helper()
	if got < want-early || got > want+late {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The agent speaks at once, and nothing of it comes through for 800 ms: that is a
// beginning that is missing, and no latency that is short by as much.
func lateSubscriber(t *testing.T) {
	known := voice(3*time.Second, 8000)
	var through atomic.Bool
	filter := func(c vnet.Chunk) bool {
		_, _, isRTP := rtpHeader(c.UserData())
		return !isRTP || through.Load() || c.SourceAddr().String() == "10.0.0.2"
	}
	pcmuCall(t, Options{}, filter, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		at, err := p.Speak(known)
		if err != nil {
			t.Fatal(err)
		}
		clock.SleepUntil(ctx, at+800*time.Millisecond)
		through.Store(true)
		clock.Sleep(ctx, 4*time.Second)
		p.Close()
		r := judge(t, listen(t, q), ear.Turn{End: at, Until: clock.Now(), Known: &known})[0]
		if r.Clipped == nil {
			t.Fatal(r.ClippedWhy)
		}
		within(t, "clipped", *r.Clipped, 800*time.Millisecond, 30*time.Millisecond, 60*time.Millisecond)
	})
}

// An agent that never says anything has no latency, but a stage.
func neverAudible(t *testing.T) {
	pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		end := clock.Now()
		clock.Sleep(ctx, 3*time.Second)
		p.Close()
		packets := listen(t, q)
		for _, c := range []struct {
			packets []ear.Packet
			reached ear.Stage
			want    ear.Stage
		}{{packets, ear.Track, ear.Packets}, {nil, ear.Track, ear.Track}, {nil, ear.Connected, ear.Connected}, {nil, ear.Nothing, ear.Nothing}} {
			turn := ear.Turn{End: end, Until: clock.Now(), Reached: c.reached}
			r := judge(t, c.packets, turn)[0]
			if r.Status != ear.NoAnswer || r.Stage != c.want {
				t.Errorf("%d packets: %+v, want %s", len(c.packets), r, c.want)
			}
		}
	})
}

func packetThenSound(t *testing.T) {
	pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		clock.Sleep(ctx, 500*time.Millisecond)
		end := clock.Now()
		clock.Sleep(ctx, 700*time.Millisecond)
		at, _ := p.Speak(voice(time.Second, 8000))
		clock.Sleep(ctx, 2*time.Second)
		p.Close()
		r := judge(t, listen(t, q), ear.Turn{End: end, Until: clock.Now()})[0]
		if r.FirstPacket == nil || r.FirstSound == nil || r.FirstPacket.Wire > end+20*time.Millisecond {
			t.Fatalf("%+v", r)
		}
		// The packet carries the 20 ms before it is sent; the way takes 10 ms.
		within(t, "first sound", r.FirstSound.Wire, at+30*time.Millisecond, time.Millisecond, 4*time.Millisecond)
	})
}

func firstPacket(t *testing.T) {
	pcmuCall(t, Options{}, nil, func(_ context.Context, _ clocks.Clock, p, q *Peer) {
		heard := hear(t, q, 3)
		sent, _ := p.Sent()
		if heard[0].Index != 0 || heard[0].Seq != sent[0].Seq || heard[0].Timestamp != sent[0].Timestamp || q.Stats().Lost != 0 {
			t.Errorf("the first packet that was heard is %+v, and the first that was sent %+v", heard[0], sent[0])
		}
	})
}

// A beep at the beginning of each answer shows whether the beginning came.
func missingMarker(t *testing.T) {
	known := audio.Frame{Rate: 8000}
	for i := range 2000 {
		known.PCM = append(known.PCM, int16(8000*math.Sin(2*math.Pi*1000*float64(i)/8000)))
	}
	known.PCM = append(known.PCM, voice(2*time.Second, 8000).PCM...)
	for _, cut := range []time.Duration{0, 400 * time.Millisecond} {
		pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
			end := clock.Now()
			clock.Sleep(ctx, 600*time.Millisecond)
			p.Speak(audio.Frame{Rate: 8000, PCM: known.PCM[audio.Samples(cut, 8000):]})
			clock.Sleep(ctx, 3*time.Second)
			p.Close()
			r := judge(t, listen(t, q), ear.Turn{End: end, Until: clock.Now(), Known: &known})[0]
			if r.Clipped == nil {
				t.Fatal(r.ClippedWhy)
			}
			within(t, "clipped", *r.Clipped, cut, 20*time.Millisecond, 20*time.Millisecond)
		})
	}
}

func earlySpeech(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		x, y := network(t, 10*time.Millisecond, nil)
		o := Options{Clock: clock, Codecs: []string{codec.PCMU}}
		oa, ob := o, o
		oa.Net, ob.Net = x, y
		a, b := endpoint(t, oa), endpoint(t, ob)
		ctx := context.Background()
		p, offer, err := a.Offer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		early := func(when string) {
			if _, err := p.Speak(voice(time.Second, 8000)); err == nil || !strings.Contains(err.Error(), "not connected yet") {
				t.Errorf("said %s: %v", when, err)
			}
		}
		early("before the answer")
		q, answer, err := b.Answer(ctx, offer)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Answered(answer); err != nil {
			t.Fatal(err)
		}
		early("before the connection")
		if _, err := p.Connected(ctx); err != nil {
			t.Fatal(err)
		}
		at, err := p.Speak(voice(time.Second, 8000))
		if err != nil {
			t.Fatal(err)
		}
		first := hear(t, q, 1)[0]
		sent, _ := p.Sent()
		if first.Seq != sent[0].Seq || first.Timestamp != sent[0].Timestamp || sent[0].Due > at+40*time.Millisecond {
			t.Errorf("the first packet that came is %+v, sent were %+v; said at %v", first, sent[0], at)
		}
	})
}

// Ten turns with pauses of 1.5 s between them, with packets in silence and without:
// the adaptive buffer plays each turn as fast as the second one.
func pauses(t *testing.T) {
	for _, dtx := range []bool{false, true} {
		pcmuCall(t, Options{DTX: dtx}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
			var turns []ear.Turn
			for range 10 {
				end := clock.Now()
				p.Speak(voice(600*time.Millisecond, 8000))
				clock.Sleep(ctx, 2100*time.Millisecond)
				turns = append(turns, ear.Turn{Start: end, End: end, Until: clock.Now()})
			}
			p.Close()
			for i, r := range judge(t, listen(t, q), turns...) {
				if r.FirstSound == nil || r.FirstSound.NetEq == nil {
					t.Fatalf("dtx %v, turn %d: %+v", dtx, i, r)
				}
				if late := *r.FirstSound.NetEq - r.FirstSound.Wire; late > 100*time.Millisecond || late < 0 {
					t.Errorf("dtx %v: turn %d is played %v after it came", dtx, i, late)
				}
			}
		})
	}
}

// In a pause without packets the timestamp goes on as time does, and the sequence
// number does not; the marker is on the first packet after it only.
func markers(t *testing.T) {
	pcmuCall(t, Options{DTX: true}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		for range 3 {
			p.Speak(voice(200*time.Millisecond, 8000))
			clock.Sleep(ctx, 1700*time.Millisecond)
		}
		p.Close()
		n, marked := 0, 0
		var before Packet
		for {
			k, ok := q.Hear(ctx)
			if !ok {
				break
			}
			if n > 0 && (k.Seq != before.Seq+1 || k.Lost != 0 || k.Marker != (k.Timestamp-before.Timestamp > 160)) {
				t.Errorf("%+v after %+v", k, before)
			}
			if step, passed := k.Timestamp-before.Timestamp, k.Arrived-before.Arrived; n > 0 && time.Duration(step)*125*time.Microsecond != passed {
				t.Errorf("the timestamp goes on by %d in %v", step, passed)
			}
			if k.Marker {
				marked++
			}
			n, before = n+1, k
		}
		if marked != 3 || n < 30 || n > 36 {
			t.Errorf("%d packets, %d with a marker", n, marked)
		}
	})
}

// Opus in silence: a packet of 3 bytes each 400 ms, then speech.
func refreshes(t *testing.T) {
	enc, err := codec.NewEncoder(codec.Opus, codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dec, err := codec.NewDecoder(codec.Opus)
	if err != nil {
		t.Fatal(err)
	}
	speech := voice(time.Second, 48000)
	var packets []ear.Packet
	add := func(at time.Duration, payload []byte) {
		f, err := dec.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, ear.Packet{Index: int64(len(packets)), Timestamp: uint32(at * 48000 / time.Second), Arrived: at + 20*time.Millisecond, Sound: f})
	}
	for at := time.Duration(0); at < 4*time.Second; at += 400 * time.Millisecond {
		add(at, []byte{0xf8, 0xff, 0xfe})
	}
	for i := range 50 {
		payload, err := enc.Encode(audio.Frame{Rate: 48000, PCM: speech.PCM[i*960 : (i+1)*960]})
		if err != nil {
			t.Fatal(err)
		}
		add(4*time.Second+time.Duration(i)*20*time.Millisecond, payload)
	}
	s, err := ear.New(packets, ear.Defaults(48000))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Turns([]ear.Turn{{End: 500 * time.Millisecond, Until: 6 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	if r[0].FirstSound == nil || r[0].Lost != 0 {
		t.Fatalf("%+v", r[0])
	}
	within(t, "first sound", r[0].FirstSound.Wire, 4020*time.Millisecond, 2*time.Millisecond, 11*time.Millisecond)
}

// A target is a floor: 0 changes nothing, and 400 ms makes the buffer slower.
func targetZero(t *testing.T) {
	var targets []time.Duration
	for _, o := range []playout.Options{{Mode: playout.Adaptive}, {Mode: playout.Adaptive, Minimum: 0}, {Mode: playout.Adaptive, Minimum: 400 * time.Millisecond}} {
		b := playout.New(o)
		for i := range 500 {
			at := time.Duration(i) * 20 * time.Millisecond
			b.Push(&playout.Packet{Seq: i, Media: at, Arrival: at, Duration: 20 * time.Millisecond, First: i == 0})
		}
		targets = append(targets, b.Target())
	}
	if targets[0] != 20*time.Millisecond || targets[1] != targets[0] || targets[2] != 400*time.Millisecond {
		t.Errorf("targets %v", targets)
	}
}

// A weary writer waits at each packet.
type wearyWriter struct {
	webrtc.TrackLocalWriter
	wait func(n int)
	n    int
}

func (w *wearyWriter) WriteRTP(h *rtp.Header, payload []byte) (int, error) {
	n, err := w.TrackLocalWriter.WriteRTP(h, payload)
	w.wait(w.n)
	w.n++
	return n, err
}

func weary(p *Peer, wait func(n int)) {
	p.sender.mu.Lock()
	p.sender.writer = &wearyWriter{TrackLocalWriter: p.sender.writer, wait: wait}
	p.sender.mu.Unlock()
}

// Each packet takes 7 ms to write, and the next is due all the same: after 10 s the
// stream is where it should be.
func noDrift(t *testing.T) {
	pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		weary(p, func(int) { clock.Sleep(ctx, 7*time.Millisecond) })
		clock.Sleep(ctx, 10*time.Second)
		p.Close()
		sent, _ := p.Sent()
		for i, s := range sent {
			if s.Due-sent[0].Due != time.Duration(i)*20*time.Millisecond || s.At != s.Due {
				t.Fatalf("packet %d: %+v", i, s)
			}
		}
		if len(sent) < 498 {
			t.Errorf("%d packets in 10 s", len(sent))
		}
		s, err := ear.New(listen(t, q), ear.Defaults(8000))
		if err != nil {
			t.Fatal(err)
		}
		if ppm, why := s.Drift(); ppm == nil && len(sent) > 505 || ppm != nil && math.Abs(*ppm) > 1 {
			t.Errorf("drift %v %s", ppm, why)
		}
	})
}

// One packet takes 90 ms to write: those behind it are late, by what is left of
// that, and say so; then all is as before.
func backPressure(t *testing.T) {
	pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, _ *Peer) {
		clock.Sleep(ctx, 100*time.Millisecond)
		p.Sent()
		weary(p, func(n int) {
			if n == 10 {
				clock.Sleep(ctx, 90*time.Millisecond)
			}
		})
		clock.Sleep(ctx, time.Second)
		sent, _ := p.Sent()
		for i, s := range sent[:20] {
			want := time.Duration(0)
			if i > 10 {
				want = max(0, time.Duration(90-20*(i-10))*time.Millisecond)
			}
			if late := s.At - s.Due; late != want {
				t.Errorf("packet %d was %v late, want %v", i, late, want)
			}
		}
		if late := p.Stats().Latest; late != 70*time.Millisecond {
			t.Errorf("the latest was %v late", late)
		}
	})
}

func wrongRate(t *testing.T) {
	known := voice(2*time.Second, 8000)
	for _, c := range []struct {
		name  string
		speed float64
	}{{"right", 1}, {"24 k as 16 k", 2.0 / 3}, {"16 k as 24 k", 1.5}, {"stereo as mono", 0.5}, {"mono as stereo", 2}} {
		pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
			end := clock.Now()
			clock.Sleep(ctx, 600*time.Millisecond)
			p.Speak(audio.Resample(audio.Frame{Rate: int(math.Round(8000 * c.speed)), PCM: known.PCM}, 8000))
			clock.Sleep(ctx, 5*time.Second)
			p.Close()
			r := judge(t, listen(t, q), ear.Turn{End: end, Until: clock.Now(), Known: &known})[0]
			if r.Speed == nil || math.Abs(*r.Speed-c.speed) > 1e-9 {
				t.Errorf("%s: speed %v, %s", c.name, r.Speed, r.ClippedWhy)
			}
		})
	}
}

// Opus is 48000/2 in a description, whatever it carries: another form is refused by
// its name.
func opusChannels(t *testing.T) {
	e := endpoint(t, Options{Clock: clocks.NewReal(), Loopback: true, Filter: isLoopback, Codecs: []string{codec.Opus}})
	_, offer, err := e.Offer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(offer, "opus/48000/2") {
		t.Errorf("the offer is\n%s", offer)
	}
	wrong := strings.ReplaceAll(offer, "opus/48000/2", "opus/48000/1")
	if _, _, err := e.Answer(context.Background(), wrong); err == nil || !strings.Contains(err.Error(), "the offer has opus/48000") {
		t.Errorf("one channel: %v", err)
	}
}

// The end of the user's speech is where the recording has it, and not 0.55 s later.
func acousticEnd(t *testing.T) {
	f := audio.Frame{Rate: 8000, PCM: make([]int16, 4000)}
	f.PCM = append(append(f.PCM, voice(900*time.Millisecond, 8000).PCM...), make([]int16, 8000)...)
	b, err := audio.FindSpeech(f)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the end", b.End, 1400*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond)
}

func leadingSilence(t *testing.T) {
	pcmuCall(t, Options{DTX: true}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		end := clock.Now()
		clock.Sleep(ctx, 603*time.Millisecond)
		p.Speak(audio.Frame{Rate: 8000, PCM: append(make([]int16, 2000), voice(time.Second, 8000).PCM...)})
		clock.Sleep(ctx, 2*time.Second)
		p.Close()
		r := judge(t, listen(t, q), ear.Turn{End: end, Until: clock.Now()})[0]
		if r.FirstSound == nil || r.FirstPacket == nil {
			t.Fatalf("%+v", r)
		}
		// The answer begins somewhere in the first packet.
		within(t, "first sound after the first packet", r.FirstSound.Wire-r.FirstPacket.Wire, 260*time.Millisecond, 10*time.Millisecond, 14*time.Millisecond)
	})
}

func realTime(t *testing.T) {
	pcmuCall(t, Options{}, nil, func(ctx context.Context, clock clocks.Clock, p, q *Peer) {
		at, _ := p.Speak(voice(5*time.Second, 8000)) // all at once
		clock.Sleep(ctx, 6*time.Second)
		p.Close()
		packets := listen(t, q)
		r := judge(t, packets, ear.Turn{End: at - time.Millisecond, Until: clock.Now()})[0]
		within(t, "the length", r.End.Wire-r.FirstSound.Wire, 5*time.Second, 10*time.Millisecond, 10*time.Millisecond)
		for i := 1; i < len(packets); i++ {
			if d := packets[i].Arrived - packets[i-1].Arrived; d != 20*time.Millisecond {
				t.Fatalf("packet %d came %v after the one before", i, d)
			}
		}
	})
}

func onlyLo(t *testing.T) {
	n, err := stdnet.NewNet()
	if err != nil {
		t.Fatal(err)
	}
	clock := clocks.NewReal()
	began := clock.Now()
	_, err = New(Options{Clock: clock, Net: limitedNet{n, isLo}})
	if err == nil || !strings.Contains(err.Error(), "no usable ICE candidates") || !strings.Contains(err.Error(), "allow loopback candidates") || clock.Now()-began > 5*time.Second {
		t.Errorf("%v after %v", err, clock.Now()-began)
	}
}

// Names that nobody resolves do not keep two from each other that can be reached: the
// other side's checks show its address.
func dotLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		x, y := network(t, 5*time.Millisecond, nil)
		oa := Options{Clock: clock, Net: x, Codecs: []string{codec.PCMU}}
		ob := oa
		ob.Net = y
		a, b := endpoint(t, oa), endpoint(t, ob)
		ctx := context.Background()
		p, offer, err := a.Offer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		q, answer, err := b.Answer(ctx, offer)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(answer, "10.0.0.2 ") {
			t.Fatal(answer)
		}
		if err := p.Answered(strings.ReplaceAll(answer, "10.0.0.2 ", "0a1b.local ")); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Peer{p, q} {
			if _, err := x.Connected(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}
