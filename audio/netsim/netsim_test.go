package netsim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
)

var _ pipeline.Line = (*Line)(nil)

const ms = time.Millisecond

// onBoth runs f on a Virtual clock and on a Real one in a bubble.
func onBoth(t *testing.T, f func(t *testing.T, c clocks.Clock)) {
	t.Run("virtual", func(t *testing.T) {
		v := clocks.NewVirtual()
		v.Go("test", func() { f(t, v) })
		if err := v.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("real", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, clocks.NewReal()) })
	})
}

// plain is a line without jitter or codec: a packet takes 20 ms.
func plain(mode playout.Mode, prebuffer time.Duration) Options {
	return Options{
		Packet:   20 * ms,
		Uplink:   Way{Delay: 20 * ms},
		Downlink: Way{Delay: 20 * ms},
		Pacing:   Realtime,
		Playout:  playout.Options{Mode: mode, Prebuffer: prebuffer},
	}
}

func sound(d time.Duration) audio.Frame {
	return audio.Frame{Rate: 16000, PCM: make([]int16, audio.Samples(d, 16000))}
}

var names = []string{"queued", "started", "stalled", "resumed", "reached", "ended", "stopped"}

// A log writes down events: at@told if they differ.
type log struct {
	c     clocks.Clock
	lines []string
	list  []audio.PlayEvent
}

func (l *log) on(e audio.PlayEvent) {
	s := fmt.Sprintf("%s %v", names[e.Kind], e.At)
	if now := l.c.Now(); now != e.At {
		s += fmt.Sprintf("@%v", now)
	}
	l.lines = append(l.lines, s)
	l.list = append(l.list, e)
}

func (l *log) last() audio.PlayEvent { return l.list[len(l.list)-1] }

func (l *log) at(k audio.PlayKind) time.Duration {
	for _, e := range l.list {
		if e.Kind == k {
			return e.At
		}
	}
	return -1
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAnswerExactly(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		l := &log{c: c}
		p := New(c, 1, 1, plain(playout.Ideal, 0)).Answer(ctx, trace.ID{Session: 1, Turn: 1}, l.on)
		c.Sleep(ctx, 100*ms)
		p.Play(sound(50 * ms)) // two packets; 10 ms are left over
		c.Sleep(ctx, 7*ms)
		p.Play(sound(35 * ms)) // fills the third one, sent at 140; 5 ms are left over
		p.Watch(61 * ms)
		p.Watch(0)
		p.Close() // and make a packet
		if err := p.Wait(ctx); err != nil {
			t.Error(err)
		}
		same(t, l.lines, "queued 120ms", "started 120ms", "reached 120ms", "reached 181ms", "ended 205ms")
		if b := l.last().Playback; b != (audio.Playback{Played: 85 * ms}) {
			t.Error(b)
		}
	})
}

func answer(ctx context.Context, c clocks.Clock, o Options) (audio.Player, *log) {
	l := &log{c: c}
	return New(c, 1, 1, o).Answer(ctx, trace.ID{Session: 1, Turn: 1}, l.on), l
}

func TestPrebufferExactly(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		o := plain(playout.Fixed, 60*ms)
		o.CodecDelay = 6500 * time.Microsecond
		p, l := answer(ctx, c, o)
		p.Play(sound(time.Second))
		p.Close()
		p.Wait(ctx)
		// The third packet is sent at 40 ms and takes 26.5 ms.
		same(t, l.lines, "queued 26.5ms", "started 66.5ms", "ended 1.0665s")

		// Less than the prebuffer waits for the end: the word goes out at 2.3 s.
		c.SleepUntil(ctx, 2*time.Second)
		p, l = answer(ctx, c, o)
		p.Play(sound(40 * ms))
		c.Sleep(ctx, 300*ms)
		p.Close()
		p.Wait(ctx)
		same(t, l.lines, "queued 2.0265s", "started 2.3265s", "ended 2.3665s")
	})
}

