package asrsim_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrsim"
	"firstsound/asr/asrtest"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
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

// hear returns what is said of u in some turns, as times after their beginning.
func hear(t *testing.T, seed uint64, o asrsim.Options, u *audio.Utterance, turns ...int) (all [][]asr.Result) {
	t.Helper()
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		r := asrsim.New(v, seed, o)
		for _, turn := range turns {
			began := v.Now()
			var results []asr.Result
			for res, err := range r.Recognize(ctx, asr.Request{ID: trace.ID{Session: 1, Turn: turn}, Attempt: 1}, asrtest.NewSpeech(v, u)) {
				if err != nil {
					t.Fatal(err)
				}
				res.At -= began
				results = append(results, res)
			}
			all = append(all, results)
		}
	})
	return all
}

const said = "please tell me when you are open today"

func TestSameSeedSameResults(t *testing.T) {
	o := asrsim.Defaults()
	o.WordErrors, o.Empty = 0.2, 0.1
	first := hear(t, 5, o, utterance(said), 1, 2, 3, 4)
	for range 20 {
		if got := hear(t, 5, o, utterance(said), 1, 2, 3, 4); !reflect.DeepEqual(got, first) {
			t.Fatalf("got %v, before that %v", got, first)
		}
	}
	if got := hear(t, 6, o, utterance(said), 1, 2, 3, 4); reflect.DeepEqual(got, first) {
		t.Error("another seed gives the same results")
	}
	// Turn 3 by itself, without the ones before.
	if got := hear(t, 5, o, utterance(said), 3); !reflect.DeepEqual(got[0], first[2]) {
		t.Errorf("turn 3 alone: %v, after others: %v", got[0], first[2])
	}
}

// TestOptionsMoveOnlyTheirOwnDraws: common random numbers.
func TestOptionsMoveOnlyTheirOwnDraws(t *testing.T) {
	final := func(o asrsim.Options) time.Duration {
		for _, r := range hear(t, 5, o, utterance(said), 1)[0] {
			if r.Kind == asr.Final {
				return r.At
			}
		}
		return 0
	}
	plain, more := asrsim.Defaults(), asrsim.Defaults()
	e := random.MustParse("uniform(10ms, 20ms)")
	more.Endpoint, more.FalseEndpoint, more.WordErrors = &e, 0.5, 0.5
	more.Interim = random.Const(20 * ms)
	if a, b := final(plain), final(more); a != b {
		t.Errorf("the final comes at %v, and at %v with other options", a, b)
	}
}

// TestFinal: 10,000 draws have the median and the P95 of pipecat's benchmark
// for Deepgram, 247 and 298 ms, within 1 %.
func TestFinal(t *testing.T) {
	u := utterance(said)
	var all []time.Duration
	turns := make([]int, 10_000)
	for i := range turns {
		turns[i] = i + 1
	}
	for _, results := range hear(t, 1, asrsim.Defaults(), u, turns...) {
		last := results[len(results)-1]
		if last.Kind != asr.Final || last.Text != said {
			t.Fatalf("the last result is %+v", last)
		}
		all = append(all, last.At-u.End)
	}
	slices.Sort(all)
	for _, q := range []struct {
		p    float64
		want time.Duration
	}{{0.5, 247 * ms}, {0.95, 298 * ms}} {
		got := all[int(q.p*float64(len(all)))]
		if off := float64(got-q.want) / float64(q.want); off < -0.01 || off > 0.01 {
			t.Errorf("P%g is %v, want %v", 100*q.p, got, q.want)
		}
	}
}

