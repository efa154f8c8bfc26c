package ttssim_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
	"firstsound/tts"
	"firstsound/tts/ttssim"
)

const ms = time.Millisecond

// on runs f on a Virtual clock.
func on(t *testing.T, f func(ctx context.Context, v *clocks.Virtual)) {
	t.Helper()
	v := clocks.NewVirtual()
	v.Go("test", func() { f(context.Background(), v) })
	if err := v.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// speak returns what is said in some turns, each a session of its own, as times
// after their beginning.
func speak(t *testing.T, seed uint64, o ttssim.Options, texts []string, turns ...int) (all [][]tts.Chunk) {
	t.Helper()
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		s := ttssim.New(v, seed, o)
		for _, turn := range turns {
			began := v.Now()
			var chunks []tts.Chunk
			for c, err := range s.Speak(ctx, tts.Request{ID: trace.ID{Session: turn, Turn: 1}, Attempt: 1}, slices.Values(texts)) {
				if err != nil {
					t.Fatal(err)
				}
				c.At -= began
				chunks = append(chunks, c)
			}
			all = append(all, chunks)
		}
	})
	return all
}

func sound(chunks []tts.Chunk) (f audio.Frame) {
	for _, c := range chunks {
		if len(c.Sound.PCM) > 0 {
			f.Rate = c.Sound.Rate
			f.PCM = append(f.PCM, c.Sound.PCM...)
		}
	}
	return f
}

var two = []string{"Of course, I can help you with that.", "Could you tell me the number of your order, please?"}

func TestSameSeedSameSound(t *testing.T) {
	o := ttssim.Defaults()
	o.Stall = 0.5
	first := speak(t, 5, o, two, 1, 2, 3, 4)
	for range 20 {
		if got := speak(t, 5, o, two, 1, 2, 3, 4); !reflect.DeepEqual(got, first) {
			t.Fatal("the same seed gives other chunks")
		}
	}
	if got := speak(t, 6, o, two, 1, 2, 3, 4); reflect.DeepEqual(got, first) {
		t.Error("another seed gives the same chunks")
	}
	if got := speak(t, 5, o, two, 3); !reflect.DeepEqual(got[0], first[2]) {
		t.Error("turn 3 alone is not what it is after others")
	}
}

// TestFirstAudio: 10,000 draws have the median and the interquartile range that
// Coval measured for Cartesia Sonic-3, 188 and 100 ms, within 3 %.
func TestFirstAudio(t *testing.T) {
	turns := make([]int, 10_000)
	for i := range turns {
		turns[i] = i + 1
	}
	o := ttssim.Defaults()
	o.Connect = random.Dist{}
	var all []time.Duration
	for _, chunks := range speak(t, 1, o, []string{"Sure!"}, turns...) {
		all = append(all, chunks[1].At)
	}
	slices.Sort(all)
	median, iqr := all[5000], all[7500]-all[2500]
	t.Logf("median %v, interquartile range %v", median, iqr)
	if math.Abs(float64(median)/188e6-1) > 0.03 || math.Abs(float64(iqr)/100e6-1) > 0.03 {
		t.Errorf("median %v, interquartile range %v", median, iqr)
	}
}

// TestLengths: how long the sound is, and where it becomes audible.
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
	}{
		{"Sure! I am here", time.Second},
		{"  Sure! I am here\n", time.Second},
		{strings.Repeat("x", 300), 20 * time.Second},
		{"我们今天一直营业到晚上八点请您过来看看吧好不好呀", 4615 * ms}, // 24 characters
		{"好。", 259 * ms},
	} {
		for _, rate := range []int{8000, 16000, 22050, 24000, 48000} {
			for _, lead := range []time.Duration{0, 80 * ms, 5 * time.Second} {
				o := ttssim.Defaults()
				o.SampleRate, o.LeadSilence, o.TailSilence = rate, random.Const(lead), random.Const(50*ms)
				f := sound(speak(t, 1, o, []string{c.text}, 1)[0])
				if got := f.Duration() - lead - 50*ms; got-c.want > ms || c.want-got > ms {
					t.Errorf("%q at %d makes %v, want %v", c.text, rate, got, c.want)
				}
				at, found, err := audio.FirstAudible(f)
				if err != nil || !found {
					t.Fatalf("%q at %d cannot be heard: %v", c.text, rate, err)
				}
				// The rule reports the middle of the first window that has enough in
				// it, which is up to 5 ms early.
				if off := audio.Span(at, rate) - lead; off < -5*ms || off > ms {
					t.Errorf("%q at %d with %v of silence is audible at %v", c.text, rate, lead, audio.Span(at, rate))
				}
				if lead == 0 && c.want > time.Second {
					if level := audio.RMS(audio.Frame{Rate: rate, PCM: f.PCM[:rate]}); level < -20.1 || level > -19.9 {
						t.Errorf("the voice has %.2f dBFS at %d", level, rate)
					}
				}
			}
		}
	}
}

