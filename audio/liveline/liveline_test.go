package liveline

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/audio/vad"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

const rate = 8000

// A port says sound at once, as a peer does.
type port struct {
	clock  clocks.Clock
	mu     sync.Mutex
	until  time.Duration
	said   time.Duration
	broken error
}

func (p *port) Speak(f audio.Frame) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := max(p.until, p.clock.Now())
	p.until = at + f.Duration()
	p.said += f.Duration()
	return at, p.broken
}

func (p *port) Hush() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := max(0, p.until-p.clock.Now())
	p.until -= cut
	return cut
}

func newLine(t *testing.T) (*Line, *port, *clocks.Real) {
	clock := clocks.NewReal()
	p := &port{clock: clock}
	l, err := New(Options{Clock: clock, Port: p, Rate: rate, Packet: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return l, p, clock
}

// tone is a sound that a detector takes for speech.
func tone(d time.Duration) []int16 {
	pcm := make([]int16, audio.Samples(d, rate))
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(float64(i)*0.3))
	}
	return pcm
}

// speak lets the line hear pcm in packets of 20 ms from a place on, in real time: each
// arrives 5 ms after its last sample.
func speak(t *testing.T, l *Line, clock *clocks.Real, place int64, pcm []int16) int64 {
	t.Helper()
	for packet := range slices.Chunk(pcm, 160) {
		clock.Sleep(context.Background(), audio.Span(len(packet), rate))
		if err := l.Hear(audio.Frame{Rate: rate, PCM: packet}, place, clock.Now()); err != nil {
			t.Fatal(err)
		}
		place += int64(len(packet))
	}
	return place
}

// What is announced is a turn with its recording; its sound counts from its place on
// the caller's time line, and a lost packet is there with the next one.
func TestAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, clock := newLine(t)
		defer l.End()
		defer l.Close(nil)
		u := &audio.Utterance{ID: "u", Sound: audio.Frame{Rate: rate, PCM: tone(time.Second)}, End: 500 * time.Millisecond}
		l.Announce(u, 1000, "request")
		said, ok := l.Next(t.Context())
		if !ok || said.Utterance != u || said.RequestID != "request" || said.Live {
			t.Fatalf("%+v, %v", said, ok)
		}
		s := l.Say(trace.ID{Session: 1, Turn: 1}, u)
		if s.Utterance() != u {
			t.Error("the recording is not that of the announcement")
		}
		packet := func(i int) { // places 1000 + 160 i
			l.Hear(audio.Frame{Rate: rate, PCM: make([]int16, 160)}, 1000+160*int64(i), clock.Now())
		}
		packet(0)
		clock.Sleep(t.Context(), 20*time.Millisecond)
		packet(1)
		clock.Sleep(t.Context(), 40*time.Millisecond)
		packet(3) // 2 is lost
		for _, want := range []struct{ offset, at time.Duration }{
			{20 * time.Millisecond, 0}, {20*time.Millisecond + 1, 20 * time.Millisecond}, {40 * time.Millisecond, 20 * time.Millisecond},
			{41 * time.Millisecond, 60 * time.Millisecond}, {80 * time.Millisecond, 60 * time.Millisecond},
		} {
			if want.offset%(125*time.Microsecond) != 0 {
				want.offset += 125*time.Microsecond - 1 // a whole sample
			}
			if at, err := s.Await(t.Context(), want.offset); at != want.at || err != nil {
				t.Errorf("the sound up to %v arrived at %v, %v; want %v", want.offset, at, err, want.at)
			}
		}
		n := 0
		for f, err := range s.Frames(t.Context()) {
			if n += len(f.PCM); err != nil || n == 4*160 {
				break
			}
		}
		if n != 4*160 {
			t.Errorf("%d samples, want %d with silence for the lost ones", n, 4*160)
		}
		l.Close(errors.New("gone"))
		if _, err := s.Await(t.Context(), time.Minute); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// Speech that nobody announces is found, its pause is a stop, and further speech
