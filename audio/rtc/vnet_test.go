package rtc

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/transport/v5/vnet"

	"firstsound/audio/codec"
	"firstsound/clocks"
)

type netipAddr = netip.Addr

// bubble runs f in a bubble with a call over a modelled network.
func bubble(t *testing.T, delay time.Duration, filter vnet.ChunkFilter, o Options, f func(clock clocks.Clock, p, q *Peer)) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocks.NewReal()
		x, y := network(t, delay, filter)
		o.Clock = clock
		oa, ob := o, o
		oa.Net, ob.Net = x, y
		p, q := connect(t, endpoint(t, oa), endpoint(t, ob))
		f(clock, p, q)
	})
}

// A network of 40 ms delivers every packet after exactly 40 ms, and 20 runs are
// the same.
func TestExactDelay(t *testing.T) {
	var first string
	for run := range 20 {
		var got string
		bubble(t, 40*time.Millisecond, nil, Options{Codecs: []string{codec.PCMU}}, func(clock clocks.Clock, p, q *Peer) {
			at, err := p.Speak(sound(300*time.Millisecond, 8000))
			if err != nil {
				t.Fatal(err)
			}
			heard := hear(t, q, 50)
			sent, dropped := p.Sent()
			if dropped != 0 || len(sent) < 50 {
				t.Fatalf("%d packets sent, %d dropped", len(sent), dropped)
			}
			for i, k := range heard {
				s := sent[i]
				if k.Arrived-s.At != 40*time.Millisecond || s.At != s.Due || k.Kernel || k.Lost != 0 || k.Index != int64(i) {
					t.Fatalf("packet %d: %+v, sent %+v", i, k, s)
				}
				if k.Timestamp-heard[0].Timestamp != uint32(160*i) || k.Seq-heard[0].Seq != uint16(i) || k.Seq != s.Seq || k.Timestamp != s.Timestamp {
					t.Fatalf("packet %d: %+v", i, k)
				}
				got += fmt.Sprint(k.Arrived, k.Marker, len(k.Payload), s.Onset, " ")
			}
			got += fmt.Sprint(at, clock.Now())
		})
		if run == 0 {
			first = got
		} else if got != first {
			t.Fatalf("run %d: %s\nthe first: %s", run, got, first)
		}
	}
}

// gilbert is a seeded Gilbert-Elliott filter of large UDP packets of one sender:
// mean loss l in bursts of b.
func gilbert(seed uint64, from string, l, b float64) vnet.ChunkFilter {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := 1 / b
	good := r * l / (1 - l)
	bad := false
	return func(c vnet.Chunk) bool {
		data := c.UserData()
		if _, _, ok := rtpHeader(data); !ok || c.SourceAddr().(interface{ String() string }).String()[:len(from)] != from {
			return true
		}
		if bad {
			bad = rng.Float64() >= r
		} else {
			bad = rng.Float64() < good
		}
		return !bad
	}
}

// A seeded loss repeats to the packet, and what is missing is counted.
func TestLossRepeats(t *testing.T) {
	var runs [2][]int64
	for run := range runs {
		bubble(t, 20*time.Millisecond, gilbert(7, "10.0.0.1", 0.1, 3), Options{Codecs: []string{codec.PCMU}}, func(clock clocks.Clock, p, q *Peer) {
			base := int64(-1)
			lost := 0
			for {
				k, ok := q.Hear(context.Background())
				if !ok {
					t.Fatal("it ended")
				}
				sent, _ := p.Sent()
				if base < 0 {
					base = int64(k.Seq - sent[0].Seq)
				}
				lost += k.Lost
				runs[run] = append(runs[run], k.Index+base)
				if k.Index > 1000 {
					if s := q.Stats(); s.Lost != lost || s.Heard != len(runs[run]) || s.Reordered != 0 {
						t.Errorf("%+v, %d lost", s, lost)
					}
					if share := float64(lost) / float64(k.Index); share < 0.05 || share > 0.16 {
						t.Errorf("%.3f of the packets lost, 0.1 asked", share)
					}
					return
				}
			}
		})
	}
	if !reflect.DeepEqual(runs[0], runs[1]) {
		t.Errorf("two runs differ:\n%v\n%v", runs[0], runs[1])
	}
}

