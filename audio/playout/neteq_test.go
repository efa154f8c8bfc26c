package playout

import (
	"testing"
	"time"
)

// stream makes n packets, sent every 20 ms, that arrive late(i) after that.
func stream(n int, late func(i int) time.Duration) []Packet {
	var ps []Packet
	var last time.Duration
	for i := range n {
		at := time.Duration(i) * 20 * ms
		last = max(last, at+late(i))
		ps = append(ps, Packet{Seq: i, Media: at, Arrival: last, Duration: 20 * ms, First: i == 0})
	}
	return ps
}

// What a port of the delay manager, and Chromium 156 itself, was measured to
// have learned from these streams.
func TestTargets(t *testing.T) {
	clean := func(int) time.Duration { return 0 }
	paused := func(pause time.Duration, advanced bool) []Packet {
		// Turns of 2 s with a pause after each.
		ps := stream(500, clean)
		for i := range ps {
			gap := time.Duration(i/100) * pause
			ps[i].Arrival += gap
			if advanced {
				ps[i].Media += gap
			}
		}
		return ps
	}
	for _, c := range []struct {
		name    string
		packets []Packet
		want    time.Duration
	}{
		{"clean", stream(500, clean), 20 * ms},
		{"bursts of 100 ms", stream(500, func(i int) time.Duration { return time.Duration(4-i%5) * 20 * ms }), 100 * ms},
		{"60 ms late, 1 in 10, catch-up", stream(500, func(i int) time.Duration {
			if i%10 == 9 {
				return 60 * ms
			}
			return 0
		}), 80 * ms},
		{"pause 1.48 s, timestamps not advanced", paused(1480*ms, false), 1500 * ms},
		{"pause 300 ms, timestamps not advanced", paused(300*ms, false), 320 * ms},
		{"pause 700 ms, timestamps not advanced", paused(700*ms, false), 720 * ms},
		{"pause 4 s, timestamps not advanced", paused(4000*ms, false), 20 * ms},
		{"pause 1.48 s, timestamps advanced", paused(1480*ms, true), 20 * ms},
		{"0.47 ms slower in each packet", stream(1000, func(i int) time.Duration { return time.Duration(i) * 470 * time.Microsecond }), 60 * ms},
		{"drift of 5000 ppm", stream(1000, func(i int) time.Duration { return time.Duration(i) * 100 * time.Microsecond }), 20 * ms},
	} {
		b := New(Options{Mode: Adaptive})
		var first time.Duration // when the target left the 80 ms of the start
		var highest time.Duration
		for _, p := range c.packets {
			b.Push(&p)
			if first == 0 && b.Target() != startDelay {
				first = p.Arrival
			}
			if p.Media > 3*time.Second {
				highest = max(highest, b.Target())
			}
		}
		if highest != c.want {
			t.Errorf("%s: target %v, want %v", c.name, highest, c.want)
		}
		if c.name == "clean" && first != 540*ms {
			t.Errorf("the target leaves 80 ms at %v, want 540ms", first)
		}
	}
}

// One packet 200 ms late lifts the target to 220 ms: for 5.2 s early in a call,
// for 0.5 s later on.
func TestSpike(t *testing.T) {
	for _, c := range []struct{ at, want time.Duration }{{5 * time.Second, 5200 * ms}, {20 * time.Second, 500 * ms}} {
		b := New(Options{Mode: Adaptive})
		var up time.Duration
		for _, p := range stream(2000, func(i int) time.Duration {
			if time.Duration(i)*20*ms == c.at {
				return 200 * ms
			}
			return 0
		}) {
			b.Push(&p)
			if b.Target() == 220*ms {
				up += 20 * ms
			}
		}
		if d := up - c.want; d > 60*ms || d < -60*ms {
			t.Errorf("a spike at %v lifts the target for %v, want %v", c.at, up, c.want)
		}
	}
}

// delays returns the playout delay of the packets: how much later than the
// network's fastest packet each is played.
func delays(b *Buffer, ps []Packet) map[int]time.Duration {
	out := map[int]time.Duration{}
	for _, s := range Play(b, ps) {
		if s.Kind == Sound {
			for i := range s.Packets {
				out[s.Seq+i] = s.At + time.Duration(i)*20*ms - ps[s.Seq+i].Media
			}
		}
	}
	return out
}