// before an answer belongs to it. Its true bounds are known once an answer begins.
func TestFound(t *testing.T) {
	// The turn may begin later than the speech was found.
	for _, late := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) { testFound(t, late) })
	}
}

func testFound(t *testing.T, late time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		l, _, clock := newLine(t)
		defer l.End()
		defer l.Close(nil)
		var got []audio.Activity
		var heardAt, end time.Duration
		var began time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			said, ok := l.Next(t.Context())
			if !ok || !said.Live {
				t.Errorf("%+v, %v", said, ok)
				return
			}
			clock.Sleep(t.Context(), late)
			began = clock.Now()
			s := l.Say(trace.ID{Turn: 1}, said.Utterance)
			if s.Utterance() != nil {
				t.Error("nobody knows what is said")
			}
			v := &Listener{Clock: clock, Options: vad.Options{Stop: 200 * time.Millisecond}}
			for a, err := range v.Listen(t.Context(), trace.ID{}, s) {
				if err != nil {
					t.Error(err)
				}
				if got = append(got, a); len(got) == 4 {
					break
				}
			}
			l.Answer(t.Context(), trace.ID{Turn: 1}, func(audio.PlayEvent) {})
			var err error
			heardAt, err = s.Await(t.Context(), said.Utterance.End)
			if err != nil {
				t.Error(err)
			}
			end = began + said.Utterance.End
		}()
		place := speak(t, l, clock, 0, make([]int16, rate))
		place = speak(t, l, clock, place, tone(600*time.Millisecond)) // to 1.6 s
		place = speak(t, l, clock, place, make([]int16, 400*8))       // to 2 s: a stop
		place = speak(t, l, clock, place, tone(600*time.Millisecond)) // to 2.6 s
		speak(t, l, clock, place, make([]int16, rate))
		<-done
		want := []struct {
			speech bool
			where  time.Duration
			latest time.Duration
		}{{true, time.Second, 1040 * time.Millisecond}, {false, 1600 * time.Millisecond, 1820 * time.Millisecond},
			{true, 2 * time.Second, 2040 * time.Millisecond}, {false, 2600 * time.Millisecond, 2820 * time.Millisecond}}
		for i, w := range want {
			if i >= len(got) {
				t.Fatalf("%+v", got)
			}
			where := began + got[i].Offset
			if got[i].Speech != w.speech || where < w.where-10*time.Millisecond || where > w.where+10*time.Millisecond || got[i].At > w.latest+late {
				t.Errorf("%d: %+v at %v, want %+v", i, got[i], where, w)
			}
		}
		if end < 2590*time.Millisecond || end > 2610*time.Millisecond || heardAt < end || heardAt > end+40*time.Millisecond {
			t.Errorf("the speech ended at %v and was heard at %v, want 2.6s", end, heardAt)
		}
	})
}

// An answer is heard a packet after it is said, in order, to the nanosecond; what is
// late is a stall, and what is cut off ends a packet later.
func TestPlayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, clock := newLine(t)
		defer l.End()
		defer l.Close(nil)
		var mu sync.Mutex
		var got []audio.PlayEvent
		on := func(e audio.PlayEvent) {
			mu.Lock()
			got = append(got, e)
			mu.Unlock()
		}
		const ms = time.Millisecond
		first := l.Answer(t.Context(), trace.ID{Turn: 1}, on)
		second := l.Answer(t.Context(), trace.ID{Turn: 1}, on)
		second.Play(audio.Frame{Rate: rate, PCM: tone(time.Second)}) // it waits for the first
		first.Play(audio.Frame{Rate: rate, PCM: tone(100 * ms)})
		first.Watch(50 * ms)
		clock.Sleep(t.Context(), 150*ms)
		first.Play(audio.Frame{Rate: rate, PCM: tone(100 * ms)})
		first.Close()
		if err := first.Wait(t.Context()); err != nil || clock.Now() != 270*ms {
			t.Error(err, clock.Now())
		}
		synctest.Wait()
		clock.Sleep(t.Context(), 100*ms)
		second.Stop()
		second.Wait(t.Context())
		want := []struct {
			kind   audio.PlayKind
			at     time.Duration
			played time.Duration
		}{
			{audio.PlayQueued, 0, 0}, {audio.PlayStarted, 20 * ms, 0}, {audio.PlayReached, 70 * ms, 0}, {audio.PlayStalled, 120 * ms, 100 * ms},
			{audio.PlayResumed, 170 * ms, 100 * ms}, {audio.PlayEnded, 270 * ms, 200 * ms},
			{audio.PlayQueued, 270 * ms, 0}, {audio.PlayStarted, 290 * ms, 0}, {audio.PlayStopped, 390 * ms, 100 * ms},
		}
		mu.Lock()
		defer mu.Unlock()
		if len(got) != len(want) {
			t.Fatalf("%+v", got)
		}
		for i, w := range want {
			if g := got[i]; g.Kind != w.kind || g.At != w.at || g.Played != w.played {
				t.Errorf("%d: %+v, want %+v", i, g, w)
			}
		}
		if p.said != 1200*ms || got[5].Underruns != 1 || got[5].Stalled != 50*ms {
			t.Errorf("%v said, %+v", p.said, got[5])
		}
	})
}

