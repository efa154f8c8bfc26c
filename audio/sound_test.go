package audio

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sine returns n samples of a sine with this peak, 1 being full scale.
func sine(n, rate int, hz, peak float64) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = saturate(32767 * peak * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return pcm
}

// noise returns n samples of white Gaussian noise at level dBFS.
func noise(n int, level float64, seed uint64) []int16 {
	r := rand.New(rand.NewPCG(seed, 1))
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = saturate(math.Sqrt(power(level)) * r.NormFloat64())
	}
	return pcm
}

// mix adds b to a from sample at on.
func mix(a []int16, at int, b []int16) []int16 {
	for i, x := range b {
		a[at+i] = saturate(float64(a[at+i]) + float64(x))
	}
	return a
}

func constant(n int, x int16) []int16 { return slices.Repeat([]int16{x}, n) }

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		name      string
		pcm       []int16
		rms, peak float64
	}{
		{"none", nil, math.Inf(-1), math.Inf(-1)},
		{"silence", make([]int16, 100), math.Inf(-1), math.Inf(-1)},
		{"most negative", constant(10, -32768), 0, 0},
		{"half", constant(10, 16384), -6.02, -6.02},
		{"one step", constant(10, 1), -90.31, -90.31},
		{"sine", sine(16000, 16000, 100, 1), -3.01, 0},
		{"sine -40", sine(16000, 16000, 100, 0.01414), -40, -36.99},
	} {
		if got := RMS(Frame{16000, c.pcm}); !(math.Abs(got-c.rms) < 0.01 || got == c.rms) {
			t.Errorf("%s: RMS %.3f, want %.2f", c.name, got, c.rms)
		}
		if got := Peak(Frame{16000, c.pcm}); !(math.Abs(got-c.peak) < 0.01 || got == c.peak) {
			t.Errorf("%s: peak %.3f, want %.2f", c.name, got, c.peak)
		}
	}
}

func TestClipped(t *testing.T) {
	for _, c := range []struct {
		pcm          []int16
		first, count int
		ok           bool
	}{
		{nil, 0, 0, false},
		{[]int16{32767, 32767, 0, -32768}, 0, 0, false},
		{[]int16{5, 32767, 32767, 32767, 0, -32768, -32768, -32768, -32768}, 1, 7, true},
	} {
		first, count, ok := Clipped(Frame{8000, c.pcm})
		if first != c.first || count != c.count || ok != c.ok {
			t.Errorf("%v: %d %d %v", c.pcm, first, count, ok)
		}
	}
}

// onset is Pipecat's rule done the long way round, with all windows computed
// from their samples.
func onset(pcm []int16, rate int) (int, bool) {
	window := int(math.RoundToEven(float64(rate) * 10 / 1000))
	hop := int(math.RoundToEven(float64(rate) / 1000))
	if len(pcm) == 0 {
		return 0, false
	}
	padded := append(constant(window/2, pcm[0]), pcm...)
	run := 0
	for i := 0; i*hop+window <= len(padded); i++ {
		mean, square := 0.0, 0.0
		for _, x := range padded[i*hop : i*hop+window] {
			mean += float64(x) / float64(window)
		}
		for _, x := range padded[i*hop : i*hop+window] {
			square += (float64(x) - mean) * (float64(x) - mean)
		}
		if dBFS(square/float64(window)) > -40 {
			run++
		} else {
			run = 0
		}
		if run == 50 {
			return (i - 49) * hop, true
		}
	}
	return 0, false
}

func TestAudible(t *testing.T) {
	const ms = 16 // samples
	speech := func(at, n int, peak float64) []int16 {
		return mix(make([]int16, 500*ms), at*ms, sine(n*ms, 16000, 200, peak))
	}
	for _, c := range []struct {
		name  string
		pcm   []int16
		want  int // ms
		found bool
	}{
		{"none", nil, 0, false},
		{"silence", make([]int16, 500*ms), 0, false},
		{"loud from 100 ms", speech(100, 300, 0.5), 96, true},
		{"loud at once", speech(0, 300, 0.5), 0, true},
		{"all constant", constant(500*ms, 12000), 0, false},
		{"-40.6 dBFS", sine(500*ms, 16000, 200, 0.0132), 0, false},
		{"-39.4 dBFS", sine(500*ms, 16000, 200, 0.0152), 4, true},
		{"click, then speech", mix(speech(200, 200, 0.5), 50*ms, constant(5*ms, 20000)), 196, true},
		{"35 ms is too short", speech(100, 35, 0.5), 0, false},
		{"45 ms spread by the window is not", speech(100, 45, 0.5), 96, true},
		{"noise at -50, speech", mix(noise(500*ms, -50, 1), 250*ms, sine(100*ms, 16000, 200, 0.3)), 246, true},
	} {
		at, found, err := FirstAudible(Frame{16000, c.pcm})
		if err != nil || found != c.found || at != c.want*ms {
			t.Errorf("%s: %d ms (%d), %v, %v; want %d ms, %v", c.name, at/ms, at, found, err, c.want, c.found)
		}
	}
}