func TestStall(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		p, l := answer(ctx, c, plain(playout.Ideal, 0))
		p.Play(sound(100 * ms))
		c.Sleep(ctx, 250*ms)
		p.Play(sound(100 * ms))
		p.Watch(99 * ms)  // has been heard
		p.Watch(110 * ms) // comes
		c.Sleep(ctx, 250*ms)
		p.Close() // long after its last sound
		p.Wait(ctx)
		same(t, l.lines, "queued 20ms", "started 20ms", "stalled 120ms", "reached 119ms@250ms",
			"resumed 270ms", "reached 280ms", "stalled 370ms", "ended 370ms@500ms")
		if b := l.last().Playback; b != (audio.Playback{Played: 200 * ms, Underruns: 1, Stalled: 150 * ms}) {
			t.Error(b)
		}
	})
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name   string
		stop   time.Duration
		closed bool
		pacing Pacing
		want   []string
		played time.Duration
	}{
		{"in the middle", 110 * ms, false, Realtime, []string{"queued 20ms", "started 20ms", "reached 70ms", "stopped 140ms"}, 120 * ms},
		{"just as a packet goes", 100 * ms, true, Realtime, []string{"queued 20ms", "started 20ms", "reached 70ms", "stopped 140ms"}, 120 * ms},
		{"just before", 100*ms - 1, true, Realtime, []string{"queued 20ms", "started 20ms", "reached 70ms", "stopped 120ms"}, 100 * ms},
		{"before anything is heard", 10 * ms, true, Realtime, []string{"queued 20ms", "started 20ms", "stopped 40ms"}, 20 * ms},
		{"when all is sent", 110 * ms, true, Burst, []string{"queued 20ms", "started 20ms", "reached 70ms", "reached 520ms", "stopped 1.015s"}, 995 * ms},
		{"in a stall", 1200 * ms, false, Realtime, []string{"queued 20ms", "started 20ms", "reached 70ms", "reached 520ms", "stalled 1s", "stopped 1.2s"}, 980 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := context.Background()
			onBoth(t, func(t *testing.T, c clocks.Clock) {
				o := plain(playout.Ideal, 0)
				o.Pacing = test.pacing
				p, l := answer(ctx, c, o)
				p.Play(sound(995 * ms))
				p.Watch(500 * ms)
				p.Watch(50 * ms)
				if test.closed {
					p.Close()
				}
				c.SleepUntil(ctx, test.stop)
				p.Stop()
				p.Play(sound(time.Second)) // nothing comes of it
				p.Stop()
				p.Wait(ctx)
				same(t, l.lines, test.want...)
				if b := l.last().Playback; b != (audio.Playback{Played: test.played}) {
					t.Error(b)
				}
			})
		})
	}
}

func TestStopBeforeAnything(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		p, l := answer(ctx, c, plain(playout.Ideal, 0))
		c.Sleep(ctx, 5*ms)
		p.Stop()
		p.Wait(ctx)
		same(t, l.lines, "stopped 5ms")
		p, l = answer(ctx, c, plain(playout.Ideal, 0))
		p.Close()
		p.Wait(ctx)
		same(t, l.lines, "ended 5ms")
	})
}

func TestContextStops(t *testing.T) {
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		ctx, cancel := clocks.WithCancel(context.Background(), c)
		p, l := answer(ctx, c, plain(playout.Ideal, 0))
		p.Play(sound(time.Second))
		c.Sleep(context.Background(), 110*ms)
		cancel(fmt.Errorf("barge-in"))
		if err := p.Wait(ctx); err == nil {
			t.Error("Wait does not tell of its context")
		}
		p.Wait(context.Background())
		same(t, l.lines, "queued 20ms", "started 20ms", "stopped 140ms")
	})
}

// A filler and the answer behind it play one after the other.
func TestTwoAnswers(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		line := New(c, 1, 1, plain(playout.Ideal, 0))
		filler, main := &log{c: c}, &log{c: c}
		p := line.Answer(ctx, trace.ID{Session: 1, Turn: 1}, filler.on)
		q := line.Answer(ctx, trace.ID{Session: 1, Turn: 1}, main.on)
		p.Play(sound(95 * ms))
		q.Play(sound(100 * ms)) // waits until the filler is closed
		c.Sleep(ctx, 70*ms)
		p.Close() // 15 ms of sound are left over: a packet, sent at 80
		q.Close()
		q.Wait(ctx)
		same(t, filler.lines, "queued 20ms", "started 20ms", "ended 115ms")
		same(t, main.lines, "queued 120ms", "started 120ms", "ended 220ms")
	})
}

