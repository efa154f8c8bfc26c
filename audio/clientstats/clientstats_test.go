package clientstats

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func f(v float64) *float64 { return &v }

func TestRead(t *testing.T) {
	good := `{"request_id":"a","session":1,"stats":{"sound_ms":12.5,"samples":[{"at_ms":1,"inbound":{"jitterBufferDelay":2.5}},{"at_ms":2}]}}`
	for _, c := range []struct {
		name, text, warning, err string
		lines                    int
	}{
		{"nothing", "", "", "", 0},
		{"one", good + "\n", "", "", 1},
		{"an empty line between", good + "\n\n" + good + "\n", "", "", 2},
		{"whole, without a line break", good + "\n" + good, "", "", 2},
		{"cut off at the end", good + "\n" + good[:50], "line 2 is cut off", "", 1},
		{"cut off in the middle", good[:50] + "\n" + good + "\n", "", "line 1: it is no JSON: unexpected end of JSON input, at byte 51", 0},
		{"not JSON", "samples\n", "", "line 1: it is no JSON: invalid character 's' looking for beginning of value, at byte 1", 0},
		{"a text for a number", strings.Replace(good, ":2.5", `:"2.5"`, 1) + "\n", "", "line 1: it is wrong: stats.samples.inbound.jitterBufferDelay is a string, and should be a number", 0},
		{"time goes back", strings.Replace(good, `"at_ms":2`, `"at_ms":0.5`, 1) + "\n", "", "line 1: samples: at_ms goes back from 1 to 0.5", 0},
		{"a time in nanoseconds", strings.Replace(good, `12.5`, `1796000000000000000`, 1) + "\n", "", "line 1: sound_ms: 1.796e+18 is no time", 0},
		{"too long", strings.Repeat(" ", maxLine+1), "", "line 1: it is longer than", 0},
		{"too many", `{"stats":{"samples":[{}` + strings.Repeat(",{}", maxSamples) + "]}}\n", "", "line 1: more than 4096 samples", 0},
	} {
		lines, warnings, err := Read(strings.NewReader(c.text))
		if len(lines) != c.lines || !strings.Contains(strings.Join(warnings, "; "), c.warning) || c.warning == "" && warnings != nil {
			t.Errorf("%s: %d lines, %q", c.name, len(lines), warnings)
		}
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	lines, _, _ := Read(strings.NewReader(good))
	if l := lines[0]; l.RequestID != "a" || l.Session != 1 || *l.Stats.Sound != 12.5 || *l.Stats.Samples[0].Inbound.Delay != 2.5 {
		t.Errorf("%+v", l)
	}
}

// What cannot be is left out, and told of with its line.
func TestLeftOut(t *testing.T) {
	line := func(stats string) string {
		return `{"request_id":"a","session":1,"stats":{` + stats + `}}` + "\n"
	}
	inbound := func(counter string) string { return line(`"samples":[{"at_ms":1,"inbound":{` + counter + `}}]`) }
	pair := func(trip string) string {
		return line(`"samples":[{"at_ms":1,"pair":{"currentRoundTripTime":` + trip + `}}]`)
	}
	for _, c := range []struct{ name, text, want string }{
		{"a round trip at the bounds", pair("0") + pair("60"), ""},
		{"a round trip below zero", pair("0.03") + pair("-5"), "currentRoundTripTime: line 2: -5 is not from 0 to 60"},
		{"a round trip of years", pair("9e8"), "currentRoundTripTime: line 1: 9e+08 is not from 0 to 60"},
		{"counts at the bounds", inbound(`"concealedSamples":0,"packetsReceived":1e12,"packetsLost":-3`), ""},
		{"a count below zero", inbound(`"insertedSamplesForDeceleration":-1`), "insertedSamplesForDeceleration: line 1: -1 is not from 0 to 1e+12"},
		{"packets without end", inbound(`"packetsLost":1e300`), "packetsLost: line 1: 1e+300 is not from -1e+12 to 1e+12"},
		{"a device", line(`"samples":[{"playout":{"totalPlayoutDelay":-2,"totalSamplesCount":2e12}}]`),
			"totalPlayoutDelay: line 1: -2 is not from 0 to 1e+12, totalSamplesCount: line 1: 2e+12 is not from 0 to 1e+12"},
		{"several", pair("-1") + pair("-2"), "currentRoundTripTime: 2 values, the first: line 1: -1 is not from 0 to 60"},
		{"an error at the bounds", line(`"agent_error_ms":0`) + line(`"agent_error_ms":60000`), ""},
		{"an error below zero", line(`"agent_error_ms":-0.5`), "agent_error_ms: line 1: -0.5 is not from 0 to 60000"},
		{"an error of years", line(`"agent_error_ms":5e11`), "agent_error_ms: line 1: 5e+11 is not from 0 to 60000"},
	} {
		lines, _, err := Read(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var left []Left
		for _, l := range lines {
			left = AddLeft(left, l.Left...)
		}
		var words []string
		for _, l := range left {
			words = append(words, l.String())
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%s: left out %q, want %q", c.name, got, c.want)
		}
	}
	lines, _, _ := Read(strings.NewReader(pair("-5") + line(`"agent_error_ms":-1`) + inbound(`"packetsLost":1e300`)))
	if lines[0].Stats.Samples[0].Pair.RoundTrip != nil || lines[1].Stats.AgentError != nil || lines[2].Stats.Samples[0].Inbound.PacketsLost != nil {
		t.Error("it is still there")
	}
}

// A window holds no more sound than fits in it, give or take a second.
func TestWindowBounds(t *testing.T) {
	const second = 48000
	a := counted(10*time.Second, 20*ms)
	a.Inbound.Concealed, a.Inbound.SilentConcealed, a.Inbound.Inserted, a.Inbound.Removed = f(100), f(50), f(10), f(10)
	for _, c := range []struct {
		name   string
		change func(in *Inbound)
		absent func(w Window) bool
		why    string // empty if it can be
	}{
		{"as much as fits", func(in *Inbound) { in.Inserted = f(10 + 10.9*second) }, func(w Window) bool { return w.Stretched == nil }, ""},
		{"stretched for too long", func(in *Inbound) { in.Inserted = f(10 + 11.1*second) }, func(w Window) bool { return w.Stretched == nil }, "insertedSamplesForDeceleration: 11.1 s of sound in 10 s"},
		{"stretched less", func(in *Inbound) { in.Inserted = f(0) }, func(w Window) bool { return w.Stretched == nil }, "insertedSamplesForDeceleration: -0.0002083 s of sound in 10 s"},
		{"squeezed for too long", func(in *Inbound) { in.Removed = f(1e9) }, func(w Window) bool { return w.Squeezed == nil }, "removedSamplesForAcceleration: 2.083e+04 s of sound in 10 s"},
		{"squeezed less", func(in *Inbound) { in.Removed = f(9) }, func(w Window) bool { return w.Squeezed == nil }, "removedSamplesForAcceleration: -2.083e-05 s"},
		{"made up for too long", func(in *Inbound) { in.Concealed = f(1e9) }, func(w Window) bool { return w.Concealed == nil }, "concealedSamples: 2.083e+04 s of sound in 10 s"},
		{"more silence than was made up", func(in *Inbound) { in.SilentConcealed = f(100 + second) }, func(w Window) bool { return w.Concealed == nil && w.Silent == nil }, "silentConcealedSamples: 1.001 s of silence in 0 s made up"},
		{"less silence", func(in *Inbound) { in.SilentConcealed = f(0) }, func(w Window) bool { return w.Concealed == nil && w.Silent == nil }, "silentConcealedSamples: -0.001042 s"},
		{"more packets twice than came", func(in *Inbound) { in.PacketsLost = f(-501) }, func(w Window) bool { return w.Lost == nil }, "packetsLost: it falls by 501 while 500 packets come"},
		{"all packets twice", func(in *Inbound) { in.PacketsLost = f(-500) }, func(w Window) bool { return w.Lost == nil }, ""},
	} {
		b := counted(20*time.Second, 20*ms)
		b.Inbound.Concealed, b.Inbound.SilentConcealed, b.Inbound.Inserted, b.Inbound.Removed = f(100), f(50), f(10), f(10)
		c.change(b.Inbound)
		w := Between(a, b)
		if c.absent(w) != (c.why != "") || (len(w.Left) == 1) != (c.why != "") || !strings.Contains(strings.Join(w.Why, "; "), c.why) || w.Buffer == nil {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}

// counted makes a sample of a stream at 48 kHz that has held everything for so long.
func counted(at time.Duration, buffer time.Duration) Sample {
	n := at.Seconds() * 48000
	return Sample{At: float64(at) / 1e6, Inbound: &Inbound{
		SSRC: f(1), PacketsReceived: f(at.Seconds() * 50), PacketsLost: f(0), Delay: f(n * buffer.Seconds()), TargetDelay: f(n * 0.02), Emitted: f(n),
		Samples: f(n), Duration: f(at.Seconds()), Concealed: f(0), SilentConcealed: f(0), Inserted: f(0), Removed: f(0),
	}}
}

// Reports of units gone wrong, with what they should have come to (webrtc.md, 31 to 33).
func TestUnits(t *testing.T) {
	is := func(name string, got *time.Duration, want time.Duration) {
		t.Helper()
		if got == nil || *got-want > 50*time.Microsecond || want-*got > 50*time.Microsecond {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	// client-sdk-js PR 2064: 0.035 s are 35 ms, not 0.
	w := Between(Sample{}, Sample{Pair: &Pair{f(0.035)}})
	is("round trip", w.RoundTrip, 35*ms)

	// telnyx webrtc PR 767: a sum of 2300511 is 41.8 ms on average.
	w = Between(Sample{}, Sample{At: 1, Playout: &Playout{f(2300511), f(55_036_148)}})
	is("device", w.Device, 41800*time.Microsecond)

	// webrtc-stats 590, 680: 100 s at 20 ms and then 10 s at 500 ms are 63.6 ms over
	// the life of the call, and 500 ms now.
	a, b := counted(100*time.Second, 20*ms), counted(110*time.Second, 20*ms)
	*b.Inbound.Delay = *a.Inbound.Delay + 10*48000*0.5
	is("window", Between(a, b).Buffer, 500*ms)
	is("life", Between(Sample{}, b).Buffer, 63636*time.Microsecond)
	is("target", Between(a, b).Target, 20*ms)

	// Samples are those of the stream: 980 at 8 kHz are 122.5 ms, of which half were silence.
	a, b = counted(1*time.Second, 20*ms), counted(2*time.Second, 20*ms)
	*a.Inbound.Samples, *b.Inbound.Samples = 8000, 16000
	*b.Inbound.Concealed, *b.Inbound.SilentConcealed, *b.Inbound.Inserted, *b.Inbound.Removed = 980, 490, 40, 80
	w = Between(a, b)
	is("concealed", w.Concealed, 61250*time.Microsecond)
	is("silent", w.Silent, 61250*time.Microsecond)
	is("stretched", w.Stretched, 5*ms)
	is("squeezed", w.Squeezed, 10*ms)
	if *w.Packets != 50 || *w.Lost != 0 || w.Length != time.Second || len(w.Why) > 0 {
		t.Errorf("%+v", w)
	}
}

// What is not there, or cannot be, is absent, and says why.
func TestAbsent(t *testing.T) {
	a, b := counted(10*time.Second, 20*ms), counted(20*time.Second, 20*ms)
	with := func(change func(*Inbound)) Sample {
		in := *b.Inbound
		s := Sample{At: b.At, Inbound: &in}
		change(&in)
		return s
	}
	for _, c := range []struct {
		name string
		b    Sample
		why  string
	}{
		{"counters began anew", Sample{At: b.At, Inbound: counted(2*time.Second, 20*ms).Inbound}, "began anew"},
		{"time goes back", counted(2*time.Second, 20*ms), "at_ms: it goes back from 10000 to 2000"},
		{"another stream", with(func(in *Inbound) { in.SSRC = f(2) }), "SSRC has changed"},
		{"nothing came out", with(func(in *Inbound) { in.Emitted, in.Delay = a.Inbound.Emitted, a.Inbound.Delay }), "jitterBufferDelay: no sample came out"},
		{"milliseconds", with(func(in *Inbound) { in.Delay = f(*in.Delay * 1000) }), "is this in milliseconds?"},
		{"no counters", Sample{At: 20000}, "no counters of the stream"},
		{"not counted", with(func(in *Inbound) { in.Delay = nil }), "jitterBufferDelay is not counted"},
	} {
		w := Between(a, c.b)
		if w.Buffer != nil || !strings.Contains(strings.Join(w.Why, "; "), c.why) {
			t.Errorf("%s: %v, %q", c.name, w.Buffer, w.Why)
		}
	}
	if w := Between(a, with(func(in *Inbound) { in.Duration = nil })); w.Stretched != nil || w.Buffer == nil || len(w.Why) != 1 {
		t.Errorf("%+v", w)
	}
	// Lost packets may become fewer: that is no new beginning.
	a.Inbound.PacketsLost = f(3)
	if w := Between(a, b); *w.Lost != -3 || w.Buffer == nil {
		t.Errorf("%+v", w)
	}
}

// call makes samples every 500 ms with these buffers in between, in milliseconds.
func call(buffers ...float64) []Sample {
	samples := []Sample{counted(0, 0)}
	for i, d := range buffers {
		s := counted(time.Duration(i+1)*500*ms, 0)
		*s.Inbound.Delay = *samples[i].Inbound.Delay + 24000*d/1000
		samples = append(samples, s)
	}
	return samples
}

func lose(samples []Sample, at int, packets float64) {
	for _, s := range samples[at:] {
		*s.Inbound.PacketsLost += packets
		*s.Inbound.Concealed += packets * 960
	}
}

func TestTurns(t *testing.T) {
	s := call(10, 10, 20, 30, 40, 50, 60, 70)
	turns := Turns([]Line{
		// The speech ended at 1000 ms, the sound came at 2250: it lies in the fifth
		// half second.
		{RequestID: "a", Session: 1, Stats: Stats{From: f(1000), Sound: f(2250), AgentOffset: f(100), Samples: s[:6]}},
		// From the last sample of the line before on.
		{RequestID: "b", Session: 1, Stats: Stats{Samples: s[6:9]}},
		// Only the counters at the end of the turn: since the call began.
		{RequestID: "c", Session: 2, Stats: Stats{Samples: s[4:5]}},
		{RequestID: "d", Session: 2, Stats: Stats{Samples: s[5:6]}},
		{RequestID: "e", Session: 3},
	})
	for i, want := range []time.Duration{30 * ms, 60 * ms, 17500 * time.Microsecond, 40 * ms} {
		if got := turns[i].Whole.Buffer; got == nil || *got != want {
			t.Errorf("turn %d: %v, want %v", i, got, want)
		}
	}
	if *turns[0].First.Buffer != 40*ms || *turns[1].First.Buffer != 60*ms {
		t.Errorf("around the first sound: %v, %v", *turns[0].First.Buffer, *turns[1].First.Buffer)
	}
	if turns[4].Whole.Buffer != nil || len(turns[4].Whole.Why) != 1 {
		t.Errorf("%+v", turns[4].Whole)
	}
	if at, ok := turns[0].Heard(); !ok || at != 2350*ms {
		t.Errorf("heard at %v, %v", at, ok)
	}
	if _, ok := turns[1].Heard(); ok {
		t.Error("nobody said when it was heard")
	}
	// The first sound lies near a sample: a window that is long enough holds both sides.
	near := Turns([]Line{{Session: 1, Stats: Stats{Sound: f(2010), Samples: s}}})
	if got := *near[0].First.Buffer; got != 35*ms {
		t.Errorf("%v, want the mean of 30 and 40 ms", got)
	}
}

func TestLosses(t *testing.T) {
	show := func(l Loss) string {
		at := func(d *time.Duration) string {
			if d == nil {
				return "-"
			}
			return d.String()
		}
		return fmt.Sprintf("%s at %v for %v: %d lost, %s made up, %s %s back %s every %v, watched %v %s", l.RequestID, l.At, l.Length, l.Lost, at(l.Concealed), at(l.Before), at(l.Peak), at(l.Back), l.Step, l.Watched, l.BackWhy)
	}
	for _, c := range []struct {
		name    string
		buffers []float64
		lost    map[int]float64 // by the sample from which on
		want    []string
	}{
		{"none", []float64{20, 20, 20}, nil, nil},
		{"it comes back in a second", []float64{20, 20, 20, 60, 120, 80, 39, 20}, map[int]float64{4: 3},
			[]string{"a at 1.5s for 500ms: 3 lost, 60ms made up, 20ms 120ms back 1s every 500ms, watched 2s "}},
		{"the buffer does not move", []float64{20, 20, 25, 25}, map[int]float64{3: 1},
			[]string{"a at 1s for 500ms: 1 lost, 20ms made up, 20ms 25ms back 0s every 500ms, watched 500ms "}},
		{"more is lost before it is back", []float64{20, 20, 60, 60, 60, 20}, map[int]float64{3: 1, 5: 2},
			[]string{"a at 1s for 1.5s: 3 lost, 60ms made up, 20ms 60ms back 0s every 500ms, watched 500ms "}},
		{"two of them", []float64{20, 60, 20, 20, 60, 60, 20}, map[int]float64{2: 1, 5: 1},
			[]string{"a at 500ms for 500ms: 1 lost, 20ms made up, 20ms 60ms back 0s every 500ms, watched 2.5s ", "a at 2s for 500ms: 1 lost, 20ms made up, 20ms 60ms back 500ms every 500ms, watched 1s "}},
		{"it stays", []float64{20, 20, 90, 90}, map[int]float64{3: 1},
			[]string{"a at 1s for 500ms: 1 lost, 20ms made up, 20ms 90ms back - every 500ms, watched 500ms the samples end before the buffer is back"}},
		{"at the beginning", []float64{90, 90}, map[int]float64{1: 1},
			[]string{"a at 0s for 500ms: 1 lost, 20ms made up, - 90ms back - every 500ms, watched 500ms nothing was played before the loss"}},
	} {
		s := call(c.buffers...)
		for at, n := range c.lost {
			lose(s, at, n)
		}
		// The samples of a call come in several lines.
		got, _ := Losses([]Line{{RequestID: "a", Session: 1, Stats: Stats{Samples: s[:1]}}, {RequestID: "a", Session: 1, Stats: Stats{Samples: s[1:]}}})
		if len(got) != len(c.want) {
			t.Errorf("%s: %d losses", c.name, len(got))
			continue
		}
		for i, l := range got {
			if show(l) != c.want[i] {
				t.Errorf("%s:\n got %s\nwant %s", c.name, show(l), c.want[i])
			}
		}
	}
}

// What was made up after a loss is not told in part.
func TestLossesLeftOut(t *testing.T) {
	s := call(20, 20, 60, 60, 20)
	lose(s, 3, 1)
	s[4].Inbound.Concealed, s[5].Inbound.Concealed = f(1e9), f(1e9)
	got, left := Losses([]Line{{Session: 1, Stats: Stats{Samples: s}}})
	if len(got) != 1 || got[0].Concealed != nil || !strings.Contains(strings.Join(got[0].Why, "; "), "concealedSamples") || len(left) != 1 || left[0].Key != "concealedSamples" || left[0].N != 1 {
		t.Errorf("%+v, left out %v", got, left)
	}
}

// A clean client plays the first packet at once, and later holds 20 to 40 ms.
func TestClean(t *testing.T) {
	at := []time.Duration{3 * time.Second, 3500 * ms, 13 * time.Second, 2 * time.Second}
	held := Clean(3*time.Second, at, func(time.Duration) bool { return true })
	if held[0] > 10*ms || held[1] < held[0] || held[2] < 20*ms || held[2] > 40*ms || held[3] != 0 {
		t.Errorf("%v", held)
	}
	if len(Clean(0, nil, nil)) != 0 {
		t.Error("nothing was asked")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"request_id":"a","session":1,"stats":{"from_ms":1,"sound_ms":2,"agent_offset_ms":3,"samples":[{"at_ms":1,"inbound":{"ssrc":1,"jitterBufferDelay":2.5,"jitterBufferEmittedCount":100}},{"at_ms":2,"playout":{"totalPlayoutDelay":1,"totalSamplesCount":3},"pair":{"currentRoundTripTime":0.01}}]}}` + "\n"))
	f.Add([]byte(`{"stats":{"samples":[{},{"at_ms":1e12}]}}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, _, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, turn := range Turns(lines) {
			if d := turn.First.Buffer; d != nil && (*d < 0 || *d > maxDelay) {
				t.Errorf("a buffer of %v", *d)
			}
			w := turn.Whole
			for _, d := range []*time.Duration{w.Concealed, w.Silent, w.Stretched, w.Squeezed, w.RoundTrip} {
				if d != nil && *d < 0 {
					t.Errorf("%v of sound", *d)
				}
			}
			if w.Lost != nil && w.Packets != nil && *w.Lost < -*w.Packets {
				t.Errorf("%d lost of %d", *w.Lost, *w.Packets)
			}
			turn.Heard()
		}
		Losses(lines)
	})
}

func BenchmarkTurns(b *testing.B) {
	var lines []Line
	for i := range 200 {
		lines = append(lines, Line{Session: i, Stats: Stats{Sound: f(2250), Samples: call(20, 20, 20, 20, 20, 20, 20, 20)}})
	}
	for b.Loop() {
		Turns(lines)
		Losses(lines)
	}
}