// Timestamps advance through silence, with packets in it and without, and the
// marker is on the first packet of a talkspurt only.
func TestPauses(t *testing.T) {
	for _, dtx := range []bool{false, true} {
		bubble(t, 5*time.Millisecond, nil, Options{Codecs: []string{codec.PCMU}, DTX: dtx}, func(clock clocks.Clock, p, q *Peer) {
			var said []time.Duration
			for _, pause := range []time.Duration{300, 700, 1480, 4000} {
				at, err := p.Speak(sound(100*time.Millisecond, 8000))
				if err != nil {
					t.Fatal(err)
				}
				if now := clock.Now(); at < now || at > now+20*time.Millisecond {
					t.Errorf("said at %v, now %v", at, now)
				}
				said = append(said, at)
				clock.Sleep(context.Background(), pause*time.Millisecond+3*time.Millisecond+125*time.Microsecond)
			}
			p.Close()
			sent, _ := p.Sent()
			markers := 0
			for i, s := range sent {
				k, ok := q.Hear(context.Background())
				if !ok {
					t.Fatal("packets are missing")
				}
				if k.Timestamp-sent[0].Timestamp != uint32((s.Due-sent[0].Due)*8000/time.Second) || k.Seq-sent[0].Seq != uint16(i) {
					t.Fatalf("dtx %v: packet %d: %+v, %+v", dtx, i, k, s)
				}
				if k.Marker != s.Marker {
					t.Errorf("marker of packet %d", i)
				}
				if !s.Marker {
					continue
				}
				// The sound begins where it was said, to the sample.
				if markers == len(said) {
					t.Fatal("too many markers")
				}
				onset := s.Due - codec.Frame
				for _, b := range k.Payload {
					if b != 0xff {
						break
					}
					onset += 125 * time.Microsecond
				}
				if s.Onset != onset || s.Onset-said[markers] > 0 || said[markers]-s.Onset >= 125*time.Microsecond {
					t.Errorf("dtx %v: talkspurt %d: said at %v, sent %+v, in the payload at %v", dtx, markers, said[markers], s, onset)
				}
				markers++
			}
			if markers != len(said) {
				t.Errorf("dtx %v: %d markers of %d", dtx, markers, len(said))
			}
			if want := 20; dtx != (len(sent) < 30) || len(sent) < want {
				t.Errorf("dtx %v: %d packets", dtx, len(sent))
			}
		})
	}
}

// What is cut off is not sent, and what was said before it is.
func TestHush(t *testing.T) {
	bubble(t, time.Millisecond, nil, Options{Codecs: []string{codec.PCMU}}, func(clock clocks.Clock, p, q *Peer) {
		at, _ := p.Speak(sound(time.Second, 8000))
		if end, ok := p.Until(); !ok || end != at+time.Second {
			t.Errorf("until %v", end)
		}
		clock.SleepUntil(context.Background(), at+115*time.Millisecond)
		if cut := p.Hush(); cut != 885*time.Millisecond {
			t.Errorf("cut %v", cut)
		}
		clock.Sleep(context.Background(), 100*time.Millisecond)
		p.Close()
		loud := 0
		for {
			k, ok := q.Hear(context.Background())
			if !ok {
				break
			}
			for _, b := range k.Payload {
				if b != 0xff {
					loud++
				}
			}
		}
		// One sample in 16 of the tone is zero.
		if want := 920 - 920/16; loud < want-1 || loud > want+1 {
			t.Errorf("%d samples were heard, want %d", loud, want)
		}
	})
}

// What a listener that comes late has missed shows in the first packet's Index and
// timestamp against the sender's log: it is not a short latency.
func TestOpusOverNetwork(t *testing.T) {
	bubble(t, 10*time.Millisecond, nil, Options{}, func(clock clocks.Clock, p, q *Peer) {
		c, _ := p.Connected(context.Background())
		if c.Name != codec.Opus || q.Stats().Speaks != codec.Opus {
			t.Fatalf("%+v", c)
		}
		p.Speak(sound(200*time.Millisecond, 48000))
		heard := hear(t, q, 100)
		d, _ := codec.NewDecoder(codec.Opus)
		loud := 0
		for i, k := range heard {
			if k.Codec != codec.Opus || k.Timestamp-heard[0].Timestamp != uint32(960*i) {
				t.Fatalf("packet %d: %+v", i, k)
			}
			f, err := d.Decode(k.Payload)
			if err != nil || len(f.PCM) != 960 {
				t.Fatal(err)
			}
			if peak := max(f.PCM[100], f.PCM[101], f.PCM[102], f.PCM[107], f.PCM[108]); peak > 1000 {
				loud++
			}
		}
		if loud < 9 || loud > 12 {
			t.Errorf("%d packets are loud, want about 10", loud)
		}
		p.sender.mu.Lock()
		if !bytes.Equal(heard[99].Payload, p.sender.quiet) {
			t.Errorf("silence of %d bytes is encoded still", len(heard[99].Payload))
		}
		p.sender.mu.Unlock()
	})
}