// If the filler is stopped, the answer behind it moves up.
func TestStopMovesUp(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		line := New(c, 1, 1, plain(playout.Ideal, 0))
		filler, main := &log{c: c}, &log{c: c}
		p := line.Answer(ctx, trace.ID{Session: 1, Turn: 1}, filler.on)
		q := line.Answer(ctx, trace.ID{Session: 1, Turn: 1}, main.on)
		p.Play(sound(time.Second))
		p.Close()
		q.Play(sound(100 * ms))
		q.Watch(30 * ms)
		q.Close()
		c.Sleep(ctx, 50*ms)
		p.Stop() // packets went at 0, 20 and 40; the next one goes at 60
		q.Wait(ctx)
		same(t, filler.lines, "queued 20ms", "started 20ms", "stopped 80ms")
		same(t, main.lines, "queued 80ms", "started 80ms", "reached 110ms", "ended 180ms")
	})
}

// Voice cases 46 and 50 over the line: bursts into a fixed buffer.
func TestPrebufferSweep(t *testing.T) {
	ctx := context.Background()
	onBoth(t, func(t *testing.T, c clocks.Clock) {
		for _, k := range []time.Duration{0, 100 * ms, 460 * ms, 480 * ms, 900 * ms} {
			began := c.Now()
			o := plain(playout.Fixed, k)
			o.Pacing = Burst
			p, l := answer(ctx, c, o)
			p.Play(sound(460 * ms))
			c.Sleep(ctx, 650*ms)
			p.Play(sound(7*time.Second - 460*ms))
			p.Close()
			p.Wait(ctx)
			first, b, end := l.at(audio.PlayStarted)-began, l.last().Playback, l.last().At-began
			want, wantEnd := audio.Playback{Played: 7 * time.Second, Underruns: 1, Stalled: 190 * ms}, 7210*ms
			wantFirst := 20 * ms
			if k > 460*ms {
				wantFirst, want, wantEnd = 670*ms, audio.Playback{Played: 7 * time.Second}, 7670*ms
			}
			if first != wantFirst || b != want || end != wantEnd {
				t.Errorf("prebuffer %v: first sound %v, end %v, %+v", k, first, end, b)
			}
		}
	})
}

func TestLoss(t *testing.T) {
	for _, c := range []struct{ loss, burst, run float64 }{
		{0.01, 0, 1 / 0.99}, {0.3, 0, 1 / 0.7}, {0.05, 3, 3}, {0.2, 10, 10}, {0.3, 1, 1}, {0.4, 1.2, 1.2},
	} {
		const n = 400000
		s, l := newStream(1, "test"), newLoss(c.loss, c.burst)
		lost, runs, before := 0, 0, false
		for i := range n {
			x := l.lost(s, i)
			if x {
				lost++
				if !before {
					runs++
				}
			}
			before = x
		}
		share, run := float64(lost)/n, float64(lost)/float64(runs)
		if math.Abs(share/c.loss-1) > 0.05 || math.Abs(run/c.run-1) > 0.05 {
			t.Errorf("loss %v, burst %v: lost %.4f in runs of %.3f, want runs of %.3f", c.loss, c.burst, share, run, c.run)
		}
	}
}

func TestJitter(t *testing.T) {
	for _, text := range []string{"lognormal(10ms, 0.5)", "uniform(10ms, 30ms)", "exponential(20ms)", "normal(30ms, 10ms)"} {
		d := random.MustParse(text)
		w, s, r := newWay(Way{Jitter: d}), newStream(1, "test"), random.New(2, "test")
		var got, want []float64
		for i := range 200000 {
			got = append(got, float64(w.jitterOf(s, i)))
			want = append(want, float64(d.Draw(&r)))
		}
		slices.Sort(got)
		slices.Sort(want)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 0.999} {
			i := int(q * float64(len(got)))
			if math.Abs(got[i]/want[i]-1) > 0.05 && math.Abs(got[i]-want[i]) > 2e5 {
				t.Errorf("%s: the %v-quantile is %v, want %v", text, q, time.Duration(got[i]), time.Duration(want[i]))
			}
		}
	}
}

