package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/playout"
	"firstsound/clocks"
)

// A habit is how a sender writes its packets: a row of the table that Chromium's
// buffer is held against.
type habit struct {
	name    string
	minimum time.Duration // the page's jitterBufferTarget
	packets []habitPacket
	turns   []int // the packets in which sound begins
}

type habitPacket struct {
	due   time.Duration // since the first
	stamp uint32
	loud  bool
}

const habitRate = 8000 // PCMU

// habits are the rows. Every turn is a second of tone and half a second of silence.
// Between turns a sender goes on with silence, or writes nothing.
func habits() []*habit {
	const turns, loud, tail, between = 5, 50, 25, 74 // packets; 74 are 1.48 s
	steady := func(name string, minimum time.Duration, burst int) *habit {
		h := &habit{name: name, minimum: minimum}
		lead := 50 // of silence
		for i := range lead + turns*(loud+tail+between) {
			in := (i - lead) % (loud + tail + between)
			if i >= lead && in == 0 {
				h.turns = append(h.turns, i)
			}
			due := i + burst - 1
			h.packets = append(h.packets, habitPacket{time.Duration(due-due%burst) * codec.Frame, uint32(i * 160), i >= lead && in < loud})
		}
		return h
	}
	paused := func(name string, advanced bool) *habit {
		h := &habit{name: name}
		stamp := uint32(0)
		for turn := range turns {
			h.turns = append(h.turns, len(h.packets))
			for i := range loud + tail {
				due := time.Duration(turn*(loud+tail+between)+i) * codec.Frame
				h.packets = append(h.packets, habitPacket{due, stamp, i < loud})
				stamp += 160
			}
			if advanced {
				stamp += between * 160
			}
		}
		return h
	}
	return []*habit{
		steady("clean", 0, 1),
		steady("bursts", 0, 5),
		paused("paused, timestamps stand", false),
		paused("paused, timestamps go on", true),
		steady("target 400", 400*time.Millisecond, 1),
	}
}

// A habitRun is one call: what was sent, and what the browser heard.
type habitRun struct {
	*habit
	sent   []time.Duration // when each packet was written
	done   chan struct{}
	failed error
}

// say sends the packets over a track.
func (r *habitRun) say(ctx context.Context, clock clocks.Clock, track *webrtc.TrackLocalStaticRTP) {
	defer close(r.done)
	start := clock.Now() + 300*time.Millisecond
	// 200 Hz, whole periods in a packet: a stretch takes one, of 5 ms, as of a voice.
	tone, silence := encoded(func(i int) int16 { return int16(8000 * math.Sin(2*math.Pi*float64(i)/40)) }), encoded(func(int) int16 { return 0 })
	for i, p := range r.packets {
		if r.failed = clock.SleepUntil(ctx, start+p.due); r.failed != nil {
			return
		}
		payload := silence
		if p.loud {
			payload = tone
		}
		h := rtp.Header{Version: 2, SequenceNumber: uint16(i), Timestamp: p.stamp, Marker: i == 0}
		r.sent = append(r.sent, clock.Now())
		if r.failed = track.WriteRTP(&rtp.Packet{Header: h, Payload: payload}); r.failed != nil {
			return
		}
	}
}

// encoded returns a packet of PCMU.
func encoded(sample func(int) int16) []byte {
	f := audio.Frame{Rate: habitRate, PCM: make([]int16, 160)}
	for i := range f.PCM {
		f.PCM[i] = sample(i)
	}
	e, err := codec.NewEncoder(codec.PCMU, codec.Options{})
	if err != nil {
		panic(err)
	}
	payload, err := e.Encode(f)
	if err != nil {
		panic(err)
	}
	return payload
}

