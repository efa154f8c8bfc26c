package impair

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
)

const ms = time.Millisecond

func model(t testing.TB, text string) Model {
	t.Helper()
	m, err := ParseModel(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pass sends n packets of 200 bytes, one every 20 ms.
func pass(w *Way, n int) []Fate {
	var out []Fate
	for i := range n {
		out = append(out, w.Pass(time.Duration(i)*20*ms, 200))
	}
	return out
}

func TestConstantIsExact(t *testing.T) {
	for i, f := range pass(NewWay(model(t, "delay=40ms"), 1, 0), 100) {
		if want := (Fate{N: i, In: time.Duration(i) * 20 * ms, Size: 200, Drawn: 40 * ms, Out: time.Duration(i)*20*ms + 40*ms}); f != want {
			t.Fatalf("%+v, want %+v", f, want)
		}
	}
}

func TestTraceDropAndOrder(t *testing.T) {
	m := Model{Delay: 10 * ms, Trace: []time.Duration{0, 50 * ms, 0, 0}, Drop: []Range{{3, 4}, {6, 6}}}
	want := []struct {
		out  time.Duration
		lost Reason
	}{{10 * ms, ""}, {80 * ms, ""}, {80 * ms, ""}, {0, ByList}, {0, ByList}, {160 * ms, ""}, {0, ByList}, {160 * ms, ""}}
	for i, f := range pass(NewWay(m, 1, 0), len(want)) {
		if f.Out != want[i].out || f.Lost != want[i].lost {
			t.Errorf("packet %d: out %v %q, want %v %q", i, f.Out, f.Lost, want[i].out, want[i].lost)
		}
	}
	m.Reorder = true
	got := pass(NewWay(m, 1, 0), 3)
	if got[1].Out != 80*ms || got[2].Out != 50*ms || got[2].Held != 0 {
		t.Errorf("with reordering: %v and %v", got[1].Out, got[2].Out)
	}
}

// 8000 bits a second are 1 ms a byte. The bucket holds 300 bytes: packets of 200
// leave at 0, at 100 (when 200 are there again) and every 200 ms after that.
func TestBucketIsExact(t *testing.T) {
	m := Model{Rate: 8000, Burst: 300, Queue: 450 * ms}
	w := NewWay(m, 1, 0)
	for i, want := range []struct {
		in, out time.Duration
		lost    Reason
	}{
		{0, 0, ""}, {0, 100 * ms, ""}, {0, 300 * ms, ""}, {0, 0, ByQueue},
		{50 * ms, 500 * ms, ""}, // waits for 450 ms
		{2000 * ms, 2000 * ms, ""}, {2000 * ms, 2100 * ms, ""},
	} {
		f := w.Pass(want.in, 200)
		if f.Lost != want.lost || f.Lost == "" && f.Out != want.out {
			t.Errorf("packet %d: out %v %q, want %v %q", i, f.Out, f.Lost, want.out, want.lost)
		}
	}
	// One that is larger than the bucket goes when it is full, and is paid for afterwards.
	w = NewWay(m, 1, 0)
	if a, b := w.Pass(0, 500), w.Pass(0, 100); a.Out != 0 || b.Out != 300*ms {
		t.Errorf("out %v and %v, want 0 and 300ms", a.Out, b.Out)
	}
}

func TestSameSeedSameFate(t *testing.T) {
	m := model(t, "delay=20ms,jitter=normal(10ms,5ms),loss=5%,burst=3,rate=1mbit")
	a, b := pass(NewWay(m, 7, 2), 500), pass(NewWay(m, 7, 2), 500)
	if !reflect.DeepEqual(a, b) {
		t.Fatal("one seed gives two runs")
	}
	if reflect.DeepEqual(a, pass(NewWay(m, 8, 2), 500)) || reflect.DeepEqual(a, pass(NewWay(m, 7, 3), 500)) {
		t.Fatal("the seed or the way changes nothing")
	}
	// Packets of RTCP between them change nothing, where there is no rate to share.
	m.Rate = 0
	plain, mixed := pass(NewWay(m, 7, 2), 500), NewWay(m, 7, 2)
	for i, f := range plain {
		mixed.Control(f.In, 60)
		if got := mixed.Pass(f.In, 200); got != f {
			t.Fatalf("packet %d: %+v with RTCP between, %+v without", i, got, f)
		}
	}
	// The draws of one part do not move those of another.
	m.Loss = Loss{}
	for i, f := range pass(NewWay(m, 7, 2), 500) {
		if f.Drawn != a[i].Drawn {
			t.Fatalf("packet %d: without loss the delay is %v, with it %v", i, f.Drawn, a[i].Drawn)
		}
	}
}

// Shares and bursts are those of the chain: within five standard deviations.
func TestLoss(t *testing.T) {
	const n = 60000
	for _, c := range []struct {
		text        string
		mean, burst float64
	}{
		{"loss=2%", 0.02, 1 / 0.98},
		{"loss=10%,burst=4", 0.10, 4},
		{"loss=0.5,burst=2", 0.5, 2},
		{"loss=ge(1%,20%,100%,0%)", 0.01 / 0.21, 5},
		{"loss=ge(5%,20%,50%,1%)", 0.2*0.5 + 0.8*0.01, 0},
	} {
		m := model(t, c.text)
		if got := m.Loss.Mean(); math.Abs(got-c.mean) > 1e-12 {
			t.Errorf("%s: mean %v, want %v", c.text, got, c.mean)
		}
		lost, bursts, before := 0, 0, false
		for _, f := range pass(NewWay(m, 3, 0), n) {
			if f.Lost == ByLoss {
				lost++
				if !before {
					bursts++
				}
			}
			before = f.Lost == ByLoss
		}
		share := float64(lost) / n
		if tolerance := 5 * math.Sqrt(2*max(1, c.burst)*c.mean/n); math.Abs(share-c.mean) > tolerance {
			t.Errorf("%s: %v are lost, want %v ± %v", c.text, share, c.mean, tolerance)
		}
		if length := float64(lost) / float64(bursts); c.burst > 0 && math.Abs(length-c.burst) > 0.1*c.burst {
			t.Errorf("%s: bursts of %v, want %v", c.text, length, c.burst)
		}
	}
}

// The mean of a Pareto that is cut off, and of a normal distribution cut off at zero.
func TestDistributions(t *testing.T) {
	bounded := func(l, a, h float64) float64 {
		return math.Pow(l, a) / (1 - math.Pow(l/h, a)) * a / (a - 1) * (math.Pow(l, 1-a) - math.Pow(h, 1-a))
	}
	for text, want := range map[string]float64{
		"5ms":                    5,
		"uniform(10ms,30ms)":     20,
		"normal(10ms,2ms)":       10,
		"normal(0ms,10ms)":       10 * math.Sqrt(2/math.Pi),
		"pareto(1ms,2.5,500ms)":  bounded(1, 2.5, 500),
		"pareto(2ms, 1.2, 1s)":   bounded(2, 1.2, 1000),
		"exponential(15ms)":      15,
		"quantiles(p50=10ms)":    -1,
		"lognormal(10ms, 0.500)": 10 * math.Exp(0.125),
	} {
		m := model(t, "reorder,jitter="+text)
		sum := 0.0
		for _, f := range pass(NewWay(m, 5, 0), 40000) {
			sum += float64(f.Drawn) / float64(ms)
			if f.Drawn < 0 || strings.HasPrefix(text, "pareto") && (f.Drawn < 1*ms || f.Drawn > time.Second) {
				t.Fatalf("%s: %v", text, f.Drawn)
			}
		}
		if got := sum / 40000; want > 0 && math.Abs(got-want) > 0.05*want {
			t.Errorf("%s: mean %v ms, want %v", text, got, want)
		}
	}
}

// On a Virtual clock the packets come out at the very times that were drawn.
func TestVirtual(t *testing.T) {
	m := model(t, "delay=40ms,jitter=uniform(0ms,15ms)")
	run := func() (at []time.Duration) {
		v := clocks.NewVirtual()
		v.Go("sender", func() {
			w := NewWay(m, 9, 0)
			for i := range 50 {
				v.SleepUntil(t.Context(), time.Duration(i)*20*ms)
				f := w.Pass(v.Now(), 200)
				v.At(f.Out, func() { at = append(at, v.Now()-f.In) })
			}
			v.Sleep(t.Context(), time.Second) // for those under way
		})
		if err := v.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return at
	}
	a := run()
	for i, f := range pass(NewWay(m, 9, 0), 50) {
		if a[i] != f.Drawn || a[i] < 40*ms || a[i] > 55*ms {
			t.Fatalf("packet %d took %v, drawn %v", i, a[i], f.Drawn)
		}
	}
	if !reflect.DeepEqual(a, run()) {
		t.Error("the second run differs")
	}
}

func TestParse(t *testing.T) {
	m := model(t, "delay=40ms, jitter=normal(10ms,5ms),loss=2%,burst=3,rate=100kbit,reorder,drop=0-4+17,cut=1s-2500ms,stun")
	want := Model{Delay: 40 * ms, Cut: []Span{{time.Second, 2500 * ms}}, Jitter: m.Jitter, Reorder: true, Loss: Bursts(0.02, 3), Drop: []Range{{0, 4}, {17, 17}}, Rate: 100_000, Burst: DefaultBurst, Queue: DefaultQueue, STUN: true}
	if !reflect.DeepEqual(m, want) || m.Jitter.String() != "normal(10ms,5ms)" {
		t.Errorf("%+v", m)
	}
	if zero := model(t, " "); !reflect.DeepEqual(zero, Model{}) {
		t.Errorf("%+v", zero)
	}
	for text, want := range map[string]string{
		"dealy=40ms":                     `"dealy": there is no such key; there are delay, jitter`,
		"delay":                          "delay: it needs a value",
		"delay=":                         "delay: it needs a value",
		"delay=40":                       `"delay": "40" is not a duration`,
		"delay=-4ms":                     "does not lie between 0 and an hour",
		"delay=1ms,delay=2ms":            "delay: it is there twice",
		"reorder=yes":                    "reorder: it takes no value",
		"delay=1ms,,reorder":             "missing between two commas",
		"jitter=normal(10ms)":            "normal takes 2 values",
		"jitter=gauss(1ms,2ms)":          "no distribution is called",
		"jitter=pareto(1ms,2)":           "pareto(least, shape, most)",
		"jitter=pareto(1ms,x,2ms)":       "pareto: shape",
		"jitter=pareto(5ms,2,1ms)":       "need 0 < least < most",
		"jitter=1000h":                   "above an hour",
		"loss=120%":                      "is not a share",
		"loss=100%":                      "below 100%",
		"loss=80%,burst=3":               "cannot come in bursts of 3",
		"loss=2%,burst=0":                "from 1 to 1000",
		"burst=3":                        "it goes with a loss",
		"loss=ge(1%,2%)":                 "ge(1%,30%,90%,0%)",
		"loss=ge(1%,0%,100%,0%)":         "every packet is lost",
		"rate=100":                       "is not a rate such as 100kbit",
		"rate=10bit":                     "between 1kbit",
		"queue=1s":                       "it goes with a rate",
		"rate=1mbit,bucket=0":            "bucket: 0 bytes",
		"drop=5-3":                       "is not a run of packets",
		"drop=3+1":                       "is not a run of packets",
		"drop=a":                         "list of packets such as 0-4+17",
		"cut=5s":                         "is not a list of up to 100 times such as 10s-15s",
		"cut=5s-3s":                      "cut: 5s-3s is not a time behind",
		"cut=1s-3s+2s-4s":                "cut: 2s-4s is not a time behind",
		"trace=no/such/file":             `"trace": open no/such/file`,
		"delay=40ms,jitter=normal(1ms,2": "closing parenthesis",
	} {
		if _, err := ParseModel(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "impair: ") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"loss=1%": "loss", "drop=1": "loss", "reorder": "reorder"} {
		if err := model(t, text).CheckStream(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a stream with %s: %v", text, err)
		}
	}
}

func TestReadTrace(t *testing.T) {
	got, err := readTrace(strings.NewReader("# delays\n12.5ms\n\n 1s \n0\n"))
	if err != nil || !reflect.DeepEqual(got, []time.Duration{12500 * time.Microsecond, time.Second, 0}) {
		t.Errorf("%v %v", got, err)
	}
	for text, want := range map[string]string{"1ms\nx\n": "line 2", "": "no delays", strings.Repeat("x", 1<<17): "token too long"} {
		if _, err := readTrace(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func FuzzParseModel(f *testing.F) {
	f.Add("delay=40ms,jitter=normal(10ms,5ms),loss=2%,burst=3,rate=100kbit,reorder")
	f.Add("loss=ge(1%,30%,90%,0%),drop=0-4+17,cut=40ms-50ms+1s-2s,rate=1mbit,bucket=9,queue=1s,stun,dtls,trace=a")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseModel(text, func(name string) ([]time.Duration, error) { return readTrace(strings.NewReader(name)) })
		if err != nil {
			return
		}
		if len(m.Trace) == 0 {
			again, err := ParseModel(m.String())
			if err != nil || again.String() != m.String() {
				t.Fatalf("%q: %q: %v", text, m.String(), err)
			}
		}
		before := time.Duration(0)
		for _, fate := range pass(NewWay(m, 1, 0), 20) {
			if fate.Lost != Kept {
				continue
			}
			if fate.Out < fate.In || !m.Reorder && fate.Out < before || fate.Out != fate.In+fate.Queued+fate.Drawn+fate.Held {
				t.Fatalf("%q: %+v", text, fate)
			}
			before = fate.Out
		}
	})
}

func BenchmarkPass(b *testing.B) {
	w := NewWay(model(b, "delay=40ms,jitter=normal(10ms,5ms),loss=2%,burst=3,rate=10mbit"), 1, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Pass(time.Duration(i)*ms, 200)
	}
}
