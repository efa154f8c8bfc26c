package llmsim_test

import (
	"context"
	"testing"

	"firstsound/clocks"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/llm/llmsim"
)

// BenchmarkGenerate is one answer of which the ends of sentences matter.
func BenchmarkGenerate(b *testing.B) {
	for _, bench := range []struct {
		name   string
		change func(*llmsim.Options)
	}{
		{"defaults", func(*llmsim.Options) {}},
		{"constant TPOT", func(o *llmsim.Options) { o.TPOT = constant }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			v := clocks.NewVirtual()
			o := llmsim.Defaults()
			bench.change(&o)
			m := llmsim.New(v, 1, o)
			req := llm.Request{Attempt: 1, PromptTokens: 500, CachedTokens: 300}
			req.Matters = func(text string) bool {
				last := text[len(text)-1]
				return last == '.' || last == '!' || last == '?'
			}
			tokens := 0
			v.Go("bench", func() {
				ctx := context.Background()
				for n := 0; b.Loop(); n++ {
					req.ID = trace.ID{Session: 1, Turn: n}
					for d := range m.Generate(ctx, req) {
						if d.Kind == llm.Usage {
							tokens += d.Tokens
						}
					}
				}
			})
			b.ReportAllocs()
			if err := v.Run(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(v.Events())/float64(b.N), "wakes/op")
			b.ReportMetric(float64(tokens)/float64(b.N), "tokens/op")
		})
	}
}
