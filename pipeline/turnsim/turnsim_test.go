package turnsim

import (
	"context"
	"iter"
	"math"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
	"firstsound/pipeline"
)

type speech struct{ u *audio.Utterance }

func (s speech) Frames(context.Context) iter.Seq2[audio.Frame, error] { return nil }
func (s speech) Await(context.Context, time.Duration) (time.Duration, error) {
	return 0, nil
}
func (s speech) Utterance() *audio.Utterance { return s.u }

// A pause is the last one if the speech was over when it was noticed, wherever
// the VAD thinks that the speech stopped. Both judgements err as often as they
// are told, within 4 standard errors.
func TestFinished(t *testing.T) {
	u := &audio.Utterance{End: 2 * time.Second}
	for _, test := range []struct {
		offset, heard time.Duration
		want          float64
	}{
		{1900 * time.Millisecond, 2100 * time.Millisecond, 0.9},
		{1700 * time.Millisecond, 2000 * time.Millisecond, 0.9}, // the last consonant was too soft for the VAD
		{800 * time.Millisecond, time.Second, 0.2},
	} {
		v := clocks.NewVirtual()
		d := New(v, 1, Options{Inference: random.Const(12 * time.Millisecond), Finished: 0.9, FalseFinish: 0.2})
		const n = 4000
		yes := 0
		v.Go("test", func() {
			for i := range n {
				ok, err := d.Finished(t.Context(), pipeline.Pause{ID: trace.ID{Session: 1, Turn: i}, Number: 1, Offset: test.offset, Heard: test.heard, Speech: speech{u}})
				if err != nil {
					t.Error(err)
				}
				if ok {
					yes++
				}
			}
		})
		if err := v.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := float64(yes) / n; math.Abs(got-test.want) > 4*math.Sqrt(test.want*(1-test.want)/n) {
			t.Errorf("stop at %v, heard %v: finished in %.3f, want %.2f", test.offset, test.heard, got, test.want)
		}
		if v.Now() != n*12*time.Millisecond {
			t.Errorf("%d judgements took %v", n, v.Now())
		}
	}
}

func TestLiveCaller(t *testing.T) {
	v := clocks.NewVirtual()
	v.Go("test", func() {
		if _, err := New(v, 1, Defaults()).Finished(t.Context(), pipeline.Pause{Speech: speech{}}); err == nil {
			t.Error("no error without a recording")
		}
	})
	v.Run(t.Context())
}
