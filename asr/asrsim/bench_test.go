package asrsim_test

import (
	"context"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrsim"
	"firstsound/asr/asrtest"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// BenchmarkRecognize is one utterance with a pause, all waits included.
func BenchmarkRecognize(b *testing.B) {
	v := clocks.NewVirtual()
	r := asrsim.New(v, 1, asrsim.Defaults())
	u := utterance("please tell me when you are open today")
	results := 0
	v.Go("bench", func() {
		ctx := context.Background()
		for n := 0; b.Loop(); n++ {
			speech := asrtest.NewSpeech(v, u)
			for range r.Recognize(ctx, asr.Request{ID: trace.ID{Session: 1, Turn: n}, Attempt: 1}, speech) {
				results++
			}
		}
	})
	b.ReportAllocs()
	if err := v.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(v.Events())/float64(b.N), "wakes/op")
}

// utterance is said from 0.2 to 2.4 s, with a pause from 1.2 to 1.6 s.
func utterance(text string) *audio.Utterance {
	const rate = 16000
	u := &audio.Utterance{
		ID: "test", Text: text, Start: 200 * time.Millisecond, End: 2400 * time.Millisecond,
		Sound: audio.Frame{Rate: rate, PCM: make([]int16, 3*rate)},
	}
	for i := range u.Sound.PCM {
		at := audio.Span(i, rate)
		if at >= u.Start && at < u.End && (at < 1200*time.Millisecond || at >= 1600*time.Millisecond) {
			u.Sound.PCM[i] = int16(i%100-50) * 100
		}
	}
	return u
}