func TestAudibleIsPipecats(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	found := 0
	for i := range 160 {
		rate := []int{1000, 8000, 11025, 16000, 22050, 24000, 44100, 48000}[i%8]
		n := rate / 2
		pcm := mix(noise(n, -45-20*r.Float64(), uint64(i)), 0, constant(n, int16(r.IntN(4000)-2000)))
		for range r.IntN(4) {
			at, long := r.IntN(n), r.IntN(rate/8)
			mix(pcm, at, sine(min(long, n-at), rate, 100+300*r.Float64(), 0.1*r.Float64()))
		}
		want, ok := onset(pcm, rate)
		a, err := NewAudible(rate)
		if err != nil {
			t.Fatal(err)
		}
		var got int
		var gotOK bool
		for rest := pcm; len(rest) > 0; {
			k := min(len(rest), r.IntN(700))
			if got, gotOK, err = a.Push(Frame{rate, rest[:k]}); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		if got != want || gotOK != ok {
			t.Fatalf("signal %d at %d: %d %v, want %d %v", i, rate, got, gotOK, want, ok)
		}
		if ok {
			found++
		}
	}
	if found < 16 || found > 144 {
		t.Errorf("%d of 160 signals are audible: the test is too easy", found)
	}
}

func TestAudibleFrames(t *testing.T) {
	for _, rate := range []int{-1, 0, 999, 384001} {
		if _, err := NewAudible(rate); err == nil {
			t.Errorf("rate %d taken", rate)
		}
	}
	a, _ := NewAudible(16000)
	if _, _, err := a.Push(Frame{8000, make([]int16, 10)}); err == nil {
		t.Error("a frame at another rate was taken")
	}
	a.Push(Frame{16000, make([]int16, 1600)})
	if _, _, ok := a.Pending(); ok {
		t.Error("silence is pending")
	}
	a.Push(Frame{16000, sine(20*16, 16000, 200, 0.5)})
	if at, lasted, ok := a.Pending(); !ok || at != 96*16 || lasted != 20*16 {
		t.Errorf("pending %d, %d, %v", at, lasted, ok)
	}
	frame := Frame{16000, make([]int16, 320)}
	if n := testing.AllocsPerRun(100, func() { a.Push(frame) }); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

// A stream whose head is level is looked at as any other, wherever it is cut.
func TestAudibleLevelHead(t *testing.T) {
	for _, rate := range []int{8000, 11025, 22050, 24000, 48000} {
		for _, head := range []int{0, 1, rate / 400, rate / 100, rate/100 + 1, rate / 9} {
			pcm := constant(head, 700)
			pcm = append(pcm, sine(rate/10, rate, 200, 0.5)...)
			want, _, _ := FirstAudible(Frame{rate, append([]int16{701}, pcm...)}) // not level from its second sample on
			for _, cut := range []int{1, 7, 64, len(pcm)} {
				a, _ := NewAudible(rate)
				var got int
				var found bool
				for rest := pcm; len(rest) > 0; rest = rest[min(cut, len(rest)):] {
					got, found, _ = a.Push(Frame{rate, rest[:min(cut, len(rest))]})
				}
				if hop := int(math.RoundToEven(float64(rate) / 1000)); !found || got > want || got < want-hop {
					t.Errorf("%d samples at %d in pieces of %d: %d, %v; one sample later %d", head, rate, cut, got, found, want)
				}
			}
		}
	}
}

func TestSpeechBounds(t *testing.T) {
	for _, rate := range []int{8000, 11025, 16000, 48000} {
		for _, level := range []float64{math.Inf(-1), -70, -50, -40} {
			for k, from := range []time.Duration{250 * time.Millisecond, 313*time.Millisecond + 300*time.Microsecond} {
				to := from + 1207*time.Millisecond
				n := Samples(2*time.Second, rate)
				a, b := Samples(from, rate), Samples(to, rate)
				pcm := mix(noise(n, level, uint64(k)), 0, constant(n, 300))
				// Harmonics of a voice, with a pause in the middle.
				for h := 1.0; h < 8; h++ {
					mix(pcm, a, sine((b-a)/3, rate, 140*h, 0.08))
					mix(pcm, b-(b-a)/3, sine((b-a)/3, rate, 140*h, 0.08))
				}
				bounds, err := FindSpeech(Frame{rate, pcm})
				if err != nil {
					t.Errorf("%d, noise %v: %v", rate, level, err)
					continue
				}
				early, late := from-bounds.Start, bounds.End-to
				// Noise may make the frames next to the speech active, and a sine
				// begins and ends at zero.
				const slack = 2 * time.Millisecond
				if early < -slack || early > slack || late < -slack || late > slack {
					t.Errorf("%d, noise %v: %v early, %v late", rate, level, early, late)
				}
				if len(bounds.Warnings) > 0 {
					t.Errorf("%d, noise %v: %q", rate, level, bounds.Warnings)
				}
			}
		}
	}
}

func TestFindSpeechWarns(t *testing.T) {
	const ms = 16
	base := func(level float64) []int16 {
		return mix(noise(2000*ms, level, 9), 300*ms, sine(1000*ms, 16000, 150, 0.3))
	}
	for _, c := range []struct {
		name       string
		pcm        []int16
		start, end int // ms, within 2
		warnings   []string
	}{
		{"clean", base(-70), 300, 1300, nil},
		{"short tail", base(-70)[:1400*ms], 300, 1300, []string{"only 100ms of silence after the speech: its end may be cut or lie later; record 200ms and more"}},
		{"no head", base(-70)[300*ms:], 0, 1000, []string{"speech begins 0s after the recording: its beginning may be cut"}},
		{"click in the tail", mix(base(-70), 1700*ms, constant(5*ms, 9000)), 300, 1300, []string{"1 sounds shorter than 30ms were taken for clicks, the first at 1.7s"}},
		{"click in the head", mix(base(-70), 50*ms, constant(5*ms, 9000)), 300, 1300, []string{"1 sounds shorter than 30ms were taken for clicks, the first at 50ms"}},
		{"burst of a final t", mix(base(-70), 1380*ms, noise(15*ms, -30, 3)), 300, 1396, nil},
		{"clipped", mix(base(-70), 700*ms, sine(5*ms, 16000, 300, 1)), 300, 1300, []string{"clipped: 11 samples at full scale, the first at 701ms"}},
		{"second end", mix(base(-70), 1400*ms, sine(200*ms, 16000, 150, 0.004)), 300, 1600, []string{"the end is not clear: 1.6s, or 1.3s for sound that is 12 dB louder; mark it by hand"}},
		{"constant", mix(base(-70), 0, constant(2000*ms, 1000)), 300, 1300, nil},
	} {
		b, err := FindSpeech(Frame{16000, c.pcm})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		near := func(d time.Duration, ms int) bool {
			return (d - time.Duration(ms)*time.Millisecond).Abs() <= 2*time.Millisecond
		}
		if !near(b.Start, c.start) || !near(b.End, c.end) {
			t.Errorf("%s: %v to %v, want %d to %d ms", c.name, b.Start, b.End, c.start, c.end)
		}
		if !slices.Equal(b.Warnings, c.warnings) {
			t.Errorf("%s: warnings %q, want %q", c.name, b.Warnings, c.warnings)
		}
	}
	for _, c := range []struct {
		name string
		f    Frame
		want string
	}{
		{"no samples", Frame{16000, nil}, "audio: recording of 0s is too short to find speech in: need 10ms"},
		{"no rate", Frame{0, make([]int16, 100)}, "audio: rate of 0 samples a second: need 1000 to 384000"},
		{"silence", Frame{16000, make([]int16, 16000)}, ErrNoSpeech.Error()},
		{"noise", Frame{16000, noise(32000, -40, 8)}, ErrNoSpeech.Error()},
		{"a constant", Frame{16000, constant(16000, 5000)}, ErrNoSpeech.Error()},
		{"a pop", Frame{16000, mix(make([]int16, 16000), 5000, constant(20*ms, 9000))}, ErrNoSpeech.Error()},
	} {
		if _, _, err := SpeechBounds(c.f); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

// fit returns the amplitude of the best sine of this frequency in pcm, and how
// far above all the rest it is in dB.
func fit(pcm []int16, rate int, hz float64) (amplitude, snr float64) {
	var ss, cc, sc, xs, xc float64
	for i, x := range pcm {
		s, c := math.Sincos(2 * math.Pi * hz * float64(i) / float64(rate))
		ss, cc, sc, xs, xc = ss+s*s, cc+c*c, sc+s*c, xs+float64(x)*s, xc+float64(x)*c
	}
	det := ss*cc - sc*sc
	a, b := (xs*cc-xc*sc)/det, (xc*ss-xs*sc)/det
	var rest float64
	for i, x := range pcm {
		s, c := math.Sincos(2 * math.Pi * hz * float64(i) / float64(rate))
		d := float64(x) - a*s - b*c
		rest += d * d
	}
	amplitude = math.Hypot(a, b)
	return amplitude, 10 * math.Log10(amplitude*amplitude/2*float64(len(pcm))/rest)
}

func TestResampleQuality(t *testing.T) {
	for _, c := range []struct {
		in, out int
		worst   float64 // dB of signal over all else, a sine of -0.9 dBFS; 16 bits by themselves give 97
	}{
		{8000, 16000, 92}, {16000, 8000, 92}, {16000, 48000, 92}, {48000, 16000, 92}, {24000, 16000, 92},
		{16000, 24000, 92}, {22050, 16000, 92}, {44100, 16000, 92}, {44100, 48000, 92}, {48000, 44100, 92}, {8000, 48000, 92},
		{16000, 16001, 90}, {47999, 16000, 90}, // ratios with more positions than rows
	} {
		worst, ripple := math.Inf(1), 0.0
		low := float64(min(c.in, c.out)) / 2
		for _, part := range []float64{0.02, 0.1, 0.25, 0.5, 0.7, 0.8} {
			hz := part * low
			got := Resample(Frame{c.in, sine(c.in/8, c.in, hz, 0.9)}, c.out)
			edge := c.out / 50
			amplitude, snr := fit(got.PCM[edge:len(got.PCM)-edge], c.out, hz)
			worst = min(worst, snr)
			ripple = max(ripple, math.Abs(20*math.Log10(amplitude/(0.9*32767))))
		}
		alias := math.Inf(-1)
		if c.out < c.in {
			for _, part := range []float64{1.0, 1.1, 1.5, 1.9} {
				if hz := part * low; hz < float64(c.in)/2 {
					got := Resample(Frame{c.in, sine(c.in/8, c.in, hz, 0.9)}, c.out)
					edge := c.out / 50
					alias = max(alias, RMS(Frame{c.out, got.PCM[edge : len(got.PCM)-edge]}))
				}
			}
		}
		t.Logf("%d to %d: signal over all else %.1f dB, ripple %.4f dB, aliases at %.1f dBFS", c.in, c.out, worst, ripple, alias)
		if worst < c.worst || ripple > 0.01 || alias > -80 {
			t.Errorf("%d to %d: signal over all else %.1f dB, ripple %.4f dB, aliases at %.1f dBFS", c.in, c.out, worst, ripple, alias)
		}
	}
}

func TestResampleCount(t *testing.T) {
	for _, c := range []struct{ n, in, out, want int }{
		{0, 8000, 16000, 0}, {1, 8000, 16000, 2}, {1, 16000, 8000, 0}, {3, 16000, 8000, 1}, {160, 16000, 48000, 480},
		{441, 44100, 16000, 160}, {100000, 22050, 16000, 72562}, {999, 16000, 16000, 999}, {7, 384000, 1000, 0}, {7, 1000, 384000, 2688},
		{10, 0, 8000, 0}, {10, 8000, 0, 0}, {10, 8000, -1, 0},
	} {
		got := Resample(Frame{c.in, make([]int16, c.n)}, c.out)
		if len(got.PCM) != c.want || got.Rate != c.out {
			t.Errorf("%d from %d to %d: %d samples at %d, want %d", c.n, c.in, c.out, len(got.PCM), got.Rate, c.want)
		}
	}
}

func TestResampleAligned(t *testing.T) {
	// A pulse in the middle of a long file is where it was: no delay, no drift.
	for _, c := range []struct{ in, out int }{{16000, 48000}, {44100, 48000}, {48000, 16000}, {22050, 16000}, {16000, 16001}} {
		n := 20 * c.in
		at := n - n/50
		pcm := make([]int16, n)
		mix(pcm, at-c.in/100, sine(c.in/50, c.in, 50, 0.5)) // zero in its middle, positive before
		got := Resample(Frame{c.in, pcm}, c.out)
		want := (float64(at-c.in/100) + float64(c.in)/100) * float64(c.out) / float64(c.in)
		i := int(want) - c.out/200
		for got.PCM[i] > 0 {
			i++
		}
		zero := float64(i-1) + float64(got.PCM[i-1])/float64(int(got.PCM[i-1])-int(got.PCM[i]))
		if math.Abs(zero-want) > 0.02 {
			t.Errorf("%d to %d: %.3f samples off", c.in, c.out, zero-want)
		}
	}
}

func TestResamplerCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ in, out int }{{16000, 48000}, {44100, 16000}, {48000, 8000}, {22050, 16000}, {16000, 16001}, {8000, 8000}} {
		f := Frame{c.in, noise(20000, -20, 7)}
		want := Resample(f, c.out)
		s, err := NewResampler(c.in, c.out)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // Flush makes it new
			got := []int16{}
			for rest := f.PCM; len(rest) > 0; {
				k := min(len(rest), r.IntN(1000)*r.IntN(2)+r.IntN(3))
				out, err := s.Push(Frame{c.in, rest[:k]})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, out.PCM...)
				rest = rest[k:]
				behind := (len(f.PCM)-len(rest))*c.out/c.in - len(got)
				if most := Samples(s.Lookahead(), c.out) + 2; behind > most {
					t.Fatalf("%d to %d: %d samples behind, want %d at most", c.in, c.out, behind, most)
				}
			}
			got = append(got, s.Flush().PCM...)
			if !slices.Equal(got, want.PCM) {
				t.Errorf("%d to %d: cut into pieces it is another sound", c.in, c.out)
			}
		}
		if _, err := s.Push(Frame{c.in + 1, nil}); err == nil {
			t.Error("a frame at another rate was taken")
		}
	}
	for _, c := range []struct{ in, out int }{{0, 8000}, {8000, 0}, {-8000, 8000}, {8000, 1 << 40}} {
		if _, err := NewResampler(c.in, c.out); err == nil {
			t.Errorf("%d to %d taken", c.in, c.out)
		}
	}
}

