package playout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/random"
)

const ms = time.Millisecond

// packets makes packets of 20 ms with the arrivals given in ms; "x" is lost and
// "-" is missing without a word.
func packets(arrivals string) []Packet {
	var out []Packet
	var last time.Duration
	for i, a := range strings.Fields(arrivals) {
		p := Packet{Seq: i, Media: time.Duration(i) * 20 * ms, Arrival: last, Duration: 20 * ms, First: i == 0}
		switch a {
		case "-":
			continue
		case "x":
			p.Lost = true
		default:
			var n int
			fmt.Sscan(a, &n)
			p.Arrival = time.Duration(n) * ms
		}
		last = p.Arrival
		out = append(out, p)
	}
	return out
}

func describe(spans []Span) string {
	var out []string
	for _, s := range spans {
		name := []string{"sound", "made up", "empty"}[s.Kind]
		line := fmt.Sprintf("%s %d", name, s.At/ms)
		if s.Kind != Empty {
			line += fmt.Sprintf("+%d", s.Sound/ms)
		}
		if s.Length != s.Sound {
			line += fmt.Sprintf("/%d", s.Length/ms)
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

func TestIdealAndFixed(t *testing.T) {
	for _, c := range []struct {
		name      string
		mode      Mode
		prebuffer time.Duration
		arrivals  string
		want      string
	}{
		{"on time", Ideal, 0, "20 40 60 80", "sound 20+80"},
		{"one late", Ideal, 0, "20 45 60 80", "sound 20+20, empty 40, sound 45+60"},
		{"late within what was gained", Ideal, 0, "20 60 75 100", "sound 20+20, empty 40, sound 60+60"},
		{"all at once", Ideal, 0, "5 5 5 5", "sound 5+80"},
		{"fixed 0 is ideal", Fixed, 0, "20 45 60 80", "sound 20+20, empty 40, sound 45+60"},
		{"fixed", Fixed, 60 * ms, "20 45 60 80 100 120", "sound 60+120"},
		{"not a whole packet", Fixed, 50 * ms, "20 45 60 80 100 120", "sound 60+120"},
		{"waits again", Fixed, 40 * ms, "20 40 100 120 140 160", "sound 40+40, empty 80, sound 120+80"},
		{"the end sets it free", Fixed, 200 * ms, "20 40 60", "sound 60+60"},
		{"and after an underrun", Fixed, 40 * ms, "20 40 100", "sound 40+40, empty 80, sound 100+20"},
		{"lost", Ideal, 0, "20 x 60 80", "sound 20+20, made up 40+20, sound 60+40"},
		{"gap, with nothing in the buffer", Ideal, 0, "20 - 60 80", "sound 20+20, empty 40, made up 60+20/0, sound 60+40"},
		{"lost, with something in the buffer", Fixed, 40 * ms, "20 40 x 80 100", "sound 40+40, made up 80+20, sound 100+40"},
		{"gap, with something in the buffer", Fixed, 60 * ms, "20 40 60 - 100 120", "sound 60+60, made up 120+20, sound 140+40"},
		{"lost at the start", Fixed, 40 * ms, "x 20 40", "made up 20+20/0, sound 20+40"},
		{"lost at the end", Ideal, 0, "20 40 60 x", "sound 20+60, made up 80+20"},
		{"all lost", Fixed, 40 * ms, "x x", "made up 0+40/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := New(Options{Mode: c.mode, Prebuffer: c.prebuffer})
			if got := describe(Play(b, packets(c.arrivals))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A packet that is overtaken plays if it comes before its turn, and is made up
// if it comes after it.
func TestOvertaken(t *testing.T) {
	for _, c := range []struct {
		late int
		want string
	}{
		{79, "sound 40+100"},
		{80, "sound 40+100"},
		{81, "sound 40+40, made up 80+20, sound 100+40"},
	} {
		b := New(Options{Mode: Fixed, Prebuffer: 40 * ms})
		ps := packets("20 40 60 78 110")
		ps[2], ps[3] = ps[3], ps[2]
		ps[3].Arrival = time.Duration(c.late) * ms
		if got := describe(Play(b, ps)); got != c.want {
			t.Errorf("late %d: got %s, want %s", c.late, got, c.want)
		}
	}
}

// Voice case 50: a chunk of 460 ms is there at once; the next one, as long,
// comes 250 to 650 ms later.
func TestPrebufferCase(t *testing.T) {
	for _, c := range []struct {
		prebuffer, second int // ms
		first             int
		underruns         int
		stalled           int
	}{
		{0, 250, 0, 0, 0},
		{0, 460, 0, 0, 0},
		{0, 480, 0, 1, 20},
		{0, 650, 0, 1, 190},
		{200, 650, 0, 1, 190},
		{460, 650, 0, 1, 190},
		{480, 250, 250, 0, 0},
		{480, 450, 450, 0, 0},
		{480, 650, 650, 0, 0},
		{1000, 650, 650, 0, 0}, // the end comes with the second chunk
	} {
		var ps []Packet
		for i := range 46 {
			p := Packet{Seq: i, Duration: 20 * ms, First: i == 0}
			if i >= 23 {
				p.Arrival = time.Duration(c.second) * ms
			}
			ps = append(ps, p)
		}
		spans := Play(New(Options{Mode: Fixed, Prebuffer: time.Duration(c.prebuffer) * ms}), ps)
		first, underruns, stalled, played := measure(spans)
		if first != time.Duration(c.first)*ms || underruns != c.underruns || stalled != time.Duration(c.stalled)*ms || played != 920*ms {
			t.Errorf("prebuffer %d, second %d: first sound %v, %d underruns of %v, played %v", c.prebuffer, c.second, first, underruns, stalled, played)
		}
	}
}

func measure(spans []Span) (first time.Duration, underruns int, stalled, played time.Duration) {
	first = -1
	var empty time.Duration
	for i, s := range spans {
		switch s.Kind {
		case Empty:
			underruns, empty = underruns+1, s.At
		case Sound:
			if first < 0 {
				first = s.At
			}
			for j := i - 1; j >= 0 && spans[j].Kind != Sound; j-- {
				if spans[j].Kind == Empty {
					stalled += s.At - empty
				}
			}
			played += s.Sound
		}
	}
	return
}

// Voice case 46: 7.0 s of sound that come as fast as the network can are played
// in 7.0 s.
func TestSevenSecondsStaySevenSeconds(t *testing.T) {
	for _, mode := range []Mode{Ideal, Fixed} {
		var ps []Packet
		for i := range 350 {
			ps = append(ps, Packet{Seq: i, Arrival: 10 * ms, Duration: 20 * ms, First: i == 0})
		}
		got := describe(Play(New(Options{Mode: mode, Prebuffer: 100 * ms}), ps))
		if got != "sound 10+7000" {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

func jittered(n int, seed uint64) []Packet { return from("lognormal(30ms, 0.8)", n, seed) }

func from(jitter string, n int, seed uint64) []Packet {
	d := random.MustParse(jitter)
	var ps []Packet
	var last time.Duration
	for i := range n {
		s := random.New(seed, "test", i)
		last = max(last, time.Duration(i)*20*ms+d.Draw(&s))
		ps = append(ps, Packet{Seq: i, Media: time.Duration(i) * 20 * ms, Arrival: last, Duration: 20 * ms, First: i == 0})
	}
	return ps
}

// Raising the prebuffer makes the first sound later, for any packets, and
// underruns rarer. (On a single path they need not fall at each step: a buffer
// that has run empty is fuller afterwards than one that was just spared.)
func TestTradeOff(t *testing.T) {
	const paths = 300
	var starts [paths]time.Duration
	before := 1 << 30
	for k := time.Duration(0); k <= 400*ms; k += 40 * ms {
		total := 0
		for seed := range paths {
			ps := jittered(400, uint64(seed))
			first, underruns, _, played := measure(Play(New(Options{Mode: Fixed, Prebuffer: k}), ps))
			if first < starts[seed] || played != 8*time.Second {
				t.Errorf("seed %d, prebuffer %v: first sound %v after %v, played %v", seed, k, first, starts[seed], played)
			}
			starts[seed] = first
			total += underruns
		}
		if total >= before && total > 0 {
			t.Errorf("prebuffer %v: %d underruns after %d", k, total, before)
		}
		before = total
	}
}

// What is played does not depend on how often the buffer is told of the time.
func TestAdvanceChangesNothing(t *testing.T) {
	for _, o := range []Options{{Mode: Ideal}, {Mode: Fixed, Prebuffer: 60 * ms}, {Mode: Adaptive}} {
		for seed := range uint64(10) {
			ps := jittered(300, seed)
			want := describe(Play(New(o), ps))
			b := New(o)
			for i, p := range ps {
				b.Push(&p)
				if i+1 < len(ps) {
					for at := p.Arrival; at < ps[i+1].Arrival; at += 7 * ms {
						b.Advance(at)
						c := New(o) // and a copy goes on in its place
						c.CopyFrom(b)
						c.Out = append(c.Out, b.Out...)
						b = c
					}
				}
			}
			b.End(ps[len(ps)-1].Arrival)
			if got := describe(Play(b, nil)); got != want {
				t.Errorf("%s: seed %d: got %s\nwant %s", o.Mode, seed, got, want)
			}
		}
	}
}

// A run comes to the same as its packets one by one: for any jitter, pauses with
// and without a jump of the time line, lost packets between two runs, and the
// ends of answers.
func TestRunIsItsPackets(t *testing.T) {
	jitters := []random.Dist{random.MustParse("lognormal(10ms, 0.5)"), random.MustParse("lognormal(40ms, 0.9)"), random.Const(0)}
	for seed := range 1500 {
		r := random.New(uint64(seed), "runs")
		o := Options{Mode: []Mode{Ideal, Fixed, Adaptive, Adaptive}[r.Below(4)]}
		o.Prebuffer, o.Minimum = time.Duration(r.Below(150))*ms, time.Duration(r.Below(3)*60)*ms
		jitter := jitters[r.Below(len(jitters))]
		length := time.Duration([]int{20, 7, 60}[r.Below(3)]) * ms
		one, all := New(o), New(o)
		var at, arrival time.Duration
		next := Packet{Duration: length, First: true}
		for range 30 {
			switch r.Below(6) {
			case 0:
				at += time.Duration(r.Below(4e9))
				if r.Chance(0.5) {
					next.Media = at
				}
			case 1:
				one.End(max(arrival, at))
				all.End(max(arrival, at))
				next.First = true
			case 2:
				arrival = max(arrival, at)
				lost := next
				lost.Arrival, lost.Lost = arrival, true
				one.Push(&lost)
				all.Push(&lost)
				next.Forward(1)
				at += length
			default:
				next.Silent = r.Chance(0.5)
				first := next
				var arrivals []time.Duration
				for range 1 + r.Below(90) {
					arrival = max(arrival, at+jitter.Draw(&r))
					arrivals = append(arrivals, arrival)
					next.Arrival = arrival
					one.Push(&next)
					next.Forward(1)
					at += length
				}
				if !all.PushRun(&first, arrivals) {
					t.Fatalf("seed %d: the run was dropped", seed)
				}
			}
			if !slices.Equal(one.Out, all.Out) || one.Target() != all.Target() || one.Waiting() != all.Waiting() {
				t.Fatalf("seed %d, %s: got  %v, target %v, waiting %v\nwant %v, target %v, waiting %v", seed, o.Mode,
					all.Out, all.Target(), all.Waiting(), one.Out, one.Target(), one.Waiting())
			}
		}
	}
	b := New(Options{Mode: Ideal})
	b.Push(&Packet{Seq: 5, Duration: 20 * ms})
	if b.PushRun(&Packet{Seq: 4, Duration: 20 * ms}, []time.Duration{0, 0, 0}) {
		t.Error("the first packet of the run should have been dropped")
	}
}

// The answer after a pause plays without an underrun, and waits for its
// prebuffer again; two in a row do not.
func TestTwoAnswers(t *testing.T) {
	b := New(Options{Mode: Fixed, Prebuffer: 40 * ms})
	ps := packets("20 40 60 80 200 220 240")
	ps[2].First, ps[4].First = true, true
	for i, p := range ps {
		b.Push(&p)
		if i == 1 || i == 3 || i == 6 {
			b.End(p.Arrival)
		}
	}
	b.Advance(time.Second)
	if got, want := describe(b.Out), "sound 40+40, sound 80+40, sound 220+60"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkPlayout(b *testing.B) {
	for _, o := range []Options{{Mode: Ideal}, {Mode: Fixed, Prebuffer: 100 * ms}, {Mode: Adaptive}} {
		b.Run(string(o.Mode), func(b *testing.B) {
			var arrivals []time.Duration
			for _, p := range from("lognormal(10ms, 0.5)", 200, 1) { // Wi-Fi
				arrivals = append(arrivals, p.Arrival)
			}
			buf := New(o)
			for n := 0; b.Loop(); n++ {
				for i := range arrivals {
					arrivals[i] += 5 * time.Second
				}
				p := Packet{Seq: n * len(arrivals), Media: time.Duration(n) * 5 * time.Second, Duration: 20 * ms, First: true}
				buf.PushRun(&p, arrivals)
				buf.End(buf.came)
				buf.Out = buf.Out[:0]
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/packet")
		})
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Defaults(), "<nil>"},
		{Options{Mode: "x"}, `mode: "x" is not ideal, fixed or adaptive`},
		{Options{Mode: Fixed, Prebuffer: -1}, "prebuffer: -1ns is negative"},
		{Options{Mode: Adaptive, Minimum: 11 * time.Second}, "minimum: 11s does not lie between 0 and 10s"},
	} {
		if got := fmt.Sprint(c.o.Check()); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// A packet that comes twice plays once.
func TestTwice(t *testing.T) {
	b := New(Options{Mode: Fixed, Prebuffer: 40 * ms})
	var kept []bool
	for _, seq := range []int{0, 0, 1, 1, 2} {
		kept = append(kept, b.Push(&Packet{Seq: seq, Arrival: 5 * ms, Duration: 20 * ms, First: seq == 0}))
	}
	if got := describe(Play(b, nil)); !strings.HasPrefix(got, "sound 5+60") || fmt.Sprint(kept) != "[true false true false true]" {
		t.Errorf("%s, kept %v", got, kept)
	}
}

// Voice case 44: a receiver that joins 0.8 s late does not hear the first 40
// packets. They are told as skipped, not as a low latency of the rest.
func TestClippedHead(t *testing.T) {
	got := describe(Play(New(Options{Mode: Fixed, Prebuffer: 40 * ms}), packets(strings.Repeat("- ", 40)+"820 840 860")))
	if want := "made up 840+800/0, sound 840+60"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