// A packet's fate follows from the seed and its own numbers: it is the same in
// another run, in any order, and whatever other packets, turns and lines do.
func TestDraws(t *testing.T) {
	o := Defaults()
	o.Uplink.Loss, o.Uplink.Burst = 0.1, 4
	w := newWay(o.Uplink)
	draw := func(s stream, i int) string { return fmt.Sprint(w.jitterOf(s, i), w.loss.lost(s, i)) }
	s := newStream(5, "uplink", 1, 1, 0)
	var want []string
	for i := range 10000 {
		want = append(want, draw(s, i))
	}
	for i := 9999; i >= 0; i-- {
		if got := draw(newStream(5, "uplink", 1, 1, 0), i); got != want[i] {
			t.Fatalf("packet %d: %s, then %s", i, want[i], got)
		}
	}
	for _, other := range []stream{newStream(6, "uplink", 1, 1, 0), newStream(5, "downlink", 1, 1, 0),
		newStream(5, "uplink", 2, 1, 0), newStream(5, "uplink", 1, 2, 0), newStream(5, "uplink", 1, 1, 1)} {
		same := 0
		for i := range 10000 {
			if w.jitterOf(other, i) == w.jitterOf(s, i) {
				same++
			}
		}
		if same > 20 { // about 2 by chance
			t.Errorf("%d of 10,000 packets as in another stream", same)
		}
	}
}

// The arrivals of many packets at once, and the count of those up to a loss, are
// what a look at each packet gives.
func TestManyPacketsAtOnce(t *testing.T) {
	w := newWay(Way{Jitter: random.MustParse("lognormal(40ms, 0.9)"), Loss: 0.1, Burst: 2})
	s := newStream(5, "downlink", 1, 1, 0)
	got := make([]time.Duration, 1000)
	last := w.arrivals(got, s, 7, 100*ms, 20*ms, 120*ms)
	before := 120 * ms
	for j := range got {
		before = max(before, 100*ms+time.Duration(j)*20*ms+w.jitterOf(s, 7+j))
		if got[j] != before {
			t.Fatalf("packet %d arrives at %v, want %v", j, got[j], before)
		}
		n := 0
		for n < 10 && !w.loss.lost(s, j+n) {
			n++
		}
		if m := w.loss.spares(s, j, 10); m != n {
			t.Fatalf("%d packets from %d on are spared, want %d", m, j, n)
		}
	}
	if last != before {
		t.Errorf("the last one arrives at %v, want %v", last, before)
	}
}

