package vad

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"firstsound/audio"
)

const ms = time.Millisecond

// recording returns noise at level dBFS with a voice at -20 in the given runs.
func recording(rate int, level float64, long time.Duration, runs ...Run) audio.Frame {
	r := rand.New(rand.NewPCG(3, 4))
	f := audio.Frame{Rate: rate, PCM: make([]int16, audio.Samples(long, rate))}
	for i := range f.PCM {
		f.PCM[i] = int16(math.Sqrt(power(level)) * r.NormFloat64())
	}
	for _, run := range runs {
		for i := audio.Samples(run.Start, rate); i < audio.Samples(run.End, rate); i++ {
			t := 2 * math.Pi * 130 * float64(i) / float64(rate)
			f.PCM[i] += int16(2500 * (math.Sin(t) + math.Sin(2*t) + math.Sin(3*t)))
		}
	}
	return f
}

func TestRuns(t *testing.T) {
	quiet := math.Inf(-1)
	for _, c := range []struct {
		name  string
		level float64
		long  time.Duration
		runs  []Run
		want  []Run // if not the same
	}{
		{name: "silence", level: quiet, long: 1000 * ms},
		{name: "noise at -60", level: -60, long: 5000 * ms},
		{name: "noise at -46", level: -46, long: 5000 * ms},
		{name: "one run", level: quiet, long: 2000 * ms, runs: []Run{{300 * ms, 1300 * ms}}},
		{name: "in noise at -60", level: -60, long: 2000 * ms, runs: []Run{{300 * ms, 1300 * ms}}},
		{name: "in noise at -45", level: -45, long: 2000 * ms, runs: []Run{{300 * ms, 1300 * ms}}},
		{name: "three runs", level: -65, long: 4000 * ms, runs: []Run{{300 * ms, 900 * ms}, {950 * ms, 1500 * ms}, {2500 * ms, 3000 * ms}}},
		{name: "from the first sample", level: -65, long: 1000 * ms, runs: []Run{{0, 500 * ms}}},
		{name: "to the last sample", level: -65, long: 1005 * ms, runs: []Run{{200 * ms, 1005 * ms}}},
		{name: "a click", level: -65, long: 1000 * ms, runs: []Run{{300 * ms, 320 * ms}}, want: []Run{}},
		{name: "6 s without a pause", level: -65, long: 7000 * ms, runs: []Run{{500 * ms, 6500 * ms}}},
	} {
		want := c.runs
		if c.want != nil {
			want = c.want
		}
		for _, rate := range []int{8000, 11025, 16000, 22050, 48000} {
			got := Runs(recording(rate, c.level, c.long, c.runs...))
			same := len(got) == len(want)
			for i := range min(len(got), len(want)) {
				// A voice that begins within a hop is found at one or the other end of it.
				same = same && (got[i].Start-want[i].Start).Abs() <= 10*ms && (got[i].End-want[i].End).Abs() <= 10*ms
			}
			if !same {
				t.Errorf("%s at %d: %v, want %v", c.name, rate, got, want)
			}
		}
	}
	if got := Runs(audio.Frame{PCM: make([]int16, 100)}); got != nil {
		t.Errorf("without a rate: %v", got)
	}
}

// Noise that grows louder is taken for speech for a time, then no more.
func TestFloorFollows(t *testing.T) {
	quiet, loud := recording(16000, -65, 2*time.Second), recording(16000, -47, 5*time.Second)
	got := Runs(audio.Frame{Rate: 16000, PCM: slices.Concat(quiet.PCM, loud.PCM)})
	if len(got) != 1 || got[0].Start != 2*time.Second || got[0].End < 3400*ms || got[0].End > 3600*ms {
		t.Errorf("%v", got)
	}
}

func TestPushCuts(t *testing.T) {
	f := recording(22050, -60, 3*time.Second, Run{300 * ms, 900 * ms}, Run{1500 * ms, 2000 * ms})
	e, err := NewEnergy(f.Rate)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := e.Push(f)
	whole = slices.Clone(whole)
	if len(whole) != 4 || whole[0].Known != whole[0].At+30*ms || whole[1].Known != whole[1].At+10*ms || e.Speaking() {
		t.Fatalf("%v", whole)
	}
	r := rand.New(rand.NewPCG(1, 2))
	e, _ = NewEnergy(f.Rate)
	var got []Change
	for rest := f.PCM; len(rest) > 0; {
		n := min(len(rest), r.IntN(900))
		c, err := e.Push(audio.Frame{Rate: f.Rate, PCM: rest[:n]})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c...)
		rest = rest[n:]
	}
	if !slices.Equal(got, whole) {
		t.Errorf("%v, in one piece %v", got, whole)
	}
	if _, err := e.Push(audio.Frame{Rate: 8000}); err == nil {
		t.Error("a frame at another rate was taken")
	}
	if _, err := NewEnergy(0); err == nil {
		t.Error("rate 0 was taken")
	}
	frame := recording(22050, -60, 20*ms)
	if n := testing.AllocsPerRun(100, func() { e.Push(frame) }); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func TestStops(t *testing.T) {
	runs := []Run{{0, 100 * ms}, {300 * ms, 400 * ms}, {1000 * ms, 1200 * ms}}
	for _, c := range []struct {
		runs     []Run
		hangover time.Duration
		want     []Stop
	}{
		{nil, 100 * ms, nil},
		{runs[:1], 500 * ms, []Stop{{SpeechEnd: 100 * ms, DecidedAt: 600 * ms}}},
		{runs, 199 * ms, []Stop{{100 * ms, 299 * ms, 300 * ms, true}, {400 * ms, 599 * ms, 1000 * ms, true}, {SpeechEnd: 1200 * ms, DecidedAt: 1399 * ms}}},
		{runs, 200 * ms, []Stop{{400 * ms, 600 * ms, 1000 * ms, true}, {SpeechEnd: 1200 * ms, DecidedAt: 1400 * ms}}},
		{runs, 800 * ms, []Stop{{SpeechEnd: 1200 * ms, DecidedAt: 2000 * ms}}},
		{runs[:2], 0, []Stop{{100 * ms, 100 * ms, 300 * ms, true}, {SpeechEnd: 400 * ms, DecidedAt: 400 * ms}}},
		{runs[:1], -5, []Stop{{SpeechEnd: 100 * ms, DecidedAt: 100 * ms}}},
	} {
		if got := Stops(c.runs, c.hangover); !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %v, want %v", c.runs, c.hangover, got, c.want)
		}
	}
}

func BenchmarkEnergy(b *testing.B) {
	f := recording(16000, -60, 20*ms)
	e, _ := NewEnergy(f.Rate)
	for b.Loop() {
		e.Push(f)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(f.PCM)), "ns/sample")
}