// TestJoining: the sound is the same as with chunks of one length, no wake more
// than needed, and whoever plays from the first chunk on never runs dry.
func TestJoining(t *testing.T) {
	text := []string{strings.Repeat("We are open today. ", 20)} // 25 s
	for _, c := range []struct {
		rtf    float64
		chunks int
	}{{0, 8}, {0.03, 8}, {0.1, 9}, {0.3, 20}, {0.49, 60}, {0.5, 127}, {0.9, 127}, {1, 127}} {
		o := ttssim.Defaults()
		o.LeadSilence, o.RTF = random.Dist{}, c.rtf
		chunks := speak(t, 1, o, text, 1)[0][1:] // the first is Connected
		if len(chunks) > c.chunks {
			t.Errorf("rtf %g: %d chunks, at most %d are needed", c.rtf, len(chunks), c.chunks)
		}
		first, told := chunks[0].At, time.Duration(0)
		for i, k := range chunks {
			if i > 0 && k.At-first > told {
				t.Errorf("rtf %g: chunk %d comes %v after the first, when %v of sound have been played", c.rtf, i+1, k.At-first, told)
			}
			told += k.Sound.Duration()
		}
		end := chunks[len(chunks)-1].At - first
		if want := time.Duration(c.rtf * float64(told-chunks[0].Sound.Duration())); end-want > ms || want-end > ms {
			t.Errorf("rtf %g: all is made %v after the first chunk, want %v", c.rtf, end, want)
		}
	}
}

// TestCutJoinedChunk: if the context ends, the sound that had been made is told
// although its chunk was not complete.
func TestCutJoinedChunk(t *testing.T) {
	o := ttssim.Options{FirstAudio: random.Const(100 * ms), RTF: 0.1, Rate: 15, RateHan: 5, SampleRate: 8000, Chunk: 200 * ms}
	barge := errors.New("barge-in")
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		ctx, cancel := clocks.WithTimeout(ctx, v, 165*ms, barge)
		defer cancel()
		var total time.Duration
		var last error
		for c, err := range ttssim.New(v, 1, o).Speak(ctx, tts.Request{}, slices.Values([]string{strings.Repeat("x", 150)})) {
			total += time.Duration(len(c.Sound.PCM)) * time.Second / 8000
			last = err
		}
		// 65 ms after the first chunk of 200 ms there are 650 ms more: three chunks.
		if total != 800*ms || !errors.Is(last, barge) {
			t.Errorf("%v of sound, then %v", total, last)
		}
	})
}

func TestStall(t *testing.T) {
	o := ttssim.Defaults()
	o.Stall, o.StallFor = 1, random.Const(3*time.Second)
	plain := speak(t, 1, ttssim.Defaults(), two[:1], 1)[0]
	stalled := speak(t, 1, o, two[:1], 1)[0]
	if a, b := sound(plain), sound(stalled); !slices.Equal(a.PCM, b.PCM) {
		t.Error("a stall changes the sound")
	}
	a, b := plain[len(plain)-1].At, stalled[len(stalled)-1].At
	if b-a < 2900*ms || b-a > 3100*ms {
		t.Errorf("all is there after %v, and after %v with a stall of 3s", a, b)
	}
}

// TestConnection: it is made beside the wait for the text.
func TestConnection(t *testing.T) {
	o := ttssim.Options{Connect: random.Const(300 * ms), KeepAlive: time.Minute, FirstAudio: random.Const(100 * ms), Rate: 15, RateHan: 5, SampleRate: 8000, Chunk: 200 * ms}
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		s := ttssim.New(v, 1, o)
		for i, c := range []struct {
			text             time.Duration // when there is a text
			connected, sound time.Duration
		}{{0, 300 * ms, 400 * ms}, {0, 0, 100 * ms}, {500 * ms, 0, 600 * ms}} {
			began := v.Now()
			text := func(yield func(string) bool) {
				v.Sleep(ctx, c.text)
				yield("Sure!")
			}
			for k := range s.Speak(ctx, tts.Request{}, text) {
				if at := k.At - began; k.Connected && at != c.connected || !k.Connected && at != c.sound {
					t.Errorf("turn %d: %v (connected %v)", i+1, at, k.Connected)
				}
			}
		}
		v.Sleep(ctx, 2*time.Minute) // too long for the connection
		began := v.Now()
		for k := range s.Speak(ctx, tts.Request{}, slices.Values(two)) {
			if k.Connected && k.At-began != 300*ms {
				t.Errorf("after a long pause: connected after %v", k.At-began)
			}
		}
	})
}

func TestOddPieces(t *testing.T) {
	chunks := speak(t, 1, ttssim.Defaults(), []string{"", " \n", "Sure!", "…"}, 1)[0]
	lasts := 0
	for _, c := range chunks {
		if c.Last {
			lasts++
		}
	}
	if lasts != 4 {
		t.Errorf("%d pieces were spoken, want 4", lasts)
	}
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*ttssim.Options){
		"sample_rate": func(o *ttssim.Options) { o.SampleRate = 0 },
		"chunk":       func(o *ttssim.Options) { o.Chunk = 0 },
		"rate":        func(o *ttssim.Options) { o.Rate = 0 },
		"rtf":         func(o *ttssim.Options) { o.RTF = -1 },
	} {
		o := ttssim.Defaults()
		change(&o)
		on(t, func(ctx context.Context, v *clocks.Virtual) {
			var last error
			for _, err := range ttssim.New(v, 1, o).Speak(ctx, tts.Request{}, slices.Values(two)) {
				last = err
			}
			if last == nil || !strings.Contains(last.Error(), want) {
				t.Errorf("bad %s: the error is %v", want, last)
			}
		})
	}
}
