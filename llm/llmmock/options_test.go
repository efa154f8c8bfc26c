package llmmock

import (
	"strings"
	"testing"
	"time"

	"firstsound/clocks/random"
	"firstsound/llm/llmsim"
)

func TestSet(t *testing.T) {
	o := Defaults()
	for _, s := range []string{"first=uniform(100ms, 1s)", "tokens=uniform(20, 60)", "server={gpu: l4}", "server.model=qwen2.5-0.5b", "seed=7", "faults=[bom, 'status:429,p=0.5']", "prefix_cache=true"} {
		if err := o.Set(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	if o.First.String() != "uniform(100ms, 1s)" || o.Tokens.String() != "uniform(20, 60)" || o.Server.GPU != "l4" || o.Server.Model != "qwen2.5-0.5b" ||
		o.Seed != 7 || len(o.Faults) != 2 || !o.PrefixCache {
		t.Errorf("%+v", o)
	}
	if err := o.Check(); err != nil {
		t.Error(err)
	}
	for s, want := range map[string]string{"first": "KEY=VALUE", "frist=1ms": "frist", "server.gpus=l4": "gpus", "first=soon": "not a duration"} {
		if err := o.Set(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", s, err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	rng := random.New(1, "test")
	for text, want := range map[string][2]int{"64": {64, 64}, "uniform(20, 60)": {20, 60}, "lognormal(120, 0)": {120, 120}, "lognormal(120, 0.3)": {20, 700},
		"quantiles(p50=10, p95=20)": {5, 100}, "normal(50, 5)": {10, 90}, "heavy(100, 0.2, 400)": {20, 1000}, "0": {0, 0}} {
		n, err := ParseNumber(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for range 1000 {
			if v := n.draw(&rng); v < want[0] || v > want[1] {
				t.Errorf("%s: drew %d", text, v)
				break
			}
		}
		if n.String() != text {
			t.Errorf("%s is shown as %s", text, n)
		}
	}
	for _, text := range []string{"many", "-3", "uniform(60, 20)", "999999", "3ms", "quantiles(p50=1, p95=9999999999999999999)"} {
		if n, err := ParseNumber(text); err == nil {
			t.Errorf("%s is taken as %s", text, n)
		}
	}
}

func TestFromSim(t *testing.T) {
	sim := llmsim.Defaults()
	sim.Stall = 0.5
	o, err := Defaults().FromSim(sim)
	if err != nil || o.Prefill != 22600*time.Microsecond || o.Between.String() != sim.TPOT.String() || len(o.Faults) != 1 || o.Faults[0] != "stall:at=5,for=1s,p=0.5" || !o.PrefixCache {
		t.Errorf("%v %+v", err, o)
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"dialect: ":          func(o *Options) { o.Dialect = "x" },
		"tokens_per_chunk: ": func(o *Options) { o.TokensPerChunk = 0 },
		"reasoning: ":        func(o *Options) { o.Reasoning = -1 },
		"max_concurrent: ":   func(o *Options) { o.MaxConcurrent = 0 },
		"scripts: 1: byte 1": func(o *Options) { o.Scripts = []string{"q"} },
		"scripts: a modelled": func(o *Options) {
			o.Scripts, o.Server = []string{"t@1"}, &llmsim.Server{}
		},
		"server: gpu: ": func(o *Options) { o.Server = &llmsim.Server{GPU: "abacus"} },
		"faults: ":      func(o *Options) { o.Faults = []string{"x"} },
		"tool_call: ":   func(o *Options) { o.ToolCall = 2 },
		"prefill: ":     func(o *Options) { o.Prefill = -1 },
	} {
		o := Defaults()
		change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzParseNumber(f *testing.F) {
	for _, s := range []string{"64", "uniform(20, 60)", "heavy(100, 0.2, 400)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseNumber(s)
		if err != nil {
			return
		}
		rng := random.New(1, "fuzz")
		if v := n.draw(&rng); v < 0 || v > maxOutput {
			t.Fatalf("%q drew %d", s, v)
		}
	})
}