// model returns how long after its packet was written the sound of each turn leaves
// the NetEq face of package playout.
func (r *habitRun) model() []*time.Duration {
	b := playout.New(playout.Options{Mode: playout.Adaptive, Minimum: r.minimum})
	for i, at := range r.sent {
		p := r.packets[i]
		b.Push(&playout.Packet{Seq: i, Media: time.Duration(p.stamp) * time.Second / habitRate, Arrival: at, Duration: codec.Frame, First: i == 0, Silent: !p.loud})
	}
	b.Advance(r.sent[len(r.sent)-1] + 5*time.Second)
	out := make([]*time.Duration, len(r.turns))
	for i, seq := range r.turns {
		for _, s := range b.Out {
			if s.Kind == playout.Sound && seq >= s.Seq && seq < s.Seq+s.Packets {
				d := s.When(s.Sound*time.Duration(seq-s.Seq)/time.Duration(s.Packets)) - r.sent[seq]
				out[i] = &d
			}
		}
	}
	return out
}

//go:embed testdata/neteq.html
var habitPage []byte

// habitServer answers a call of the page for each habit.
type habitServer struct {
	clock *clocks.Real
	ctx   context.Context
	api   *webrtc.API
	mu    sync.Mutex
	runs  []*habitRun
	peers []*webrtc.PeerConnection
}

func (s *habitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		w.Header().Set("Content-Type", "text/html")
		w.Write(habitPage)
	case "/meter.js":
		http.ServeFileFS(w, r, pageFiles, "page/meter.js")
	case "/rows":
		type row struct {
			Name    string `json:"name"`
			Minimum int64  `json:"minimum_ms"`
		}
		var rows []row
		for _, h := range s.runs {
			rows = append(rows, row{h.name, h.minimum.Milliseconds()})
		}
		answerJSON(w, http.StatusOK, rows)
	case "/clock":
		answerJSON(w, http.StatusOK, float64(s.clock.Now())/1e6)
	case "/offer":
		if err := s.answer(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	default:
		http.NotFound(w, r)
	}
}

func (s *habitServer) answer(w http.ResponseWriter, r *http.Request) error {
	var offer struct {
		SDP string `json:"sdp"`
		Row int    `json:"row"`
	}
	if err := json.NewDecoder(r.Body).Decode(&offer); err != nil {
		return err
	}
	pc, err := s.api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return err
	}
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypePCMU, ClockRate: habitRate}, "audio", "row")
	if err != nil {
		return err
	}
	sender, err := pc.AddTrack(track)
	if err != nil {
		return err
	}
	go func() {
		for b := make([]byte, 1500); ; {
			if _, _, err := sender.Read(b); err != nil {
				return
			}
		}
	}()
	s.mu.Lock()
	s.peers = append(s.peers, pc)
	run := s.runs[offer.Row]
	s.mu.Unlock()
	var once sync.Once
	pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateConnected {
			once.Do(func() { go run.say(s.ctx, s.clock, track) })
		}
	})
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer.SDP}); err != nil {
		return err
	}
	answer, err := pc.CreateAnswer(nil)
	if err != nil {
		return err
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(answer); err != nil {
		return err
	}
	<-gathered
	answerJSON(w, http.StatusOK, pc.LocalDescription())
	return nil
}

// A heardRow is what the page heard of a habit, on our clock, and what its getStats
// counted since the turn before.
type heardRow struct {
	Name  string `json:"name"`
	Heard []struct {
		Speaker float64  `json:"speaker_ms"` // the browser's estimate of when it is at the speaker
		Buffer  *float64 `json:"buffer_ms"`  // jitterBufferDelay
		Target  *float64 `json:"target_ms"`
		Device  *float64 `json:"device_ms"`
	} `json:"heard"`
}

const (
	// What lies between NetEq and an AudioWorklet: NetEq's sync buffer, 0 to 10 ms,
	// and a block of 10 ms in front of WebAudio. The device comes on top.
	browserBlocks = 15 * time.Millisecond

	// How far the browser may be from the model: in at most one turn of a row it
	// may be further. The model knows neither the phase of the browser's ticks of
	// 10 ms nor how NetEq blends what it made up with what comes.
	browserTolerance = 25 * time.Millisecond
)