func TestWhatIsSaid(t *testing.T) {
	constant := func() asrsim.Options {
		o := asrsim.Defaults()
		o.FirstPartial, o.Interim, o.Final = random.Const(300*ms), random.Const(100*ms), random.Const(250*ms)
		o.InterimComplete = 1
		return o
	}
	endpoint := random.Const(260 * ms)
	for _, c := range []struct {
		name   string
		text   string
		change func(*asrsim.Options)
		want   []asr.Result
	}{
		// 1.0 of 1.8 s of speech lie before the pause that begins at 1.2 s.
		{"plain", said, func(*asrsim.Options) {}, []asr.Result{
			{At: 500 * ms, Kind: asr.Partial, Text: "please"},
			{At: 1300 * ms, Kind: asr.Partial, Text: "please tell me when"},
			{At: 2500 * ms, Kind: asr.Partial, Text: said},
			{At: 2650 * ms, Kind: asr.Final, Text: said},
		}},
		{"endpoint after the final", said, func(o *asrsim.Options) { o.Partials, o.Endpoint = false, &endpoint }, []asr.Result{
			{At: 2650 * ms, Kind: asr.Final, Text: said},
			{At: 2660 * ms, Kind: asr.Endpoint},
		}},
		{"false endpoint", said, func(o *asrsim.Options) { o.Partials, o.Endpoint, o.FalseEndpoint = false, &endpoint, 1 }, []asr.Result{
			{At: 1460 * ms, Kind: asr.Endpoint},
			{At: 2650 * ms, Kind: asr.Final, Text: said},
			{At: 2660 * ms, Kind: asr.Endpoint},
		}},
		{"segments", said, func(o *asrsim.Options) { o.Segments = 300 * ms }, []asr.Result{
			{At: 500 * ms, Kind: asr.Partial, Text: "please"},
			{At: 1300 * ms, Kind: asr.Partial, Text: "please tell me when"},
			{At: 1450 * ms, Kind: asr.Final, Text: "please tell me when"},
			{At: 2500 * ms, Kind: asr.Partial, Text: "you are open today"},
			{At: 2650 * ms, Kind: asr.Final, Text: "you are open today"},
		}},
		{"before the end of the speech", said, func(o *asrsim.Options) { o.Partials, o.Early = false, 370*ms }, []asr.Result{
			{At: 2280 * ms, Kind: asr.Final, Text: said},
		}},
		{"empty", said, func(o *asrsim.Options) { o.Empty = 1 }, []asr.Result{{At: 2650 * ms, Kind: asr.Final}}},
		{"Chinese", "请问今天几点开门？", func(o *asrsim.Options) {}, []asr.Result{
			{At: 500 * ms, Kind: asr.Partial, Text: "请"},
			{At: 1300 * ms, Kind: asr.Partial, Text: "请问今天"},
			{At: 2500 * ms, Kind: asr.Partial, Text: "请问今天几点开门？"},
			{At: 2650 * ms, Kind: asr.Final, Text: "请问今天几点开门？"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := constant()
			c.change(&o)
			if got := hear(t, 1, o, utterance(c.text), 1)[0]; !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

func TestWordErrors(t *testing.T) {
	o := asrsim.Defaults()
	o.Partials, o.WordErrors = false, 0.1
	words := strings.Fields(said)
	wrong, all := 0, 0
	turns := make([]int, 5000)
	for i := range turns {
		turns[i] = i + 1
	}
	for _, results := range hear(t, 1, o, utterance(said), turns...) {
		got := strings.Fields(results[0].Text)
		if len(got) != len(words) {
			t.Fatalf("%q has %d words", results[0].Text, len(got))
		}
		for i := range words {
			all++
			if got[i] != words[i] {
				wrong++
			}
		}
	}
	if rate := float64(wrong) / float64(all); rate < 0.094 || rate > 0.106 { // 4 σ
		t.Errorf("%.4f of the words are wrong, want 0.1", rate)
	}
}

func TestUnknownText(t *testing.T) {
	results := hear(t, 1, asrsim.Defaults(), utterance(""), 1)[0]
	if text := results[len(results)-1].Text; len(strings.Fields(text)) != 5 { // 2.2 s at 2.5 words a second
		t.Errorf("it says %q", text)
	}
}

// TestLate: a final that never comes is waited for, and no timer wakes anybody.
func TestLate(t *testing.T) {
	o := asrsim.Defaults()
	o.Late = 1
	timeout := errors.New("timeout")
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		ctx, cancel := clocks.WithTimeout(ctx, v, 10*time.Second, timeout)
		defer cancel()
		var last error
		for r, err := range asrsim.New(v, 1, o).Recognize(ctx, asr.Request{Attempt: 1}, asrtest.NewSpeech(v, utterance(said))) {
			if err == nil && r.Kind == asr.Final {
				t.Errorf("a final came: %+v", r)
			}
			last = err
		}
		if !errors.Is(last, timeout) || v.Now() != 10*time.Second {
			t.Errorf("it ended at %v with %v", v.Now(), last)
		}
	})
}

func TestNoRecording(t *testing.T) {
	on(t, func(ctx context.Context, v *clocks.Virtual) {
		for _, err := range asrsim.New(v, 1, asrsim.Defaults()).Recognize(ctx, asr.Request{}, asrtest.NewSpeech(v, nil)) {
			if err == nil || !strings.Contains(err.Error(), "needs a recording") {
				t.Errorf("the error is %v", err)
			}
		}
	})
}