// A clean stream starts at the next tick, is stretched towards 80 ms for half a
// second, and comes back to stay below the 40 ms from which it is squeezed.
func TestAdaptiveStart(t *testing.T) {
	ps := stream(300, func(int) time.Duration { return 3 * ms })
	d := delays(New(Options{Mode: Adaptive}), ps)
	if d[0] != 10*ms {
		t.Errorf("the first packet plays at %v, want 10ms", d[0])
	}
	if d[27] < 45*ms || d[27] > 60*ms {
		t.Errorf("after half a second the delay is %v", d[27])
	}
	if d[299] < 20*ms || d[299] > 45*ms {
		t.Errorf("in the end the delay is %v", d[299])
	}
}

// A minimum of 400 ms is reached after 4 to 6 s, at 70 to 90 ms a second.
func TestAdaptiveMinimum(t *testing.T) {
	ps := stream(500, func(int) time.Duration { return 0 })
	d := delays(New(Options{Mode: Adaptive, Minimum: 400 * ms}), ps)
	if d[100] < 140*ms || d[100] > 200*ms || d[300] < 395*ms || d[499] > 410*ms {
		t.Errorf("after 2 s %v, after 6 s %v, after 10 s %v", d[100], d[300], d[499])
	}
}

// In samples that are all zero the delay moves by half as much as in a voice of
// 200 Hz. Told to hold 400 ms, Chromium 156 held 31 to 40 ms after the first second
// of zeros.
func TestSilentStretch(t *testing.T) {
	for _, c := range []struct {
		silent  bool
		low, hi time.Duration // in 3 s
	}{{true, 115 * ms, 135 * ms}, {false, 240 * ms, 260 * ms}} {
		ps := stream(500, func(int) time.Duration { return 0 })
		for i := range ps {
			ps[i].Silent = c.silent
		}
		d := delays(New(Options{Mode: Adaptive, Minimum: 400 * ms}), ps)
		if moved := d[151] - d[1]; moved < c.low || moved > c.hi {
			t.Errorf("silent %v: the delay grew by %v", c.silent, moved)
		}
	}
}

// After a pause in which the sender's timestamps stood still, the sound waits
// until half the target is there; where they went on, it is as before.
func TestAdaptivePause(t *testing.T) {
	for _, c := range []struct {
		advanced bool
		low, hi  time.Duration
	}{{false, 740 * ms, 760 * ms}, {true, 0, 50 * ms}} {
		ps := stream(500, func(int) time.Duration { return 0 })
		for i := range ps {
			gap := time.Duration(i/100) * 1480 * ms
			ps[i].Arrival += gap
			if c.advanced {
				ps[i].Media += gap
			}
			ps[i].First = i%100 == 0
		}
		for _, s := range Play(New(Options{Mode: Adaptive}), ps) {
			if s.Kind == Sound && s.Seq == 300 {
				if wait := s.At - ps[300].Arrival; wait < c.low || wait > c.hi {
					t.Errorf("timestamps advanced %v: the fourth turn waits %v", c.advanced, wait)
				}
			}
		}
	}
}

// Packets that overtake each other raise the target, since to conceal one costs
// more than to wait: a percent of loss is worth 20 ms. Every tenth packet comes
// 50 ms late, behind two others.
func TestReorderedTarget(t *testing.T) {
	ps := stream(500, func(int) time.Duration { return 0 })
	for i := 10; i < len(ps); i += 10 {
		ps[i].Arrival += 50 * ms
	}
	for i := 10; i+2 < len(ps); i += 10 {
		ps[i], ps[i+1], ps[i+2] = ps[i+1], ps[i+2], ps[i]
	}
	b := New(Options{Mode: Adaptive})
	made := 0
	for i := range ps {
		b.Push(&ps[i])
		for _, s := range b.Out {
			if s.Kind == Concealed && i > 250 {
				made += s.Packets
			}
		}
		b.Out = b.Out[:0]
	}
	if b.Target() != 60*ms || made > 2 {
		t.Errorf("target %v, want 60ms; %d packets made up in the second half", b.Target(), made)
	}
}