// round calls once for each of the runs, and returns what the page heard.
func (s *habitServer) round(t *testing.T, runs []*habitRun) []heardRow {
	t.Helper()
	s.mu.Lock()
	s.runs, s.peers = runs, nil
	s.mu.Unlock()
	server := httptest.NewServer(s)
	defer server.Close()
	if _, err := chromedp.Run(s.ctx, chromedp.Navigate(server.URL)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(s.ctx, chromedp.Evaluate[bool](`window.begin().then(() => true)`, chromedp.EvalAwaitPromise)); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		select {
		case <-r.done:
		case <-s.ctx.Done():
			t.Fatal(context.Cause(s.ctx))
		}
		if r.failed != nil {
			t.Fatal(r.failed)
		}
	}
	if err := s.clock.Sleep(s.ctx, 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	rows, err := chromedp.Run(s.ctx, chromedp.Evaluate[[]heardRow](`window.rows()`))
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pc := range s.peers {
		pc.Close()
	}
	return rows
}

// late returns the lateness of the packets at P99.
func (r *habitRun) late() time.Duration {
	late := make([]time.Duration, len(r.sent))
	start := r.sent[0] - r.packets[0].due
	for i, at := range r.sent {
		start = min(start, at-r.packets[i].due)
	}
	for i, at := range r.sent {
		late[i] = at - start - r.packets[i].due
	}
	slices.Sort(late)
	return late[len(late)*99/100]
}

// agrees logs the turns of a row, and says whether the browser does what the model
// says.
func (r *habitRun) agrees(t *testing.T, row heardRow) bool {
	late := r.late()
	t.Logf("%s: packets late by %v (P99), %d of %d turns heard", r.name, late, len(row.Heard), len(r.turns))
	far := 0
	model := r.model()
	shown := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f", *v)
	}
	for i, h := range row.Heard {
		if i == len(r.turns) || model[i] == nil {
			return false
		}
		device := 30 * time.Millisecond // as getStats says of each later turn
		if h.Device != nil {
			device = time.Duration(*h.Device * 1e6)
		}
		want := *model[i] + browserBlocks + device
		ear := time.Duration(h.Speaker*1e6) - r.sent[r.turns[i]]
		off := ear - want
		t.Logf("  turn %d: at the speaker %v after it was written; model %v, %v with the device; off by %v (buffer %s ms, target %s ms)",
			i+1, ear.Round(100*time.Microsecond), model[i].Round(100*time.Microsecond), want.Round(100*time.Microsecond), off.Round(100*time.Microsecond), shown(h.Buffer), shown(h.Target))
		if off > browserTolerance || off < -browserTolerance {
			far++
		}
	}
	return len(row.Heard) == len(r.turns) && far <= 1
}

// The buffer of a real browser, at the ear, does what our model of NetEq says: for a
// clean sender, and for those with a habit that costs time. A computer that is busy
// delays packets in the browser too, where nobody sees it: so there are three tries,
// and a row whose own packets left late each time says nothing.
func TestBrowserNetEQ(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a browser and half a minute")
	}
	ctx := newBrowser(t)
	var e webrtc.SettingEngine
	e.SetIncludeLoopbackCandidate(true)
	e.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	var m webrtc.MediaEngine
	if err := m.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypePCMU, ClockRate: habitRate}, PayloadType: 0}, webrtc.RTPCodecTypeAudio); err != nil {
		t.Fatal(err)
	}
	s := &habitServer{clock: clocks.NewReal(), ctx: ctx, api: webrtc.NewAPI(webrtc.WithSettingEngine(e), webrtc.WithMediaEngine(&m))}
	left := habits()
	calm := map[string]bool{} // rows that were sent in time, once at least
	for range 3 {
		var runs []*habitRun
		for _, h := range left {
			runs = append(runs, &habitRun{habit: h, done: make(chan struct{})})
		}
		rows := s.round(t, runs)
		left = nil
		for i, r := range runs {
			inTime := r.late() <= maxLate
			calm[r.name] = calm[r.name] || inTime
			if !r.agrees(t, rows[i]) {
				left = append(left, r.habit)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	busy := 0
	for _, h := range left {
		if calm[h.name] {
			t.Errorf("%s: the browser and the model do not agree", h.name)
		} else {
			busy++
		}
	}
	if busy > 0 && !t.Failed() {
		t.Skipf("this computer is too busy: the packets of %d rows left more than %v late each time", busy, maxLate)
	}
}