// A line that breaks ends what is played, and who waits is told.
func TestBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, _ := newLine(t)
		p.broken = errors.New("no more")
		a := l.Answer(t.Context(), trace.ID{Turn: 1}, func(audio.PlayEvent) {})
		a.Play(audio.Frame{Rate: 24000, PCM: make([]int16, 24000)})
		a.Close()
		if err := a.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		l.Close(nil)
		late := l.Answer(t.Context(), trace.ID{Turn: 2}, func(audio.PlayEvent) {})
		late.Close()
		if err := late.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if _, ok := l.Next(t.Context()); ok {
			t.Error("somebody speaks after the end")
		}
		l.End()
	})
}

// Timestamps wrap around, and those of before the latest are before it.
func TestStamps(t *testing.T) {
	s := Stamps{rate: 8000, clock: 8000}
	for _, w := range []struct {
		stamp uint32
		place int64
	}{{math.MaxUint32 - 99, 0}, {60, 160}, {math.MaxUint32 - 259, -160}, {220, 320}, {380, 480}} {
		if got := s.Place(w.stamp); got != w.place {
			t.Errorf("%d has the place %d, want %d", w.stamp, got, w.place)
		}
	}
}

// What the line does not know it refuses.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := newLine(t)
		if err := l.Hear(audio.Frame{Rate: 16000, PCM: []int16{1}}, 0, 0); err == nil {
			t.Error("sound at another rate")
		}
		s := l.Say(trace.ID{}, &audio.Utterance{ID: "x"})
		if _, err := s.Await(t.Context(), 0); err == nil || s.Utterance() != nil {
			t.Error("nobody says it")
		}
		l.Close(nil)
		l.End()
	})
}

// The call ends while the end of an answer is told: that answer ends once.
func TestStoppedWhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := newLine(t)
		var told []audio.PlayKind
		var p audio.Player
		made := make(chan struct{})
		p = l.Answer(t.Context(), trace.ID{Session: 1, Turn: 1}, func(e audio.PlayEvent) {
			<-made
			told = append(told, e.Kind)
			p.Stop()
		})
		close(made)
		p.Close() // it had no sound
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Close(nil)
		l.End()
		if len(told) != 1 || told[0] != audio.PlayEnded {
			t.Errorf("told: %v", told)
		}
	})
}

// What is announced and never said fills no memory.
func TestAnnouncementsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := newLine(t)
		u := &audio.Utterance{ID: "hello"}
		taken := 0
		for range 100 {
			if l.Announce(u, 0, "r") == nil {
				taken++
			}
		}
		if taken != mostAhead {
			t.Errorf("%d are taken", taken)
		}
		l.Next(t.Context())
		l.Say(trace.ID{Session: 1, Turn: 1}, u)
		if err := l.Announce(u, 0, "r"); err != nil {
			t.Error(err)
		}
		l.Close(nil)
		l.End()
	})
}