// Where packets overtake each other, the last one to arrive may come when all of
// the answer has been played and told: that has crashed.
func TestPacketAfterTheEnd(t *testing.T) {
	ctx := context.Background()
	o := plain(playout.Ideal, 0)
	o.Packet, o.Downlink.Reorder, o.Downlink.Jitter = 60*ms, true, random.MustParse("lognormal(60ms, 0.9)")
	for seed := range 100 {
		v := clocks.NewVirtual()
		v.Go("test", func() {
			p := New(v, uint64(seed), 1, o).Answer(ctx, trace.ID{Session: 1, Turn: 1}, func(audio.PlayEvent) {})
			p.Play(sound(400 * ms))
			p.Close()
			p.Wait(ctx)
			v.Sleep(ctx, 5*time.Second)
		})
		if err := v.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Two lines on one clock do not touch each other, and neither does what a filler
// before it does to the draws of the next turn.
func TestLinesAreIndependent(t *testing.T) {
	ctx := context.Background()
	run := func(company bool) (lines []string) {
		v := clocks.NewVirtual()
		call := func(session int, l *log) {
			line := New(v, 9, session, Defaults())
			for turn := 1; turn <= 3; turn++ {
				p := line.Answer(ctx, trace.ID{Session: session, Turn: turn}, l.on)
				p.Play(sound(900 * ms))
				p.Close()
				p.Wait(ctx)
				v.Sleep(ctx, time.Second)
			}
		}
		l := &log{c: v}
		v.Go("one", func() { call(1, l) })
		if company {
			v.Go("two", func() { call(2, &log{c: v}) })
		}
		if err := v.Run(ctx); err != nil {
			t.Error(err)
		}
		return l.lines
	}
	same(t, run(true), run(false)...)
}

// Check names the key and what is wrong.
func TestCheck(t *testing.T) {
	if err := Defaults().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(o *Options){
		"packet: 0s does not lie between 1ms and 1s":                          func(o *Options) { o.Packet = 0 },
		`pacing: "fast" is not realtime or burst`:                             func(o *Options) { o.Pacing = "fast" },
		"codec_delay: -1ns is negative":                                       func(o *Options) { o.CodecDelay = -1 },
		"uplink: loss: 1 is not a share from 0 up to below 1":                 func(o *Options) { o.Uplink.Loss = 1 },
		"downlink: loss: NaN is not a share from 0 up to below 1":             func(o *Options) { o.Downlink.Loss = math.NaN() },
		"downlink: burst: 0.5 is not a mean number of packets from 1 to 1000": func(o *Options) { o.Downlink.Burst = 0.5 },
		"uplink: delay: -1ms is negative":                                     func(o *Options) { o.Uplink.Delay = -ms },
		`playout: mode: "neteq" is not ideal, fixed or adaptive`:              func(o *Options) { o.Playout.Mode = "neteq" },
		"playout: prebuffer: -1ns is negative":                                func(o *Options) { o.Playout.Prebuffer = -1 },
		"playout: minimum: 11s does not lie between 0 and 10s":                func(o *Options) { o.Playout.Minimum = 11 * time.Second },
		"uplink: burst: a loss of 0.6 cannot come in bursts of 1 packets: with a single packet between two bursts it is 0.5": func(o *Options) { o.Uplink.Loss, o.Uplink.Burst = 0.6, 1 },
	} {
		o := Defaults()
		change(&o)
		if err := o.Check(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// One turn over a line: an utterance of 5 s, in which a dozen moments are waited
// for, and an answer of 4 s that comes in ten frames, faster than it plays.
func BenchmarkTurn(b *testing.B) {
	ctx := context.Background()
	lte := Defaults()
	lte.Uplink.Jitter = random.MustParse("lognormal(40ms, 0.6)")
	lte.Downlink = lte.Uplink
	fixed := Defaults()
	fixed.Playout = playout.Options{Mode: playout.Fixed, Prebuffer: 100 * ms}
	lossy := Defaults()
	lossy.Uplink.Loss, lossy.Uplink.Burst = 0.02, 3
	lossy.Downlink = lossy.Uplink
	for _, c := range []struct {
		name     string
		o        Options
		up, down bool
	}{
		{"adaptive", Defaults(), true, true},
		{"up", Defaults(), true, false},
		{"down-adaptive", Defaults(), false, true},
		{"down-fixed", fixed, false, true},
		{"lte", lte, true, true},
		{"lossy", lossy, true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			u := utterance(4 * time.Second)
			f := sound(400 * ms)
			v := clocks.NewVirtual()
			line := New(v, 1, 1, c.o)
			ctx, cancel := clocks.WithCancel(ctx, v)
			defer cancel(nil)
			on := func(audio.PlayEvent) {}
			v.Go("turns", func() {
				for turn := 0; b.Loop(); turn++ {
					id := trace.ID{Session: 1, Turn: turn}
					if c.up {
						s := line.Say(id, u)
						for i := range 12 {
							s.Await(ctx, time.Duration(i)*420*ms)
						}
					}
					if c.down {
						p := line.Answer(ctx, id, on)
						for i := range 10 {
							p.Play(f)
							if i == 0 {
								p.Watch(123 * ms)
							}
							v.Sleep(ctx, 150*ms)
						}
						p.Close()
						p.Wait(ctx)
					}
				}
			})
			if err := v.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
}

// A packet that is overtaken may make the buffer ready later than the packet
// that it begins with would have it. This once asked for ever for a decision in
// the past.
func TestReadyByALatePacket(t *testing.T) {
	o := Defaults()
	o.Packet, o.Pacing, o.CodecDelay = 60*time.Millisecond, Burst, 0
	o.Downlink = Way{Jitter: random.MustParse("uniform(0ms, 300ms)"), Loss: 0.1, Reorder: true}
	for session := range 200 { // session 194 is one that did
		v := clocks.NewVirtual()
		l := New(v, 1, session, o)
		v.Go("agent", func() {
			for turn := range 20 {
				p := l.Answer(context.Background(), trace.ID{Session: session, Turn: turn}, func(audio.PlayEvent) {})
				for _, samples := range []int{1600, 6400, 16000} {
					p.Play(audio.Frame{Rate: 8000, PCM: make([]int16, samples)})
					v.Sleep(context.Background(), 137*time.Millisecond)
				}
				p.Close()
				p.Wait(context.Background())
			}
		})
		if err := v.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