func TestResampleSaturates(t *testing.T) {
	got := Resample(Frame{8000, append(constant(100, -32768), constant(100, 32767)...)}, 16000)
	if slices.Max(got.PCM) != 32767 || slices.Min(got.PCM) != -32768 {
		t.Error("overshoot is not held at full scale")
	}
	if i := slices.IndexFunc(got.PCM[:190], func(x int16) bool { return x > 0 }); i >= 0 {
		t.Errorf("sample %d wrapped round", i)
	}
}

func FuzzResampler(f *testing.F) {
	f.Add(8000, 16000, []byte("some sound"), 3)
	f.Add(44100, 48000, make([]byte, 300), 100)
	f.Fuzz(func(t *testing.T, in, out int, sound []byte, cut int) {
		pcm := make([]int16, len(sound)/2)
		for i := range pcm {
			pcm[i] = int16(sound[2*i]) | int16(sound[2*i+1])<<8
		}
		want := Resample(Frame{in, pcm}, out)
		r, err := NewResampler(in, out)
		if err != nil {
			return
		}
		if len(want.PCM) != len(pcm)*out/in {
			t.Fatalf("%d samples of %d", len(want.PCM), len(pcm))
		}
		cut = max(0, min(cut, len(pcm)))
		a, _ := r.Push(Frame{in, pcm[:cut]})
		b, _ := r.Push(Frame{in, pcm[cut:]})
		if !slices.Equal(slices.Concat(a.PCM, b.PCM, r.Flush().PCM), want.PCM) {
			t.Fatal("cut into pieces it is another sound")
		}
	})
}

func BenchmarkAudible(b *testing.B) {
	for _, rate := range []int{8000, 16000, 24000, 48000} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			f := Frame{rate, noise(rate/50, -60, 1)}
			a, _ := NewAudible(rate)
			for b.Loop() {
				a.Push(f)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(f.PCM)), "ns/sample")
		})
	}
}

func BenchmarkResampler(b *testing.B) {
	for _, c := range []struct{ in, out int }{{16000, 48000}, {48000, 16000}, {22050, 16000}} {
		b.Run(fmt.Sprintf("%d-%d", c.in, c.out), func(b *testing.B) {
			f := Frame{c.in, noise(c.in/50, -20, 1)}
			r, _ := NewResampler(c.in, c.out)
			for b.Loop() {
				r.Push(f)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(f.PCM)), "ns/sample")
		})
	}
}

func BenchmarkFindSpeech(b *testing.B) {
	f := Frame{16000, mix(noise(48000, -60, 1), 8000, noise(20000, -20, 2))}
	for b.Loop() {
		FindSpeech(f)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(f.PCM)), "ns/sample")
}
