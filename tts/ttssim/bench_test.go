package ttssim_test

import (
	"context"
	"slices"
	"testing"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/tts"
	"firstsound/tts/ttssim"
)

// BenchmarkSpeak is one answer of two sentences, 7 s of sound.
func BenchmarkSpeak(b *testing.B) {
	v := clocks.NewVirtual()
	s := ttssim.New(v, 1, ttssim.Defaults())
	text := slices.Values([]string{"Of course, I can help you with that.", "Could you tell me the number of your order, please, and when you made it?"})
	chunks := 0
	v.Go("bench", func() {
		ctx := context.Background()
		for n := 0; b.Loop(); n++ {
			for range s.Speak(ctx, tts.Request{ID: trace.ID{Session: 1, Turn: n}, Attempt: 1}, text) {
				chunks++
			}
		}
	})
	b.ReportAllocs()
	if err := v.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(v.Events())/float64(b.N), "wakes/op")
	b.ReportMetric(float64(chunks)/float64(b.N), "chunks/op")
}
